"""The facets of an answer: the names under which it carries values, such as its documents and its version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragweir.metrics.cause.coded_facets import facets
from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction

APPLICATION, VERSION, MODEL, DOCUMENT, CHUNK = "application", "pipeline_version", "model", "document", "chunk"
OWN = (APPLICATION, VERSION, MODEL, "tenant", "environment")
"""Facets that are fields of the evaluation."""
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


def kind(facet: str) -> int:
    """Return the number of a facet's kind.

    >>> [KINDS[kind(facet)] for facet in ("model", "tenant", "document")]
    ['model', 'field', 'part']
    """
    if facet in KINDS:
        return KINDS.index(facet)
    return KINDS.index(FIELD if facet in OWN else PART)


def event_facets(event: Interaction) -> Iterator[tuple[str, str]]:
    """Yield the documents and chunks of an interaction.

    >>> dict(event_facets(Interaction(event_id="1", query="Who?", response="Ada.", contexts=[{"chunk_id": "c"}])))
    {'chunk': 'c'}
    """
    for context in (event.contexts or ())[:MAX_PARTS]:
        if context.document_id is not None:
            yield DOCUMENT, context.document_id
        if context.chunk_id is not None:
            yield CHUNK, context.chunk_id


def derived_facets(event: Interaction) -> Iterator[tuple[str, str]]:
    """Yield the facets that the evaluation of an event has, unless an earlier version of ragweir made it.

    >>> dict(derived_facets(Interaction(event_id="1", query="Who?", response="Ada.")))
    {'language': 'English', 'question_length': 'under 10 words', 'answer_length': 'under 10 words'}
    """
    for name, values in facets(event, View(event))[0].items():
        for value in values:
            yield name, value
