"""Markdown as its readers see it: by a CommonMark renderer with tables, as GitHub's, and by mkdocs."""

import re
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

from markdown import Markdown
from markdown_it import MarkdownIt
from mkdocs.config import load_config
from typing_extensions import override

ROOT = Path(__file__).parent.parent


@cache
def by_commonmark(text: str) -> str:
    return MarkdownIt("commonmark").enable("table").render(text)


@cache
def by_mkdocs(text: str) -> str:
    """With the extensions of mkdocs.yml."""
    config = _config()
    return Markdown(extensions=config["markdown_extensions"], extension_configs=config["mdx_configs"]).convert(text)


@cache
def _config() -> dict[str, object]:
    return dict(load_config(str(ROOT / "mkdocs.yml")))


RENDERERS = {"CommonMark": by_commonmark, "mkdocs": by_mkdocs}


@dataclass
class Shown:
    """Contents of a page as a renderer shows it."""

    tables: list[list[list[str]]] = field(default_factory=list)
    """The texts of the cells by table and row, without the head."""
    headings: list[str] = field(default_factory=list)
    """The texts of the headings, each behind its level."""
    items: list[str] = field(default_factory=list)
    """The texts of the items of lists, each behind the number of blocks of code in it."""
    links: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)
    """The explicit ones, `<a id="...">`."""
    code: int = 0
    """The number of blocks of code."""


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.shown = Shown()
        self._open: list[tuple[str, list[str]]] = []
        self._skipped = 0

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "a" and named.get("class") == "headerlink":
            self._skipped += 1
        elif tag == "a":
            self.shown.links += [str(named["href"])] if "href" in named else []
            self.shown.anchors |= {str(named["id"])} if named.get("id") else set()
        elif tag == "img":
            self.shown.pictures.append(str(named["src"]))
        elif tag == "table":
            self.shown.tables.append([])
        elif tag == "pre":
            self.shown.code += 1
            for _, text in self._open:
                text.append("\n[code]\n")
            self._open.append((tag, []))
        elif tag == "tr":
            self._open.append((tag, []))
            self._row: list[str] = []
        elif tag in {"td", "th", "li"} or re.fullmatch("h[1-6]", tag):
            self._open.append((tag, []))

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._skipped:
            self._skipped -= 1
            return
        if not self._open or self._open[-1][0] != tag:
            return
        text = " ".join("".join(self._open.pop()[1]).split())
        if tag == "td":
            self._row.append(text)
        elif tag == "tr" and self._row:
            self.shown.tables[-1].append(self._row)
        elif tag == "li":
            self.shown.items.append(text)
        elif tag.startswith("h"):
            self.shown.headings.append(f"{tag} {text}")

    @override
    def handle_data(self, data: str) -> None:
        if not self._skipped and not any(tag == "pre" for tag, _ in self._open):
            for _, text in self._open:
                text.append(data)


def read(html: str) -> Shown:
    reader = _Reader()
    reader.feed(html)
    return reader.shown


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
