"""Facets of an event: short coded values by which answers are grouped, such as the tools that were called.

At most 32 values of at most 1 KB of JSON. They come from the fields of an event and from the counts in its texts, which
the kernel and the reference give alike.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b

import orjson

from ragweir.metrics.counts import Counts
from ragweir.metrics.view import View
from ragweir.schemas.interaction import Context, Interaction, Span

FACETS = ("rank", "retrieval_method", "tool", "tool_error", "language", "question_length", "answer_length")
"""The names, in the order in which an evaluation has them."""
MAX_BYTES = 1024
"""Largest size of the facets of an event as JSON."""
CUT_FACETS = "facets_cut"
"""The flag of an evaluation that lacks values of facets, since there were too many or they were too long."""
_MOST_OF_ONE = 9
"""Most methods, tools and failed tools of one event, so that there are at most 31 values in all."""
_LONGEST = 64
_DIGEST_BYTES = 8
_MOST_RANK = 64
_LENGTHS = (10, 40, 160, 640)
_LENGTH_NAMES = ("under 10 words", "10 to 39 words", "40 to 159 words", "160 to 639 words", "640 words or more")
_KEPT = 4_096
"""Number of distinct facets of events that are kept, so that they are made once."""
_Key = tuple[int | None, tuple[str, ...], tuple[str, ...], tuple[str, ...], str | None, int | None, int | None]


def facets(event: Interaction, view: View) -> tuple[Mapping[str, tuple[str, ...]], bool]:
    """Return the facets of an event by name, and whether values were left out.

    >>> event = Interaction(event_id="1", query="Who?", response="Ada.", contexts=[{"text": "Ada.", "rank": 2}],
    ...                     spans=[{"kind": "tool", "name": "search", "error": "timeout"}])
    >>> facets(event, View(event))[0]  # doctest: +NORMALIZE_WHITESPACE
    {'rank': ('2',), 'tool': ('search',), 'tool_error': ('search',), 'language': ('English',),
     'question_length': ('under 10 words',), 'answer_length': ('under 10 words',)}

    Args:
        event: the event.
        view: its view.
    """
    rank, methods = _of_contexts(event.contexts or ())
    tools, failed = _of_tools(event.spans) if event.spans else ((), ())
    language: str | None = None
    query: int | None = None
    answer: int | None = None
    if event.query is not None:
        query = bisect(_LENGTHS, view.counts.query_tokens)
    if event.response is not None:
        answer, language = bisect(_LENGTHS, view.counts.response_tokens), _language(view.counts)
    return _coded((rank, methods, tools, failed, language, query, answer))


def _of_contexts(contexts: Iterable[Context]) -> tuple[int | None, tuple[str, ...]]:
    """Return the best rank, as further ranks only tell how many chunks there are, and the methods."""
    ranks = [own for each in contexts if (own := each.rank) is not None and 0 <= own <= _MOST_RANK]
    methods = dict.fromkeys(name for each in contexts if (name := each.retrieval_method) is not None)
    return min(ranks, default=None), tuple(methods)


def _of_tools(spans: Iterable[Span]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the tools, and of those that failed."""
    tools = [(span.name, span.error is not None) for span in spans if span.kind == "tool" and span.name]
    return tuple(dict.fromkeys(name for name, _ in tools)), tuple(dict.fromkeys(name for name, bad in tools if bad))


def _language(counts: Counts) -> str | None:
    """Return English, or the script of another language; None without letters in the response."""
    if (script := counts.response_script) is None:
        return None
    return "English" if counts.response_supported else f"{script}, not English"


@lru_cache(_KEPT)
def _coded(key: _Key) -> tuple[Mapping[str, tuple[str, ...]], bool]:
    """Return facets by name, and whether values were left out: the last ones of the longest list."""
    rank, methods, tools, failed, language, query, answer = key
    lengths = [() if each is None else (_LENGTH_NAMES[each],) for each in (query, answer)]
    ranks, languages = () if rank is None else (str(rank),), () if language is None else (language,)
    found = [ranks, _short(methods), _short(tools), _short(failed), languages, *lengths]
    cut = any(len(each) > _MOST_OF_ONE for each in (methods, tools, failed))
    while (
        len(orjson.dumps(named := {name: each for name, each in zip(FACETS, found, strict=True) if each})) > MAX_BYTES
    ):
        cut = True
        longest = max(range(len(found)), key=lambda place: len(orjson.dumps(found[place])))
        found[longest] = found[longest][:-1]
    return named, cut


def _short(values: Iterable[str]) -> tuple[str, ...]:
    readable = (each.encode(errors="replace").decode() for each in values)  # A lone surrogate cannot be written.
    return tuple(dict.fromkeys(shortened(each, _LONGEST) for each in readable))[:_MOST_OF_ONE]


def shortened(text: str, longest: int) -> str:
    """Return a text, of which a digest stands in place of the end if it is longer than a number of characters.

    >>> shortened("a" * 99, 30)
    'aaaaaaaaaaaaa…ad093f6a5d4c9483'
    """
    if len(text) <= longest:
        return text
    digest = blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{text[: longest - 2 * _DIGEST_BYTES - 1]}…{digest}"
