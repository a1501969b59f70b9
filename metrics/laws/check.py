"""Checks metrics by all laws on the corpus, and reduces an event that breaks a law to a small one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.laws import corpus
from ragweir.metrics.laws.corpus import Fields
from ragweir.metrics.laws.laws import BESIDE, LAWFUL, LAWS, Breach, Law, Subject
from ragweir.metrics.laws.work import calls_growth, time_growth
from ragweir.metrics.metric import Metric
from ragweir.metrics.view import Counting, View, reference

TIME = "the time for one event is bounded"
GROWTH = "work grows no faster than the texts"
_MOST_TRIALS = 300


class TooLong(BaseException):
    """The time limit of one event is over. No metric can catch it as an Exception."""


Limit = Callable[[], AbstractContextManager[object]]
"""Returns a context manager that raises `TooLong` in its block once that takes too long."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A breach of a law, with the event that shows it; None for growth, which is shown by long events."""

    breach: Breach
    event: Fields | None = None


@dataclass(slots=True)
class Report:
    """The result of a check."""

    events: int = 0
    """Number of events that were scored."""
    computed: dict[str, int] = field(default_factory=dict)
    """Number of events with a value, by metric, of those that all laws are checked on."""
    broken: list[Counterexample] = field(default_factory=list)
    """The first breach of each law by each metric."""


def every_event() -> Iterator[tuple[Fields, Mapping[str, Law]]]:
    """Yield every event of the corpus with the laws that are checked on it."""
    yield from ((fields, LAWS) for fields in corpus.events())
    yield from ((fields, LAWFUL) for path in corpus.paths() for fields in corpus.with_values(path))


class Check:
    """A check of free metrics.

    Args:
        metrics: the metrics.
        others: metrics whose results each of them must not change.
        counting: the way of counting that is compared with the reference.
        limit: guards the work on one event.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        others: Sequence[Metric] = (),
        limit: Limit = nullcontext,
        counting: Counting = reference,
    ) -> None:
        self._metrics, self._limit = metrics, limit
        self._subject = Subject(Catalogue(metrics), counting)
        self._others = others
        self.report = Report(computed=dict.fromkeys(self._subject.catalogue.free, 0))

    def run(self, on_event: Callable[[int], object] = lambda _: None) -> Report:
        """Check all laws; the check ends early if an event takes too long.

        Args:
            on_event: called with 1 after each event.
        """
        questions = sorted({metric.question for metric in self._metrics if metric.question})
        for metric in self._metrics:  # First, since it is soon known.
            self._check_growth(metric)
        for fields, laws in every_event():
            for asked in [fields | {"question_id": question} for question in questions] or [fields]:
                if not self._holds(self._subject, asked, laws):
                    return self.report
            on_event(1)
        for metric in self._metrics if self._others else ():
            beside = Subject(Catalogue((metric, *self._others)))
            for fields in corpus.ORDINARY:
                self._holds(beside, fields, BESIDE, metric.name)
        return self.report

    def _holds(self, subject: Subject, fields: Fields, laws: Mapping[str, Law], cause: str | None = None) -> bool:
        """Check laws on one event, and return False if that takes too long.

        `cause` is the metric that breaks a law of others; None if each metric breaks its own.
        """
        event, report = corpus.interaction(fields), self.report
        if event is None:
            return True
        report.events += 1
        try:
            with self._limit():
                found = list(subject.breaches(event, laws))
                if laws is LAWS and subject is self._subject:
                    scored = subject.catalogue.score(View(event))
                    for name, value in (scored.scores | scored.categories).items():
                        report.computed[name] += value is not None
        except TooLong:
            report.broken.append(Counterexample(self._slow(fields), fields))
            return False
        for breach in found:
            self._add(subject, breach, fields, cause)
        return True

    def _add(self, subject: Subject, breach: Breach, fields: Fields, cause: str | None) -> None:
        """Add the first breach of a law by a metric, with the smallest event that is found for it."""
        own = [each.breach for each in self.report.broken if each.breach.metric == (cause or breach.metric)]
        if any(breach.law == each.law or breach.why == each.why for each in own):  # One fault may break several laws.
            return
        law = {breach.law: LAWS[breach.law]}
        latest = breach

        def breaks(smaller: Fields) -> bool:
            nonlocal latest
            event = corpus.interaction(smaller)
            if event is None:
                return False
            try:
                with self._limit():
                    found = [each for each in subject.breaches(event, law) if each.metric == breach.metric]
            except TooLong:
                return False
            latest = found[0] if found else latest
            return bool(found)

        event = reduced(fields, breaks)
        if cause not in {None, latest.metric}:
            latest = Breach(cause or "", latest.law, f"beside it, {latest.metric} is another: {latest.why}")
        self.report.broken.append(Counterexample(latest, corpus.complete(event)))

    def _slow(self, fields: Fields) -> Breach:
        """Return the breach of the metric that takes too long for an event."""
        event = corpus.interaction(fields)
        for metric in self._metrics:
            try:
                with self._limit():
                    if event is not None:
                        Catalogue([metric]).score(View(event))
            except TooLong:
                return Breach(metric.name, TIME, "it takes too long")
        return Breach(", ".join(metric.name for metric in self._metrics), TIME, "together they take too long")

    def _check_growth(self, metric: Metric) -> None:
        catalogue = Catalogue([metric])
        fields = corpus.RICH | ({"question_id": metric.question} if metric.question else {})
        try:
            with self._limit():
                why = calls_growth(catalogue, fields) or time_growth(catalogue, fields)
        except TooLong:
            why = "an event of 5,000 words takes too long"
        if why:
            self.report.broken.append(Counterexample(Breach(metric.name, GROWTH, why)))


def reduced(fields: Fields, breaks: Callable[[Fields], bool]) -> Fields:
    """Return smaller fields for which `breaks` still holds: with fewer of them, shorter lists and shorter texts.

    >>> reduced({"query": "a b", "response": "not  this one", "spans": []}, lambda fields: "this" in fields["response"])
    {'response': 'this'}
    """
    trials = 0
    while True:
        for smaller in _smaller(fields):
            trials += 1
            if trials > _MOST_TRIALS:
                return fields
            try:
                still = breaks(smaller)
            except KeyError:
                still = False
            if still:
                fields = smaller
                break
        else:
            return fields


def _smaller(value: Any) -> Iterator[Any]:
    """Yield simpler values, those that are much smaller first."""
    if isinstance(value, dict):
        yield from ({name: each for name, each in value.items() if name != left_out} for left_out in value)
        yield from ({**value, name: smaller} for name, each in value.items() for smaller in _smaller(each))
    elif isinstance(value, list | str) and len(value) > 1:
        half = len(value) // 2
        yield from (value[:half], value[half:])
        if half < 20:
            yield from (value[1:], value[:-1])
    if isinstance(value, list):
        items = enumerate(value[:20])
        yield from ([*value[:at], smaller, *value[at + 1 :]] for at, item in items for smaller in _smaller(item))
