"""The page that a person wanted, which is shown after the login."""

from __future__ import annotations

import re
from urllib.parse import urlencode

from starlette.requests import Request

_OWN_PATH = re.compile(r"/(?![/\\])[!-\[\]-~]*", re.ASCII)
"""A path of this host. Browsers read two slashes, or a slash and a backslash, as the beginning of another host."""
_LONGEST = 4_096


def own_path(text: str) -> str:
    r"""Return a text if it is the path of a page of the console; else that of the first page.

    >>> [own_path(text) for text in ("/answers?slo=a", "//evil.example", "/\\evil.example", "https://evil.example", "")]
    ['/answers?slo=a', '/', '/', '/', '/']
    """
    return text if len(text) <= _LONGEST and _OWN_PATH.fullmatch(text) else "/"


def return_path(request: Request) -> str:
    """Return the path and the query of a request."""
    path = request.scope["raw_path"].decode("ascii", "replace")
    query = request.scope["query_string"].decode("ascii", "replace")
    return own_path(f"{path}?{query}" if query else path)


def login_path(request: Request) -> str:
    """Return the path of the login that leads to the page of a request."""
    return f"/login?{urlencode({'next': return_path(request)})}"
