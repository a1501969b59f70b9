"""Label sets: which of a window's are kept apart, and which count together because there are too many."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.window import OVERFLOW

Labels = tuple[str, ...]
"""One value per dimension, in the settings' order; empty where the event has none."""

_HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class AdmissionLimits:
    """The number of label sets that are kept apart."""

    most: int
    """Label sets in all windows that are held together, beside the overflow set."""
    new_per_hour: int
    """Label sets whose first window starts within an hour of event time."""
    hold_s: float
    """The event time for which a window is held, and with it its label sets."""


class Admission:
    """Admits label sets to windows. One that a held window has is admitted to every other; a new one needs room.

    There is room while the held windows have fewer label sets than `most`, and fewer than `new_per_hour` of them first
    occur within an hour before or after the new one. Those of the first window count for the former only: whether they
    are new is not known. So what comes first stays, and the outcome is a function of the held windows and of event
    time.

    >>> admission = Admission(AdmissionLimits(most=4, new_per_hour=1, hold_s=7200))
    >>> [admission.admits((name,), start_s) for name, start_s in zip("abcda", (0, 0, 60, 120, 180))]
    [True, True, True, False, True]
    >>> admission.admits(("d",), 3660), admission.admits(("e",), 7260)
    (True, False)
    """

    def __init__(self, limits: AdmissionLimits) -> None:
        self._limits = limits
        # Were an hour longer than windows are held, a label set that stays would be counted as new again and again.
        self._near_s = min(_HOUR_S, limits.hold_s / 2)
        self._first_s: int | None = None
        """The start of the first window."""
        self._newest_s: int | None = None
        self._met: dict[Labels, int] = {}
        """The label sets, with the start of the earliest window that has them."""
        self._last: dict[Labels, int] = {}
        self._births: list[int] = []
        """The starts of the earliest windows, in order, without those that are the first window."""

    def __contains__(self, labels: Labels) -> bool:
        """Return whether a held window has it."""
        return labels in self._met

    def hold(self, sets: Iterable[Labels], start_s: int) -> None:
        """Take the label sets of a held window in, whatever the limits."""
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
        """Return whether a window that starts then may keep this label set apart; if so, the window is held with it."""
        if labels not in self._met and not _is_overflow(labels) and not self._has_room(start_s):
            return False
        self.hold((labels,), start_s)
        return True

    def _has_room(self, start_s: int) -> bool:
        if len(self._met) >= self._limits.most:
            return False
        near = bisect_left(self._births, start_s + self._near_s) - bisect_right(self._births, start_s - self._near_s)
        return near < self._limits.new_per_hour

    def reach(self, start_s: int) -> None:
        """Go on to the window that starts then: release those that start longer ago than windows are held."""
        if self._newest_s is not None and start_s <= self._newest_s:
            return
        self._newest_s = start_s
        for labels in [each for each, last_s in self._last.items() if last_s < start_s - self._limits.hold_s]:
            del self._last[labels]
            met = self._met.pop(labels, None)
            if met is not None and met != self._first_s:
                del self._births[bisect_left(self._births, met)]


def apart(
    sets: Mapping[Labels, WindowAggregate], admission: Admission, start_s: int
) -> tuple[dict[Labels, WindowAggregate], frozenset[Labels]]:
    """The label sets that a window keeps apart, the rest as one overflow set; and which went into that.

    Those that a held window has stay; of the others the busiest come first. `sets` stay as they are, and their order
    makes no difference.

    >>> admission = Admission(AdmissionLimits(most=2, new_per_hour=9, hold_s=7200))
    >>> sets = {("a",): WindowAggregate(1), ("b",): WindowAggregate(7), ("c",): WindowAggregate(2)}
    >>> for start_s, names in enumerate(("a", "abc")):
    ...     kept, folded = apart({labels: sets[labels] for labels in sets if labels[0] in names}, admission, start_s)
    >>> {labels: contents.events for labels, contents in kept.items()}, sorted(folded)
    ({('b',): 7, ('a',): 1, ('__overflow__',): 2}, [('c',)])
    """
    admission.reach(start_s)
    kept: dict[Labels, WindowAggregate] = {}
    folded = []
    for labels in by_events(sets):
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


def fold(sets: dict[Labels, WindowAggregate], more: Mapping[Labels, WindowAggregate], most: int) -> int:
    """Merge `more` into `sets`, which never come to hold over `most` label sets beside the overflow set.

    The label sets that came first stay; of those that come together, the busiest go first.

    Returns:
        how many went into the overflow set.
    """
    folded = 0
    for labels in by_events(more):
        place = labels
        if labels not in sets and not _is_overflow(labels):
            overflow = (OVERFLOW,) * len(labels)
            if len(sets) - (overflow in sets) >= most:
                place = overflow
                folded += 1
        sets.setdefault(place, WindowAggregate()).merge(more[labels])
    return folded


def by_events(sets: Mapping[Labels, WindowAggregate]) -> list[Labels]:
    """Label sets, the busiest first."""
    return sorted(sets, key=lambda labels: (-sets[labels].events, labels))


def _is_overflow(labels: Iterable[str]) -> bool:
    return all(value == OVERFLOW for value in labels)
