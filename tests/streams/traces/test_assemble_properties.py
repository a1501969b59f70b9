"""The result of assembly is a function of the set of spans, and nothing that a trace holds breaks it."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.schemas.codec.json import decode, encode
from ragweir.streams.traces.advice import ADVICE
from ragweir.streams.traces.dialects import DIALECTS
from ragweir.streams.traces.gaps import Fate, Gap
from ragweir.streams.traces.interactions import Assembled, assemble
from ragweir.streams.traces.span import SpanEvent, TraceLog, TraceSpan
from tests.streams.traces.made_up import BEGINNING, QUESTION, TRACE, chain, llm, retrieval, span
from tests.streams.traces.recordings import OTLP, recorded

_KEYS = (
    *("openinference.span.kind", "input.value", "output.value", "input.mime_type", "metadata", "session.id", "user.id"),
    *("llm.model_name", "llm.token_count.prompt", "llm.cost.total", "llm.finish_reason", "llm.invocation_parameters"),
    *("llm.input_messages.0.message.role", "llm.input_messages.0.message.content", "llm.input_messages", "tool.name"),
    *("llm.input_messages.1.message.contents.0.message_content.text", "llm.output_messages.0.message.content"),
    *("llm.output_messages.0.message.role", "retrieval.documents.0.document.content", "retrieval.documents.0"),
    *("retrieval.documents.0.document.id", "retrieval.documents.1.document.score", "retrieval.documents.9.document.id"),
    *(
        "retrieval.documents.0.document.metadata",
        "retrieval.documents.99999999999.document.id",
        "retrieval.documents.x.y",
    ),
    *("reranker.output_documents.0.document.id", "reranker.input_documents.0.document.id", "reranker.query"),
    *("llm.prompt_template.variables", "llm.prompt_template.version", "embedding.embeddings.0.embedding.text"),
    *("gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents"),
    *(
        "gen_ai.usage.input_tokens",
        "gen_ai.tool.call.result",
        "gen_ai.response.finish_reasons",
        "gen_ai.prompt.0.content",
    ),
    *("traceloop.span.kind", "traceloop.entity.input", "traceloop.entity.output", "traceloop.entity.name"),
    *("logfire.span_type", "pydantic_ai.all_messages", "error.type"),
)
_KINDS = ("LLM", "CHAIN", "AGENT", "TOOL", "RETRIEVER", "RERANKER", "EMBEDDING", "GUARDRAIL", "PROMPT", "?")
_TEXTS = (
    *("", " ", "__REDACTED__", "Who?", "chat", "retrieval", "execute_tool", "workflow", "user", "assistant", "\ud800"),
    *(
        '{"question": "Who?"}',
        '{"messages": [["user", "Who?"], ["ai"]]}',
        '{"messages": [{"role": 7, "content": [[]]}]}',
    ),
    *('[{"role": "user", "parts": [{"type": "text", "content": 7}]}]', '{"documents": [1, {"id": {}}]}', "{", "[[[["),
    *('[{"role": "user", "content": [{"type": "tool_result", "content": [null, {}]}, null]}]', '{"contents": [{}]}'),
    *('{"contents": [{"parts": [{"functionResponse": 7}, {"text": null}]}]}', '{"output": {"message": null}}'),
    *("[" * 3_000, '{"a":' * 3_000 + "1" + "}" * 3_000, "\0", "NaN", "1e999", "-1", "pending_span", "9" * 500),
)
_scalars = st.one_of(
    *(st.sampled_from(_TEXTS), st.text(max_size=5), st.none(), st.booleans(), st.integers(), st.floats()),
    st.binary(max_size=3),
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["role", "content", "text", "parts", "type", "data", "question", "answer"]), inner
        )
    ),
    max_leaves=6,
)
_attributes = st.dictionaries(st.sampled_from(_KEYS), _values, max_size=6).flatmap(
    lambda known: (
        st.sampled_from(_KINDS).map(lambda kind: {**known, "openinference.span.kind": kind})
        if len(known) % 2
        else st.just(known)
    )
)
_ids = st.integers(0, 7).map(lambda number: f"{number:016x}")
_times = st.one_of(st.integers(BEGINNING, BEGINNING + 5), st.sampled_from([0, -1, 2**64 - 1, 2**63, -(10**30), 10**40]))
_events = st.builds(SpanEvent, st.sampled_from(["exception", "First Token Stream Event", ""]), _times, _attributes)
_spans = st.builds(
    TraceSpan,
    trace_id=st.just(TRACE),
    span_id=_ids,
    parent_id=st.none() | _ids,
    remote_parent=st.booleans(),
    name=st.sampled_from(["a", "BM25", "", "x" * 300]),
    kind=st.integers(0, 5),
    started_ns=_times,
    ended_ns=_times,
    attributes=_attributes,
    resource=st.dictionaries(st.sampled_from(["service.name", "deployment.environment"]), _values, max_size=2),
    scope=st.sampled_from(["", "openinference.instrumentation.llama_index", "pydantic-ai"]),
    scope_version=st.just(""),
    events=st.lists(_events, max_size=2).map(tuple),
    error=st.none() | st.sampled_from(["", "broken"]),
    dropped_attributes=st.integers(0, 1),
)
_logs = st.builds(
    TraceLog,
    trace_id=st.just(TRACE),
    span_id=_ids,
    time_ns=_times,
    event_name=st.sampled_from(
        ["gen_ai.user.message", "gen_ai.choice", "gen_ai.client.inference.operation.details", ""]
    ),
    body=_values,
    attributes=_attributes,
    resource=st.just({}),
    scope=st.just(""),
)


@pytest.mark.heavy
@given(st.lists(_spans, max_size=8), st.lists(_logs, max_size=3), st.randoms(use_true_random=False))
def test_hostile_spans_give_an_interaction_that_can_be_sent_or_none(
    spans: list[TraceSpan], logs: list[TraceLog], chance: random.Random
) -> None:
    found = assemble(spans, logs, max_interactions=3)
    for made in found.made:
        sent = encode(made.interaction)
        assert encode(decode(sent)) == sent
    assert bool(found.made) != bool(found.gaps)
    assert set(found.fates) == {each.span_id for each in spans}
    assert set(found.fates.values()) <= set(get_args(Fate))
    chance.shuffle(spans)
    chance.shuffle(logs)
    assert assemble([*spans, *spans], [*logs, *logs], max_interactions=3) == found


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", sorted(f"{path.parent.name}/{path.name.split('.')[0]}" for path in OTLP.glob("*/*.pb"))
)
def test_recorded_traces_give_the_same_in_any_order_and_with_repetitions(case: str) -> None:
    chance = random.Random(case)
    for spans in recorded(case):
        expected = assemble(spans)
        for _ in range(3):
            shuffled = [*spans, *chance.choices(spans, k=3)]
            chance.shuffle(shuffled)
            assert assemble(shuffled) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", sorted(f"{path.parent.name}/{path.name.split('.')[0]}" for path in OTLP.glob("*/*.pb"))
)
def test_any_part_of_a_recorded_trace_gives_a_result(case: str) -> None:
    chance = random.Random(case)
    for spans in recorded(case):
        for _ in range(5):
            part = chance.sample(spans, k=chance.randrange(1, len(spans) + 1))
            found = assemble(part)
            assert bool(found.made) != bool(found.gaps)
            for made in found.made:
                encode(made.interaction)


def _many(make: Callable[[int], TraceSpan]) -> Assembled:
    return assemble([dataclasses.replace(make(number), span_id=f"{number + 1:016x}") for number in range(10_000)])


def _parent(number: int) -> str:
    return f"{number:016x}"


@pytest.mark.heavy
@pytest.mark.parametrize("make", [chain, llm, span, lambda name: retrieval(name, {"1": "a"})])
def test_a_chain_of_10_000_parents_is_one_interaction_or_none(make: Callable[[str], TraceSpan]) -> None:
    found = _many(lambda number: dataclasses.replace(make("a"), parent_id=_parent(number) if number else None))
    assert len(found.made) == (make("a").attributes != {})


@pytest.mark.heavy
def test_a_cycle_of_10_000_parents_is_one_interaction() -> None:
    assert (
        len(_many(lambda number: dataclasses.replace(llm("a"), parent_id=_parent((number + 1) % 10_000 + 1))).made) == 1
    )


@pytest.mark.heavy
def test_10_000_spans_that_are_their_own_parents_are_ambiguous() -> None:
    assert _many(lambda number: dataclasses.replace(llm("a"), parent_id=_parent(number + 1))).gaps == ("no_root",)


def test_attributes_nested_10_000_deep_are_read_as_none() -> None:
    deep: Any = "a"
    for _ in range(10_000):
        deep = {"messages": [deep]}
    for key in ("input.value", "llm.input_messages.0.message.content", "metadata", "gen_ai.input.messages"):
        made = assemble([span("a", kind="LLM", attributes={key: deep})]).made
        assert [each.interaction.query for each in made] == [None]


@pytest.mark.slow
def test_the_lists_are_bounded_one_above_what_intake_keeps() -> None:
    texts = {str(number): f"text {number}" for number in range(1_500)}
    calls = [dataclasses.replace(llm("a", "rag"), span_id=f"{number:016x}") for number in range(1, 1_500)]
    (made,) = assemble([chain("rag"), retrieval("find", texts, "rag"), *calls]).made
    assert len(made.interaction.contexts or ()) == 1_001
    assert len(made.interaction.spans or ()) == 1_001
    assert decode(encode(made.interaction)).flags == ("cut:contexts", "cut:spans")


def test_a_long_text_is_kept_as_it_is() -> None:
    text = "a" * 1_000_000
    (made,) = assemble([span("a", kind="CHAIN", attributes={"input.value": QUESTION, "output.value": text})]).made
    assert made.interaction.response == text


def test_each_gap_has_its_advice_with_a_line_to_change() -> None:
    assert set(ADVICE) == set(get_args(Gap))
    assert all("`" in advice and advice.endswith(".") for advice in ADVICE.values())


def test_the_dialects_are_tried_in_their_order() -> None:
    assert [dialect.name for dialect in DIALECTS] == ["gen_ai", "openinference", "traceloop"]
