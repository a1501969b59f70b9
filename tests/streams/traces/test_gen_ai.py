"""Spans of the GenAI conventions in their versions, and of frameworks that write them.

All fixtures are made by hand from the documentation that is named beside them; `test_recordings.py` has recorded ones.
"""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spans_by_hand import hostile, log, parses, span

from ragweir.schemas.interaction import Message
from ragweir.streams.traces.contexts import MAX_CONTEXTS
from ragweir.streams.traces.dialects.gen_ai import GenAi
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.step import Step

_QUESTION = "Weather in Paris?"
_ANSWER = "Rainy, 57°F."
_ASKED = Message(role="user", text=_QUESTION)
_SAID = Message(role="assistant", text=_ANSWER)
# Messages as in https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md.
_INPUT = [
    {"role": "user", "parts": [{"type": "text", "content": _QUESTION}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "call_1", "name": "get_weather", "arguments": {"location": "Paris"}}],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "result": "rainy, 57°F"}]},
]
_OUTPUT = [{"role": "assistant", "parts": [{"type": "text", "content": _ANSWER}], "finish_reason": "stop"}]
_CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4"}


def _step(attributes: dict[str, Any], *logs: Any, **fields: Any) -> Step:
    found = span(attributes, **fields)
    assert GenAi().reads(found)
    return GenAi().step(found, logs)


@pytest.mark.parametrize("form", [json.dumps, lambda value: value], ids=["text", "structured"])
def test_messages_with_parts_as_json_or_structured(form: Any) -> None:
    """`gen_ai.input.messages` and its siblings are JSON texts in spans of today's SDKs, structured elsewhere."""
    step = _step({
        **_CHAT,
        "gen_ai.system_instructions": form([{"type": "text", "content": "Be brief."}]),
        "gen_ai.input.messages": form(_INPUT),
        "gen_ai.output.messages": form(_OUTPUT),
    })  # fmt: skip
    assert step.kind == "llm"
    assert step.input_messages == (
        Message(role="system", text="Be brief."),
        _ASKED,
        Message(role="tool", text="rainy, 57°F"),
    )
    assert step.output_messages == (_SAID,)
    assert step.finish_reason == "stop"


def test_a_call_of_tools_is_an_answer_without_a_text() -> None:
    """Captured, but nothing was said: an empty list, where content that was not captured is None."""
    step = _step(_CHAT | {"gen_ai.output.messages": json.dumps(_INPUT[1:2])})
    assert step.output_messages == ()
    assert step.input_messages is None


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "user", "parts": [{"type": "text"}]}],
        [{"role": "user", "parts": [{"type": "text", "content": "__REDACTED__"}]}],
        [{"role": "user", "content": None}],
        "__REDACTED__",
    ],
)
def test_messages_without_their_content_are_not_captured(messages: Any) -> None:
    """PydanticAI's `include_content=False` keeps the parts and leaves out their content."""
    step = _step(_CHAT | {"gen_ai.input.messages": messages})
    assert step.input_messages is None
    assert step.is_redacted is (messages == "__REDACTED__")


def test_reasoning_and_binary_parts_are_not_the_answer() -> None:
    parts = [
        {"type": "reasoning", "content": "thinking"},
        {"type": "thinking", "content": "thinking"},
        {"type": "blob", "modality": "image", "content": "aGVsbG8="},
        {"type": "text", "content": _ANSWER},
    ]
    spoken = [{"role": "user", "parts": [{"type": "blob", "modality": "audio", "transcript": _QUESTION}]}]
    assert _step(_CHAT | {"gen_ai.input.messages": spoken}).input_messages == (_ASKED,)
    assert _step(_CHAT | {"gen_ai.output.messages": [{"role": "assistant", "parts": parts}]}).output_messages == (
        _SAID,
    )


