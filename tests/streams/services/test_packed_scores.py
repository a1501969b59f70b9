"""Packed rows: windows are the same bytes from headers and from JSON, and no header makes a record unreadable."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.packed_scores import HEADER, MAX_BYTES, RowReader, infinite, pack, row_of, score_headers
from ragweir.schemas.window import Window
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.records import Headers, Outcome, Record
from ragweir.streams.services.aggregate.agent import AggregateAgent, AggregateConfig
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.settings import Slo, WindowSettings

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
STAMP_MS = int(NOON.timestamp() * 1000) + 86_400_000
CATALOGUE = Catalogue(everything())
SLO = Slo(name="support", metric="context_support", at_least=0.5, objective=0.9, dimensions={"labels.region": "eu"})
WINDOWS = WindowSettings(
    dimensions=("application", "model", "question_id", "labels.region"), values={"model": ("m", "n")}, max_series=6
)

ABSURD = st.sampled_from((0.0, -0.0, 1e300, -1e300, 5e-324, 1.7976931348623157e308, 2.0**53 + 2, 0.1, 1.0))
VALUES = st.none() | ABSURD | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from(
    ("", "a", "b" * 119, "b" * 121, "b" * 120 + "c", "ü\n\x00", "__overflow__", "😀" * 70)
) | st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
SCORES = st.dictionaries(
    st.sampled_from(("context_support", "total_latency_ms", "judge_relevance", "own_metric", "bm25_top")), VALUES
)
CATEGORIES = st.dictionaries(
    st.sampled_from(("recall_warning", "answer_class", "own")), st.none() | st.sampled_from(("WRONG", "CORRECT", "x"))
)
SUITES = st.lists(
    st.fixed_dictionaries(
        {
            "suite": st.sampled_from(("rubric", "answers", "other")),
            "status": st.sampled_from(("not_selected", "selected", "judged", "deferred", "expired", "failed")),
            "probability": st.sampled_from((0.0, 1e-9, 0.05, 1 / 3, 1.0)),
            "because": st.just(["floor"]),
        }
    ),
    max_size=3,
)
EVALUATIONS = st.builds(
    Evaluation,
    event_id=st.just("1"),
    event_time=st.integers(-3_600_000_000, 4 * 3_600_000_000).map(lambda each: NOON + timedelta(microseconds=each)),
    application=st.none() | TEXTS,
    model=st.none() | st.sampled_from(("m", "n", "o")),
    question_id=st.none() | TEXTS,
    labels=st.dictionaries(st.sampled_from(("region", "other")), st.just("eu") | TEXTS),
    stage=st.sampled_from(("scored", "scored", "judged")),
    scores=SCORES,
    categories=CATEGORIES,
    decision=SUITES.map(lambda suites: {"suites": suites}),
    catalogue_version=st.sampled_from(("1", "2+pack:3")),
)


def of(fields: dict[str, Any]) -> Evaluation:
    """An evaluation at noon."""
    return Evaluation.model_validate({"event_id": "1", "event_time": NOON, "catalogue_version": "1", **fields})


def agent() -> AggregateAgent:
    """An agent with one partition."""
    new = AggregateAgent(AggregateConfig(Aggregator(CATALOGUE), WINDOWS, (SLO,)))
    new.on_assigned(Assignment(("evaluations", 0), None, 0))
    return new


def sent(to: AggregateAgent, records: Sequence[tuple[bytes | None, Headers]], first: int = 0) -> Outcome:
    """The outcome of one committed batch."""
    outcome = handled(
        to,
        [
            Record("evaluations", 0, first + number, None, value, STAMP_MS, headers)
            for number, (value, headers) in enumerate(records)
        ],
    )
    to.on_commit()
    return outcome


def handled(to: AggregateAgent, *batches: Sequence[Record]) -> Outcome:
    """The outcome of a transaction of batches, not committed."""
    outcome = Outcome()
    for batch in batches:
        outcome.extend(to.handle(batch))
    outcome.extend(to.tick(0.0, (), 1))
    return outcome


def forms(outcome: Outcome) -> tuple[int, int]:
    """The numbers of evaluations that were summed from headers, and from JSON."""
    name = "ragweir_evaluations_summed_total"
    return outcome.counts[name, "header"], outcome.counts[name, "json"]


@pytest.mark.slow
@given(st.lists(st.lists(EVALUATIONS, min_size=1, max_size=12), min_size=1, max_size=4))
def test_windows_are_the_same_bytes_from_headers_and_from_json(batches: list[list[Evaluation]]) -> None:
    """Any evaluations, scored and judged, of several versions, give the same records, dead letters and counts."""
    by_json, by_header = agent(), agent()
    first, names = 0, set()
    for batch in batches:
        values = [encode(each) for each in batch]
        plain = sent(by_json, [(value, ()) for value in values], first)
        packed = sent(
            by_header, [(value, score_headers(each, value)) for each, value in zip(batch, values, strict=True)], first
        )
        first += len(batch)
        assert packed.emissions == plain.emissions
        new = {(each.catalogue_version, tuple(each.scores), tuple(each.categories)) for each in batch} - names
        names |= new
        assert forms(packed) == (len(batch) - len(new), len(new))
        assert forms(plain) == (0, len(batch))
        for outcome in (plain, packed):
            for form in ("json", "header"):
                del outcome.counts["ragweir_evaluations_summed_total", form]
        assert +packed.counts == +plain.counts
        assert packed.levels == plain.levels


@given(EVALUATIONS)
def test_a_row_is_what_the_json_says(evaluation: Evaluation) -> None:
    """A row that was packed and read is that of the evaluation that is read from JSON."""
    value = encode(evaluation)
    reader = RowReader()
    known = reader.of(Evaluation.model_validate_json(value))
    read = reader.read(score_headers(evaluation, value), len(value))
    assert read is not None
    assert (read.names, read.time_us, read.judged, read.values) == (
        known.names,
        known.time_us,
        known.judged,
        known.values,
    )
    for one, other in ((read.origin, known.origin), (read.outcomes, known.outcomes)):
        assert [getattr(one, name) for name in one.__slots__] == [getattr(other, name) for name in other.__slots__]
    for name, score in evaluation.scores.items():
        assert struct.pack("d", read.score(name) or 0.0) == struct.pack("d", score or 0.0)
    assert read.score("absent") is None


def test_what_evaluate_writes_is_read_from_the_header() -> None:
    """The header of an evaluation that the evaluate agent wrote is its row."""
    event = {"event_id": "1", "query": "Who?", "response": "Ada.", "ended_at": NOON, "labels": {"region": "eu"}}
    record = Record("interactions", 0, 0, None, orjson.dumps(event), STAMP_MS)
    written = [EvaluateAgent(EvaluateConfig(CATALOGUE)).handle([record]).emissions[0] for _ in range(2)]
    outcome = sent(agent(), [(each.value, each.headers) for each in written])
    assert forms(outcome) == (1, 1)
    window = Window.model_validate_json(outcome.emissions[0].value or b"")
    assert window.events == 2
    assert window.dimensions["labels.region"] == "eu"


EVENT = of({"scores": {"context_support": 0.25, "refusal": None}, "categories": {"own": None}, "model": "m"})
VALUE = encode(EVENT)
ROW = pack(EVENT, len(VALUE)) or b""


def forged(at: int, new: bytes, row: bytes = ROW) -> bytes:
    """A row with other bytes and a right checksum."""
    changed = row[:at] + new + row[at + len(new) :]
    return changed[:1] + struct.pack("<I", crc32(changed[5:])) + changed[5:]


ORIGIN_AT = 30
OUTCOMES_AT = ROW.index(b"[[null]")
SCORES_AT = len(ROW) - 16


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(None, id="null"),
        pytest.param(b"", id="empty"),
        pytest.param(ROW[:-1], id="short"),
        pytest.param(ROW + b"\0", id="long"),
        pytest.param(b"\2" + ROW[1:], id="another version"),
        pytest.param(ROW[:-1] + b"\1", id="a wrong checksum"),
        pytest.param(forged(5, b"\2"), id="neither scored nor judged"),
        pytest.param(forged(6, struct.pack("<I", len(VALUE) + 1)), id="another value"),
        pytest.param(forged(10, struct.pack("<q", -(2**63))), id="before the calendar"),
        pytest.param(forged(10, struct.pack("<q", 2**63 - 1)), id="after the calendar"),
        pytest.param(forged(18, b"\xff\xff"), id="a text beyond the end"),
        pytest.param(forged(22, bytes(8)), id="unknown names"),
        pytest.param(forged(ORIGIN_AT, b"{"), id="no JSON"),
        pytest.param(forged(ORIGIN_AT, b"[7777"), id="a number as a field"),
        pytest.param(forged(ROW.index(b"{}]"), b"[]"), id="labels that are none"),
        pytest.param(forged(OUTCOMES_AT, b"[{}    ,[]]"), id="categories that are none"),
        pytest.param(forged(OUTCOMES_AT, b"[[777 ],[]]"), id="a number as a category"),
        pytest.param(forged(OUTCOMES_AT, b"[[    ],[]]"), id="too few categories"),
        pytest.param(forged(OUTCOMES_AT, b"[[null],77]"), id="suites that are none"),
        pytest.param(forged(OUTCOMES_AT, b"[[null],[7]"[:10] + b"]"), id="a suite that is none"),
        pytest.param(forged(SCORES_AT, struct.pack("<d", float("inf"))), id="infinite"),
        pytest.param(forged(SCORES_AT + 8, struct.pack("<d", float("-inf"))), id="infinite, second"),
        pytest.param(bytes(MAX_BYTES + 1), id="too long"),
    ],
)
def test_a_row_that_does_not_fit_is_read_from_json_once(row: bytes | None) -> None:
    """A forged or damaged row changes nothing: the evaluation is summed from its value, and once."""
    assert ROW[ORIGIN_AT:].startswith(b"[null,")
    good, other = agent(), agent()
    records: list[tuple[bytes | None, Headers]] = [(VALUE, ()), (VALUE, ((HEADER, row),)), (VALUE, ((HEADER, ROW),))]
    outcome = sent(other, records)
    assert outcome.emissions == sent(good, [(VALUE, ())] * 3).emissions
    assert forms(outcome) == (1, 2)


@given(st.data())
def test_no_damage_to_a_row_is_counted(data: st.DataObject) -> None:
    """Each single change of a byte is noticed."""
    at = data.draw(st.integers(0, len(ROW) - 1))
    other = data.draw(st.integers(1, 255))
    reader = RowReader()
    reader.of(EVENT)
    assert reader.read(((HEADER, ROW),), len(VALUE)) is not None
    damaged = ROW[:at] + bytes([ROW[at] ^ other]) + ROW[at + 1 :]
    assert reader.read(((HEADER, damaged),), len(VALUE)) is None


@pytest.mark.parametrize(
    "judged", [b'["rubric","judged",2.0]', b'["rubric","else",1.0]', b'["rubric","judged",1]', b"[7]"]
)
def test_decisions_that_no_evaluation_has_are_not_read(judged: bytes) -> None:
    """A probability above 1 or an unknown status is read from JSON."""
    event = of({"decision": {"suites": [{"suite": "rubric", "status": "judged", "probability": 0.75}]}})
    row = pack(event, 7) or b""
    reader = RowReader()
    reader.of(event)
    assert reader.read(((HEADER, row),), 7) is not None
    own = b'["rubric","judged",0.75]'
    assert own in row
    assert reader.read(((HEADER, forged(row.index(own), judged.ljust(len(own)), row)),), 7) is None


@pytest.mark.parametrize("value", [None, b"", b"{}", b"\0" * len(VALUE), b"[" * 5_000])
def test_a_record_that_is_no_evaluation_is_a_dead_letter_whatever_its_header_is(value: bytes | None) -> None:
    """A row of another value makes no evaluation of a tombstone or of nonsense."""
    to = agent()
    sent(to, [(VALUE, ())])
    # Only a row with a right checksum and size is believed, which takes intent and the right to write evaluations.
    row = ROW if value is None or len(value) != len(VALUE) else ROW[:-1]
    outcome = sent(to, [(value, ((HEADER, row),))], 1)
    assert [each.topic for each in outcome.emissions] == ["dead-letter", "windows"]
    assert forms(outcome) == (0, 0)


def test_a_value_over_the_limit_is_a_dead_letter_with_a_header_too() -> None:
    """The limit of an evaluation's size holds for both ways."""
    to = AggregateAgent(AggregateConfig(Aggregator(CATALOGUE), WINDOWS, max_bytes=len(VALUE) - 1))
    to.on_assigned(Assignment(("evaluations", 0), None, 0))
    to._reader.of(EVENT)
    outcome = sent(to, [(VALUE, ((HEADER, ROW),))])
    assert [each.topic for each in outcome.emissions] == ["dead-letter", "windows"]


