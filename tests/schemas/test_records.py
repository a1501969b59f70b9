"""The records: golden files of today's that every later version goes on reading, and their JSON Schemas."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest

from ragweir.metrics.aggregation.estimate import EstimatedMetric
from ragweir.metrics.aggregation.summary import Scheme
from ragweir.metrics.aggregation.window_aggregate import WindowDecoder, merged
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.assembly import AssemblyEntry, ClockMark, SourceMark
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.document_rows import DocumentRows
from ragweir.schemas.evaluation import Decision, Evaluation, Judgement, Source, SuiteDecision, Texts
from ragweir.schemas.export import FOLDER, RECORDS, json_schema
from ragweir.schemas.feedback import (
    Feedback,
    JoinedFeedback,
    KeyedFeedback,
    UnmatchedFeedback,
    WaitingFeedback,
    feedback_of,
)
from ragweir.schemas.interaction import (
    Aggregate,
    AnswerRating,
    Assembly,
    Context,
    Extraction,
    Interaction,
    Message,
    RecordPart,
    Retrieval,
    Span,
    Usage,
)
from ragweir.schemas.judging import (
    AnchorResult,
    JudgeRequest,
    LedgerEntry,
    ledger_key,
    parse_ledger_key,
    parse_shares,
    shares_entry,
)
from ragweir.schemas.label import Draw, Label, QueuedAnswer
from ragweir.schemas.run import Archive, ControlRead, Extent, ReplayRequest, Run
from ragweir.schemas.window import Progress, Window
from ragweir.schemas.window_record import parse_window
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

GOLDEN = Path(__file__).parents[1] / "golden"


def at(second: float) -> datetime:
    return datetime(2026, 11, 21, 10, 0, 0, tzinfo=UTC).replace(second=int(second), microsecond=round(second % 1 * 1e6))


INTERACTION = Interaction(
    event_id="01JD9Z5W7K",
    started_at=at(0),
    ended_at=at(4.23),
    first_token_at=at(1.25),
    application="support-bot",
    tenant="acme",
    environment="prod",
    pipeline_version="v42",
    model="example-model",
    session_id="s-1",
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    span_id="00f067aa0ba902b7",
    labels={"region": "eu", "tier": "2"},
    question_id="EF_1",
    query="How many roofs are tiled?",
    response="Seven roofs are tiled [1].",
    expected=("Seven.",),
    answerable=True,
    finish_reason="stop",
    error='{"code":429,"retried":true}',
    history=(Message(role="user", text="Hello"), Message(role="assistant", text='{"parts":["Hi"]}')),
    feedback=AnswerRating(score=1.0, label="thumbs_up", comment="danke, schön ☺"),
    contexts=(
        Context(
            chunk_id="c1",
            document_id="d1",
            text="Seven of the nine roofs are tiled.",
            score=0.83,
            rank=1,
            page=12,
            retrieval_method="bm25",
            relevant=True,
        ),
        Context(
            chunk_id="2",
            document_id="d2",
            text='[["roof","material"],[1,"tile"]]',
            score=-1.5,
            rank=2,
            page="iv",
            retrieval_method="hybrid",
            relevant=0.5,
        ),
        Context(),
    ),
    retrieval=Retrieval(bm25_limit=10, knn_limit=10, retrieved_before_filter=40, relevant_ids=("c1", "c9")),
    extractions=(
        Extraction(field="roofType", value="tile", chunk_number=1, confidence="HIGH", evidence="are tiled"),
        Extraction(field="count", value=[7, None], chunk_number=2, confidence=0.25, evidence=None),
    ),
    aggregation=(Aggregate(field="roofType", value={"kind": "tile"}, confidence="LOW"),),
    spans=(
        Span(kind="retrieval", name="search", started_at=at(0.1), ended_at=at(0.9)),
        Span(
            kind="tool",
            name="lookup",
            started_at=at(1),
            ended_at=at(1.5005),
            error="timed out",
            id="b7ad6b7169203331",
            parent_id="00f067aa0ba902b7",
            input_digest="i1",
            output_digest="o1",
        ),
    ),
    usage=Usage(input_tokens=812, output_tokens=96, cost_usd=0.0004),
    expected_tools=("lookup",),
    assembly=Assembly(dialect="openinference", spans=3, flags=("incomplete",)),
    extra={"experiment": "x1", "gateway": {"zone": "b"}},
)

EVALUATION = Evaluation(
    event_id="01JD9Z5W7K",
    event_time=at(4.23),
    application="support-bot",
    tenant="acme",
    environment="prod",
    pipeline_version="v42",
    model="example-model",
    question_id="EF_1",
    labels={"region": "eu", "tier": "2"},
    session_id="s-1",
    trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
    span_id="00f067aa0ba902b7",
    stage="judged",
    scores={"latency_ms": 4230.0, "context_support": 0.833333, "keyword_coverage": None},
    categories={"answer_kind": "answer", "language": None},
    reasons={"keyword_coverage": "the event has no expected", "language": "too short to tell"},
    flags=("contexts_cut",),
    explanations={"faithfulness": "Every claim stands in the first context."},
    evidence={"number_match": ("7: in context 1",)},
    decision=Decision(
        suites=(
            SuiteDecision(suite="faithfulness", status="judged", probability=0.05, because=("sampled", "low_support")),
            SuiteDecision(suite="recall", status="not_selected", probability=0.0),
        )
    ),
    document_ids=("d1", "d2"),
    judge=Judgement(
        model="example-judge", prompt_version="3", input_tokens=900, output_tokens=40, cost_usd=0.001, cached=False
    ),
    text=Texts(
        query="How many roofs are tiled?",
        response="Seven roofs are tiled [1].",
        contexts=("Seven of the nine roofs are tiled.", "", "danke, schön ☺"),
    ),
    catalogue_version="1",
    source=Source(topic="rag.interactions", partition=3, offset=1_234_567_890_123),
    run_id="before-v43",
)

BY_ROW = Decision(
    suites=(
        SuiteDecision(
            suite="rubric",
            status="judged",
            probability=0.51,
            because=("share",),
            row="2026-11-21T00:00:00Z",
            row_digest="9df88540bc51492e",
        ),
        SuiteDecision(suite="recall", status="not_selected", probability=0.0),
    )
)
"""A decision by a row of the topic `control`."""

LIKELY = {"judge_relevance": {"0.85": 0.25, "1": 0.75}, "answer_class": {"CORRECT": 0.9, "WRONG": 0.1}}
OF_EVENT = {"rank": ("1",), "tool": ("lookup",), "tool_error": ("lookup",), "language": ("English",)}

WINDOW_SCHEMES = {
    "context_support": Scheme(0.0, 1.0, 1_000_000, 1_000_000),
    "ragas_score": Scheme(0.0, 100.0, 1_000_000, 1_000_000),
}

DEAD_LETTER = DeadLetter(
    error_class="too_large",
    message="the event is over the limit of 64 bytes",
    source_topic="rag.interactions",
    source_partition=3,
    source_offset=42,
    source_timestamp=1_795_255_205_125,
    length=90,
    sha256="70f0b06c3036bb98c902916838a60b34dc80878e427de18ea65fc1c2800c3bb7",
)


RUN = Run(
    run_id="stricter",
    began_at=at(1),
    ended_at=at(59.5),
    phase="complete",
    asked=ReplayRequest(since="24h", only=("tenant=acme",), judge="budget", budget_usd=2.5),
    files=(Archive(path="/archive/may.jsonl", size=1_024),),
    topic="rag.run.stricter.interactions",
    partitions=2,
    extents=(Extent(topic="rag.run.stricter.interactions", partition=1, start=3, end=9),),
    catalogue_version="1",
    fingerprint="0123456789abcdef",
    settings={"limits": {"max_tokens": 20_000}},
)

CLOCK_MARK = ClockMark(
    sources={"otlp_spans": 2, "otlp_logs": 1},
    marks=(
        SourceMark(topic="otlp_logs", partition=0, time_ms=1_795_255_205_125, caught_up=True),
        SourceMark(topic="otlp_spans", partition=1, time_ms=1_795_255_204_999, caught_up=False),
    ),
)


def golden(record: str) -> bytes:
    return (GOLDEN / f"{record}.json").read_bytes()


def golden_letter() -> tuple[bytes, list[tuple[str, bytes]], bytes]:
    """The golden dead letter's key, headers and value."""
    letter = orjson.loads(golden("dead_letter"))
    return letter["key"].encode(), [(name, text.encode()) for name, text in letter["headers"]], letter["value"].encode()


