"""Routing rows as evaluate uses them: the row of an event, from records of the topic `control` or from a file.

The row of an event is that of its application with the latest effective time that is not after the event's time. It is
a function of the records, the application and the time: rows may be read in any order and at any time before they hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from math import ceil
from struct import Struct
from typing import Literal, NamedTuple

from pydantic import ValidationError

from ragweir.metrics.routing_share import risk_bin, threshold
from ragweir.metrics.shipped_bins import SHIPPED_BINS
from ragweir.schemas.routing_row import RoutingRow, parse_row_key
from ragweir.streams.runtime.records import Measurements, Record
from ragweir.streams.settings import RoutingSettings

SHIPPED = "shipped"
"""The revision of the row of applications that have none yet."""
SHARE, FLOOR = "share", "floor"
"""The reasons of a selection by a row: because of the event's risk, and at random."""
ROUTING_AHEAD = "routing_ahead"
"""Flag of an event after the time up to which all rows are known."""
ROUTING_FORGOTTEN = "routing_forgotten"
"""Flag of an event whose row may be among the oldest ones, which were too many to be held."""

LEAD = timedelta(minutes=45)
"""The least time from a row's timestamp to its effective time. Planners write rows an hour ahead: the difference covers
an open transaction and clocks that differ."""
MAX_ROWS = 100_000
"""The most rows that are held, of all applications."""
MAX_ROW_BYTES = 16 * 1024
DRAW_RANGE = 2**64
"""The number of values of a draw."""
_NUMBERS = Struct(">idd")

Rejection = Literal["unreadable", "late"]


class RowDecision(NamedTuple):
    """A row's decision about one event: the probability of selecting it, the reasons, the row's revision and digest."""

    probability: float
    because: tuple[str, ...]
    row: str
    digest: str | None = None


class Selection:
    """The selection of events by one row.

    Args:
        revision: the effective time of the row, or `shipped`.
        bin: see `RoutingRow`.
        at_bin: see `RoutingRow`.
        floor: see `RoutingRow`.
        digest: see `digest_of`; None for the shipped row.

    >>> row = Selection("2026-11-22T00:00:00Z", 80, 0.5, 0.02)
    >>> row.choice(0.9, draw=2**63), row.choice(0.1, draw=0).because, row.choice(None, draw=2**63).because
    (RowDecision(probability=1.0, because=('share',), row='2026-11-22T00:00:00Z', digest=None), ('floor',), ())
    """

    __slots__ = ("_above", "_at", "_at_bound", "_below", "_floor_bound", "at_bin", "bin", "digest", "floor", "revision")

    def __init__(self, revision: str, bin: int, at_bin: float, floor: float, digest: str | None = None) -> None:
        self.revision, self.bin, self.at_bin, self.floor, self.digest = revision, bin, at_bin, floor, digest
        at = floor + (1 - floor) * at_bin
        self._floor_bound, self._at_bound = ceil(floor * DRAW_RANGE), ceil(at * DRAW_RANGE)
        # Each by whether the draw is below the floor.
        by = revision, digest
        self._below = RowDecision(floor, (), *by), RowDecision(floor, (FLOOR,), *by)
        self._at = RowDecision(at, (SHARE,), *by), RowDecision(at, (FLOOR,), *by), RowDecision(at, (), *by)
        self._above = RowDecision(1.0, (SHARE,), *by), RowDecision(1.0, (SHARE, FLOOR), *by)

    @classmethod
    def of(cls, row: RoutingRow) -> Selection:
        """Return the selection by a row."""
        return cls(revision_of(row.effective_at), row.bin, row.at_bin, row.floor, digest_of(row))

    def choice(self, risk: float | None, draw: int) -> RowDecision:
        """Return what it says about an event.

        Args:
            risk: the event's `unsupported_risk`.
            draw: the event's draw for the suite, below 2**64.
        """
        number = risk_bin(risk)
        drawn = draw < self._floor_bound
        if number is None or number < self.bin:
            return self._below[drawn]
        if number > self.bin:
            return self._above[drawn]
        return self._at[drawn] if draw < self._at_bound else self._at[2]

    def with_floor(self, floor: float) -> Selection:
        """Return the selection with at least this floor: the largest probability counts."""
        if floor <= self.floor:
            return self
        at = max(floor, self.floor + (1 - self.floor) * self.at_bin)
        at_bin = (at - floor) / (1 - floor) if floor < 1 else 0.0
        return Selection(self.revision, self.bin, at_bin, floor, self.digest)


def revision_of(effective_at: datetime) -> str:
    """Return the revision of a row with this effective time.

    >>> from datetime import timezone
    >>> revision_of(datetime(2026, 11, 22, tzinfo=timezone.utc))
    '2026-11-22T00:00:00Z'
    """
    return effective_at.isoformat().replace("+00:00", "Z")


def digest_of(row: RoutingRow) -> str:
    """Return a digest of the numbers by which a row selects, in 16 hexadecimal digits.

    It is that of BLAKE2b, of 8 bytes, over `bin` as an integer of 4 bytes, `at_bin` and `floor` as doubles, all
    big-endian.

    >>> digest_of(RoutingRow(application="docs", effective_at="2026-11-22T00:00:00Z", share=0.1, floor_share=0.25,
    ...     bin=80, at_bin=0.5, floor=0.02))
    '9df88540bc51492e'
    """
    return blake2b(_NUMBERS.pack(row.bin, row.at_bin, row.floor), digest_size=8).hexdigest()


