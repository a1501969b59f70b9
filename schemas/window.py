"""The window: aggregates of the evaluations of one interval of event time; and the progress of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PlainValidator, WithJsonSchema

from ragweir.schemas.interaction import RecordPart, Time

OVERFLOW = "__overflow__"
"""Value of a dimension that replaces the values that are not admitted."""


def _number(value: object) -> float | str:
    """Return a number, or the text of one that a float cannot represent exactly."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and value.removeprefix("-").replace(".", "", 1).isdigit():
        return value
    raise ValueError("not a number")


Fate = Literal["held", "removed", "late", "ahead", "evicted", "unreadable"]
"""The outcome of a window's record that was read. A held one may later be late, evicted, or unreadable."""

Exact = Annotated[
    float | str, PlainValidator(_number), WithJsonSchema({"anyOf": [{"type": "number"}, {"type": "string"}]})
]
"""A sum: a number, or its digits as text if a float cannot represent it exactly."""


class Histogram(RecordPart):
    """Counts per bin; `scheme` defines the bins. Bins that are absent are 0."""

    scheme: str
    """Name of the definition of the bins."""
    bins: dict[str, NonNegativeInt]
    """Number of values by bin."""


class MetricSummary(RecordPart):
    """One metric's values in a window; nulls are not counted."""

    count: NonNegativeInt
    """Number of values."""
    sum: Exact
    """Sum of the values."""
    sum_squares: Exact
    """Sum of the squares of the values."""
    min: FiniteFloat | None
    """Least value; null if there is none."""
    max: FiniteFloat | None
    """Greatest value; null if there is none."""
    histogram: Histogram
    """Distribution of the values, from which quantiles are computed."""


EstimateFlag = Literal["too_few", "unanswered", "incomplete", "partial", "uncounted"]
"""`too_few`: too few events were judged for an interval. `unanswered`: selected events have no value of this metric,
because the judge gave no usable answer, failed, or has not come to them; the interval allows for any value of theirs.
`incomplete`: fewer events were judged than were selected, because the others failed, expired or still wait. `partial`:
some events could not be selected; they are not included. `uncounted`: the sums over selected events are missing, as in
records of an earlier release, or do not fit those over judged ones; unanswered events are not allowed for."""


class EstimateResult(RecordPart):
    """The estimated mean over all events that could be selected for the judge, with its 95 % interval.

    The mean is null if more than a fifth is unanswered, or if events were selected at random and none of them has a
    value. The interval may remain.
    """

    mean: FiniteFloat | None
    """Estimated mean."""
    low: FiniteFloat | None
    """Lower end of the interval; null if there is none."""
    high: FiniteFloat | None
    """Upper end of the interval; null if there is none."""
    unanswered: FiniteFloat = 0.0
    """Share of the events for which the metric is defined, weighted by 1/p, that were selected but have no value."""
    flags: tuple[EstimateFlag, ...] = ()
    """`too_few`, `unanswered`, `incomplete`, `partial` or `uncounted`."""


class SelectionSums(RecordPart):
    """Sums over selected events, each with its probability p of being selected."""

    count: NonNegativeInt = 0
    """Number of events."""
    drawn: NonNegativeInt = 0
    """Number of them that were selected at random, with p below 1."""
    weight: Exact = 0.0
    """Sum of 1/p."""
    spread: Exact = 0.0
    """Sum of (1 - p)/p²."""


class EstimateSums(RecordPart):
    """Sums over the judged events of a window, each with its score y and the probability p of being selected.

    For `category=label` y is 1 where the event has the label and 0 where it has another.
    """

    omitted_values: ClassVar[Mapping[str, object]] = {"undefined": SelectionSums()}

    suite: str
    """Suite of the metric."""
    count: NonNegativeInt
    """Number of events with a value."""
    drawn: NonNegativeInt
    """Number of them that were selected at random, with p below 1."""
    weight: Exact
    """Sum of 1/p."""
    weighted_sum: Exact
    """Sum of y/p; divided by `weight` it is the mean."""
    drawn_sum: Exact
    """Sum of y/p over the events with p below 1."""
    spread: Exact
    """Sum of (1 - p)/p²."""
    spread_sum: Exact
    """Sum of y(1 - p)/p²."""
    spread_squares: Exact
    """Sum of y²(1 - p)/p²."""
    undefined: SelectionSums = SelectionSums()
    """Sums over the judged events for which the metric is not defined; absent if there are none."""
    result: EstimateResult | None = None
    """The estimate; only in merged windows."""


