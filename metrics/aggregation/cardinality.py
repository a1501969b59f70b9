"""Limits on the number of label sets: admission of new ones, and an overflow set for the others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.window import OVERFLOW

Labels = tuple[str, ...]
"""One value per dimension, in the settings' order; empty if the event has none."""

_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """Limits on the number of label sets."""

    most: int
    """Maximum number of label sets in all windows in memory, without the overflow set."""
    new_per_hour: int
    """Maximum number of label sets whose first window starts within an hour of event time."""
    hold_s: float
    """Time that a window and its label sets stay in memory, in seconds of event time."""


class Admission:
    """Admission of label sets to windows.

    A label set of any window in memory is admitted to all others. A new one is admitted while the windows have fewer
    label sets than `most`, and fewer than `new_per_hour` of them first occur within an hour before or after it. The
    label sets of the first window do not count for the latter, since they may be old. The result is a function of the
    windows in memory and of event time.

    >>> admission = Admission(AdmissionLimits(most=4, new_per_hour=1, hold_s=7200))
    >>> [admission.admits((name,), start_s) for name, start_s in zip("abcda", (0, 0, 60, 120, 180))]
    [True, True, True, False, True]
    >>> admission.admits(("d",), 3660), admission.admits(("e",), 7260)
    (True, False)
    """

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        # Not longer than windows are held, or a permanent label set would count as new repeatedly.
        self._near_s = min(_HOUR_S, limits.hold_s / 2)
        self._first_s: int | None = None
        """The start of the first window."""
        self._newest_s: int | None = None
        self._met: dict[Labels, int] = {}
        """The start of the earliest window of each label set."""
        self._last: dict[Labels, int] = {}
        self._births: list[int] = []
        """The sorted starts of the earliest windows, without the first window."""

    def __contains__(self, labels: Labels) -> bool:
        """Return True if a window in memory has the label set."""
        return labels in self._met

    def hold(self, sets: Iterable[Labels], start_s: int) -> None:
        """Admit the label sets of a window regardless of the limits."""
        if self._first_s is None:
            self._first_s = start_s
        for labels in sets:
            met = self._met.get(labels)
            if not _is_overflow(labels) and (met is None or start_s < met):
                if met is not None and met != self._first_s:
                    del self._births[bisect_left(self._births, met)]
                if start_s != self._first_s:
                    insort(self._births, start_s)
                self._met[labels] = start_s
            self._last[labels] = max(start_s, self._last.get(labels, start_s))

    def admits(self, labels: Labels, start_s: int) -> bool:
        """Admit a label set to a window by its start; return False if the limits do not allow it."""
        if labels not in self._met and not _is_overflow(labels) and not self._has_room(start_s):
            return False
        self.hold((labels,), start_s)
        return True

    def _has_room(self, start_s: int) -> bool:
        if len(self._met) >= self._limits.most:
            return False
        near = bisect_left(self._births, start_s + self._near_s) - bisect_right(self._births, start_s - self._near_s)
        return near < self._limits.new_per_hour

    def advance(self, start_s: int) -> None:
        """Advance to a window by its start: release the label sets of windows that are no longer held."""
        if self._newest_s is not None and start_s <= self._newest_s:
            return
        self._newest_s = start_s
        for labels in [each for each, last_s in self._last.items() if last_s < start_s - self._limits.hold_s]:
            del self._last[labels]
            met = self._met.pop(labels, None)
            if met is not None and met != self._first_s:
                del self._births[bisect_left(self._births, met)]


def admit_sets(
    sets: Mapping[Labels, WindowAggregate], admission: Admission, start_s: int
) -> tuple[dict[Labels, WindowAggregate], frozenset[Labels]]:
    """Return a window's admitted label sets with one overflow set for the others, and the label sets in overflow.

    The busiest new ones are admitted first. `sets` is not changed, and its order makes no difference.

    >>> admission = Admission(AdmissionLimits(most=2, new_per_hour=9, hold_s=7200))
    >>> sets = {("a",): WindowAggregate(1), ("b",): WindowAggregate(7), ("c",): WindowAggregate(2)}
    >>> for start_s, names in enumerate(("a", "abc")):
    ...     window = {labels: sets[labels] for labels in sets if labels[0] in names}
    ...     kept, folded = admit_sets(window, admission, start_s)
    >>> {labels: contents.events for labels, contents in kept.items()}, sorted(folded)
    ({('b',): 7, ('a',): 1, ('__overflow__',): 2}, [('c',)])
    """
    admission.advance(start_s)
    kept: dict[Labels, WindowAggregate] = {}
    folded = []
    for labels in busiest_first(sets):
        if admission.admits(labels, start_s):
            kept[labels] = sets[labels]
        else:
            folded.append(labels)
    if folded:
        overflow = (OVERFLOW,) * len(folded[0])
        together = WindowAggregate()
        for each in (*folded, *([overflow] if overflow in kept else [])):
            together.merge(sets[each])
        kept[overflow] = together
    return kept, frozenset(folded)


def merge_sets(sets: dict[Labels, WindowAggregate], more: Mapping[Labels, WindowAggregate], most: int) -> int:
    """Merge `more` into `sets`, up to `most` label sets and an overflow set; new ones in the order of their events.

    Returns:
        the number of label sets that went into overflow.
    """
    places = {labels: labels for labels in sets}
    add_places(places, busiest_first(more), most)
    for labels, contents in more.items():
        sets.setdefault(places[labels], WindowAggregate()).merge(contents)
    return sum(places[labels] != labels for labels in more)


def add_places(places: dict[Labels, Labels], busiest: Iterable[Labels], most: int) -> None:
    """Add the label sets that those of a window belong to: themselves while there are less than `most`, or overflow.

    >>> places = {}
    >>> add_places(places, [("a",), ("b",)], most=1)
    >>> places
    {('a',): ('a',), ('b',): ('__overflow__',)}
    """
    room = most - sum(place == labels and not _is_overflow(labels) for labels, place in places.items())
    for labels in busiest:
        if labels in places:
            continue
        if _is_overflow(labels):
            places[labels] = labels
        elif room > 0:
            places[labels] = labels
            room -= 1
        else:
            places[labels] = (OVERFLOW,) * len(labels)


def busiest_first(sets: Mapping[Labels, WindowAggregate]) -> list[Labels]:
    """Return label sets in descending order of their events."""
    return sorted(sets, key=lambda labels: (-sets[labels].events, labels))


def _is_overflow(labels: Iterable[str]) -> bool:
    return all(value == OVERFLOW for value in labels)
