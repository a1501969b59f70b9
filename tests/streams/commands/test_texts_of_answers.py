"""`ragweir explain --text --evidence` on files: the event is read again in the file that was scored."""

import gzip
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner

from ragweir.errors import PermanentError
from ragweir.schemas.evaluation import Evaluation, Source
from ragweir.streams.analysis.originals import in_evaluation, in_kafka
from ragweir.streams.commands import app
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import load

EXPORTS = Path(__file__).parents[2] / "exports"
RAG = Path(__file__).parents[1] / "traces/otlp/langchain-openinference/rag.otlp.pb"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe [red]:smile:[/red]\nScores\x9b31m"
RETURNS = {
    "event_id": "returns",
    "query": "How long may I return shoes?",
    "response": "Call us. You may return shoes for 90 days and get a voucher.",
    "contexts": [{"text": "Call us at noon."}, {"document_id": "d7", "text": "Return shoes within 30 days."}],
    "ended_at": "2026-11-21T10:03:04.230Z",
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs commands in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def run(*words: str | Path) -> str:
    """Run a command in this process; returns what it prints, errors raised."""
    done = CliRunner().invoke(app, [*map(str, words)], catch_exceptions=False, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert not done.exit_code
    return done.stdout


def scored(*rows: dict[str, Any]) -> None:
    """Write the events, and score them to out.jsonl."""
    Path("answers.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    run("score", "answers.jsonl", "--out", "out.jsonl")


def explained(event_id: str, *words: str | Path) -> str:
    return run("explain", event_id, "--file", "out.jsonl", *words)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "ragas-0.4.3/dataset.jsonl",
        "langfuse-5.0.4/observations.jsonl.gz",
        "langsmith-0.15.0/runs.jsonl.gz",
        "langsmith-0.15.0/traces.jsonl.gz",
        "trulens-2.16.0/records.jsonl.gz",
        "deepeval-4.3.1/cases.jsonl.gz",
    ],
)
def test_the_worst_answer_of_an_export_is_read_in_two_commands(name: str, tmp_path: Path) -> None:
    """Scored and explained, an invented answer shows its question, its passages and the word that none of them has."""
    data = (EXPORTS / name).read_bytes()
    data = gzip.decompress(data) if name.endswith(".gz") else data
    sample = tmp_path / Path(name).name.removesuffix(".gz")
    sample.write_bytes(re.sub(rb"The capital is (Brussels|Vienna)", b"The capital is Narnia", data))
    run("score", sample, "--map", name.partition("-")[0], "--out", "out.jsonl")
    evaluations = map(orjson.loads, (tmp_path / "out.jsonl").read_bytes().splitlines())
    worst = max(evaluations, key=lambda each: each["scores"]["unsupported_risk"] or 0.0)
    printed = explained(worst["event_id"], "--text", "--evidence")
    assert re.search(r"question\n +What is the capital of (Belgium|Austria)\?", printed)
    assert re.search(r"passages\n    1.*\n +(Brussels|Vienna) is the capital of", printed)
    assert re.search(r"Narnia\.? *\n +in no passage: Narnia *\n +nearest passage, 1: (Brussels|Vienna) is", printed)


@pytest.mark.slow
def test_the_texts_are_shown_while_the_scored_file_is_there(tmp_path: Path) -> None:
    """They are found beside the evaluations or where the user says, by id or by row, and left out on request."""
    scored({**RETURNS, "event_id": "first", "response": "Call us."}, RETURNS)
    printed = explained("returns")
    assert printed.startswith("Event returns, line 2 of answers.jsonl\n")
    assert printed.splitlines()[1] == "1 number occurs in no passage; not judged"
    assert "1 of 2 sentences have words in no passage" in printed
    assert "which has 30 and not 90" in printed
    assert re.search(r"in no passage: 90, get, voucher *\n +nearest passage, 2: Return shoes within 30 days\.", printed)
    assert explained("2") == printed
    assert "passages" not in explained("returns", "--evidence").partition("Evidence")[0]
    assert "Evidence" not in explained("returns", "--text")
    assert "Call us" not in explained("returns", "--no-text", "--no-evidence")
    found = orjson.loads(explained("returns", "--json"))
    assert found["text"]["contexts"][1] == {"document_id": "d7", "text": "Return shoes within 30 days."}
    assert found["evidence"]["verdict"] == printed.splitlines()[1]
    (sentence,) = found["evidence"]["sentences"]
    assert (sentence["nearest_sentence"], sentence["values_of_nearest_passage"]) == (
        "Return shoes within 30 days.",
        ["30"],
    )
    assert (sentence["in_no_passage"], sentence["nearest_passage"]) == (["90", "get", "voucher"], 2)
    away = tmp_path / "away"
    away.mkdir()
    Path("answers.jsonl").rename(away / "answers.jsonl")
    assert "voucher" not in explained("returns")
    assert "neither beside out.jsonl nor here; name it with --events" in explained("returns", "--text")
    for place in ("away", "away/answers.jsonl"):
        assert explained("returns", "--events", place).partition("\n")[2] == printed.partition("\n")[2]
    with pytest.raises(typer.BadParameter, match="an event is read from the input topic"):
        run("explain", "returns", "--events", away)


@pytest.mark.slow
def test_no_other_event_is_shown(tmp_path: Path) -> None:
    """A file that has changed, a damaged line and a file elsewhere that evaluations name show no text."""
    scored(RETURNS)
    answers, out = tmp_path / "answers.jsonl", tmp_path / "out.jsonl"
    answers.write_bytes(orjson.dumps({**RETURNS, "event_id": "other"}))
    printed = explained("returns")
    assert "line 1 of answers.jsonl holds another event than the one that was evaluated" in printed
    answers.write_bytes(b"{")
    assert "The text is not shown: answers.jsonl ends within element 1" in explained("returns")
    answers.write_bytes(b"not json")
    assert "line 1 of answers.jsonl cannot be read: not JSON" in explained("returns")
    answers.write_bytes(b"")
    assert "The text is not shown" in explained("returns")
    secret = tmp_path / "secret.jsonl"
    secret.write_bytes(orjson.dumps(RETURNS))
    for topic in (str(secret), "../secret.jsonl"):
        below = tmp_path / "below"
        below.mkdir(exist_ok=True)
        evaluation = orjson.loads(out.read_bytes())
        evaluation["source"]["topic"] = topic
        (below / "out.jsonl").write_bytes(orjson.dumps(evaluation))
        assert "voucher" not in run("explain", "returns", "--file", below / "out.jsonl", "--text")
        assert "voucher" in run("explain", "returns", "--file", below / "out.jsonl", "--events", secret)


@pytest.mark.slow
def test_rows_of_several_files_need_an_id(tmp_path: Path) -> None:
    """A number that is no id names a row; where two events were read from such a row, the id is asked for."""
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in (1, 2):
        (rows / f"{number}.jsonl").write_bytes(orjson.dumps({**RETURNS, "event_id": f"e{number}"}))
    run("score", rows, "--out", "out.jsonl")
    with pytest.raises(PermanentError, match=r"2 events of out.jsonl were read from a row 1: name one by its id"):
        explained("1")
    with pytest.raises(PermanentError, match="nothing of the event 3"):
        explained("3")
    assert explained("e2", "--events", rows).startswith(f"Event e2, line 1 of {rows / '2.jsonl'}\n")


@pytest.mark.slow
def test_an_answer_without_evidence_says_why() -> None:
    """Absent contexts and absent content are not empty ones; a supported answer is said to be."""
    rows = [
        {key: value for key, value in RETURNS.items() if key != "contexts"} | {"event_id": "none"},
        RETURNS | {"event_id": "absent", "response": None},
        RETURNS | {"event_id": "fine", "response": "Return shoes within 30 days."},
    ]
    scored(*rows)
    evidence = [explained(row["event_id"], "--evidence").partition("Scores")[0] for row in rows]
    assert "none: the event has no contexts, so that support is not known" in evidence[0]
    assert "none: the content of answer or contexts was not captured" in evidence[1]
    assert "every content word of the answer occurs in a passage" in evidence[2]


@pytest.mark.slow
def test_hostile_texts_are_shown_safely_and_bounded() -> None:
    """A terminal gets printable characters, lines of the event's own are indented, and large texts are cut."""
    large = [{"document_id": HOSTILE, "text": HOSTILE + "word " * 2_000}] * 64
    event = {**RETURNS, "query": HOSTILE, "response": f"{HOSTILE} {'Made up thing. ' * 10_000}", "contexts": large}
    scored(event)
    printed = explained("returns")
    assert all(character.isprintable() for character in printed.replace("\n", ""))
    assert len(printed) < 120_000
    assert [line for line in printed.splitlines() if line.strip().startswith("Scores")][-1:] == ["Scores"]
    assert printed.splitlines().count("Scores") == 1
    assert len(explained("returns", "--json")) < 120_000


def test_a_record_of_a_topic_is_read_by_the_settings_of_the_input(tmp_path: Path) -> None:
    """The map, the index within the record and the id decide, as they do for evaluate."""
    (tmp_path / "map.toml").write_text('event_id = "id"\nquery = "q"\nresponse = "a"\n"contexts[].text" = "docs[]"\n')
    settings = load(None, {"input": {"topic": "theirs", "map": tmp_path / "map.toml"}})
    foreign = {"id": "e1", "q": "How long?", "a": "90 days.", "docs": ["30 days."]}
    record = Record("theirs", 2, 7, None, orjson.dumps(foreign), None)
    source = Source(topic="theirs", partition=2, offset=7)
    evaluation = Evaluation(event_id="e1", event_time=datetime.now(UTC), catalogue_version="1", source=source)
    original = in_kafka(settings, evaluation, record)
    assert original.interaction is not None
    assert (original.interaction.response, original.place) == ("90 days.", "theirs/2/7")
    assert in_kafka(settings, evaluation, None).why == "Kafka no longer holds the record, or the user may not read it"
    later = evaluation.model_copy(update={"source": source.model_copy(update={"index": 1})})
    other = evaluation.model_copy(update={"event_id": "e2"})
    for wrong in (later, other):
        assert "holds another event" in in_kafka(settings, wrong, record).why
    assert "--map names the map" in in_kafka(load(None, {"input": {"topic": "theirs"}}), evaluation, record).why
    assert in_evaluation(evaluation) is None


@pytest.mark.slow
def test_a_trace_is_assembled_again() -> None:
    """Of an event that was assembled from a file of traces, the texts are those of the trace."""
    run("score", RAG, "--out", "out.jsonl")
    event_id = orjson.loads(Path("out.jsonl").read_bytes())["event_id"]
    assert "\nText\n" not in explained(event_id)
    texts = [explained(event_id, "--events", place) for place in (RAG, RAG.parent)]
    assert texts[0].startswith(f"Event {event_id}, a trace of {RAG}\n")
    assert [text.partition("\nText\n")[2] for text in texts[:1]] == [texts[1].partition("\nText\n")[2]]
    assert "  question\n      " in texts[0]
    other = RAG.parents[1] / "langchain-openinference-nocontent" / "rag.otlp.pb"
    assert f"no trace of {other} gives the event" in explained(event_id, "--events", other)
