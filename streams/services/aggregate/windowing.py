"""Windows of all sizes from a file's evaluations or from base windows, merged and closed.

The result equals that of the aggregate agent and the readers of its topic, without late events and parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from operator import itemgetter

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.cardinality import Admission, Labels, add_places, admit_sets, busiest_first
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate, merged
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord
from ragweir.schemas.packed_scores import ScoreRow, row_of
from ragweir.schemas.window import duration_s
from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.services.aggregate.open_windows import Key
from ragweir.streams.services.aggregate.window_times import has_windows, start_of
from ragweir.streams.services.shared.dimensions import Dimensions, admission_limits
from ragweir.streams.settings import WindowSettings

_BATCH = 1_000
"""Evaluations that are summed together, which is much faster than one by one."""

Base = tuple[datetime, Mapping[Labels, WindowAggregate]]
"""The start of a base window, and its contents by label set."""


class Windowing:
    """Sums evaluations in any order. Memory grows with the windows and label sets, not with evaluations."""

    def __init__(self, settings: WindowSettings, aggregator: Aggregator) -> None:
        self._settings = settings
        self._base = timedelta(seconds=duration_s(settings.sizes[0]))
        self._dimensions = Dimensions(settings.dimensions, settings.values)
        self._aggregator = aggregator
        self._rows: list[ScoreRow] = []
        self._keys: list[Key] = []
        self._contents: defaultdict[datetime, defaultdict[Labels, WindowAggregate]] = defaultdict(
            lambda: defaultdict(WindowAggregate)
        )

    def add(self, evaluation: Evaluation | EvaluationRecord) -> None:
        """Add an evaluation; one at an end of the calendar, where there is no room for windows, is left out."""
        if not has_windows(evaluation.event_time):
            return
        key = start_of(evaluation.event_time, self._base), self._dimensions.of(evaluation)
        self._keys.append(key)
        self._rows.append(row_of(evaluation))
        if len(self._rows) >= _BATCH:
            self._sum()

    def _sum(self) -> None:
        for (start, labels), contents in self._aggregator.aggregate(self._rows, self._keys).items():
            self._contents[start][labels].merge(contents)
        self._rows, self._keys = [], []

    def windows(self) -> Iterator[MergedWindow]:
        """Yield all windows, in the order of `of_all_sizes`."""
        self._sum()
        yield from of_all_sizes(sorted(self._contents.items(), key=itemgetter(0)), self._settings)


@dataclass(slots=True)
class _OpenWindow:
    """A window that further base windows may fall into.

    Its aggregates are those of smaller windows, which are copied before a second one is merged into them.
    """

    size: str
    start: datetime
    end: datetime
    places: dict[Labels, Labels] = field(default_factory=dict)
    """The label set that each label set of the base windows belongs to: itself, or overflow."""
    sets: dict[Labels, WindowAggregate] = field(default_factory=dict)
    _copied: set[Labels] = field(default_factory=set)

    def take(self, sets: Mapping[Labels, WindowAggregate]) -> None:
        """Merge the label sets of a smaller window, which all have places."""
        for labels, contents in sets.items():
            place = self.places[labels]
            if place not in self.sets:
                self.sets[place] = contents
                continue
            if place not in self._copied:
                self._copied.add(place)
                self.sets[place] = merged((self.sets[place],))
            self.sets[place].merge(contents)

    def windows(self, dimensions: Iterable[str]) -> Iterator[MergedWindow]:
        """Yield the window of each label set."""
        for labels, contents in sorted(self.sets.items()):
            named = dict(zip(dimensions, labels, strict=True))
            yield MergedWindow(self.size, self.start, self.end, named, contents)


def of_all_sizes(bases: Iterable[Base], settings: WindowSettings) -> Iterator[MergedWindow]:
    """Merge base windows into those of every size, and yield these ascending by end, then size, then label set.

    A window is yielded as soon as a base window starts at or after its end, so one accumulator per size is held, of at
    most `max_series` label sets and the overflow. As in `export`, label sets that earlier base windows kept apart have
    priority, then the busiest. The base windows are not changed.

    Raises:
        ValueError: if starts do not ascend, or summaries cannot be merged.
    """
    lengths = {size: timedelta(seconds=duration_s(size)) for size in settings.sizes}
    parts = _parts(lengths, timedelta(hours=settings.hold_h))
    admission = Admission(admission_limits(settings))
    opened: dict[str, _OpenWindow] = {}
    before: datetime | None = None

    def closed(windows: Iterable[_OpenWindow]) -> Iterator[MergedWindow]:
        for ended in sorted(windows, key=_order):
            yield from opened.pop(ended.size).windows(settings.dimensions)
            for size in parts[ended.size]:
                opened[size].take(ended.sets)

    for start, sets in bases:
        if before is not None and start <= before:
            raise ValueError(f"the window of {start} comes after that of {before}")
        before = start
        yield from closed([each for each in opened.values() if each.end <= start])
        kept, _ = admit_sets(sets, admission, int(start.timestamp()))
        busiest = busiest_first(kept)
        for size, length in lengths.items():
            if size not in opened:
                begin = start_of(start, length)
                opened[size] = _OpenWindow(size, begin, begin + length)
            add_places(opened[size].places, busiest, settings.max_series)
        opened[settings.sizes[0]].take(kept)
    yield from closed(opened.copy().values())


def _parts(lengths: Mapping[str, timedelta], held: timedelta) -> dict[str, list[str]]:
    """Return for each size the larger ones that are merged from it: each from the largest one that divides it.

    A window that is longer than windows are held is part of no other, because it may have put label sets into overflow
    that the other one keeps apart; no window within that time does, for `Admission` admits at most `max_series`.

    >>> minutes = {f"{each}m": timedelta(minutes=each) for each in (1, 3, 5, 60, 120)}
    >>> _parts(minutes, timedelta(minutes=60))
    {'1m': ['3m', '5m'], '3m': [], '5m': ['60m'], '60m': ['120m'], '120m': []}
    """
    base, *larger = sorted(lengths, key=lambda size: lengths[size])
    parts: dict[str, list[str]] = {size: [] for size in lengths}
    smaller = [base]
    for size in larger:
        own = [each for each in smaller if not lengths[size] % lengths[each]]
        parts[max(own, key=lambda each: lengths[each])].append(size)
        if lengths[size] <= held:
            smaller.append(size)
    return parts


def _order(window: _OpenWindow) -> tuple[datetime, timedelta]:
    """Return the sort key of a window: its end, then its length."""
    return window.end, window.end - window.start
