"""Sources of evaluations for commands: a file, the live topic, or the topic of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from pathlib import Path

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord, read_evaluation
from ragweir.schemas.run import RUN_ID
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.files.events import EventReader
from ragweir.streams.runtime.kafka.reader import OnProgress, offset_range, read
from ragweir.streams.settings import Settings

_LIVE = "live"
_MAX_CLOCK_ERROR = timedelta(days=1)
"""Events whose time is this much later than their record's timestamp are still found by time."""
_MAX_DELAY = timedelta(days=1)
"""Evaluations that are written this much later than their event are still found by time."""

ShowProgress = Callable[[str, int], AbstractContextManager[OnProgress]]
"""Shows the progress of a task, from its name and its total, for the length of a `with` block."""


def unseen(_: str, __: int) -> AbstractContextManager[OnProgress]:
    """Show no progress."""
    return nullcontext(lambda _: None)


@dataclass(frozen=True, slots=True)
class EvaluationSource:
    """A file of evaluations, or a topic if `file` is None.

    >>> EvaluationSource.named(Settings(), "v43").topic
    'rag.run.v43.evaluations'
    """

    settings: Settings
    name: str
    """As given on the command line."""
    file: Path | None
    topic: str

    @classmethod
    def named(cls, settings: Settings, name: str) -> EvaluationSource:
        """Return the source of a name: an existing file, `live`, or the id of a run.

        Raises:
            ConfigurationError: if the name is none of them.
            PermanentError: if the file is not readable.
        """
        if name != _LIVE and Path(name).is_file():
            if not os.access(name, os.R_OK):
                raise PermanentError(f"{name} cannot be read: Permission denied")
            return cls(settings, name, Path(name), "")
        if not re.fullmatch(RUN_ID, name):
            raise ConfigurationError(f"{name} is neither a file, nor `live`, nor the id of a run")
        run = "" if name == _LIVE else f"run.{name}."
        return cls(settings, name, None, f"{settings.topics.prefix}{run}evaluations")

    def values(
        self, progress: ShowProgress, since: datetime | None = None, until: datetime | None = None
    ) -> Iterator[bytes]:
        """Return the evaluations as JSON: those of the file, or the records that the topic holds now.

        Args:
            progress: shows the progress, in bytes of a file or offsets of a topic.
            since: older events may be left out, but not all are.
            until: newer events may be left out, and evaluations that were written a day after it.

        Raises:
            PermanentError: if the source cannot be read.
            Unreachable: if no broker answers.
        """
        return self._records(progress, since, until) if self.file is None else self._values_of(self.file, progress)

    def evaluations(
        self, progress: ShowProgress, since: datetime | None = None
    ) -> Iterator[Evaluation | EvaluationRecord | None]:
        """Return the evaluations; None for each that the aggregate service would reject.

        Raises:
            PermanentError, Unreachable: as `values`.
        """
        max_bytes = max_record_bytes(self.settings.limits.max_event_bytes)
        return (_evaluation(value, max_bytes) for value in self.values(progress, since))

    def _values_of(self, file: Path, progress: ShowProgress) -> Iterator[bytes]:
        max_bytes = max_record_bytes(self.settings.limits.max_event_bytes)
        try:
            with file.open("rb") as stream, progress(f"reading {self.name}", file.stat().st_size) as moved:
                for _, value in EventReader(stream, self.name, max_bytes, moved):
                    yield value
        except OSError as error:
            raise PermanentError(f"{self.name} cannot be read: {error.strerror}") from None

    def _records(self, progress: ShowProgress, since: datetime | None, until: datetime | None) -> Iterator[bytes]:
        # At the start of the calendar the result would be before its first day.
        since_ms = max(0, int((since.timestamp() - _MAX_CLOCK_ERROR.total_seconds()) * 1000)) if since else None
        until_ms = int((until.timestamp() + _MAX_DELAY.total_seconds()) * 1000) if until else None
        try:
            part = offset_range(self.settings, self.topic, since_ms=since_ms, until_ms=until_ms)
        except PermanentError as error:
            raise PermanentError(f"{self.name} is no file here, and {error}") from None
        with progress(f"reading {self.topic}", len(part)) as moved:
            for record in read(self.settings, part, moved):
                if record.value is not None:
                    yield record.value


def _evaluation(value: bytes, max_bytes: int) -> Evaluation | EvaluationRecord | None:
    found = read_evaluation(value, max_bytes)
    return found if found is not None and MINYEAR < found.event_time.year < MAXYEAR else None
