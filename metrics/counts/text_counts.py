"""The base of the counts of each subject."""

from __future__ import annotations

from ragweir.metrics.texts import TokenisedTexts


class TextCounts:
    """Counts of the texts of one event, each computed on first access.

    Reading one raises `ragweir.metrics.unavailable.Unavailable` if it needs a text that is not there.
    """

    def __init__(self, texts: TokenisedTexts) -> None:
        self.texts = texts
