"""Laws that every metric keeps, whatever the event holds.

A law is a function of some metrics and one event, and yields a sentence for each metric that breaks it. The command
`ragweir metrics check` checks own metrics by these laws, and our tests check the shipped ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import orjson

from ragweir.metrics.catalogue import Catalogue, Scored
from ragweir.metrics.extension import MAX_REASON_CHARACTERS
from ragweir.metrics.laws.corpus import MARKER
from ragweir.metrics.metric import Metric
from ragweir.metrics.view import Counting, TextLimits, View, example, reference
from ragweir.schemas.codec.intake import CUT, DEFAULT_MAX_ITEMS
from ragweir.schemas.interaction import Context, Interaction

_TIGHT = TextLimits(max_tokens=3, max_contexts=1, max_event_tokens=12)
_TOLERANCE = 2e-6
"""Largest difference of equal values: they are rounded to six decimals."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A law that a metric breaks for an event."""

    metric: str
    law: str
    why: str


Findings = Iterator[tuple[str, str]]
"""Names of metrics, each with what is wrong."""
Law = Callable[["Subject", Interaction], Findings]


@dataclass(frozen=True)
class Subject:
    """The metrics that laws are checked for.

    Args:
        catalogue: the metrics; only the free ones are checked.
        counting: the way of counting that is compared with the reference.
    """

    catalogue: Catalogue
    counting: Counting = reference
    reverse: Catalogue = field(init=False)
    """The metrics in the opposite order."""

    def __post_init__(self) -> None:
        metrics = reversed(list(self.catalogue.free.values()))
        object.__setattr__(self, "reverse", Catalogue(metrics, version=self.catalogue.version))

    def breaches(self, event: Interaction, laws: Mapping[str, Law] | None = None) -> Iterator[Breach]:
        """Yield the breaches of some laws, or of all, for an event."""
        for name, law in (LAWS if laws is None else laws).items():
            for metric, why in law(self, event.model_copy(deep=True)):  # A metric may change what it should not.
                yield Breach(metric, name, why)


def _faults(catalogue: Catalogue, scored: Scored, view: View) -> Findings:
    """Yield the results that are no lawful ones."""
    for name in scored.raised:
        yield name, _exception(catalogue.metrics[name], view)
    for name, value in (scored.scores | scored.categories).items():
        metric, reason = catalogue.metrics[name], scored.reasons.get(name)
        if name in scored.raised:
            continue
        if value is None or reason is not None:
            if value is not None or not reason:
                yield name, f"its value is {value!r} and the reason of a null is {reason!r}"
            elif len(reason) > MAX_REASON_CHARACTERS or MARKER in reason:
                yield name, "the reason of a null quotes the event; a reason is a fixed text"
        elif wrong := _outside(metric, value):
            yield name, wrong
        try:
            orjson.dumps((value, reason))
        except TypeError:
            yield name, "its result cannot be written as JSON"


def _outside(metric: Metric, value: float | str) -> str:
    """Return why a value is not one of the metric's; empty if it is."""
    if metric.unit == "category" or isinstance(value, str):
        return "" if value in metric.labels else f"its label {value!r:.80} is not one of {metric.range}"
    low, high = metric.bounds
    inside = math.isfinite(value) and (low is None or value >= low) and (high is None or value <= high)
    if not inside or (metric.unit == "boolean" and value not in (0, 1)):
        return f"its value {value!r} is not within {metric.range}" + " (0 or 1)" * (metric.unit == "boolean")
    return ""


def _exception(metric: Metric, view: View) -> str:
    """Return the exception of a metric, for a person: the message may quote the event."""
    try:
        metric.compute(view)
    except Exception as error:
        return f"it raised {type(error).__name__}: {error}"
    return "it raised an exception the first time, and none the second time"


def results(subject: Subject, event: Interaction) -> Findings:
    """Check that no metric raises, and that a result is within bounds, one of the labels, or null with a reason."""
    view = View(event)
    yield from _faults(subject.catalogue, subject.catalogue.score(view), View(event))


def limits(subject: Subject, event: Interaction) -> Findings:
    """Check the same where limits cut the texts and leave out contexts."""
    yield from _faults(subject.catalogue, subject.catalogue.score(View(event, _TIGHT)), View(event, _TIGHT))


