"""Spans of Traceloop's conventions (OpenLLMetry) in their versions.

All fixtures are made by hand from https://github.com/traceloop/openllmetry (semantic conventions, the instrumentations
that are named beside them) and https://www.traceloop.com/docs; `test_recordings.py` has recorded ones.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from spans_by_hand import hostile, log, parses, span

from ragweir.schemas.interaction import Message
from ragweir.streams.traces.dialects.gen_ai import GenAi
from ragweir.streams.traces.dialects.traceloop import Traceloop
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.step import Step

_QUESTION = "Who wrote it?"
_ANSWER = "Ada wrote it."
_ASKED = Message(role="user", text=_QUESTION)
_SAID = Message(role="assistant", text=_ANSWER)
_WORKFLOW = {"traceloop.span.kind": "workflow", "traceloop.entity.name": "rag"}
_TASK = {"traceloop.span.kind": "task"}


def _step(attributes: dict[str, Any], **fields: Any) -> Step:
    found = span(attributes, **fields)
    assert Traceloop().reads(found)
    assert not GenAi().reads(found)
    return Traceloop().step(found, ())


def _texts(step: Step) -> list[tuple[str | None, str]]:
    return [(found.chunk_id, found.text) for found in step.documents or ()]


def _serialized(name: str, content: str) -> dict[str, Any]:
    """Return a message as LangChain's `dumpd` writes it."""
    path = ["langchain", "schema", "messages", name]
    kind = name.removesuffix("Message").lower()
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content, "type": kind}}


@pytest.mark.parametrize(
    ("given_input", "result"),
    [
        ({"inputs": _QUESTION, "tags": [], "metadata": {}, "kwargs": {"name": "rag"}}, {"outputs": _ANSWER}),
        ({"args": [_QUESTION], "kwargs": {}}, _ANSWER),  # The decorator @workflow.
        ({"args": [], "kwargs": {"question": _QUESTION}}, {"answer": _ANSWER}),
        ({"inputs": {"question": _QUESTION, "k": 3}}, {"outputs": {"answer": _ANSWER, "context": ["chunk"]}}),
        ({"inputs": {"messages": [["user", _QUESTION]]}}, {"outputs": {"messages": [["ai", _ANSWER]]}}),
        ({"inputs": [_serialized("HumanMessage", _QUESTION)]}, {"outputs": _serialized("AIMessage", _ANSWER)}),
        ({"llm": {"messages": [{"role": "user", "content": _QUESTION}]}}, {"llm": {"replies": [_ANSWER]}}),  # Haystack.
    ],
)
def test_question_and_answer_of_a_workflow(given_input: Any, result: Any) -> None:
    step = _step(
        _WORKFLOW | {"traceloop.entity.input": json.dumps(given_input), "traceloop.entity.output": json.dumps(result)}
    )
    assert (step.kind, step.name) == ("chain", "rag")
    assert (step.input, step.output) == (_QUESTION, _ANSWER)


def test_the_answer_of_an_agent_is_the_last_one_of_its_thread() -> None:
    """An agent's output is the whole thread, from the first turn of the conversation."""
    thread = [
        _serialized("HumanMessage", "Hello"),
        _serialized("AIMessage", "Hi"),
        _serialized("HumanMessage", _QUESTION),
        _serialized("AIMessage", ""),
        _serialized("ToolMessage", "chunks"),
        _serialized("AIMessage", _ANSWER),
    ]
    step = _step(_WORKFLOW | {"traceloop.entity.output": json.dumps({"outputs": {"messages": thread}})})
    assert [message.text for message in step.input_messages or ()] == ["Hello", "Hi", _QUESTION]
    assert [message.role for message in step.output_messages or ()] == ["tool", "assistant"]
    assert step.output == _ANSWER


def test_an_agent_without_an_answer_does_not_have_that_of_an_earlier_turn() -> None:
    thread = [["user", "Hello"], ["ai", "Hi"], ["user", _QUESTION]]
    step = _step(_WORKFLOW | {"traceloop.entity.output": json.dumps({"outputs": {"messages": thread}})})
    assert step.output is None


