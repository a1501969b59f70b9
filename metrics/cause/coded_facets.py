"""Facets of an event: short coded values by which answers are grouped, such as the tools that were called.

At most 32 values of at most 1 KB of JSON. They come from the fields of an event and from the counts in its texts, which
the kernel and the reference give alike.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from operator import attrgetter

import orjson

from ragweir.metrics.view import View
from ragweir.schemas.interaction import Interaction

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
_rank_and_method = attrgetter("rank", "retrieval_method")
_KEPT = 4_096
"""Number of distinct facets of events that are kept, so that they are made once."""
_Chunks = tuple[tuple[int | None, str | None], ...]
"""Rank and method of each chunk."""
_Steps = tuple[tuple[str | None, str | None], ...]
"""Name and error of each tool."""
_Key = tuple[_Chunks, _Steps, str | None, bool, int, int]
_Facets = tuple[Mapping[str, tuple[str, ...]], bool]
_KNOWN: dict[_Key, _Facets] = {}
_SHARED: dict[bytes, _Facets] = {}


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
    chunks = tuple(map(_rank_and_method, event.contexts or ()))
    steps = tuple([(each.name, each.error) for each in event.spans or () if each.kind == "tool"])
    script, supported, query, answer = None, True, -1, -1
    if event.query is not None:
        query = bisect(_LENGTHS, view.counts.query_tokens)
    if event.response is not None:
        counts = view.counts
        script, supported = counts.response_script, counts.response_supported
        answer = bisect(_LENGTHS, counts.response_tokens)
    key = chunks, steps, script, supported, query, answer
    if (found := _KNOWN.get(key)) is None:
        made = _coded(*key)
        # Few are distinct, so that what is made of one can be kept by its id.
        found = _SHARED.setdefault(orjson.dumps(made), made)
        if sum(len(text) for pair in (*chunks, *steps) for text in pair if isinstance(text, str)) <= MAX_BYTES:
            if len(_KNOWN) >= _KEPT:
                _KNOWN.clear()
                _SHARED.clear()
            _KNOWN[key] = found
    return found


def _coded(
    chunks: _Chunks,
    steps: _Steps,
    script: str | None,
    supported: bool,  # noqa: FBT001 - a value, not a switch
    query: int,
    answer: int,
) -> _Facets:
    """Return facets by name, and whether values were left out: the last ones of the longest list."""
    ranks = [rank for rank, _ in chunks if rank is not None and 0 <= rank <= _MOST_RANK]
    methods = [method for _, method in chunks if method is not None]
    tools = [name for name, _ in steps if name]
    failed = [name for name, error in steps if name and error is not None]
    language = () if script is None else ("English" if supported else f"{script}, not English",)
    lengths = [() if each < 0 else (_LENGTH_NAMES[each],) for each in (query, answer)]
    # The best rank alone: further ranks tell how many chunks there are.
    best = (str(min(ranks)),) if ranks else ()
    found = [best, _short(methods), _short(tools), _short(failed), language, *lengths]
    cut = any(len(set(each)) > _MOST_OF_ONE for each in (methods, tools, failed))
    while (
        len(orjson.dumps(named := {name: each for name, each in zip(FACETS, found, strict=True) if each})) > MAX_BYTES
    ):
        cut = True
        longest = max(range(len(found)), key=lambda place: len(orjson.dumps(found[place])))
        found[longest] = found[longest][:-1]
    return named, cut


def _short(values: Iterable[str]) -> tuple[str, ...]:
    readable = (each.encode(errors="replace").decode() for each in values)  # A lone surrogate cannot be written.
    return tuple(sorted({shortened(each, _LONGEST) for each in readable}))[:_MOST_OF_ONE]


def shortened(text: str, longest: int) -> str:
    """Return a text, of which a digest stands in place of the end if it is longer than a number of characters.

    >>> shortened("a" * 99, 30)
    'aaaaaaaaaaaaa…ad093f6a5d4c9483'
    """
    if len(text) <= longest:
        return text
    digest = blake2b(text.encode(errors="replace"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{text[: longest - 2 * _DIGEST_BYTES - 1]}…{digest}"
