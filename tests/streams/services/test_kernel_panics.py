"""An event on which the kernel fails is counted in Python, with the same bytes, and shown by a series."""

import importlib
from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from kernels import needs_kernel

from bench.interactions import interactions
from ragweir.metrics import native
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import Counting, reference
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

pytestmark = needs_kernel
QUERY = "Does the kernel fail on this query, which is private?"
CATALOGUE = Catalogue(everything())


def failing() -> native.NativeCounting:
    """The kernel as it is built, with the table that makes it panic on one query."""
    return native.NativeCounting(importlib.import_module(native.MODULE), native.tables() | {"panic": QUERY})


def handled(counting: Counting, batches: Sequence[Sequence[bytes]]) -> list[Outcome]:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, counting=counting))
    return [
        agent.handle([Record("t", 0, 10 * number + at, None, value, 1) for at, value in enumerate(values)])
        for number, values in enumerate(batches)
    ]


def test_the_same_bytes_come_out_and_each_such_event_is_counted_once(capfd: pytest.CaptureFixture[str]) -> None:
    fine = list(interactions(6))
    fatal = [
        orjson.dumps(orjson.loads(value) | {"event_id": f"f{at}", "query": QUERY}) for at, value in enumerate(fine)
    ]
    batches = [[*fine[:2], *fatal[:2]], fine[2:4], [fatal[2], fine[4], fatal[3], fatal[4]]]
    ours, python = handled(failing(), batches), handled(reference, batches)
    assert [each.emissions for each in ours] == [each.emissions for each in python]
    assert [_panics(each) for each in ours] == [2, 0, 3]
    assert [_panics(each) for each in python] == [0, 0, 0]
    assert [_without(each) for each in ours] == [_without(each) for each in python]
    shown = capfd.readouterr()
    assert "private" not in shown.err + shown.out, "a log must not hold the text of an event"


def test_the_kernel_works_on_after_it_failed() -> None:
    """The state of the call that failed is dropped: the next event is counted by the kernel, and rightly."""
    counting = failing()
    fine = list(interactions(3))
    fatal = orjson.dumps(orjson.loads(fine[0]) | {"event_id": "f", "query": QUERY})
    first, last = handled(counting, [[fatal], fine])
    assert (_panics(first), _panics(last), counting.panics) == (1, 0, 1)
    assert [each.value for each in last.emissions] == [
        each.value for each in handled(reference, [[], fine])[1].emissions
    ]


def _panics(outcome: Outcome) -> int:
    return outcome.counts["ragweir_kernel_panics_total",]


def _without(outcome: Outcome) -> dict[Any, int]:
    return {name: number for name, number in outcome.counts.items() if name[0] != "ragweir_kernel_panics_total"}