@pytest.mark.parametrize(
    ("name", "kind", "output"),
    [
        (  # LangChain's retriever.
            "VectorStoreRetriever", "retrieval",
            {"documents": [{"page_content": "a", "metadata": {"chunk_id": "1"}}, {"page_content": "b", "id": "2"}]},
        ),
        (  # LangChain's, serialised.
            "retriever", "retrieval",
            {"outputs": [{"lc": 1, "id": ["Document"], "kwargs": {"page_content": "a", "metadata": {"chunk_id": "1"}}},
                         {"lc": 1, "id": ["Document"], "kwargs": {"page_content": "b", "id": "2"}}]},
        ),
        (  # LlamaIndex: nodes with scores.
            "VectorIndexRetriever", "retrieval",
            [{"node": {"id_": "1", "text": "a"}, "score": 0.5}, {"node": {"node_id": "2", "text": "b"}, "score": 0.4}],
        ),
        (  # Haystack.
            "InMemoryBM25Retriever", "retrieval",
            {"documents": [{"id": "1", "content": "a", "score": 2.0}, {"id": "2", "content": "b", "meta": {}}]},
        ),
        (  # A reranker keeps some.
            "LLMRerank", "rerank", {"documents": [{"id": "1", "content": "a"}, {"id": "2", "content": "b"}]},
        ),
    ],
)  # fmt: skip
def test_the_documents_of_a_task_that_retrieves(name: str, kind: str, output: Any) -> None:
    step = _step(_TASK | {"traceloop.entity.name": name, "traceloop.entity.output": json.dumps(output)})
    assert step.kind == kind
    assert _texts(step) == [("1", "a"), ("2", "b")]


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("format_docs", {"documents": [{"id": "1", "content": "a"}]}),  # It passes them on.
        ("retriever", {"outputs": "a text"}),
        ("retriever", {"outputs": [1, 2]}),
    ],
)
def test_a_task_that_retrieves_nothing_is_a_step_of_the_chain(name: str, output: Any) -> None:
    step = _step(_TASK | {"traceloop.entity.name": name, "traceloop.entity.output": json.dumps(output)})
    assert (step.kind, step.documents) == ("chain", None)


def test_a_search_in_a_vector_database_has_its_documents_as_events() -> None:
    """Instrumentation of Chroma: one event `db.query.result` for each document."""
    step = _step(
        {"db.system": "chroma", "db.chroma.query.n_results": 2},
        name="chroma.query",
        events=(
            ("db.query.embeddings", {"db.query.embeddings.vector": "[0.1]"}),
            ("db.query.result", {
                "db.query.result.id": "1", "db.query.result.document": "a", "db.query.result.distance": 0.2,
                "db.query.result.metadata": '{"source": "s"}',
            }),
            ("db.query.result", {"db.query.result.id": "2", "db.query.result.metadata": '{"text": "b"}'}),  # Pinecone.
        ),
    )  # fmt: skip
    assert step.kind == "retrieval"
    assert _texts(step) == [("1", "a"), ("2", "b")]
    assert step.documents is not None
    assert step.documents[0].document_id == "s"
    assert step.documents[0].score is None  # A distance is no score: the least is the best.


def test_a_model_call_in_the_earlier_names() -> None:
    """`gen_ai.prompt.N`, `llm.request.type` and `llm.usage`, as before version 0.50."""
    step = _step({
        "llm.request.type": "chat",
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4",
        "gen_ai.response.model": "gpt-4-0613",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": json.dumps([{"type": "text", "text": _QUESTION}]),
        "gen_ai.prompt.2.role": "assistant",
        "gen_ai.prompt.2.tool_calls.0.name": "search",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": _ANSWER,
        "gen_ai.completion.0.finish_reason": "stop",
        "llm.usage.prompt_tokens": 12,
        "llm.usage.completion_tokens": 5,
        "llm.response.finish_reason": "stop",
    })  # fmt: skip
    assert (step.kind, step.model, step.finish_reason) == ("llm", "gpt-4-0613", "stop")
    assert step.input_messages == (Message(role="system", text="Be brief."), _ASKED)
    assert step.output_messages == (_SAID,)
    assert (step.input_tokens, step.output_tokens) == (12, 5)


