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
from ragweir.streams.analysis.originals import Original, in_evaluation, in_files, in_kafka, located, value_at
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.settings import Settings


class EvaluationLookup(ABC):
    """Reads evaluations and their events again."""

    @abstractmethod
    def evaluation(self, at: tuple[int, int], event_id: str) -> Evaluation | None:
        """Return the evaluation at a position, if it is that of an event; None if it is gone.

        Args:
            at: its place: partition and offset, or the number of the file, from 0, and the line.
            event_id: the id of the event.

        Raises:
            RagweirError: if Kafka does not answer.
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
        except (OSError, UnreadableFile):
            return None
        return _evaluation(value, self._max_bytes, event_id)

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


class TopicLookup(EvaluationLookup):
    """Reads answers of topics.

    Args:
        settings: all settings.
        fetcher: fetches single records.
    """

    def __init__(self, settings: Settings, fetcher: RecordFetcher) -> None:
        self._settings, self._fetcher = settings, fetcher
        self._topic = settings.output_topic("evaluations")
        self._max_bytes = max_record_bytes(settings.limits.max_event_bytes)

    @override
    def evaluation(self, at: tuple[int, int], event_id: str) -> Evaluation | None:
        record = self._fetcher.fetch(self._topic, *at)
        return _evaluation(record.value if record else None, self._max_bytes, event_id)

    @override
    def original(self, evaluation: Evaluation) -> Original:
        if (kept := in_evaluation(evaluation)) is not None:
            return kept
        source = evaluation.source
        record = self._fetcher.fetch(source.topic, source.partition, source.offset) if source else None
        return in_kafka(self._settings, evaluation, record)

    @override
    def command(self, evaluation: Evaluation) -> str:
        event_id = evaluation.event_id
        return shlex.join(["ragweir", "explain", *(["--"] if event_id.startswith("-") else []), event_id])


def _evaluation(value: bytes | None, max_bytes: int, event_id: str) -> Evaluation | None:
    """Return the evaluation in a value, if it is that of an event."""
    try:
        found = Evaluation.model_validate(parse(value, max_bytes))
    except (Rejected, ValidationError):
        return None
    return found if found.event_id == event_id else None