def shipped_selection(routing: RoutingSettings) -> Selection:
    """Return the selection for applications without a row, from the shares of the settings."""
    bins = {number: events for number, events in enumerate(SHIPPED_BINS) if events}
    return Selection(SHIPPED, *threshold(bins, sum(SHIPPED_BINS), routing.share, routing.floor_share))


@dataclass(frozen=True, slots=True)
class RoutingRows:
    """The rows that are known. It does not change."""

    by_application: Mapping[str | None, tuple[list[datetime], list[Selection]]] = field(default_factory=dict)
    """Effective times, the earliest first, with their selections."""
    known_until: datetime | None = None
    """The time up to which all rows are known; None for rows of a file, which are all there are."""
    has_forgotten: bool = False
    """True if the oldest rows are not held, since there are too many."""

    def at(self, application: str | None, time: datetime) -> tuple[Selection | None, str]:
        """Return the selection for an event, None for the shipped one, and the flag of its evaluation, if any."""
        times, selections = self.by_application.get(application, ((), ()))
        number = bisect_right(times, time)
        if self.known_until is not None and time >= self.known_until:
            flag = ROUTING_AHEAD
        else:
            flag = ROUTING_FORGOTTEN if self.has_forgotten and not number else ""
        return (selections[number - 1] if number else None), flag

    def known(self, until: datetime) -> RoutingRows:
        """Return the same rows, which are known to be all up to another time."""
        return replace(self, known_until=until)

    def __len__(self) -> int:
        return sum(len(times) for times, _ in self.by_application.values())


class RowTable:
    """Collects rows from records; the latest record of a key counts, as in a compacted topic.

    Args:
        most: the most rows that are held; of more, those with the latest effective times are.
    """

    def __init__(self, most: int = MAX_ROWS) -> None:
        self._most, self._has_forgotten = most, False
        self._rows: dict[tuple[datetime, str | None], RoutingRow] = {}

    def add(self, records: Iterable[Record]) -> list[tuple[Rejection, Record]]:
        """Add the rows of records; return those that are no rows, or too late ones, without their keys and values.

        A row that was written later than `LEAD` before its effective time might have been missed by events that were
        decided before. Without effect, it leaves decisions a function of the records.
        """
        rejected: list[tuple[Rejection, Record]] = []
        for record in records:
            row = _row_of(record)
            if row is not None and not _is_late(row, record):
                self.hold([row])
            else:
                why: Rejection = "unreadable" if row is None else "late"
                rejected.append((why, record._replace(key=None, value=None, headers=())))
        return rejected

    def hold(self, rows: Iterable[RoutingRow]) -> None:
        """Add rows."""
        for row in rows:
            self._rows[row.effective_at, row.application] = row
            if len(self._rows) > 2 * self._most:
                self._forget()

    @property
    def held(self) -> list[RoutingRow]:
        """The rows that it has, the earliest effective time first."""
        self._forget()
        return [self._rows[key] for key in sorted(self._rows, key=lambda key: (key[0], key[1] or ""))]

    def rows(self, known_until: datetime | None = None) -> RoutingRows:
        """Return the rows that it has.

        Args:
            known_until: the time up to which they are all rows; None if there are no others.
        """
        found: defaultdict[str | None, tuple[list[datetime], list[Selection]]] = defaultdict(lambda: ([], []))
        for row in self.held:
            times, selections = found[row.application]
            times.append(row.effective_at)
            selections.append(Selection.of(row))
        return RoutingRows(dict(found), known_until, self._has_forgotten)

    def _forget(self) -> None:
        """Drop the rows with the earliest effective times, if there are too many."""
        if len(self._rows) <= self._most:
            return
        # By application too, so that the rows left do not depend on the order in which they came.
        for key in sorted(self._rows, key=lambda key: (key[0], key[1] or ""))[: -self._most]:
            del self._rows[key]
        self._has_forgotten = True


def _row_of(record: Record) -> RoutingRow | None:
    """Return the row of a record; None if it is not one, or has the key of another."""
    if record.value is None or len(record.value) > MAX_ROW_BYTES:
        return None
    try:
        row = RoutingRow.model_validate_json(record.value)
        return row if parse_row_key(record.key) == (row.application, row.effective_at) else None
    except (ValidationError, ValueError, RecursionError):
        return None


def _is_late(row: RoutingRow, record: Record) -> bool:
    written_s = (record.timestamp_ms or 0) / 1000
    return row.effective_at.timestamp() < written_s + LEAD.total_seconds()


class RowSource:
    """Gives evaluate its rows; this one never changes.

    Args:
        rows: the rows.
    """

    def __init__(self, rows: RoutingRows | None = None) -> None:
        self.rows = rows or RoutingRows()
        """The rows that are known at the moment."""

    @property
    def topics(self) -> Mapping[str, str]:
        """Full names of the topics that it reads, with the ids that they had in `start`; empty before."""
        return {}

    def start(self, stopped: Callable[[], bool]) -> None:
        """Read the rows, and keep up with later ones. Block until they are read, or `stopped` returns true."""

    def close(self) -> None:
        """Read no more."""

    def drain_metrics(self) -> Measurements:
        """Return the values for the telemetry since the last call."""
        return Measurements()
