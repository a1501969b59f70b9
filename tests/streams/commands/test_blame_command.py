"""`ragweir blame` on files: from events to causes, in a terminal, as JSON, and as an exit status."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from typer.testing import CliRunner

import ragweir
from ragweir.streams.commands.app import app, out

EVIL = "d\x1b[2J\u202e7"


def run(*words: object) -> tuple[int, str, str]:
    """Run a command in this process; return its exit status, its output and what it says of errors."""
    done = CliRunner(env={"COLUMNS": "200"}).invoke(app, [str(each) for each in words])
    return done.exit_code, done.stdout, " ".join(done.stderr.split()) + repr(done.exception or "")


def events() -> list[dict[str, Any]]:
    """Answers of two documents, of which one has a name that would clear the screen; most of its answers are wrong."""
    return [
        {
            "event_id": f"e{n}",
            "query": f"How long is guarantee {n}?",
            "response": "Ninety purple elephants dance." if n % 8 in {0, 1, 2} else "Two years.",
            "ended_at": "2026-11-20T10:00:00Z",
            "contexts": [{"text": "Two years.", "document_id": EVIL if n % 8 < 4 else "d1", "chunk_id": f"c{n % 8}"}],
        }
        for n in range(240)
    ]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """The terminal has the width that it had when it was imported: 80 columns in a process of pytest-xdist."""
    monkeypatch.setattr(out, "width", 200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blame")
    (path / "events.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in events()))
    assert run("score", path / "events.jsonl", "--out", path / "scores.jsonl")[0] == 0
    return path


@pytest.mark.slow
def test_a_document_is_named_with_bad_and_good_answers_beside_each_other(folder: Path) -> None:
    status, shown, said = run("blame", "unsupported_risk", folder / "scores.jsonl", "--events", folder / "events.jsonl")
    assert status == 0, said
    assert "90 of 240 answers are bad: unsupported_risk above 0.7" in shown
    assert "worse than the rest" in shown
    assert "document d\ufffd[2J\ufffd7" in shown
    assert "Ninety purple elephants dance." in shown
    assert "Two years." in shown
    assert not any(each in shown for each in "\x1b\u202e")


@pytest.mark.slow
def test_the_json_and_python_are_the_same(folder: Path) -> None:
    status, shown, said = run("blame", "unsupported_risk", folder / "scores.jsonl", "--json")
    assert status == 0, said
    data = orjson.loads(shown)
    assert [each["facets"] for each in data["causes"]] == [{"document": EVIL}]
    report = ragweir.blame("unsupported_risk", ragweir.score(events()))
    assert orjson.loads(orjson.dumps(report.data(), option=orjson.OPT_UTC_Z)) == data
    with_file = ragweir.blame("unsupported_risk", folder / "scores.jsonl", events())
    assert "chunk" in {facet for each in with_file.causes for facet in each.facets}
    assert ragweir.blame("unsupported_risk", folder / "scores.jsonl", against=folder / "scores.jsonl").causes == ()


@pytest.mark.slow
def test_the_range_the_silence_and_the_page(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("blame", "grounded", folder / "scores.jsonl", "--fail-on", 1)
    slo = '[[slo]]\nname = "grounded"\nmetric = "unsupported_risk"\nat_most = 0.7\nobjective = 0.9\n'
    silence = f'[[blame.silenced]]\nreason = "ticket 12"\nfacets = {{ document = {orjson.dumps(EVIL).decode()} }}\n'
    Path("ragweir.toml").write_text(slo + silence + "until = 2099-01-01T00:00:00Z\n")
    span = ("--from", "2026-11-20T10:00:00Z", "--to", "2026-11-20T10:00:01Z")
    status, shown, said = run(*words, *span)
    assert status == 0, said
    assert "silenced until 2099-01-01: ticket 12" in shown
    status, _, said = run(*words[:3], *span, "--events", folder / "events.jsonl", "--html", "blame.html")
    assert status == 0, said
    html = Path("blame.html").read_text()
    assert "<b>Ninety purple elephants dance." not in html
    assert "Ninety purple elephants dance.</td><td>" in html
    assert not any(each in html for each in ("\x1b", "\u202e", "<script"))
    status, _, said = run(*words, "--to", "2026-11-20T10:00:00Z")
    assert status == 1
    assert "holds no answer to 2026-11-20T10:00:00Z; its answers are from 2026-11-20T10:00:00Z" in said
    assert run(*words, "--from", "24h", "--to", "48h")[0] != 0
    with_python = ragweir.blame(
        "unsupported_risk", folder / "scores.jsonl", start="2026-11-20T10:00:00Z", settings="ragweir.toml"
    )
    assert [each.silence.reason for each in with_python.causes if each.silence] == ["ticket 12"]
    Path("ragweir.toml").write_text(slo + silence)
    status, _, said = run(*words)
    assert (status, "until" in said) == (1, True)


@pytest.mark.slow
def test_against_a_file_it_is_worse_than_before(folder: Path) -> None:
    good = [{**each, "response": "Two years."} for each in events()]
    (folder / "before.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in good))
    assert run("score", folder / "before.jsonl", "--out", folder / "earlier.jsonl")[0] == 0
    status, shown, said = run(
        "blame", "unsupported_risk", folder / "scores.jsonl", "--against", folder / "earlier.jsonl"
    )
    assert status == 0, said
    assert "worse than before" in shown
    assert "worse than the rest" not in shown


@pytest.mark.slow
@pytest.mark.parametrize(("most", "status"), [(1, 1), (10_000, 0)])
def test_a_check_fails_by_the_answers_in_excess(folder: Path, most: int, status: int) -> None:
    found, _, said = run("blame", "unsupported_risk", folder / "scores.jsonl", "--fail-on", most)
    assert found == status
    assert ("failed: document d\ufffd" in said) == bool(status)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("unsuported_risk", "scores.jsonl"), "there is no metric unsuported_risk"),
        (("total_latency_ms", "scores.jsonl"), "--threshold is needed"),
        (("unsupported_risk", "empty.jsonl"), "holds no evaluation"),
        (("unsupported_risk", "text.jsonl"), "is no evaluation"),
        (("unsupported_risk", "nan.jsonl"), "is no evaluation"),
        (("unsupported_risk", "scores.jsonl", "--against", "scores.jsonl"), "named twice"),
        (("unsupported_risk", "scores.jsonl", "--events", "none.jsonl"), "none.jsonl"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    folder: Path, words: tuple[str, ...], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("empty.jsonl").write_bytes(b"")
    Path("text.jsonl").write_bytes(b"hello\n")
    Path("nan.jsonl").write_bytes(b'{"event_id": "1", "event_time": 1, "scores": {"unsupported_risk": NaN}}\n')
    status, _, said = run("blame", *words)
    assert status != 0
    assert why in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_a_file_without_values_of_the_metric_is_no_cause(folder: Path) -> None:
    status, shown, said = run("blame", "judge_faithfulness", folder / "scores.jsonl", "--json")
    assert status == 0, said
    data = orjson.loads(shown)
    assert (data["events"], data["causes"], data["enough"]) == (0, [], False)
