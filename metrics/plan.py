"""Plans: for each pattern of present fields, the metrics that are computed and the reasons of those that are null."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from typing import Any, NamedTuple

from ragweir.metrics.metric import Flagged, Metric, Null
from ragweir.metrics.unavailable import Unavailable
from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction

_NOT_FINITE = "the result is not a finite number"
_MOST = 1e6
"""Bound of the magnitudes that are converted directly."""
_CERTAIN = 0.499
"""Distance from an integer below which a product has its nearest integer for sure, rounding included."""
_TO_WHOLE = 1.5 * 2.0**52
"""A float of this magnitude has no fraction, so that adding it rounds to an integer, and subtracting it gives that."""


@dataclass(frozen=True, slots=True)
class Scored:
    """All scores of one event: numbers, labels, the reasons of nulls, and the metrics that raised an exception."""

    scores: dict[str, float | None] = field(default_factory=dict)
    categories: dict[str, str | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)


Lack = bool | str
"""Absence of a field: False if it is present, True if the event does not have it, else the reason why it cannot be
read."""


class FieldPattern:
    """The fields that some metrics need, and which of them an event has.

    >>> event = Interaction(event_id="1", query="", response="", contexts=())
    >>> FieldPattern(["contexts", "spans"]).of(View(event))
    (False, True)
    >>> FieldPattern(["contexts", "spans"]).of(View(event.with_flags({"cut:spans"})))
    (False, 'list_cut')
    """

    def __init__(self, needs: Iterable[str]) -> None:
        self.needs = tuple(dict.fromkeys(needs))

    def of(self, view: View) -> tuple[Lack, ...]:
        """Return the absence of each needed field of an event."""
        event = view.interaction
        if view.is_guarded:
            return tuple([_lack(event, need) for need in self.needs])
        return tuple([getattr(event, need) is None for need in self.needs])


def _lack(event: Interaction, need: str) -> Lack:
    try:
        return getattr(event, need) is None
    except Unavailable as unavailable:
        return str(unavailable)


class _MetricRun(NamedTuple):
    """Metrics that are computed one after the other, with no null of the plan between them; all or none are labels."""

    nulls: dict[str, str]
    """The reasons of the metrics right before them that are null."""
    is_category: bool
    steps: list[tuple[str, Callable[..., object], float]]
    """Name and function of each metric, and 10 ** digits of its results."""


class Plan:
    """The metrics of the events with one pattern of present fields.

    Args:
        metrics: the metrics in the order of their results.
        needs: the names of the fields of the pattern.
        lacks: the absence of each of them.
    """

    def __init__(self, metrics: Iterable[Metric], needs: Sequence[str], lacks: Sequence[Lack]) -> None:
        absent = {need: lack for need, lack in zip(needs, lacks, strict=True) if lack is not False}
        self._scores: dict[str, float | None] = {}
        self._categories: dict[str, str | None] = {}
        self._digits: dict[str, int] = {}
        self._runs: list[_MetricRun] = []
        nulls: dict[str, str] = {}
        for metric in metrics:
            name, is_category = metric.name, metric.unit == "category"
            (self._categories if is_category else self._scores)[name] = None
            need = next((each for each in metric.needs if each in absent), None)
            if need is not None:
                lack = absent[need]
                nulls[name] = lack if isinstance(lack, str) else f"the event has no {need}"
            else:
                digits = self._digits[name] = 3 if metric.unit == "ms" else 6
                if nulls or not self._runs or self._runs[-1].is_category != is_category:
                    self._runs.append(_MetricRun(nulls, is_category, []))
                    nulls = {}
                self._runs[-1].steps.append((name, metric.compute, 10.0**digits))
        self._last = nulls

    def score(self, view: View) -> Scored:
        """Compute the metrics of an event with the pattern; see `ragweir.metrics.catalogue.Catalogue.score`."""
        # A plan has every name already, so that results keep their order whatever is null.
        scored = Scored(self._scores.copy(), self._categories.copy())
        scores, reasons = scored.scores, scored.reasons
        for nulls, is_category, steps in self._runs:
            if nulls:
                reasons.update(nulls)
            for name, compute, scale in steps:
                try:
                    value = compute(view)
                except Exception as error:
                    self._failed(name, error, scored)
                    continue
                kind = type(value)
                if kind is Null:
                    reasons[name] = value.reason  # type: ignore[attr-defined]
                elif is_category:
                    scored.categories[name] = self._result(value, name, scored)
                elif kind is float and 0.0 < value < _MOST:  # type: ignore[operator]
                    # As round() gives it, in a third of the time.
                    product: float = value * scale  # type: ignore[operator]
                    whole = product + _TO_WHOLE - _TO_WHOLE
                    is_certain = -_CERTAIN < product - whole < _CERTAIN
                    scores[name] = whole / scale if is_certain else self._result(value, name, scored)
                elif kind is bool or (kind is float and value == 0.0) or (kind is int and -_MOST < value < _MOST):  # type: ignore[operator]
                    scores[name] = float(value)  # type: ignore[arg-type]
                else:
                    scores[name] = self._result(value, name, scored)
        reasons.update(self._last)
        return scored

    @staticmethod
    def _failed(name: str, error: Exception, scored: Scored) -> None:
        """Add the reason of a metric that raised; one metric must not fail the event, and a series counts it.

        Raises:
            MemoryError: if it is one, as it may not be the metric's fault.
        """
        if isinstance(error, MemoryError):
            raise error
        if isinstance(error, Unavailable):
            scored.reasons[name] = str(error)
        else:
            scored.raised.append(name)
            scored.reasons[name] = f"the metric raised {type(error).__name__}"

    def _result(self, value: object, name: str, scored: Scored) -> Any:
        """Return what a metric's value is in the results; add its flag, or the reason why it is null."""
        if isinstance(value, Flagged):
            scored.flags.append(f"{name}:{value.flag}")
            value = value.value
        if isinstance(value, Null):
            scored.reasons[name] = value.reason
            return None
        if not isinstance(value, float | int):
            return value
        try:
            number = float(value)
        except OverflowError:  # An integer may have any number of digits.
            number = inf
        if isfinite(number):
            return number if isinstance(value, int) else round(number, self._digits[name])
        scored.reasons[name] = _NOT_FINITE
        return None