class SuiteChance(RecordPart):
    """The probabilities with which a suite could have selected the events of a window."""

    omitted_values: ClassVar[Mapping[str, object]] = {"selected": SelectionSums()}

    least: Annotated[FiniteFloat, Field(ge=0, le=1)] = 1.0
    """The lowest probability above 0."""
    none: NonNegativeInt = 0
    """Number of events with probability 0."""
    selected: SelectionSums = SelectionSums()
    """Sums over the events that were selected, judged or not; absent if there are none, and in records of an earlier
    release."""


class Window(RecordPart):
    """A window of event time: start inclusive, end exclusive.

    A record of `rag.windows` is one part of one input partition's window of the base size; readers merge parts,
    partitions and larger sizes. Windows in files are merged: `partition` and `part` are null, and `closed` is true if
    no more events can arrive.
    """

    window: str
    """Size, such as `1m`."""
    start: Time
    """Begin of the window in event time, inclusive."""
    end: Time
    """End of the window in event time, exclusive."""
    dimensions: dict[str, str]
    """Value of each dimension."""
    partition: int | None
    """Input partition; null in merged windows."""
    part: int | None
    """Input offset at which this part was opened. It is -1 - offset if the window began too long before or after the
    newest event time to stay in memory; the next commit with events for it opens another part."""
    events: NonNegativeInt
    """Number of distinct events, judged or not."""
    late: NonNegativeInt = 0
    """Number of those that arrived after the partition's watermark had passed the window's end and the grace period.
    Judgements always arrive later and are never late."""
    revision: NonNegativeInt | None = None
    """Number of commits that changed this part."""
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)
    """Summary by metric."""
    categories: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)
    """Number of events by categorical metric and label."""
    decisions: dict[str, dict[str, NonNegativeInt]] = Field(default_factory=dict)
    """Number of events by suite and status."""
    chances: dict[str, SuiteChance] = Field(default_factory=dict)
    """Selection probabilities by suite."""
    estimates: dict[str, EstimateSums] = Field(default_factory=dict)
    """Sums by judged metric, and by `category=label`."""
    catalogue_versions: tuple[str, ...] = ()
    """Catalogue versions of the evaluations."""
    closed: bool | None = None
    """True if no more events can arrive; only in merged windows."""


class Progress(RecordPart):
    """The progress of one partition's windows, written with them in the same transaction as the offsets."""

    omitted_values: ClassVar[Mapping[str, object]] = {"part_base": 0, "topic_id": ""}

    partition: int
    next_offset: int
    watermark: Time | None
    """Events older than this are late; None before the first event."""
    idle: bool
    part_base: NonNegativeInt = 0
    """Number that is added to the offset at which a part is opened to get the part's number. It is greater than the
    number of any part that was opened before the evaluations topic was recreated. Absent where it is 0."""
    topic_id: str = ""
    """Kafka's id of the evaluations topic of `next_offset`; absent if unknown, as in records of release 0.1.0."""
    changelog_offset: int | None = None
    """Offset in the changelog from which a restore has to read: no window in memory was written before it. None if
    unknown, as in records of release 0.1.0; a restore then reads everything."""


def duration_s(size: str) -> int:
    """Return the seconds of a duration such as `30s`, `1m`, `6h` or `1d`.

    >>> duration_s("5m")
    300

    Raises:
        ValueError: if it is not one.
    """
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = size[:-1], size[-1:]
    if unit not in units or not number.isdecimal() or not 0 < int(number) <= 10_000:
        raise ValueError(f"{size!r} is no duration such as 30s, 1m, 6h or 1d")
    return int(number) * units[unit]
