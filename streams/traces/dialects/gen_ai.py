"""The semantic conventions of OpenTelemetry for generative AI, in their current and earlier names.

Read from https://github.com/open-telemetry/semantic-conventions-genai and its predecessor up to 1.36, where content
stands in events (https://github.com/open-telemetry/semantic-conventions/blob/v1.36.0/docs/gen-ai/gen-ai-events.md), and
from what PydanticAI adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from ragweir.schemas.interaction import Message
from ragweir.streams.traces.attribute_values import as_text
from ragweir.streams.traces.dialects.gen_ai_conversation import OUTPUT, THREAD, conversation
from ragweir.streams.traces.dialects.gen_ai_documents import documents_of, variables_of
from ragweir.streams.traces.dialects.gen_ai_values import Paths, Values, as_mapping, decoded, first
from ragweir.streams.traces.messages import last_of
from ragweir.streams.traces.questions import question_in
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.step import Dialect, Step, StepKind

KINDS: Final[Mapping[str, StepKind]] = {
    "chat": "llm", "text_completion": "llm", "generate_content": "llm", "completion": "llm", "message": "llm",
    "responses": "llm", "embeddings": "embedding", "embedding": "embedding",
    "retrieval": "retrieval", "retrieve": "retrieval", "retrieve_documents": "retrieval",
    "vector_db_retrieve": "retrieval", "rerank": "rerank", "rerank_documents": "rerank",
    "execute_tool": "tool", "invoke_agent": "agent", "invoke_workflow": "chain", "execute_task": "chain",
}  # fmt: skip
"""Kind of a step by `gen_ai.operation.name`."""
_KIND_BY_ATTRIBUTE: Final[tuple[tuple[Paths, StepKind], ...]] = (
    (("gen_ai.tool.name", "gen_ai.tool.call.id"), "tool"),
    (("gen_ai.retrieval.query.text", "gen_ai.retrieval.documents"), "retrieval"),
    (("pydantic_ai.all_messages", "all_messages_events", "final_result"), "agent"),
    (("gen_ai.request.model", "gen_ai.response.model"), "llm"),
    (("gen_ai.workflow.name",), "chain"),
    (("gen_ai.agent.name", "gen_ai.agent.id"), "agent"),
)
"""Kind of a step without `gen_ai.operation.name`: that of the first row of which the span has an attribute."""

_VARIABLES: Final = "gen_ai.prompt.variable."

NAMES: Final[Mapping[StepKind, Paths]] = {
    "tool": ("gen_ai.tool.name",),
    "llm": ("gen_ai.response.model", "gen_ai.request.model"),
    "embedding": ("gen_ai.response.model", "gen_ai.request.model"),
    "rerank": ("gen_ai.response.model", "gen_ai.request.model"),
    "retrieval": ("gen_ai.data_source.id",),
    "agent": ("gen_ai.agent.name", "agent_name"),
    "chain": ("gen_ai.workflow.name", "gen_ai.task.name"),
}
MODEL: Final = (
    "gen_ai.response.model", "gen_ai.request.model", "llm.response.model", "llm.request.model", "model_name",
)  # fmt: skip
INPUT_TOKENS: Final = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens")
OUTPUT_TOKENS: Final = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens")
COST: Final = ("gen_ai.usage.cost", "gen_ai.usage.total_cost", "operation.cost")
SESSION: Final = ("gen_ai.conversation.id", "session.id", "gen_ai.session.id", "langfuse.session.id")
USER: Final = ("user.id", "enduser.id", "gen_ai.user.id", "langfuse.user.id")
PROMPT_VERSION: Final = ("gen_ai.prompt.version",)
FINISH_REASONS: Final = (
    "gen_ai.response.finish_reasons",
    "gen_ai.response.finish_reason",
    "llm.response.finish_reason",
)
ARGUMENTS: Final = ("gen_ai.tool.call.arguments", "tool_arguments")
RESULT: Final = ("gen_ai.tool.call.result", "tool_response")
_RESULT_OF_RUN: Final = ("final_result",)
_ANSWERS: Final = ("answer", "final_answer", "response")
"""Fields of a structured answer that are the answer."""
QUERY: Final = ("gen_ai.retrieval.query.text", "gen_ai.retrieval.query")
DOCUMENTS: Final = ("gen_ai.retrieval.documents",)
_FIRST_CHUNK: Final = (
    "gen_ai.response.time_to_first_chunk", "gen_ai.response.time_to_first_token", "gen_ai.server.time_to_first_token",
    "llm.time_to_first_token",
)  # fmt: skip
_FIRST_CHUNK_EVENTS: Final = frozenset({
    "First Token Stream Event", "first_token", "gen_ai.content.completion.chunk", "llm.content.completion.chunk",
})  # fmt: skip
_PROPAGATED: Final = frozenset({"gen_ai.conversation.id", "gen_ai.session.id", "gen_ai.user.id"})
"""Attributes that span processors copy to all spans of a request: alone they make no span one of this convention."""
_OWNERS: Final = (
    "openinference.span.kind", "traceloop.span.kind", "traceloop.entity.name", "traceloop.workflow.name",
    "llm.request.type",
)  # fmt: skip
"""Attributes of other conventions, whose spans may also have some of this one's."""


