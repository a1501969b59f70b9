"""The errors that ragweir raises for its callers: each message is one sentence for people.

    RagweirError
    ├── ConfigurationError    settings, or the files that they name, cannot be used (exit status 2)
    │   ├── MapError          a map for a foreign schema
    │   └── PackError         a metric pack
    ├── PermanentError        somebody has to mend something first; neither waiting nor a restart helps
    │   ├── StateError        an agent's stored state does not fit the committed offset
    │   ├── LocalServerError  Kafka, Prometheus or Alertmanager cannot be installed or started on this machine
    │   └── DemoError         the demo cannot go on
    ├── TransientError        waiting or a restart helps
    │   ├── Unreachable       the broker does not answer
    │   └── RestartRequired   the process has to be replaced by a new one
    ├── Rejected              a record's bytes hold no interaction
    └── Interrupted           told to stop while waiting

A command that ends with one of them prints its message and exits with `exit_status`; a worker exits with
`worker_status`, by which its supervisor knows whether to start it again.
"""

from __future__ import annotations

from typing import ClassVar, Literal

ErrorClass = Literal[
    "too_large", "tombstone", "not_json", "invalid", "no_time", "unmapped", "unreadable", "refused", "fatal"
]
"""Why a record could not become an evaluation. `fatal`: evaluating it, alone and twice, ended the process or took
longer than its limits allow."""

DO_NOT_RESTART = 2
"""The exit status of a worker that a restart would not help."""
_SHOWN_FAULTS = 3


class RagweirError(Exception):
    """Base of all errors."""

    exit_status: ClassVar[int] = 1
    """The exit status of a command."""
    worker_status: ClassVar[int] = 1
    """The exit status of a worker."""


class ConfigurationError(RagweirError):
    """The settings cannot be used."""

    exit_status = 2
    worker_status = DO_NOT_RESTART


class MapError(ConfigurationError, ValueError):
    """A map is wrong; the message says where and how."""


class PackError(ConfigurationError, ValueError):
    """A metric pack cannot be used; the message names files and fields.

    Args:
        faults: what is wrong, each with its place.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        left_out = len(faults) - _SHOWN_FAULTS
        super().__init__("; ".join(faults[:_SHOWN_FAULTS]) + (f"; and {left_out} more" if left_out > 0 else ""))


class PermanentError(RagweirError):
    """Kafka, its client or this machine does not allow it; neither waiting nor a restart helps."""

    worker_status = DO_NOT_RESTART


class StateError(PermanentError):
    """An agent's stored state does not fit the committed offset; the message says what to do."""


class LocalServerError(PermanentError):
    """A local server cannot be installed or started; the message says why and what to do."""


class DemoError(PermanentError):
    """The demo cannot go on."""


class TransientError(RagweirError):
    """Waiting or a restart helps."""


class Unreachable(TransientError):
    """The broker does not answer."""


class RestartRequired(TransientError):
    """The process has to be replaced by a new one, which settles what this one leaves."""


class Rejected(RagweirError):
    """The bytes of a record are no interaction. The message says why and quotes nothing of them."""

    def __init__(self, error_class: ErrorClass, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message


class Interrupted(RagweirError):
    """Told to stop while waiting."""
