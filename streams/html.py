"""Parts of the HTML pages: one file each, without scripts and without anything to load.

Text from events is escaped, and the content security policy of the page permits only its style.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; color: #1d2733; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.15rem; margin: 2.2rem 0 .4rem }}
table {{ border-collapse: collapse; width: 100%; font-size: .85rem }}
th, td {{ padding: .2rem .5rem; border-bottom: 1px solid #e3e8ee; font-variant-numeric: tabular-nums }}
svg {{ width: 100%; height: auto }} svg text {{ font-size: 11px; stroke: none }}
.quiet {{ color: #66727f }}
{style}</style>
</head>
<body>
"""


def document(title: str, style: str, parts: Iterable[str]) -> str:
    """Return a whole page of these parts, with CSS rules in addition to those of all pages."""
    return _HEAD.format(title=text(title), style=style) + "".join(parts) + "</body>\n</html>\n"


def text(value: str, most: int = 200) -> str:
    """Shorten and escape a text.

    >>> text("<b>&amp;"), text("x" * 9, 5)
    ('&lt;b&gt;&amp;amp;', 'xxxx…')
    """
    return escape(value if len(value) <= most else value[: most - 1] + "…")


def row(cells: Iterable[str], tag: str = "td", kind: str = "") -> str:
    r"""Return a row of a table, of cells that are HTML.

    >>> row(("a", "<b>b</b>"))
    '<tr><td>a</td><td><b>b</b></td></tr>\n'
    """
    marked = f' class="{kind}"' if kind else ""
    return f"<tr{marked}>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>\n"


def drawing(width: float, height: float, label: str, marks: Iterable[str]) -> str:
    """Return an SVG picture of these elements; `label` describes it to screen readers."""
    joined = "\n".join(marks)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text(label)}">\n{joined}\n</svg>\n'
