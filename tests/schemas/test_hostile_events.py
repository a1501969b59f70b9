"""Odd, mistaken and hostile events: no list costs an event, and nothing that was left out passes in silence."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest
from poison import event

from ragweir import schemas
from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.driver import judge
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Metric
from ragweir.metrics.view import View
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.interaction import Context
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.times import from_epoch, parse_time
from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.judge.results import case_of

MODULE = Path(schemas.__file__).parent

ITEMS: dict[str, Any] = {
    "contexts": {"text": "Ada wrote it in 1843.", "chunk_id": "c", "score": 0.5},
    "spans": {"kind": "tool", "started_at": 1_764_000_000, "ended_at": 1_764_000_001},
    "extractions": {"field": "a", "value": 1, "chunk_number": 1, "confidence": "HIGH"},
    "aggregation": {"field": "a", "value": 1, "confidence": "HIGH"},
    "retrieval.relevant_ids": "c",
    "history": {"role": "user", "text": "Hello"},
    "labels": "eu",
    "expected": "Ada",
    "expected_tools": "lookup",
    "assembly.flags": "incomplete",
}
"""Of each list of an event, a good element."""


def with_items(**lengths: int) -> dict[str, Any]:
    """The fields of an event in which each list has one element, or so many."""
    fields: dict[str, Any] = {"usage": {"input_tokens": 1, "output_tokens": 1}, "started_at": 1_764_000_000}
    for path, item in ITEMS.items():
        holder, _, name = path.rpartition(".")
        part = fields.setdefault(holder, {}) if holder else fields
        count = lengths.get(path, 1)
        part[name] = {f"k{number}": item for number in range(count)} if path == "labels" else [item] * count
    return fields | {"ended_at": 1_764_000_002}


CATALOGUE = Catalogue(everything(packs.SHIPPED))


def reasons(**lengths: int) -> dict[str, str]:
    """Why metrics are null for an event with lists that long."""
    return CATALOGUE.score(View(decode(event(**with_items(**lengths))))).reasons


def test_every_list_of_an_event_has_a_limit() -> None:
    """The table of limits names every list of the interaction's JSON Schema, so that none can be forgotten."""
    schema = orjson.loads((MODULE / "json" / "interaction.json").read_bytes())

    def lists(properties: dict[str, Any], prefix: str = "") -> set[str]:
        found = set()
        for name, field in properties.items():
            for form in (field, *field.get("anyOf", ())):
                if form.get("type") == "array" or ("additionalProperties" in form and name != "extra"):
                    found.add(prefix + name)
                if "$ref" in form:
                    part = schema["$defs"][form["$ref"].rpartition("/")[2]]
                    found |= lists(part["properties"], f"{prefix}{name}.")
        return found

    assert lists(schema["properties"]) == DEFAULT_MAX_ITEMS.keys() == ITEMS.keys()


@pytest.mark.parametrize("path", DEFAULT_MAX_ITEMS)
def test_a_list_over_its_limit_is_cut(path: str) -> None:
    """Of a list at its limit all is read; of a longer one the first elements, and the event is flagged."""
    whole = decode(event(**with_items(**{path: DEFAULT_MAX_ITEMS[path]})))
    cut = decode(event(**with_items(**{path: DEFAULT_MAX_ITEMS[path] + 1})))
    assert whole.flags == ("incomplete",)
    assert set(cut.flags) == {f"cut:{path}", "incomplete"}
    assert encode(cut) == encode(whole)


@pytest.mark.parametrize("path", DEFAULT_MAX_ITEMS)
def test_what_reads_a_cut_list_is_null(path: str) -> None:
    """Every metric that needs a list which was cut is null for exactly that reason; the others are as they were."""
    top = path.partition(".")[0]
    needing = {name for name, metric in CATALOGUE.free.items() if path in metric.needs and metric.question is None}
    before, after = reasons(), reasons(**{path: DEFAULT_MAX_ITEMS[path] + 1})
    null = {name for name, reason in after.items() if reason == "list_cut"}
    beside = {"aggregation": {"aggregated_confidence"}, "extractions": {"aggregated_confidence"}}
    beside["retrieval.relevant_ids"] = {"hit_at_10", "recall_at_10", "mrr", "ndcg_at_10"}
    assert needing <= null
    assert beside.get(path, set()) <= null
    assert {name: reason for name, reason in after.items() if name not in null} == {
        name: reason for name, reason in before.items() if name not in null
    }
    if top in ("history", "labels", "expected_tools", "assembly"):
        assert not null


