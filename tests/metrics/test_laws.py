"""The laws find the metric that breaks them, and show it by a small event."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.counts import NAMES, Counts
from ragweir.metrics.extension import own_metrics
from ragweir.metrics.laws import check, corpus
from ragweir.metrics.laws.check import GROWTH, TIME, Check, Counterexample, TooLong
from ragweir.metrics.laws.laws import LAWS
from ragweir.metrics.laws.work import calls_growth, cost_us
from ragweir.metrics.metric import Metric, Null, Value
from ragweir.metrics.view import View, reference

RESULTS, LIMITS, CUTS, SAME, INDEPENDENT, ORDER, ABSENT, COUNTED, EXPLAINED = LAWS


@pytest.fixture(autouse=True)
def a_small_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ordinary events, short texts, and all values of one field: what breaks a law here breaks it for those."""
    monkeypatch.setattr(corpus, "SIZES", (1, 200))
    monkeypatch.setattr(corpus, "events", lambda: (*corpus.ordinary(), *corpus.texts((1, 200))))
    monkeypatch.setattr(corpus, "paths", lambda: [("usage", "cost_usd")])


def metric(compute: Callable[[View], Any], **fields: Any) -> Metric:
    """A metric that is computed so; without the checks of results that own metrics have."""
    given: dict[str, Any] = {"unit": "ratio", "needs": (), "name": "broken"} | fields
    return Metric(compute, "own", better="higher", source="here", **given)


def found(broken: Metric, *others: Metric) -> list[Counterexample]:
    return Check([broken], others).run().broken


def _changes_a_span(view: View) -> Value:
    for each in view.interaction.spans or ():
        object.__setattr__(each, "name", "changed")
    return 0.5


def _sorts_the_tokens(view: View) -> Value:
    view.response.tokens.sort()
    return 0.5


def _raises_if_cut(view: View) -> Value:
    return 1.0 / (0.0 if any(flag.startswith("cut:") for flag in view.interaction.flags) else 1.0)


def _raises_for_one_context_of_more(view: View) -> Value:
    return 1.0 / (len(view.contexts) - 1) if len(view.interaction.contexts or ()) > 1 else 0.5


def _first_context(view: View) -> Value:
    contexts = view.interaction.contexts or ()
    return float(len(contexts[0].text or "") % 7) / 7 if contexts else Null("no contexts")


def _empty_if_absent(view: View) -> Value:
    try:
        return float(bool(view.interaction.response))
    except Exception:
        return 0.0


CALLS = count()
BROKEN: dict[str, tuple[str, Metric, str]] = {
    "above 1": (RESULTS, metric(lambda view: len(view.query.tokens) / 4), "not within 0 to 1"),
    "an empty reason": (RESULTS, metric(lambda _: Null("")), "the reason of a null is ''"),
    "raises": (RESULTS, metric(lambda view: 1 / len(view.response.tokens)), "it raised ZeroDivisionError"),
    "a reason that quotes": (
        RESULTS,
        metric(lambda view: Null(f"no value for {view.query.text}")),
        "the reason of a null quotes the event",
    ),
    "neither 0 nor 1": (RESULTS, metric(lambda _: 0.5, unit="boolean"), "(0 or 1)"),
    "another label": (RESULTS, metric(lambda _: "C", unit="category", labels=("A", "B")), "'C' is not one of A, B"),
    "limits": (LIMITS, metric(_raises_for_one_context_of_more), "ZeroDivisionError"),
    "cuts": (CUTS, metric(_raises_if_cut), "ZeroDivisionError"),
    "absent content is empty": (ABSENT, metric(_empty_if_absent), "for empty: 0.0, and 1.0 with content"),
    "a state": (SAME, metric(lambda _: next(CALLS) % 7 / 7), "the first and the second time"),
    "changes the event": (INDEPENDENT, metric(_changes_a_span), "it changes the event"),
    "order": (ORDER, metric(_first_context), "is it order_free=False?"),
    "explains nothing": (EXPLAINED, metric(lambda _: 0.5, explain=lambda _: (str(1 / 0),)), "raised ZeroDivisionError"),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("law", "broken", "why"), BROKEN.values(), ids=BROKEN)
def test_a_metric_that_breaks_a_law_is_found(law: str, broken: Metric, why: str) -> None:
    """With a small event that breaks it: it is one that can be published, and breaks the same law."""
    breaches = found(broken)
    assert [each.breach.law for each in breaches][:1] == [law]
    first = breaches[0]
    assert first.breach.metric == "broken"
    assert why in first.breach.why
    assert first.event is not None
    assert corpus.interaction(first.event) is not None
    assert len(orjson.dumps(first.event)) < 700