def test_content_in_log_records_with_all_details() -> None:
    """`gen_ai.client.inference.operation.details` has the messages as attributes, structured."""
    details = {"gen_ai.input.messages": _INPUT[:1], "gen_ai.output.messages": _OUTPUT}
    for record in (
        log("gen_ai.client.inference.operation.details", attributes=details),
        log("gen_ai.client.inference.operation.details", body=details),
    ):
        step = _step(_CHAT, record)
        assert (step.input_messages, step.output_messages, step.finish_reason) == ((_ASKED,), (_SAID,), None)


def test_log_records_of_other_events_are_no_content() -> None:
    other = log("app.audit", attributes={"gen_ai.input.messages": _INPUT[:1]})
    assert _step(_CHAT, other).input_messages is None


def test_content_in_a_log_record_for_each_message() -> None:
    """Conventions up to 1.36: docs/gen-ai/gen-ai-events.md of open-telemetry/semantic-conventions at that version."""
    step = _step(
        _CHAT,
        log("gen_ai.system.message", {"content": "Be brief."}),
        log("gen_ai.user.message", {"content": _QUESTION}),
        log("gen_ai.assistant.message", {"tool_calls": [{"id": "1", "type": "function", "function": {"name": "w"}}]}),
        log("gen_ai.tool.message", {"id": "1", "content": "rainy"}),
        log("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": {"content": _ANSWER}}),
        log("some.other.event", {"content": "not a message"}),
    )
    assert step.input_messages == (
        Message(role="system", text="Be brief."),
        _ASKED,
        Message(role="tool", text="rainy"),
    )
    assert step.output_messages == (_SAID,)
    assert step.finish_reason == "stop"


def test_content_in_span_events() -> None:
    """Conventions up to 1.27: `gen_ai.content.prompt` and `gen_ai.content.completion`."""
    step = _step(
        _CHAT,
        events=(
            ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps([{"role": "user", "content": _QUESTION}])}),
            (
                "gen_ai.content.completion",
                {"gen_ai.completion": json.dumps([{"role": "assistant", "content": _ANSWER}])},
            ),
        ),
    )
    assert (step.input_messages, step.output_messages) == ((_ASKED,), (_SAID,))


def test_content_in_span_events_of_azure_and_strands() -> None:
    """Azure AI writes `gen_ai.event.content`; Strands Agents writes `content` and `message`, as JSON of parts."""
    azure = _step(
        _CHAT,
        events=(
            ("gen_ai.user.message", {"gen_ai.event.content": json.dumps({"role": "user", "content": _QUESTION})}),
            ("gen_ai.choice", {"gen_ai.event.content": json.dumps({"message": {"content": _ANSWER}, "index": 0})}),
        ),
    )
    strands = _step(
        _CHAT,
        events=(
            ("gen_ai.user.message", {"content": json.dumps([{"text": _QUESTION}])}),
            ("gen_ai.choice", {"finish_reason": "end_turn", "message": json.dumps([{"text": _ANSWER}])}),
        ),
    )
    for step in (azure, strands):
        assert (step.input_messages, step.output_messages) == ((_ASKED,), (_SAID,))


def test_content_in_numbered_attributes() -> None:
    """OpenLLMetry's instrumentations without its SDK: `gen_ai.prompt.0.content`, in the order of the numbers."""
    step = _step({
        **{f"gen_ai.prompt.{place}.role": "user" for place in range(11)},
        **{f"gen_ai.prompt.{place}.content": str(place) for place in range(11)},
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": _ANSWER,
        "gen_ai.completion.0.finish_reason": "stop",
        "gen_ai.usage.prompt_tokens": 12,
        "gen_ai.usage.completion_tokens": 5,
    })  # fmt: skip
    assert [message.text for message in step.input_messages or ()] == [str(place) for place in range(11)]
    assert step.output_messages == (_SAID,)
    assert (step.kind, step.input_tokens, step.output_tokens) == ("llm", 12, 5)


