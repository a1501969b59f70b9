"""Past traffic by application: the numbers of events by their bin of `unsupported_risk`, from the windows topic."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.aggregation.summary import LINEAR_BINS
from ragweir.schemas.times import parse_rfc3339
from ragweir.schemas.window import OVERFLOW
from ragweir.schemas.window_key import WindowKey, parse_window_key
from ragweir.schemas.window_record import WindowRecord, parse_window
from ragweir.streams.runtime.kafka.compaction import CompactedRecords
from ragweir.streams.runtime.kafka.reader import Watch, offset_range, read
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings

RISK = "unsupported_risk"
JUDGED = "judge_faithfulness"
"""The judged metric whose mean is reported, as 1 less the share of bad answers."""
_DIMENSION = "application"
_BINS = range(LINEAR_BINS)
_DAYS = 7
_MARGIN = timedelta(hours=1)
"""The most by which the broker's clock may be behind when the first window of a period is written."""
_NO_DIMENSION = (
    "rows are made for each application, and the windows do not distinguish them: set windows.dimensions to a list "
    'with "application"'
)


class Period(NamedTuple):
    """The time of the windows from which rows are made."""

    start: datetime
    end: datetime

    @classmethod
    def closed(cls, now: datetime, every: timedelta) -> Period:
        """Return the seven days before the last multiple of an interval, which divides a day.

        >>> from datetime import UTC
        >>> period = Period.closed(datetime(2026, 11, 22, 13, 30, tzinfo=UTC), timedelta(days=1))
        >>> period.start.isoformat(), period.end.isoformat()
        ('2026-11-15T00:00:00+00:00', '2026-11-22T00:00:00+00:00')
        """
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        end = day + (now - day) // every * every
        return cls(end - timedelta(days=_DAYS), end)

    @property
    def days(self) -> float:
        """The length in days."""
        return (self.end - self.start) / timedelta(days=1)


@dataclass(slots=True)
class Traffic:
    """The events of one application in a period."""

    events: int = 0
    """Number of all events, with those whose risk is null."""
    bins: Counter[int] = field(default_factory=Counter)
    """Number of events by bin of `unsupported_risk`."""
    judged: int = 0
    """Number of events with a value of `judge_faithfulness`."""
    weight: float = 0.0
    weighted_sum: float = 0.0
    """Sums of 1/p and of the score by p; their quotient is the mean."""

    def add(self, window: WindowRecord) -> None:
        """Add the events of a window's part."""
        self.events += window.events
        if risk := window.metrics.get(RISK):
            self.bins.update({number: count for number, count in risk.histogram.bins.items() if number in _BINS})
        if found := window.estimates.get(JUDGED):
            self.judged += found.count
            self.weight += float(found.weight)
            self.weighted_sum += float(found.weighted_sum)

    @property
    def bad(self) -> float | None:
        """The share of unfaithful answers by the judge; None if it has judged none."""
        return 1 - self.weighted_sum / self.weight if self.judged and self.weight else None


def traffic_of(windows: Iterable[WindowRecord], period: Period) -> dict[str | None, Traffic]:
    """Return the traffic by application; the key None is that of events without one.

    Label sets that were merged into overflow are of many applications, and are left out.

    Raises:
        ConfigurationError: if there are windows, and none distinguishes applications.
    """
    found: dict[str | None, Traffic] = {}
    undivided = 0
    for window in windows:
        if not period.start <= parse_rfc3339(window.start) < period.end:
            continue
        application = window.dimensions.get(_DIMENSION)
        if application is None:
            undivided += window.events
        elif application != OVERFLOW:
            found.setdefault(application or None, Traffic()).add(window)
    if undivided and not found:
        raise ConfigurationError(_NO_DIMENSION)
    return found


def check_dimensions(settings: Settings) -> None:
    """Check that windows distinguish applications.

    Raises:
        ConfigurationError: if they do not.
    """
    if _DIMENSION not in settings.windows.dimensions:
        raise ConfigurationError(_NO_DIMENSION)


def read_traffic(settings: Settings, period: Period, watch: Watch) -> dict[str | None, Traffic]:
    """Return the traffic of the live windows topic; of each part only the latest revision counts.

    Raises:
        Unreachable: if no broker answers.
        PermanentError: if there is no topic, or the temporary folder is full.
        ConfigurationError: if the windows do not distinguish applications.
    """
    check_dimensions(settings)
    topic = f"{settings.topics.prefix}windows"
    # No window is written before it begins.
    part = offset_range(settings, topic, since_ms=round((period.start - _MARGIN).timestamp() * 1_000))
    records = read(settings, part, watch(topic, len(part)))
    return traffic_of(latest_windows(topic, records, period, watch), period)


def latest_windows(topic: str, records: Iterable[Record], period: Period, watch: Watch) -> Iterable[WindowRecord]:
    """Yield the latest revision of each part that begins in a period; other records are ignored."""
    begin_s, end_s = period.start.timestamp(), period.end.timestamp()
    try:
        with TemporaryDirectory(prefix="ragweir-routing-") as folder, closing(CompactedRecords(Path(folder))) as latest:
            for record in records:
                start_s = _start_s(record.key)
                if start_s is not None and record.key is not None and begin_s <= start_s < end_s:
                    latest.put(start_s, record.key, record.value)
            moved = watch("merging", len(latest))
            for _, values in latest.by_start():
                for value in values:
                    moved(1)
                    try:
                        yield parse_window(value)
                    except ValueError:
                        continue
    except sqlite3.OperationalError as error:
        raise PermanentError(
            f"the temporary folder does not hold the windows of {topic} ({error}); set TMPDIR to one with more room"
        ) from None


def _start_s(key: bytes | None) -> int | None:
    """Return the begin of the window that a key is of, in epoch seconds; None for any other key."""
    try:
        parsed = parse_window_key(key)
    except ValueError:
        return None
    return round(parsed.start.timestamp()) if isinstance(parsed, WindowKey) else None


def events_per_day(traffic: Mapping[str | None, Traffic], period: Period) -> float:
    """Return the number of events of all applications in a day."""
    return sum(each.events for each in traffic.values()) / period.days
