"""Headers of records: bounded, never taken for ragweir's, and the trace context checked and handed on."""

from datetime import timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from poison import event
from scripted_judge import AMOUNT, NOON, Log, ScriptedPool, Worker, config, dollars, request

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.schemas.codec.json import encode
from ragweir.schemas.dead_letter import HEAD_BYTES, DeadLetter
from ragweir.schemas.trace_context import parse_traceparent
from ragweir.streams.analysis.dead_letters.letters import read_letter
from ragweir.streams.analysis.dead_letters.redrive import _headers as redriven_headers
from ragweir.streams.runtime.emissions import add_dead_letter
from ragweir.streams.runtime.headers import MAX_HEADER_BYTES, MAX_HEADERS, producer_headers
from ragweir.streams.runtime.records import Emission, Headers, Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.settings import RoutingSettings

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01".encode()
CATALOGUE = Catalogue(everything())
ROUTING = RoutingSettings(rules=[], floors={"rubric": 1.0})
AGENT = EvaluateAgent(EvaluateConfig(CATALOGUE, router=Router(ROUTING, CATALOGUE, tuple(suites()))))
BROKEN = b"{"
OWN = {"ragweir-error-class", "ragweir-message", "ragweir-source-topic", "ragweir-source-offset", "ce_source", "ce_id"}


def test_the_reason_of_a_dead_letter_controls_no_terminal() -> None:
    """Names in schemas are of strangers, and every tool that lists records prints headers as they are."""
    outcome = Outcome()
    record = Record("t", 0, 7, None, b"{", None)
    add_dead_letter(outcome, "evaluate", record, "invalid", "the field \x1b[2J\u202egnp is missing", 100)
    message = dict(outcome.emissions[0].headers)["ragweir-message"]
    assert message == rb"the field \x1b[2J\u202egnp is missing"


def handled(headers: Headers, value: bytes | None = None, **fields: Any) -> Outcome:
    return AGENT.handle([Record("rag.interactions", 1, 7, b"k", value or event(**fields), 5_000, headers)])


def evaluation(headers: Headers, **fields: Any) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(handled(headers, **fields).emissions[0].value or b"")
    return found


def letter(headers: Headers) -> Emission:
    (emission,) = handled(headers, BROKEN).emissions
    return emission


def stored(emission: Emission, topic: str = "rag.dead-letter") -> Record:
    return Record(topic, 0, 3, emission.key, emission.value, 9_000, emission.headers)


def redriven(headers: Headers) -> Headers:
    """The headers of the record that a redrive makes of a dead letter."""
    read = read_letter(stored(letter(headers)))
    assert read is not None
    return redriven_headers(read)


# The trace context.


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        PARENT.upper(),
        b"01" + PARENT[2:],
        b"ff" + PARENT[2:],
        PARENT + b"-00",
        PARENT + b"\n",
        b" " + PARENT,
        PARENT[:-1],
        PARENT.replace(b"-", b"_"),
        PARENT.replace(TRACE.encode(), b"0" * 32),
        PARENT.replace(SPAN.encode(), b"0" * 16),
        PARENT.replace(b"-01", b"-0g"),
        PARENT.replace(b"4bf9", b"4bg9"),
        b"\xff" * 55,
    ],
)
def test_only_a_traceparent_of_version_00_is_valid(value: bytes | None) -> None:
    """An invalid one is flagged, and is neither copied nor read."""
    assert parse_traceparent(value) is None
    outcome = handled((("traceparent", value),))
    found = orjson.loads(outcome.emissions[0].value or b"")
    assert found["flags"] == ["traceparent_invalid"]
    assert (found["trace_id"], found["span_id"]) == (None, None)
    assert not any(name == "traceparent" for each in outcome.emissions for name, _ in each.headers)
    assert outcome.counts["ragweir_repaired_total", "traceparent_invalid"] == 1


@pytest.mark.parametrize("flags", [b"00", b"01", b"ff"])
def test_a_valid_traceparent_is_copied_and_gives_the_ids(flags: bytes) -> None:
    """To the evaluation and the judge request, beside the headers of ragweir."""
    parent = PARENT[:-2] + flags
    outcome = handled((("a", b"1"), ("traceparent", parent)))
    assert [each.topic for each in outcome.emissions] == ["evaluations", "judge.requests"]
    for each in outcome.emissions:
        assert each.headers[-1] == ("traceparent", parent)
        assert dict(each.headers)["ce_source"] == b"ragweir/evaluate"
        assert "a" not in dict(each.headers)
    found = orjson.loads(outcome.emissions[0].value or b"")
    assert (found["trace_id"], found["span_id"], found["flags"]) == (TRACE, SPAN, [])


