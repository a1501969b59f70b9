"""The telemetry ports of the services on this machine, and the programs that listen on them."""

from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from typing_extensions import override

from ragweir.errors import PermanentError
from ragweir.streams.export.service import enabled_projections
from ragweir.streams.service import SERVICES
from ragweir.streams.serving.server import LAST_PORT
from ragweir.streams.serving.telemetry import SUPERVISOR
from ragweir.streams.settings import Settings
from ragweir.streams.supervisor import OWN_PORT, UP_PORT

_TIMEOUT_S = 2.0
_MOST_BYTES = 1024 * 1024
"""The bytes that are read of an answer; ragweir_build_info is in the first tenth of it."""
_EVERYWHERE = ("0.0.0.0", "")  # noqa: S104 - nothing is bound to them
_BUILD_INFO = re.compile(r"^ragweir_build_info\{(?P<labels>[^\n]*)\} 1\.0$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Port:
    """The port of one slot of a service, and its state.

    >>> str(Port("export", 0, 9664, "free")), str(Port("evaluate", 0, 9464, "foreign"))
    ('9664 (export, slot 0) is free', '9464 (evaluate, slot 0) is in use by another program')
    """

    service: str
    slot: int
    number: int
    state: str
    """`free`, `ours` if this slot of this service runs, `foreign`, or the reason why it cannot be opened."""

    @property
    def usable(self) -> bool:
        """True if the slot can be started, or runs."""
        return self.state in _STATES and self.state != "foreign"

    @override
    def __str__(self) -> str:
        return f"{self.number} ({self.service}, slot {self.slot}) {_STATES.get(self.state, self.state)}"


_STATES = {
    "free": "is free",
    "ours": "is in use by this service, which runs",
    "foreign": "is in use by another program",
}


def ports(settings: Settings) -> list[Port]:
    """Return the ports of the services that `ragweir up` starts: those of the slots that run, and the next one."""
    return [port for name, offset in _services(settings).items() for port in _slots(settings, name, offset)]


@dataclass(frozen=True, slots=True)
class Supervised:
    """A supervisor that runs on this machine, and its report on its workers."""

    command: str
    port: int
    problem: str
    """The answer of its /readyz; empty if all workers run."""


def supervisors(settings: Settings) -> list[Supervised]:
    """Return the supervisors that run: that of `ragweir up` and those of services that run alone.

    Raises:
        PermanentError: if another program holds the port of `ragweir up`.
    """
    host, base = _local(settings.telemetry.host), settings.telemetry.port
    offsets = {"up": UP_PORT} | {name: offset + OWN_PORT for name, offset in _services(settings).items()}
    found = []
    for command, offset in offsets.items():
        state = _state(settings.telemetry.host, base + offset, f"{SUPERVISOR}-0")
        if state == "ours":
            ready, answer = _answer(host, base + offset, "/readyz")
            problem = "" if ready else answer.strip() or "it does not answer"
            found.append(Supervised(command, base + offset, problem))
        elif command == "up" and state != "free":
            text = str(Port(SUPERVISOR, 0, base + offset, state))
            raise PermanentError(f"{text}; `ragweir up` cannot start: set telemetry.port")
    return found


def _services(settings: Settings) -> dict[str, int]:
    """Return the services that `ragweir up` starts and the offsets of their ports."""
    services = {service.name: service.port for service in SERVICES.values() if service.enabled(settings)}
    return services | {service.name: service.port for service in enabled_projections(settings)}


def _slots(settings: Settings, service: str, offset: int) -> Iterator[Port]:
    slot, running = 0, True
    while running:
        number = settings.telemetry.port + offset + slot
        state = _state(settings.telemetry.host, number, f"{service}-{slot}")
        yield Port(service, slot, number, state)
        slot, running = slot + 1, state == "ours"


def _state(host: str, number: int, own: str) -> str:
    if number > LAST_PORT:
        return f"is no port: the last one is {LAST_PORT}"
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                return f"cannot be opened on {host} ({error.strerror})"
        else:
            return "free"
    holder = _holder(_local(host), number)
    return "ours" if holder == own else f"is in use by ragweir's {holder}" if holder else "foreign"


def _local(host: str) -> str:
    """Return an address under which this machine reaches a server that listens on `host`."""
    return "127.0.0.1" if host in _EVERYWHERE else host


def _answer(host: str, number: int, path: str) -> tuple[bool, str]:
    """Return true if the status is 200, and the text of the answer, which is empty without one."""
    try:
        with closing(HTTPConnection(host, number, timeout=_TIMEOUT_S)) as connection:
            connection.request("GET", path, headers={"Accept": "text/plain"})
            response = connection.getresponse()
            return response.status == HTTPStatus.OK, response.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, HTTPException):
        return False, ""


def _holder(host: str, number: int) -> str:
    """Return the service and slot that listen there, as SERVICE-SLOT; empty for other programs."""
    _, answer = _answer(host, number, "/metrics")
    found = _BUILD_INFO.search(answer)
    labels = dict(re.findall(r'(\w+)="([\w.-]*)"', found["labels"])) if found else {}
    return f"{labels['service']}-{labels['slot']}" if {"service", "slot"} <= labels.keys() else ""
