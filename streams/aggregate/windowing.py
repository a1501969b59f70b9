"""Windows of all sizes, merged and closed: of a file's evaluations, or of base windows that others have summed up.

This is the plain counterpart of what the aggregate agent and the readers of its topic do step by step under disorder
and restarts: nothing is late, nothing is in parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from operator import itemgetter

from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.aggregation.cardinality import Admission, Labels, admit_sets, merge_sets
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.window import Window, duration_s
from ragweir.streams.aggregate.dimensions import Dimensions, admission_limits
from ragweir.streams.settings import WindowSettings

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BATCH = 1_000
"""Summing up many evaluations at once costs far less than one by one."""

Key = tuple[datetime, Labels]
Base = tuple[datetime, Mapping[Labels, WindowAggregate]]
"""The start of a base window, and what it holds per label set."""


class Windowing:
    """Takes evaluations in any order. Memory grows with the distinct windows and label sets, not with evaluations."""

    def __init__(self, settings: WindowSettings, totals: Aggregator) -> None:
        self._settings = settings
        self._base = timedelta(seconds=duration_s(settings.sizes[0]))
        self._dimensions = Dimensions(settings.dimensions, settings.values)
        self._totals = totals
        self._waiting: list[WindowEntry[Key]] = []
        self._contents: defaultdict[datetime, defaultdict[Labels, WindowAggregate]] = defaultdict(
            lambda: defaultdict(WindowAggregate)
        )

    def add(self, evaluation: Evaluation) -> None:
        """Take one evaluation in. At either end of the calendar there is no room for windows, and it enters none."""
        if not has_windows(evaluation.event_time):
            return
        key = start_of(evaluation.event_time, self._base), self._dimensions.of(evaluation)
        self._waiting.append(self._totals.entry(evaluation, key))
        if len(self._waiting) >= _BATCH:
            self._sum_up()

    def _sum_up(self) -> None:
        for (start, labels), contents in self._totals.aggregate(self._waiting).items():
            self._contents[start][labels].merge(contents)
        self._waiting = []

    def windows(self) -> Iterator[Window]:
        """All windows, in the order of `of_all_sizes`."""
        self._sum_up()
        yield from of_all_sizes(sorted(self._contents.items(), key=itemgetter(0)), self._settings)


@dataclass(slots=True)
class _Open:
    """A window that more base windows may fall into."""

    size: str
    start: datetime
    end: datetime
    sets: dict[Labels, WindowAggregate] = field(default_factory=dict)

    def windows(self, dimensions: Iterable[str]) -> Iterator[Window]:
        """What it has come to, by label set."""
        for labels, contents in sorted(self.sets.items()):
            for summary in contents.metrics.values():  # Else the bytes would tell the order of the events.
                summary.bins = dict(sorted(summary.bins.items()))
            yield Window(
                window=self.size,
                start=self.start,
                end=self.end,
                dimensions=dict(zip(dimensions, labels, strict=True)),
                partition=None,
                part=None,
                closed=True,
                **contents.fields(whole=True),
            )


def of_all_sizes(bases: Iterable[Base], settings: WindowSettings) -> Iterator[Window]:
    """Merge base windows into those of every size, as they come: ascending by end, then size, then label set.

    A window is given as soon as the next base window starts at or past its end, so that one accumulator per size is
    held, of at most `max_series` label sets and the overflow. As in what `export` shows, label sets that earlier base
    windows kept apart come first, then the busiest.

    Args:
        bases: each once, ascending by start; starts are multiples of the first size. They stay as they are.
        settings: sizes, dimensions and the cap.

    Raises:
        ValueError: if they do not ascend, or hold summaries that cannot be merged.
    """
    lengths = {size: timedelta(seconds=duration_s(size)) for size in settings.sizes}
    admission = Admission(admission_limits(settings))
    opened: dict[str, _Open] = {}
    before: datetime | None = None
    for start, sets in bases:
        if before is not None and start <= before:
            raise ValueError(f"the window of {start} comes after that of {before}")
        before = start
        for ended in sorted((each for each in opened.values() if each.end <= start), key=_place):
            yield from opened.pop(ended.size).windows(settings.dimensions)
        kept, _ = admit_sets(sets, admission, int(start.timestamp()))
        for size, length in lengths.items():
            if size not in opened:
                begin = start_of(start, length)
                opened[size] = _Open(size, begin, begin + length)
            merge_sets(opened[size].sets, kept, settings.max_series)
    for ended in sorted(opened.values(), key=_place):
        yield from ended.windows(settings.dimensions)


def _place(window: _Open) -> tuple[datetime, timedelta]:
    """Its place among windows: by end, and of those that end together the shortest first."""
    return window.end, window.end - window.start


def has_windows(time: datetime) -> bool:
    """Whether there is room for windows around a time: not at either end of the calendar."""
    return MINYEAR < time.year < MAXYEAR


def start_of(time: datetime, length: timedelta) -> datetime:
    """When the window of a length begins that a time falls into.

    >>> start_of(datetime(2026, 11, 22, 10, 7, tzinfo=UTC), timedelta(minutes=5)).isoformat()
    '2026-11-22T10:05:00+00:00'
    """
    return time - (time - _EPOCH) % length
