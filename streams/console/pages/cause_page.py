"""The page of causes: what `ragweir blame` prints, with links to the answers of each cause."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.errors import BadQuery, RagweirError
from ragweir.streams.analysis.blame.blame_question import BlameQuestion, names_to_ask
from ragweir.streams.analysis.blame.blame_report import BlameReport, NamedCause
from ragweir.streams.analysis.blame.facets import DOCUMENT
from ragweir.streams.console.cause_desk import CauseDesk
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.pages.cause_query import cause_problem
from ragweir.streams.console.rendering import ZONE, render
from ragweir.streams.console.store.answer_query import FIELDS, AnswerQuery, MetricRange
from ragweir.streams.services.shared.from_settings import known_catalogue

_SPAN = timedelta(days=1)
_CAUSES = 50


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause on the page."""

    cause: NamedCause
    holder: str | None
    """Names of the cause that it is within."""
    facets: dict[str, str]
    """Values of the cause that the one around it has not."""
    answers: str | None
    """The query string of its bad answers; None if no filter of the list names them."""
    pairs: list[tuple[str | None, str | None]]
    """Bad answers, each beside a good one."""
    left: float
    at: float
    right: float
    """Places of the difference and its limits on the axis of all causes, from 0 to 1."""


def cause_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the route of the page."""
    desk = CauseDesk(content.causes)
    catalogue = known_catalogue(content.settings).metrics

    def cause(request: Request) -> Response:
        state = content.state()
        choices = list(names_to_ask(content.settings, catalogue, sorted(content.store.metrics())))
        query, name = _asked(request.url.query)
        name = name or query.slo or next(iter(choices), None)
        until = query.until or (None if state.kept.last is None else state.kept.last + timedelta(microseconds=1))
        since = query.since or (None if until is None else until - _SPAN)
        query = replace(query, since=since, until=until)
        report, problem = None, ""
        if name is not None and state.kept.answers:
            try:
                report = desk.ask(BlameQuestion(name, since, until, query.where))
            except RagweirError as error:
                problem = str(error)
        slo = name if name in {each.name for each in content.settings.slo} else None
        bad = None if report is None else _bad(report, query, slo)
        rows = [] if report is None or bad is None else list(_rows(report, bad))
        content.seen.add(request.state.person, _examples(rows))
        return render(
            request,
            "cause.html",
            state=state,
            query=query,
            name=name,
            choices=choices,
            applications=content.store.values("application"),
            report=report,
            rows=rows,
            left_out=0 if report is None else max(0, len(report.causes) - _CAUSES),
            problem=problem,
            is_pending=report is None and not problem and name is not None and state.kept.answers,
            all_bad=str(bad),
        )

    return [Route("/cause", cause)]


def _asked(text: str) -> tuple[AnswerQuery, str | None]:
    """Return the range and values of a question, and the name of its metric or SLO if `metric` gives it.

    Raises:
        HTTPException: if the query string is none.
    """
    try:
        kept = "&".join(each for each in text.split("&") if each.partition("=")[2])
        query = AnswerQuery.parse(kept, ignored=("metric", ZONE))
        name = next(iter(parse_qs(kept, max_num_fields=100).get("metric", ())), None)
    except (BadQuery, ValueError) as error:
        raise HTTPException(400, str(error)) from None
    if problem := cause_problem(query):
        raise HTTPException(400, problem)
    return query, name


def _rows(report: BlameReport, bad: AnswerQuery) -> Iterator[CauseRow]:
    shown = report.causes[:_CAUSES]
    most = max((each.numbers.high for each in shown), default=1.0)
    for cause in shown:
        holder = report.holder(cause)
        limits = (cause.numbers.low, cause.numbers.difference, cause.numbers.high)
        places = (min(1.0, max(0.0, each / most)) for each in limits)
        pairs = list(zip_longest(cause.bad_examples, cause.good_examples))
        values = {**(holder.facets if holder else {}), **cause.facets}
        found = _with_values(bad, values, cause)
        title = None if holder is None else holder.title
        yield CauseRow(cause, title, report.own_facets(cause), None if found is None else str(found), pairs, *places)


def _bad(report: BlameReport, query: AnswerQuery, slo: str | None) -> AnswerQuery:
    """Return the list of all bad answers, worst first; those of an SLO are bad by its rule."""
    asked = report.criterion
    found = replace(query, sort=asked.metric, ascending=asked.higher_is_better, slo=slo)
    if slo is not None:
        return found
    side = {"high" if asked.higher_is_better else "low": asked.threshold}
    return replace(found, ranges=(MetricRange(asked.metric, **side),))


def _with_values(query: AnswerQuery, values: dict[str, str], cause: NamedCause) -> AnswerQuery | None:
    """Return the list of answers that carry a cause's values; None if the list cannot be filtered by any of its own."""
    known = {each: value for each, value in values.items() if each in FIELDS or each.startswith("labels.")}
    if not any(each in known or each == DOCUMENT for each in cause.facets):
        return None
    where = {**dict(query.where), **known}
    return replace(query, where=tuple(sorted(where.items())), document=values.get(DOCUMENT))


def _examples(rows: list[CauseRow]) -> list[str]:
    return [each for row in rows for pair in row.pairs for each in pair if each is not None]
