"""One conversation in the forms of all providers and frameworks is read the same through each convention.

The forms are those of the providers' documentation, which stands beside each row; nothing of them was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from spans_by_hand import log, span

from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.interaction import Message
from ragweir.streams.traces.conversation import tool_results
from ragweir.streams.traces.dialects import DIALECTS
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.messages import last_of
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.step import Step

_RULE, _HELLO, _HI, _QUESTION, _RESULT, _ANSWER = (
    "Be brief.",
    "Hello",
    "Hi",
    "Rain in Paris?",
    "rainy, 57°F",
    "Yes, rain.",
)
_TURNS = (Message(role="user", text=_HELLO), Message(role="assistant", text=_HI))
_PNG, _ARGUMENTS = "data:image/png;base64,aGVsbG8=", {"city": "Paris"}


class _Form(NamedTuple):
    """What goes to the model and what comes back, in the form of a provider."""

    request: Any
    response: Any
    has_system: bool = True
    has_result: bool = True


def _lc(name: str, content: Any, **fields: Any) -> dict[str, Any]:
    path = ["langchain", "schema", "messages", name]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": {"content": content, **fields}}


def _genai(role: str, *parts: Mapping[str, Any]) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


_FORMS = {
    # https://platform.openai.com/docs/api-reference/chat/create
    "openai chat": _Form(
        {
            "model": "gpt-5",
            "messages": [
                {"role": "developer", "content": _RULE},
                {"role": "user", "content": _HELLO},
                {"role": "assistant", "content": _HI},
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": _QUESTION},
                        {"type": "image_url", "image_url": {"url": _PNG}},
                        {"type": "input_audio", "input_audio": {"data": "aGVsbG8=", "format": "wav"}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "w", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": _RESULT},
            ],
        },
        {
            "object": "chat.completion",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": _ANSWER, "refusal": None},
                }
            ],
        },
    ),
    # The same before tools: functions.
    "openai functions": _Form(
        [
            {"role": "system", "content": _RULE},
            {"role": "user", "content": _HELLO},
            {"role": "assistant", "content": _HI},
            {"role": "user", "content": _QUESTION},
            {"role": "assistant", "content": None, "function_call": {"name": "w", "arguments": "{}"}},
            {"role": "function", "name": "w", "content": _RESULT},
        ],
        {"choices": [{"message": {"role": "assistant", "content": _ANSWER}}]},
    ),
    # https://platform.openai.com/docs/api-reference/responses/create
    "openai responses": _Form(
        {
            "model": "gpt-5",
            "instructions": _RULE,
            "input": [
                {"role": "user", "content": _HELLO},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": _HI}]},
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": _QUESTION},
                        {"type": "input_image", "image_url": _PNG},
                        {"type": "input_file", "file_id": "f1"},
                    ],
                },
                {"type": "reasoning", "id": "r1", "summary": [{"type": "summary_text", "text": "They ask."}]},
                {"type": "function_call", "call_id": "c1", "name": "w", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": _RESULT},
            ],
        },
        {
            "object": "response",
            "output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "It rains."}]},
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": _ANSWER, "annotations": []}],
                },
            ],
        },
    ),
    # https://docs.anthropic.com/en/api/messages
    "anthropic": _Form(
        {
            "system": [{"type": "text", "text": _RULE, "cache_control": {"type": "ephemeral"}}],
            "messages": [
                {"role": "user", "content": _HELLO},
                {"role": "assistant", "content": [{"type": "text", "text": _HI}]},
                {
                    "role": "user",
                    "content": [
                        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}},
                        {"type": "text", "text": _QUESTION},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "They ask.", "signature": "s"},
                        {"type": "redacted_thinking", "data": "aGVsbG8="},
                        {"type": "tool_use", "id": "c1", "name": "w", "input": _ARGUMENTS},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "tool_result",
                            "tool_use_id": "c1",
                            "content": [
                                {"type": "text", "text": _RESULT},
                                {"type": "image", "source": {"type": "url", "url": _PNG}},
                            ],
                        }
                    ],
                },
            ],
        },
        {
            "type": "message",
            "role": "assistant",
            "stop_reason": "end_turn",
            "content": [{"type": "thinking", "thinking": "It rains."}, {"type": "text", "text": _ANSWER}],
        },
    ),
    "anthropic with a result as a text": _Form(
        [
            {"role": "user", "content": _QUESTION},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "w", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": _RESULT}]},
        ],
        [{"role": "assistant", "content": [{"type": "text", "text": _ANSWER}]}],
        has_system=False,
    ),
    # https://ai.google.dev/api/generate-content
    "gemini": _Form(
        {
            "systemInstruction": {"parts": [{"text": _RULE}]},
            "contents": [
                {"role": "user", "parts": [{"text": _HELLO}]},
                {"role": "model", "parts": [{"text": _HI}]},
                {
                    "role": "user",
                    "parts": [
                        {"inlineData": {"mimeType": "image/png", "data": "aGVsbG8="}},
                        {"text": _QUESTION},
                        {"fileData": {"fileUri": "gs://a/b"}},
                    ],
                },
                {
                    "role": "model",
                    "parts": [{"text": "They ask.", "thought": True}, {"functionCall": {"name": "w", "args": {}}}],
                },
                {"role": "user", "parts": [{"functionResponse": {"name": "w", "response": {"result": _RESULT}}}]},
            ],
        },
        {
            "candidates": [
                {
                    "content": {"role": "model", "parts": [{"text": "It rains.", "thought": True}, {"text": _ANSWER}]},
                    "finishReason": "STOP",
                }
            ]
        },
    ),
    # The same as `google-genai` dumps its models: in snake case, with what is not set as null.
    "gemini of the SDK": _Form(
        {
            "system_instruction": _RULE,
            "contents": [
                {"role": "user", "parts": [{"text": _HELLO, "function_call": None, "thought": None}]},
                {"role": "model", "parts": [{"text": _HI, "function_call": None}]},
                {"role": "user", "parts": [{"text": _QUESTION}, {"text": None, "inline_data": {"data": "aGVsbG8="}}]},
                {"role": "model", "parts": [{"text": None, "function_call": {"name": "w", "args": _ARGUMENTS}}]},
                {
                    "role": "user",
                    "parts": [{"text": None, "function_response": {"name": "w", "response": {"output": _RESULT}}}],
                },
            ],
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": _ANSWER, "thought": None}]}}]},
    ),
    # https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
    "bedrock converse": _Form(
        {
            "system": [{"text": _RULE}, {"cachePoint": {"type": "default"}}],
            "messages": [
                {"role": "user", "content": [{"text": _HELLO}]},
                {"role": "assistant", "content": [{"text": _HI}]},
                {
                    "role": "user",
                    "content": [
                        {"image": {"format": "png", "source": {"bytes": "aGVsbG8="}}},
                        {"guardContent": {"text": {"text": _QUESTION}}},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "They ask.", "signature": "s"}}},
                        {"toolUse": {"toolUseId": "c1", "name": "w", "input": {}}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"toolResult": {"toolUseId": "c1", "content": [{"text": _RESULT}], "status": "success"}}
                    ],
                },
            ],
        },
        {
            "output": {
                "message": {
                    "role": "assistant",
                    "content": [{"citationsContent": {"content": [{"text": _ANSWER}], "citations": []}}],
                }
            },
            "stopReason": "end_turn",
        },
    ),
    # https://github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai/gen-ai-spans.md
    "conventions": _Form(
        [
            _genai("system", {"type": "text", "content": _RULE}),
            _genai("user", {"type": "text", "content": _HELLO}),
            _genai("assistant", {"type": "text", "content": _HI}),
            _genai("user", {"type": "text", "content": _QUESTION}, {"type": "uri", "modality": "image", "uri": _PNG}),
            _genai(
                "assistant",
                {"type": "reasoning", "content": "They ask."},
                {"type": "tool_call", "id": "c1", "name": "w", "arguments": {}},
            ),
            _genai("tool", {"type": "tool_call_response", "id": "c1", "response": _RESULT}),
        ],
        [_genai("assistant", {"type": "text", "content": _ANSWER}) | {"finish_reason": "stop"}],
    ),
    # langchain_core.load.dumpd of messages, and of an LLMResult.
    "langchain serialised": _Form(
        {
            "messages": [
                [
                    _lc("SystemMessage", _RULE, type="system"),
                    _lc("HumanMessage", _HELLO, type="human"),
                    _lc("AIMessage", _HI, type="ai"),
                    _lc("HumanMessage", [{"type": "text", "text": _QUESTION}, {"type": "image", "url": _PNG}]),
                    _lc("AIMessage", "", tool_calls=[{"name": "w", "args": {}, "id": "c1", "type": "tool_call"}]),
                    _lc("ToolMessage", _RESULT, tool_call_id="c1", type="tool", status="success"),
                ]
            ]
        },
        {"generations": [[{"text": _ANSWER, "message": _lc("AIMessage", _ANSWER, type="ai")}]]},
    ),
    # langchain_core.messages.messages_to_dict.
    "langchain dictionaries": _Form(
        {
            "messages": [
                {"type": "system", "data": {"content": _RULE}},
                {"type": "human", "data": {"content": _HELLO, "type": "human"}},
                {"type": "ai", "data": {"content": _HI}},
                {"type": "human", "data": {"content": _QUESTION}},
                {"type": "AIMessageChunk", "data": {"content": [], "tool_calls": [{"name": "w"}]}},
                {"type": "tool", "data": {"content": _RESULT, "tool_call_id": "c1"}},
            ]
        },
        {"messages": [{"type": "ai", "data": {"content": [{"type": "text", "text": _ANSWER}]}}]},
    ),
    # A model's `model_dump`, as LangGraph's states are written.
    "langchain fields": _Form(
        {
            "messages": [
                {"type": "system", "content": _RULE},
                {"type": "human", "content": _HELLO, "additional_kwargs": {}},
                {"type": "ai", "content": _HI, "tool_calls": []},
                {"type": "human", "content": _QUESTION},
                {"type": "ai", "content": "", "tool_calls": [{"name": "w", "args": {}}]},
                {"type": "tool", "content": _RESULT, "tool_call_id": "c1"},
            ]
        },
        {"messages": [{"type": "ai", "content": _ANSWER}]},
    ),
    "langchain pairs": _Form(
        {"messages": [["system", _RULE], ["human", _HELLO], ["ai", _HI], ["user", _QUESTION]]},
        {"messages": [["ai", _ANSWER]]},
        has_result=False,
    ),
    # llama_index.core.llms.ChatMessage.model_dump.
    "llamaindex": _Form(
        {
            "messages": [
                {"role": "MessageRole.SYSTEM", "blocks": [{"block_type": "text", "text": _RULE}]},
                {"role": "user", "additional_kwargs": {}, "blocks": [{"block_type": "text", "text": _HELLO}]},
                {"role": "assistant", "blocks": [{"block_type": "text", "text": _HI}]},
                {
                    "role": "user",
                    "blocks": [{"block_type": "image", "url": _PNG}, {"block_type": "text", "text": _QUESTION}],
                },
                {"role": "assistant", "blocks": [{"block_type": "tool_call", "tool_name": "w", "tool_kwargs": {}}]},
                {"role": "tool", "blocks": [{"block_type": "text", "text": _RESULT}]},
            ]
        },
        {"message": {"role": "assistant", "blocks": [{"block_type": "text", "text": _ANSWER}]}, "raw": {"id": "x"}},
    ),
    # haystack.dataclasses.ChatMessage.to_dict.
    "haystack": _Form(
        {
            "messages": [
                {"role": "system", "content": [{"text": _RULE}], "meta": {}, "name": None},
                {"role": "user", "content": [{"text": _HELLO}], "meta": {}, "name": None},
                {"_role": "assistant", "_content": [{"text": _HI}], "_meta": {}},
                {"role": "user", "content": [{"text": _QUESTION}], "meta": {}},
                {"role": "assistant", "content": [{"tool_call": {"tool_name": "w", "arguments": {}, "id": "c1"}}]},
                {"role": "tool", "content": [{"tool_call_result": {"result": _RESULT, "error": False, "origin": {}}}]},
            ]
        },
        {"messages": [{"role": "assistant", "content": [{"text": _ANSWER}], "meta": {}}]},
    ),
    # https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message
    "ai sdk": _Form(
        {
            "messages": [
                {"role": "system", "content": _RULE},
                {"role": "user", "content": [{"type": "text", "text": _HELLO}]},
                {"role": "assistant", "content": _HI},
                {"role": "user", "content": [{"type": "text", "text": _QUESTION}, {"type": "image", "image": _PNG}]},
                {"role": "assistant", "content": [{"type": "tool-call", "toolCallId": "c1", "input": {}}]},
                {
                    "role": "tool",
                    "content": [
                        {
                            "type": "tool-result",
                            "toolCallId": "c1",
                            "toolName": "w",
                            "output": {"type": "text", "value": _RESULT},
                        }
                    ],
                },
            ]
        },
        [{"role": "assistant", "content": [{"type": "text", "text": _ANSWER}]}],
    ),
}


def _gen_ai(form: _Form) -> tuple[TraceSpan, list[TraceLog]]:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps(form.request),
        "gen_ai.output.messages": json.dumps(form.response),
    }
    return span(attributes), []


def _gen_ai_structured(form: _Form) -> tuple[TraceSpan, list[TraceLog]]:
    details = {"gen_ai.input.messages": form.request, "gen_ai.output.messages": form.response}
    return span({"gen_ai.operation.name": "chat"}), [log("gen_ai.client.inference.operation.details", body=details)]


def _gen_ai_prompt(form: _Form) -> tuple[TraceSpan, list[TraceLog]]:
    attributes = {"gen_ai.prompt": json.dumps(form.request), "gen_ai.completion": json.dumps(form.response)}
    return span({"gen_ai.operation.name": "chat", **attributes}), []


def _openinference(kind: str) -> Callable[[_Form], tuple[TraceSpan, list[TraceLog]]]:
    def carry(form: _Form) -> tuple[TraceSpan, list[TraceLog]]:
        values = {"input.value": json.dumps(form.request), "output.value": json.dumps(form.response)}
        return span({"openinference.span.kind": kind, **values}), []

    return carry


def _traceloop(form: _Form) -> tuple[TraceSpan, list[TraceLog]]:
    return span({
        "traceloop.span.kind": "workflow",
        "traceloop.entity.input": json.dumps({"inputs": form.request, "tags": [], "metadata": {}}),
        "traceloop.entity.output": json.dumps({"outputs": form.response, "kwargs": {}}),
    }), []  # fmt: skip


_CARRIERS: dict[str, Callable[[_Form], tuple[TraceSpan, list[TraceLog]]]] = {
    "gen_ai, attributes": _gen_ai,
    "gen_ai, log record": _gen_ai_structured,
    "gen_ai, prompt": _gen_ai_prompt,
    "openinference, call": _openinference("LLM"),
    "openinference, chain": _openinference("CHAIN"),
    "traceloop, workflow": _traceloop,
}


def _step(found: TraceSpan, logs: list[TraceLog]) -> Step:
    return next(dialect for dialect in DIALECTS if dialect.reads(found)).step(found, logs)


@pytest.mark.slow
@pytest.mark.parametrize("carrier", _CARRIERS)
@pytest.mark.parametrize("name", _FORMS)
def test_each_form_gives_the_same_through_each_convention(name: str, carrier: str) -> None:
    """Question, answer, history, instructions and results of tools; nothing of calls, reasoning and images."""
    form = _FORMS[name]
    found, logs = _CARRIERS[carrier](form)
    (made,) = assemble([found], logs).made
    assert (made.interaction.query, made.interaction.response) == (_QUESTION, _ANSWER)
    assert made.interaction.history == (_TURNS if "Hello" in json.dumps(form.request) else None)
    step = _step(found, logs)
    assert last_of(step.input_messages, "system") == (_RULE if form.has_system else None)
    assert tool_results(step) == ([_RESULT] if form.has_result else [])
    assert last_of(step.output_messages, "assistant") == _ANSWER
    said = [*(step.input_messages or ()), *(step.output_messages or ())]
    assert {each.text for each in said} <= {_RULE, _HELLO, _HI, _QUESTION, _RESULT, _ANSWER}


def _numbered_gen_ai(messages: list[Any], answer: Any) -> TraceSpan:
    attributes: dict[str, Any] = {"llm.request.type": "chat"}
    for number, each in enumerate(messages):
        content = each["content"] if isinstance(each["content"], str) else json.dumps(each["content"])
        attributes |= {f"gen_ai.prompt.{number}.role": each["role"], f"gen_ai.prompt.{number}.content": content}
    return span(attributes | {"gen_ai.completion.0.content": json.dumps(answer)})


def _numbered_openinference(messages: list[Any], answer: Any) -> TraceSpan:
    attributes: dict[str, Any] = {"openinference.span.kind": "LLM"}
    for number, each in enumerate(messages):
        content = each["content"] if isinstance(each["content"], str) else json.dumps(each["content"])
        start = f"llm.input_messages.{number}.message."
        attributes |= {f"{start}role": each["role"], f"{start}content": content}
    return span(attributes | {"llm.output_messages.0.message.content": json.dumps(answer)})


@pytest.mark.parametrize("make", [_numbered_gen_ai, _numbered_openinference])
@pytest.mark.parametrize("name", ["anthropic", "bedrock converse"])
def test_parts_as_json_in_numbered_attributes(name: str, make: Callable[[list[Any], Any], TraceSpan]) -> None:
    """OpenLLMetry and others write content that is a list of parts as JSON."""
    messages = _FORMS[name].request["messages"]
    found = make(messages, [{"type": "text", "text": _ANSWER}])
    (made,) = assemble([found]).made
    assert (made.interaction.query, made.interaction.response) == (_QUESTION, _ANSWER)
    assert made.interaction.history == _TURNS
    assert tool_results(_step(found, [])) == [_RESULT]


def test_a_result_of_a_tool_that_openinference_writes_with_the_role_of_the_user_is_no_question() -> None:
    """Its instrumentation of Anthropic writes a `tool_result` as the user's content, with the id of the call."""
    start = "llm.input_messages"
    found = span({
        "openinference.span.kind": "LLM",
        f"{start}.0.message.role": "user", f"{start}.0.message.content": _QUESTION,
        f"{start}.1.message.role": "assistant", f"{start}.1.message.tool_calls.0.tool_call.function.name": "w",
        f"{start}.2.message.role": "user", f"{start}.2.message.content": _RESULT,
        f"{start}.2.message.tool_call_id": "c1",
        "llm.output_messages.0.message.content": _ANSWER,
    })  # fmt: skip
    (made,) = assemble([found]).made
    assert (made.interaction.query, made.interaction.response) == (_QUESTION, _ANSWER)
    assert [each.text for each in made.interaction.contexts or ()] == [_RESULT]


