"""The names of feedback as labels of series, of which there are few."""

from __future__ import annotations

_MOST_NAMES = 20
OTHER = "__other__"
"""The label of further names."""


class FeedbackNames:
    """Admits the first names as labels, so that applications cannot make any number of series.

    >>> names = FeedbackNames(most=1)
    >>> names.known("thumbs"), names.known("copied"), names.known("thumbs")
    ('thumbs', '__other__', 'thumbs')
    """

    def __init__(self, most: int = _MOST_NAMES) -> None:
        self._most, self._known = most, {""}

    def known(self, name: str) -> str:
        """Return the label of a name."""
        if name not in self._known:
            if len(self._known) > self._most:
                return OTHER
            self._known.add(name)
        return name
