"""Being a worker: how a process tells its supervisor why it ends."""

from __future__ import annotations

import sys
from collections.abc import Callable

import structlog

from ragweir.errors import RagweirError

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def as_worker(work: Callable[[], None]) -> None:
    """Work. An error ends the process with the status by which the supervisor knows whether to start it again."""
    try:
        work()
    except RagweirError as error:
        log.error(str(error))
        sys.exit(error.worker_status)
