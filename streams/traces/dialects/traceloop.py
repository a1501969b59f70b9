"""Traceloop's conventions (OpenLLMetry): workflows and tasks around model calls, in their current and earlier names.

Read from https://github.com/traceloop/openllmetry/tree/main/packages/opentelemetry-semantic-conventions-ai. The content
of model calls is that of the GenAI conventions, or in numbered attributes: `gen_ai.prompt.0.content`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typing_extensions import override

from ragweir.schemas.interaction import Context, Message
from ragweir.streams.traces.attribute_values import as_text
from ragweir.streams.traces.dialects import gen_ai
from ragweir.streams.traces.dialects.gen_ai_conversation import conversation
from ragweir.streams.traces.dialects.gen_ai_documents import documents_of, variables_of
from ragweir.streams.traces.dialects.gen_ai_values import Paths, Values, as_mapping, decoded
from ragweir.streams.traces.messages import last_of, thread_of
from ragweir.streams.traces.questions import Conversation, answer_in, conversation_in, question_in
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.step import Dialect, Step, StepKind

_KINDS: Final[Mapping[str, StepKind]] = {"workflow": "chain", "task": "chain", "agent": "agent", "tool": "tool"}
"""Kind of a step by `traceloop.span.kind`."""
_REQUESTS: Final[Mapping[str, StepKind]] = {
    "chat": "llm", "completion": "llm", "rerank": "rerank", "embedding": "embedding",
}  # fmt: skip
"""Kind of a step by `llm.request.type`."""
_SEARCHES: Final = (
    "db.vector.query.", "db.chroma.query.", "db.milvus.search.", "db.milvus.query.", "db.marqo.search.",
    "db.pinecone.query.", "pinecone.query.", "qdrant.search.", "qdrant.search_batch.", "db.weaviate.collections.query.",
)  # fmt: skip
"""Attributes of a search in a vector database."""
_OWN: Final = ("traceloop.entity.", "traceloop.span.")
"""Attributes that mark a span as Traceloop's. Others are copied to all spans below a workflow."""
_SEARCH_EVENTS: Final = ("db.query.result", "db.search.result")
"""Events of a search, one for each document, whose attributes begin with the same name."""
_RETRIEVERS: Final = ("retriev", "search")
_RERANKERS: Final = ("rerank", "ranker", "compressor")

_INPUT: Final = ("traceloop.entity.input", "gen_ai.task.input")
_OUTPUT: Final = ("traceloop.entity.output", "gen_ai.task.output")
_NAME: Final = ("traceloop.entity.name",)
_VARIABLES: Final = ("traceloop.prompt.template_variables",)
_PROMPT_VERSION: Final = ("traceloop.prompt.version", "traceloop.prompt.version_name")
_PROPERTIES: Final = "traceloop.association.properties."
_SESSION: Final = ("session_id", "session.id", "thread_id", "conversation_id", "chat_id")
_USER: Final = ("user_id", "user.id")
_VERSION: Final = ("prompt_version",)
_OF_FRAMEWORK: Final = ("langgraph_", "ls_", "lc_", "checkpoint_ns", "__pregel_")
"""Properties that LangChain adds, which are not the application's."""
_OUTER: Final[Mapping[str, Paths]] = {
    "input": ("inputs", "input", "query", "args", "kwargs", "input_str"),
    "output": ("outputs", "output"),
}
"""Names under which an entity's input or output stands beside tags and metadata."""
_BESIDE: Final = frozenset({"tags", "metadata", "kwargs", "args", "count", *_OUTER["input"], *_OUTER["output"]})


class Traceloop(Dialect):
    """Traceloop's conventions."""

    name = "traceloop"

    @override
    def reads(self, span: TraceSpan) -> bool:
        attributes = span.attributes
        if attributes.get("openinference.span.kind") is not None:
            return False
        if "llm.request.type" in attributes or any(path.startswith((*_OWN, *_SEARCHES)) for path in attributes):
            return True
        is_below = any(path.startswith("traceloop.") for path in attributes)
        return is_below and any(path.startswith("gen_ai.") for path in attributes)

    @override
    def step(self, span: TraceSpan, logs: Sequence[TraceLog]) -> Step:
        values = Values(span.attributes)
        kind = _kind(span, values)
        properties = Values(values.below(_PROPERTIES))
        given = _unwrapped(values.json(_INPUT), "input")
        result = _unwrapped(values.json(_OUTPUT), "output")
        inputs, outputs = _messages(kind, given, result, conversation(values, span, logs))
        return Step(
            kind=kind,
            name=values.text(gen_ai.NAMES.get(kind, ())) or values.text(_NAME) or span.name or None,
            input=_input(kind, given, values, inputs),
            output=_output(kind, result, values, outputs),
            input_messages=inputs,
            output_messages=outputs,
            documents=_documents(kind, span, values),
            prompt_variables=_variables(values, given),
            model=values.text(gen_ai.MODEL),
            input_tokens=values.count(gen_ai.INPUT_TOKENS),
            output_tokens=values.count(gen_ai.OUTPUT_TOKENS),
            cost_usd=gen_ai.cost(values),
            finish_reason=gen_ai.finish_reason(values, logs),
            first_token_ns=gen_ai.first_token(values, span),
            error=gen_ai.error(span),
            session_id=properties.id(_SESSION) or values.id(gen_ai.SESSION),
            user_id=properties.id(_USER) or values.id(gen_ai.USER),
            prompt_version=properties.id(_VERSION) or values.id(_PROMPT_VERSION),
            metadata=_metadata(values),
            is_redacted=values.is_redacted(),
            is_cut=kind in {"retrieval", "rerank"} and values.is_cut(_OUTPUT),
        )


