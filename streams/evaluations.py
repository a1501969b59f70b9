"""Where a command reads evaluations: a file, the live topic, or the topic of a run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError

from ragweir.errors import ConfigurationError, PermanentError, Rejected
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.run import RUN_ID
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.kafka import reader as reading
from ragweir.streams.runtimes.files import read_lines
from ragweir.streams.settings import Settings

_LIVE = "live"
_SLACK = timedelta(days=1)
"""How much later than it was written an event may say that it happened, to be found by its time: clocks and time zones
go wrong."""
_TOLD = 500
"""Lines after which somebody is told how far it is."""

Shown = Callable[[str, int], AbstractContextManager[reading.OnProgress]]
"""Shows what is read, and how much of it there is, for as long as it takes."""


@dataclass(frozen=True, slots=True)
class EvaluationSource:
    """A file of evaluations, or else a topic.

    >>> EvaluationSource.named(Settings(), "v43").topic
    'rag.run.v43.evaluations'
    """

    settings: Settings
    name: str
    """As the user gave it."""
    file: Path | None
    topic: str

    @classmethod
    def named(cls, settings: Settings, name: str) -> EvaluationSource:
        """What a name means: a file that is there, `live`, or the id of a run.

        Raises:
            ConfigurationError: if it can be none of them.
            PermanentError: if the file may not be read.
        """
        if name != _LIVE and Path(name).is_file():
            if not os.access(name, os.R_OK):
                raise PermanentError(f"{name} cannot be read: Permission denied")
            return cls(settings, name, Path(name), "")
        if not re.fullmatch(RUN_ID, name):
            raise ConfigurationError(f"{name} is neither a file, nor `live`, nor the id of a run")
        run = "" if name == _LIVE else f"run.{name}."
        return cls(settings, name, None, f"{settings.topics.prefix}{run}evaluations")

    def values(self, shown: Shown, since: datetime | None = None) -> Iterator[bytes]:
        """The evaluations as they are written: a file's lines, or the records that the topic holds now.

        Args:
            shown: shows how far it is, in bytes of a file and offsets of a topic.
            since: older events may be left out; some are not.

        Raises:
            PermanentError: if it cannot be read.
            Unreachable: if no broker answers.
        """
        return self._records(shown, since) if self.file is None else self._lines(self.file, shown)

    def evaluations(self, shown: Shown, since: datetime | None = None) -> Iterator[Evaluation | None]:
        """The evaluations; None in the place of what the aggregate service would refuse.

        Raises:
            PermanentError, Unreachable: as `values`.
        """
        most = max_record_bytes(self.settings.limits.max_event_bytes)
        return (_evaluation(value, most) for value in self.values(shown, since))

    def _lines(self, file: Path, shown: Shown) -> Iterator[bytes]:
        most = max_record_bytes(self.settings.limits.max_event_bytes)
        try:
            with file.open("rb") as lines, shown(f"reading {self.name}", file.stat().st_size) as moved:
                at = 0
                for number, line in read_lines(lines, most, self.name):
                    yield line
                    if number % _TOLD == 0:
                        moved(lines.tell() - at)
                        at = lines.tell()
        except OSError as error:
            raise PermanentError(f"{self.name} cannot be read: {error.strerror}") from None

    def _records(self, shown: Shown, since: datetime | None) -> Iterator[bytes]:
        # Times of the calendar's first days have no earlier ones.
        since_ms = max(0, int((since.timestamp() - _SLACK.total_seconds()) * 1000)) if since else None
        try:
            span = reading.offset_range(self.settings, self.topic, since_ms=since_ms)
        except PermanentError as refusal:
            raise PermanentError(f"{self.name} is no file here, and {refusal}") from None
        with shown(f"reading {self.topic}", len(span)) as moved:
            for record in reading.read(self.settings, span, moved):
                if record.value is not None:
                    yield record.value


def _evaluation(value: bytes, max_bytes: int) -> Evaluation | None:
    try:
        evaluation = Evaluation.model_validate(parse(value, max_bytes))
    except (Rejected, ValidationError):
        return None
    return evaluation if MINYEAR < evaluation.event_time.year < MAXYEAR else None
