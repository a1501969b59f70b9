"""The first page: each application with its answers, the bad ones by SLO, and the last day as a sparkline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.streams.analysis.labels.report import AgreementTable
from ragweir.streams.analysis.slo.row_outcomes import SloSums
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.pages.cause_query import cause_link
from ragweir.streams.console.rendering import render
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.applications import ApplicationCounts
from ragweir.streams.console.store.feedback_rows import FeedbackCount
from ragweir.streams.settings import Slo

_SPAN = timedelta(days=1)
_PARTS = 24
_MOST = 200
_MOST_VALUES = 6
"""Values of feedback of an application, those of most users."""


class SparkBar(NamedTuple):
    """A part of the time range."""

    events: int
    bad: int
    """Its bad answers by the first SLO."""
    height: float
    bad_height: float
    """Heights as shares of the highest bar."""


class SloShare(NamedTuple):
    """The bad answers of an application by one SLO."""

    slo: Slo
    sums: SloSums
    query: str
    """The query string of the bad answers, worst first."""
    causes: str | None
    """The address of their causes; None if no answer is bad."""


class FeedbackLink(NamedTuple):
    """A value that users gave about answers of an application."""

    found: FeedbackCount
    query: str
    """The query string of these answers."""


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """An application."""

    counts: ApplicationCounts
    query: str
    """The query string of its answers."""
    slos: list[SloShare]
    bars: list[SparkBar]
    feedback: list[FeedbackLink]
    agreement: list[AgreementTable]
    """The table of each question with the most labels of its answers."""


def applications_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the route of the page."""

    def applications(request: Request) -> Response:
        state = content.state()
        first, last = state.kept.first, state.kept.last
        until = None if last is None else last + timedelta(microseconds=1)
        since = None if until is None or first is None else max(first, until - _SPAN)
        counts: list[ApplicationCounts] = []
        feedback: dict[str | None, tuple[FeedbackCount, ...]] = {}
        if since is not None and until is not None:
            counts = content.store.applications(since, until, _PARTS)
            feedback = content.store.feedback_counts(since, until)
        tables = content.agreement().tables
        return render(
            request,
            "applications.html",
            state=state,
            since=since,
            rows=[
                _row(content, each, AnswerQuery(since=since), feedback.get(each.application, ()), tables)
                for each in counts[:_MOST]
            ],
            agreement=list(_tables(tables, None)),
            unknown=not tables,
            is_live=content.is_live,
            left_out=max(0, len(counts) - _MOST),
            slos=[slo.name for slo in content.settings.slo],
        )

    return [Route("/", applications)]


def _row(
    content: ConsoleContent,
    counts: ApplicationCounts,
    span: AnswerQuery,
    feedback: Sequence[FeedbackCount],
    tables: Sequence[AgreementTable],
) -> ApplicationRow:
    of = AnswerQuery(where=(("application", counts.application or ""),), since=span.since)
    links = [FeedbackLink(each, str(replace(of, given=((each.name, each.value),)))) for each in feedback[:_MOST_VALUES]]
    agreement = list(_tables(tables, counts.application)) if counts.application is not None else []
    return ApplicationRow(counts, str(of), list(_slos(content, counts, of)), list(_bars(counts)), links, agreement)


def _tables(tables: Sequence[AgreementTable], application: str | None) -> Iterator[AgreementTable]:
    """Yield the table of each question with the most labels of an application's answers; of None, of all answers."""
    own = [each for each in tables if each.application == application]
    for question in dict.fromkeys(each.question for each in own):
        yield max((each for each in own if each.question == question), key=lambda each: each.labels)


def _slos(content: ConsoleContent, counts: ApplicationCounts, of: AnswerQuery) -> Iterator[SloShare]:
    for slo in content.settings.slo:
        if (sums := counts.slos.get(slo.name)) is not None:
            bad = AnswerQuery(
                where=of.where, since=of.since, slo=slo.name, sort=slo.metric, ascending=slo.at_least is not None
            )
            yield SloShare(slo, sums, str(bad), cause_link(bad, bool) if sums.bad else None)


def _bars(counts: ApplicationCounts) -> Iterator[SparkBar]:
    most = max(counts.per_part, default=0) or 1
    bad = next(iter(counts.bad_per_part.values()), (0,) * len(counts.per_part))
    for events, own in zip(counts.per_part, bad, strict=True):
        yield SparkBar(events, own, events / most, own / most)