def test_a_plain_prompt_and_completion() -> None:
    step = _step({
        "gen_ai.operation.name": "text_completion",
        "gen_ai.prompt": f"[INST] {_QUESTION}",
        "gen_ai.completion": _ANSWER,
    })  # fmt: skip
    assert step.input_messages == (Message(role="user", text=f"[INST] {_QUESTION}"),)
    assert step.output_messages == (_SAID,)


def test_current_names_go_before_earlier_ones() -> None:
    step = _step(
        _CHAT
        | {
            "gen_ai.input.messages": _INPUT[:1],
            "gen_ai.prompt": "old",
            "gen_ai.usage.input_tokens": 3,
            "gen_ai.usage.prompt_tokens": 4,
            "gen_ai.response.model": "gpt-4-0613",
        },
        log("gen_ai.user.message", {"content": "older"}),
    )
    assert step.input_messages == (_ASKED,)
    assert (step.input_tokens, step.model, step.name) == (3, "gpt-4-0613", "gpt-4-0613")


def test_a_retrieval_has_ids_and_scores_and_further_fields_if_it_is_given_them() -> None:
    """The documents of the conventions' own test case retrieval-documents-documents.yaml, and one with a text."""
    attributes = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "weather",
        "gen_ai.retrieval.query.text": _QUESTION,
        "gen_ai.retrieval.documents": [{"id": "doc-1", "score": 0.91, "title": "Overview"}, {"id": "doc-2"}, {}],
    }
    step = _step(attributes)
    assert (step.kind, step.name, step.input) == ("retrieval", "weather", _QUESTION)
    assert [(found.chunk_id, found.score, found.text) for found in step.documents or ()] == [
        ("doc-1", 0.91, None),
        ("doc-2", None, None),
        (None, None, None),
    ]
    attributes["gen_ai.retrieval.documents"] = json.dumps([
        {"id": "a", "content": "rainy", "metadata": {"source": "s", "page": 3}},
    ])  # fmt: skip
    (document,) = _step(attributes).documents or ()
    assert (document.text, document.document_id, document.page) == ("rainy", "s", "3")


def test_a_retrieval_that_found_nothing_differs_from_one_that_says_nothing() -> None:
    retrieval = {"gen_ai.operation.name": "retrieval"}
    assert _step(retrieval | {"gen_ai.retrieval.documents": "[]"}).documents == ()
    assert _step(retrieval).documents is None


