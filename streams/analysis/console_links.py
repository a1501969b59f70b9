"""Links to the console: pages of answers, as paths and, below `console.public_url`, as addresses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

from ragweir.streams.settings import Slo


def segment(text: str) -> str:
    """Return a text as one part of a path.

    >>> segment("a/b c")
    'a%2Fb%20c'
    """
    return quote(text, safe="", errors="surrogatepass")


def answer_path(event_id: str, query: str = "") -> str:
    """Return the path of an answer's page, with the query string of the list that it is seen in.

    Browsers leave out a part of a path that is a dot or two, so that such an id is a parameter.

    >>> answer_path("a/b?c"), answer_path("..", "sort=time")
    ('/answers/a%2Fb%3Fc', '/answers/?event=..&sort=time')
    """
    own = segment(event_id)
    if event_id in (".", ".."):
        return f"/answers/?event={own}" + (f"&{query}" if query else "")
    return f"/answers/{own}" + (f"?{query}" if query else "")


def bad_answers_path(slo: Slo, start: str, end: str) -> str:
    """Return the path of the list of an SLO's bad answers of some time, worst first.

    Args:
        slo: the SLO.
        start: time of the first answer, or a template that gives it.
        end: time after the last answer, or a template.

    >>> slo = Slo(name="supported", metric="context_support", at_least=0.5, objective=0.95)
    >>> bad_answers_path(slo, "1", "2")
    '/answers?slo=supported&sort=context_support&order=asc&from=1&to=2'
    """
    worst = "asc" if slo.at_least is not None else "desc"
    return f"/answers?{_query({'slo': slo.name, 'sort': slo.metric, 'order': worst})}&from={start}&to={end}"


def bad_answers(public_url: str, slo: Slo, start: datetime, end: datetime) -> str:
    """Return the address of the list of an SLO's bad answers of some time, worst first."""
    return public_url + bad_answers_path(slo, *(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for time in (start, end)))


def _query(parameters: Mapping[str, str]) -> str:
    return urlencode(parameters, errors="surrogatepass")
