"""Documents of retrievals, and questions and answers of chains, in the forms in which frameworks write them as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragweir.schemas.interaction import Context, Message
from ragweir.schemas.traces.contexts import MAX_CONTEXTS
from ragweir.schemas.traces.dialects.gen_ai_messages import divided, last_text, messages_of
from ragweir.schemas.traces.dialects.gen_ai_values import as_id, as_mapping, decoded, first
from ragweir.schemas.traces.values import as_number, as_text

_LISTS = ("documents", "source_documents", "source_nodes", "nodes", "results", "matches", "points", "outputs", "output")
"""Names under which results hold their documents."""
_WRAPPERS = ("kwargs", "node", "document", "payload")
"""Names under which one document holds its fields: LangChain, LlamaIndex, rerankers, vector databases."""
_TEXT = ("page_content", "content", "text", "document", "chunk", "snippet")
_CHUNK_ID = ("chunk_id", "id", "id_", "node_id", "_id", "doc_id")
_DOCUMENT_ID = ("document_id", "doc_id", "ref_doc_id", "source_id", "source", "file_name", "file_path", "url")
_SCORE = ("score", "relevance_score", "similarity", "similarity_score", "_score")
_PAGE = ("page", "page_number", "page_label")
_METADATA = ("metadata", "meta", "extra_info")
_QUESTION = ("question", "query", "query_str", "input", "user_input", "user_query", "user_message", "prompt", "message",
             "text", "content")  # fmt: skip
_ANSWER = ("answer", "response", "result", "final_result", "output", "outputs", "reply", "replies", "text", "content")
_RETRIEVED = ("context", "doc", "source", "chunk", "history")
_DEPTH = 6


def documents_of(value: Any) -> tuple[Context, ...] | None:
    """Return the documents in a value, best first, or None if it holds no list of documents; at most `MAX_CONTEXTS`.

    A document without a text has an empty one; it has an id or a score.

    >>> found = documents_of('{"documents": [{"page_content": "a", "metadata": {"chunk_id": "c1", "source": "s"}}]}')
    >>> [(document.text, document.chunk_id, document.document_id) for document in found]
    [('a', 'c1', 's')]
    >>> documents_of([{"id": "d1", "score": 0.5}])[0].score, documents_of([]), documents_of(["a"])
    (0.5, (), None)
    """
    value = decoded(value)
    for _ in range(_DEPTH):
        if not isinstance(value, Mapping):
            break
        value = decoded(first(value.get(name) for name in _LISTS))
    if not isinstance(value, list | tuple):
        return None
    items = [decoded(item) for item in value[:MAX_CONTEXTS]]
    found = [_document(item) for item in items if isinstance(item, Mapping)]
    if len(found) < len(items) or (found and not any(found)):
        return None
    return tuple(document or Context() for document in found)


def _document(item: Mapping[str, Any]) -> Context | None:
    layers = [item, *(item[name] for name in _WRAPPERS if isinstance(item.get(name), Mapping))]
    metadata = [layer[name] for layer in layers for name in _METADATA if isinstance(layer.get(name), Mapping)]
    text = first(as_text(value) for value in _fields(layers, _TEXT) if not isinstance(value, Mapping))
    own_id = first(as_id(value) for value in _fields(layers, _CHUNK_ID))
    chunk_id = first(as_id(layer.get("chunk_id")) for layer in [*layers, *metadata]) or own_id
    score = first(as_number(value) for value in _fields(layers, _SCORE))
    if text is None and chunk_id is None and score is None:
        return None
    return context(
        text=text if text is not None else first(as_text(value) for value in _fields(metadata, _TEXT)),
        chunk_id=chunk_id,
        document_id=first(as_id(value) for value in _fields([*metadata, *layers], _DOCUMENT_ID)),
        score=score,
        page=first(as_id(value) for value in _fields([*metadata, *layers], _PAGE)),
    )


def context(
    *, text: str | None, chunk_id: str | None, document_id: str | None, score: float | None, page: str | None = None
) -> Context:
    """Return a document of these values; those that are None are not set."""
    values = {"text": text, "chunk_id": chunk_id, "document_id": document_id, "score": score, "page": page}
    return Context(**{name: value for name, value in values.items() if value is not None})


def _fields(layers: list[Mapping[str, Any]], names: tuple[str, ...]) -> Iterator[Any]:
    return (layer[name] for layer in layers for name in names if layer.get(name) is not None)


def thread_of(value: Any) -> tuple[Message, ...] | None:
    """Return the messages in the input or output of a chain, or None if it has no list of them.

    >>> thread_of({"messages": [["user", "hi"]]}), thread_of("hi"), thread_of({"question": "hi"})
    ((Message(role='user', text='hi'),), None, None)
    """
    value = decoded(value)
    if isinstance(value, Mapping) and "messages" not in value and not _is_message(value):
        inner = [part for part in value.values() if isinstance(part, Mapping) and "messages" in part]
        value = inner[0] if len(inner) == 1 else None
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return None
    return messages_of(value) if isinstance(value, Mapping | list | tuple) else None


def _is_message(value: Mapping[str, Any]) -> bool:
    return bool(value.get("lc")) or "role" in value or "parts" in value


def question_of(value: Any) -> str | None:
    """Return the question in the input of a chain.

    It is the input itself, a field with a known name, its only field, or the user's last message.

    >>> question_of("hi"), question_of('{"question": "hi"}'), question_of({"messages": [["user", "hi"]]})
    ('hi', 'hi', 'hi')
    >>> question_of({"a": "x", "b": "y"}), question_of({"input": ""}), question_of(None)
    (None, None, None)
    """
    return _told(value, _QUESTION, "user")


def answer_of(value: Any) -> str | None:
    """Return the answer in the output of a chain, as `question_of`; of messages, the assistant's last one.

    >>> answer_of({"answer": "yes", "source_documents": []}), answer_of({"messages": [["user", "q"], ["ai", "a"]]})
    ('yes', 'a')
    """
    return _told(value, _ANSWER, "assistant")


def _told(value: Any, names: tuple[str, ...], role: str) -> str | None:
    for _ in range(_DEPTH):
        if isinstance(value, str):
            inner = decoded(value) if value.startswith(("{", "[")) else value
            if isinstance(inner, str):
                return as_text(value) or None
            value = inner
        messages = thread_of(value)
        if messages is not None:
            after = divided(messages)[1] if role == "assistant" else messages
            return last_text(after, role)
        if isinstance(value, list | tuple) and len(value) == 1:
            value = value[0]
        elif isinstance(value, Mapping):
            value = first(value.get(name) or None for name in names) or _only_value(value)
        else:
            return None
    return None


def _only_value(value: Mapping[str, Any]) -> Any:
    """Return the value of a mapping with one entry, unless it is a retrieved text."""
    name, inner = next(iter(value.items()), ("", None))
    return inner if len(value) == 1 and not str(name).lower().startswith(_RETRIEVED) else None


def variables_of(value: Any) -> dict[str, Any]:
    """Return the variables of a prompt.

    >>> variables_of('{"context": "c"}'), variables_of([1])
    ({'context': 'c'}, {})
    """
    return dict(as_mapping(decoded(value)))