def test_documents_that_the_sdk_cut_at_a_length_are_none_and_flagged() -> None:
    """`OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT` cuts the JSON: the rest of the list would pass for all of it."""
    step = _step({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": '[{"id": "a"}, {"id": "b'})
    assert step.documents is None
    assert step.is_cut
    chat = _step(_CHAT | {"gen_ai.input.messages": json.dumps(_INPUT)[:-9]})
    assert chat.input_messages is None


def test_no_more_documents_are_read_than_an_interaction_keeps() -> None:
    """A megabyte of documents costs no more than those that intake keeps, and one more, so that it flags the cut."""
    step = _step({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": [{"id": 1}] * 100_000})
    assert len(step.documents or ()) == MAX_CONTEXTS


def test_a_tool_has_its_name_arguments_result_and_error() -> None:
    """`execute_tool` of the conventions, and PydanticAI's `tool_arguments` and `tool_response` before its version 3."""
    for arguments, result in (
        ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result"),
        ("tool_arguments", "tool_response"),
    ):
        step = _step({"gen_ai.tool.name": "get_weather", arguments: '{"location":"Paris"}', result: "rainy"})
        assert (step.kind, step.name, step.input, step.output) == (
            "tool",
            "get_weather",
            '{"location":"Paris"}',
            "rainy",
        )
    failed = _step({"gen_ai.operation.name": "execute_tool", "error.type": "timeout"})
    assert failed.error == "timeout"
    assert _step({"gen_ai.operation.name": "execute_tool"}, error="").error == "error"


def test_an_agent_run_of_pydantic_ai_has_the_question_of_this_run_after_its_history() -> None:
    """https://ai.pydantic.dev/logfire, format version 2 and later: the thread in `pydantic_ai.all_messages`."""
    thread = [
        {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]},
        {"role": "user", "parts": [{"type": "text", "content": "Hello"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "Hi"}]},
        *_INPUT[:2],
        {"role": "user", "parts": [{"type": "tool_call_response", "id": "1", "name": "w", "result": "rainy"}]},
        *_OUTPUT,
    ]
    step = _step(
        {
            "agent_name": "support",
            "model_name": "gpt-4",
            "pydantic_ai.all_messages": json.dumps(thread),
            "pydantic_ai.new_message_index": 3,
            "final_result": _ANSWER,
            "metadata": '{"plan": "gold"}',
        },
        name="agent run",
        scope="pydantic-ai",
    )
    assert (step.kind, step.name, step.model) == ("agent", "support", "gpt-4")
    assert (step.input, step.output) == (_QUESTION, _ANSWER)
    assert [message.role for message in step.input_messages or ()] == ["system", "user", "assistant", "user"]
    assert [message.role for message in step.output_messages or ()] == ["tool", "assistant"]
    assert step.metadata == {"plan": "gold"}


def test_pydantic_ai_of_version_1_writes_events_as_attributes() -> None:
    """`event_to_dict` of pydantic-ai before 1.0: `events` of a call, `all_messages_events` of a run."""
    asked = {"role": "user", "content": _QUESTION, "gen_ai.message.index": 0, "event.name": "gen_ai.user.message"}
    said = {"role": "assistant", "content": _ANSWER, "event.name": "gen_ai.assistant.message"}
    choice = {"index": 0, "message": {"role": "assistant", "content": _ANSWER}, "event.name": "gen_ai.choice"}
    call = _step(_CHAT | {"events": json.dumps([asked, choice])})
    run = _step({"all_messages_events": json.dumps([asked, said]), "final_result": _ANSWER}, scope="pydantic-ai")
    for step in (call, run):
        assert (step.input_messages, step.output_messages) == ((_ASKED,), (_SAID,))
    assert (run.kind, run.input, run.output) == ("agent", _QUESTION, _ANSWER)


def test_a_pending_span_of_logfire_is_no_span() -> None:
    """https://logfire.pydantic.dev: spans are sent when they begin as `pending_span`, and again when they end."""
    assert _step(_CHAT | {"logfire.span_type": "pending_span"}).is_pending
    assert not _step(_CHAT | {"logfire.span_type": "span"}).is_pending


def test_the_question_in_the_dictionary_that_a_chain_is_given() -> None:
    """LangChain's instrumentation writes a chain's input dictionary as the user's text; a stream's has no content."""
    workflow = {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": "rag"}

    def given_text(text: str) -> Step:
        message = {"role": "user", "parts": [{"type": "text", "content": text}]}
        return _step(workflow | {"gen_ai.input.messages": json.dumps([message])})

    assert given_text(json.dumps({"input": _QUESTION, "k": 3})).input_messages == (_ASKED,)
    assert given_text('{"input": ""}').input_messages is None
    assert given_text(_QUESTION).input == _QUESTION
    assert given_text("{not JSON").input == "{not JSON"


def test_the_answer_among_the_fields_of_a_structured_one() -> None:
    """DSPy's instrumentation in opentelemetry-python-genai writes the fields of the signature as JSON."""
    run = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "dspy.ReAct"}

    def step_of(given_text: str, said_text: str) -> Step:
        return _step(
            run
            | {
                "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": given_text}]}],
                "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": said_text}]}],
            }
        )

    step = step_of(
        json.dumps({"question": _QUESTION, "history": []}), json.dumps({"reasoning": "So.", "answer": _ANSWER})
    )
    assert (step.input_messages, step.output_messages) == ((_ASKED,), (_SAID,))
    assert (step.input, step.output) == (_QUESTION, _ANSWER)
    structured = json.dumps({"answer": _ANSWER, "sources": ["a"]})
    assert _step({"final_result": structured}, scope="pydantic-ai").output == _ANSWER
    table = json.dumps({"rows": [1, 2]})
    assert step_of(_QUESTION, table).output == table
    assert _step(_CHAT | {"gen_ai.output.messages": _OUTPUT}).output is None


