"""The contexts of an interaction: the documents of its retrievals, or else tool results or prompt variables.

The order is that of the beginnings of the retrievals, and within one that of the retriever. A chunk that occurs again
is left out. A rerank stands in place of the retrieved documents that it was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.interaction import Context
from ragweir.streams.traces.attribute_values import as_text, parsed
from ragweir.streams.traces.messages import text_of
from ragweir.streams.traces.step import Step

MAX_CONTEXTS = DEFAULT_MAX_ITEMS["contexts"] + 1
"""Maximum number of contexts: one more than intake keeps, so that it flags the cut."""
CONTEXT_VARIABLES = (
    *("context", "contexts", "context_str", "documents", "docs", "text_chunks", "chunks", "passages", "sources"),
    *("context_list", "retrieved_context", "retrieved_documents", "knowledge", "search_results"),
)
"""Names of the prompt variables that hold contexts."""
_TEXT_KEYS = ("text", "content", "page_content", "document", "body", "snippet")
_Key = tuple[str, str | None]


def _key(context: Context) -> _Key:
    """Return the identity of a chunk: its id, or else its text."""
    return ("id", context.chunk_id) if context.chunk_id is not None else ("text", context.text or "")


def merged(steps: Iterable[Step]) -> tuple[Context, ...] | None:
    """Return the contexts of retrievals and reranks, given in the order of their beginnings.

    >>> one, two = Context(text="a", chunk_id="1"), Context(text="b", chunk_id="2")
    >>> found = merged([Step("retrieval", documents=(one, two)), Step("rerank", documents=(two,))])
    >>> [(context.chunk_id, context.rank) for context in found]
    [('2', 1)]

    Returns:
        the contexts, which may be empty; None if no step has documents.
    """
    found: dict[_Key, Context] | None = None
    for step in steps:
        if step.documents is None:
            continue
        known = {} if found is None else found
        if step.kind == "rerank":
            given = {_key(each) for each in step.reranked} if step.reranked else set(known)
            given |= {_key(each) for each in step.documents}
            found = {key: each for key, each in known.items() if key not in given}
            # The best first: what it was not given follows.
            found = {_key(each): _completed(each, known.get(_key(each))) for each in step.documents} | found
        else:
            found = known
            for each in step.documents:
                found.setdefault(_key(each), each)
    if found is None:
        return None
    return ranked(found.values())


def _completed(context: Context, known: Context | None) -> Context:
    """Return a reranked chunk with what only its retrieval said."""
    if known is None:
        return context
    own = {name: value for name in type(context).model_fields if (value := getattr(context, name)) not in (None, "")}
    return known.model_copy(update=own)


def ranked(contexts: Iterable[Context]) -> tuple[Context, ...]:
    """Return the contexts with their ranks, from 1, and as many as are kept."""
    kept = list(contexts)[:MAX_CONTEXTS]
    return tuple(context.model_copy(update={"rank": rank}) for rank, context in enumerate(kept, 1))


def has_texts(contexts: Sequence[Context] | None) -> bool:
    """Return whether each context has a text."""
    return contexts is not None and all(context.text for context in contexts)


def texts_in(variables: Mapping[str, Any]) -> list[str]:
    """Return the texts of the contexts among prompt variables.

    >>> texts_in({"question": "Who?", "context": "Ada wrote it."}), texts_in({"docs": '[{"content": "a"}, "b"]'})
    (['Ada wrote it.'], ['a', 'b'])
    """
    for name in CONTEXT_VARIABLES:
        value = parsed(variables.get(name))
        if isinstance(value, str) and value.strip():
            text = as_text(value)
            return [text] if text else []
        if isinstance(value, list):
            texts = [text for each in value[:MAX_CONTEXTS] if (text := _document_text(each))]
            if texts:
                return texts
    return []


def _document_text(value: object) -> str | None:
    if isinstance(value, dict):
        return next((text for key in _TEXT_KEYS if (text := text_of(value.get(key)))), None)
    return as_text(value) if isinstance(value, str) else None


def with_texts(documents: Sequence[Context] | None, texts: Sequence[str]) -> tuple[Context, ...]:
    r"""Return contexts with these texts, and with the ids of the documents if the texts can be told apart.

    One text that has as many paragraphs, or else lines, as there are documents is divided among them.

    >>> found = with_texts((Context(chunk_id="1"), Context(chunk_id="2")), ["Ada wrote it.\nGrace read it."])
    >>> [(context.chunk_id, context.text) for context in found]
    [('1', 'Ada wrote it.'), ('2', 'Grace read it.')]
    """
    texts = list(dict.fromkeys(texts))
    if documents:
        for parts in (texts, *([texts[0].split("\n\n"), texts[0].split("\n")] if len(texts) == 1 else ())):
            if len(parts) == len(documents) and all(part.strip() for part in parts):
                pairs = zip(documents, parts, strict=True)
                return ranked(document.model_copy(update={"text": part}) for document, part in pairs)
    return ranked(Context(text=text) for text in texts)
