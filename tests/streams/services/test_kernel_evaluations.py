"""Whole evaluations have the same bytes with the kernel on and off: on our events, hostile ones and both data sets."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pytest
from kernels import KERNEL, needs_kernel

from bench import hostile, interactions
from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.laws import corpus
from ragweir.metrics.view import TextLimits, reference
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.settings import RoutingSettings
from tools import labelled_answers

pytestmark = needs_kernel
CATALOGUE = Catalogue(everything(packs.SHIPPED))
ROUTER = Router(RoutingSettings(), CATALOGUE, tuple(suites()))
USUAL, TIGHT = TextLimits(), TextLimits(max_tokens=40, max_contexts=2, max_event_tokens=90)


def outcomes(values: Iterable[bytes], counting: Any, limits: TextLimits = USUAL, **more: Any) -> list[Any]:
    """All that evaluate writes and counts for these events, each handled alone, as one may be a dead letter."""
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, limits, counting, router=ROUTER, **more))
    made = []
    for offset, value in enumerate(values):
        outcome = agent.handle([Record("t", 0, offset, b"key", value, 1_764_000_000_000)])
        made.append((outcome.emissions, outcome.counts))
    return made


def alike(values: list[bytes], **more: Any) -> int:
    """Compare both ways, and return the number of evaluations."""
    ours, python = (outcomes(values, counting, **more) for counting in (KERNEL, reference))
    for number, (one, other) in enumerate(zip(ours, python, strict=True)):
        assert one == other, values[number][:2_000]
    return sum(each.topic == "evaluations" for emissions, _ in ours for each in emissions)


def of_corpus() -> Iterator[bytes]:
    for fields in corpus.ordinary():
        yield from (orjson.dumps(fields | {"question_id": question}) for question in ("EF_1", "EF_2", "EF_3"))
    yield from map(orjson.dumps, corpus.texts(corpus.SIZES[:-1]))


@pytest.mark.slow
@pytest.mark.parametrize("limits", [USUAL, TIGHT], ids=["limits", "tight limits"])
def test_ordinary_events_give_the_same_bytes(limits: TextLimits) -> None:
    assert alike(list(interactions.interactions(100)), limits=limits) == 100
    assert alike(list(interactions.interactions(20)), limits=limits, explain=True, include_text=True) == 20


@pytest.mark.slow
@pytest.mark.parametrize("limits", [USUAL, TIGHT], ids=["limits", "tight limits"])
def test_the_events_of_the_laws_give_the_same_bytes(limits: TextLimits) -> None:
    assert alike(list(of_corpus()), limits=limits) > 100


@pytest.mark.slow
@pytest.mark.parametrize("limits", [USUAL, TIGHT], ids=["limits", "tight limits"])
def test_hostile_lines_give_the_same_bytes(limits: TextLimits) -> None:
    """Events with wrong values, lines that are no event, and each kind of costly text at some size."""
    assert alike(list(hostile.lines(200, seed=11, most_bytes=32 * 1024)), limits=limits) > 100


@pytest.mark.heavy
@pytest.mark.parametrize("size", [4 * 1024, pytest.param(48 * 1024, marks=pytest.mark.long)])
def test_every_costly_shape_gives_the_same_bytes(size: int) -> None:
    assert alike([hostile.event(make(size)) for _, make in hostile.shapes()]) > 400


def test_texts_that_utf8_cannot_encode_and_content_that_was_not_captured_give_the_same_bytes() -> None:
    """They are counted in Python."""
    odd = [
        json.dumps(dict(corpus.RICH, event_id="1", response="a lone \ud800 surrogate")).encode(),
        orjson.dumps(corpus.RICH | {"event_id": "2", "query": None, "response": None}),
        orjson.dumps(corpus.RICH | {"event_id": "3", "contexts": [{"text": None}, {"text": "The roof."}]}),
        orjson.dumps(corpus.RICH | {"event_id": "4", "expected": ["a"] * 2_000}),
    ]
    assert alike(odd) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", labelled_answers.SETS)
def test_the_data_sets_give_the_same_bytes(name: str) -> None:
    path = labelled_answers.DATA / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"{path.name} is not here")
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    events = [
        orjson.dumps(labelled_answers.SETS[name](row)[0] | {"event_id": str(number), "ended_at": corpus.START})
        for number, row in enumerate(rows)
    ]
    assert alike(events) == len(events)


def test_the_comparison_finds_another_count() -> None:
    """A kernel that counts one stem too many would be seen."""
    values = list(interactions.interactions(3))
    assert KERNEL is not None

    def wrong(view: Any) -> Any:
        counts = KERNEL(view)
        return counts._replace(response_stems=counts.response_stems + 1)  # type: ignore[attr-defined]

    assert outcomes(values, wrong) != outcomes(values, reference)
