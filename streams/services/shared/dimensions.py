"""The dimensions of windows: the labels of an evaluation, and the number of label sets that are kept apart."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from operator import attrgetter

from ragweir.metrics.aggregation.cardinality import AdmissionLimits, Labels
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import AnsweredRecord, EvaluationRecord
from ragweir.schemas.packed_scores import DimensionFields
from ragweir.schemas.window import OVERFLOW
from ragweir.streams.settings import WindowSettings

Labelled = Evaluation | EvaluationRecord | AnsweredRecord | DimensionFields
"""The fields that dimensions can name: of an evaluation, or of its row."""

_LONGEST = 120
"""The longest value of a label in characters. A longer one is cut and ends with a hash of the whole value."""

_MAX_SHARED = 4_096


def label(name: str, evaluation: Labelled) -> str:
    """Return an evaluation's value of a dimension; empty if it has none.

    >>> from datetime import UTC, datetime
    >>> label("labels.region", Evaluation(event_id="1", event_time=datetime(2026, 1, 1, tzinfo=UTC),
    ...                                   labels={"region": "eu"}, catalogue_version="1"))
    'eu'
    """
    return _reader(name)(evaluation) or ""


def _reader(name: str) -> Callable[[Labelled], str | None]:
    field, _, key = name.partition(".")
    return (lambda evaluation: evaluation.labels.get(key)) if key else attrgetter(field)


def admission_limits(windows: WindowSettings) -> AdmissionLimits:
    """Return the limits on label sets by the settings.

    >>> admission_limits(WindowSettings())
    AdmissionLimits(most=200, new_per_hour=100, hold_s=7200)
    """
    return AdmissionLimits(windows.max_series, windows.new_series_per_hour, windows.hold_h * 3600)


class Dimensions:
    """Reads the label sets of evaluations.

    Args:
        names: fields of the evaluation, or `labels.NAME`.
        values: the admitted values by dimension; a dimension that is not listed admits all.
    """

    def __init__(self, names: Collection[str], values: Mapping[str, Collection[str]]) -> None:
        self.names = tuple(names)
        self._readers = [(_reader(name), values.get(name)) for name in self.names]
        self._shared: dict[Labels, Labels] = {}
        self.overflow: Labels = (OVERFLOW,) * len(self.names)

    def of(self, evaluation: Labelled) -> Labels:
        """Return the label set of an evaluation, with overflow for values that are not admitted."""
        return self.shared(tuple([self._value(read(evaluation) or "", allowed) for read, allowed in self._readers]))

    def shared(self, labels: Labels) -> Labels:
        """Return the same label set, if possible the object that was returned before: windows hold many times each."""
        if len(self._shared) >= _MAX_SHARED:
            self._shared.clear()
        return self._shared.setdefault(labels, labels)

    @staticmethod
    def _value(value: str, allowed: Collection[str] | None) -> str:
        if allowed is not None and value and value not in allowed:
            return OVERFLOW
        return (
            value if len(value) <= _LONGEST else f"{value[: _LONGEST - 13]}~{sha256(value.encode()).hexdigest()[:12]}"
        )

    def named(self, labels: Labels) -> dict[str, str]:
        """Return a label set as records hold it."""
        return dict(zip(self.names, labels, strict=True))
