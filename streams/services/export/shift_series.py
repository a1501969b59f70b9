"""The series of shifts: how certain it is that a metric's mean has left that of earlier days, by application.

Each record of the windows topic has all sums of one part of a window. The sums of a later revision replace those of the
one before, as long as its part may be revised; further late events have parts of their own, which are added. Windows
are tested once they are closed, and again if their sums have changed since: the evidence is always that of the sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from typing import NamedTuple

from ragweir.errors import ConfigurationError
from ragweir.metrics.aggregation.merger import AHEAD_S
from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.shift.contributions import Contribution, ShiftMetrics
from ragweir.metrics.shift.history import DAY_S, KEPT_DAYS, HourSums, ShiftHistory
from ragweir.schemas.window import OVERFLOW, duration_s
from ragweir.schemas.window_key import ProgressKey, parse_window_key
from ragweir.schemas.window_record import parse_window_sums
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.export.exposition import label_names, quoted
from ragweir.streams.settings import ShiftSettings, WindowSettings

_NAME = "ragweir_window_shift"
_APPLICATION, _VERSION = "application", "pipeline_version"
_SLACK_S = 900
_MOST_NAMED_DAYS = 90
_LEAST_STEP_S = 60


class ShiftFamily(NamedTuple):
    """A metric family of shifts."""

    name: str
    meaning: str


FAMILIES = (
    ShiftFamily(
        _NAME,
        "Certainty that a metric's mean has risen above (positive) or fallen below (negative) that of its baseline: 0 "
        "is none; 1 or -1 is reached without a shift at most once a year over all metrics",
    ),
    ShiftFamily(f"{_NAME}_start_timestamp_seconds", "Most probable begin of the shift; absent below 1"),
    ShiftFamily(f"{_NAME}_baseline", "Mean of the metric in its baseline"),
    ShiftFamily(f"{_NAME}_tolerance", "Largest difference from the baseline that is no shift"),
    ShiftFamily(
        f"{_NAME}_baseline_days", "Days with events in the baseline; 0 as long as there are too few for shifts"
    ),
)


@dataclass(slots=True)
class _Revisable:
    """The parts of windows of one partition that may be revised."""

    newest_s: int
    parts: dict[int, dict[bytes, Contribution]]
    """The sums of each part by its key, by the start of its window."""


_Into = Sequence[HourSums | ShiftHistory]


class ShiftSeries:
    """Keeps the sums of the last days, and renders the state of each metric.

    Args:
        windows: the settings of the windows.
        settings: the settings of shifts.
        catalogue: the catalogue.

    Raises:
        ConfigurationError: if the baseline is a version, which windows do not distinguish.
    """

    def __init__(self, windows: WindowSettings, settings: ShiftSettings, catalogue: Catalogue) -> None:
        if settings.baseline_version is not None and _VERSION not in windows.dimensions:
            raise ConfigurationError(
                f"shift.baseline_version needs windows by version: add {_VERSION!r} to windows.dimensions"
            )
        self._base, base_s = windows.sizes[0], duration_s(windows.sizes[0])
        self._step_s = _LEAST_STEP_S if base_s < _LEAST_STEP_S and not _LEAST_STEP_S % base_s else base_s
        self._revisable_s = windows.hold_h * 3_600 + windows.grace_s + 2 * base_s + _SLACK_S
        names = dict(zip(windows.dimensions, label_names(windows.dimensions), strict=True))
        self._label = names.get(_APPLICATION)
        self._settings = settings
        self._metrics = ShiftMetrics(catalogue)
        self._histories: dict[str, ShiftHistory] = {}
        self._named: dict[str, HourSums] = {}
        """The sums of the named baseline, by application."""
        self._revisable: dict[tuple[str, int], _Revisable] = {}
        self._left_out: set[str] = set()
        self._until_s = -inf
        self.content = b""
        """The bytes to serve. They are replaced as a whole, so that any thread may read them."""

    @property
    def run_topic(self) -> str | None:
        """The topic of the run that is the baseline, by its name in the topic table; None without one."""
        run = self._settings.baseline_run
        return None if run is None else f"run.{run}.windows"

    def is_run(self, topic: str) -> bool:
        """Return true if a topic, by its full name, is that of the run."""
        return self.run_topic is not None and topic.endswith(f".{self.run_topic}")

    def since_s(self, now_s: float) -> float:
        """Return the age of the oldest record that is needed, in seconds."""
        named = self._settings.baseline_since
        return max(KEPT_DAYS * DAY_S, 0 if named is None else now_s - named.timestamp()) + _SLACK_S

    @property
    def left_out(self) -> int:
        """Number of applications whose metrics are not tested, as there are more than `shift.max_applications`."""
        return len(self._left_out)

    def take(self, record: Record) -> bool:
        """Add a record of a windows topic, the live one or that of a run; return False if it is unreadable.

        Tombstones are ignored: the sums of windows that Kafka has deleted are kept.
        """
        try:
            parsed = parse_window_key(record.key)
            if record.key is None or record.value is None or isinstance(parsed, ProgressKey):
                return True
            start_s = round(parsed.start.timestamp())
            window = parse_window_sums(record.value)
        except (ValueError, OverflowError):
            return False
        written_s = start_s if record.timestamp_ms is None else record.timestamp_ms / 1000
        application = window.dimensions.get(_APPLICATION, "") if self._label else ""
        # Overflow is many applications, of changing parts.
        if window.window == self._base and start_s <= written_s + AHEAD_S and application != OVERFLOW:
            into = self._sums_of(record.topic, application, window.dimensions, start_s)
            self._put(record, start_s, into, self._metrics.contribution(window))
        return True

    def _sums_of(self, topic: str, application: str, dimensions: Mapping[str, str], start_s: int) -> _Into:
        """Return what a window's sums are added to."""
        found: list[HourSums | ShiftHistory] = []
        own = self._settings
        if (
            self.is_run(topic)
            or (own.baseline_version is not None and dimensions.get(_VERSION) == own.baseline_version)
            or (
                own.baseline_since is not None
                and own.baseline_until is not None
                and own.baseline_since.timestamp() <= start_s < own.baseline_until.timestamp()
            )
        ):
            if application not in self._named and len(self._named) < own.max_applications:
                self._named[application] = HourSums(len(self._metrics.bounds), _MOST_NAMED_DAYS)
            found += [self._named[application]] if application in self._named else []
        if not self.is_run(topic):
            if application not in self._histories:
                if len(self._histories) >= own.max_applications:
                    self._left_out.add(application)
                    return found
                self._histories[application] = ShiftHistory(self._metrics.bounds, self._step_s)
            found.append(self._histories[application])
        return found

    def _put(self, record: Record, start_s: int, into: _Into, sums: Contribution) -> None:
        """Add the sums of a part in place of those of its last revision."""
        own = self._revisable.setdefault(record.topic_partition, _Revisable(start_s, {}))
        if start_s > own.newest_s:
            own.newest_s = start_s
            while own.parts and (oldest := next(iter(own.parts))) < start_s - self._revisable_s:
                del own.parts[oldest]
        earlier = None
        if start_s >= own.newest_s - self._revisable_s:
            parts = own.parts.setdefault(start_s, {})
            earlier, parts[record.key or b""] = parts.get(record.key or b""), sums
        for each in into:
            if earlier is not None:
                each.add(start_s, earlier.places, -earlier.sums)
            each.add(start_s, *sums)

    def show(self, until_s: float) -> None:
        """Render the states once more windows are closed.

        Args:
            until_s: time until which all windows are closed, epoch seconds.
        """
        if isfinite(until_s):
            until_s = until_s // self._step_s * self._step_s
        if not isfinite(until_s) or until_s <= self._until_s:
            return
        self._until_s = until_s
        lines = defaultdict[str, list[str]](list)
        for name, labels, value in self._samples(until_s):
            lines[name].append(f"{name}{{{labels}}} {value}\n")
        self.content = "".join(
            f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{''.join(lines[name])}"
            for name, meaning in FAMILIES
            if name in lines
        ).encode()

    def _samples(self, until_s: float) -> Iterator[tuple[str, str, float]]:
        """Yield the name, the labels and the value of each sample."""
        series = len(self._histories) * len(self._metrics.bounds)
        nothing = HourSums(len(self._metrics.bounds), 1)
        for application, history in sorted(self._histories.items()):
            named = self._named.get(application, nothing) if self._settings.is_named else None
            for metric, state in history.states(until_s, series, named):
                labels = f'metric="{quoted(metric)}"' + (
                    f',{self._label}="{quoted(application)}"' if self._label else ""
                )
                yield f"{_NAME}_baseline_days", labels, 0 if state is None else state.baseline.days
                if state is None:
                    continue
                low, high = self._metrics.bounds[metric]
                yield _NAME, labels, round(state.relative, 4)
                yield f"{_NAME}_baseline", labels, low + (high - low) * state.baseline.mean
                yield f"{_NAME}_tolerance", labels, (high - low) * state.baseline.tolerance
                if abs(state.relative) >= 1:
                    yield f"{_NAME}_start_timestamp_seconds", labels, state.start_s
