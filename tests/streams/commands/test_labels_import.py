"""`ragweir labels import`, `export` and `withdraw` as users run them."""

import subprocess
from collections import Counter
from pathlib import Path

import orjson
import pytest
from commands import ROOT, ragweir

MAPS = ROOT / "deploy" / "maps"
EXPORTS = ROOT / "tests" / "exports" / "labels"
DATA = ROOT.parent / "shared" / "data" / "mtrag.jsonl"
KEY = {"RAGWEIR_LABELS__KEY": "a key of the tests"}


def lines_of(file: Path) -> list[dict[str, object]]:
    return [orjson.loads(line) for line in file.read_bytes().splitlines()]


def said(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode().splitlines()[-1]


def written(file: Path, rows: list[dict[str, object]]) -> Path:
    file.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    return file


@pytest.mark.slow
def test_labels_are_imported_exported_and_withdrawn(tmp_path: Path) -> None:
    """Good rows are imported beside bad ones; a second import adds nothing, also after labels were withdrawn."""
    rows = [{"event_id": f"e{number}", "value": number % 2, "rater": "Ada", "time": 1764e6} for number in range(4)]
    bad = [{"event_id": "e9", "value": "maybe"}, {"event_id": "x" * 300, "value": "yes"}]
    file, out = written(tmp_path / "votes.jsonl", [*rows, *bad]), tmp_path / "labels.jsonl"
    done = ragweir("labels", "import", file, "--out", out, **KEY)
    first, hint = done.stderr.decode().splitlines()
    assert first == (
        "4 labels imported, 1 with values that are no answer (maybe), 1 with an id of more than 200 characters "
        f"({'x' * 20}...)"
    )
    assert hint == f"next: ragweir labels report {out} --evaluations EVALUATIONS"
    assert b"Ada" not in out.read_bytes()
    assert out.stat().st_mode & 0o777 == 0o600
    held = out.read_bytes()
    done = ragweir("labels", "withdraw", out, "--event", "e1", "--rater", "Ada", **KEY)
    assert said(done) == "1 label withdrawn"
    done = ragweir("labels", "withdraw", out, "--event", "e2", "--rater", "Bob", **KEY)
    assert done.returncode == 1
    assert said(done) == f"ragweir: {out} has no such label of event e2, or it was withdrawn before"
    done = ragweir("labels", "import", file, "--out", out, **KEY)
    assert done.returncode == 0
    assert done.stderr.startswith(b"0 labels imported, 3 there already, 1 older than those that are there, 1 with")
    assert out.read_bytes().startswith(held)
    assert len(lines_of(out)) == 5
    table = tmp_path / "table.jsonl"
    assert said(ragweir("labels", "export", out, "--out", table)) == "3 labels exported"
    assert [(row["event_id"], row["value"]) for row in lines_of(table)] == [("e0", False), ("e2", False), ("e3", True)]
    assert ragweir("labels", "export", out, "--out", out).returncode == 2
    assert len(lines_of(out)) == 5


@pytest.mark.slow
def test_an_import_of_nothing_says_why_and_writes_nothing(tmp_path: Path) -> None:
    """Wrong ids, of which those of both sides are shown; no good row; a map that does not exist, or is wrong."""
    out = tmp_path / "labels.jsonl"
    evaluations = written(
        tmp_path / "evaluations.jsonl",
        [{"event_id": f"e{n}", "event_time": "2026-11-21T00:00:00Z", "trace_id": f"t{n}"} for n in range(9)],
    )
    votes = written(tmp_path / "votes.jsonl", [{"trace_id": f"T{n}", "value": "yes"} for n in range(5)])
    done = ragweir("labels", "import", votes, "--out", out, "--evaluations", evaluations)
    assert done.returncode == 1
    assert said(done) == (
        "ragweir: no label was imported: 5 of unknown events (T0, T1, T2); the labels name trace_id T0, T1, T2, and "
        f"{evaluations} has event_id e0, e1, e2; trace_id t0, t1, t2"
    )
    votes = written(votes, [{"task": {"id": "e1"}, "votes": [{"is": "yes", "user_name": "Ada"}]}])
    done = ragweir("labels", "import", votes, "--out", out)
    assert done.returncode == 1
    assert said(done) == (
        "ragweir: no label was imported: 1 without the id of an event (row 1); a row needs event_id, trace_id or "
        "span_id, and the first has task, votes: --map reads rows with other names"
    )
    strange = written(tmp_path / "strange.jsonl", [{"event_id": "e1", "value": "yes", "question": "correctness"}])
    assert said(ragweir("labels", "import", strange, "--out", out)) == (
        "ragweir: no label was imported: 1 of unknown questions (correctness); labels.questions has supported, "
        "helpful, refused_rightly: name a question there as the rows do, or translate the name by a map"
    )
    done = ragweir("labels", "import", votes, "--out", out, "--map", "langfus")
    assert done.returncode == 2
    assert said(done) == (
        "ragweir: there is no map langfus; the ready maps are label-studio, langfuse, langsmith, phoenix; the nearest "
        "is langfuse"
    )
    wrong = tmp_path / "wrong.toml"
    wrong.write_text("event_id = 'id'")
    done = ragweir("labels", "import", votes, "--out", out, "--map", wrong)
    assert done.returncode == 2
    assert said(done) == (
        f"ragweir: the map {wrong} is wrong: the map must name value, and one of event_id, span_id, trace_id"
    )
    assert not out.exists()
    wrong.write_text("event_id = 'task.id'\nvalue = 'votes[].is'\nrater = 'votes[].username'")
    done = ragweir("labels", "import", votes, "--out", out, "--map", wrong)
    advice, summary, _ = done.stderr.decode().splitlines()
    assert advice == "the map, rater: nothing is at votes[].username; the nearest path that exists is votes[].user_name"
    assert summary == "1 label imported"


@pytest.mark.slow
def test_scores_of_langfuse_find_their_events_by_span_and_trace(tmp_path: Path) -> None:
    """A page of the API is read; a score of an observation has the event of that span, one of a trace its last one."""
    scores = EXPORTS / "langfuse-5.0.4.json"
    subjects = [score["subject"] for score in orjson.loads(scores.read_bytes())["data"]]
    spans = {each["id"]: each["traceId"] for each in subjects if each["kind"] == "observation"}
    traces = {each["id"] for each in subjects if each["kind"] == "trace"}
    found = [
        {"event_id": f"{kind} {trace}", "event_time": "2026-10-02T09:00:00Z", "trace_id": trace, "span_id": span}
        for kind, pairs in (("span", spans.items()), ("trace", ((None, trace) for trace in traces)))
        for span, trace in pairs
    ]
    out = tmp_path / "labels.jsonl"
    evaluations = written(tmp_path / "evaluations.jsonl", found)
    done = ragweir("labels", "import", scores, "--map", "langfuse", "--out", out, "--evaluations", evaluations)
    assert done.stderr.startswith(b"17 labels imported, 4 rows skipped by the map's `where`")
    kinds = Counter(str(label["event_id"]).split()[0] for label in lines_of(out))
    assert kinds == {"span": 5, "trace": 12}


@pytest.mark.slow
def test_verdicts_of_a_benchmark_are_imported_and_reported(tmp_path: Path) -> None:
    """From the published file to the table: TPR is that of the plain counts of answers with a majority."""
    if not DATA.exists():
        pytest.skip(f"{DATA} is not on this machine")
    scores, out = tmp_path / "scores.jsonl", tmp_path / "labels.jsonl"
    assert said(ragweir("score", DATA, "--map", MAPS / "mtrag.toml", "--out", scores)) == "201 scored"
    imported = ("labels", "import", DATA, "--map", MAPS / "mtrag-labels.toml", "--evaluations", scores, "--out", out)
    assert ragweir(*imported).stderr.startswith(b"596 labels imported\n")
    criterion = ("--question", "supported", "--metric", "unsupported_risk", "--threshold", "0.8")
    done = ragweir("labels", "report", out, "--evaluations", scores, *criterion, "--json")
    (table,) = orjson.loads(done.stdout)["questions"]
    assert table["tpr"]["n"] == 18
    assert table["tpr"]["value"] == pytest.approx(13 / 18, abs=1e-3)
    assert table["person_to_person"]["n"] == 183
