"""Makes spans by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragweir.streams.traces.span import SpanEvent, TraceSpan

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_000_000_000
BEGINNING = 1_764_000_000 * SECOND
QUESTION, ANSWER = "Who wrote it?", "Ada wrote it."


def id_of(name: str) -> str:
    """Return the span id that stands for a name."""
    return name.encode().hex().ljust(16, "0")[:16]


def span(
    name: str,
    parent: str | None = None,
    kind: str | None = None,
    at: tuple[float, float] = (0, 1),
    attributes: Mapping[str, Any] | None = None,
    **fields: Any,
) -> TraceSpan:
    """Return a span whose id follows from its name, of an OpenInference kind, or of none."""
    values: dict[str, Any] = {
        "trace_id": TRACE,
        "span_id": id_of(name),
        "parent_id": id_of(parent) if parent else None,
        "remote_parent": False,
        "name": name,
        "kind": 1,
        "started_ns": BEGINNING + int(at[0] * SECOND),
        "ended_ns": BEGINNING + int(at[1] * SECOND),
        "attributes": {**({"openinference.span.kind": kind} if kind else {}), **(attributes or {})},
        "resource": {"service.name": "app"},
        "scope": "made.up",
        "scope_version": "1",
    }
    return TraceSpan(**values | fields)


def chain(name: str, parent: str | None = None, at: tuple[float, float] = (0, 1), **fields: Any) -> TraceSpan:
    """Return a chain with question and answer."""
    return span(name, parent, "CHAIN", at, {"input.value": QUESTION, "output.value": ANSWER}, **fields)


def llm(
    name: str,
    parent: str | None = None,
    at: tuple[float, float] = (0, 1),
    messages: Sequence[tuple[str, str]] = (("user", QUESTION),),
    said: str | None = ANSWER,
    **fields: Any,
) -> TraceSpan:
    """Return a call of a model with 10 tokens of input and 2 of output."""
    attributes: dict[str, Any] = {
        "llm.model_name": "m-1", "llm.token_count.prompt": 10, "llm.token_count.completion": 2,
    }  # fmt: skip
    for place, (role, text) in enumerate(messages):
        attributes[f"llm.input_messages.{place}.message.role"] = role
        attributes[f"llm.input_messages.{place}.message.content"] = text
    attributes["llm.output_messages.0.message.role"] = "assistant"
    if said is not None:
        attributes["llm.output_messages.0.message.content"] = said
    return span(name, parent, "LLM", at, attributes, **fields)


def documents(texts: Mapping[str, str], prefix: str = "retrieval.documents") -> dict[str, Any]:
    """Return the attributes of documents, given as texts by id."""
    found: dict[str, Any] = {}
    for place, (id_, text) in enumerate(texts.items()):
        found[f"{prefix}.{place}.document.id"] = id_
        found[f"{prefix}.{place}.document.content"] = text
    return found


def retrieval(
    name: str,
    texts: Mapping[str, str],
    parent: str | None = None,
    at: tuple[float, float] = (0, 1),
    query: str = QUESTION,
    **fields: Any,
) -> TraceSpan:
    """Return a retrieval that found documents, given as texts by id."""
    return span(name, parent, "RETRIEVER", at, {"input.value": query, **documents(texts)}, **fields)


def event(name: str, at: float, **attributes: Any) -> SpanEvent:
    """Return an event of a span."""
    return SpanEvent(name, BEGINNING + int(at * SECOND), attributes)
