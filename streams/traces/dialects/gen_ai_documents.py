"""Documents of retrievals in the forms in which frameworks write them as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragweir.schemas.interaction import Context
from ragweir.streams.traces.attribute_values import as_number, as_text
from ragweir.streams.traces.contexts import MAX_CONTEXTS
from ragweir.streams.traces.dialects.gen_ai_values import as_id, as_mapping, decoded, first

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


def variables_of(value: Any) -> dict[str, Any]:
    """Return the variables of a prompt.

    >>> variables_of('{"context": "c"}'), variables_of([1])
    ({'context': 'c'}, {})
    """
    return dict(as_mapping(decoded(value)))