@pytest.mark.slow
def test_a_metric_that_keeps_the_laws_is_not_found() -> None:
    def overlap(view: View) -> Value:
        words = set(view.query.tokens)
        return len(words & set(view.response.tokens)) / len(words) if words else Null("no words")

    report = Check([metric(overlap)]).run()
    assert report.broken == []
    assert report.events > report.computed["broken"] > 100


@pytest.mark.slow
def test_what_shipped_metrics_share_must_not_be_changed() -> None:
    """The metric that changes it is named, not those that change with it."""
    shipped = [each for each in everything() if each.name in {"bigram_support", "repetition"}]
    fine = metric(lambda _: 0.5, name="fine")
    (found,) = Check([fine, metric(_sorts_the_tokens)], shipped).run().broken
    assert (found.breach.metric, found.breach.law) == ("broken", INDEPENDENT)
    assert "beside it, bigram_support is another" in found.breach.why


@pytest.mark.slow
def test_the_results_of_own_metrics_are_checked_as_they_are_computed_live() -> None:
    """Where they are loaded, a wrong value becomes null and counts as raised."""
    above = Metric(lambda _: 2.0, "own", "ratio", "higher", (), "here", name="above", explain=lambda _: ("2",))
    with pytest.raises(Exception, match="docstring"):
        own_metrics(above, "mine", ())
    above.compute.__doc__ = "Is above its bounds."
    scored = Catalogue(own_metrics(above, "mine", ())).score(View(_event()))
    assert (scored.scores, scored.raised) == ({"above": None}, ["above"])
    (breach, *_) = found(*own_metrics(above, "mine", ()))
    assert breach.breach.why == "it raised ValueError: the result 2 is not within 0 to 1"


def _event() -> Any:
    return corpus.interaction(corpus.RICH)


@pytest.mark.heavy
def test_a_metric_that_reads_more_than_counts_has_no_value_with_the_kernel_and_is_found() -> None:
    """The kernel gives the counts that have names, and not the sets behind those of the reference."""

    def bare(view: View) -> Counts:
        return cast(Counts, SimpleNamespace(**{name: getattr(reference(view), name) for name in NAMES}))

    def by_sets(view: View) -> Value:
        return float(len(view.counts.texts.response) > 3)

    def by_counts(view: View) -> Value:
        return float(view.counts.response_tokens > 3)

    assert Check([metric(by_counts)], counting=bare).run().broken == []
    assert found(metric(by_sets)) == []
    (breach, *_) = Check([metric(by_sets)], counting=bare).run().broken
    assert breach.breach.law == COUNTED
    assert "in Python and by the kernel: 0.0 and None" in breach.breach.why or "1.0 and None" in breach.breach.why


@pytest.mark.slow
def test_quadratic_work_is_found() -> None:
    def quadratic(view: View) -> Value:
        words = view.response.tokens[: len(view.response.tokens) // 16]
        return float(sum(max(a, b) == a for a in words for b in words) > 0)

    (breach,) = found(metric(quadratic))
    assert breach.breach.law == GROWTH
    assert "times the calls" in breach.breach.why
    assert breach.event is None


@pytest.mark.slow
def test_quadratic_work_of_one_call_is_found_by_its_time() -> None:
    def backtracking(view: View) -> Value:
        return float(re.search("a*b", "a" * 2 * len(view.response.tokens)) is None)

    (breach,) = found(metric(backtracking))
    assert breach.breach.law == GROWTH
    assert "times the time" in breach.breach.why


@pytest.mark.slow
def test_an_endless_metric_is_named_and_ends_the_check() -> None:
    """The limit belongs to the caller; here the metric asks for it itself."""
    limits: list[bool] = []

    @contextmanager
    def limited() -> Iterator[None]:
        limits.append(True)
        yield

    def endless(view: View) -> Value:
        if view.query.text == "Is flood covered?":
            raise TooLong
        return 0.5

    report = Check([metric(lambda _: 1.0, name="fine"), metric(endless)], limit=limited).run()
    (breach,) = report.broken
    assert (breach.breach.metric, breach.breach.law) == ("broken", TIME)
    assert breach.event is not None
    assert limits


def test_the_cost_of_a_metric_is_less_than_that_of_all() -> None:
    free = [each for each in everything() if each.cost == "free"]
    assert 0 < cost_us(Catalogue(free[:1])) < cost_us(Catalogue(free))
    assert calls_growth(Catalogue(free[:20])) == ""


def test_every_event_of_the_corpus_can_be_published() -> None:
    assert [fields for fields in corpus.events() if corpus.interaction(fields) is None] == []
    assert sum(1 for _ in check.every_event()) > 100
