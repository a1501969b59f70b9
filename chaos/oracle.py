"""The oracle: the outputs that records must have, by the documented rules only and with no code of the product."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from chaos.tally import Source

EVALUATED, DEAD_LETTER, SKIPPED = 1, 2, 3
"""Outcomes of a record: an evaluation, a dead letter, or nothing, since its id was there shortly before."""
METRICS = {"total_latency_ms": 887, "input_tokens": 997, "output_tokens": 89}
"""Metrics that are the remainders of an event's number by these divisors."""
_MINUTE_MS = 60_000
_MAX_PARTITIONS = 100_000

Window = tuple[int, str]
"""The start of a minute of event time, in epoch milliseconds, and the application."""


Sums = Counter[str]
"""Sums over the events of a window, each of which counts once, judged or not."""


@dataclass(slots=True)
class _Log:
    """The records of one partition of one topic; indexes of the lists are offsets."""

    outcomes: bytearray = field(default_factory=bytearray)
    numbers: array[int] = field(default_factory=lambda: array("q"))
    """Number of each event; -1 if it becomes a dead letter."""
    selected: bytearray = field(default_factory=bytearray)
    """1 if the event is to be judged."""
    dead_letters: dict[int, bytes | None] = field(default_factory=dict)
    """Values of the records that cannot be evaluated, by offset."""
    last: dict[str, int] = field(default_factory=dict)
    """Last offset of each id within the horizon, oldest first."""


@dataclass(slots=True)
class Oracle:
    """Receives every record of the interactions, in the order of each partition.

    A recreated topic is another one, whose offsets begin at 0: each partition of each such topic has a log of its own,
    with an index. Events are numbered throughout, so an event's number identifies its topic.

    Args:
        horizon: the number of offsets of a partition within which a repeated id is skipped; 0 to evaluate every record.
        is_too_large: returns True if the broker rejects the evaluation of an event.
    """

    horizon: int = 0
    is_too_large: Callable[[dict[str, object]], bool] = lambda _: False
    logs: defaultdict[int, _Log] = field(default_factory=lambda: defaultdict(_Log))
    windows: defaultdict[Window, Sums] = field(default_factory=lambda: defaultdict(Sums))
    first_numbers: list[int] = field(default_factory=lambda: [0])
    """Number of the first event of each topic."""
    read: int = 0
    evaluated: int = 0
    dead_letters: int = 0
    selected: int = 0
    repeated: int = 0

    def recreated(self, number: int) -> None:
        """Begin another topic with the event of this number."""
        self.first_numbers.append(number)

    def log_of(self, partition: int, number: int) -> int:
        """Return the index of the log of a partition that has the event of this number.

        >>> oracle = Oracle(first_numbers=[0, 500])
        >>> oracle.log_of(3, 499), oracle.log_of(3, 500), oracle.newest_log(3)
        (3, 100003, 100003)
        """
        return (bisect_right(self.first_numbers, number) - 1) * _MAX_PARTITIONS + partition

    def newest_log(self, partition: int) -> int:
        """Return the index of the log of a partition of the newest topic."""
        return (len(self.first_numbers) - 1) * _MAX_PARTITIONS + partition

    def logs_of(self, partition: int) -> list[int]:
        """Return the indexes of the logs of a partition, that of the newest topic first."""
        return [number * _MAX_PARTITIONS + partition for number in reversed(range(len(self.first_numbers)))]

    def record(self, partition: int, offset: int, value: bytes | None, *, poison: bool) -> None:
        """Receive a record.

        Raises:
            ValueError: if it is not the partition's next one.
        """
        log = self.logs[self.newest_log(partition)]
        if offset != len(log.outcomes):
            raise ValueError(f"offset {offset} of partition {partition} follows {len(log.outcomes) - 1}")
        self.read += 1
        outcome, number, selected = DEAD_LETTER, -1, False
        if not poison:
            event = json.loads(value or b"")
            number = int(event["event_id"][1:])
            outcome = self._outcome(log, offset, event)
            selected = "expected" in event and outcome == EVALUATED
        if outcome == DEAD_LETTER:
            number, log.dead_letters[offset] = -1, value
        log.outcomes.append(outcome)
        log.numbers.append(number)
        log.selected.append(selected)
        self.evaluated += outcome == EVALUATED
        self.dead_letters += outcome == DEAD_LETTER
        self.repeated += outcome == SKIPPED
        self.selected += selected

    def _outcome(self, log: _Log, offset: int, event: dict[str, object]) -> int:
        name = str(event["event_id"])
        before = log.last.pop(name, None)
        if self.horizon:
            log.last[name] = offset
            while offset - next(iter(log.last.values())) > self.horizon:
                del log.last[next(iter(log.last))]
        if before is not None and offset - before <= self.horizon:
            return SKIPPED
        if self.is_too_large(event):
            return DEAD_LETTER
        number, ended_ms = int(name[1:]), int(str(event["ended_at"]))
        window = ended_ms // _MINUTE_MS * _MINUTE_MS, str(event["application"])
        self.windows[window]["events"] += 1
        for metric, divisor in METRICS.items():
            self.windows[window][metric] += number % divisor
        return EVALUATED

    def expect(self, outcome: int, log: int) -> Iterator[tuple[bool, int]]:
        """Yield for each offset of a log True if the record has this outcome, and its number."""
        for each, number in zip(self.logs[log].outcomes, self.logs[log].numbers, strict=True):
            yield each == outcome, number

    def expect_judged(self, log: int, deferred: Collection[Source] = ()) -> Iterator[tuple[bool, int]]:
        """Yield for each offset of a log True if the event is judged and not deferred, and its number."""
        for offset, (selected, number) in enumerate(zip(self.logs[log].selected, self.logs[log].numbers, strict=True)):
            yield bool(selected) and (log, offset) not in deferred, number
