"""OpenInference, the convention of Arize Phoenix: attributes are flat, and lists are spread over numbered keys.

LangChain, LlamaIndex, Haystack, DSPy, OpenAI Agents, PydanticAI and the clients of models write it. The conventions:
https://arize-ai.github.io/openinference/spec/semantic_conventions.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from ragweir.schemas.interaction import Context
from ragweir.streams.traces.attribute_values import (
    REDACTED,
    Numbered,
    as_count,
    as_name,
    as_number,
    as_object,
    as_text,
    first,
    parsed,
)
from ragweir.streams.traces.contexts import CONTEXT_VARIABLES
from ragweir.streams.traces.messages import choices_of, last_of, messages_of, text_of
from ragweir.streams.traces.questions import Conversation, answer_in, conversation_in, question_in
from ragweir.streams.traces.span import Attributes, TraceLog, TraceSpan
from ragweir.streams.traces.step import Dialect, Step, StepKind

_KIND = "openinference.span.kind"
_KINDS: Mapping[str, StepKind] = {
    "LLM": "llm",
    "EMBEDDING": "embedding",
    "RETRIEVER": "retrieval",
    "RERANKER": "rerank",
    "TOOL": "tool",
    "AGENT": "agent",
    "CHAIN": "chain",
    "PROMPT": "chain",
    "UNKNOWN": "chain",
    "GUARDRAIL": "other",
    "EVALUATOR": "other",
    "DECISION": "other",
}
_DOCUMENTS, _RERANKED = "retrieval.documents", "reranker.output_documents"
_GIVEN = "reranker.input_documents"
_INPUTS, _OUTPUTS = "llm.input_messages", "llm.output_messages"
_PROMPTS, _CHOICES = "llm.prompts", "llm.choices"
_TEXTS = "embedding.embeddings"
_LISTS = (_DOCUMENTS, _RERANKED, _GIVEN, _INPUTS, _OUTPUTS, _PROMPTS, _CHOICES, _TEXTS)

_NAMES: Mapping[StepKind, Sequence[str]] = {
    "llm": ("llm.model_name",),
    "embedding": ("embedding.model_name",),
    "rerank": ("reranker.model_name",),
    "tool": ("tool.name", "tool_call.function.name"),
    "agent": ("agent.name", "graph.node.name", "graph.node.id"),
}
"""Attributes that hold the name of a step, by its kind; without one it is that of the span."""
_MODEL = ("llm.model_name", "embedding.model_name", "reranker.model_name")
_SESSION = ("session.id",)
_USER = ("user.id",)
_PROMPT_VERSION = ("llm.prompt_template.version", "prompt.version")
_SESSION_METADATA = ("session_id", "thread_id", "conversation_id")
_USER_METADATA = ("user_id", "user")
_PROMPT_METADATA = ("prompt_version", "prompt_template_version")
"""Names in the attribute `metadata`, which applications fill as they like."""
_CHUNK_ID = ("chunk_id", "id", "_id", "uuid", "node_id")
_DOCUMENT_ID = (
    *("document_id", "doc_id", "source_id", "source", "file_name", "filename", "file_path", "path", "url", "title"),
)
_SCORE = ("score", "relevance_score", "_score", "similarity", "similarity_score")
_PAGE = ("page", "page_number", "page_label")
_METHOD = ("retrieval_method", "search_type", "retriever")
"""Names in the metadata of a document."""
_METHODS = (
    (re.compile("bm25|tfidf|keyword|sparse|full_?text", re.IGNORECASE), "bm25"),
    (re.compile("ensemble|hybrid|fusion", re.IGNORECASE), "hybrid"),
    (re.compile("vector|embedding|dense|knn|semantic|faiss|chroma|qdrant", re.IGNORECASE), "knn"),
)
"""Methods by the name of the retriever, in this order."""
_FIRST_TOKEN = "First Token Stream Event"  # noqa: S105 - the name of an event
_CALL_MARKS = ("llm.token_count.", "llm.finish_reason", f"{_INPUTS}.", f"{_OUTPUTS}.", f"{_PROMPTS}.", f"{_CHOICES}.")
"""Beginnings of the keys of which a span of a model's call has one."""
_TOOL_RESULT = ("content", "text", "blocks", "output", "result", "raw_output")


