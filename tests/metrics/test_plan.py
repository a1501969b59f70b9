"""Plans: a catalogue scores as a plain loop over its metrics does, whatever fields an event has."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics import catalogue as catalogue_module
from ragweir.metrics.catalogue import Catalogue, Scored, everything
from ragweir.metrics.laws import corpus
from ragweir.metrics.metric import Flagged, Metric, Null, Unit
from ragweir.metrics.packs import SHIPPED
from ragweir.metrics.unavailable import Unavailable
from ragweir.metrics.view import View, example
from ragweir.schemas.interaction import Interaction

EVERY = everything(tuple(SHIPPED))
CATALOGUE = Catalogue(EVERY)
FIELDS = sorted({need for metric in EVERY for need in metric.needs} | {"question_id"})


def plainly(metrics: Sequence[Metric], view: View) -> Scored:
    """Score an event metric by metric, as the documentation says."""
    scored = Scored()
    for metric in metrics:
        if metric.cost != "free" or metric.question not in {None, view.interaction.question_id}:
            continue
        value: Any
        try:
            # The first need decides: the ones after it are not read.
            missing = next((need for need in metric.needs if getattr(view.interaction, need) is None), None)
            value = Null(f"the event has no {missing}") if missing else metric.compute(view)
        except Unavailable as unavailable:
            value = Null(str(unavailable))
        except Exception as error:
            scored.raised.append(metric.name)
            value = Null(f"the metric raised {type(error).__name__}")
        if isinstance(value, Flagged):
            scored.flags.append(f"{metric.name}:{value.flag}")
            value = value.value
        if isinstance(value, float | int):
            try:
                value = float(value)
            except OverflowError:
                value = math.inf
            digits = 3 if metric.unit == "ms" else 6
            value = round(value, digits) if math.isfinite(value) else Null("the result is not a finite number")
        if isinstance(value, Null):
            scored.reasons[metric.name], value = value.reason, None
        results: dict[str, Any] = scored.categories if metric.unit == "category" else scored.scores
        results[metric.name] = value
    return scored


def agree(metrics: Sequence[Metric], scored: Scored, view: View) -> None:
    """Check that both give the same results in the same order: evaluations are compared byte by byte."""
    expected = plainly(metrics, view)
    for name in ("scores", "categories", "reasons", "raised"):
        assert repr(getattr(scored, name)) == repr(getattr(expected, name)), name
    assert scored.flags[: len(expected.flags)] == expected.flags


@given(st.sets(st.sampled_from(FIELDS)), st.sampled_from([None, "EF_1", "EF_2", "none"]), st.booleans())
def test_any_pattern_of_fields_is_scored_as_by_a_plain_loop(absent: set[str], question: str | None, cut: bool) -> None:
    """Fields that are absent, lists that were cut and questions with metrics of their own."""
    fields = {name: value for name, value in corpus.RICH.items() if name not in absent} | {"question_id": question}
    event = corpus.interaction(fields)
    assert event is not None
    if cut:
        event = event.with_flags({"cut:spans", "cut:retrieval.relevant_ids", "cut:contexts"})
    agree(EVERY, CATALOGUE.score(View(event)), View(event))


def test_the_corpus_is_scored_as_by_a_plain_loop() -> None:
    """Ordinary events, and events without content."""
    for fields in corpus.ordinary():
        event = corpus.interaction(fields)
        assert event is not None
        agree(EVERY, CATALOGUE.score(View(event)), View(event))


def constant(name: str, value: object, unit: Unit = "score", needs: tuple[str, ...] = ()) -> Metric:
    """Return a metric with one value for all events, which may be an exception to raise."""

    def compute(_: View) -> object:
        if isinstance(value, Exception):
            raise value
        return value

    labels = ("a",) if unit == "category" else ()
    return Metric(compute, "test", unit, "neither", needs, "here", name=name, labels=labels)


VALUES: tuple[Any, ...] = (
    *(0.0, -0.0, 0, True, False, 1, -1, 0.5, -0.5, 1 / 3, -1 / 3, 1e6, 999_999.9999996, 1e300, -1e300, 5e-324, 4e-7),
    *(5e-7, 0.1234565, 2.5e-6, 2**53 + 1, 10**400, -(10**400), math.inf, -math.inf, math.nan, np.float64(1 / 3), "a"),
    *(
        Null("why"),
        Flagged(1 / 3, "f"),
        Flagged("a", "f"),
        Flagged(math.nan, "f"),
        ValueError("x"),
        Unavailable("gone"),
    ),
    *(None, Decimal(1), (1,)),
)


@pytest.mark.parametrize("unit", ["score", "ms", "category"])
def test_any_value_is_taken_as_by_a_plain_loop(unit: Unit) -> None:
    """Numbers of all kinds and sizes, labels, nulls, flags, exceptions and what is no value; also between nulls."""
    metrics = [constant(f"m{number}", value, unit) for number, value in enumerate(VALUES)]
    mixed = [
        each for number, metric in enumerate(metrics) for each in (metric, constant(f"n{number}", 1, "ms", ("spans",)))
    ]
    for own in (metrics, mixed):
        agree(own, Catalogue(own).score(example()), example())


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["score", "ms"]))
def test_numbers_are_rounded_as_round_does(value: float, unit: Unit) -> None:
    """Any float."""
    agree(own := [constant("m", value, unit)], Catalogue(own).score(example()), example())


@given(st.integers(0, 10**12), st.integers(-3, 3), st.sampled_from(["score", "ms"]))
def test_numbers_near_a_tie_are_rounded_as_round_does(halves: int, steps: int, unit: Unit) -> None:
    """Floats at and beside the middle between two results, where a product could round to the wrong side."""
    value = halves / (2_000 if unit == "ms" else 2_000_000)
    for _ in range(abs(steps)):
        value = math.nextafter(value, math.copysign(math.inf, steps))
    agree(own := [constant("m", value, unit)], Catalogue(own).score(example()), example())


def test_a_bounded_number_of_plans_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patterns are as many as producers like; each is scored right whether its plan is kept or not."""
    monkeypatch.setattr(catalogue_module, "MAX_PLANS", 3)
    own = Catalogue(EVERY)
    events = [Interaction(event_id="1", query="", response="", **{name: corpus.RICH[name]}) for name in FIELDS]
    for event in events * 2:
        agree(EVERY, own.score(View(event)), View(event))
        assert len(own._plans) <= 3


def test_a_plan_serves_all_events_with_its_pattern() -> None:
    """Another event adds no plan, and no result of one event stays for the next."""
    own = Catalogue(EVERY)
    first = own.score(example(contexts=[{"text": "a"}], response="It costs 604."))
    assert len(own._plans) == 1
    first.scores.clear()
    first.reasons.clear()
    view = example(contexts=[], response="")
    agree(EVERY, own.score(view), example(contexts=[], response=""))
    assert len(own._plans) == 1
