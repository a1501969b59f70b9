"""Aggregation of many evaluations into windows."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ragweir.metrics.aggregation.estimate import Chance, Estimate, Subject, estimate_name
from ragweir.metrics.aggregation.summary import DEFAULT_SCHEME, Floats, Scheme, scheme, summarise
from ragweir.metrics.aggregation.window_aggregate import Counts, WindowAggregate, WindowDecoder
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.evaluation import Decision, Evaluation
from ragweir.schemas.evaluation_record import DecisionRecord, EvaluationRecord

Key = TypeVar("Key", bound=Hashable)


Route = tuple[str, str, float]
"""The decision on an event and a suite: suite, status and probability."""


class WindowEntry(NamedTuple, Generic[Key]):
    """The part of an evaluation that is aggregated, and the key of its window."""

    key: Key
    scores: Mapping[str, float | None]
    categories: Mapping[str, str | None]
    decision: Decision | DecisionRecord
    version: str
    judged: bool


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

    def entry(self, evaluation: Evaluation | EvaluationRecord, key: Key) -> WindowEntry[Key]:
        """Return the part of an evaluation that is aggregated."""
        scores, categories, decision = evaluation.scores, evaluation.categories, evaluation.decision
        judged = evaluation.stage == "judged"
        if judged:
            scores = {name: value for name, value in scores.items() if name not in self._free}
            categories = {name: label for name, label in categories.items() if name not in self._free}
        return WindowEntry(key, scores, categories, decision, evaluation.catalogue_version, judged)

    def aggregate(self, events: Sequence[WindowEntry[Key]]) -> dict[Key, WindowAggregate]:
        """Aggregate events by window, in the order of each window's first event."""
        if not events:
            return {}
        groups: dict[Key, int] = {}
        owners = [groups.setdefault(event.key, len(groups)) for event in events]
        contents = [WindowAggregate() for _ in groups]
        routed: list[dict[Route, int]] = [{} for _ in groups]
        for event, owner in zip(events, owners, strict=True):
            own = contents[owner]
            own.versions.add(event.version)
            for name, label in event.categories.items():
                if label is not None:
                    _count(own.categories, name, label)
            if event.judged:
                self._judge(own, event)
                continue
            own.events += 1
            counts = routed[owner]
            for suite in event.decision.suites:
                route = suite.suite, suite.status, suite.probability
                counts[route] = counts.get(route, 0) + 1
        for own, counts in zip(contents, routed, strict=True):
            _add_decisions(own, counts)
        names, values = _matrix([event.scores for event in events])
        schemes = {name: self.schemes.get(name, DEFAULT_SCHEME) for name in names}
        if schemes:
            for owner, summaries in summarise(schemes, values, np.array(owners, dtype=np.int64)).items():
                contents[owner].metrics = summaries
        return dict(zip(groups, contents, strict=True))

    def _judge(self, own: WindowAggregate, event: WindowEntry[Key]) -> None:
        """Add the judged metrics of an event that was selected."""
        judged = _add_statuses(own, event.decision)
        for name, value in event.scores.items():
            subject = self._estimated.get(name)
            if value is not None and subject is not None and subject.suite in judged:
                own.estimates.setdefault(name, Estimate(subject)).add(value, judged[subject.suite])
        for name, label in event.categories.items():
            if label is None or name not in self._categories:
                continue
            subject, labels = self._categories[name]
            if subject.suite in judged:
                for each, share in labels.items():
                    estimate = own.estimates.setdefault(share, Estimate(subject))
                    estimate.add(float(each == label), judged[subject.suite])


def _add_statuses(own: WindowAggregate, decision: Decision | DecisionRecord) -> dict[str, float]:
    """Add the statuses of the suites that had selected an event; return the probabilities of those that judged it."""
    judged: dict[str, float] = {}
    for suite in decision.suites:
        if suite.status in ("not_selected", "selected") or not suite.probability:  # The scored evaluation counted it.
            continue
        _count(own.decisions, suite.suite, suite.status)
        own.chances[suite.suite] = Chance(suite.probability).merged(own.chances.get(suite.suite, Chance()))
        if suite.status == "judged":
            judged[suite.suite] = suite.probability
    return judged


def _add_decisions(own: WindowAggregate, routed: Mapping[Route, int]) -> None:
    """Add the decisions on scored events."""
    for (name, status, probability), count in routed.items():
        _count(own.decisions, name, status, count)
        chance = Chance(probability) if probability else Chance(none=count)
        own.chances[name] = chance.merged(own.chances.get(name, Chance()))


def _matrix(scores: Sequence[Mapping[str, float | None]]) -> tuple[list[str], Floats]:
    """Return one row per event and one column per metric, with NaN for null."""
    # Nearly always all events have the same metrics in the same order.
    shapes: dict[tuple[str, ...], list[int]] = {}
    for row, own in enumerate(scores):
        shapes.setdefault(tuple(own), []).append(row)
    columns = {name: column for column, name in enumerate(dict.fromkeys(chain.from_iterable(shapes)))}
    values = np.full((len(scores), len(columns)), np.nan)
    for shape, rows in shapes.items():
        # Much faster from one flat list than from a list per row.
        block = np.array([*chain.from_iterable(scores[row].values() for row in rows)], dtype=np.float64)
        values[np.ix_(rows, [columns[name] for name in shape])] = block.reshape(len(rows), len(shape))
    return list(columns), values


def _count(counts: Counts, name: str, label: str, times: int = 1) -> None:
    own = counts.setdefault(name, {})
    own[label] = own.get(label, 0) + times
