"""The window: what the evaluations of one stretch of event time come to, and how far a partition has come."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PlainValidator, WithJsonSchema

from ragweir.schemas.interaction import RecordPart, Time

OVERFLOW = "__overflow__"
"""Stands for a dimension's values that are not admitted."""


def _number(value: object) -> float | str:
    """A number, or the text of one that a number could not hold exactly."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.removeprefix("-").replace(".", "", 1).isdigit():
        return value
    raise ValueError("not a number")


Exact = Annotated[
    float | str, PlainValidator(_number), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
]
"""A sum: a plain number, or its digits as text where a number could not hold them."""


class Histogram(RecordPart):
    """Counts per bin; `scheme` says how values fall into bins. Bins that are absent are 0."""

    scheme: str
    bins: dict[str, NonNegativeInt]


class MetricSummary(RecordPart):
    """One metric's values in a window; nulls are not counted."""

    count: NonNegativeInt
    sum: Exact
    sum_squares: Exact
    min: FiniteFloat | None
    max: FiniteFloat | None
    histogram: Histogram


EstimateFlag = Literal["too_few", "incomplete", "partial"]
"""`too_few`: what was judged is not enough for an interval. `incomplete`: fewer events were judged than were selected,
because the others failed, expired or still wait. `partial`: some events had no chance, and it does not speak of them.
"""


class EstimateResult(RecordPart):
    """What an estimate comes to: the mean of all events that had a chance to be judged, with its 95 % interval.

    The mean is null where events were left to chance and none of them was judged.
    """

    mean: FiniteFloat | None
    low: FiniteFloat | None
    high: FiniteFloat | None
    flags: tuple[EstimateFlag, ...] = ()


class EstimateSums(RecordPart):
    """Sums over the judged events of a window, each with its score y and the probability p of being selected.

    For `category=label` y is 1 where the event has the label and 0 where it has another.
    """

    suite: str
    count: NonNegativeInt
    """Events with a value."""
    drawn: NonNegativeInt
    """How many of them were drawn by lot, with a p below 1."""
    weight: Exact
    """Of 1/p."""
    weighted_sum: Exact
    """Of y/p; divided by `weight` it is the mean."""
    drawn_sum: Exact
    """Of y/p over those drawn."""
    spread: Exact
    """Of (1 - p)/p²."""
    spread_sum: Exact
    """Of y(1 - p)/p²."""
    spread_squares: Exact
    """Of y²(1 - p)/p²."""
    result: EstimateResult | None = None
    """Only in merged windows."""


class SuiteChance(RecordPart):
    """With which probabilities a suite could have drawn the events of a window."""

    least: Annotated[FiniteFloat, Field(ge=0, le=1)] = 1.0
    """The least that is over 0."""
    none: NonNegativeInt = 0
    """Events that could not be drawn."""


class Window(RecordPart):
    """A window of event time: start inclusive, end exclusive.

    In `rag.windows` it is one part of what one input partition holds of a base window; readers merge the parts, the
    partitions and larger sizes. In files it is merged: `partition` and `part` are null, and `closed` says whether more
    may come.
    """

    window: str
    start: Time
    end: Time
    dimensions: dict[str, str]
    partition: int | None
    part: int | None
    """The input offset at which this part was opened. It is -1 - offset where the window began too long before or after
    the newest event time for its parts to be continued; the next commit with events for it opens another part."""
    events: NonNegativeInt
    """Each once, whether judged or not."""
    late: NonNegativeInt = 0
    """Events that came after the partition's watermark had passed the window's end and the grace; they count among
    `events`. Judgements always come later and are never late."""
    revision: NonNegativeInt | None = None
    """How many commits this part has seen."""
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    categories: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)
    decisions: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)
    """Per suite: how many events were and were not selected, and of the selected what became."""
    chances: dict[str, SuiteChance] = Field(default_factory=dict)
    """Per suite."""
    estimates: dict[str, EstimateSums] = Field(default_factory=dict)
    """Per judged metric, and per `category=label`."""
    catalogue_versions: tuple[str, ...] = ()
    closed: bool | None = None


class Progress(RecordPart):
    """How far one partition's windows go: written with them, in the same transaction as the offsets."""

    omitted_values: ClassVar[Mapping[str, object]] = {"part_base": 0, "topic_id": ""}

    partition: int
    next_offset: int
    watermark: Time | None
    """Events older than this are late; None before the first event."""
    idle: bool
    part_base: NonNegativeInt = 0
    """Added to the offset at which a part is opened for its number; more than any number of a part that was opened
    before the evaluations topic was deleted and made again. Absent where it is 0."""
    topic_id: str = ""
    """Kafka's id of the evaluations topic that `next_offset` belongs to. Absent where it is not known, as in records of
    release 0.1.0."""
    changelog_offset: int | None = None
    """The offset in the windows' partition from which a restore has to read: no window that is held was written before
    it. None where that is not known, as in records of release 0.1.0: a restore then reads everything."""


def duration_s(size: str) -> int:
    """The seconds of a size such as `30s`, `1m`, `6h` or `1d`.

    >>> duration_s("5m")
    300

    Raises:
        ValueError: if it is none.
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = size[:-1], size[-1:]
    if unit not in units or not number.isdecimal() or not 0 < int(number) <= 10_000:
        raise ValueError(f"{size!r} is no duration such as 30s, 1m, 6h or 1d")
    return int(number) * units[unit]