def test_a_list_that_no_metric_declares_is_guarded_too() -> None:
    """A metric that reads a cut list without saying so is null; one that does not come to read it keeps its value."""

    def sly(view: View) -> float:
        return len(view.interaction.spans or ()) if view.interaction.query else 0.5

    catalogue = Catalogue([Metric(sly, "test", "score", "higher", (), "test")])
    spans = [{"kind": "llm"}] * 1_001
    assert catalogue.score(View(decode(event(spans=spans)))).reasons == {"sly": "list_cut"}
    assert catalogue.score(View(decode(event(spans=spans, query="")))).scores == {"sly": 0.5}


def test_other_limits_can_be_set() -> None:
    """The limits are those that the configuration gives, and evaluations and telemetry show what was cut."""
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, max_items={**DEFAULT_MAX_ITEMS, "expected": 1, "spans": 5_000}))
    value = event(expected=["Ada", "Lovelace"], spans=[{"kind": "llm"}] * 5_000)
    outcome = agent.handle([Record("t", 0, 0, None, value, 0)])
    evaluation = orjson.loads(outcome.emissions[0].value or b"")
    assert evaluation["flags"][0] == "cut:expected"
    assert evaluation["reasons"]["token_f1"] == "list_cut"
    assert evaluation["scores"]["tool_call_count"] == 0
    assert outcome.counts["ragweir_repaired_total", "cut:expected"] == 1


def test_a_judge_is_not_asked_about_a_cut_list() -> None:
    """Suites that need a list which was cut ask nothing, and their metrics are null for that reason."""
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE))
    value = event(expected=["Ada"] * 33)
    ((evaluation, _),) = agent.evaluate(Record("t", 0, 0, None, value, 0))
    case, _ = case_of(JudgeRequest(evaluation=evaluation, query="q", response="r", expected=("Ada",)), 1_000)
    every = suites()
    conversation = judge(case, [every["factual"], every["ragas"]], lambda: "word")
    with pytest.raises(StopIteration) as end:
        next(conversation)
    names = {metric.name for name in ("factual", "ragas") for metric in every[name].metrics}
    assert end.value.value.reasons == dict.fromkeys(names, "list_cut")


def test_a_field_called_flags_is_the_producers_own() -> None:
    """Producers cannot set flags: a field of that name is unknown, and stands under `extra` as any other."""
    sent = decode(event(flags=["cut:spans"]))
    assert sent.flags == ()
    assert sent.extra == {"flags": ["cut:spans"]}


def context(text: str | None) -> dict[str, Any]:
    """The dump of a context that has only this text."""
    return Context(text=text).model_dump()


