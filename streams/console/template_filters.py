"""Filters of templates: how texts of events, numbers and times are written. Nothing else makes HTML from values.

`visible` is for texts of events; `plain` is the same where no element may stand, as in a title.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from markupsafe import Markup

from ragweir.streams.analysis.console_links import answer_path, segment
from ragweir.streams.runtime.text.escapes import escaped

_ESCAPE = Markup('<span class="escape">{}</span>')
_JOINERS = "\u200c\u200d"
"""Joiners of letters and emoji, which do not turn the direction of a line."""


def visible(text: str) -> Markup:
    r"""Return a text of an event for a page: control and bidirectional characters are shown by their escapes.

    Line ends and tabs are kept, and so are joiners between characters of scripts that need them.

    >>> visible("<b>\u202egnp.exe\r\nx")
    Markup('&lt;b&gt;<span class="escape">\\u202e</span>gnp.exe\nx')
    """
    return Markup("\n").join(_line(line) for line in text.replace("\r\n", "\n").split("\n"))


def _line(line: str) -> Markup:
    if line.isprintable():
        return Markup.escape(line)
    shown = []
    for place, character in enumerate(line):
        kept = character == "\t" or (character in _JOINERS and _joins(line[max(0, place - 1) : place + 2]))
        own = character if kept else escaped(character)
        shown.append(Markup.escape(own) if own == character else _ESCAPE.format(own))
    return Markup("").join(shown)


def _joins(around: str) -> bool:
    """Return whether a joiner stands between two characters of scripts that use it."""
    return len(around) == 3 and not around[0].isascii() and not around[2].isascii()


def moment(time: datetime) -> Markup:
    """Return a time to the second, in UTC; the script of the pages shows it in local time if the address asks for it.

    >>> moment(datetime(2026, 11, 21, 10, 3, 4, 230_000, UTC))
    Markup('<time datetime="2026-11-21T10:03:04Z">2026-11-21 10:03:04 UTC</time>')
    """
    own = time.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(f"{own:%Y-%m-%dT%H:%M:%SZ}", f"{own:%Y-%m-%d %H:%M:%S} UTC")


def number(value: float) -> str:
    """Return a number with at most four digits that count, and with separators.

    >>> number(0.33333), number(1234567.0), number(0), number(0.00042)
    ('0.333', '1,234,567', '0', '0.00042')
    """
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def duration(ms: float) -> str:
    """Return a duration in milliseconds, or in seconds from ten of these on.

    >>> duration(12.4), duration(12_345)
    ('12 ms', '12.3 s')
    """
    return f"{ms / 1_000:,.1f} s" if abs(ms) >= 10_000 else f"{ms:,.0f} ms"


FILTERS: Mapping[str, Callable[..., object]] = MappingProxyType(
    {
        "visible": visible,
        "plain": escaped,
        "moment": moment,
        "number": number,
        "duration": duration,
        "answer_path": answer_path,
        "segment": segment,
    }
)
"""The filters by name."""
