"""Folds a text into a plain form, in which patterns find what is written with other spaces, dashes and digits."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

_WIDE = range(0xFF01, 0xFF5F)
_WIDE_LESS_ASCII = 0xFF01 - 0x21
_SMALL = range(0xFE50, 0xFE6C)
_MINUS = 0x2212
_INVISIBLE = (
    *(0x034F, 0x115F, 0x1160, 0x20E3, 0x3164, 0xFFA0),  # a joiner, fillers, and the frame of a key
    *range(0x180B, 0x180E),
    *range(0xFE00, 0xFE10),
    *range(0xE0100, 0xE01F0),  # selectors of variations
)
"""Characters without a width besides those of the category Cf, such as zero width space and soft hyphen."""


@dataclass(frozen=True, slots=True)
class Folded:
    """A text and its plain form, which may be shorter."""

    text: str
    plain: str
    places: list[int] | None
    """The place in the text of each character of the plain form; None if they are the same."""

    def replaced(self, spans: Iterable[tuple[int, int]], by: str) -> str:
        r"""Return the text with spans of the plain form replaced; all other characters stay as they are.

        >>> folded("call +４９\u00a030").replaced([(5, 11)], "[phone]")
        'call [phone]'
        """
        kept: list[str] = []
        done = 0
        for start, end in spans:
            first, last = (start, end - 1) if self.places is None else (self.places[start], self.places[end - 1])
            kept += self.text[done:first], by
            done = last + 1
        return "".join((*kept, self.text[done:]))


def folded(text: str) -> Folded:
    r"""Return a text with its plain form.

    In this every space is U+0020, every dash is U+002D, decimal digits of all scripts and full width forms are ASCII,
    and there are no characters without a width.

    >>> folded("０３０\u2009–\u20091\u200b2").plain
    '030 - 12'
    """
    if text.isascii():
        return Folded(text, text, None)
    folds = _folds()
    plain = text.translate(folds)
    if len(plain) == len(text):
        return Folded(text, plain, None)
    return Folded(text, plain, [at for at, character in enumerate(text) if folds.get(ord(character), "") is not None])


@cache
def _folds() -> dict[int, str | None]:
    """Return what characters beyond ASCII become, without those that stay; None is for those that have no width."""
    folds: dict[int, str | None] = dict.fromkeys(_INVISIBLE)
    for code in range(0x80, sys.maxunicode + 1):
        match unicodedata.category(character := chr(code)):
            case "Cf":
                folds[code] = None
            case "Zs":
                folds[code] = " "
            case "Pd":
                folds[code] = "-"
            case "Nd":
                folds[code] = str(unicodedata.decimal(character))
    folds |= {code: chr(code - _WIDE_LESS_ASCII) for code in _WIDE}
    folds |= {code: plain for code in _SMALL if (plain := unicodedata.normalize("NFKC", chr(code))).isascii()}
    return {**folds, _MINUS: "-"}
