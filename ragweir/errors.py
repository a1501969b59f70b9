"""The exceptions of ragweir; the message of each is one sentence for users.

    RagweirError
    ├── ConfigurationError    settings, or the files that they name, cannot be used (exit status 2)
    │   ├── MapError          a map for a foreign schema is wrong
    │   └── PackError         a question pack is wrong
    ├── PermanentError        an operator has to act; neither waiting nor a restart helps
    │   ├── UnreadableFile    a file of events cannot be read, or not to its end
    │   ├── StateError        an agent's stored state does not match the committed offset
    │   ├── RegistryUnusable  the Schema Registry does not let ragweir read, or there is none at the address
    │   ├── LocalServerError  Kafka, Prometheus or Alertmanager cannot be installed or started on this machine
    │   │   └── NotInstalled  a program is not on this machine, which has nothing to fetch it with
    │   ├── DemoError         the demo cannot continue
    │   └── BadQuery          a page's query string cannot be read, or names what is not there
    ├── TransientError        waiting or a restart helps
    │   ├── Unreachable       the broker does not answer
    │   ├── RegistryUnavailable  the Schema Registry does not answer
    │   ├── RestartRequired   the process has to be replaced by a new one
    │   └── ReadTooLong       a read of the console's store took too long
    ├── Rejected              a record's bytes are not an interaction
    │   └── NotAList          a path of a map goes through a list, and the event has something else there
    └── Interrupted           the process was stopped while waiting

A command that ends with one of them prints its message and exits with `exit_status`; a worker exits with
`worker_status`, which decides if its supervisor restarts it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

ErrorClass = Literal[
    "too_large",
    "tombstone",
    "not_json",
    "invalid",
    "no_time",
    "unmapped",
    "unreadable",
    "unknown_schema",
    "no_root",
    "refused",
    "fatal",
]
"""The reason why a record could not be evaluated. `unknown_schema`: the schema that the record names is not
in the registry, or cannot be used. `no_root`: the spans of a trace hold no interaction. `fatal`:
evaluating it alone, twice, ended the process or exceeded a limit of time or memory."""

DO_NOT_RESTART = 2
"""Exit status of a worker that must not be restarted."""
_SHOWN_FAULTS = 3


class RagweirError(Exception):
    """Base of all errors."""

    exit_status: ClassVar[int] = 1
    """The exit status of a command."""
    worker_status: ClassVar[int] = 1
    """The exit status of a worker."""


class ConfigurationError(RagweirError):
    """Settings, or the files that they name, cannot be used."""

    exit_status = 2
    worker_status = DO_NOT_RESTART


class MapError(ConfigurationError, ValueError):
    """A map is wrong; the message names the field."""


class PackError(ConfigurationError, ValueError):
    """A question pack is wrong; the message names files and fields.

    Args:
        faults: a message for each fault, with file and field.
    """

    def __init__(self, *faults: str) -> None:
        self.faults = faults
        left_out = len(faults) - _SHOWN_FAULTS
        super().__init__("; ".join(faults[:_SHOWN_FAULTS]) + (f"; and {left_out} more" if left_out > 0 else ""))


class PermanentError(RagweirError):
    """An operator has to act; neither waiting nor a restart helps."""

    worker_status = DO_NOT_RESTART


class UnreadableFile(PermanentError):
    """A file of events cannot be read, or not to its end; the message says where."""


class StateError(PermanentError):
    """An agent's stored state does not match the committed offset; the message says what to do."""


class RegistryUnusable(PermanentError):
    """The Schema Registry does not let ragweir read, or there is none at the address."""


class LocalServerError(PermanentError):
    """A local server cannot be installed or started; the message says what to do."""


class NotInstalled(LocalServerError):
    """A program is not on this machine, which has nothing to fetch it with."""


class DemoError(PermanentError):
    """The demo cannot continue."""


class BadQuery(PermanentError):
    """A page's query string cannot be read, or names what the store does not have; the message is for its reader."""


class TransientError(RagweirError):
    """Waiting or a restart helps."""


class Unreachable(TransientError):
    """The broker does not answer."""


class RegistryUnavailable(TransientError):
    """The Schema Registry does not answer, or not with an answer of its own. The message is the reason."""


class RestartRequired(TransientError):
    """The process has to be replaced by a new one, which continues its work."""


class ReadTooLong(TransientError):
    """A read of the console's store took too long."""


class Rejected(RagweirError):
    """The bytes of a record are not an interaction. The message quotes nothing of them."""

    def __init__(self, error_class: ErrorClass, message: str) -> None:
        super().__init__(message)
        self.error_class = error_class
        self.message = message


class NotAList(Rejected):
    """A path of a map goes through a list, and the event has something else there."""

    def __init__(self, message: str) -> None:
        super().__init__("unmapped", message)


class Interrupted(RagweirError):
    """The process was stopped while waiting."""
