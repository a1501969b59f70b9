"""Feedback on the answers of a day that is over: most of it has come, and it still says how answers are now."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from ragweir.streams.runtime.records import Count
from ragweir.streams.services.shared.feedback_names import FeedbackNames
from ragweir.streams.services.tally.held_feedback import OTHER, HeldFeedback

_SERIES = "ragweir_feedback_given"
_YOUNGEST, _OLDEST = timedelta(hours=24), timedelta(hours=48)
_MOST_VALUES = 20
"""The values of each name that are labels; the others are counted together."""
_EVERY_S = 15.0


class RecentFeedback:
    """Counts the feedback that holds on answers which are 24 to 48 hours old, in whole hours, by name and value."""

    def __init__(self, names: FeedbackNames) -> None:
        self._names = names
        self._due_s = 0.0
        self._shown: set[Count] = set()
        self._gone: set[Count] = set()

    def levels(self, states: Iterable[HeldFeedback], now_s: float) -> dict[Count, float]:
        """Return the gauges; none if the last ones are seconds old."""
        if now_s < self._due_s <= now_s + _EVERY_S:  # A clock may be set back.
            return {}
        self._due_s = now_s + _EVERY_S
        hour = datetime.fromtimestamp(now_s, UTC).replace(minute=0, second=0, microsecond=0)
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for state in states:
            for window, names in state.counts.items():
                if _YOUNGEST < hour - window.start <= _OLDEST:
                    for name, values in names.items():
                        counts[self._names.known(name)].update(values)
        found: dict[Count, float] = {}
        for name, values in counts.items():
            ranked = sorted(values.items(), key=lambda each: (-each[1], each[0]))
            found |= {(_SERIES, name, value): number for value, number in ranked[:_MOST_VALUES]}
            if rest := sum(number for _, number in ranked[_MOST_VALUES:]):
                found[_SERIES, name, OTHER] = found.get((_SERIES, name, OTHER), 0) + rest
        self._gone = (self._gone | self._shown) - found.keys()
        self._shown = set(found)
        return found

    def take_gone(self) -> set[Count]:
        """Return the gauges that have no value any more since the last call."""
        gone, self._gone = self._gone, set()
        return gone
