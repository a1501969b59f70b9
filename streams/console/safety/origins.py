"""Where requests come from: the hosts by which the console is reached, and pages of other sites that are kept out."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from ragweir.streams.settings.console import LOOPBACK_NAMES

_HOST = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^\s:\[\]@/\\]+)(?::\d{1,5})?", re.ASCII | re.IGNORECASE)


class Origins:
    """The origins of the console: that of `console.public_url`, and this machine's own names.

    A name that somebody else's DNS server answers for is none of them, so that a page of that name is no page of ours
    though its requests reach us (DNS rebinding).

    Args:
        public_url: `console.public_url`.
    """

    def __init__(self, public_url: str | None) -> None:
        self._url = public_url
        self._host = urlsplit(public_url).netloc if public_url else None

    def knows(self, request: HTTPConnection) -> bool:
        """Return whether the Host of a request is a name of the console."""
        hosts = request.headers.getlist("host")
        if len(hosts) != 1:
            return False
        return hosts[0].lower() == self._host or _is_own(hosts[0])

    def is_same(self, request: HTTPConnection) -> bool:
        """Return whether a page of the console made a request, as browsers say."""
        if (site := request.headers.get("sec-fetch-site")) is not None:
            return site == "same-origin"
        origin, host = request.headers.get("origin"), request.headers.get("host", "")
        if origin is None:
            return False
        return origin == self._url or (_is_own(host) and origin == f"http://{host}".lower())


def is_from_elsewhere(request: HTTPConnection) -> bool:
    """Return whether another site led to a request. Browsers send no cookies of SameSite=Strict with it."""
    return request.headers.get("sec-fetch-site") in {"cross-site", "same-site"}


def _is_own(host: str) -> bool:
    found = _HOST.fullmatch(host)
    return found is not None and found["name"].strip("[]").lower() in LOOPBACK_NAMES
