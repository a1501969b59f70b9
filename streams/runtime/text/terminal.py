"""Output on a terminal: text from events, topics, endpoints and files cannot control it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typing_extensions import override

_WIDTH = 48


class Terminal(Console):
    """A console that prints text without markup, emoji names and control characters.

    Rich's own control sequences (colours, redrawing) stay. `print(..., markup=True)` is for constant texts alone.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def say(self, text: str | Text, style: str = "") -> None:
        """Print a text; its lines are wrapped by the terminal alone, and stay whole in a file."""
        self.print(text, style=style, soft_wrap=True)

    @override
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as rich does, with printable characters only."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable() or segment.text == "\n":
                yield segment
            else:
                lines = (printable(line, None) for line in segment.text.split("\n"))
                yield Segment("\n".join(lines), segment.style)


def printable(text: str, most: int | None = _WIDTH) -> str:
    r"""Return a text on one line without control characters, cut to a number of characters; None cuts nothing.

    White space becomes a space; line ends and other characters that are not printable become U+FFFD.

    >>> printable("a\x1b[2Jb"), printable("a" * 9, 5), printable("a\u202e\x9b\u00a0b\n")
    ('a\ufffd[2Jb', 'aaaa…', 'a\ufffd\ufffd b\ufffd')
    """
    head = text if most is None else text[: most + 1]
    safe = head if head.isprintable() else "".join(map(_printable, head))
    return safe if most is None or len(safe) <= most else safe[: most - 1] + "…"


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character == "\t" or unicodedata.category(character) == "Zs" else "\ufffd"


def record_time(epoch_ms: int | None) -> str:
    """Format the timestamp of a record, which may be any number.

    >>> record_time(1_764_000_000_123), record_time(None), record_time(10**20)
    ('2025-11-24T16:00:00.123000+00:00', 'an unknown time', '100000000000000000000 ms')
    """
    try:
        return "an unknown time" if epoch_ms is None else datetime.fromtimestamp(epoch_ms / 1000, UTC).isoformat()
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"


def dollars(micro: int) -> str:
    """Format millionths of a dollar.

    >>> dollars(12_345)
    '$0.0123'
    """
    return f"${micro / 1_000_000:,.4f}"


_CONTROL = re.compile(r"[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]")


def printable_json(data: bytes) -> bytes:
    r"""Escape the control characters of a JSON text. Those below U+0020 are always escaped in JSON.

    >>> printable_json('{"a": "ü\u009b2J\u202e"}'.encode()).decode()
    '{"a": "ü\\u009b2J\\u202e"}'
    """
    return _CONTROL.sub(_escaped, data.decode()).encode()


def _escaped(found: re.Match[str]) -> str:
    """Return a character as JSON escapes it, in UTF-16."""
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
