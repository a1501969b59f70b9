"""The facets of an answer: the names under which it carries values, such as its documents and its version."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Mapping

from ragweir.metrics.text.text import Text
from ragweir.schemas.interaction import Context, Interaction

APPLICATION, VERSION, MODEL, DOCUMENT = "application", "pipeline_version", "model", "document"
OWN = (APPLICATION, VERSION, MODEL, "tenant", "environment")
"""Facets that are fields of the evaluation."""
OF_EVENTS = frozenset("chunk retrieval_method rank tool tool_error language question_length answer_length".split())
"""Facets that come from events alone. Those of labels are named `labels.NAME`."""
NOT_HELD: Mapping[str, frozenset[str]] = {
    APPLICATION: frozenset({APPLICATION}),
    VERSION: frozenset({VERSION, MODEL, APPLICATION}),
}
"""Fields that are equal in a stratum, with the facets whose values are compared whatever the field is: a version
belongs to one application, and a model mostly to some versions."""
FIELD, PART = "field", "part"
KINDS = (APPLICATION, VERSION, MODEL, FIELD, PART)
"""Kinds of facets, by how their values are compared: fields of which an event has one value, and all others."""
MAX_PARTS = 64
"""Number of documents, chunks, labels and steps of one event that count, the first ones."""
_LANGUAGE_CHARACTERS = 400
_MOST_RANK = 64
_LENGTHS = (10, 40, 160, 640)
_LENGTH_NAMES = ("under 10 words", "10 to 39 words", "40 to 159 words", "160 to 639 words", "640 words or more")


def kind(facet: str) -> int:
    """Return the number of a facet's kind.

    >>> [KINDS[kind(facet)] for facet in ("model", "tenant", "document")]
    ['model', 'field', 'part']
    """
    if facet in KINDS:
        return KINDS.index(facet)
    return KINDS.index(FIELD if facet in OWN else PART)


def event_facets(event: Interaction) -> Iterator[tuple[str, str]]:
    """Yield the facets of an interaction with their values, without those that its evaluation has.

    >>> event = Interaction(event_id="1", query="Who?", response="Ada.", contexts=[{"chunk_id": "c", "rank": 2}])
    >>> dict(event_facets(event))  # doctest: +NORMALIZE_WHITESPACE
    {'chunk': 'c', 'rank': '2', 'language': 'English', 'question_length': 'under 10 words',
     'answer_length': 'under 10 words'}
    """
    contexts = (event.contexts or ())[:MAX_PARTS]
    for context in contexts:
        yield from _of_context(context)
    ranks = [each.rank for each in contexts if each.rank is not None and 0 <= each.rank <= _MOST_RANK]
    if ranks:  # The best alone: further ranks say how many chunks there are.
        yield "rank", str(min(ranks))
    for span in [each for each in event.spans or () if each.kind == "tool" and each.name][:MAX_PARTS]:
        yield "tool", str(span.name)
        if span.error is not None:
            yield "tool_error", str(span.name)
    if event.query is not None:
        if (language := _language(event.query)) is not None:
            yield "language", language
        yield "question_length", length_class(event.query)
    if event.response is not None:
        yield "answer_length", length_class(event.response)


def _of_context(context: Context) -> Iterator[tuple[str, str]]:
    named = (DOCUMENT, context.document_id), ("chunk", context.chunk_id)
    for facet, value in (*named, ("retrieval_method", context.retrieval_method)):
        if value is not None:
            yield facet, value


def length_class(text: str) -> str:
    """Return the class of a text's length.

    >>> length_class("one two"), length_class("word " * 40)
    ('under 10 words', '40 to 159 words')
    """
    return _LENGTH_NAMES[bisect(_LENGTHS, len(text.split(None, _LENGTHS[-1])))]


def _language(text: str) -> str | None:
    """Return English, or the script of another language; None without letters."""
    found = Text(text[:_LANGUAGE_CHARACTERS])
    if found.script is None:
        return None
    return "English" if found.is_supported else f"{found.script}, not English"
