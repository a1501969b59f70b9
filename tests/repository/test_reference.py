"""The reference pages: they are those of the code, and GitHub and mkdocs show all of them."""

import inspect
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import typer
from markdown_pages import RENDERERS, Shown, read, slug

from ragweir.metrics import packs
from ragweir.metrics.catalogue import everything
from ragweir.metrics.judged.descriptions import field_docstrings
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.export import RECORDS
from ragweir.schemas.interaction import Context, Interaction
from ragweir.schemas.topics import TOPICS
from ragweir.streams.commands import app
from ragweir.streams.services.export.anchor_series import FAMILIES as ANCHOR_SERIES
from ragweir.streams.services.export.exposition import _HEADS as WINDOW_SERIES
from ragweir.streams.services.export.shift_series import FAMILIES as SHIFT_SERIES
from ragweir.streams.services.instruments import TABLE, owners
from ragweir.streams.settings import RoutingSettings, Settings, SettingsGroup
from tools import reference
from tools.reference import acls, single_tables
from tools.reference.markdown import plain as plain_text
from tools.reference.markdown import table
from tools.reference.metrics import source_link
from tools.reference.records import models
from tools.reference.settings import NESTED

METRICS = everything(packs.SHIPPED)
GROUPS = {name: type(group.default) for name, group in Settings.model_fields.items() if name != "slo"}
Rows = list[tuple[str, str]]
"""The first cell of each row, and the last that has a sentence."""


def settings() -> Rows:
    rows = [
        (f"{name}.{each}", meaning)
        for name, group in GROUPS.items()
        for each, meaning in field_docstrings(group).items()
    ]
    rows += [
        (group.model_fields[each].alias or each, meaning)
        for _, group in NESTED
        for each, meaning in field_docstrings(group).items()
    ]
    return rows + [(rule.name, str(rule.probability)) for rule in RoutingSettings().rules]


def telemetry() -> Rows:
    by = sorted(dict.fromkeys(map(owners, TABLE)), key=len)
    return [(line.name, line.help) for each in by for line in TABLE if owners(line) == each]


def shown_commands(command: Any) -> dict[str, Any]:
    """The commands within a command, without hidden ones, which its help does not show either."""
    return {name: each for name, each in getattr(command, "commands", {}).items() if not each.hidden}


def commands() -> Rows:
    """The parameters of each command and then the commands within it, command by command."""
    rows: Rows = []

    def walk(command: Any) -> None:
        for each in command.params:
            if each.name != "help" and not getattr(each, "hidden", False):
                argument = each.param_type_name == "argument"
                name = each.name.upper() if argument else ", ".join((*each.opts, *each.secondary_opts))
                rows.append((name, each.help or ""))
        inner = shown_commands(command)
        rows.extend((name, inspect.cleandoc(each.help).partition("\n\n")[0]) for name, each in inner.items())
        for each in inner.values():
            walk(each)

    walk(typer.main.get_command(app))
    return rows


CODE: dict[str, Callable[[], Rows]] = {
    "metrics": lambda: [(metric.name, metric.meaning) for metric in METRICS],
    "settings": settings,
    "telemetry": telemetry,
    "topics": lambda: [(topic.name, topic.text) for topic in TOPICS.values()],
    "records": lambda: [
        (name, field_docstrings(model).get(name, "")) for model in models() for name in model.model_fields
    ],
    "commands": commands,
    "alerts": lambda: [(name, text) for name, _, text, _ in single_tables.alert_rows()],
}
"""By page, the rows of its tables as the code has them."""
MEANING = {"metrics": 1, "settings": -1, "telemetry": -1, "topics": -1, "records": -1, "commands": -1, "alerts": -2}
"""By page, the column that is compared."""


def page(name: str) -> str:
    return (reference.FOLDER / f"{name}.md").read_text(encoding="utf-8")


def generated(name: str) -> str:
    found = re.search(f"<!-- {name} -->(.*)<!-- /{name} -->", page(name), re.DOTALL)
    assert found
    return found[1]


@cache
def shown(name: str, renderer: str) -> Shown:
    """The whole page as a reader sees it."""
    return read(RENDERERS[renderer](page(name)))


def plain(text: str) -> str:
    """A text of the code as it reads when it is rendered."""
    return " ".join(text.replace("`", "").split())


@pytest.mark.slow
@pytest.mark.parametrize("name", reference.PAGES)
def test_the_pages_are_those_of_the_code(name: str) -> None:
    """`python -m tools.reference` has nothing to write. Where this fails, run it."""
    assert reference.rewritten(name, page(name)) == page(name)


def test_the_rights_of_the_parts_are_those_of_the_tables() -> None:
    """`python -m tools.reference` writes them to the script that grants them."""
    text = acls.SCRIPT.read_text(encoding="utf-8")
    assert text.count("allow ragweir-evaluate Read --topic") == 2
    assert acls.rewritten(text) == text


@pytest.mark.slow
def test_a_changed_docstring_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison depends on the settings' docstrings: with a word added, the page is out of date."""
    own = inspect.getsource
    monkeypatch.setattr(inspect, "getsource", lambda each: own(each).replace('."""', '. Really."""'))
    field_docstrings.cache_clear()
    try:
        assert reference.rewritten("settings", page("settings")) != page("settings")
    finally:
        field_docstrings.cache_clear()


