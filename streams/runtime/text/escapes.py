"""Escapes of characters that control a terminal or a page; applications that publish load this, and nothing with it."""

from __future__ import annotations

import unicodedata


def escaped(text: str, *, exactly: bool = False) -> str:
    r"""Return a text with Python's escapes in place of the characters that control a terminal or the order of a line.

    These are all that are not printable, but for spaces of other widths. `exactly` escapes those as well, and
    backslashes, so that the text can be told from its escapes.

    >>> print(escaped("a\x1b[2J\u202eb\\"), escaped("a\u00a0\\", exactly=True), escaped("a\u00a0b") == "a\u00a0b")
    a\x1b[2J\u202eb\ a\xa0\\ True
    """
    if text.isprintable() and not (exactly and "\\" in text):
        return text
    return "".join(each if _is_shown(each, exactly=exactly) else _escape(each) for each in text)


def _is_shown(character: str, *, exactly: bool) -> bool:
    if exactly:
        return character.isprintable() and character != "\\"
    return character.isprintable() or unicodedata.category(character) == "Zs"


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # A byte that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode()
