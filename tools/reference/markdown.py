"""Markdown that GitHub, other CommonMark renderers and mkdocs show alike."""

from __future__ import annotations

import re
from collections.abc import Iterable

_MARKUP = re.compile(r"\b_+|_+\b|[*\[\]<]")
"""Markup outside of code: underscores at the edge of a word, asterisks, brackets, and the begin of a tag."""


def plain(text: str) -> str:
    r"""Return a text as Markdown that shows it in one paragraph: markup outside of backticks is escaped.

    Python-Markdown knows no escape of `<`.

    >>> plain("in __three__,\n`__four__` < 5")
    'in \\_\\_three\\_\\_, `__four__` &lt; 5'
    """
    pieces = " ".join(text.split()).split("`")
    pieces[::2] = (_MARKUP.sub(_escaped, piece) for piece in pieces[::2])
    return "`".join(pieces)


def _escaped(found: re.Match[str]) -> str:
    return "&lt;" if found[0] == "<" else "".join(f"\\{each}" for each in found[0])


def code(text: object) -> str:
    """Return a text as code that may stand in a cell.

    Renderers differ on pipes within code in a table, and agree on the entity within a tag.

    >>> code("a.b"), code("a | <b>")
    ('`a.b`', '<code>a &#124; &lt;b&gt;</code>')
    """
    shown = str(text)
    if "|" not in shown and "`" not in shown:
        return f"`{shown}`"
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ("|", "&#124;"), ("`", "&#96;")):
        shown = shown.replace(character, entity)
    return f"<code>{shown}</code>"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table of cells that are Markdown.

    >>> print(table(("a", "b"), [("1 | 2", "`3`")]))
    | a | b |
    | --- | --- |
    | 1 &#124; 2 | `3` |
    """
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines += [[_cell(text) for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    pieces = text.split("`")
    pieces[1::2] = (code(piece) if "|" in piece else f"`{piece}`" for piece in pieces[1::2])
    pieces[::2] = (piece.replace("|", "&#124;") for piece in pieces[::2])
    return "".join(pieces)


def anchor(name: str, shown: str | None = None) -> str:
    """Return a text that links can lead to, by its name.

    >>> anchor("judge.model")
    '<a id="judge.model"></a>`judge.model`'
    """
    return f'<a id="{name}"></a>{shown or code(name)}'


def blocks(*parts: str) -> str:
    """Return paragraphs, headings and tables with an empty line between them; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)