def test_every_page_has_its_place() -> None:
    """A generated part whose marks are lost would be left out without a word."""
    for name in reference.PAGES:
        assert re.findall(f"<!-- /?{name} -->", page(name)) == [f"<!-- {name} -->", f"<!-- /{name} -->"]
    assert CODE.keys() == reference.PAGES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("name", reference.PAGES)
def test_a_renderer_shows_every_row_as_it_is_written(name: str, renderer: str) -> None:
    """Tables have a row for each thing that the code describes, whose text reads as in the code: nothing is markup."""
    expected = [(plain(first), plain(text)) for first, text in CODE[name]()]
    own = len(read(RENDERERS[renderer](page(name).partition(f"<!-- {name} -->")[0])).tables)
    behind = len(read(RENDERERS[renderer](page(name).partition(f"<!-- /{name} -->")[2])).tables)
    tables = shown(name, renderer).tables
    rows = [row for table in tables[own : len(tables) - behind] for row in table]
    found = [(row[0], row[MEANING[name]]) for row in rows]
    if name == "commands":  # Values of options, and what follows from their declaration, are added to the help.
        found = [
            (re.sub(r"(-[\w-]+) [^,]+", r"\1", option), re.sub(r" ?(Required|Default: [\w.-]+)\.$", "", text))
            for option, text in found
        ]
        expected = [(option, re.sub(r" ?Default: [\w.-]+\.$", "", text)) for option, text in expected]
    assert found == expected
    assert all(len({len(row) for row in table}) == 1 for table in tables), "a row has more or fewer cells"


@pytest.mark.slow
@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_metric_has_its_definition(renderer: str) -> None:
    """Below the tables each metric has a heading, a formula or a sentence, and its example as code."""
    metrics, found = METRICS, shown("metrics", renderer)
    assert [each for each in found.headings if each.startswith("h4")] == [f"h4 {metric.name}" for metric in metrics]
    assert found.code == sum(">>> " in metric.text for metric in metrics)
    facts = sum(bool(re.match(r"(Formula|Undefined|Range|Reference)", each)) for each in found.items)
    assert facts >= 3 * len(metrics)


@pytest.mark.slow
@pytest.mark.parametrize("renderer", RENDERERS)
def test_every_command_and_record_has_its_section(renderer: str) -> None:
    """The headings are the commands with all words, and the records and their parts."""
    names: list[str] = []

    def walk(name: str, command: Any) -> None:
        names.append(f"h2 {name}")
        for each, inner in shown_commands(command).items():
            walk(f"{name} {each}", inner)

    walk("ragweir", typer.main.get_command(app))
    assert shown("commands", renderer).headings == ["h1 Commands", *names]
    headings = shown("records", renderer).headings
    assert len([each for each in headings if each.endswith(" record")]) == len(RECORDS)
    assert len(headings) == 3 + len(models())


@pytest.mark.slow
def test_the_fields_of_what_users_read_and_write_have_a_meaning() -> None:
    """A type alone does not say what to publish, or what to make of an evaluation."""
    for model in models():
        missing = model.model_fields.keys() - field_docstrings(model).keys()
        assert not missing, f"{model.__name__}: {sorted(missing)}"
    assert {Interaction, Context, Evaluation} <= models().keys()


def test_no_table_of_the_settings_is_left_out() -> None:
    """Tables within tables are described too: whoever adds one has to add it to the page."""
    found: set[type[SettingsGroup]] = set()

    def walk(annotation: Any) -> None:
        if inspect.isclass(annotation) and issubclass(annotation, SettingsGroup):
            found.add(annotation)
            for field in annotation.model_fields.values():
                walk(field.annotation)
        for inner in getattr(annotation, "__args__", ()):
            walk(inner)

    for field in Settings.model_fields.values():
        walk(field.annotation)
    assert found == {*GROUPS.values(), *(group for _, group in NESTED)}


def test_every_source_has_an_entry() -> None:
    """The source of a metric is a link to what it is."""
    sources = {metric.source for metric in METRICS}
    assert [each for each in sources if not source_link(each).startswith("[")] == []
    anchors = {slug(each[3:]) for each in shown("metrics", "CommonMark").headings}
    assert set(re.findall(r"\]\(#([\w-]+)\)", generated("metrics"))) <= anchors


def test_the_series_of_windows_are_those_of_the_exporter() -> None:
    """Their tables are written by hand, for their labels; the names are the code's."""
    windows, shifts, anchors = shown("telemetry", "CommonMark").tables[-3:]
    assert [row[0].partition("{")[0] for row in windows] == list(WINDOW_SERIES)
    assert [row[0] for row in shifts] == [family.name for family in SHIFT_SERIES]
    assert [row[0].partition("{")[0] for row in anchors] == [family.name for family in ANCHOR_SERIES]


NASTY = (
    "a | b",
    "`x | y`",
    "a <b> c",
    "`<b> & c`",
    "[text](link)",
    "*a* and **b**",
    "__x__ and a_b_c",
    "one\n\n- two\n- three",
)
"""Texts that a docstring may have, and that are markup if they are not escaped."""


@pytest.mark.parametrize("renderer", RENDERERS)
def test_any_text_can_stand_in_a_cell(renderer: str) -> None:
    """Pipes, tags, links, emphasis and line breaks of a text neither end a row nor change it."""
    made = table(("text", "again"), ((plain_text(text), plain_text(text)) for text in NASTY))
    assert read(RENDERERS[renderer](made)).tables == [[[plain(text)] * 2 for text in NASTY]]
