"""`ragweir slo rehearse` gives blame's answer for each page that it would have sent."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

from ragweir.streams.commands import app

START = datetime(2026, 11, 20, tzinfo=UTC)
SLO = "relevant: context_support >= 0.5 for 95%"


def run(*words: object) -> str:
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(each) for each in words], catch_exceptions=False)
    assert not done.exit_code, done.output
    return done.stdout


def evaluations(versions: int = 2) -> list[dict[str, Any]]:
    """Eight hours, in one of which the second version is bad."""
    found = []
    for n in range(8 * 60 * 5):
        minute, version = n / 5, f"v{n % versions + 1}"
        bad = 300 <= minute < 360 and version == "v2" and n % 10 < 9
        found.append(
            {
                "event_id": f"e{n}",
                "event_time": START + timedelta(minutes=minute),
                "application": "bot",
                "pipeline_version": version,
                "document_ids": [f"d{n % 7}"],
                "scores": {"context_support": 0.25 if bad or n % 101 == 0 else 0.75},
                "catalogue_version": "1",
            }
        )
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in evaluations()))
    return path


@pytest.mark.slow
def test_a_page_has_the_causes_that_blame_prints_for_its_events(file: Path) -> None:
    """From the start of the long window on, by the SLO that was given; a ticket has none."""
    shown = run("slo", "rehearse", file, "--slo", SLO, "--json", file.parent / "r.json")
    (slo,) = orjson.loads((file.parent / "r.json").read_bytes())["slos"]
    fired = {alert["burn"]["severity"]: alert["firings"] for alert in slo["alerts"]}
    assert [each["causes"] for each in fired["ticket"]] == [None] * len(fired["ticket"])
    (page,) = fired["page"]
    sentences = page["causes"].pop("sentences")
    assert [each["facets"] for each in page["causes"]["causes"]] == [{"pipeline_version": "v2"}]
    assert f"  Blame: {sentences[0]}." in shown
    assert sentences[0].startswith("pipeline_version v2: ")
    start = datetime.fromisoformat(page["start"]) - timedelta(hours=1)
    span = ("--from", start.isoformat(), "--to", page["end"])
    printed = run("blame", "context_support", file, "--threshold", 0.5, *span, "--json")
    assert orjson.loads(printed) == page["causes"]


@pytest.mark.slow
def test_a_page_without_a_cause_says_so(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    every = [
        each | {"pipeline_version": "v1", "document_ids": [], "session_id": "one", "application": f"a{n % 3}"}
        for n, each in enumerate(evaluations())
    ]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in every))
    assert "  Blame: too little data." in run("slo", "rehearse", path, "--slo", SLO)


@pytest.mark.slow
def test_without_a_page_nothing_is_blamed(tmp_path: Path) -> None:
    path = tmp_path / "e.jsonl"
    good = [each | {"scores": {"context_support": 0.75}} for each in evaluations()]
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in good))
    assert "Blame" not in run("slo", "rehearse", path, "--slo", SLO)