class OpenInference(Dialect):
    """Spans with the attribute `openinference.span.kind`."""

    name = "openinference"

    @override
    def reads(self, span: TraceSpan) -> bool:
        return _KIND in span.attributes

    @override
    def step(self, span: TraceSpan, logs: Sequence[TraceLog]) -> Step:
        attributes = span.attributes
        kind = _KINDS.get((as_text(attributes.get(_KIND)) or "").upper(), "chain")
        numbered = Numbered(attributes, _LISTS)
        if kind == "llm" and _is_wrapper(span):
            kind = "chain"
        metadata = as_object(attributes.get("metadata"))
        error, given, result = None, parsed(attributes.get("input.value")), parsed(attributes.get("output.value"))
        inputs, outputs = _conversation(numbered, kind, given, result)
        if kind == "tool":
            question, (answer, error) = as_text(attributes.get("input.value")), _tool_result(attributes)
        elif kind in ("llm", "embedding", "rerank"):
            question, answer = None if inputs else _call_input(attributes, numbered, kind, given), None
            if kind == "llm" and outputs is None:
                answer = answer_in(result)
        else:
            question = last_of(inputs, "user") or question_in(given)
            answer = last_of(outputs, "assistant") or answer_in(result)
        documents, is_cut = _step_documents(span, kind, numbered, metadata)
        prompt, completion = attributes.get("llm.token_count.prompt"), attributes.get("llm.token_count.completion")
        return Step(
            kind=kind,
            name=as_name(first(attributes, _NAMES.get(kind, ()))) or as_name(span.name),
            input=question,
            output=answer,
            input_messages=inputs,
            output_messages=outputs,
            documents=documents,
            prompt_variables=_prompt_variables(attributes, given if kind == "chain" else None),
            model=as_name(first(attributes, _MODEL)) or _asked_model(attributes),
            input_tokens=as_count(prompt),
            output_tokens=as_count(completion),
            cost_usd=_cost(attributes),
            finish_reason=as_name(attributes.get("llm.finish_reason")),
            first_token_ns=next((event.time_ns for event in span.events if event.name == _FIRST_TOKEN), None),
            error=error,
            session_id=as_name(first(attributes, _SESSION)) or as_name(first(metadata, _SESSION_METADATA)),
            user_id=as_name(first(attributes, _USER)) or as_name(first(metadata, _USER_METADATA)),
            prompt_version=as_name(first(attributes, _PROMPT_VERSION)) or as_name(first(metadata, _PROMPT_METADATA)),
            metadata=dict(metadata),
            reranked=_contexts(numbered[_GIVEN], None)[0] if kind == "rerank" else None,
            is_redacted=any(value == REDACTED for value in attributes.values()),
            is_cut=is_cut,
        )


def _is_wrapper(span: TraceSpan) -> bool:
    """Return whether a span of kind LLM calls no model itself, as LlamaIndex's `predict` and its preparation of tools.

    Hidden content leaves the counts of tokens and the reason for the finish; a failed call has nothing but its error.
    """
    if "llama_index" not in span.scope or span.error is not None or span.events:
        return False
    return not any(key.startswith(_CALL_MARKS) for key in span.attributes)


# Messages and texts.


def _conversation(numbered: Numbered, kind: StepKind, given: object, result: object) -> Conversation:
    """Return the messages that went in and came out, of the attributes or the values.

    The attributes of an agent have but the first message of its thread.
    """
    inputs = messages_of(_messages(numbered, _INPUTS, _PROMPTS, "prompt"))
    outputs = choices_of(_messages(numbered, _OUTPUTS, _CHOICES, "completion"))
    if kind not in ("llm", "chain", "agent") or (kind == "llm" and inputs is not None and outputs is not None):
        return inputs, outputs
    of_values = conversation_in(given, result, "assistant" if kind == "llm" else "user")
    sides = zip((inputs, outputs), of_values, strict=True)
    found = [own if kind == "llm" and own is not None else other if other is not None else own for own, other in sides]
    return found[0], found[1]


def _messages(numbered: Numbered, name: str, other: str, text: str) -> list[Any] | None:
    """Return the messages of a call, or its prompts or completions where the model takes texts."""
    messages: list[Any] = [_message(fields) for fields in numbered[name].values()]
    return messages or [fields.get(f"{text}.text") for fields in numbered[other].values()] or None


