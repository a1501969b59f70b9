"""The site that `make docs` builds: it is built without a warning, and asks no other host for anything."""

import os
import re
import sys
from pathlib import Path

import pytest
from commands import program

ROOT = Path(__file__).parents[2]
FETCHED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\ssrc=[\"']?(?:https?:)?//|<link\b[^>]*\shref=[\"']?(?:https?:)?//"
)
"""Elements that a browser fetches from another host. A link that a reader may follow is none."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder)
    done = program(*command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


def test_the_pattern_finds_what_a_browser_fetches() -> None:
    assert FETCHED.search('<link rel="stylesheet" href="https://fonts.example/css">')
    assert FETCHED.search('<script async src="//cdn.example/x.js">')
    assert not FETCHED.search('<a href="https://example.com">')


def test_no_page_fetches_from_another_host(site: Path) -> None:
    """Fonts, scripts and pictures are in the site; diagrams that need a script from elsewhere are not used."""
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        html = page.read_text(encoding="utf-8")
        assert not FETCHED.search(html), page
        assert 'class="mermaid"' not in html, page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//|@import", style.read_text(encoding="utf-8")), style


def test_the_readme_is_the_first_page(site: Path) -> None:
    """Its links lead to pages of the site, and those to source files are texts."""
    first = (site / "index.html").read_text(encoding="utf-8")
    assert 'href="guides/file.html"' in first
    assert 'href="reference/settings.html"' in first
    assert "docs/guides" not in first
    assert 'href="project/results.html"' in first
    assert 'href="project/security.html"' in first
    guarantees = (site / "guarantees.html").read_text(encoding="utf-8")
    assert "<code>tests/integration/test_faults.py</code>" in guarantees
    assert 'test_faults.py"' not in guarantees


def test_search_finds_settings_and_metrics(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "judge.daily_budget_usd" in index
    assert "unsupported_risk" in index
