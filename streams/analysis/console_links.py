"""Links to the console: pages of answers, as paths and, below `console.public_url`, as addresses."""

from __future__ import annotations

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


def cause_path(slo: Slo, start: str, end: str) -> str:
    """Return the path of the page of causes of an SLO's bad answers of some time.

    Args:
        slo: the SLO.
        start: time of the first answer, or a template that gives it.
        end: time after the last answer, or a template.

    >>> cause_path(Slo(name="supported", metric="context_support", at_least=0.5, objective=0.95), "1", "2")
    '/cause?slo=supported&from=1&to=2'
    """
    return f"/cause?{urlencode({'slo': slo.name})}&from={start}&to={end}"


def causes_address(public_url: str, slo: Slo, start: datetime, end: datetime) -> str:
    """Return the address of the page of causes of an SLO's bad answers of some time."""
    return public_url + cause_path(slo, *(f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for time in (start, end)))
