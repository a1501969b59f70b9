"""The console's ASGI application: the pages behind the guard, with the login, the style sheet and the script."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from typing_extensions import override

from ragweir.errors import RagweirError
from ragweir.streams.console.rendering import FOLDER, render
from ragweir.streams.console.request_counts import RequestCounts
from ragweir.streams.console.safety.authentication import Access
from ragweir.streams.console.safety.guard import Guard
from ragweir.streams.console.safety.login import login_routes
from ragweir.streams.console.safety.origins import Origins
from ragweir.streams.settings.console import ConsoleSettings


def application(
    pages: Sequence[BaseRoute], settings: ConsoleSettings, token: str, counts: RequestCounts | None = None
) -> ASGIApp:
    """Return the application.

    Args:
        pages: the routes of the pages, which only people who logged in reach.
        settings: where the console is reached, and who is trusted.
        token: the token that people log in with.
        counts: counts requests and logins; None for counts that nobody reads.
    """
    counts = counts or RequestCounts()
    access = Access(settings, token)
    static = Mount("/static", _StaticFiles(directory=FOLDER / "static"))
    handlers = {HTTPException: _problem, RagweirError: _problem}
    app = Starlette(routes=[*login_routes(access, counts), static, *pages], exception_handlers=handlers)
    return Guard(app, Origins(settings.public_url), access, counts)


class _StaticFiles(StaticFiles):
    """The style sheet and the script, which browsers keep and ask after."""

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""

        async def revalidated(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Cache-Control"] = "no-cache"
            await send(message)

        await super().__call__(scope, receive, revalidated)


async def _problem(request: Request, error: Exception) -> Response:
    """Answer an error that a page raised, which is a sentence for the reader."""
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (503, str(error))
    phrase = HTTPStatus(status).phrase
    return render(request, "problem.html", status, phrase=phrase, detail="" if detail == phrase else detail)
