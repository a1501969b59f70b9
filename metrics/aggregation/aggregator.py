"""Aggregation of many evaluations into windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from math import isnan
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ragweir.metrics.aggregation.estimate import Chance, Estimate, Subject, estimate_name
from ragweir.metrics.aggregation.summary import DEFAULT_SCHEME, Floats, Scheme, add_values, scheme
from ragweir.metrics.aggregation.window_aggregate import Counts, WindowAggregate, WindowDecoder
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.packed_scores import Outcomes, ScoreNames, ScoreRow, matrix

Key = TypeVar("Key", bound=Hashable)


class WindowEntry(NamedTuple, Generic[Key]):
    """The row of an evaluation, and the key of its window."""

    key: Key
    row: ScoreRow


class Aggregator:
    """Aggregates evaluations, so that an event that is scored and later judged is counted once.

    A scored evaluation adds an event, its metrics and the decisions of its suites. A judged one only adds its judged
    metrics, their estimates, and the status of the suites that had selected the event.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.schemes: dict[str, Scheme] = {
            name: scheme(metric) for name, metric in catalogue.metrics.items() if metric.unit != "category"
        }
        self._free = frozenset(name for name, metric in catalogue.metrics.items() if metric.cost == "free")
        self._estimated: dict[str, Subject] = {}
        self._categories: dict[str, tuple[Subject, Mapping[str, str]]] = {}
        """Names of the estimates of the labels' shares by label, for each judged category."""
        for name, metric in catalogue.metrics.items():
            low, high = metric.bounds
            if metric.unit == "category" and metric.cost != "free":
                labels = {label: estimate_name(name, label) for label in metric.labels}
                self._categories[name] = Subject(metric.group), labels
            elif metric.cost != "free" and low is not None and high is not None:
                self._estimated[name] = Subject(metric.group, low, high)

    def decoder(self) -> WindowDecoder:
        """Return a decoder of windows; the scheme of a metric that it meets first is then used for events as well."""
        shares = ((each, subject) for subject, labels in self._categories.values() for each in labels.values())
        return WindowDecoder(
            self.schemes, {name: subject.suite for name, subject in (*self._estimated.items(), *shares)}
        )

    def counted(self, names: Iterable[str], *, judged: bool) -> list[str]:
        """Return the names that count of an evaluation: of a judged one, those of judged metrics."""
        return [name for name in names if not judged or name not in self._free]

    def aggregate(self, events: Sequence[WindowEntry[Key]]) -> dict[Key, WindowAggregate]:
        """Aggregate events by window, in the order of each window's first event."""
        contents = {key: WindowAggregate() for key in dict.fromkeys(event.key for event in events)}
        self.add(events, contents)
        return contents

    def add(self, events: Sequence[WindowEntry[Key]], into: Mapping[Key, WindowAggregate]) -> None:
        """Add events to the aggregates of their windows, which are changed.

        Raises:
            ValueError: if a metric of an aggregate was summarised or estimated in another way.
        """
        if not events:
            return
        contents = list(into.values())
        numbers = {key: number for number, key in enumerate(into)}
        owners = [numbers[event.key] for event in events]
        groups: dict[tuple[ScoreNames, bool], list[int]] = {}
        alike: Counter[tuple[int, ScoreNames, Outcomes]] = Counter()
        for place, (owner, (_, row)) in enumerate(zip(owners, events, strict=True)):
            groups.setdefault((row.names, row.judged), []).append(place)
            if row.judged:
                self._judge(contents[owner], row)
            else:
                contents[owner].events += 1
                alike[owner, row.names, row.outcomes] += 1
        for (owner, names, outcomes), times in alike.items():
            _add_outcomes(contents[owner], names, outcomes, times)
        schemes, values = self._matrix(events, groups)
        if schemes:
            add_values([own.metrics for own in contents], schemes, values, np.array(owners, dtype=np.int64))

    def _matrix(
        self, events: Sequence[WindowEntry[Key]], groups: Mapping[tuple[ScoreNames, bool], list[int]]
    ) -> tuple[dict[str, Scheme], Floats]:
        """Return the metrics that count, and one row per event and one column per metric, with NaN for null."""
        counted = {group: self.counted(group[0].scores, judged=group[1]) for group in groups}
        columns = {name: column for column, name in enumerate(dict.fromkeys(chain.from_iterable(counted.values())))}
        schemes = {name: self.schemes.get(name, DEFAULT_SCHEME) for name in columns}
        blocks = {group: matrix([events[place].row for place in places]) for group, places in groups.items()}
        if len(groups) == 1 and not (only := next(iter(groups)))[1]:  # Nearly always.
            return schemes, blocks[only]
        values = np.full((len(events), len(columns)), np.nan)
        for (names, judged), places in groups.items():
            own = counted[names, judged]
            found = [names.scores.index(name) for name in own]
            values[np.ix_(places, [columns[name] for name in own])] = blocks[names, judged][:, found]
        return schemes, values

    def _judge(self, own: WindowAggregate, row: ScoreRow) -> None:
        """Add the judgements of an event: its categories, and the estimates of the suites that had selected it."""
        own.versions.add(row.names.version)
        judged = _add_statuses(own, row.outcomes)
        for name, value in zip(row.names.scores, row.names.doubles.unpack(row.values), strict=True):
            subject = self._estimated.get(name)
            if subject is not None and subject.suite in judged and not isnan(value):
                own.estimates.setdefault(name, Estimate(subject)).add(value, judged[subject.suite])
        for name, label in zip(row.names.categories, row.outcomes.categories, strict=True):
            if label is None or name in self._free:
                continue
            _count(own.categories, name, label)
            if name not in self._categories:
                continue
            subject, labels = self._categories[name]
            if subject.suite in judged:
                for each, share in labels.items():
                    estimate = own.estimates.setdefault(share, Estimate(subject))
                    estimate.add(float(each == label), judged[subject.suite])


def _add_statuses(own: WindowAggregate, outcomes: Outcomes) -> dict[str, float]:
    """Add the statuses of the suites that had selected an event; return the probabilities of those that judged it."""
    judged: dict[str, float] = {}
    for suite, status, probability in outcomes.suites:
        if status in ("not_selected", "selected") or not probability:  # The scored evaluation counted it.
            continue
        _count(own.decisions, suite, status)
        own.chances[suite] = Chance(probability).merged(own.chances.get(suite, Chance()))
        if status == "judged":
            judged[suite] = probability
    return judged


def _add_outcomes(own: WindowAggregate, names: ScoreNames, outcomes: Outcomes, times: int) -> None:
    """Add the categories and decisions of scored events that have the same ones."""
    own.versions.add(names.version)
    for name, label in zip(names.categories, outcomes.categories, strict=True):
        if label is not None:
            _count(own.categories, name, label, times)
    for suite, status, probability in outcomes.suites:
        _count(own.decisions, suite, status, times)
        chance = Chance(probability) if probability else Chance(none=times)
        own.chances[suite] = chance.merged(own.chances.get(suite, Chance()))


def _count(counts: Counts, name: str, label: str, times: int = 1) -> None:
    own = counts.setdefault(name, {})
    own[label] = own.get(label, 0) + times
