"""All pages."""

from __future__ import annotations

from starlette.routing import BaseRoute

from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.pages.answer_list import list_routes
from ragweir.streams.console.pages.answer_page import answer_routes
from ragweir.streams.console.pages.applications_page import applications_routes
from ragweir.streams.console.pages.cause_page import cause_routes
from ragweir.streams.console.pages.compare_pages import compare_routes
from ragweir.streams.console.pages.dead_letters_page import dead_letters_routes
from ragweir.streams.console.pages.people_page import agreement_routes

_PAGES = (
    applications_routes,
    list_routes,
    answer_routes,
    cause_routes,
    agreement_routes,
    compare_routes,
    dead_letters_routes,
)


def page_routes(content: ConsoleContent) -> list[BaseRoute]:
    """Return the routes of all pages."""
    return [route for routes in _PAGES for route in routes(content)]