def test_a_haystack_pipeline_with_documents_of_its_own_fields_gives_a_full_interaction() -> None:
    """Haystack's instrumentation in opentelemetry-python-genai adds `content` to the documents."""
    documents = [{"id": "1", "score": 0.5, "content": "Rain all day."}, {"id": "2", "content": "57°F at noon."}]
    made = assemble([
        span({"gen_ai.operation.name": "invoke_workflow"}, id="a" * 16),
        span(
            {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": _QUESTION,
             "gen_ai.retrieval.documents": json.dumps(documents)},
            id="b" * 16, parent="a" * 16, at=10,
        ),
        span(
            {**_CHAT, "gen_ai.input.messages": _INPUT[:1], "gen_ai.output.messages": _OUTPUT},
            id="c" * 16, parent="a" * 16, at=20,
        ),
    ]).made  # fmt: skip
    (each,) = made
    assert each.is_full
    assert (each.interaction.query, each.interaction.response) == (_QUESTION, _ANSWER)
    assert [(found.chunk_id, found.text) for found in each.interaction.contexts or ()] == [
        ("1", "Rain all day."),
        ("2", "57°F at noon."),
    ]


def test_the_first_token_is_within_the_span() -> None:
    def after(seconds: Any) -> int | None:
        step = _step(_CHAT | {"gen_ai.response.time_to_first_chunk": seconds})
        return None if step.first_token_ns is None else step.first_token_ns - span({}).started_ns

    assert after(0.5) == 500_000_000
    assert after(3600) == 2_000_000_000
    for wrong in (-1, float("nan"), "soon", [1], 1e300):
        assert after(wrong) is None
    event = _step(_CHAT, events=(("gen_ai.content.completion.chunk", {}),))
    assert event.first_token_ns == span({}).started_ns + 1_000_000_000


def test_session_user_prompt_and_variables() -> None:
    step = _step(
        _CHAT
        | {
            "gen_ai.conversation.id": "conv-9",
            "user.id": 7,
            "gen_ai.prompt.version": "p3",
            "gen_ai.prompt.variable.context": "chunks",
            "operation.cost": 0.25,
        }
    )
    assert (step.session_id, step.user_id, step.prompt_version) == ("conv-9", "7", "p3")
    assert step.prompt_variables == {"context": "chunks"}
    assert step.cost_usd == 0.25
    assert _step(_CHAT | {"operation.cost": -0.25}).cost_usd is None


@pytest.mark.parametrize(
    ("attributes", "is_read"),
    [
        ({"gen_ai.system": "openai"}, True),
        ({"gen_ai.conversation.id": "conv-9"}, False),  # Copied to every span of the request.
        ({"http.route": "/ask"}, False),
        (_CHAT | {"openinference.span.kind": "LLM"}, False),
        (_CHAT | {"traceloop.workflow.name": "rag"}, False),
        ({"gen_ai.operation.name": "create_agent", "gen_ai.agent.name": "a"}, False),  # It answers nothing.
    ],
)
def test_the_spans_of_this_convention(attributes: dict[str, Any], is_read: bool) -> None:
    assert GenAi().reads(span(attributes)) is is_read


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("generate_content", "llm"), ("embeddings", "embedding"), ("execute_tool", "tool"), ("invoke_agent", "agent"),
        ("invoke_workflow", "chain"), ("retrieval", "retrieval"), ("rerank_documents", "rerank"),
        ("search_memory", "other"),
    ],
)  # fmt: skip
def test_the_kind_of_an_operation(operation: str, kind: str) -> None:
    assert _step({"gen_ai.operation.name": operation}).kind == kind


