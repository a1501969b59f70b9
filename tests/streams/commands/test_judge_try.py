"""`ragweir judge try`: some answers of a file are judged, and shown with verdicts, reasons and cost."""

import json
from pathlib import Path

import pytest
from commands import ragweir

from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.services.judge.probe import SIMULATED

PRICES = {SIMULATED: {"input_usd": 0.15, "output_usd": 0.6}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    lines = [
        {
            "event_id": f"answer-{number}",
            "query": "Which plant is the flower of Cornwall?",
            "response": f"Cornish heath, \x1b[2J number {number}.",
            "contexts": [{"chunk_id": "c", "text": f"Cornish heath is the flower of Cornwall, says page {number}."}]
            * 5,
            "ended_at": "2026-11-26T10:00:00Z",
        }
        for number in range(6)
    ]
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def variables(url: str, **more: str) -> dict[str, str]:
    judge = {"BASE_URL": url, "MODEL": SIMULATED, "PRICES": json.dumps(PRICES)} | more
    return {f"RAGWEIR_JUDGE__{name}": value for name, value in judge.items()}


@pytest.mark.slow
def test_answers_are_shown_with_verdicts_reasons_and_cost(file: Path, tmp_path: Path) -> None:
    """Though routing would select none of them; their texts do not control the terminal."""
    routing = {"RAGWEIR_ROUTING__RULES": "[]", "RAGWEIR_ROUTING__FLOORS": "{}"}
    with simulated_judge() as simulated:
        own = variables(simulated.base_url) | routing
        done = ragweir("judge", "try", file, "--events", "4", folder=tmp_path, **own)
        charged = simulated.calls()
    shown = done.stdout.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert [f"{place}. answer-" in shown for place in range(1, 6)] == [True] * 4 + [False]
    assert "\x1b[2J" not in shown
    for words in ("question", "passage 3", "and 2 more passages", "answer", "judge_faithfulness", "0.", "tokens in"):
        assert words in shown
    assert "simulated: " in shown, "the judge's reasons"
    last = done.stderr.decode().splitlines()[-1]
    assert last.startswith("4 answers tried, 4 judged, 0 not; $0.00")
    assert "1,000 such answers cost $" in last
    assert "the day's $5.0000 judge about " in last
    usd = (charged["prompt_tokens"] * 0.15 + charged["completion_tokens"] * 0.6) / 1e6
    assert abs(float(last.split("$")[1].split(" ")[0]) - usd) < 1e-4


@pytest.mark.slow
def test_what_fails_has_its_reason_and_a_run_without_a_verdict_its_status(file: Path, tmp_path: Path) -> None:
    with simulated_judge() as simulated:
        own = variables(simulated.base_url)
        unknown = ragweir("judge", "try", file, "--suite", "rubrik", folder=tmp_path, **own)
        assert (unknown.returncode, simulated.calls()["count"]) == (2, 0)
        assert "there is no suite rubrik; there are rubric, context_recall, " in unknown.stderr.decode()
        none = ragweir("judge", "try", file, "--suite", "factual", "--events", "2", folder=tmp_path, **own)
    assert none.returncode in {0, 1}
    assert "the event has no expected" in none.stdout.decode()