def test_the_golden_interaction_is_read() -> None:
    """An interaction of version 1, with every field there is, is read as the same values."""
    assert encode(decode(golden("interaction"))) == encode(INTERACTION)


def test_an_interaction_from_before_there_were_traces_is_read() -> None:
    """It has none of the fields of assembled interactions, and the others as today."""
    spans = [{"id": None, "parent_id": None, "input_digest": None, "output_digest": None}] * 2
    dump = INTERACTION.model_dump()
    before = dump | {
        "expected_tools": None,
        "assembly": None,
        "spans": [one | none for one, none in zip(dump["spans"], spans, strict=True)],
    }
    read = decode(golden("interaction_without_assembly"))
    assert encode(read) == encode(Interaction.model_validate(before))
    assert read.flags == ()


def test_the_golden_interaction_has_every_field() -> None:
    """The golden interaction says something about every field of every part, so that none can change unnoticed."""
    missing = []
    parts: list[Any] = [INTERACTION, *(INTERACTION.history or ()), INTERACTION.feedback, INTERACTION.retrieval]
    parts += [(INTERACTION.contexts or ())[0], (INTERACTION.extractions or ())[0], *(INTERACTION.aggregation or ())]
    parts += [(INTERACTION.spans or ())[1], INTERACTION.usage, INTERACTION.assembly]
    for part in parts:
        missing += [f"{type(part).__name__}.{name}" for name, value in part if value is None]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("evaluation", EVALUATION),
        ("evaluation_by_row", EVALUATION.model_copy(update={"decision": BY_ROW})),
        ("evaluation_with_probabilities", EVALUATION.model_copy(update={"probabilities": LIKELY})),
        ("evaluation_with_facets", EVALUATION.model_copy(update={"facets": OF_EVENT})),
    ],
)
def test_the_golden_evaluation_is_read_and_written(name: str, expected: Evaluation) -> None:
    """An evaluation of version 1 is read as the same values and written as the same bytes."""
    read = Evaluation.model_validate_json(golden(name))
    assert read == expected
    assert encode(read) == golden(name)


