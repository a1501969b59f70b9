"""The documents: their links lead somewhere, they name what exists, and GitHub and mkdocs show the same."""

import posixpath
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from commands import ROOT
from markdown_pages import Shown, by_commonmark, by_mkdocs, read, slug

from bench.__main__ import TABLES
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from tools import docs_site, tables

FOLDERS = ("docs", "bench", "deploy", "examples")
PAGES = [
    file.relative_to(ROOT).as_posix()
    for file in (*ROOT.glob("*.md"), *(each for folder in FOLDERS for each in (ROOT / folder).rglob("*.md")))
    if ".venv" not in file.parts
]
SITE = [page for page in PAGES if page.startswith("docs/") or page in docs_site.PAGES]
CONTRIBUTORS = ("docs/architecture.md", "docs/glossary.md", "docs/guarantees.md", "CONTRIBUTING.md", "SECURITY.md")
"""Documents whose code names files of the repository."""
PATH = re.compile(r"(?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:md|toml|yml|yaml|py|sh)")
"""A path, as against commands and settings: it has a slash or the ending of a file."""
IN_FOLDERS = re.compile(
    r"(?<![\w./-])(?:bench|chaos|deploy|docs|examples|kernel|metrics|schemas|streams|tests|tools)/[\w./-]*\w|"
    r"\bragweir\.(?:metrics|schemas|streams)(?:\.[a-z]\w*)*"
)
"""A file or a module of the repository, wherever a page has it, also in a block of code."""
WRITTEN_BY_READERS = {"deploy/.env", "tests/slo.yml"}
MAX_README_BYTES = 12 * 1024
MAX_GUIDE_BYTES = 10 * 1024


