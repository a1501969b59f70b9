"""Readers of single answers: an evaluation at its position, and the event that it was made of."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import Rejected, UnreadableFile
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.analysis.originals import Original, in_evaluation, in_files, located, value_at
from ragweir.streams.settings import Settings


class EvaluationLookup(ABC):
    """Reads evaluations and their events again."""

    @abstractmethod
    def evaluation(self, at: tuple[int, int], event_id: str) -> Evaluation | None:
        """Return the evaluation at a position, if it is that of an event; None if it is gone.

        Args:
            at: its place: partition and offset, or the number of the file, from 0, and the line.
            event_id: the id of the event.
        """

    @abstractmethod
    def original(self, evaluation: Evaluation) -> Original:
        """Return the event of an evaluation, or the reason why it cannot be read.

        Raises:
            RagweirError: if the settings are wrong, or a server does not answer.
        """

    @abstractmethod
    def command(self, evaluation: Evaluation) -> str:
        """Return the command that prints the story of an event."""


class FileLookup(EvaluationLookup):
    """Reads answers of files.

    Args:
        settings: all settings.
        files: the files of evaluations.
        events: the file or folder that they were scored from; None looks for the one that they name.
    """

    def __init__(self, settings: Settings, files: Sequence[Path], events: Path | None = None) -> None:
        self._settings, self._files, self._events = settings, tuple(files), events
        self._max_bytes = max_record_bytes(settings.limits.max_event_bytes)

    @override
    def evaluation(self, at: tuple[int, int], event_id: str) -> Evaluation | None:
        file, line = at
        try:
            value, _ = value_at(self._files[file], line, self._max_bytes)
            found = Evaluation.model_validate(parse(value, self._max_bytes))
        except (OSError, UnreadableFile, Rejected, ValidationError):
            return None
        return found if found.event_id == event_id else None

    @override
    def original(self, evaluation: Evaluation) -> Original:
        if (path := self._located(evaluation)) is not None:
            return in_files(self._settings, evaluation, path)
        source = evaluation.source.topic if evaluation.source else "that was scored"
        missing = f"the file {source} is not there; name it with --events"
        return in_evaluation(evaluation) or Original(None, "", missing)

    @override
    def command(self, evaluation: Evaluation) -> str:
        event_id = evaluation.event_id
        options = [word for file in self._files[:1] for word in ("--file", str(file))]
        options += ["--events", str(self._events)] if self._events else []
        options += ["--map", str(self._settings.input.map)] if self._settings.input.map else []
        asked = [*options, "--", event_id] if event_id.startswith("-") else [event_id, *options]
        return shlex.join(["ragweir", "explain", *asked])

    def _located(self, evaluation: Evaluation) -> Path | None:
        name = evaluation.source.topic if evaluation.source else ""
        places = (located(name, self._events, file) for file in self._files)
        return next((path for path in places if path is not None), None)