@pytest.mark.parametrize(
    ("operation", "kind"), [("embedding", "embedding"), ("rerank", "rerank"), ("completion", "llm")]
)
def test_the_kind_of_a_request(operation: str, kind: str) -> None:
    assert _step({"llm.request.type": operation}).kind == kind


def test_a_tool_has_its_arguments_and_result_without_what_stands_beside_them() -> None:
    result = {"lc": 1, "id": ["langchain", "schema", "messages", "ToolMessage"], "kwargs": {"content": "found"}}
    step = _step({
        "traceloop.span.kind": "tool",
        "traceloop.entity.name": "search",
        "traceloop.entity.input": json.dumps({"input_str": "{'q': 'a'}", "inputs": {"q": "a"}, "metadata": {"x": 1}}),
        "traceloop.entity.output": json.dumps({"output": result, "kwargs": {"color": "green"}}),
    })  # fmt: skip
    assert (step.kind, step.name, step.input, step.output) == ("tool", "search", '{"q":"a"}', "found")
    assert step.output_messages is None  # A tool says nothing to the user.
    plain = _step({"traceloop.span.kind": "tool", "traceloop.entity.output": json.dumps({"status": "paid"})})
    assert plain.output == '{"status":"paid"}'


def test_properties_of_the_association() -> None:
    """`Traceloop.set_association_properties`, with what LangChain's metadata adds."""
    step = _step({
        **_WORKFLOW,
        "traceloop.association.properties.session_id": "s-1",
        "traceloop.association.properties.user_id": "u-7",
        "traceloop.association.properties.prompt_version": "p3",
        "traceloop.association.properties.plan": "gold",
        "traceloop.association.properties.langgraph_step": 3,
        "traceloop.association.properties.ls_provider": "openai",
    })  # fmt: skip
    assert (step.session_id, step.user_id, step.prompt_version) == ("s-1", "u-7", "p3")
    assert step.metadata == {"plan": "gold"}
    assert _step(_WORKFLOW | {"traceloop.prompt.version": 4}).prompt_version == "4"


def test_the_variables_of_a_prompt() -> None:
    variables = {"context": "chunks", "question": _QUESTION}
    template = {"inputs": variables, "tags": [], "metadata": {}, "kwargs": {"run_type": "prompt"}}
    assert _step(_TASK | {"traceloop.entity.input": json.dumps(template)}).prompt_variables == variables
    managed = _step(_TASK | {"traceloop.prompt.template_variables": json.dumps(variables)})
    assert managed.prompt_variables == variables
    other = {"inputs": variables, "kwargs": {"run_type": None}}
    assert _step(_TASK | {"traceloop.entity.input": json.dumps(other)}).prompt_variables == {}


@pytest.mark.parametrize(
    ("attributes", "is_read"),
    [
        ({"traceloop.workflow.name": "rag", "http.method": "POST"}, False),  # Copied to all spans below a workflow.
        ({"traceloop.workflow.name": "rag", "gen_ai.system": "openai"}, True),
        ({"traceloop.entity.input": "{}"}, True),
        ({"traceloop.span.kind": "task", "openinference.span.kind": "CHAIN"}, False),
        ({"db.system": "postgresql"}, False),
        ({"db.system": "chroma", "db.chroma.add.ids_count": 3}, False),  # It writes.
    ],
)
def test_the_spans_of_this_convention(attributes: dict[str, Any], is_read: bool) -> None:
    assert Traceloop().reads(span(attributes)) is is_read


def test_content_that_was_not_captured_is_none() -> None:
    """`TRACELOOP_TRACE_CONTENT=false` leaves out inputs and outputs."""
    step = _step(_WORKFLOW)
    assert (step.input, step.output, step.input_messages, step.output_messages) == (None, None, None, None)


def test_documents_that_the_sdk_cut_at_a_length_are_none_and_flagged() -> None:
    step = _step({
        "gen_ai.operation.name": "vector_db_retrieve",
        "traceloop.span.kind": "task",
        "traceloop.entity.output": '{"documents": [{"page_content": "a"}, {"page_con',
    })  # fmt: skip
    assert (step.kind, step.documents, step.is_cut) == ("retrieval", None, True)