def _kind(span: TraceSpan, values: Values) -> StepKind:
    request = values.text(("llm.request.type",)) or ""
    if request in _REQUESTS:
        return _REQUESTS[request]
    kind = gen_ai.kind_of(values)
    entity = _KINDS.get(values.text(("traceloop.span.kind",)) or "", "other")
    if kind in {"llm", "embedding", "retrieval", "rerank", "tool"}:
        return kind
    if any(path.startswith(_SEARCHES) for path in span.attributes):
        return "retrieval"
    if entity in {"chain", "other"}:
        name = (values.text(_NAME) or span.name).lower()
        for names, named_kind in ((_RERANKERS, "rerank"), (_RETRIEVERS, "retrieval")):
            if any(part in name for part in names) and documents_of(values.json(_OUTPUT)) is not None:
                return "rerank" if named_kind == "rerank" else "retrieval"
    if entity in {"agent", "tool"}:
        return entity
    return entity if entity != "other" else kind


def _unwrapped(value: Any, side: str) -> Any:
    """Return the input or output of an entity without the tags and metadata beside it.

    >>> _unwrapped({"inputs": "hi", "tags": [], "metadata": {}, "kwargs": {}}, "input")
    'hi'
    >>> _unwrapped({"args": ["hi"], "kwargs": {}}, "input"), _unwrapped({"answer": "a"}, "output")
    ('hi', {'answer': 'a'})
    """
    if not isinstance(value, Mapping) or not _BESIDE.issuperset(value):
        return value
    for name in ("inputs", *_OUTER[side]):
        inner = value.get(name)
        if inner is not None and inner not in ([], {}):
            return inner[0] if name == "args" and isinstance(inner, list) and len(inner) == 1 else inner
    return value if not value else None


def _messages(kind: StepKind, given: Any, result: Any, found: Conversation) -> Conversation:
    """Return the messages of an entity; of a result that is the whole thread, those after the question."""
    inputs, outputs = found
    if kind in {"llm", "tool", "retrieval", "rerank", "embedding"}:
        return found
    more_inputs, more_outputs = conversation_in(given, result)
    return inputs if inputs is not None else more_inputs, outputs if outputs is not None else more_outputs


def _input(kind: StepKind, given: Any, values: Values, messages: Sequence[Message] | None) -> str | None:
    if kind == "tool":
        return as_text(given) if given is not None else values.text(gen_ai.ARGUMENTS)
    if kind == "retrieval":
        return question_in(given) or values.text(gen_ai.QUERY)
    return last_of(messages, "user") or question_in(given) if kind in {"agent", "chain"} else None


def _output(kind: StepKind, result: Any, values: Values, messages: Sequence[Message] | None) -> str | None:
    if kind == "tool":
        if result is None:
            return values.text(gen_ai.RESULT)
        said = thread_of([result]) if isinstance(result, Mapping) else None
        return last_of(said, "tool") or as_text(result)
    return last_of(messages, "assistant") or answer_in(result) if kind in {"agent", "chain"} else None


def _documents(kind: StepKind, span: TraceSpan, values: Values) -> tuple[Context, ...] | None:
    if kind not in {"retrieval", "rerank"}:
        return None
    found = documents_of(values.json(_OUTPUT))
    if found is None:
        found = documents_of(values.json(gen_ai.DOCUMENTS))
    return found if found is not None else _found_by_search(span)


def _found_by_search(span: TraceSpan) -> tuple[Context, ...] | None:
    """Return the documents in the events of a search in a vector database."""
    items: list[dict[str, Any]] = []
    for event in span.events:
        prefix = next((name + "." for name in _SEARCH_EVENTS if event.name == name), None)
        if prefix is None:
            continue
        fields = {name.removeprefix(prefix): value for name, value in event.attributes.items()}
        items.append({**fields, "metadata": decoded(fields.get("metadata")), "payload": decoded(fields.get("entity"))})
    return documents_of(items) if items else None


def _variables(values: Values, given: Any) -> dict[str, Any]:
    """Return the variables of a prompt: those of a managed prompt, or the input of LangChain's prompt template."""
    found = variables_of(values.json(_VARIABLES))
    options = as_mapping(as_mapping(values.json(_INPUT)).get("kwargs"))
    return found or (dict(given) if options.get("run_type") == "prompt" and isinstance(given, Mapping) else {})


def _metadata(values: Values) -> dict[str, Any]:
    known = {*_SESSION, *_USER, *_VERSION}
    return {
        name: value
        for name, value in values.below(_PROPERTIES).items()
        if name not in known and not name.startswith(_OF_FRAMEWORK)
    }