def test_an_evaluation_with_probabilities_has_no_row() -> None:
    """It is summed from its JSON."""
    own = {"answer_class": {"CORRECT": 0.75, "WRONG": 0.25}}
    likely = of({"event_id": "1", "event_time": 1, "catalogue_version": "1", "probabilities": own})
    assert score_headers(likely, encode(likely)) == ()
    assert row_of(likely).outcomes.probabilities == own


def test_an_evaluation_with_long_labels_has_no_row() -> None:
    """A row is at most 8 KB, so that a record's headers stay small."""
    assert pack(of({"labels": {"region": "x" * MAX_BYTES}}), 7) is None
    assert score_headers(of({"labels": {"region": "x" * MAX_BYTES}}), b"") == ()
    longest = pack(of({"labels": {"region": "x" * (MAX_BYTES - 200)}}), 7)
    assert longest is not None
    assert len(longest) <= MAX_BYTES


@pytest.mark.slow
def test_what_a_reader_remembers_is_bounded() -> None:
    """Ever new labels, names and decisions are not kept without end, nor long ones at all."""
    reader = RowReader()
    for number in range(9_000):
        event = of({"application": f"a{number}", "scores": {f"s{number % 700}": 1.0}})
        row = pack(event, 7)
        reader.of(event)
        assert reader.read(((HEADER, row),), 7) is not None
    assert len(reader._origins) <= 4_096
    assert len(reader._names) <= 256
    before = len(reader._origins)
    long = of({"application": "x" * 1_000, "scores": {"s1": 1.0}})
    reader.of(long)
    assert reader.read(((HEADER, pack(long, 7)),), 7) is not None
    assert len(reader._origins) == before


