"""The page of agreement with people: what `ragweir labels report` prints."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.metrics.people.shares import Limits
from ragweir.streams.analysis.labels.report import NUMBERS
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.rendering import render


class AgreementNumber(NamedTuple):
    """A number of a table, with the places of its limits on an axis from 0 to 1."""

    name: str
    found: Limits | None
    why: str
    """The reason why it is not known."""
    left: float = 0.0
    at: float = 0.0
    right: float = 0.0


def agreement_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the route of the page."""

    def agreement(request: Request) -> Response:
        found = content.agreement()
        tables = [(table, [_number(name, own) for name, own in table.numbers]) for table in found.tables]
        return render(
            request,
            "agreement.html",
            tables=tables,
            notes=found.notes,
            command=content.agreement_command,
            state=content.state(),
        )

    return [Route("/agreement", agreement)]


def _number(name: str, found: Limits | str) -> AgreementNumber:
    if isinstance(found, str):
        return AgreementNumber(NUMBERS[name], None, found)
    # The part of a kappa's limits below 0 is cut, as in the report of the command.
    left, at, right = (max(0.0, each) for each in (found.low, found.value, found.high))
    return AgreementNumber(NUMBERS[name], found, "", left, at, right)
