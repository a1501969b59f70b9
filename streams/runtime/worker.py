"""Starts a worker, the process of one slot of a service: its telemetry, its health and its heartbeat.

Services and projections of the command line, replays, the planner and the Faust runtime start through `started`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import structlog

from ragweir.errors import PermanentError
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.serving.health import Health, serve
from ragweir.streams.runtime.serving.heartbeat import Heartbeat
from ragweir.streams.runtime.serving.instruments import Instrument, KnownLabels
from ragweir.streams.runtime.serving.port_holder import PortHolder, cannot_open
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StartedSlot:
    """A started slot."""

    telemetry: Telemetry
    health: Health
    stopped: Callable[[], bool]
    """Returns true once the slot is to stop. Each call is a heartbeat, so that loops that wait call it."""


def bind_slot(service: str, slot: int) -> None:
    """Add the slot to all log lines of this process."""
    structlog.contextvars.bind_contextvars(service=service, slot=slot, pid=os.getpid())


@contextmanager
def started(
    service: str,
    slot: int,
    settings: Settings,
    port: int,
    instruments: Iterable[Instrument],
    known: KnownLabels,
    stopped: Callable[[], bool],
    more: Callable[[], bytes] = bytes,
    **fields: str,
) -> Iterator[StartedSlot]:
    """Serve the telemetry and the health of a slot, and announce them to the supervisor, while the block runs.

    Args:
        service: the service's name in logs, telemetry and announcements.
        slot: the slot's number on this host.
        settings: all settings.
        port: the service's offset from `telemetry.port`.
        instruments: what the telemetry has.
        known: the label values that the telemetry shows from the start.
        stopped: returns true once the slot is to stop.
        more: returns further lines of /metrics.
        fields: further fields of the log line.

    Raises:
        PermanentError: if the telemetry port cannot be opened.
    """
    heartbeat = Heartbeat.inherited()
    telemetry, health = Telemetry(service, slot, instruments, known), Health(heartbeat=heartbeat)
    host, number = settings.telemetry.host, settings.telemetry.port and settings.telemetry.port + port + slot
    prefix = settings.topics.prefix
    own = PortHolder(service=service, slot=slot, prefix=prefix, pid=os.getpid())
    with ExitStack() as stack:
        try:
            bound = stack.enter_context(serve(telemetry.registry, health, host, number, more, own))
        except OSError as error:
            raise PermanentError(cannot_open("the telemetry port", host, number, prefix, error)) from None
        if known.kernel:
            fields["kernel"] = str(kernel_choice(settings.kernel))
        log.info("started", **fields, telemetry=f"http://{host}:{bound}")
        heartbeat.announce(service, slot, bound)
        health.not_ready = "waiting for a broker"
        yield StartedSlot(telemetry, health, health.with_heartbeat(stopped))
