"""Recorded exports of OpenInference give the interactions that their applications had."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from ragweir.schemas.interaction import Interaction
from ragweir.streams.traces.dialects.openinference import OpenInference
from ragweir.streams.traces.interactions import Made
from tests.streams.traces.made_up import documents, event, span
from tests.streams.traces.recordings import assembled

_CHUNKS = {
    "d1#0": "Water damage carries an excess of $604 per event. Slow leaks are not covered.",
    "d1#1": "Glass breakage carries an excess of $75. Mirrors count as glass.",
    "d2#0": "A claim must be reported within 14 days of the damage. Photos speed up the decision.",
    "d2#1": "The assessor visits within five working days after the report.",
    "d3#0": "Storm damage to fences is covered up to $1,200. Trees are excluded.",
    "d3#1": "Garden tools are insured against theft when the shed was locked.",
}
_WATER = "What is the excess for water damage?"
_CLAIM = "Within how many days must a claim be reported?"
_FENCES = "Are fences covered against storm damage?"
_TWO = "What is the status of claim C-17 and the excess for water damage?"
_COMPARE = "Please compare the excess for water damage and for glass."
_ANSWERS = {
    _WATER: "Water damage carries an excess of $604 per event.",
    _CLAIM: "A claim must be reported within 14 days of the damage.",
    _FENCES: "Storm damage to fences is covered up to $1,200.",
}
_WATER_ANSWER = _ANSWERS[_WATER]
_WATER_CHUNKS, _LLAMA_CHUNKS = ("d1#0", "d3#0", "d1#1"), ("d1#0", "d1#1", "d3#0")
_CLAIM_CHUNKS, _FENCE_CHUNKS, _TWO_CHUNKS = ("d2#0", "d2#1", "d3#1"), ("d3#0", "d3#1", "d1#0"), ("d1#0", "d2#0", "d2#1")


class _Fact(NamedTuple):
    case: str
    question: str
    chunks: tuple[str, ...] | None
    """Ids of the contexts; None if the trace has no retrieval with texts."""
    tokens: tuple[int, int] | None = None
    answer: str = _WATER_ANSWER
    place: int = 0
    """Place among the interactions of the recording."""


_LANGCHAIN = "langchain-openinference"
_LLAMA = "llamaindex-openinference"
_FACTS = (
    _Fact(f"{_LANGCHAIN}/rag", _WATER, _WATER_CHUNKS, (50, 9)),
    _Fact(f"{_LANGCHAIN}/rag_stream", _WATER, _WATER_CHUNKS, (50, 9), f"{_WATER_ANSWER} "),
    _Fact(f"{_LANGCHAIN}/web", _WATER, _WATER_CHUNKS, (50, 9)),
    _Fact(f"{_LANGCHAIN}/error", f"FAIL: {_WATER}", _LLAMA_CHUNKS, None, ""),
    _Fact(f"{_LANGCHAIN}/agent_tools", _TWO, _TWO_CHUNKS, (76, 10)),
    _Fact(f"{_LANGCHAIN}/agent_tool_error", _TWO.replace("17", "99"), _TWO_CHUNKS, (75, 10)),
    _Fact(f"{_LANGCHAIN}/agent_two_retrievals", _COMPARE, ("d1#0", "d1#1", "d3#1", "d3#0"), (139, 11)),
    _Fact(f"{_LANGCHAIN}/create_agent", _TWO, _TWO_CHUNKS, (82, 10)),
    _Fact(f"{_LANGCHAIN}/multiturn", _WATER, _WATER_CHUNKS, (51, 10)),
    _Fact(f"{_LANGCHAIN}/multiturn", _CLAIM, _CLAIM_CHUNKS, (171, 12), _ANSWERS[_CLAIM], 1),
    _Fact(f"{_LANGCHAIN}/batch_trace", _WATER, _WATER_CHUNKS, (50, 9)),
    _Fact(f"{_LANGCHAIN}/batch_trace", _CLAIM, _CLAIM_CHUNKS, (52, 11), _ANSWERS[_CLAIM], 1),
    _Fact(f"{_LANGCHAIN}/batch_trace", _FENCES, _FENCE_CHUNKS, (49, 9), _ANSWERS[_FENCES], 2),
    _Fact(f"{_LANGCHAIN}/parallel_batch", _WATER, _WATER_CHUNKS, (50, 9)),
    _Fact(f"{_LANGCHAIN}/parallel_batch", _CLAIM, _CLAIM_CHUNKS, (52, 11), _ANSWERS[_CLAIM], 1),
    _Fact(f"{_LLAMA}/rag", _WATER, _LLAMA_CHUNKS, (127, 9)),
    _Fact(f"{_LLAMA}/rag_session", _WATER, _LLAMA_CHUNKS, (127, 9)),
    _Fact(f"{_LLAMA}/rag_stream", _WATER, _LLAMA_CHUNKS, None, f"{_WATER_ANSWER} "),
    _Fact(f"{_LLAMA}/web", _WATER, _LLAMA_CHUNKS, (127, 9)),
    _Fact(f"{_LLAMA}/error", f"FAIL: {_WATER}", _LLAMA_CHUNKS, None, ""),
    _Fact(f"{_LLAMA}/chat_multiturn", _WATER, _LLAMA_CHUNKS, (61, 9)),
    _Fact(f"{_LLAMA}/chat_multiturn", _CLAIM, _CLAIM_CHUNKS, (79, 11), _ANSWERS[_CLAIM], 1),
    _Fact(
        *(f"{_LLAMA}/agent_tools", _TWO, _TWO_CHUNKS, (82, 11)),
        answer="Claim C-17 is approved and will be paid on Friday.",
    ),
    _Fact(f"{_LLAMA}/agent_tool_error", _TWO.replace("17", "99"), _TWO_CHUNKS, (76, 10)),
    _Fact(f"{_LLAMA}/agent_two_retrievals", _COMPARE, ("d1#0", "d1#1", "d3#1"), (147, 11)),
    _Fact("openai-openinference/rag_web", _WATER, None, (50, 9)),
    _Fact("openai-openinference/rag_web_stream", _WATER, None, (50, 9), f"{_WATER_ANSWER} "),
    _Fact("openai-openinference/rag_bare", _WATER, None, (50, 9)),
    _Fact("openai-openinference/multiturn_web", _CLAIM, None, (68, 11), _ANSWERS[_CLAIM], 1),
    _Fact("openai-openinference/error", f"FAIL: {_WATER}", None, None, ""),
)


def _all_made(case: str) -> list[Made]:
    return [made for trace in assembled(case) for made in trace.made]


def _made(case: str, place: int = 0) -> Interaction:
    return _all_made(case)[place].interaction


@pytest.mark.parametrize("fact", _FACTS, ids=lambda fact: f"{fact.case}.{fact.place}")
def test_question_answer_contexts_and_tokens_are_those_of_the_application(fact: _Fact) -> None:
    event = _made(fact.case, fact.place)
    assert (event.query, event.response) == (fact.question, fact.answer)
    if fact.chunks is None:
        assert event.contexts is None
    else:
        assert event.contexts is not None
        assert [each.chunk_id for each in event.contexts] == list(fact.chunks)
        assert [each.text for each in event.contexts] == [_CHUNKS[chunk] for chunk in fact.chunks]
        assert [each.rank for each in event.contexts] == list(range(1, len(fact.chunks) + 1))
    usage = event.usage and (event.usage.input_tokens, event.usage.output_tokens)
    assert usage == fact.tokens


@pytest.mark.parametrize(
    ("case", "count"),
    [
        (f"{_LANGCHAIN}/batch_trace", 3),
        (f"{_LANGCHAIN}/parallel_batch", 2),
        (f"{_LLAMA}/chat_multiturn", 2),
        (f"{_LANGCHAIN}/agent_two_retrievals", 1),
        ("openai-openinference/rag_bare", 1),
    ],
)
def test_there_are_as_many_interactions_as_questions(case: str, count: int) -> None:
    assert len(_all_made(case)) == count


def test_a_full_interaction_has_the_fields_of_its_trace() -> None:
    event = _made(f"{_LANGCHAIN}/rag")
    assert event.event_id == f"{event.trace_id}:{event.span_id}"
    assert event.trace_id
    assert len(event.trace_id) == 32
    assert (event.application, event.environment, event.pipeline_version) == ("support-bot", "prod", "v42")
    assert (event.session_id, event.labels) == ("s-1", {"user": "u-7", "prompt_version": "p3"})
    assert (event.model, event.finish_reason, event.error) == ("fake-1-2026", "stop", None)
    assert event.assembly
    assert (event.assembly.dialect, event.assembly.spans, event.assembly.flags) == (
        *("openinference", 9),
        (),
    )
    assert event.contexts
    assert {each.document_id for each in event.contexts} == {"home-policy", "garden-policy"}
    assert {each.retrieval_method for each in event.contexts} == {"knn"}
    assert event.spans
    assert [each.kind for each in event.spans] == ["retrieval", "llm"]
    assert all(each.input_digest and each.output_digest for each in event.spans)


def test_scores_of_chunks_are_read() -> None:
    contexts = _made(f"{_LLAMA}/rag").contexts
    assert contexts
    assert [each.score for each in contexts] == [
        *(0.4330127018922194, 0.15430334996209194, 0.15430334996209194),
    ]


@pytest.mark.parametrize(
    ("case", "models", "tools"),
    [
        (f"{_LLAMA}/rag", 1, []),
        (f"{_LLAMA}/agent_two_retrievals", 3, ["search_docs", "search_docs"]),
        (f"{_LANGCHAIN}/agent_tools", 2, ["search_docs", "claim_status"]),
        ("openai-agents-openinference/agent_tools", 2, ["search_docs", "claim_status"]),
    ],
)
def test_each_call_is_counted_once(case: str, models: int, tools: list[str]) -> None:
    spans = _made(case).spans
    assert spans is not None
    assert sum(each.kind == "llm" for each in spans) == models
    assert [each.name for each in spans if each.kind == "tool"] == tools
    ids = [each.id for each in spans]
    assert len(set(ids)) == len(ids)
    assert {each.parent_id for each in spans if each.parent_id} <= set(ids)


@pytest.mark.parametrize("folder", [_LANGCHAIN, _LLAMA, "openai-agents-openinference"])
def test_an_error_of_a_tool_is_that_of_its_span_alone(folder: str) -> None:
    event = _made(f"{folder}/agent_tool_error")
    assert event.error is None
    failed = [each.name for each in event.spans or () if each.error]
    assert failed == ["claim_status"]


@pytest.mark.parametrize("folder", [_LANGCHAIN, _LLAMA, "dspy-openinference", "openai-agents-openinference"])
def test_a_failed_request_has_its_error_and_an_empty_answer(folder: str) -> None:
    made = _all_made(f"{folder}/error")[0]
    assert made.interaction.response == ""
    assert "refuses this request" in (made.interaction.error or "")
    assert "no_answer" in made.gaps


@pytest.mark.parametrize("case", ["rag", "rag_stream", "agent_tools", "create_agent", "multiturn", "error"])
def test_hidden_content_is_absent_while_latency_tokens_models_and_tools_remain(case: str) -> None:
    hidden = _all_made(f"langchain-openinference-nocontent/{case}")[0]
    shown = _all_made(f"{_LANGCHAIN}/{case}")[0].interaction
    event = hidden.interaction
    assert (event.query, event.response, event.contexts, event.history) == (None, None, None, None)
    assert "redacted" in hidden.gaps
    assert event.model == shown.model
    assert [(each.kind, each.name) for each in event.spans or ()] == [
        *((each.kind, each.name) for each in shown.spans or ()),
    ] or case == "create_agent"  # Its tools run at once.
    assert event.usage == shown.usage
    assert event.started_at
    assert event.ended_at
    assert event.ended_at > event.started_at


def test_the_first_token_is_that_of_the_answer() -> None:
    event = _made(f"{_LLAMA}/rag_stream")
    assert event.started_at
    assert event.first_token_at
    assert event.ended_at
    assert event.started_at < event.first_token_at < event.ended_at


@pytest.mark.parametrize(
    "case", [f"{_LANGCHAIN}/multiturn", f"{_LLAMA}/chat_multiturn", "openai-openinference/multiturn_web"]
)
def test_earlier_turns_are_the_history(case: str) -> None:
    first, second = _made(case), _made(case, 1)
    assert first.history is None
    assert second.history is not None
    assert [(each.role, each.text) for each in second.history] == [("user", _WATER), ("assistant", _WATER_ANSWER)]


def test_variables_of_the_prompt_and_results_of_tools_are_contexts_where_that_is_all() -> None:
    dspy = _made("dspy-openinference/rag").contexts
    assert dspy
    assert [each.text.split("\n") for each in dspy] == [[_CHUNKS[chunk] for chunk in _WATER_CHUNKS]]
    agents = _made("openai-agents-openinference/agent_tools").contexts
    assert agents
    assert [each.text.split("\n")[0] for each in agents] == [
        *(_CHUNKS["d1#0"], "Claim C-17 is approved and will be paid on Friday."),
    ]


def test_results_of_tools_among_the_messages_are_contexts_where_no_tool_has_a_span() -> None:
    event = _made("openai-openinference/agent_web")
    assert event.query == _TWO.replace("17", "99")
    assert event.contexts
    assert [each.text.split("\n") for each in event.contexts] == [
        [_CHUNKS[chunk] for chunk in _TWO_CHUNKS],
        ["error: no such claim: C-99"],
    ]


def test_a_failed_tool_gives_no_context() -> None:
    contexts = _made("openai-agents-openinference/agent_tool_error").contexts
    assert contexts
    assert [each.text.split("\n")[0] for each in contexts] == [_CHUNKS["d1#0"]]


def test_contexts_are_null_where_the_sdk_left_out_attributes() -> None:
    made = _all_made("limits/docs70")[0]
    assert made.interaction.contexts is None
    assert made.interaction.assembly
    assert made.interaction.assembly.flags == ("attributes_cut",)
    assert "attributes_cut" in made.gaps
    assert "content_off" not in made.gaps


def test_embeddings_alone_are_no_interaction() -> None:
    gaps = [trace.gaps for trace in assembled("openai-openinference/rag_bare")]
    assert gaps == [("no_genai",), ()]


# Attributes that no recording has.


def _step(kind: str, attributes: dict[str, Any], **fields: Any) -> Any:
    dialect = OpenInference()
    made = span("name", None, kind, attributes=attributes, **fields)
    assert dialect.reads(made)
    return dialect.step(made, ())


def test_a_rerank_has_its_input_and_output() -> None:
    step = _step(
        "RERANKER",
        {
            "reranker.query": "Who?",
            "reranker.model_name": "rank-1",
            **documents({"1": "a", "2": "b"}, "reranker.input_documents"),
            **documents({"2": "b"}, "reranker.output_documents"),
            "reranker.output_documents.0.document.score": 0.9,
        },
    )
    assert (step.kind, step.input, step.model) == ("rerank", "Who?", "rank-1")
    assert [(each.chunk_id, each.score) for each in step.documents] == [("2", 0.9)]
    assert [each.chunk_id for each in step.reranked] == ["1", "2"]


def test_messages_of_several_parts_are_joined() -> None:
    step = _step(
        "LLM",
        {
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.contents.0.message_content.text": "Who?",
            "llm.input_messages.0.message.contents.1.message_content.type": "image",
            "llm.input_messages.0.message.contents.2.message_content.text": "When?",
        },
    )
    assert [each.text for each in step.input_messages] == ["Who?\nWhen?"]


def test_messages_are_in_the_order_of_their_numbers() -> None:
    attributes = {f"llm.input_messages.{number}.message.content": str(number) for number in (10, 2, 1, 0)}
    attributes |= {f"llm.input_messages.{number}.message.role": "user" for number in (10, 2, 1, 0)}
    assert [each.text for each in _step("LLM", attributes).input_messages] == ["0", "1", "2", "10"]


@pytest.mark.parametrize(
    ("attributes", "cost"),
    [
        ({"llm.cost.total": 0.5}, 0.5),
        ({"llm.cost.prompt": 0.25, "llm.cost.completion": "0.5"}, 0.75),
        ({"llm.cost.total": -1}, None),
        ({"llm.cost.total": float("nan")}, None),
    ],
)
def test_cost_is_the_total_or_the_sum_of_its_parts(attributes: dict[str, Any], cost: float | None) -> None:
    assert _step("LLM", attributes).cost_usd == cost


def test_session_user_and_prompt_version_are_attributes_or_metadata() -> None:
    step = _step("LLM", {"session.id": "s", "user.id": "u", "llm.prompt_template.version": "v"})
    assert (step.session_id, step.user_id, step.prompt_version) == ("s", "u", "v")
    step = _step("CHAIN", {"metadata": '{"thread_id": 7, "user_id": "u", "prompt_version": "v"}'})
    assert (step.session_id, step.user_id, step.prompt_version) == ("7", "u", "v")


def test_the_first_token_is_an_event() -> None:
    step = _step("LLM", {}, events=(event("First Token Stream Event", 0.5),))
    assert step.first_token_ns
    assert step.first_token_ns % 1_000_000_000 == 500_000_000


@pytest.mark.parametrize(
    ("output", "result", "error"),
    [
        ("sunny", "sunny", None),
        ('{"type": "tool", "data": {"content": "sunny"}}', "sunny", None),
        ('{"type": "tool", "data": {"content": "broken", "status": "error"}}', "broken", "broken"),
        ('{"blocks": [{"text": "sunny"}], "is_error": false}', "sunny", None),
        ('{"blocks": [{"text": "broken"}], "is_error": true}', "broken", "broken"),
        ('{"degrees": 20}', '{"degrees": 20}', None),
        ("__REDACTED__", None, None),
    ],
)
def test_the_result_of_a_tool_is_its_text(output: str, result: str | None, error: str | None) -> None:
    step = _step("TOOL", {"tool.name": "weather", "input.value": '{"city": "Rome"}', "output.value": output})
    assert (step.name, step.input, step.output, step.error) == ("weather", '{"city": "Rome"}', result, error)


@pytest.mark.parametrize(
    ("value", "question"),
    [
        ("Who?", "Who?"),
        ('{"data": {"prompt_builder": {"question": "Who?"}, "retriever": {"top_k": 3}}}', "Who?"),  # Haystack
        ('{"question": "Who?"}', "Who?"),  # DSPy
        ('{"input": "Who?", "chat_history": [["human", "a"], ["ai", "b"]]}', "Who?"),  # LangChain
        ('{"query_bundle": {"query_str": "Who?", "embedding": null}}', "Who?"),  # LlamaIndex
        ('{"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "Who?"}]}', "Who?"),
        (
            '[{"content": "s", "role": "system"}, {"role": "user", "content": [{"type": "text", "text": "Who?"}]}]',
            "Who?",
        ),
        ('{"k": {"k": {"k": {"k": {"k": {"question": "Who?"}}}}}}', None),
        ('{"state": {"steps": 3}}', None),
        ("{cut of", "{cut of"),
        ("__REDACTED__", None),
        (7, "7"),
    ],
)
def test_the_question_of_a_chain_is_found_in_its_input(value: object, question: str | None) -> None:
    assert _step("CHAIN", {"input.value": value}).input == question


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ('{"llm": {"replies": ["Ada."], "meta": [{"model": "m"}]}}', "Ada."),  # Haystack
        ('{"answer_builder": {"answers": [{"data": "Ada."}]}, "llm": {"replies": ["Ada."]}}', "Ada."),
        ('{"reasoning": "So.", "answer": "Ada."}', "Ada."),  # DSPy
        ('{"input": "Who?", "chat_history": [["human", "a"], ["ai", "b"]], "answer": "Ada."}', "Ada."),  # LangChain
        ('{"question": "Who?", "documents": ["a"], "generation": "Ada."}', "Ada."),  # LangGraph
        ('{"llm": {"replies": [{"_role": "assistant", "_content": [{"text": "Ada."}]}]}}', "Ada."),  # Haystack
        ('{"llm": {"replies": ["ChatMessage(_role=<ChatRole.ASSISTANT>, _content=[])"]}}', None),
        (
            '{"messages": [{"type": "ai", "data": {"content": "Ada."}}, {"type": "tool", "data": {"content": "t"}}]}',
            "Ada.",
        ),
        ('{"response_gen": "<generator object>", "source_nodes": []}', None),
        ("StopEvent(result=AgentOutput(response=...", None),
        ("<b>Ada</b>", "<b>Ada</b>"),
    ],
)
def test_the_answer_of_a_chain_is_found_in_its_output(value: str, answer: str | None) -> None:
    assert _step("CHAIN", {"output.value": value}).output == answer


def test_ids_of_documents_may_stand_in_the_output_alone() -> None:
    attributes = {"retrieval.documents.0.document.content": "a", "output.value": '{"documents": [{"id": "7"}]}'}
    assert [each.chunk_id for each in _step("RETRIEVER", attributes).documents] == ["7"]


def test_a_retriever_that_found_nothing_has_no_documents_rather_than_unknown_ones() -> None:
    assert _step("RETRIEVER", {"output.value": '{"documents": []}'}).documents == ()
    assert _step("RETRIEVER", {"output.value": "[]"}).documents == ()
    assert _step("RETRIEVER", {}).documents is None


def test_a_gap_in_the_numbers_of_documents_is_a_cut() -> None:
    assert _step("RETRIEVER", documents({"1": "a"})).is_cut is False
    assert _step("RETRIEVER", {"retrieval.documents.3.document.content": "a"}).is_cut is True


@pytest.mark.parametrize("name", ["BM25Retriever", "EnsembleRetriever", "VectorIndexRetriever", "MyRetriever"])
def test_the_method_of_a_retrieval_follows_from_its_name(name: str) -> None:
    known = {"BM25Retriever": "bm25", "EnsembleRetriever": "hybrid", "VectorIndexRetriever": "knn"}
    step = OpenInference().step(span(name, None, "RETRIEVER", attributes=documents({"1": "a"})), ())
    assert step.documents is not None
    assert [each.retrieval_method for each in step.documents] == [known.get(name)]
