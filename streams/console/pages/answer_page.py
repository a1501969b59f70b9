"""The page of one answer: the verdict, the answer sentence by sentence, its passages, and everything behind them."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.errors import BadQuery, RagweirError
from ragweir.metrics.metric import Metric
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.evidence.answer_evidence import answer_evidence
from ragweir.streams.analysis.originals import Original
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.rendering import ZONE, render
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.stored_answers import StoredAnswer

_FACTS = ("application", "pipeline_version", "model", "tenant", "environment")
DIRECTIONS = {"higher": "higher is better", "lower": "lower is better", "neither": "neither way is better"}


_GONE = "its record is gone, or is that of another event"


def answer_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the routes of the page."""

    def answer(request: Request) -> Response:
        event_id = request.path_params.get("event_id") or request.query_params.get("event", "")
        try:
            query = AnswerQuery.parse(request.url.query, ignored=("event", ZONE))
            stored = content.store.found(event_id)
            before, after = content.store.neighbours(query, event_id) if stored else (None, None)
        except BadQuery as error:
            raise HTTPException(400, str(error)) from None
        if stored is None:
            raise HTTPException(404, "There is no answer with this id here.")
        content.seen.add(request.state.person, [event_id])
        search, state = str(query.page()), content.state()
        return render(
            request, "answer.html", **_values(content, stored), before=before, after=after, search=search, state=state
        )

    return [
        Route("/answers/{event_id:path}", answer),
    ]


def _values(content: ConsoleContent, stored: StoredAnswer) -> dict[str, Any]:
    try:
        evaluation, why = content.reader.evaluation(stored.at, stored.event_id), _GONE
    except RagweirError as error:
        evaluation, why = None, str(error)
    if evaluation is None:
        return {"stored": stored, "found": None, "why": why}
    labels = content.labels(stored.event_id)
    explained = content.texts.explained(evaluation)
    found = answer_evidence(explained, _original(content, evaluation), content.rules, labels)
    return {
        "stored": stored,
        "found": found,
        "facts": [(name, value) for name in _FACTS if (value := getattr(evaluation, name)) is not None],
        "command": content.reader.command(evaluation),
        "trace": _trace(content, evaluation),
        "given": content.store.feedback_of([stored.event_id]).get(stored.event_id, []),
        "direction": _direction,
    }


def _original(content: ConsoleContent, evaluation: Evaluation) -> Original:
    try:
        return content.texts.of(content.reader.original(evaluation))
    except RagweirError as error:
        return Original(None, "", str(error))


def _direction(metric: Metric | None) -> str:
    return "" if metric is None else f"{metric.unit}, {DIRECTIONS[metric.better]}"


def _trace(content: ConsoleContent, evaluation: Evaluation) -> str | None:
    """Return the URL of the event's trace; only ids of hexadecimal digits enter it."""
    url, trace, span = content.settings.console.trace_url, evaluation.trace_id, evaluation.span_id or ""
    if url is None or trace is None or not _is_hex(trace) or (span and not _is_hex(span)):
        return None
    return url.replace("{trace_id}", trace).replace("{span_id}", span)


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 64 and all(each in "0123456789abcdefABCDEF" for each in text)