def text(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def code(document: str) -> list[str]:
    """The texts in single backticks, outside of code blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text(document), flags=re.DOTALL))


@cache
def shown(document: str) -> Shown:
    return read(by_commonmark(text(document)))


@cache
def anchors(document: str) -> set[str]:
    """The anchors that GitHub gives the headings, those of equal ones numbered, and the explicit ones."""
    found: set[str] = set()
    for heading in shown(document).headings:
        anchor = slug(heading[3:])
        numbered = (f"{anchor}-{number}" for number in range(1, 1000))
        found.add(anchor if anchor not in found else next(each for each in numbered if each not in found))
    return found | shown(document).anchors


@cache
def classes() -> set[str]:
    sources = [
        file.read_text(encoding="utf-8")
        for folder in ("schemas", "metrics", "streams")
        for file in (ROOT / folder).rglob("*.py")
    ]
    return {name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE)}


@pytest.mark.slow
@pytest.mark.parametrize("document", PAGES)
def test_every_link_leads_somewhere(document: str) -> None:
    """Links and pictures are files of the repository, and an anchor is one of the page that it is on."""
    broken = []
    for link in (*shown(document).links, *shown(document).pictures):
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = unquote(link).partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), path)) if path else document
        is_page = target.endswith(".md") and (ROOT / target).is_file()
        if not (ROOT / target).exists() or (anchor and not (is_page and anchor in anchors(target))):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("document", CONTRIBUTORS)
def test_every_path_exists(document: str) -> None:
    """A path is relative to the root or the document, or to the folder that is named before it, or one around that."""
    paths = [each for each in code(document) if PATH.fullmatch(each) and not each.startswith("ragweir.")]
    assert paths
    missing, named = [], Path()
    for each in paths:
        folders = (ROOT / document).parent, ROOT / named, *(ROOT / around for around in named.parents)
        if not any((folder / each).exists() for folder in folders):
            missing.append(each)
        named = Path(each) if (ROOT / each).is_dir() else named
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("document", [page for page in PAGES if page != "CHANGELOG.md"])
def test_no_page_names_a_file_or_module_that_is_gone(document: str) -> None:
    """A module may be followed by a name that it has."""

    def exists(named: str) -> bool:
        path = ROOT / (named if "/" in named else named.removeprefix("ragweir.").replace(".", "/"))
        own = (ROOT / document).parent / named
        return any(map(Path.exists, (path, own, path.with_suffix(".py"), path.parent.with_suffix(".py"))))

    assert {each for each in IN_FOLDERS.findall(text(document)) if not exists(each)} <= WRITTEN_BY_READERS


def test_every_package_is_in_the_architecture() -> None:
    """The page names each package, as a path from the root, and each folder of the tests and of `deploy/`."""
    packages = {
        file.parent for folder in ("schemas", "metrics", "streams") for file in (ROOT / folder).rglob("__init__.py")
    }
    folders = {file.parent for folder in ("tests", "deploy") for file in (ROOT / folder).glob("*/*")}
    paths = {f"{each.relative_to(ROOT).as_posix()}/" for each in packages | folders if each.name != "__pycache__"}
    assert len(paths) > 60
    assert paths - {*code("docs/architecture.md")} == set()


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_class_exists(document: str) -> None:
    named = {each for each in code(document) if re.fullmatch(r"(?:[A-Z][a-z]+)+", each)}
    assert named <= classes()


def test_every_term_is_in_the_glossary() -> None:
    """The terms of the glossary are in alphabetical order, each with its anchor; the architecture links to many."""
    terms = re.findall(r'<a id="([^"]+)"></a>\*\*([^*]+)\*\*', text("docs/glossary.md"))
    names = [name for _, name in terms]
    assert names == sorted(names, key=str.lower)
    assert [anchor for anchor, _ in terms] == [name.lower().replace(" ", "-") for name in names]
    assert len(set(re.findall(r"glossary\.md#([\w-]+)", text("docs/architecture.md")))) > 30


@pytest.mark.slow
@pytest.mark.parametrize("document", SITE)
def test_mkdocs_shows_what_github_shows(document: str) -> None:
    """Markdown that the two read differently, such as a list without an empty line before it, is a defect of a page."""
    ours, theirs = shown(document), read(by_mkdocs(text(document)))
    assert theirs.headings == ours.headings
    assert theirs.tables == ours.tables
    assert theirs.items == ours.items
    assert theirs.links == ours.links
    assert theirs.pictures == ours.pictures
    assert theirs.code == ours.code
    assert theirs.anchors == ours.anchors


def test_documents_are_short() -> None:
    """The README is read in five minutes, and so is each guide."""
    assert len(text("README.md").encode()) <= MAX_README_BYTES
    guides = {page: len(text(page).encode()) for page in SITE if page.startswith("docs/guides/")}
    assert len(guides) > 10
    assert {page: size for page, size in guides.items() if size > MAX_GUIDE_BYTES} == {}


@pytest.mark.parametrize("document", PAGES)
def test_nothing_is_cited_by_a_number(document: str) -> None:
    """A reader does not have the documents that metrics were taken from: they are cited by what they are."""
    assert re.findall(r"document 0\d\d", text(document)) == []


def test_every_benchmark_that_a_document_cites_exists() -> None:
    """Commands of `make bench` name tables and options that there are."""
    commands = re.findall(r'`make bench BENCH="?([^`"]+)', "".join(map(text, ("bench/RESULTS.md", "docs/costs.md"))))
    words = [[word for word in command.split() if word != "--markdown"] for command in commands]
    assert sum(len([*tables.asked(TABLES, each)]) for each in words) > len(commands) > 10


def test_the_readme_shows_the_scores_of_its_example() -> None:
    """The scores and the evidence in its table are those of the two events above it."""
    lines = re.findall(r'^{"event_id".*$', text("README.md"), re.MULTILINE)
    agent = EvaluateAgent(EvaluateConfig(Catalogue(everything()), explain=True))
    rows = []
    for offset, line in enumerate(lines):
        for found in agent.evaluate(Record("events.jsonl", 0, offset, None, line.encode(), 0)):
            assert isinstance(found, tuple)
            scores = [format(found[0].scores[metric] or 0, ".2f") for metric in ("unsupported_risk", "context_support")]
            missing = ", ".join(found[0].evidence.get("context_support", ()))
            rows.append([found[0].event_id, *scores, missing and f"not in the contexts: {missing}"])
    assert len(rows) == 2
    assert rows in shown("README.md").tables


def test_every_promise_has_a_proof() -> None:
    """A row of the promises links to a test, or names a command that proves it, and the tests exist."""
    rows = [
        line for line in text("docs/guarantees.md").splitlines() if line.startswith("| ") and " | proof" not in line
    ]
    promises = [row for row in rows if not row.startswith("| ---")]
    assert len(promises) > 30
    assert [row for row in promises if not re.search(r"\]\(\.\./tests/[\w/]+\.py\)|`make [\w-]+`", row)] == []
