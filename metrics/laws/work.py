"""Work of metrics: its growth with the length of the texts, and its cost on ordinary events."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Callable
from time import process_time

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.laws.corpus import ORDINARY, RICH, Fields, interaction
from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.interaction import Interaction

SIZES = (500, 5_000)
"""Numbers of words of the two events that are compared."""
_AMPLE = TextLimits(max_tokens=1_000_000, max_event_tokens=1_000_000)
"""Limits under which only metrics tokenise a text: near a limit the flags of cut texts do."""
_MOST_CALLS = 13
"""Maximum factor of the number of calls, for ten times the text."""
_MOST_TIME = 30
"""Maximum factor of the time: it is measured, and quadratic growth has 100."""
_LEAST_S = 0.01
"""Time that is too short for a verdict."""
_FLOOR_S = 50e-6
_ROUNDS = 3
_COST_ROUNDS = 7
_ENOUGH_S = 0.5
"""Time after which no further round is measured."""


def calls(work: Callable[[], object]) -> int:
    """Return the number of functions that are called: a measure of work that no other load disturbs.

    >>> calls(lambda: [abs(number) for number in range(10)]) > 10
    True
    """
    number = 0

    def count(_frame: object, event: str, _arg: object) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # A collection calls finalizers and callbacks of others.
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return number


def tokenised(view: View) -> View:
    """Return the view with every text tokenised as far as nearly all metrics need it."""
    for text in (view.query, view.response, *view.contexts, *view.expected):
        _ = text.tokens, text.stems
    return view


def long_event(words: int, fields: Fields = RICH) -> Interaction:
    """Return an event with a response and contexts of that many words."""
    rng = random.Random(words)  # noqa: S311 - the same words on every machine
    vocabulary = [f"{a}{b}" for a in ("roof", "Claim", "rate", "zone", "City") for b in ("", "s", "er", "2024", "-7")]
    text = " ".join(rng.choice([*vocabulary, "covers", "the", "12.5%", "$1,200", "Dec 9, 2025."]) for _ in range(words))
    half = text[: len(text) // 2]
    texts = {"query": half, "response": text, "expected": [half], "contexts": [{"text": text}, {"text": half}]}
    made = interaction(fields | texts)
    if made is None:
        raise ValueError("these fields are not those of an interaction")
    return made


def calls_growth(catalogue: Catalogue, fields: Fields = RICH) -> str:
    """Return why the number of calls grows faster than the text; empty if it does not."""
    small, large = (
        calls(lambda event=event: catalogue.score(View(event, _AMPLE)))  # type: ignore[misc]
        - calls(lambda event=event: View(event, _AMPLE))  # type: ignore[misc]
        for event in (long_event(words, fields) for words in SIZES)
    )
    return f"ten times the text takes {large / small:.0f} times the calls" if large > _MOST_CALLS * small else ""


def time_growth(catalogue: Catalogue, fields: Fields = RICH) -> str:
    """Return why the CPU time grows faster than the text; empty if it does not, or is too short to tell."""
    small, large = (_least_s(catalogue, [long_event(words, fields)], _ROUNDS) for words in SIZES)
    factor = large / max(small, _FLOOR_S)
    if large < _LEAST_S or factor < _MOST_TIME:
        return ""
    return f"ten times the text takes {factor:.0f} times the time ({large * 1e3:,.0f} ms for {SIZES[1]:,} words)"


def cost_us(catalogue: Catalogue, question: str | None = None) -> float:
    """Return the CPU time of one ordinary event in microseconds, without the time that tokenising takes."""
    own = {} if question is None else {"question_id": question}
    events = [event for fields in ORDINARY if (event := interaction(fields | own)) is not None]
    return _least_s(catalogue, events, _COST_ROUNDS) / len(events) * 1e6


def _least_s(catalogue: Catalogue, events: list[Interaction], rounds: int) -> float:
    """Return the CPU time of the fastest of some rounds, on tokenised texts."""
    times = []
    for _ in range(rounds):
        views = [tokenised(View(event)) for event in events]
        began = process_time()
        for view in views:
            catalogue.score(view)
        times.append(process_time() - began)
        if sum(times) > _ENOUGH_S:
            break
    return min(times)