@pytest.mark.parametrize("carrier", _CARRIERS)
@pytest.mark.parametrize(
    ("response", "answer"),
    [
        ({"choices": [{"message": {"role": "assistant", "content": None, "refusal": "No."}}]}, "No."),
        ({"choices": [{"message": {"role": "assistant", "content": None, "audio": {"transcript": "So."}}}]}, "So."),
        ([{"role": "assistant", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "da."}]}], "Ada."),
        ({"output": [{"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]}, "No."),
        ([{"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "w", "input": {}}]}], None),
        ({"candidates": [{"content": {"role": "model", "parts": [{"functionCall": {"name": "w"}}]}}]}, None),
        ({"output": [{"type": "function_call", "call_id": "c", "name": "w", "arguments": "{}"}]}, None),
    ],
)  # fmt: skip
def test_an_answer_is_what_the_model_says(response: Any, answer: str | None, carrier: str) -> None:
    """A refusal and a spoken answer are answers; a call of a tool is none."""
    step = _step(*_CARRIERS[carrier](_Form([{"role": "user", "content": _QUESTION}], response)))
    assert (last_of(step.output_messages, "assistant") or step.output) == answer


@pytest.mark.parametrize(
    ("part", "result"),
    [
        ({"type": "tool_result", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        ({"type": "tool_result", "content": [{"type": "image", "source": {"data": "aGVsbG8="}}]}, None),
        ({"type": "tool_result"}, None),
        ({"toolResult": {"content": [{"json": {"sky": "grey"}}]}}, '{"sky":"grey"}'),
        ({"functionResponse": {"response": {"sky": "grey", "wind": 3}}}, '{"sky":"grey","wind":3}'),
        ({"functionResponse": {"response": {"output": ["a"]}}}, "a"),
        ({"type": "function_call_output", "output": [{"type": "input_text", "text": "a"}]}, "a"),
        ({"type": "mcp_call", "name": "w", "arguments": "{}", "output": "a"}, "a"),
        ({"type": "file_search_call", "results": [{"file_id": "f", "text": "a"}, {"text": "b"}]}, "a\nb"),
        ({"type": "tool_call_response", "response": {"sky": "grey"}}, '{"sky":"grey"}'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("carrier", _CARRIERS)
def test_the_result_of_a_tool_is_its_text_or_json(part: Any, result: str | None, carrier: str) -> None:
    asked = {"role": "user", "content": _QUESTION}
    step = _step(*_CARRIERS[carrier](_Form([asked, {"role": "user", "content": [part]}], [["ai", _ANSWER]])))
    assert tool_results(step) == ([result] if result else [])
    assert last_of(step.input_messages, "user") == _QUESTION


@pytest.mark.parametrize(
    ("given", "question"), [({"question": "And in Rome?"}, "And in Rome?"), ({"question": _QUESTION}, _QUESTION)]
)
@pytest.mark.parametrize("carrier", ["openinference, chain", "traceloop, workflow"])
def test_a_thread_that_came_out_does_not_hide_the_question_that_went_in(
    given: Any, question: str, carrier: str
) -> None:
    """A chain may return the thread of its turn, whose earlier turns are the history, or that of a turn before."""
    thread = [["human", _HELLO], ["ai", _HI], ["human", _QUESTION], ["ai", _ANSWER]]
    found, logs = _CARRIERS[carrier](_Form(given, {"messages": thread}))
    (made,) = assemble([found], logs).made
    assert (made.interaction.query, made.interaction.response) == (question, _ANSWER)
    assert made.interaction.history == (_TURNS if question == _QUESTION else None)


def _nested(name: str, depth: int, inner: Any = "a") -> Any:
    for _ in range(depth):
        inner = {name: [inner]}
    return inner


_HOSTILE: dict[str, Any] = {
    "null": None,
    "null message": [None],
    "null role": [{"role": None, "content": None}],
    "null parts": [{"role": "user", "parts": None}],
    "null part": [{"role": "user", "parts": [None, {}, {"text": None}, {"type": None}]}],
    "null result": [{"role": "user", "content": [{"type": "tool_result", "content": None}, {"toolResult": None}]}],
    "numbers": [{"role": 7, "content": 7}, {"role": "user", "content": [7, {"type": 7, "text": 7}]}],
    "lists as texts": [{"role": ["user"], "content": {"text": ["a", ["b"]]}}],
    "mapping as role": [{"role": {"user": 1}, "content": [{"type": {"text": 1}, "text": {"value": {"text": {}}}}]}],
    "text as parts": [{"role": "user", "parts": "a"}, {"role": "model", "parts": {"text": "a"}}],
    "results that are no mapping": [{"role": "user", "content": [{"functionResponse": 7}, {"toolResult": ["a"]}]}],
    "messages that are a mapping": {"messages": {"role": "user", "content": {}}},
    "messages that are a text": {"messages": "hi", "contents": 7, "input": [[]], "output": {"message": []}},
    "empty lists": {"messages": [[], [[]], {}]},
    "lone surrogates": [{"role": "us\ud800er", "content": "\ud800"}],
    "a role of a megabyte": [{"role": "a" * 1_000_000, "content": "a"}],
    "deep results": [{"role": "user", "content": [{"type": "tool_result", "content": _nested("content", 200)}]}],
    "deep texts": [{"role": "user", "content": [{"type": "text", "text": _nested("text", 200)}]}],
    "deep messages": _nested("messages", 200, {"role": "user", "content": "a"}),
    "deep choices": _nested("message", 200, {"role": "assistant", "content": "a"}),
    "deep citations": [{"role": "user", "content": [_nested("citationsContent", 200)]}],
    "deep lists": _nested("input", 200, ["a"]),
    "2,000 messages": [{"role": "user", "content": [{"type": "tool_result", "content": "a"}]}] * 2_000,
    "2,000 parts": [{"role": "user", "content": [{"type": "text", "text": "a"}] * 2_000}],
    "2,000 keys": {f"k{number}": {"messages": [number]} for number in range(2_000)},
    "JSON in JSON": [{"role": "user", "content": json.dumps([{"type": "text", "text": json.dumps([{"text": "a"}])}])}],
}


@pytest.mark.slow
@pytest.mark.parametrize("carrier", _CARRIERS)
@pytest.mark.parametrize("name", _HOSTILE)
def test_messages_of_no_shape_break_nothing(name: str, carrier: str) -> None:
    """Deep, huge, null and of wrong types: a step is made, and what is made of it can be sent."""
    found, logs = _CARRIERS[carrier](_Form(_HOSTILE[name], _HOSTILE[name]))
    assert isinstance(_step(found, logs), Step)
    for made in assemble([found], logs).made:
        sent = encode(made.interaction)
        assert encode(decode(sent)) == sent
