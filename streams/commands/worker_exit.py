"""The exit status and the message with which a worker reports an error to its supervisor."""

from __future__ import annotations

import sys
from collections.abc import Callable

import structlog

from ragweir.errors import DO_NOT_RESTART, RagweirError
from ragweir.streams.runtime.serving.heartbeat import Heartbeat

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def as_worker(work: Callable[[], None], heartbeat: Heartbeat | None = None) -> None:
    """Run a worker; an error ends the process with the status by which its supervisor decides about a restart."""
    try:
        work()
    except RagweirError as error:
        log.error(str(error))
        if heartbeat is not None and error.worker_status == DO_NOT_RESTART:
            heartbeat.fail(str(error))
        sys.exit(error.worker_status)