def test_the_golden_run_is_read_and_written() -> None:
    """A run that an earlier version began can be gone on with and shown by this one."""
    assert Run.model_validate_json(golden("run")) == RUN
    assert encode(RUN) == golden("run")


def test_a_run_has_the_offsets_of_its_routing_rows() -> None:
    """A run of an earlier version has none, and is written without them."""
    control = ControlRead(read_at=at(0), extents=(Extent(topic="rag.control", partition=0, start=0, end=7),))
    written = encode(RUN.model_copy(update={"control": control}))
    assert Run.model_validate_json(written).control == control
    assert b'"control"' not in encode(RUN)


def test_the_golden_window_is_read_and_written() -> None:
    """Today's window, with a sum that no plain number could hold, parses to its contents and comes out as it was."""
    read = Window.model_validate(orjson.loads(golden("window")))
    assert encode(read) == golden("window")
    contents = WindowDecoder(WINDOW_SCHEMES, {}).decode(parse_window(golden("window")))
    assert contents.metrics["context_support"].total == 1_750_000
    assert contents.metrics["cost_usd"].total == int(1e200 * 1_000_000) + 400
    judged = {name: (own.count, own.drawn, own.weighted_sum) for name, own in contents.estimates.items()}
    assert judged == {"ragas_score": (2, 1, 99_900_062_500_000), "answer_class=WRONG": (2, 1, 50_000_000)}
    assert contents.estimates["ragas_score"].subject == EstimatedMetric("ragas", 0.0, 100.0)
    again = contents.fields()
    for name, own in again["estimates"].items():
        own["result"] = read.estimates[name].result
    assert Window.model_validate(read.model_dump() | again) == read


def test_a_window_from_before_there_were_estimates_is_read() -> None:
    """It has none, merges with those that have, and is written anew with all fields."""
    read = Window.model_validate(orjson.loads(golden("window_without_estimates")))
    assert (read.estimates, read.chances) == ({}, {})
    old, new = (
        WindowDecoder(WINDOW_SCHEMES, {}).decode(parse_window(golden(name)))
        for name in ("window_without_estimates", "window")
    )
    whole = merged((old, new))
    assert (whole.events, whole.estimates) == (6, new.estimates)
    today = orjson.loads(encode(Window.model_validate(read.model_dump() | old.fields())))
    assert today.items() >= orjson.loads(golden("window_without_estimates")).items()
    assert today.keys() == orjson.loads(golden("window")).keys()