ODD: dict[str, tuple[dict[str, Any], set[str], dict[str, Any]]] = {
    "a kind of span that is unknown": (
        {"spans": [{"kind": "llm"}, {"kind": "AGENT", "name": "a"}]},
        {"unknown_span_kind"},
        {"spans": [("llm", None), ("other", "a")]},
    ),
    "a span without a kind": ({"spans": [{"name": "a"}]}, {"unknown_span_kind"}, {"spans": [("other", "a")]}),
    "a span that is a number": (
        {"spans": [5, {"kind": "llm"}]},
        {"unreadable:spans[]", "unknown_span_kind"},
        {"spans": [("other", None), ("llm", None)]},
    ),
    "tokens below zero": (
        {"usage": {"input_tokens": -1, "output_tokens": 5}},
        {"unreadable:usage.input_tokens"},
        {"usage": {"input_tokens": None, "output_tokens": 5, "cost_usd": None}},
    ),
    "contexts that are texts": (
        {"contexts": ["Ada.", {"text": "Lovelace."}]},
        {"contexts_as_text"},
        {"contexts": [context("Ada."), context("Lovelace.")]},
    ),
    "contexts that are one text": ({"contexts": "Ada."}, {"contexts_as_text"}, {"contexts": [context("Ada.")]}),
    "contexts that are an object": ({"contexts": {"a": "Ada."}}, {"unreadable:contexts"}, {"contexts": None}),
    "a context that is nothing keeps its place": (
        {"contexts": [None, 5, {"text": "third"}]},
        {"unreadable:contexts[]"},
        {"contexts": [context(None), context(None), context("third")]},
    ),
    "a label where a number is expected": (
        {"feedback": {"score": "thumbs_up", "comment": "good"}},
        {"unreadable:feedback.score"},
        {"feedback": {"score": None, "label": None, "comment": "good"}},
    ),
    "feedback that is a number": ({"feedback": 1}, {"unreadable:feedback"}, {"feedback": None}),
    "labels of all kinds": (
        {"labels": {"a": "x", "b": 1, "c": True, "d": [1], "e": None}},
        {"unreadable:labels"},
        {"labels": {"a": "x", "b": "1", "c": "true"}},
    ),
    "labels that are a list": ({"labels": ["eu"]}, {"unreadable:labels"}, {"labels": {}}),
    "answers that are none": (
        {"expected": ["Ada", None, {"a": 1}, 1843]},
        {"unreadable:expected[]"},
        {"expected": ["Ada", "1843"]},
    ),
    "ids that are lists": (
        {"retrieval": {"bm25_limit": 3, "relevant_ids": [[], "c1"]}},
        {"unreadable:retrieval.relevant_ids[]"},
        {"retrieval": {"bm25_limit": 3, "knn_limit": None, "retrieved_before_filter": None, "relevant_ids": ["c1"]}},
    ),
    "a turn without a role": (
        {"history": [{"text": "Hello"}, {"role": "user", "text": "Who?"}]},
        {"unreadable:history[].role"},
        {"history": [{"role": "", "text": "Hello"}, {"role": "user", "text": "Who?"}]},
    ),
    "a first token at no time": ({"first_token_at": "soon"}, {"unreadable:first_token_at"}, {"first_token_at": None}),
    "all at once": (
        {
            "model": {},
            "answerable": "who knows",
            "extractions": [{"confidence": 2, "field": "f"}],
            "spans": [{}] * 1_001,
        },
        {"unreadable:model", "unreadable:answerable", "unreadable:extractions[].confidence", "unknown_span_kind"}
        | {"cut:spans"},
        {"model": None, "answerable": None},
    ),
    "nothing odd": ({"spans": [{"kind": "llm"}], "contexts": [{"text": None}], "ended_at": None}, set(), {}),
    "seconds": ({"ended_at": 1_764_000_000}, set(), {"ended_at": "2025-11-24T16:00:00Z"}),
    "nanoseconds as text": ({"ended_at": "1764000000250000000"}, set(), {"ended_at": "2025-11-24T16:00:00.250000Z"}),
    "milliseconds taken for seconds": (
        {"ended_at": 1_764_000_000 / 1_000},
        {"time_implausible"},
        {"ended_at": "1970-01-21T10:00:00Z"},
    ),
    "a time after 2099": ({"started_at": "2100-01-01T00:00:00Z"}, {"time_implausible"}, {}),
    "the last time before": ({"started_at": "2099-12-31T23:59:59Z", "ended_at": "2000-01-01T00:00:00Z"}, set(), {}),
    "a span before 2000": ({"spans": [{"kind": "llm", "started_at": 0}]}, {"time_implausible"}, {}),
    "a start in seconds, an end in milliseconds": (
        {"ended_at": 1_764_000_000_250, "started_at": 1_764_000_000},
        {"time_units_mixed", "time_implausible"},
        {"ended_at": "2025-11-24T16:00:00.250000Z", "started_at": "1970-01-21T10:00:00Z"},
    ),
    "an end in seconds, a start in milliseconds": (
        {"ended_at": 1_764_000_000, "started_at": 1_764_000_000_250},
        {"time_units_mixed", "unreadable:started_at"},
        {"ended_at": "2025-11-24T16:00:00Z", "started_at": None},
    ),
    "spans in another unit": (
        {"ended_at": None, "spans": [{"kind": "llm", "started_at": 1_764_000_000_250, "ended_at": "1764000001"}]},
        {"time_units_mixed", "time_implausible"},
        {},
    ),
    "text and a number are no mixture": ({"ended_at": "2025-11-24T16:00:00Z", "started_at": 1_764_000_000}, set(), {}),
}
"""Odd events: what is sent, its flags, and what some fields are read as."""


@pytest.mark.parametrize("name", ODD)
def test_an_odd_event_is_repaired_and_flagged(name: str) -> None:
    """What is optional and cannot be read is null or the nearest thing, and the evaluation says which."""
    sent, flags, read = ODD[name]
    value = event(**sent)
    decoded = decode(value)
    plain = orjson.loads(encode(decoded))
    for field, expected in read.items():
        found = [(span["kind"], span["name"]) for span in plain["spans"]] if field == "spans" else plain[field]
        assert found == expected
    assert set(decoded.flags) == flags
    assert list(decoded.flags) == sorted(flags)
    ((evaluation, _),) = EvaluateAgent(EvaluateConfig(CATALOGUE)).evaluate(Record("t", 0, 0, None, value, 0))
    assert evaluation.flags[: len(flags)] == decoded.flags