def test_an_agent_of_openai_agents_with_chunks_in_tool_results_gives_a_full_interaction() -> None:
    """The tree of https://github.com/open-telemetry/opentelemetry-python-genai, instrumentation of OpenAI Agents."""
    made = assemble([
        span({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}, id="a" * 16),
        span(
            {**_CHAT, "gen_ai.input.messages": _INPUT[:1], "gen_ai.output.messages": _INPUT[1:2]},
            id="b" * 16, parent="a" * 16, at=10,
        ),
        span(
            {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather",
             "gen_ai.tool.call.result": "rainy, 57°F"},
            id="c" * 16, parent="a" * 16, at=20,
        ),
        span(
            {**_CHAT, "gen_ai.input.messages": _INPUT, "gen_ai.output.messages": _OUTPUT},
            id="d" * 16, parent="a" * 16, at=30,
        ),
    ]).made  # fmt: skip
    (interaction,) = (each.interaction for each in made)
    assert (interaction.query, interaction.response) == (_QUESTION, _ANSWER)
    assert [context.text for context in interaction.contexts or ()] == ["rainy, 57°F"]


_PATHS = {
    *("gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
    *("gen_ai.prompt", "gen_ai.completion", "gen_ai.prompt.0.role", "gen_ai.prompt.0.content", "gen_ai.completion.1.x"),
    *("gen_ai.tool.name", "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.retrieval.documents"),
    *("gen_ai.retrieval.query.text", "gen_ai.usage.input_tokens", "gen_ai.usage.cost", "gen_ai.conversation.id"),
    *("gen_ai.response.finish_reasons", "gen_ai.response.time_to_first_chunk", "pydantic_ai.all_messages", "events"),
    *("all_messages_events", "final_result", "metadata", "error.type", "logfire.span_type", "gen_ai.response.model"),
    *("gen_ai.event.content", "content", "message", "role", "gen_ai.prompt.variable.context"),
}  # fmt: skip
_KEYS = [
    *("role", "content", "parts", "type", "text", "message", "messages", "kwargs", "data", "id", "lc", "score", "page"),
    *("metadata", "page_content", "node", "tool_calls", "finish_reason", "response", "event.name", "documents"),
]  # fmt: skip
_HOSTILE, _VALUES = hostile(
    _PATHS, _KEYS, ["user", "text", "tool_call_response", "gen_ai.choice", "__REDACTED__", "[", "\ud800"]
)


@pytest.mark.slow
@given(
    _HOSTILE, _HOSTILE, st.sampled_from(["gen_ai.choice", "gen_ai.user.message", "exception", "first_token"]), _VALUES
)
def test_no_value_of_any_type_raises(
    attributes: dict[str, Any], more: dict[str, Any], event_name: str, body: Any
) -> None:
    """Whatever attributes, events and log records hold, the step is made, and so is the interaction."""
    hostile = span(attributes, events=((event_name, more),), error="")
    records = [
        log(event_name, body, more),
        log("gen_ai.client.inference.operation.details", body, more),
    ]
    step = GenAi().step(hostile, records)
    assert isinstance(step, Step)
    assert all(isinstance(text, str) for text in (step.name or "", step.error or "", step.input or ""))
    assemble([hostile], records)


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, '{"a":' * 50_000, "[" * 900 + "]" * 900, '[{"role":"user","parts":' * 2_000, "\ud800", 10**4000],
)
def test_deep_and_odd_values_are_not_captured(value: Any) -> None:
    for path in ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.retrieval.documents", "final_result"):
        assert isinstance(_step(_CHAT | {path: value}), Step)


def test_an_attribute_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of messages costs one parse, though messages, finish reason and redaction are read from it."""
    parsed = parses(monkeypatch)
    large = [{"role": "assistant", "parts": [{"type": "text", "content": "x" * 1_000_000}], "finish_reason": "stop"}]
    step = _step(_CHAT | {"gen_ai.output.messages": json.dumps(large)})
    assert step.finish_reason == "stop"
    assert len([size for size in parsed if size > 1_000]) == 1
