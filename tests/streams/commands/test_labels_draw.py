"""`ragweir labels draw` with a width in place of a number of answers."""

from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from ragweir.streams.commands.app import app


def draw(file: Path, *words: str) -> tuple[int, str]:
    """Run the command in this process; return its exit status and what it says."""
    out = file.with_name("queue.jsonl")
    done = CliRunner().invoke(app, ["labels", "draw", str(file), "--out", str(out), *words])
    return done.exit_code, " ".join(done.stderr.split())


@pytest.fixture
def evaluations(tmp_path: Path) -> Path:
    """A file of 800 evaluations, of which a fifth is bad by the free metric."""
    rows = (
        {
            "event_id": f"e{number}",
            "event_time": "2026-11-21T00:00:00Z",
            "scores": {"unsupported_risk": 0.9 if number % 5 == 0 else 0.1},
        }
        for number in range(800)
    )
    file = tmp_path / "evaluations.jsonl"
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


@pytest.mark.slow
def test_a_width_takes_as_many_answers_as_it_needs(evaluations: Path) -> None:
    """The command says what it assumes; the shares of verdicts are known here, so that only labels widen the limits."""
    status, said = draw(evaluations, "--width", "0.2")
    assert status == 0
    count = int(said.split(" labels make")[0])
    assert 50 < count < 80
    assert (
        "about 0.2 wide, if people call 50% of the answers bad that unsupported_risk calls bad, and 10% of the" in said
    )
    assert len((evaluations.with_name("queue.jsonl")).read_bytes().splitlines()) == 1 + count


@pytest.mark.slow
def test_a_width_stands_for_a_count(evaluations: Path) -> None:
    status, said = draw(evaluations, "--width", "0.2", "--count", "10")
    assert status == 2
    assert "--width chooses the number of answers; leave out --count" in said
