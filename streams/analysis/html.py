"""Parts of HTML reports: each is one file without scripts or external resources.

Text from events is escaped, also characters that no one sees or that turn the direction of what follows, and a content
security policy forbids everything but the page's own style.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ragweir.streams.runtime.text.escapes import escaped

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --ink: #1d2733; --paper: #fff; --rule: #e3e8ee; --quiet: #66727f; --bar: #c4ccd6;
  --bad: #b3261e; --warn: #b26a00; --good: #1b7a3d; --mark: #2457a6; --note: #fff6dd }}
@media (prefers-color-scheme: dark) {{ :root {{ --ink: #dde3ea; --paper: #14191f; --rule: #2c353f; --quiet: #96a2af;
  --bar: #46525f; --bad: #ff8a80; --warn: #f0b35a; --good: #6fcf8f; --mark: #8ab4f8; --note: #3a3216 }} }}
body {{ font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
  margin: 2rem auto; padding: 0 1rem }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .4rem }}
table {{ border-collapse: collapse; width: 100%; font-size: .85rem }}
th, td {{ padding: .2rem .5rem; border-bottom: 1px solid var(--rule); font-variant-numeric: tabular-nums }}
svg {{ width: 100%; height: auto; fill: var(--ink) }} svg text {{ font-size: 11px; stroke: none !important }}
.axis {{ stroke: var(--bar) }} .quiet {{ color: var(--quiet) }}
{style}</style>
</head>
<body>
"""


def document(title: str, style: str, parts: Iterable[str]) -> str:
    """Return a page of these parts, with additional style rules."""
    return _HEAD.format(title=text(title), style=style) + "".join(parts) + "</body>\n</html>\n"


def text(value: str, most: int = 200) -> str:
    r"""Return text from outside, shortened and escaped.

    >>> print(text("<b>&amp;"), text("x" * 9, 5), text("\x1b\u202egnp.exe"))
    &lt;b&gt;&amp;amp; xxxx… \x1b\u202egnp.exe
    """
    return escape(escaped(value if len(value) <= most else value[: most - 1] + "…"))


def row(cells: Iterable[str], tag: str = "td", kind: str = "") -> str:
    r"""Return a table row of cells that are HTML.

    >>> row(("a", "<b>b</b>"))
    '<tr><td>a</td><td><b>b</b></td></tr>\n'
    """
    marked = f' class="{kind}"' if kind else ""
    return f"<tr{marked}>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>\n"


def table(head: Iterable[str], rows: Iterable[str]) -> str:
    """Return a table of header cells and rows."""
    return f"<table>{row(head, 'th')}{''.join(rows)}</table>\n"


def drawing(width: float, height: float, label: str, marks: Iterable[str]) -> str:
    """Return an SVG drawing; `label` is its text alternative."""
    joined = "\n".join(marks)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">\n{joined}\n</svg>\n'
