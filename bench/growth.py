"""How the cost of an event grows with its size, from 1 KB to 1 MB, limits lifted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate

import orjson
from rich.table import Table
from scoring import tokenised
from timing import microseconds

from metrics.catalogue import Catalogue, everything
from metrics.view import Limits, View
from schemas.codec import decode
from schemas.interaction import Interaction

KILOBYTES = (1, 4, 16, 64, 256, 1024)
_UNLIMITED = Limits(max_tokens=10**9)
_VOCABULARY = 20_000
_SYLLABLES = "ba co di fe gu la mo ni pe ru sa te vo wi zu".split()
_JOINING = "the of and to in is that covers which may not 12 $1,200 2.5% Dec 9, 2025".split()


def _vocabulary(rng: random.Random) -> list[str]:
    words = ("".join(rng.choices(_SYLLABLES, k=rng.randrange(2, 5))) for _ in range(_VOCABULARY))
    return [word.title() if rng.random() < 0.1 else word for word in words]


class _Writer:
    """Text with new words as it goes on, as people write: word frequencies fall with their rank."""

    def __init__(self) -> None:
        self._rng = random.Random(7)
        self._words = _vocabulary(self._rng)
        self._weights = list(accumulate(1 / rank for rank in range(1, _VOCABULARY + 1)))

    def text(self, size: int) -> str:
        """About that many characters."""
        rng = self._rng
        words = rng.choices(self._words, cum_weights=self._weights, k=size // 7)
        for place in range(0, len(words), 2):
            words[place] = rng.choice(_JOINING)
        for place in range(12, len(words), 13):
            words[place] += "."
        return " ".join(words)[:size]


def _event(kilobytes: int) -> Interaction:
    writer, size = _Writer(), kilobytes * 1024
    contexts = [writer.text(size * 14 // 100) for _ in range(5)]
    # Half of the answer is taken from the contexts.
    response = "".join(text[: size // 50] for text in contexts) + writer.text(size // 10)
    fields = {"event_id": "1", "query": writer.text(size // 50), "response": response}
    fields |= {"expected": response[: size // 25], "contexts": [{"text": text, "score": 0.5} for text in contexts]}
    return decode(orjson.dumps(fields), max_bytes=1 << 30)


def table() -> Table:
    """One row per size."""
    catalogue = Catalogue(everything())
    title = "Scoring by size of the event, CPU time, token limit lifted; linear is a last column that stays level"
    result = Table(title=title, title_justify="left")
    for name in ("KB", "µs", "of that tokenising", "µs per KB"):
        result.add_column(name, justify="right")
    for kilobytes in KILOBYTES:
        events = [_event(kilobytes)] * max(64 // kilobytes, 1)
        reading = microseconds(partial(_each, tokenised, events), len(events))
        cost = microseconds(partial(_each, catalogue.score, events), len(events))
        result.add_row(str(kilobytes), f"{cost:,.0f}", f"{reading:,.0f}", f"{cost / kilobytes:.0f}")
    return result


def _each(work: Callable[[View], object], events: Iterable[Interaction]) -> None:
    for event in events:
        work(View(event, _UNLIMITED))