def test_a_haystack_pipeline_gives_a_full_interaction() -> None:
    """The tree of opentelemetry-instrumentation-haystack: a workflow, and a task for each component."""
    documents = {"documents": [{"id": "1", "content": "Ada wrote it in 1843.", "score": 0.5}]}
    made = assemble([
        span(
            {**_WORKFLOW, "traceloop.entity.input": json.dumps({"args": [{"retriever": {"query": _QUESTION}}]}),
             "traceloop.entity.output": json.dumps({"llm": {"replies": [_ANSWER]}})},
            name="haystack_pipeline.workflow", id="a" * 16,
        ),
        span(
            {**_TASK, "traceloop.entity.name": "retriever", "traceloop.entity.output": json.dumps(documents)},
            id="b" * 16, parent="a" * 16, at=10,
        ),
        span(
            {"llm.request.type": "chat", "gen_ai.completion.0.content": _ANSWER, "gen_ai.usage.input_tokens": 9},
            id="c" * 16, parent="a" * 16, at=20,
        ),
    ]).made  # fmt: skip
    (interaction,) = (each.interaction for each in made)
    assert (interaction.query, interaction.response) == (_QUESTION, _ANSWER)
    assert [(context.chunk_id, context.score) for context in interaction.contexts or ()] == [("1", 0.5)]
    assert interaction.assembly is not None
    assert interaction.assembly.dialect == "traceloop"


_PATHS = {
    *("traceloop.span.kind", "traceloop.entity.name", "traceloop.entity.input", "traceloop.entity.output"),
    *("traceloop.association.properties.session_id", "traceloop.association.properties.x", "llm.request.type"),
    *("traceloop.prompt.template_variables", "traceloop.prompt.version", "gen_ai.operation.name", "gen_ai.task.input"),
    *("gen_ai.prompt.0.content", "gen_ai.completion.0.content", "llm.usage.prompt_tokens", "db.chroma.query.n_results"),
    *("db.query.result.id", "db.query.result.document", "db.query.result.metadata", "gen_ai.tool.call.result"),
}  # fmt: skip
_KEYS = [
    *("inputs", "outputs", "args", "kwargs", "query", "output", "messages", "documents", "metadata", "node", "lc"),
    *("id", "content", "page_content", "question", "answer", "role", "run_type", "score", "replies", "input"),
]  # fmt: skip
_HOSTILE, _ = hostile(
    _PATHS, _KEYS, ["workflow", "task", "tool", "retriever", "rerank", "chat", "prompt", "__REDACTED__", "\ud800"]
)


@pytest.mark.slow
@given(_HOSTILE, _HOSTILE)
def test_no_value_of_any_type_raises(attributes: dict[str, Any], more: dict[str, Any]) -> None:
    """Whatever attributes and events hold, the step is made, and so is the interaction."""
    hostile = span(attributes, events=(("db.query.result", more),), error="")
    assert isinstance(Traceloop().step(hostile, [log("gen_ai.choice", more, attributes)]), Step)
    assemble([hostile])


@pytest.mark.parametrize(
    "value", ["[" * 100_000, '{"inputs":' * 50_000, '{"inputs":' * 900 + "1" + "}" * 900, 10**4000]
)
def test_deep_and_odd_values_are_not_captured(value: Any) -> None:
    for kind in ("workflow", "tool", "task"):
        step = _step({
            "traceloop.span.kind": kind, "traceloop.entity.input": value, "traceloop.entity.output": value,
            "traceloop.entity.name": "retriever",
        })  # fmt: skip
        assert step.documents is None


def test_an_attribute_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of documents costs one parse, though kind, answer and documents are read from it."""
    parsed = parses(monkeypatch)
    output = json.dumps({"documents": [{"id": "1", "content": "x" * 1_000_000}]})
    step = _step(_TASK | {"traceloop.entity.name": "retriever", "traceloop.entity.output": output})
    assert len(step.documents or ()) == 1
    assert len([size for size in parsed if size > 1_000]) == 1
