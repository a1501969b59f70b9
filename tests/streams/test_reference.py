"""The README's generated tables: they are those of the code, and a Markdown renderer shows all of them."""

import re
from collections.abc import Iterator
from itertools import takewhile

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode

from ragweir.metrics.catalogue import everything
from ragweir.schemas.topics import TOPICS
from ragweir.streams.serving.telemetry import TABLE
from ragweir.streams.settings import Settings, SettingsGroup
from ragweir.streams.slo import shipped as alerts
from tools import reference

README = reference.README.read_text(encoding="utf-8")
SETTINGS = [
    (f"{group}.{name}", field.description or "")
    for group, values in Settings.model_fields.items()
    if isinstance(values.default, SettingsGroup)
    for name, field in type(values.default).model_fields.items()
]
CODE = {
    "metrics": [(metric.name, metric.meaning) for metric in everything()],
    "topics": [(topic.name, topic.text) for topic in TOPICS.values()],
    "telemetry": [(line.name, line.help) for line in TABLE],
    "alerts": [(name, text) for name, _, text in alerts.rows()],
    "settings": SETTINGS,
}
"""Per table, what the code describes by which text."""


def rendered(name: str) -> SyntaxTreeNode:
    """The table between the marks of this name, as GitHub's dialect of Markdown reads it in the whole README."""
    tokens = MarkdownIt("commonmark").enable("table").parse(README)
    start = next(at for at, token in enumerate(tokens) if token.content.strip() == f"<!-- {name} -->")
    between: Iterator[Token] = takewhile(
        lambda token: token.content.strip() != f"<!-- /{name} -->", tokens[start + 1 :]
    )
    (table,) = SyntaxTreeNode(list(between)).children
    return table


def shown(node: SyntaxTreeNode) -> str:
    """The text that a reader sees."""
    return "".join(each.content for each in node.walk() if each.type in ("text", "code_inline"))


def plain(text: str) -> str:
    """A text of the code as it reads when it is rendered."""
    return " ".join(text.replace("`", "").split())


def test_the_tables_are_those_of_the_code() -> None:
    """`python -m tools.reference` has nothing to write. Where this fails, run it."""
    assert reference.rewritten(README) == README


def test_a_changed_docstring_shows() -> None:
    """The comparison depends on the settings' docstrings: with a word added, the README is out of date."""
    field = Settings.model_fields["kafka"].default.__class__.model_fields["bootstrap_servers"]
    before = field.description
    try:
        field.description = f"{before} Really."
        assert reference.rewritten(README) != README
    finally:
        field.description = before


def test_every_table_has_its_place() -> None:
    """A table whose marks are lost would be left out of the README without a word."""
    for name in reference.TABLES:
        assert re.findall(f"<!-- /?{name} -->", README) == [f"<!-- {name} -->", f"<!-- /{name} -->"]
    assert CODE.keys() == reference.TABLES.keys()


@pytest.mark.parametrize("name", reference.TABLES)
def test_a_renderer_shows_every_row_as_it_is_written(name: str) -> None:
    """A table has a row for each thing that it describes, whose text reads as in the code: nothing of it is markup."""
    table = rendered(name)
    assert table.type == "table"
    head, *rows = ([shown(cell) for cell in row.children] for part in table.children for row in part.children)
    text = next(head.index(each) for each in ("meaning", "fires when", "text of users or documents") if each in head)
    assert [(row[0], row[text]) for row in rows] == [(plain(key), plain(value)) for key, value in CODE[name]]
