"""The rules that every request keeps before a page sees it, and the headers that every response has."""

from __future__ import annotations

from pathlib import Path
from traceback import extract_tb
from typing import Final

import structlog
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragweir.streams.console.rendering import render
from ragweir.streams.console.request_counts import RequestCounts
from ragweir.streams.console.safety.authentication import Access
from ragweir.streams.console.safety.origins import Origins, is_from_elsewhere
from ragweir.streams.console.safety.return_path import login_path, return_path
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.serving.server import HEAD_BYTES

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response. A style sheet and a script, which have no texts, have a Cache-Control of their own."""
STATIC = "/static/"
LOGIN = "/login"
_METHODS = ("GET", "HEAD", "POST")


class Guard:
    """Checks requests, answers those that break a rule, and gives the others to the pages.

    The name of the person is `request.state.person` on the pages; None on those that nobody needs to log in for.

    Args:
        app: the pages.
        origins: the hosts by which the console is reached.
        access: names the person who sends a request.
        counts: counts the requests, but for those of style sheet, script and icon.
    """

    def __init__(self, app: ASGIApp, origins: Origins, access: Access, counts: RequestCounts) -> None:
        self._app, self._origins, self._access, self._counts = app, origins, access, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            raise ValueError(f"there is no page for {scope['type']}")
        started, began_s = False, machine.monotonic()

        async def with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith(STATIC):
                    self._counts.on_answer(message["status"], machine.monotonic() - began_s)
            await send(message)

        try:
            request = Request(scope, receive)
            answer = self._refusal(request) or self._without_login(request) or self._app
            await answer(scope, receive, with_headers)
        except Exception as error:
            # The text of an error, and that of its causes, may repeat an event's, so that neither is logged.
            place = extract_tb(error.__traceback__)[-1]
            at = f"{Path(place.filename).name}:{place.lineno}"
            log.error("a page could not be shown", error=type(error).__name__, at=at)
            if not started:
                message = "The page could not be shown; the console's log says where.\n"
                await PlainTextResponse(message, 500)(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        """Return the answer to a request that breaks a rule; None if it keeps all."""
        if not self._origins.knows(request):
            return _refused(
                421, "This is not a name of the console; set console.public_url to the address that you use."
            )
        if sum(len(name) + len(value) for name, value in request.headers.raw) + len(str(request.url)) > HEAD_BYTES:
            return _refused(431, f"The address and the headers have over {HEAD_BYTES:,} bytes.")
        if request.method not in _METHODS:
            return PlainTextResponse("Only GET, HEAD and POST are answered.\n", 405, {"Allow": ", ".join(_METHODS)})
        if request.method == "POST" and not self._origins.is_same(request):
            return _refused(
                403, "A page of another site, or a program, has sent this form; open the console's own page."
            )
        return None

    def _without_login(self, request: Request) -> Response | None:
        """Return the answer to a person who has to log in first; None if the page may be shown."""
        person = self._access.person(request)
        request.state.person = person
        if request.url.path == LOGIN or request.url.path.startswith(STATIC):
            return None
        if is_from_elsewhere(request):
            # Also for a person whom a proxy names: another site's page makes no page of ours read anything.
            return render(request, "continue.html", address=return_path(request))
        if person is not None:
            return None
        if request.method == "POST":
            return _refused(401, "You are not logged in, or no longer; log in on another tab, and send the form again.")
        return RedirectResponse(login_path(request), 303)


def _refused(status: int, reason: str) -> Response:
    return PlainTextResponse(f"{reason}\n", status)
