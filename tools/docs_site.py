"""A hook of mkdocs: README.md is the first page, and links to files that are no pages become their names."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add README.md as the page `index.md`."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "index.md", content=_from_docs(readme)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Replace links that lead out of docs/ by their texts: the site has no pages of source files."""
    del config, files
    return inside(markdown, page.file.src_uri)


def inside(markdown: str, page: str) -> str:
    """Return a page's text with only those links that stay within docs/.

    >>> inside("[a test](../tests/x.py), [a page](reference/x.md#y)", "guarantees.md")
    'a test, [a page](reference/x.md#y)'
    """

    def kept(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), found[3]))
        return found[2] if "://" not in found[3] and target.startswith("../") else found[0]

    return _LINK.sub(kept, markdown)


def _from_docs(readme: str) -> str:
    """Return the text of README.md with links as they are from a file in docs/."""

    def moved(found: re.Match[str]) -> str:
        to = found[3]
        if "://" not in to and not to.startswith("#"):
            to = posixpath.relpath(to, "docs")
        return f"{found[1]}[{found[2]}]({to})"

    return _LINK.sub(moved, readme)
