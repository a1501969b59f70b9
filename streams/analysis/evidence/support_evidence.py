"""The support of an answer by its passages, and what is shown of an event on one screen, which is bounded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ragweir.metrics.support_spans import SupportSpans, WordSpan, support_spans
from ragweir.metrics.unavailable import LIST_CUT, Unavailable
from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction

MAX_TEXT = 8_000
MAX_PASSAGE = 2_000
MAX_PASSAGES = 20
MAX_SENTENCE = 400
MAX_SENTENCES = 20
_MAX_WORDS = 20
_MAX_WORD = 40
"""Limits on what is shown of one event: characters, passages, sentences, and words of a sentence."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The support of an answer, or the reason why there is none."""

    spans: SupportSpans | None
    why: str = ""


def evidence_of(view: View) -> Evidence:
    """Return the support of an event's answer by its contexts."""
    try:
        spans = support_spans(view)
    except Unavailable as error:
        cut = str(error) == LIST_CUT
        return Evidence(None, f"the {'contexts were cut' if cut else 'content of answer or contexts was not captured'}")
    if spans is None:
        return Evidence(None, "the event has no contexts, so that support is not known")
    return Evidence(spans)


def unsupported(words: Iterable[WordSpan], text: str) -> tuple[list[str], list[str]]:
    """Return the distinct words in no passage, as the answer has them, and those of them that the question has.

    Each list has at most 20 words, cut at 40 characters.
    """
    found: dict[str, tuple[str, bool]] = {}
    for word in words:
        found.setdefault(word.stem, (cut(text[word.start : word.stop], _MAX_WORD), word.in_query))
    own = [word for word, in_query in found.values() if not in_query]
    asked = [word for word, in_query in found.values() if in_query]
    return own[:_MAX_WORDS], asked[:_MAX_WORDS]


def cut(text: str, most: int) -> str:
    """Return the first characters of a text, with the number of the others.

    >>> cut("abcdef", 3), cut("abc", 3)
    ('abc… (3 more)', 'abc')
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more)"


def text_data(event: Interaction) -> dict[str, Any]:
    """Return the texts of an event as JSON has them, within the limits."""
    contexts = event.contexts
    return {
        "query": event.query and cut(event.query, MAX_TEXT),
        "response": event.response and cut(event.response, MAX_TEXT),
        "contexts": contexts
        and [
            {"document_id": each.document_id, "text": each.text and cut(each.text, MAX_PASSAGE)}
            for each in contexts[:MAX_PASSAGES]
        ],
        "contexts_left_out": max(0, len(contexts or ()) - MAX_PASSAGES),
    }
