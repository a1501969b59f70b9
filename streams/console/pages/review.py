"""`/review`: one answer of the queue after the other, which people label without seeing its scores."""

from __future__ import annotations

from collections.abc import Callable

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from ragweir.streams.analysis.labels.rating import choices
from ragweir.streams.console.page_state import PageState
from ragweir.streams.console.rendering import render
from ragweir.streams.console.review_desk import ReviewDesk
from ragweir.streams.console.safety.forms import read_form
from ragweir.streams.console.safety.rates import Rate

_AT_ONCE, _PER_SECOND = 30, 2.0
"""Labels of one person at once, and a second after that: a person at the keyboard is slower."""
_Act = Callable[[str, str, str], None]


def review_routes(desk: ReviewDesk, how_to_draw: str, state: Callable[[], PageState]) -> list[BaseRoute]:
    """Return the routes of the review.

    Args:
        desk: asks people about the answers of a queue.
        how_to_draw: the command that draws a queue, which the page shows where there is none.
        state: returns the state that every page shows.
    """
    rate = Rate(_AT_ONCE, _PER_SECOND)
    acts: dict[str, _Act] = {
        "label": desk.answer,
        "skip": lambda person, mark, _: desk.skip(person, mark),
        "undo": lambda person, _, __: desk.undo(person),
    }

    def review(request: Request) -> Response:
        shown = desk.show(_labelling(desk, request))
        keys = choices(shown.question) if shown and shown.question else ()
        return render(request, "review.html", shown=shown, choices=keys, how_to_draw=how_to_draw, state=state())

    async def act(request: Request) -> Response:
        person = _labelling(desk, request)
        form = await read_form(request)
        if (chosen := acts.get(form.get("do", ""))) is None:
            raise HTTPException(400, "This form has no such button.")
        if not rate.admits(person):
            raise HTTPException(429, "This is faster than a person reads; nothing is saved. Go back, and go on.")
        await run_in_threadpool(chosen, person, form.get("mark", ""), form.get("choice", ""))
        return RedirectResponse("/review", 303)

    return [Route("/review", review), Route("/review", act, methods=["POST"])]


def _labelling(desk: ReviewDesk, request: Request) -> str:
    """Return the name of the person.

    Raises:
        HTTPException: if the person may not label.
    """
    person: str = request.state.person
    if not desk.may_label(person):
        raise HTTPException(403, "You may look at answers, but not label them: console.label_users does not name you.")
    return person