def _message(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in the form of OpenAI's API."""
    content = fields.get("message.content")
    parts = [
        {name.removeprefix("message_content."): value for name, value in part.items()}
        for part in Numbered(fields, ("message.contents",))["message.contents"].values()
    ]
    return {
        "role": fields.get("message.role"),
        "content": content if content is not None else parts or None,
        "tool_calls": any(name.startswith("message.tool_calls.") for name in fields),
        "tool_call_id": fields.get("message.tool_call_id"),
    }


def _call_input(attributes: Attributes, numbered: Numbered, kind: StepKind, given: object) -> str | None:
    """Return the text that a call was given, other than messages."""
    if kind == "embedding":
        texts = [text for each in numbered[_TEXTS].values() if (text := as_text(each.get("embedding.text")))]
        return "\n".join(texts) if texts else question_in(given)
    if kind == "rerank":
        return as_text(attributes.get("reranker.query")) or question_in(given)
    return question_in(given)


def _asked_model(attributes: Attributes) -> str | None:
    """Return the model that a call asked for, which is all that a failed one has."""
    return as_name(first(as_object(attributes.get("llm.invocation_parameters")), ("model", "model_name")))


def _tool_result(attributes: Attributes) -> tuple[str | None, str | None]:
    """Return the result of a tool as text, and its error if it is one."""
    raw = attributes.get("output.value")
    value = parsed(raw)
    error = None
    if isinstance(value, dict):
        inner = value.get("data") if isinstance(value.get("data"), dict) else value.get("kwargs")
        said = inner if isinstance(inner, dict) and "content" in inner else value
        text = text_of(first(said, _TOOL_RESULT))
        if said.get("status") == "error" or said.get("is_error") is True:
            error = text or "error"
        if text is not None and (said is not value or not value.keys().isdisjoint(("blocks", "tool_name", "type"))):
            return text, error
    return as_text(raw), error


def _prompt_variables(attributes: Attributes, inputs: object) -> dict[str, Any]:
    """Return the variables of the prompt, or the inputs of a chain by name if they hold contexts, as in DSPy."""
    variables = as_object(attributes.get("llm.prompt_template.variables"))
    if not variables and isinstance(inputs, dict) and not inputs.keys().isdisjoint(CONTEXT_VARIABLES):
        variables = inputs
    return {str(name): value for name, value in variables.items() if value != REDACTED}


def _cost(attributes: Attributes) -> float | None:
    total = as_number(attributes.get("llm.cost.total"))
    if total is None:
        parts = [as_number(attributes.get(f"llm.cost.{part}")) for part in ("prompt", "completion")]
        total = sum(part for part in parts if part is not None) if any(part is not None for part in parts) else None
    return total if total is not None and total >= 0 else None


# Documents.


def _step_documents(
    span: TraceSpan, kind: StepKind, numbered: Numbered, metadata: Mapping[str, Any]
) -> tuple[tuple[Context, ...] | None, bool]:
    """Return the documents of a retrieval or rerank, and whether the first of them are missing."""
    if kind not in ("retrieval", "rerank"):
        return None, False
    items = numbered[_RERANKED if kind == "rerank" else _DOCUMENTS] or numbered[_DOCUMENTS]
    output = parsed(span.attributes.get("output.value")) if not items or not _has_ids(items.values()) else None
    if items:
        method = _method(first(metadata, ("ls_retriever_name",)), span.name) if kind == "retrieval" else None
        return _contexts(items, method, _listed(output))
    if kind == "retrieval" and _listed(output) == [] and span.error is None:
        return (), False  # It says that it found none.
    return None, False


def _has_ids(items: Iterable[Mapping[str, Any]]) -> bool:
    return all(each.get("document.id") is not None for each in items)


def _listed(output: object) -> list[Any] | None:
    """Return the list of documents in an output, such as LangChain's; None if it holds none."""
    found = output.get("documents") if isinstance(output, dict) else output
    return found if isinstance(found, list) else None


def _contexts(
    items: Mapping[int, Mapping[str, Any]], method: str | None, listed: Sequence[Any] | None = None
) -> tuple[tuple[Context, ...] | None, bool]:
    """Return the contexts of numbered documents, None if all are redacted, and whether numbers are missing."""
    found = []
    for index, fields in items.items():
        other = listed[index] if listed and index < len(listed) and isinstance(listed[index], dict) else {}
        if (context := _context(fields, other, method)) is not None:
            found.append(context)
    is_cut = bool(items) and max(items) != len(items) - 1
    return (tuple(found) if found or not items else None), is_cut


def _context(fields: Mapping[str, Any], listed: Mapping[str, Any], method: str | None) -> Context | None:
    metadata = as_object(fields.get("document.metadata"))
    text, document_id = as_text(fields.get("document.content")), as_name(fields.get("document.id"))
    chunk_id = as_name(metadata.get("chunk_id")) or document_id or as_name(listed.get("id"))
    chunk_id = chunk_id or as_name(first(metadata, _CHUNK_ID))
    if text is None and chunk_id is None:
        return None
    score = as_number(fields.get("document.score"))
    page = first(metadata, _PAGE)
    return Context(
        **({"text": text} if text is not None else {}),
        chunk_id=chunk_id,
        document_id=as_name(first(metadata, _DOCUMENT_ID)),
        score=score if score is not None else as_number(first(metadata, _SCORE)),
        page=page if isinstance(page, int) and not isinstance(page, bool) else as_name(page),
        retrieval_method=_method(first(metadata, _METHOD), "") or method,
    )


def _method(said: object, name: str) -> str | None:
    """Return the method of a retriever, by its own words or else by its name.

    >>> _method(None, "BM25Retriever"), _method("vectorstore", "R"), _method(None, "Retriever")
    ('bm25', 'knn', None)
    """
    for text in (as_text(said), name):
        for pattern, method in _METHODS:
            if text and pattern.search(text):
                return method
    return None
