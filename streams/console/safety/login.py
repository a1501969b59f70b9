"""The login: a person gives the token and a name, and gets a session."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ragweir.streams.console.rendering import render
from ragweir.streams.console.request_counts import RequestCounts
from ragweir.streams.console.safety.authentication import KEPT, Access
from ragweir.streams.console.safety.forms import read_form
from ragweir.streams.console.safety.return_path import own_path
from ragweir.streams.services.shared.raters import fault_of_name


def login_routes(access: Access, counts: RequestCounts) -> list[BaseRoute]:
    """Return the routes of the login and the logout.

    Args:
        access: knows the token.
        counts: counts the attempts.
    """

    async def login(request: Request) -> Response:
        if request.method != "POST":
            return _page(access, request, next_path=own_path(request.query_params.get("next", "/")))
        form = await read_form(request)
        name, next_path = form.get("name", ""), own_path(form.get("next", "/"))
        is_admitted = access.admits(form.get("token", "").strip())
        counts.count("ragweir_console_logins_total", "admitted" if is_admitted else "rejected")
        if not is_admitted:
            problem = (
                "This is not the token. The console printed it when it started, or it is in console.token_file or in "
                f"the file `{KEPT}` of console.folder."
            )
            return _page(access, request, next_path=next_path, name=name, problem=problem, status=403)
        if fault := fault_of_name(name):
            return _page(access, request, next_path=next_path, problem=f"The name {fault}.", status=422)
        response = RedirectResponse(next_path, 303)
        access.begin(response, name.strip())
        return response

    async def logout(_: Request) -> Response:
        response = RedirectResponse("/login", 303)
        access.end(response)
        return response

    return [Route("/login", login, methods=["GET", "POST"]), Route("/logout", logout, methods=["POST"])]


def _page(
    access: Access, request: Request, *, next_path: str, name: str = "", problem: str = "", status: int = 200
) -> Response:
    asks_token = not access.is_private
    return render(request, "login.html", status, next_path=next_path, name=name, problem=problem, asks_token=asks_token)
