"""Aggregation of many evaluations into windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from math import isnan
from typing import NamedTuple, TypeVar

import numpy as np

from ragweir.metrics.aggregation.column_sums import add_values
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric, estimate_name
from ragweir.metrics.aggregation.selection import NO_EVENTS, Chance, Weights
from ragweir.metrics.aggregation.summary import DEFAULT_SCHEME, Floats, Scheme, scheme
from ragweir.metrics.aggregation.window_aggregate import Counts, WindowAggregate, WindowDecoder
from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.judged.deciding import expected
from ragweir.schemas.packed_scores import Outcomes, ScoreNames, ScoreRow, matrix

Key = TypeVar("Key", bound=Hashable)


class Aggregator:
    """Aggregates evaluations, so that an event that is scored and later judged is counted once.

    A scored evaluation adds an event, its metrics, and the decisions of its suites with the sums over selected events.
    A judged one only adds its judged metrics, their estimates, and the status of the suites that had selected it. Where
    a decision model gave probabilities, estimates use them in place of the value: the mean of a number, and the
    probability of a label.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.schemes: dict[str, Scheme] = {
            name: scheme(metric) for name, metric in catalogue.metrics.items() if metric.unit != "category"
        }
        self._free = frozenset(name for name, metric in catalogue.metrics.items() if metric.cost == "free")
        self.suites = {name: metric.group for name, metric in catalogue.metrics.items() if metric.cost != "free"}
        """Suites of the judged metrics."""
        self._estimated: dict[str, EstimatedMetric] = {}
        self._categories: dict[str, tuple[EstimatedMetric, Mapping[str, str]]] = {}
        """Names of the estimates of the labels' shares by label, for each judged category."""
        for name, metric in catalogue.metrics.items():
            low, high = metric.bounds
            if metric.unit == "category" and metric.cost != "free":
                labels = {label: estimate_name(name, label) for label in metric.labels}
                self._categories[name] = EstimatedMetric(metric.group), labels
            elif metric.cost != "free" and low is not None and high is not None:
                self._estimated[name] = EstimatedMetric(metric.group, low, high)

    def decoder(self) -> WindowDecoder:
        """Return a decoder of windows; the scheme of a metric that it meets first is then used for events as well."""
        shares = ((each, subject) for subject, labels in self._categories.values() for each in labels.values())
        return WindowDecoder(
            self.schemes, {name: subject.suite for name, subject in (*self._estimated.items(), *shares)}
        )

    def counted(self, names: Iterable[str], *, judged: bool) -> list[str]:
        """Return the names that count of an evaluation: of a judged one, those of judged metrics."""
        return [name for name in names if not judged or name not in self._free]

    def aggregate(self, rows: Sequence[ScoreRow], keys: Sequence[Key]) -> dict[Key, WindowAggregate]:
        """Aggregate the rows of evaluations by the keys of their windows, in the order of each one's first event."""
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        contents = {key: WindowAggregate() for key in numbers}
        self.add(rows, [numbers[key] for key in keys], list(contents.values()))
        return contents

    def add(self, rows: Sequence[ScoreRow], owners: Sequence[int], into: Sequence[WindowAggregate]) -> None:
        """Add the rows of evaluations to the aggregates of their windows, which are changed.

        Args:
            rows: the rows.
            owners: the index of each row's aggregate.
            into: the aggregates.

        Raises:
            ValueError: if a metric of an aggregate was summarised or estimated in another way.
        """
        if not rows:
            return
        # Most events of a window have the same categories and decisions.
        alike = Counter(
            zip(owners, [row.outcomes for row in rows], [(row.names, row.judged) for row in rows], strict=True)
        )
        for (owner, outcomes, (names, judged)), times in alike.items():
            if not judged:
                _add_outcomes(into[owner], names, outcomes, times)
        groups = dict.fromkeys(group for _, _, group in alike)
        for names, judged in groups:
            if judged:
                for owner, row in zip(owners, rows, strict=True):
                    if row.judged and row.names is names:
                        self._judge(into[owner], row)
        schemes, values = self._matrix(rows, list(groups))
        if schemes:
            add_values([own.metrics for own in into], schemes, values, np.array(owners, dtype=np.int64))

    def _matrix(
        self, rows: Sequence[ScoreRow], groups: Sequence[tuple[ScoreNames, bool]]
    ) -> tuple[dict[str, Scheme], Floats]:
        """Return the metrics that count, and one row per event and one column per metric, with NaN for null.

        `groups` are the names of the rows, each with true for judged ones.
        """
        counted = [self.counted(names.scores, judged=judged) for names, judged in groups]
        columns = {name: column for column, name in enumerate(dict.fromkeys(chain.from_iterable(counted)))}
        schemes = {name: self.schemes.get(name, DEFAULT_SCHEME) for name in columns}
        if len(groups) == 1 and not groups[0][1]:  # Nearly always.
            return schemes, matrix(rows)
        values = np.full((len(rows), len(columns)), np.nan)
        for (names, judged), own in zip(groups, counted, strict=True):
            places = [place for place, row in enumerate(rows) if row.names is names and row.judged == judged]
            found = [names.scores.index(name) for name in own]
            block = matrix([rows[place] for place in places])[:, found]
            values[np.ix_(places, [columns[name] for name in own])] = block
        return schemes, values

    def _judge(self, own: WindowAggregate, row: ScoreRow) -> None:
        """Add the judgements of an event: its categories, and the estimates of the suites that had selected it."""
        own.versions.add(row.names.version)
        suites = _add_statuses(own, row.outcomes)
        for name, value in zip(row.names.scores, row.names.doubles.unpack(row.values), strict=True):
            subject = self._estimated.get(name)
            if subject is not None and subject.suite in suites:
                known = None if isnan(value) else _expected(row.outcomes, name, value)
                _add_to_estimate(own, name, subject, known, row.outcomes, suites[subject.suite], name)
        for name, label in zip(row.names.categories, row.outcomes.categories, strict=True):
            if name in self._free:
                continue
            if label is not None:
                _count(own.categories, name, label)
            subject, labels = self._categories.get(name, _NO_CATEGORY)
            if subject.suite in suites:
                for each, share in labels.items():
                    known = None if label is None else row.outcomes.probabilities.get(name, {label: 1.0}).get(each, 0.0)
                    _add_to_estimate(own, share, subject, known, row.outcomes, suites[subject.suite], name)


