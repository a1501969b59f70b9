"""The telemetry ports of the services on this machine, and the programs that listen on them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

from ragweir.errors import PermanentError
from ragweir.streams.runtime.processes.supervisor import OWN_PORT, UP_PORT
from ragweir.streams.runtime.serving.instruments import SUPERVISOR
from ragweir.streams.runtime.serving.port_holder import answer, holder
from ragweir.streams.runtime.serving.server import LAST_PORT
from ragweir.streams.services import console
from ragweir.streams.services.export.service import enabled_projections
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings


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
    """`free`, `ours` if this slot of this service and prefix runs, `foreign`, or the reason why it cannot be opened."""

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
    base = settings.telemetry.port
    offsets = {"up": UP_PORT} | {name: offset + OWN_PORT for name, offset in _services(settings).items()}
    found = []
    for command, offset in offsets.items():
        state = _state(settings, base + offset, SUPERVISOR, 0)
        if state == "ours":
            ready, text = answer(settings.telemetry.host, base + offset, "/readyz")
            problem = "" if ready else text.strip() or "it does not answer"
            found.append(Supervised(command, base + offset, problem))
        elif command == "up" and state != "free":
            text = str(Port(SUPERVISOR, 0, base + offset, state))
            raise PermanentError(f"{text}; `ragweir up` cannot start: set telemetry.port")
    return found


def _services(settings: Settings) -> dict[str, int]:
    """Return the services that `ragweir up` starts and the offsets of their ports."""
    services = {service.name: service.port for service in SERVICES.values() if service.enabled(settings)}
    services |= {service.name: service.port for service in enabled_projections(settings)}
    return services | ({console.NAME: console.PORT} if settings.console.enabled else {})


def _slots(settings: Settings, service: str, offset: int) -> Iterator[Port]:
    slot, running = 0, True
    while running:
        number = settings.telemetry.port + offset + slot
        state = _state(settings, number, service, slot)
        yield Port(service, slot, number, state)
        slot, running = slot + 1, state == "ours"


def _state(settings: Settings, number: int, service: str, slot: int) -> str:
    host = settings.telemetry.host
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
    found = holder(host, number)
    if found is None:
        return "foreign"
    ours = (found.service, found.slot, found.prefix) == (service, slot, settings.topics.prefix)
    return "ours" if ours else f"is in use by {found}"
