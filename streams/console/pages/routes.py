"""All pages."""

from __future__ import annotations

from starlette.routing import BaseRoute

from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.pages.answer_list import list_routes
from ragweir.streams.console.pages.answer_page import answer_routes
from ragweir.streams.console.pages.applications_page import applications_routes
from ragweir.streams.console.pages.people_page import agreement_routes


def page_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the routes of all pages."""
    return [*applications_routes(content), *list_routes(content), *answer_routes(content), *agreement_routes(content)]