def _expected(outcomes: Outcomes, name: str, value: float) -> float:
    """Return the mean of a metric by its probabilities; its value if it has none."""
    distribution = outcomes.probabilities.get(name)
    mean = expected(distribution) if distribution else None
    return value if mean is None else mean


_NO_CATEGORY: tuple[EstimatedMetric, Mapping[str, str]] = EstimatedMetric(""), {}


def _add_to_estimate(
    own: WindowAggregate,
    name: str,
    subject: EstimatedMetric,
    value: float | None,
    outcomes: Outcomes,
    suite: _Suite,
    metric: str,
) -> None:
    """Add the value of an event to an estimate, or that its metric is not defined for it.

    An event with neither adds nothing but the estimate: it is found missing among the selected ones.
    """
    estimate = own.estimates.get(name)
    if estimate is None:
        estimate = own.estimates[name] = Estimate(subject)
    if value is not None and suite.status == "judged":
        estimate.add(value, suite.probability)
    elif value is None and metric in outcomes.undefined and suite.status in _FINAL:
        estimate.add_undefined(suite.probability)


class _Suite(NamedTuple):
    status: str
    probability: float


_FINAL = ("judged", "failed")
"""The statuses with which the judge has looked at an event, and which never change."""


def _add_statuses(own: WindowAggregate, outcomes: Outcomes) -> dict[str, _Suite]:
    """Add the statuses of the suites that had selected an event, and return them with the probabilities."""
    suites: dict[str, _Suite] = {}
    for suite, status, probability in outcomes.suites:
        if status in ("not_selected", "selected") or not probability:  # The scored evaluation counted it.
            continue
        _count(own.decisions, suite, status)
        own.chances[suite] = Chance(probability).merged(own.chances.get(suite, Chance()))
        suites[suite] = _Suite(status, probability)
    return suites


def _add_outcomes(own: WindowAggregate, names: ScoreNames, outcomes: Outcomes, times: int) -> None:
    """Add the categories and decisions of scored events that have the same ones."""
    own.events += times
    own.versions.add(names.version)
    for name, label in zip(names.categories, outcomes.categories, strict=True):
        if label is not None:
            _count(own.categories, name, label, times)
    for suite, status, probability in outcomes.suites:
        _count(own.decisions, suite, status, times)
        selected = Weights.of(probability, times) if probability and status == "selected" else NO_EVENTS
        chance = Chance(probability, 0, selected) if probability else Chance(none=times)
        own.chances[suite] = chance.merged(own.chances.get(suite, Chance()))


def _count(counts: Counts, name: str, label: str, times: int = 1) -> None:
    own = counts.setdefault(name, {})
    own[label] = own.get(label, 0) + times
