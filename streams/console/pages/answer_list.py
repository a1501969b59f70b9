"""The list of answers: a table whose whole state is the query string, with its filters, and the same as JSON lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ragweir.errors import BadQuery
from ragweir.streams.analysis.blame.blame_question import names_to_ask
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.pages.cause_query import cause_link
from ragweir.streams.console.rendering import ZONE, render
from ragweir.streams.console.store.answer_query import FIELDS, MAX_ROWS, TIME, AnswerQuery
from ragweir.streams.console.store.feedback_rows import StoredFeedback
from ragweir.streams.console.store.stored_answers import AnswerPage, StoredAnswer
from ragweir.streams.services.shared.from_settings import known_catalogue

_PATH = "/answers"
_FORM = ("metric", "low", "high", "given")
"""Fields of the form of filters that become a range, `min.METRIC` and `max.METRIC`, or one value, `feedback.NAME`."""
_HEADLINES = ("unsupported_risk", "context_support", "judge_faithfulness", "unsupported_sentences")
_MOST_COLUMNS = 5
_MOST_CHOICES = 200
_MOST, _MOST_FIELDS = 8_192, 200
"""Limits on what a form sends: characters and fields."""
_ROW_DIGITS = 18


class ListColumn(NamedTuple):
    """A column of a metric."""

    metric: str
    query: str
    """The query string that sorts by it, and the other way round if the list is sorted by it."""
    is_sorted: bool


class ListFilter(NamedTuple):
    """A condition of the query, in words."""

    text: str
    query: str
    """The query string without it."""


@dataclass(frozen=True, slots=True)
class ListCell:
    """A value in the table."""

    value: float | None
    is_bad: bool


def list_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the routes of the page."""
    catalogue = known_catalogue(content.settings).metrics

    def is_asked(metric: str) -> bool:
        return metric in names_to_ask(content.settings, catalogue, [metric])

    def answers(request: Request) -> Response:
        wanted = _from_form(request.url.query)
        if wanted is not None:
            return RedirectResponse(f"{_PATH}?{wanted}" if wanted else _PATH, 303)
        query = _parsed(request.url.query)
        page = _searched(content, query)
        columns, state = _columns(content, query), content.state()
        content.seen.add(request.state.person, (each.event_id for each in page.answers))
        return render(
            request,
            "answers.html",
            query=query,
            page=page,
            search=str(query.page()),
            causes=cause_link(query, is_asked),
            rows=[(each, [_cell(content, each, column.metric) for column in columns]) for each in page.answers],
            columns=columns,
            by_time=_sorted(query, TIME),
            filters=list(_filters(query)),
            following=page.next and str(query.page(after=page.next)),
            preceding=page.previous and str(query.page(before=page.previous)),
            state=state,
            new=f"/answers.new?{urlencode({'row': state.kept.next_row})}&{query.page()}" if content.is_live else "",
            feedback=content.store.feedback_of([each.event_id for each in page.answers]),
            given=[
                (f"{name} {value}", f"feedback.{name}={value}")
                for name, value in content.store.feedback_values()
                if "=" not in name
            ],
            choices={name: content.store.values(name, _MOST_CHOICES) for name in FIELDS},
            metrics=sorted(content.store.metrics()),
            slos=[each.name for each in content.settings.slo],
        )

    def download(request: Request) -> Response:
        query = replace(_parsed(request.url.query).page(), limit=MAX_ROWS)
        first = _searched(content, query)
        headers = {"Content-Disposition": 'attachment; filename="answers.jsonl"'}
        return StreamingResponse(
            _lines(content, query, first, request.state.person), media_type="application/jsonl", headers=headers
        )

    def new(request: Request) -> Response:
        row = request.query_params.get("row", "")
        if not (row.isascii() and row.isdecimal() and len(row) < _ROW_DIGITS):
            raise HTTPException(400, "row is the number of a row")
        query = _parsed(request.url.query, "row")
        try:
            return PlainTextResponse(f"{content.store.number_since(query, int(row))}")
        except BadQuery as error:
            raise HTTPException(400, str(error)) from None

    return [Route(_PATH, answers), Route(f"{_PATH}.jsonl", download), Route(f"{_PATH}.new", new)]


def _parsed(text: str, *ignored: str) -> AnswerQuery:
    try:
        return AnswerQuery.parse(text, (ZONE, *ignored))
    except BadQuery as error:
        raise HTTPException(400, str(error)) from None


def _searched(content: ConsoleContent, query: AnswerQuery) -> AnswerPage:
    try:
        return content.store.search(query)
    except BadQuery as error:
        raise HTTPException(400, str(error)) from None