def test_several_traceparents_are_invalid() -> None:
    """It cannot be known which one is meant."""
    found = evaluation((("traceparent", PARENT), ("traceparent", PARENT)))
    assert (found["trace_id"], found["flags"]) == (None, ["traceparent_invalid"])


@pytest.mark.parametrize(
    ("own", "read"),
    [
        ({"trace_id": "own"}, ("own", None)),
        ({"trace_id": "own", "span_id": "s"}, ("own", "s")),
        ({"span_id": "s"}, (None, "s")),
        ({"trace_id": TRACE}, (TRACE, SPAN)),
        ({"trace_id": TRACE, "span_id": "s"}, (TRACE, "s")),
    ],
)
def test_the_ids_of_the_event_come_before_those_of_the_header(own: dict[str, str], read: tuple[str, str]) -> None:
    """A span id of the header is never put beside another trace."""
    found = evaluation((("traceparent", PARENT),), **own)
    assert (found["trace_id"], found["span_id"]) == read


def test_the_judge_hands_the_trace_context_on() -> None:
    """To requests that are tried again, to those that wait for the next day, and to the judged evaluations."""
    log, pool = Log(), ScriptedPool()
    worker = Worker(log, JudgeAgent(config(retries=1, retry_delay_s=60, daily_budget_usd=dollars(1.5)), pool))
    for name in "ab":
        own = ("ce_source", b"ragweir/evaluate"), ("traceparent", PARENT)
        log.append("judge.requests", 0, name.encode(), encode(request(name)), NOON, own)
    worker.turn()
    pool.land(pool.started[0], judged=None, why="the judge timed out", cost=AMOUNT)
    worker.turn()
    for hours in (1, 13, 14):
        for _ in range(2):
            worker.turn(NOON + timedelta(hours=hours))
        pool.land_all(cost=0)
        worker.turn(NOON + timedelta(hours=hours))
    traced: dict[str, int] = {}
    for (topic, _), records in log.records.items():
        parents = [dict(each.headers).get("traceparent") for each in records]
        assert set(parents) <= ({None} if topic == "judge.ledger" else {PARENT})
        traced[topic] = len(parents)
    assert (traced["judge.retry"], traced["evaluations"]) == (1, 2)
    assert traced["judge.deferred"] > 0


# Limits.


@pytest.mark.parametrize(
    ("headers", "cut"),
    [
        ((("h", b""),) * MAX_HEADERS, False),
        ((("h", b""),) * (MAX_HEADERS + 1), True),
        ((("h", bytes(MAX_HEADER_BYTES - 1)),), False),
        ((("h", bytes(MAX_HEADER_BYTES)),), True),
        ((("ö", bytes(MAX_HEADER_BYTES - 1)),), True),
        ((("h", b"1"), ("h", None)), False),
    ],
)
def test_headers_are_kept_up_to_the_limits(headers: Headers, *, cut: bool) -> None:
    """Those beyond are left out of the dead letter, and the evaluation is flagged."""
    assert evaluation(headers)["flags"] == ["headers_cut"] * cut
    theirs = tuple(header for header in letter(headers).headers if header[0] in ("h", "ö"))
    assert theirs == (headers[:MAX_HEADERS] if len(headers) > 1 else headers if not cut else ())
    assert {"headers_cut", "traceparent_invalid", "attributes_cut", "incomplete"} <= REPAIRS


def test_headers_that_cannot_be_read_cost_no_event() -> None:
    """The client cannot read a name that is not UTF-8; the event is evaluated and flagged."""
    record = Record("rag.interactions", 1, 7, b"k", event(), 5_000, headers_lost=True)
    assert orjson.loads(AGENT.handle([record]).emissions[0].value or b"")["flags"] == ["headers_cut"]


