"""Browsers of the console's tests: httpx over the application, with the headers that a browser sends."""

from collections.abc import Sequence
from typing import Any

from starlette.routing import BaseRoute
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from ragweir.streams.console.application import application
from ragweir.streams.settings.console import ConsoleSettings

TOKEN = "the-token-of-these-tests"
HOST = "127.0.0.1:8600"
FROM_OWN_PAGE = {"Sec-Fetch-Site": "same-origin"}


def stranger(app: ASGIApp, address: str = "127.0.0.1", host: str = HOST, scheme: str = "http") -> TestClient:
    """A browser of somebody who is not logged in."""
    return TestClient(
        app,
        base_url=f"{scheme}://{host}",
        client=(address, 50_000),
        follow_redirects=False,
        raise_server_exceptions=False,
    )


def logged_in(app: ASGIApp, name: str = "Ada", token: str = TOKEN, **more: Any) -> TestClient:
    """The browser of a person who has logged in; its requests come from pages of the console."""
    client = stranger(app, **more)
    client.headers.update(FROM_OWN_PAGE)
    answer = client.post("/login", data={"token": token, "name": name, "next": "/"})
    assert answer.status_code == 303, answer.text
    return client


def console_of(pages: Sequence[BaseRoute], **settings: Any) -> ASGIApp:
    """The application over these pages."""
    return application(pages, ConsoleSettings(**settings), TOKEN)
