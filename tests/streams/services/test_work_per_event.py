"""A gate on the work for one event: function calls of Python and into C, a measure that no other load disturbs.

Time on a shared machine varies by more than a change that matters, calls do not vary at all for one version of Python.
Work inside of one call, as in the kernel, is not seen here: `tests/kernel` tests its growth, `bench` shows its time.
"""

import sys
from collections.abc import Callable, Sequence

import pytest
from kernels import KERNEL, WHY_NOT

from bench.interactions import interactions
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.laws.work import calls
from ragweir.metrics.view import Counting, TextLimits, View, reference
from ragweir.schemas.codec.json import decode
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

pytestmark = pytest.mark.slow

EVENTS = 50
ROOM = 0.08
"""Share by which the calls may differ from those that were counted, before the change needs a reason and a new figure.

A fifth more is above it even where the calls had become fewer by all of it.
"""
COUNTED = {
    ("decode", "Python"): 57,
    ("score", "Python"): 2_536,
    ("the whole agent", "Python"): 2_675,
    ("score", "kernel"): 342,
    ("the whole agent", "kernel"): 506,
}
"""Calls per event of `bench.interactions`, on Python 3.11. Later versions call less, as they inline comprehensions."""

VALUES = list(interactions(EVENTS))
CATALOGUE = Catalogue(everything())


def _decode(_: Counting) -> Callable[[], object]:
    return lambda: [decode(value) for value in VALUES]


def _score(counting: Counting, values: Sequence[bytes] = VALUES) -> Callable[[], object]:
    events, limits = [decode(value) for value in values], TextLimits()
    return lambda: [CATALOGUE.score(View(event, limits, counting)) for event in events]


def _agent(counting: Counting) -> Callable[[], object]:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, counting=counting, duplicate_horizon=10_000))
    records = [Record("t", 0, offset, b"key", value, 1) for offset, value in enumerate(VALUES)]

    def work() -> None:
        agent.handle(records)
        agent.on_abort()  # Without it, the events of the next round were duplicates.

    return work


WORK = {"decode": _decode, "score": _score, "the whole agent": _agent}
COUNTINGS = {"Python": reference, "kernel": KERNEL}


def per_event(part: str, way: str) -> float:
    """Calls per event once everything is warm."""
    counting = COUNTINGS[way]
    if counting is None:
        pytest.skip(WHY_NOT)
    work = WORK[part](counting)
    work()
    return calls(work) / EVENTS


@pytest.mark.parametrize(("part", "way"), COUNTED)
def test_an_event_takes_no_more_calls_than_were_counted(part: str, way: str) -> None:
    """A part that takes a fifth more fails; one that takes less has its figure lowered, so that the gate stays near."""
    found, counted = per_event(part, way), COUNTED[part, way]
    assert found <= counted * (1 + ROOM), f"{part}, {way}: {found:.0f} calls per event, and {counted} were counted"
    if sys.version_info[:2] == (3, 11):
        assert found >= counted * (1 - ROOM), f"{part}, {way}: lower the figure to {found:.0f}"


@pytest.mark.parametrize("way", COUNTINGS)
def test_the_number_of_calls_is_the_same_each_time(way: str) -> None:
    assert len({per_event("the whole agent", way) for _ in range(3)}) == 1


@pytest.mark.parametrize("way", COUNTINGS)
def test_a_fifth_more_work_is_found(way: str) -> None:
    counting = COUNTINGS[way]
    if counting is None:
        pytest.skip(WHY_NOT)
    work = _score(counting, VALUES + VALUES[: EVENTS // 5])
    work()
    assert calls(work) / EVENTS > COUNTED["score", way] * (1 + ROOM)