def test_infinite_scores_are_found_among_rows_of_several_names() -> None:
    """The places are those of the rows, with those of other names and absent ones between them."""
    one, two = row_of(of({"scores": {"a": 1.0}})), row_of(of({"scores": {"a": 1.0, "b": None}}))
    bad = two._replace(values=struct.pack("<2d", 1.0, float("inf")))
    assert infinite([one, None, bad, one, bad._replace(values=struct.pack("<2d", float("-inf"), 0.0)), two]) == [2, 4]
    assert infinite([row_of(of({}))]) == []


def test_metrics_of_judged_rows_count_once() -> None:
    """The scores that a judged evaluation repeats are not counted again, neither by windows nor by SLOs."""
    scored = of({"scores": {"context_support": 1.0}, "labels": {"region": "eu"}})
    judged = scored.model_copy(update={"stage": "judged", "scores": {"context_support": 1.0, "judge_relevance": 0.5}})
    values = [(encode(each), score_headers(each, encode(each))) for each in (scored, judged, scored, judged)]
    outcome = sent(agent(), values)
    assert forms(outcome) == (2, 2)
    assert outcome.counts["ragweir_slo_events_total", "support", "good"] == 2
    window = Window.model_validate_json(outcome.emissions[0].value or b"")
    assert (window.events, window.metrics["context_support"].count, window.metrics["judge_relevance"].count) == (
        2,
        2,
        2,
    )


def test_an_abort_undoes_what_was_added() -> None:
    """Windows after an abort are those of the batch that was read again, though aggregates are changed in place."""
    whole, aborted = agent(), agent()
    for each in (whole, aborted):
        sent(each, [(VALUE, ())] * 3)
    batch = [Record("evaluations", 0, 3 + number, None, VALUE, STAMP_MS, ((HEADER, ROW),)) for number in range(4)]
    for _ in range(2):
        handled(aborted, batch)
        aborted.on_abort()
    assert handled(aborted, batch).emissions == handled(whole, batch).emissions


def test_batches_of_one_transaction_add_up() -> None:
    """A window of several batches is written once, as one revision, and an abort undoes them all."""
    to = agent()
    batches = [[Record("evaluations", 0, number, None, VALUE, STAMP_MS)] for number in range(3)]
    for _ in range(2):
        emissions = handled(to, *batches).emissions
        window = Window.model_validate_json(emissions[0].value or b"")
        assert (window.events, window.revision, window.part, len(emissions)) == (3, 1, 0, 2)
        to.on_abort()
    assert not to._states[0].held.windows
