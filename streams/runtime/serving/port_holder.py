"""The ragweir process that holds a telemetry port: each server names its own under /identity."""

from __future__ import annotations

import errno
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from pydantic import BaseModel, ConfigDict, ValidationError
from typing_extensions import override

_TIMEOUT_S = 2.0
_MOST_BYTES = 1024 * 1024
_EVERYWHERE = ("0.0.0.0", "::", "")  # noqa: S104 - nothing is bound to them


class PortHolder(BaseModel):
    """The answer of /identity.

    >>> str(PortHolder(service="evaluate", slot=1, prefix="rag.", pid=4711))
    "ragweir's evaluate-1 of the prefix rag. (process 4711)"
    """

    model_config = ConfigDict(frozen=True, strict=True)

    service: str
    slot: int
    prefix: str
    pid: int

    @override
    def __str__(self) -> str:
        prefix = f"the prefix {self.prefix}" if self.prefix else "no prefix"
        return f"ragweir's {self.service}-{self.slot} of {prefix} (process {self.pid})"


def local(host: str) -> str:
    """Return an address under which this machine reaches a server that listens on `host`."""
    return "127.0.0.1" if host in _EVERYWHERE else host


def answer(host: str, port: int, path: str) -> tuple[bool, str]:
    """Return true if the status is 200, and the text of the answer, which is empty without one."""
    try:
        with closing(HTTPConnection(local(host), port, timeout=_TIMEOUT_S)) as connection:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status == HTTPStatus.OK, response.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, HTTPException):
        return False, ""


def holder(host: str, port: int) -> PortHolder | None:
    """Return the ragweir process that listens on a port of this machine; None if it is another program."""
    found, text = answer(host, port, "/identity")
    try:
        return PortHolder.model_validate_json(text) if found else None
    except ValidationError:
        return None


def cannot_open(what: str, host: str, port: int, prefix: str, error: OSError) -> str:
    """Return the sentence about a telemetry port that cannot be opened.

    Args:
        what: the port's name.
        host: the address to listen on.
        port: its number.
        prefix: the prefix of the topics of who tries.
        error: the reason.
    """
    sentence = f"{what} {port} cannot be opened ({error.strerror})"
    found = holder(host, port) if error.errno == errno.EADDRINUSE else None
    if found is None:
        return f"{sentence}; set telemetry.port"
    if found.prefix != prefix:
        return f"{sentence}: {found} listens on it; set telemetry.port"
    return f"{sentence}: {found} runs already; end it first, or set telemetry.port if this one is for another Kafka"
