"""The check of the console: its packages, its folder, its pages and the proxy before them, and how far it has read."""

from __future__ import annotations

import os
import re
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.runtime.serving.port_holder import answer, local
from ragweir.streams.services.console import PACKAGES, PORT
from ragweir.streams.settings import Settings
from ragweir.streams.settings.console import ConsoleSettings

_READ = re.compile(r"^ragweir_console_read_ratio (\S+)$", re.MULTILINE)
_LAG = re.compile(r"^ragweir_lag\{.*\} (\S+)$", re.MULTILINE)
_TIMEOUT_S = 3.0
_PAGE = "/login"
_OWN_HEADER = ("Cross-Origin-Resource-Policy", "same-origin")
"""A header of each page of the console, which a proxy's own pages hardly have."""
_NOT_OURS = -1
"""Stands for the status of an answer that is not the console's."""


def console(context: CheckContext) -> str:
    """Check that the console can start, and its pages be reached; name the evaluations that it has not read yet."""
    own = context.settings.console
    if not own.enabled:
        return "it is off (console.enabled)"
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise CheckFailed(f"it needs the package {missing[0]}: pip install 'ragweir[console]'")
    place = _nearest(own.folder)
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise CheckFailed(f"console.folder {own.folder} cannot be written by this user")
    series = _series(context.settings)
    said = [f"its store is in {own.folder}", _pages(own, is_running=series is not None), *_proxy(own)]
    if series is None:
        return "; ".join(said)
    if (ratio := float(series[0])) < 1:
        said.append(f"it has read {ratio:.0%} of the evaluations, and its pages lack the others")
        raise CheckWarning("; ".join(said))
    behind = int(series[1])
    return "; ".join([*said, f"it is {behind:,} records behind" if behind else "it has read all evaluations"])


def _nearest(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that is there."""
    there = folder.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    return there


def _series(settings: Settings) -> tuple[float, float] | None:
    """Return the part of the evaluations that the console has read, and its lag; None if none runs here."""
    if not settings.telemetry.port:
        return None
    is_there, text = answer(settings.telemetry.host, settings.telemetry.port + PORT, "/metrics")
    if not is_there or (found := _READ.search(text)) is None:
        return None
    return float(found[1]), sum(map(float, _LAG.findall(text)))


def _pages(own: ConsoleSettings, *, is_running: bool) -> str:
    """Check that the pages answer where the console listens.

    Raises:
        CheckFailed: if it runs and they do not.
    """
    if own.socket is not None or not own.port:
        return "it runs" if is_running else "it does not run on this machine"
    place = f"{own.host}:{own.port}"
    status = _status(f"http://{local(own.host)}:{own.port}", urlsplit(own.public_url or "").netloc)
    if status == HTTPStatus.OK:
        return f"its pages answer at {place}"
    if is_running or not isinstance(status, str):
        raise CheckFailed(f"its pages do not answer at {place}: {_named(status)}; set console.port")
    return "it does not run on this machine"


def _proxy(own: ConsoleSettings) -> list[str]:
    """Check that people reach the pages by `console.public_url`.

    Raises:
        CheckFailed: if a proxy changes the host that browsers name.
        CheckWarning: if they are not reached from this machine.
    """
    if own.public_url is None:
        return []
    status = _status(own.public_url)
    if status == HTTPStatus.MISDIRECTED_REQUEST:
        raise CheckFailed(
            f"the proxy at {own.public_url} passes on another Host than that of console.public_url, and the console "
            "answers to no other: let the proxy pass on the browser's"
        )
    if status == HTTPStatus.OK:
        return [f"people reach it at {own.public_url}"]
    if status in {HTTPStatus.FOUND, HTTPStatus.SEE_OTHER, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return [f"the proxy at {own.public_url} asks who comes"]
    raise CheckWarning(f"console.public_url {own.public_url} does not lead to it from this machine: {_named(status)}")


def _status(url: str, host: str = "") -> int | str:
    """Return the status of the page of the login below a URL, or the reason why there is none.

    Args:
        url: scheme, host and port.
        host: the Host that is named, if it is another one.
    """
    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    try:
        with closing(kind(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)) as connection:
            connection.request("GET", _PAGE, headers={"Host": host} if host else {})
            response = connection.getresponse()
            name, value = _OWN_HEADER
            is_ours = response.status != HTTPStatus.OK or response.getheader(name) == value
            return response.status if is_ours else _NOT_OURS
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__


def _named(status: int | str) -> str:
    if isinstance(status, str):
        return status
    return "another program answers" if status == _NOT_OURS else f"the answer has the status {status}"