def cuts(subject: Subject, event: Interaction) -> Findings:
    """Check the same where each list was cut; a metric that needs the list is null."""
    cut = event.with_flags({*event.flags, *(f"{CUT}{name}" for name in DEFAULT_MAX_ITEMS)})
    yield from _faults(subject.catalogue, subject.catalogue.score(View(cut)), View(cut))


def absence(subject: Subject, event: Interaction) -> Findings:
    """Check the same where no content was captured; a metric that has a value then has it whatever the content is."""
    contexts = None if event.contexts is None else tuple(_without_text(each) for each in event.contexts)
    absent = event.model_copy(update={"query": None, "response": None, "contexts": contexts})
    scored = subject.catalogue.score(View(absent))
    yield from _faults(subject.catalogue, scored, View(absent))
    with_content = subject.catalogue.score(View(event))
    for name, value in (scored.scores | scored.categories).items():
        captured = (with_content.scores | with_content.categories).get(name)
        if None not in (value, captured) and value != captured:
            yield name, f"it takes content that was not captured for empty: {value!r}, and {captured!r} with content"


def _without_text(context: Context) -> Context:
    return context.model_copy(update={"text": None})


def repetition(subject: Subject, event: Interaction) -> Findings:
    """Check that the same event gives the same result again, after another event."""
    first = subject.catalogue.score(View(event))
    subject.catalogue.score(example(query="something else", response="in between", contexts=[{"text": "entirely"}]))
    yield from _differences(first, subject.catalogue.score(View(event)), "the first and the second time: ")


def independence(subject: Subject, event: Interaction) -> Findings:
    """Check that metrics change neither the event nor what they share, so that their order has no effect."""
    before = event.model_dump()
    forward, backward = subject.catalogue.score(View(event)), subject.reverse.score(View(event))
    yield from _differences(forward, backward, "computed in another order, metrics change what they share: ")
    if event.model_dump() != before:
        names = ", ".join(subject.catalogue.free)
        yield names if len(subject.catalogue.free) == 1 else "one of the metrics", "it changes the event"


def order(subject: Subject, event: Interaction) -> Findings:
    """Check that the order of the contexts has no effect on metrics that say so."""
    contexts = event.contexts or ()
    if len(contexts) < 2:
        return
    before = subject.catalogue.score(View(event))
    for other in (contexts[::-1], contexts[1:] + contexts[:1]):
        after = subject.catalogue.score(View(event.model_copy(update={"contexts": other})))
        for name, why in _differences(before, after, "with its contexts in another order: ", _TOLERANCE):
            if subject.catalogue.metrics[name].order_free:
                yield name, f"{why}; is it order_free=False?"


def counting(subject: Subject, event: Interaction) -> Findings:
    """Check that metrics have the same results by another way of counting."""
    for limit in (TextLimits(), _TIGHT) if subject.counting is not reference else ():
        one, other = (subject.catalogue.score(View(event, limit, each)) for each in (reference, subject.counting))
        yield from _differences(one, other, "counted in Python and by the kernel: ")


def evidence(subject: Subject, event: Interaction) -> Findings:
    """Check that explanations are texts, and raise nothing."""
    for name, lines in subject.catalogue.explain(View(event)).items():
        if any(line.startswith("the explanation raised ") for line in lines):
            yield name, lines[0]
        try:
            orjson.dumps(lines)
        except TypeError:
            yield name, "its explanation cannot be written as JSON"


def _differences(one: Scored, other: Scored, prefix: str, tolerance: float = 0.0) -> Findings:
    left, right = one.scores | one.categories, other.scores | other.categories
    for name in left:
        a, b = left[name], right.get(name)
        close = isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=0.0, abs_tol=tolerance)
        if a != b and not close:
            yield name, f"{prefix}{a!r} and {b!r}"


LAWFUL: Mapping[str, Law] = {"results are within bounds, or null with a reason": results}
"""The law that is checked for every kind of value of every field."""
BESIDE: Mapping[str, Law] = {"metrics are independent of each other": independence}
"""The law that is checked for own metrics beside the shipped ones."""
LAWS: Mapping[str, Law] = {
    **LAWFUL,
    "limits on texts keep results lawful": limits,
    "lists that were cut keep results lawful": cuts,
    "the same event gives the same result": repetition,
    **BESIDE,
    "the order of contexts has no effect if order_free": order,
    "content that was not captured is not empty": absence,
    "the kernel gives the same results": counting,
    "explanations are texts": evidence,
}
"""The laws by what they say."""
