"""Pages from templates, in which every value is text: it is escaped, and none is HTML, a URL or CSS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ragweir.streams.console.template_filters import FILTERS

FOLDER = Path(__file__).parent
ZONE = "zone"
"""Parameter of an address that says nothing to the server: with `zone=local` the script shows times in local time."""
_environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    auto_reload=False,
)
_environment.filters.update(FILTERS)


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page.

    Args:
        request: the request, whose person the page names.
        template: the name of its file in `templates/`.
        status: the status of the response.
        values: what the template shows.
    """
    person = getattr(request.state, "person", None)
    page = _environment.get_template(template).render(person=person, path=request.url.path, **values)
    # A lone surrogate, which JSON may hold and UTF-8 may not, is shown as a question mark.
    return HTMLResponse(page.encode(errors="replace"), status)
