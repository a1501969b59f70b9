"""Odd, mistaken and hostile events: no list costs an event, and nothing that was left out passes in silence."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from poison import event

import schemas
from metrics.catalogue import Catalogue, everything
from metrics.judged.driver import judge
from metrics.judged.suites import suites
from metrics.metric import Metric
from metrics.view import View
from schemas.codec import decode, encode
from schemas.intake import MAX_ITEMS
from schemas.judging import JudgeRequest
from streams.agents.agent import Record
from streams.agents.evaluate import EvaluateAgent, EvaluateConfig
from streams.judging.results import case_of

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


CATALOGUE = Catalogue(everything())


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

    assert lists(schema["properties"]) == MAX_ITEMS.keys() == ITEMS.keys()


@pytest.mark.parametrize("path", MAX_ITEMS)
def test_a_list_over_its_limit_is_cut(path: str) -> None:
    """Of a list at its limit all is read; of a longer one the first elements, and the event is flagged."""
    whole = decode(event(**with_items(**{path: MAX_ITEMS[path]})))
    cut = decode(event(**with_items(**{path: MAX_ITEMS[path] + 1})))
    assert whole.flags == ()
    assert cut.flags == (f"cut:{path}",)
    assert encode(cut) == encode(whole)


@pytest.mark.parametrize("path", MAX_ITEMS)
def test_what_reads_a_cut_list_is_null(path: str) -> None:
    """Every metric that needs a list which was cut is null for exactly that reason; the others are as they were."""
    top = path.partition(".")[0]
    needing = {name for name, metric in CATALOGUE.free.items() if path in metric.needs and metric.question is None}
    before, after = reasons(), reasons(**{path: MAX_ITEMS[path] + 1})
    null = {name for name, reason in after.items() if reason == "list_cut"}
    beside = {"aggregation": {"aggregated_confidence"}, "extractions": {"aggregated_confidence"}}
    beside["retrieval.relevant_ids"] = {"hit_at_10", "recall_at_10", "mrr", "ndcg_at_10"}
    assert needing <= null
    assert beside.get(path, set()) <= null
    assert {name: reason for name, reason in after.items() if name not in null} == {
        name: reason for name, reason in before.items() if name not in null
    }
    if top in ("history", "labels"):
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
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, max_items={**MAX_ITEMS, "expected": 1, "spans": 5_000}))
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
    evaluation, _ = agent.evaluate(Record("t", 0, 0, None, value, 0))
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