def test_a_window_without_sums_of_selected_events_is_read() -> None:
    """It is of an earlier release; merged with today's its estimates are as then, with a flag."""
    old, new = (
        WindowDecoder(WINDOW_SCHEMES, {}).decode(parse_window(golden(name)))
        for name in ("window_without_selection", "window")
    )
    assert old.estimates == new.estimates
    before, after, both = (each.results()["answer_class=WRONG"] for each in (old, new, merged((old, new))))
    assert (before.mean, before.flags) == (0.980392, ("too_few", "partial", "uncounted"))
    assert (after.unanswered, after.flags) == (0.0, ("too_few", "partial"))
    assert (both.mean, both.flags) == (0.980392, ("too_few", "partial", "uncounted"))


@pytest.mark.parametrize(
    ("record", "model"),
    [
        ("judge_request", JudgeRequest),
        ("judge_ledger", LedgerEntry),
        ("anchor_result", AnchorResult),
        ("label", Label),
        ("draw", Draw),
        ("queued_answer", QueuedAnswer),
    ],
)
def test_the_golden_records_of_judge_and_people_are_read_and_written(record: str, model: type[RecordPart]) -> None:
    """Every later version reads requests, bookings and labels; no field is left out."""
    read = model.model_validate_json(golden(record))
    assert encode(read) == golden(record)
    names = model.model_fields.keys() - model.omitted_values.keys()
    assert all(getattr(read, name) not in (None, "", 0) for name in names)


@pytest.mark.parametrize("model", [KeyedFeedback, WaitingFeedback, UnmatchedFeedback, JoinedFeedback, DocumentRows])
def test_the_golden_records_of_feedback_and_rows_are_read_and_written(model: type[RecordPart]) -> None:
    """Every later version reads the state that this one has written."""
    record = "_".join(re.findall("[A-Z][a-z]+", model.__name__)).lower()
    assert encode(model.model_validate_json(golden(record))) == golden(record)


def test_the_golden_feedback_of_an_application_is_read() -> None:
    """What applications write today is read by every later version."""
    assert feedback_of(orjson.loads(golden("feedback"))) == Feedback(
        event_id="01JD9Z5W7K", name="thumbs", value="down", giver="user-7", time=at(9)
    )


def test_the_golden_record_of_a_days_shares_is_read_and_written() -> None:
    """It has all fields of an entry of costs, so that versions before it read it, and no day that they know."""
    entry = shares_entry("2026-11-21", 6)
    assert encode(entry) == golden("judge_ledger_shares")
    assert parse_shares(LedgerEntry.model_validate_json(golden("judge_ledger_shares"))) == ("2026-11-21", 6)
    assert parse_ledger_key(ledger_key(entry)).day != "2026-11-21"
    assert orjson.loads(golden("judge_ledger_shares")).keys() > orjson.loads(golden("judge_ledger")).keys()


def test_a_ledger_from_before_it_told_what_is_finished_is_read() -> None:
    """It tells of nothing, and is written anew with all fields."""
    read = LedgerEntry.model_validate_json(golden("judge_ledger_without_finished"))
    assert read.finished == ()
    told = LedgerEntry.model_validate_json(golden("judge_ledger")).finished
    assert encode(read.model_copy(update={"finished": told})) == golden("judge_ledger")


def test_the_ids_of_topics_are_written_where_they_are_known() -> None:
    """In the ledger as in the windows' progress; a record without one is written as it was."""
    ledger = LedgerEntry.model_validate_json(golden("judge_ledger"))
    assert {each.topic_id for each in ledger.finished} == {""}
    finished = tuple(each.model_copy(update={"topic_id": "MiV0d"}) for each in ledger.finished)
    written = encode(ledger.model_copy(update={"finished": finished}))
    assert written.count(b',"topic_id":"MiV0d"') == len(finished) > 0
    assert LedgerEntry.model_validate_json(written).finished == finished
    progress = b'{"partition":0,"next_offset":3,"watermark":null,"idle":false,"topic_id":"MiV0d","changelog_offset":1}'
    assert encode(Progress.model_validate_json(progress)) == progress
    assert b"topic_id" not in encode(Progress.model_validate_json(progress.replace(b"topic_id", b"other")))


