"""The pages of applications, of comparisons and of dead letters."""

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from browsers import TOKEN, logged_in
from scored_answers import RETURNS, ShownPages, pages_of, score, shown
from typer.testing import CliRunner

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.analysis.dead_letters.letters import Letter
from ragweir.streams.commands import app
from ragweir.streams.console.application import application
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.runtime.records import Record

VALUE = b'{"event_id": "e", \xff"query": "<b>\x1b[2J'


def rows(versions: str = "v2") -> list[dict[str, Any]]:
    return [
        RETURNS
        | {
            "event_id": f"e{number}",
            "application": "hr" if number % 2 else "shop",
            "pipeline_version": versions,
            "response": "Call us." if number % 4 or versions == "v1" else "Vouchers wait in Lyon until 2030.",
        }
        for number in range(24)
    ]


@pytest.mark.slow
def test_each_application_has_its_bad_answers_by_slo(tmp_path: Path) -> None:
    """The share is marked where it is over the objective, and leads to these answers, worst first."""
    with pages_of(tmp_path, rows()) as pages:
        html = pages.page("/")
        query = "/answers?application=shop&amp;from=2026-11-21T10%3A03%3A04.230000Z&amp;slo=grounded"
        query += "&amp;sort=unsupported_risk"
        assert f'<td class="figure is-bad">50 % bad</td>\n<td class="figure"><a href="{query}">6 bad</a>, ' in html
        assert '<td class="figure">0 % bad</td>' in html
        assert "6 answers</h1>" in pages.page(query.replace("&amp;", "&"))


def compared(folder: Path, name: str) -> dict[str, Any]:
    """Compare two versions of the same events, and write the result where the console looks."""
    sides = []
    for version in ("v1", "v2"):
        own = folder / version
        own.mkdir(exist_ok=True)
        sides.append(str(score(own, rows(version))))
    target = folder / "console/compare" / f"{name}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    done = CliRunner().invoke(app, ["compare", *sides, "--json", str(target)], catch_exceptions=False)
    assert not done.exit_code, done.output
    found: dict[str, Any] = orjson.loads(target.read_bytes())
    return found


@pytest.mark.slow
def test_a_comparison_is_shown_as_the_command_prints_it(tmp_path: Path) -> None:
    """Its sentences, the change of each metric, and the way to the most changed events; nothing leads elsewhere."""
    data = compared(tmp_path, "v1 <b> v2")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "console/compare/link.json").symlink_to(tmp_path / "secret.json")
    (tmp_path / "console/compare/other.json").write_text("{}")
    os.mkfifo(tmp_path / "console/compare/pipe.json")
    with shown(tmp_path, [tmp_path / "v2/evaluations.jsonl"], folder=tmp_path / "console") as pages:
        listing = pages.page("/compare")
        assert '<a data-row href="/compare/v1%20%3Cb%3E%20v2"><bdi>v1 &lt;b&gt; v2</bdi></a>' in listing
        assert "link" not in listing.partition("<main")[2]
        assert "pipe" not in listing
        html = pages.page("/compare/v1%20%3Cb%3E%20v2")
        for status, name in ((404, "link"), (404, "..%2F..%2Fsecret"), (404, "none"), (422, "other")):
            pages.page(f"/compare/{name}", status)
    assert "24 events on both sides; 0 only in A" in html
    assert "metrics and " in html
    risk = next(each for each in data["metrics"] if each["metric"] == "unsupported_risk")
    found = risk["whole"]["difference"]
    assert f"{found['mean']:+.3g} ({found['low']:+.3g} to {found['high']:+.3g})" in html
    assert f'<a href="/answers/{risk["events"][0]["event_id"]}">' in html


@pytest.fixture
def letters(tmp_path: Path) -> Iterator[tuple[ShownPages, Letter]]:
    """The pages over a store with dead letters, one of which can be read."""
    details = DeadLetter(
        error_class="not_json",
        message="not JSON at 17",
        source_topic="rag.interactions<b>",
        source_partition=1,
        source_offset=7,
    )
    letter = Letter(Record("rag.dead-letter", 0, 3, b"k", VALUE, 1_764_000_000_123), details, "evaluate")
    with pages_of(tmp_path) as pages:
        file = tmp_path / "letters.sqlite"
        with StoreWriter(file) as writer:
            for offset in range(3):
                own = letter.record._replace(offset=offset + 1)
                writer.take_letter(replace(letter, record=own))
            writer.flush()
        with closing(AnswerStore(file)) as store:
            content = replace(pages.content, store=store, letter=lambda at: letter if at == (0, 3) else None)
            browser = logged_in(application(page_routes(content), content.settings.console, TOKEN))
            yield ShownPages(content, browser), letter


def test_dead_letters_are_shown_by_reason(letters: tuple[ShownPages, Letter]) -> None:
    """With the way to a single one, its value escaped, and the command that sends them again."""
    pages, _ = letters
    html = pages.page("/dead-letters")
    assert "3 dead letters" in html
    assert "<h2>3 not_json</h2>" in html
    assert "ragweir dead-letter redrive --class not_json --dry-run" in html
    assert "rag.interactions&lt;b&gt;" in html
    assert '<a href="/dead-letters/0/3">' in html
    one = pages.page("/dead-letters/0/3")
    assert "{&#34;event_id&#34;: &#34;e&#34;, \\xff&#34;query&#34;: &#34;&lt;b&gt;\\x1b[2J" in one
    assert "rag.interactions&lt;b&gt;</bdi>, partition 1, offset 7" in one
    pages.page("/dead-letters/0/4", 404)


@pytest.mark.parametrize("mode", ["redacted", "off"])
def test_the_value_of_a_dead_letter_is_a_text(letters: tuple[ShownPages, Letter], mode: str) -> None:
    """It is shown only where all texts are, since what is no event cannot be redacted field by field."""
    pages, _ = letters
    pages.content.texts.mode = mode  # type: ignore[assignment]
    html = pages.page("/dead-letters/0/3")
    assert "event_id" not in html
    assert "(console.texts)" in html


@pytest.mark.slow
def test_a_file_has_no_dead_letters(tmp_path: Path) -> None:
    with pages_of(tmp_path) as pages:
        assert "names the lines that it cannot read" in pages.page("/dead-letters")
        pages.page("/dead-letters/0/0", 404)
