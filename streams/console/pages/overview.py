"""The first page: what was read."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from ragweir.streams.console.rendering import render


def overview_routes(answers: int, events: Path | None) -> list[BaseRoute]:
    """Return the route of the first page.

    Args:
        answers: the number of answers that were read.
        events: the interactions that they were made from.
    """

    def overview(request: Request) -> Response:
        return render(request, "overview.html", answers=answers, events=events)

    return [Route("/", overview)]