def test_a_dead_letter_with_all_headers_is_no_larger_than_allowed() -> None:
    """Key and headers together stay within what was allowed for the key."""
    headers = (("ragweir-x", bytes(240)),) * MAX_HEADERS
    (emission,) = AGENT.handle([Record("t", 0, 0, bytes(2 * HEAD_BYTES), BROKEN, 0, headers)]).emissions
    theirs = [header for header in emission.headers if header[0].startswith("original-")]
    assert len(theirs) == MAX_HEADERS
    assert len(emission.key or b"") + sum(len(name) + len(value or b"") for name, value in theirs) == HEAD_BYTES


# Dead letters and redrive.


def test_a_producer_cannot_forge_the_headers_of_a_dead_letter() -> None:
    """Its headers of such names stand under other ones, whatever they say, and none is lost."""
    forged: Headers = (
        *((name, b"forged") for name in sorted(OWN)),
        ("ce_source", b"ragweir/publish"),
        ("content-type", b"text/plain"),
        ("original-a", b"1"),
        ("a", b"2"),
        ("a", None),
    )
    headers = letter(forged).headers
    said = DeadLetter.from_headers(headers)
    assert (said.error_class, said.source_topic, said.source_offset) == ("not_json", "rag.interactions", 7)
    assert dict(headers)["ce_source"] == b"ragweir/evaluate"
    own = len(headers) - len(forged)
    assert not any(value == b"forged" for _, value in headers[:own])
    assert headers[own:] == tuple(
        header if header[0] == "a" else (f"original-{header[0]}", header[1]) for header in forged
    )


def test_a_record_that_claims_to_be_ours_forges_nothing_either() -> None:
    """Headers that only ragweir writes are not taken over from it."""
    claimed: Headers = (("ce_source", b"ragweir/redrive"), ("ragweir-message", b"forged"), ("a", b"1"))
    headers = letter(claimed).headers
    assert [name for name, _ in headers].count("ragweir-message") == 1
    assert b"forged" not in [value for _, value in headers]
    assert headers[-1] == ("a", b"1")


def test_headers_that_the_publisher_writes_are_those_of_a_producer() -> None:
    """The application sent the event: the dead letter has the id and the type that it wrote."""
    sent: Headers = (
        ("ce_source", b"ragweir/publish"),
        ("ce_id", b"7"),
        ("content-type", b"application/json"),
        ("ragweir-tenant", b"a"),
    )
    kept = tuple((f"original-{name}", value) for name, value in sent)
    assert letter(sent).headers[-4:] == kept
    assert producer_headers(redriven(sent)) == kept


def test_redrive_gives_the_headers_back() -> None:
    """The trace context is read again, and a second dead letter has the same headers of the producer."""
    headers: Headers = (
        ("traceparent", PARENT),
        ("a", b"\xff"),
        ("ce_id", b"theirs"),
        ("content-type", b"x"),
        ("b", None),
    )
    first = redriven(headers)
    assert dict(first)["ce_source"] == b"ragweir/redrive"
    assert DeadLetter.from_headers(first).source_offset == 7
    assert {("traceparent", PARENT), ("a", b"\xff"), ("original-ce_id", b"theirs"), ("b", None)} <= set(first)
    assert evaluation(first)["trace_id"] == TRACE
    assert evaluation(first)["flags"] == []
    assert producer_headers(redriven(first)) == producer_headers(first) == producer_headers(letter(headers).headers)
    assert len(redriven(first)) == len(first)


NAMES = st.sampled_from(["a", "ragweir-message", "ce_source", "ce_id", "content-type", "original-a", "traceparent", ""])
VALUES = st.none() | st.binary(max_size=300) | st.sampled_from([b"ragweir/evaluate", b"ragweir/publish", PARENT])


@pytest.mark.heavy
@given(st.lists(st.tuples(NAMES | st.text(max_size=200), VALUES), max_size=90))
def test_no_headers_stop_an_event(headers: list[tuple[str, bytes | None]]) -> None:
    """Whatever they are: it is evaluated, or a dead letter that can be read and redriven, with bounded headers."""
    given_headers = tuple(headers)
    assert set(evaluation(given_headers)["flags"]) <= {"headers_cut", "traceparent_invalid"}
    emission = letter(given_headers)
    assert DeadLetter.from_headers(emission.headers).message.startswith("not JSON")
    theirs = producer_headers(emission.headers)
    assert len(theirs) <= MAX_HEADERS
    again = redriven(given_headers)
    assert producer_headers(again) == theirs
    assert producer_headers(redriven(again)) == theirs
