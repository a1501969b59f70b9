"""Being a worker: how a process tells its supervisor why it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

import structlog

from ragweir.streams.kafka_client import Refusal
from ragweir.streams.runtimes.transactions import Fatal
from ragweir.streams.settings import WrongSettings
from ragweir.streams.supervisor import REFUSED

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def as_worker(work: Callable[[], None]) -> None:
    """Work; what people have to mend ends the process with a status that says so, all else that a restart may mend."""
    try:
        work()
    except (Refusal, WrongSettings) as error:
        log.error(str(error))
        sys.exit(REFUSED)
    except Fatal as error:
        log.error(str(error))
        sys.exit(1)
