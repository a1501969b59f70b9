"""A hook of mkdocs: documents outside of docs/ are pages too, and links to files that are no pages become texts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES: Mapping[str, str] = MappingProxyType(
    {
        "README.md": "index.md",
        "bench/RESULTS.md": "project/results.md",
        "deploy/README.md": "project/deploy.md",
        "CHANGELOG.md": "project/changelog.md",
        "CONTRIBUTING.md": "project/contributing.md",
        "SECURITY.md": "project/security.md",
    }
)
"""The pages of documents outside of docs/."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the documents outside of docs/."""
    for document, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / document).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make the links of a page lead to pages."""
    del config, files
    uri = page.file.src_uri
    document = next((document for document, its_page in PAGES.items() if its_page == uri), f"docs/{uri}")
    # Pygments has no lexer for JSON lines, and what is plain text is shown unwrapped, as a diagram.
    return as_page(markdown, document, uri).replace("```jsonl", "```json")


def as_page(markdown: str, document: str, page: str) -> str:
    """Return the text of a document as that of its page: links lead to pages, and those to other files are texts.

    >>> as_page("[a test](tests/x.py), [a page](docs/x.md#y), [more](bench/RESULTS.md)", "README.md", "index.md")
    'a test, [a page](x.md#y), [more](project/results.md)'
    """

    def linked(found: re.Match[str]) -> str:
        mark, text, to = found.groups()
        path, number, anchor = to.partition("#")
        if "://" in to or not path:
            return found[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), path))
        own = PAGES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        if not own:
            return text
        return f"{mark}[{text}]({posixpath.relpath(own, posixpath.dirname(page) or '.')}{number}{anchor})"

    return _LINK.sub(linked, markdown)
