"""The oracle: what must come of what was produced, by the documented rules alone and with no code of the product."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

EVALUATED, BURIED, PASSED_OVER = 1, 2, 3
"""What becomes of a record: an evaluation, a dead letter, or nothing since its id was there shortly before."""
_MINUTE_MS = 60_000
_MOST_PARTITIONS = 100_000

Span = tuple[int, str]
"""The start of a minute of event time, epoch milliseconds, and the application."""


@dataclass(slots=True)
class Sums:
    """What a window comes to. Each event is in once, whether judged or not."""

    events: int = 0
    latency_ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def add(self, other: Sums) -> None:
        """Take another's in."""
        self.events += other.events
        self.latency_ms += other.latency_ms
        self.input_tokens += other.input_tokens
        self.output_tokens += other.output_tokens


@dataclass(slots=True)
class _Lane:
    """What was produced to one partition; places in the lists are offsets."""

    fates: bytearray = field(default_factory=bytearray)
    numbers: array[int] = field(default_factory=lambda: array("q"))
    wanted: bytearray = field(default_factory=bytearray)
    """1 where the event asks to be judged."""
    buried: dict[int, bytes | None] = field(default_factory=dict)
    """What cannot be evaluated, by its offset."""
    last: dict[str, int] = field(default_factory=dict)
    """Where each id occurred last."""


@dataclass(slots=True)
class Oracle:
    """Told every record of the interactions, in the order of each partition.

    A topic that is deleted and made again begins a new incarnation, whose offsets begin at 0: each partition of each
    incarnation has a lane of its own. Events are numbered throughout, so an event's number tells its incarnation.

    Args:
        horizon: over how many offsets of a partition an id is known again; 0 where every record is evaluated.
        refused: says of a good event whether its evaluation is more than the broker takes.
    """

    horizon: int = 0
    refused: Callable[[dict[str, object]], bool] = lambda _: False
    lanes: defaultdict[int, _Lane] = field(default_factory=lambda: defaultdict(_Lane))
    windows: defaultdict[Span, Sums] = field(default_factory=lambda: defaultdict(Sums))
    begins: list[int] = field(default_factory=lambda: [0])
    """The number of the first event of each incarnation."""
    read: int = 0
    evaluated: int = 0
    buried: int = 0
    selected: int = 0
    repeated: int = 0

    def recreated(self, number: int) -> None:
        """Begin a new incarnation with the event of this number."""
        self.begins.append(number)

    def lane(self, partition: int, number: int) -> int:
        """Return the lane of a partition to which an event with this number belongs.

        >>> oracle = Oracle(begins=[0, 500])
        >>> oracle.lane(3, 499), oracle.lane(3, 500), oracle.newest_lane(3)
        (3, 100003, 100003)
        """
        return (bisect_right(self.begins, number) - 1) * _MOST_PARTITIONS + partition

    def newest_lane(self, partition: int) -> int:
        """Return the lane of a partition of the newest incarnation."""
        return (len(self.begins) - 1) * _MOST_PARTITIONS + partition

    def record(self, partition: int, offset: int, value: bytes | None, *, poison: bool) -> None:
        """One record, as it stands in the interactions.

        Raises:
            ValueError: if it is not the partition's next one.
        """
        lane = self.lanes[self.newest_lane(partition)]
        if offset != len(lane.fates):
            raise ValueError(f"offset {offset} of partition {partition} follows {len(lane.fates) - 1}")
        self.read += 1
        fate, number, wanted = BURIED, -1, False
        if not poison:
            event = json.loads(value or b"")
            number = int(event["event_id"][1:])
            fate = self._fate(lane, offset, event)
            wanted = "expected" in event and fate == EVALUATED
        if fate == BURIED:
            lane.buried[offset] = value
        lane.fates.append(fate)
        lane.numbers.append(number)
        lane.wanted.append(wanted)
        self.evaluated += fate == EVALUATED
        self.buried += fate == BURIED
        self.repeated += fate == PASSED_OVER
        self.selected += wanted

    def _fate(self, lane: _Lane, offset: int, event: dict[str, object]) -> int:
        name = str(event["event_id"])
        before = lane.last.pop(name, None)
        if self.horizon:
            lane.last[name] = offset  # At the end, so that the oldest stand first.
            while offset - next(iter(lane.last.values())) > self.horizon:
                del lane.last[next(iter(lane.last))]
        if before is not None and offset - before <= self.horizon:
            return PASSED_OVER
        if self.refused(event):
            return BURIED
        self._count(event)
        return EVALUATED

    def _count(self, event: dict[str, object]) -> None:
        number, ended_ms = int(str(event["event_id"])[1:]), int(str(event["ended_at"]))
        span = ended_ms // _MINUTE_MS * _MINUTE_MS, str(event["application"])
        self.windows[span].add(Sums(1, number % 887, number % 997, number % 89))