def _from_form(text: str) -> str | None:
    """Return the query string that the form of filters asks for; None if the query string is not the form's.

    A form sends its empty fields, too, and cannot name a field by the value of another one.
    """
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS) if len(text) < _MOST else []
    except ValueError:
        pairs = []  # A query has fewer fields, too, which is what the reader is told.
    given = dict(pairs)
    if "form" not in given:
        return None
    kept = [(name, value) for name, value in pairs if value.strip() and name not in {*_FORM, "form"}]
    metric = given.get("metric", "")
    if metric:
        sides = (("min", given.get("low", "").strip()), ("max", given.get("high", "").strip()))
        kept += [(f"{side}.{metric}", value) for side, value in sides if value]
    name, _, value = given.get("given", "").partition("=")
    if name.startswith("feedback."):
        kept.append((name, value))
    return urlencode(kept, errors="surrogatepass")


def _columns(content: ConsoleContent, query: AnswerQuery) -> list[ListColumn]:
    known = set(content.store.metrics())
    wanted = dict.fromkeys((query.sort, *(each.metric for each in query.ranges)))
    wanted |= dict.fromkeys(slo.metric for slo in content.settings.slo if slo.name == query.slo)
    names = [name for name in (*wanted, *_HEADLINES) if name in known]
    return [_sorted(query, name) for name in dict.fromkeys(names)][:_MOST_COLUMNS]


def _sorted(query: AnswerQuery, metric: str) -> ListColumn:
    is_sorted = query.sort == metric
    ascending = not query.ascending if is_sorted else False
    return ListColumn(metric, str(replace(query.page(), sort=metric, ascending=ascending)), is_sorted)


def _cell(content: ConsoleContent, answer: StoredAnswer, metric: str) -> ListCell:
    value = answer.scores.get(metric)
    if value is None:
        return ListCell(None, is_bad=False)
    rules = content.rules.rules.of(metric, value, answer.dimension)
    return ListCell(value, any(rule.is_bad for rule in rules))


def _filters(query: AnswerQuery) -> Iterator[ListFilter]:
    """Yield the conditions of a query, each with the query without it."""
    bare = query.page()
    for name, value in query.where:
        rest = tuple(each for each in query.where if each != (name, value))
        yield ListFilter(f"{name} {value or '(none)'}", str(replace(bare, where=rest)))
    for each in query.ranges:
        low = f"{each.low:g} ≤ " if each.low is not None else ""
        high = f" ≤ {each.high:g}" if each.high is not None else ""
        others = tuple(other for other in query.ranges if other != each)
        yield ListFilter(f"{low}{each.metric}{high}", str(replace(bare, ranges=others)))
    for name, value in query.given:
        left = tuple(each for each in query.given if each != (name, value))
        yield ListFilter(f"{name} {value}", str(replace(bare, given=left)))
    for flag in query.flags:
        yield ListFilter(
            f"flag {flag}", str(replace(bare, flags=tuple(other for other in query.flags if other != flag)))
        )
    single: dict[str, tuple[str, str | None]] = {
        "since": ("from", None if query.since is None else query.since.isoformat()),
        "until": ("to", None if query.until is None else query.until.isoformat()),
        "slo": ("bad for SLO", query.slo),
        "judged": ("", None if query.judged is None else "judged" if query.judged else "not judged"),
        "labelled": ("", None if query.labelled is None else "labelled" if query.labelled else "not labelled"),
        "has_feedback": ("feedback", None if query.has_feedback is None else "yes" if query.has_feedback else "no"),
        "id_part": ("id has", query.id_part),
        "session": ("session", query.session),
        "question": ("question", query.question),
        "trace": ("trace", query.trace),
        "document": ("document", query.document),
    }
    for field, (words, own) in single.items():
        if own is not None:
            without: dict[str, Any] = {field: None}
            yield ListFilter(f"{words} {own}".strip(), str(replace(bare, **without)))


def _lines(content: ConsoleContent, query: AnswerQuery, page: AnswerPage, person: str) -> Iterator[bytes]:
    """Yield the answers of a list as JSON lines, page by page."""
    while True:
        content.seen.add(person, (each.event_id for each in page.answers))
        feedback = content.store.feedback_of([each.event_id for each in page.answers])
        lines = (_line(each, feedback.get(each.event_id, ())) for each in page.answers)
        yield b"".join(orjson.dumps(line, option=orjson.OPT_UTC_Z) + b"\n" for line in lines)
        if page.next is None:
            return
        page = content.store.search(query.page(after=page.next))


def _line(answer: StoredAnswer, feedback: Sequence[StoredFeedback]) -> dict[str, object]:
    return {
        "event_id": answer.event_id,
        "event_time": answer.event_time,
        **{name: getattr(answer, name) for name in FIELDS},
        "labels": answer.labels,
        "flags": answer.flags,
        "stage": "judged" if answer.judged else "scored",
        "scores": answer.scores,
        "categories": answer.categories,
        "decisions": {
            suite: {"status": status, "probability": probability}
            for suite, (status, probability) in answer.decisions.items()
        },
        "source": answer.source and answer.source.model_dump(),
        "feedback": [{"name": each.name, "value": each.value, "time": each.time} for each in feedback],
    }
