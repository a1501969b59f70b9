"""The page of agreement with people shows what `ragweir labels report` prints."""

from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from scored_answers import RETURNS, shown
from scored_answers import score as scored
from typer.testing import CliRunner

from ragweir.schemas.label import Label
from ragweir.streams.analysis.labels.store import read_queue, written
from ragweir.streams.commands import app

NOW = datetime(2026, 11, 22, tzinfo=UTC)


def run(*words: str | Path) -> str:
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False)
    assert not done.exit_code, done.output
    return done.stdout


@pytest.mark.slow
def test_the_numbers_are_those_of_the_command(tmp_path: Path) -> None:
    """Of drawn answers that people labelled; every number with its limits, and every note."""
    answers = ("Call us.", "Vouchers wait in Lyon until 2030.")
    rows = [RETURNS | {"event_id": f"e{place}", "response": answers[place % 2]} for place in range(60)]
    out, queue, labels = scored(tmp_path, rows), tmp_path / "queue.jsonl", tmp_path / "labels.jsonl"
    run("labels", "draw", out, "--metric", "unsupported_risk", "--threshold", "0.5", "--count", "40", "--out", queue)
    made, drawn = read_queue(queue)
    given = [
        Label(
            **each.model_dump(include={"event_id", "question", "draw", "judged", "event_time", "dimensions"}),
            value=not each.judged.bad if place % 5 else each.judged.bad,
            rater="a",
            kind="expert",
            blind=True,
            time=NOW,
        )
        for place, each in enumerate(drawn)
    ]
    labels.write_bytes(written([made, *given]))
    printed = orjson.loads(run("labels", "report", labels, "--evaluations", out, "--json"))
    (table,) = printed["questions"]
    with shown(tmp_path, [out], labels=None) as pages:
        html = pages.page("/agreement")
    assert f"{table['question']}: {table['metric']} with threshold {table['threshold']:g}" in html
    for name in ("tpr", "tnr", "precision", "kappa", "people_rate"):
        number = table[name]
        assert (
            f'<td class="figure strong">{number["value"]:.2f}</td><td class="figure">{number["low"]:.2f} to '
            f'{number["high"]:.2f}</td><td class="figure quiet">{number["n"]}</td>'
        ) in html, name
    assert f'<td colspan="3" class="quiet">{table["person_to_person"]["reason"]}</td>' in html
    for note in printed["notes"]:
        assert f"<li>{note}</li>" in html


@pytest.mark.slow
def test_agreement_is_unknown_without_labels(tmp_path: Path) -> None:
    with shown(tmp_path, [scored(tmp_path, [RETURNS])]) as pages:
        html = pages.page("/agreement")
    assert "<li>agreement with people unknown: no answer is labelled</li>" in html
    assert '<p class="quiet">unknown</p>' in html


@pytest.mark.slow
def test_labels_that_are_given_meanwhile_count(tmp_path: Path) -> None:
    """The file of labels grows while people review."""
    label = Label(event_id="returns", question="supported", value=False, rater="a", kind="expert", blind=True, time=NOW)
    with shown(tmp_path, [scored(tmp_path, [RETURNS])]) as pages:
        assert "nobody labelled it" in pages.page("/answers/returns")
        (tmp_path / "labels.jsonl").write_bytes(written([label]))
        assert "1 person calls it bad (supported)" in pages.page("/answers/returns")
        assert "unsupported_risk with threshold 0.7" in pages.page("/agreement")