class GenAi(Dialect):
    """The GenAI conventions, with content in attributes, span events or log records."""

    name = "gen_ai"

    @override
    def reads(self, span: TraceSpan) -> bool:
        attributes = span.attributes
        if any(attributes.get(path) is not None for path in _OWNERS):
            return False
        if str(attributes.get("gen_ai.operation.name")).startswith("create_"):  # Of an agent: it answers nothing.
            return False
        if span.scope.startswith("pydantic-ai") or any(attributes.get(path) is not None for path in THREAD):
            return True
        return any(path.startswith("gen_ai.") and path not in _PROPAGATED for path in attributes)

    @override
    def step(self, span: TraceSpan, logs: Sequence[TraceLog]) -> Step:
        values = Values(span.attributes)
        kind = kind_of(values)
        inputs, outputs = conversation(values, span, logs)
        if kind in {"agent", "chain"}:
            inputs, outputs = _spoken(inputs), _spoken(outputs)
        return Step(
            kind=kind,
            name=values.text(NAMES.get(kind, ())) or span.name or None,
            input=_input(kind, values, inputs),
            output=_output(kind, values, outputs),
            input_messages=inputs,
            output_messages=outputs,
            documents=documents_of(values.json(DOCUMENTS)) if kind in {"retrieval", "rerank"} else None,
            prompt_variables=values.below(_VARIABLES),
            model=values.text(MODEL),
            input_tokens=values.count(INPUT_TOKENS),
            output_tokens=values.count(OUTPUT_TOKENS),
            cost_usd=cost(values),
            finish_reason=finish_reason(values, logs),
            first_token_ns=first_token(values, span),
            error=error(span),
            session_id=values.id(SESSION),
            user_id=values.id(USER),
            prompt_version=values.id(PROMPT_VERSION),
            metadata=variables_of(values.json(("metadata",))),
            is_pending=span.attributes.get("logfire.span_type") == "pending_span",
            is_redacted=values.is_redacted(),
            is_cut=kind in {"retrieval", "rerank"} and values.is_cut(DOCUMENTS),
        )


def kind_of(values: Values) -> StepKind:
    """Return the kind of a span's step.

    >>> kind_of(Values({"gen_ai.operation.name": "chat"})), kind_of(Values({"gen_ai.tool.name": "t"}))
    ('llm', 'tool')
    """
    operation = values.text(("gen_ai.operation.name",)) or ""
    if operation in KINDS:
        return KINDS[operation]
    return next((kind for paths, kind in _KIND_BY_ATTRIBUTE if values.has(paths)), "other")


def _input(kind: StepKind, values: Values, messages: Sequence[Message] | None) -> str | None:
    if kind == "tool":
        return values.text(ARGUMENTS)
    if kind == "retrieval":
        return values.text(QUERY)
    return last_of(messages, "user") if kind in {"agent", "chain"} else None


def _spoken(messages: tuple[Message, ...] | None) -> tuple[Message, ...] | None:
    """Return a chain's messages, where JSON of its input or output is replaced by the question or answer in it.

    LangChain gives the input as a dictionary, and for a stream one without content: `{"input": ""}`. DSPy gives the
    fields of its signature.
    """
    if messages is None:
        return None
    kept = []
    for message in messages:
        fields = decoded(message.text) if message.text.startswith("{") else None
        if not isinstance(fields, Mapping):
            kept.append(message)
        elif message.role == "assistant":
            kept.append(message.model_copy(update={"text": _answer_field(fields) or message.text}))
        elif message.role != "user" or any(fields.values()):
            found = question_in(fields) if message.role == "user" else None
            kept.append(message.model_copy(update={"text": found or message.text}))
    return tuple(kept) if kept or not messages else None


def _answer_field(fields: Mapping[str, Any]) -> str | None:
    return next((value for name in _ANSWERS if isinstance(value := fields.get(name), str) and value), None)


def _output(kind: StepKind, values: Values, messages: Sequence[Message] | None) -> str | None:
    if kind == "tool":
        return values.text(RESULT)
    if kind in {"agent", "chain"}:
        found = values.text(_RESULT_OF_RUN)
        return _answer_field(as_mapping(decoded(found))) or found or last_of(messages, "assistant")
    return None


def cost(values: Values) -> float | None:
    """Return the cost in dollars, if it is a number from 0."""
    amount = values.number(COST)
    return amount if amount is not None and amount >= 0 else None


def finish_reason(values: Values, logs: Sequence[TraceLog]) -> str | None:
    """Return the reason why the model stopped: of its first choice."""
    reasons = values.json(FINISH_REASONS)
    found = reasons[0] if isinstance(reasons, list | tuple) and reasons else reasons
    if not isinstance(found, str):
        choices = values.json(OUTPUT)
        choice = choices[0] if isinstance(choices, list) and choices else None
        found = as_mapping(choice).get("finish_reason") or first(
            as_mapping(log.body).get("finish_reason") for log in logs if log.event_name == "gen_ai.choice"
        )
    return found if isinstance(found, str) and found else None


def first_token(values: Values, span: TraceSpan) -> int | None:
    """Return the time of the first token in epoch nanoseconds: within the span."""
    times = [event.time_ns for event in span.events if event.name in _FIRST_CHUNK_EVENTS]
    seconds = values.number(_FIRST_CHUNK)
    if seconds is not None and 0 <= seconds < 1e6:
        times.append(span.started_ns + round(seconds * 1e9))
    within = [time for time in times if time >= span.started_ns]
    return min(*within, max(span.ended_ns, span.started_ns)) if within else None


def error(span: TraceSpan) -> str | None:
    """Return the message of a span's error, or else its type; None for a span without an error."""
    kind = as_text(span.attributes.get("error.type"))
    if span.error is None and not kind:
        return None
    messages = (event.attributes.get("exception.message") for event in span.events if event.name == "exception")
    return span.error or next((text for text in map(as_text, messages) if text), None) or kind or "error"
