"""The window: what the evaluations of one stretch of event time come to, and how far a partition has come."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, FiniteFloat, NonNegativeInt, PlainValidator, WithJsonSchema

from schemas.interaction import Part, Time

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


class Histogram(Part):
    """Counts per bin; `scheme` says how values fall into bins. Bins that are absent are 0."""

    scheme: str
    bins: dict[str, NonNegativeInt]


class MetricSummary(Part):
    """One metric's values in a window; nulls are not counted."""

    count: NonNegativeInt
    sum: Exact
    sum_squares: Exact
    min: FiniteFloat | None
    max: FiniteFloat | None
    histogram: Histogram


class Window(Part):
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
    """The input offset at which this part was opened."""
    events: NonNegativeInt
    late: NonNegativeInt = 0
    """Events that came after the window had been taken for closed."""
    revision: NonNegativeInt | None = None
    """How many commits this part has seen."""
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    categories: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)
    decisions: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)
    catalogue_versions: tuple[str, ...] = ()
    closed: bool | None = None


class Progress(Part):
    """How far one partition's windows go: written with them, in the same transaction as the offsets."""

    partition: int
    next_offset: int
    watermark: Time | None
    """Events older than this are late; None before the first event."""
    idle: bool


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


def window_key(window: Window) -> list[Any]:
    """What the key of a window's record holds: start, dimensions, partition and part."""
    return [window.start, dict(sorted(window.dimensions.items())), window.partition, window.part]
