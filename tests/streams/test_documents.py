"""The documents for contributors name files, classes and terms that exist."""

import re
from functools import cache

import pytest
from commands import ROOT

DOCUMENTS = ("docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md", "SECURITY.md")
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|toml|yml|yaml|py|sh)")
"""A path, as against commands and settings: it has a slash or the ending of a file."""


def text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def code(document: str) -> list[str]:
    """The texts in single backticks, outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text(document), flags=re.DOTALL))


@cache
def classes() -> set[str]:
    sources = [
        file.read_text(encoding="utf-8")
        for folder in ("schemas", "metrics", "streams")
        for file in (ROOT / folder).rglob("*.py")
    ]
    return {name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_exists(document: str) -> None:
    """A path is relative to the root or to the document."""
    folders = (ROOT, (ROOT / document).parent)
    paths = [each for each in code(document) if PATH.fullmatch(each) and not each.startswith("ragweir.")]
    links = [each for each in re.findall(r"\]\(([^)#]+)[^)]*\)", text(document)) if "://" not in each]
    assert paths or links
    assert [each for each in (*paths, *links) if not any((folder / each).exists() for folder in folders)] == []


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_class_exists(document: str) -> None:
    named = {each for each in code(document) if re.fullmatch(r"(?:[A-Z][a-z]+)+", each)}
    assert named <= classes()


def test_every_term_is_in_the_glossary() -> None:
    """Links lead to an anchor of the glossary, whose terms are in alphabetical order."""
    terms = re.findall(r'<a id="([^"]+)"></a>\*\*([^*]+)\*\*', text("docs/glossary.md"))
    names = [name for _, name in terms]
    assert names == sorted(names, key=str.lower)
    assert [anchor for anchor, _ in terms] == [name.lower().replace(" ", "-") for name in names]
    links = set(re.findall(r"glossary\.md#([\w-]+)", text("docs/architecture.md")))
    assert len(links) > 30
    assert links <= {anchor for anchor, _ in terms}