def test_the_golden_clock_mark_is_read_and_written() -> None:
    """The marks that `key` has written before an update are those that `join` reads after it."""
    read = ClockMark.model_validate_json(golden("clock_mark"))
    assert read == CLOCK_MARK
    assert read.model_dump_json().encode() == golden("clock_mark")
    later = orjson.loads(golden("clock_mark")) | {"later": 1}
    assert ClockMark.model_validate(later) == CLOCK_MARK


def test_the_golden_ledger_of_join_is_read() -> None:
    """A ledger that an earlier version wrote is gone on with."""
    read = AssemblyEntry.model_validate_json(golden("assembly_entry"))
    assert (read.committed, read.next, read.ledger_from, read.emitted) == (3, 9, 2, "AAEC")
    assert (read.clock, read.sources) == (CLOCK_MARK.marks, CLOCK_MARK.sources)


def test_the_golden_dead_letter_is_read_and_written() -> None:
    """A dead letter of version 1 is read from its headers as the same values and written as the same headers."""
    _, headers, _ = golden_letter()
    read = DeadLetter.from_headers(headers)
    assert read == DEAD_LETTER
    assert [header for header in headers if header[0].startswith("ragweir-")] == read.headers()


def test_the_agent_writes_the_golden_dead_letter() -> None:
    """The evaluate agent makes the golden dead letter, headers and all, of the record that it speaks of."""
    key, headers, value = golden_letter()
    agent = EvaluateAgent(EvaluateConfig(Catalogue(everything()), max_event_bytes=64))
    record = Record("rag.interactions", 3, 42, key, value, 1_795_255_205_125)
    (emission,) = agent.handle([record]).emissions
    assert (emission.topic, emission.key, emission.value) == ("dead-letter", key, value)
    assert list(emission.headers) == headers


def test_what_is_unknown_does_not_stop_a_reader() -> None:
    """A record of a later version, with fields and headers that we do not know, is read all the same."""
    later = orjson.loads(golden("evaluation")) | {"later": {"x": 1}}
    later["judge"]["later"] = 1
    assert Evaluation.model_validate(later) == EVALUATION
    _, headers, _ = golden_letter()
    assert DeadLetter.from_headers([*headers, ("ragweir-later", b"x"), ("other", b"\xff"), ("ragweir-x", None)])


@pytest.mark.parametrize("record", RECORDS)
def test_the_json_schema_is_that_of_the_model(record: str) -> None:
    """The exported file is what the model says today; `python -m ragweir.schemas.export` writes it anew."""
    assert (FOLDER / f"{record}.json").read_bytes() == json_schema(record)


def test_no_json_schema_is_left_over() -> None:
    """Every exported file belongs to a record."""
    assert {file.stem for file in FOLDER.iterdir()} == set(RECORDS)


@pytest.mark.slow
@pytest.mark.parametrize("record", RECORDS)
def test_the_golden_file_fits_its_json_schema(record: str) -> None:
    """What we read and write satisfies the JSON Schema that we give to others, and a wrong record does not."""
    validator = jsonschema.Draft202012Validator(
        orjson.loads((FOLDER / f"{record}.json").read_bytes()),
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )
    validator.check_schema(validator.schema)
    data = DEAD_LETTER.model_dump() if record == "dead_letter" else orjson.loads(golden(record))
    if record == "interaction":  # the schema asks for text where we also take a number
        data["labels"]["tier"], data["contexts"][1]["chunk_id"] = "2", "2"
    validator.validate(data)
    wrong = {
        "interaction": "spans",
        "evaluation": "scores",
        "dead_letter": "error_class",
        "window": "metrics",
        "judge_request": "query",
        "judge_ledger": "day",
        "anchor_result": "bad",
        "document_rows": "columns",
        "clock_mark": "marks",
        "assembly_entry": "clock",
        "run": "phase",
        "routing_row": "share",
        "label": "rater",
        "draw": "question",
        "queued_answer": "draw",
        "feedback": "trace_id",
        "keyed_feedback": "event_time",
        "waiting_feedback": "source",
        "unmatched_feedback": "error_class",
        "joined_feedback": "received",
    }[record]
    assert not validator.is_valid(data | {wrong: 5})
