"""From evaluations to the contents of windows, many at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import chain
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from metrics.catalogue import Catalogue
from metrics.contents import Contents, Counts
from metrics.summary import DEFAULT_SCHEME, Floats, Scheme, scheme, tally
from schemas.evaluation import Decision, Evaluation

Key = TypeVar("Key", bound=Hashable)


class Scored(NamedTuple, Generic[Key]):
    """What of an evaluation enters a window, and which window."""

    key: Key
    scores: Mapping[str, float | None]
    categories: Mapping[str, str | None]
    decision: Decision
    version: str


class Totals:
    """Sums evaluations up. A scored evaluation enters with its free metrics, a judged one only with those judged.

    So an event that is scored and later judged is counted once by each metric.
    """

    def __init__(self, catalogue: Catalogue) -> None:
        self.schemes: Mapping[str, Scheme] = {
            name: scheme(metric) for name, metric in catalogue.metrics.items() if metric.unit != "category"
        }
        self._free = frozenset(name for name, metric in catalogue.metrics.items() if metric.cost == "free")

    def read(self, evaluation: Evaluation, key: Key) -> Scored[Key]:
        """What of an evaluation counts."""
        scores, categories, decision = evaluation.scores, evaluation.categories, evaluation.decision
        if evaluation.stage == "judged":
            scores = {name: value for name, value in scores.items() if name not in self._free}
            categories = {name: label for name, label in categories.items() if name not in self._free}
        return Scored(key, scores, categories, decision, evaluation.catalogue_version)

    def of(self, events: Sequence[Scored[Key]]) -> dict[Key, Contents]:
        """The contents that the events make, per window, in the order in which the windows are first met."""
        if not events:
            return {}
        groups: dict[Key, int] = {}
        owners = [groups.setdefault(event.key, len(groups)) for event in events]
        contents = [Contents() for _ in groups]
        for event, owner in zip(events, owners, strict=True):
            own = contents[owner]
            own.events += 1
            own.versions.add(event.version)
            for name, label in event.categories.items():
                if label is not None:
                    _count(own.categories, name, label)
            for suite in event.decision.suites:
                _count(own.decisions, suite.suite, suite.status)
        names, values = _matrix([event.scores for event in events])
        schemes = {name: self.schemes.get(name, DEFAULT_SCHEME) for name in names}
        if schemes:
            for owner, summaries in tally(schemes, values, np.array(owners, dtype=np.int64)).items():
                contents[owner].metrics = summaries
        return dict(zip(groups, contents, strict=True))


def _matrix(scores: Sequence[Mapping[str, float | None]]) -> tuple[list[str], Floats]:
    """One row per event, one column per metric that is met; NaN where there is no value."""
    # Nearly always all events have the same metrics in the same order.
    shapes: dict[tuple[str, ...], list[int]] = {}
    for row, own in enumerate(scores):
        shapes.setdefault(tuple(own), []).append(row)
    columns = {name: column for column, name in enumerate(dict.fromkeys(chain.from_iterable(shapes)))}
    values = np.full((len(scores), len(columns)), np.nan)
    for shape, rows in shapes.items():
        block = np.array([list(scores[row].values()) for row in rows], dtype=np.float64)
        values[np.ix_(rows, [columns[name] for name in shape])] = block.reshape(len(rows), len(shape))
    return list(columns), values


def _count(counts: Counts, name: str, label: str) -> None:
    own = counts.setdefault(name, {})
    own[label] = own.get(label, 0) + 1