def test_no_number_since_1970_is_read_differently_by_its_company() -> None:
    """Of a mixture the first time that there is decides, in the order that the documentation names."""
    early, late = 1_764_000_000, 1_764_000_000_250
    first = decode(
        event(ended_at=None, started_at=None, first_token_at=late, spans=[{"kind": "llm", "ended_at": early}])
    )
    assert first.first_token_at == parse_time(late)
    assert (first.spans or ())[0].ended_at == from_epoch(early, "ms")


def filled(before: bytes, item: bytes, after: bytes) -> bytes:
    """A field that repeats the same element until the event is as large as events may be."""
    head = event(query="", response="word " * 20)[:-1] + b"," + before
    return head + b",".join([item] * ((MAX_EVENT_BYTES - len(head) - 10) // (len(item) + 1))) + after + b"}"


EVERY_FIELD = {name: [] for name in Context.model_fields}
COUNTED: dict[str, bytes] = {
    "contexts that are numbers": filled(b'"contexts":[', b"0", b"]"),
    "contexts that are texts": filled(b'"contexts":[', b'""', b"]"),
    "empty contexts": filled(b'"contexts":[', b"{}", b"]"),
    "contexts wrong in every field": filled(b'"contexts":[', orjson.dumps(EVERY_FIELD), b"]"),
    "spans without a kind": filled(b'"spans":[', b"{}", b"]"),
    "spans at mixed times": filled(b'"spans":[', b'{"started_at":1764000000,"ended_at":"1764000000250"}', b"]"),
    "ids that are lists": filled(b'"retrieval":{"relevant_ids":[', b"[]", b"]}"),
    "empty extractions": filled(b'"extractions":[', b"{}", b"]"),
    "values of an aggregation": filled(b'"aggregation":[', b"0", b"]"),
    "reference answers": filled(b'"expected":[', b'"a"', b"]"),
    "turns of a conversation": filled(b'"history":[', b"[]", b"]"),
    "labels": filled(b'"labels":{', b",".join(b'"%05x":{}' % number for number in range(80_000)), b"}"),
    "fields that nobody knows": filled(b"", b",".join(b'"%05x":[]' % number for number in range(80_000)), b""),
    "a field that nobody knows": filled(b'"unknown":[', b"[]", b"]"),
    "a context that is a list": filled(b'"contexts":[{"text":[', b"{}", b"]}]"),
    "a value that is a list": filled(b'"extractions":[{"value":[', b"[]", b"]}]"),
    "a name that is a list": filled(b'"application":[', b"[]", b"]"),
    "a list of a list": filled(b'"contexts":[[', b"0", b"]]"),
}
"""Events of 1 MiB with as many elements as fit."""

_MEASURE = """
import resource, sys, time
import orjson
from ragweir import schemas
from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.runtime.records import (Record)
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

rules = {"event_id": "event_id", "query": "query", "response": "response"}
for name in ("text", "page", "score", "chunk_id", "document_id", "rank", "relevant", "retrieval_method"):
    rules[f"contexts[].{name}"] = "contexts[]"
catalogue = Catalogue(everything(packs.SHIPPED))
agent = EvaluateAgent(EvaluateConfig(catalogue, decoders={"mapped": JsonDecoder(mapping=FieldMap(rules))}))
spent = {}
for number, line in enumerate(open(sys.argv[1], "rb")):
    if number == 1:  # The first event, a small one, loads what is loaded when it is needed.
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for topic in ("own", "mapped"):
        began = time.process_time()
        outcome = agent.handle([Record(topic, 0, number, None, line.rstrip(b"\\n"), 0)])
        spent[f"{number} {topic}"] = time.process_time() - began
        letters = [each.topic for each in outcome.emissions]
        assert letters == ["evaluations"] or topic == "mapped", (number, topic, letters)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
sys.stdout.buffer.write(orjson.dumps({"spent": spent, "kib": peak - before}))
"""


@pytest.mark.heavy
def test_a_hostile_list_is_cheap(tmp_path: Path) -> None:
    """No event of 1 MiB, whatever its lists, takes more than 200 MB and a second to be read and evaluated.

    The time has a margin of four, as the machine may be busy.
    """
    for name, value in COUNTED.items():
        assert len(value) <= MAX_EVENT_BYTES, name
        assert len(value) > MAX_EVENT_BYTES - 200_000, name
    file = tmp_path / "events.jsonl"
    file.write_bytes(b"\n".join([event(), *COUNTED.values()]))
    run = subprocess.run([sys.executable, "-c", _MEASURE, str(file)], capture_output=True, check=False, cwd=tmp_path)
    assert not run.returncode, run.stderr.decode()
    found = orjson.loads(run.stdout)
    assert found["kib"] < 200_000
    assert max(found["spent"].values()) < 4
