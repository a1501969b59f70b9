"""The projection of evaluations to the store of answers, and the thread that runs it beside the agent."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import structlog
from typing_extensions import override

from ragweir.schemas.evaluation_record import read_answered
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.runtime.kafka.client import wait_for_topics
from ragweir.streams.runtime.loop.projection_runtime import ProjectionRuntime
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.serving.health import Health
from ragweir.streams.runtime.serving.instruments import PROCESS
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.services.match.agent import TargetSource
from ragweir.streams.services.match.target_store import EvaluatedAnswer, TargetStore
from ragweir.streams.services.shared.dimensions import Dimensions
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_COMMIT_S = 1.0
_PAUSE_S = 1.0


class TargetProjection(Projection):
    """Adds the evaluations of the last horizon to a store.

    Args:
        settings: all settings.
        store: the store.
        path: its file.
    """

    def __init__(self, settings: Settings, store: TargetStore, path: Path) -> None:
        self._store, self._path, self._horizon_s = store, path, settings.feedback.horizon_s
        self._dimensions = Dimensions(settings.windows.dimensions, settings.windows.values)
        self._max_bytes = max_record_bytes(settings.limits.max_event_bytes)
        self._offsets: dict[int, int] = {}
        self._commit_at = 0.0

    @property
    @override
    def topics(self) -> tuple[str, ...]:
        return ("evaluations",)

    @property
    @override
    def since_s(self) -> float:
        return self._horizon_s

    @override
    def open(self) -> None:
        self._store.open(self._path)

    @override
    def resume(self, topic: str, topic_id: str) -> Mapping[int, int]:
        return self._store.offsets(topic_id)

    @override
    def take(self, record: Record) -> None:
        self._offsets[record.partition] = record.offset + 1
        if record.value is None or (evaluation := read_answered(record.value, self._max_bytes)) is None:
            return  # Aggregate makes a dead letter of it.
        time_us = (evaluation.event_time - _EPOCH) // _MICROSECOND
        answer = EvaluatedAnswer(evaluation.event_id, time_us, self._dimensions.of(evaluation))
        written_ms = round(machine.time() * 1000) if record.timestamp_ms is None else record.timestamp_ms
        self._store.add(answer, evaluation.trace_id, evaluation.span_id, written_ms)

    @override
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        if now_s >= self._commit_at or not self._commit_at - now_s <= _COMMIT_S:  # A clock may be set back.
            self._commit_at = now_s + _COMMIT_S
            self._store.commit(self._offsets, caught_up=caught_up)
            self._offsets = {}

    @override
    def close(self) -> None:
        self._store.close()


class TargetReader(TargetSource):
    """Runs the projection in a thread, again after each error.

    Args:
        settings: all settings.
        store: the store.
    """

    def __init__(self, settings: Settings, store: TargetStore) -> None:
        self._settings, self._store = settings, store
        self._closed = threading.Event()

    @override
    def on_member(self, member: str) -> None:
        """Start the thread, with a file of the slot's own."""
        threading.Thread(
            target=self._run, args=(self._folder / f"{member}.sqlite",), name="answers", daemon=True
        ).start()

    @property
    def _folder(self) -> Path:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return self._settings.feedback.folder or cache / "ragweir" / "feedback"

    @override
    def close(self) -> None:
        self._closed.set()

    def _run(self, path: Path) -> None:
        failed = ""
        while not self._closed.is_set():
            try:
                self._read(TargetProjection(self._settings, self._store, path))
            except Exception as error:  # As a new process would go on; feedback waits meanwhile.
                if str(error) != failed:
                    log.warning("evaluations are not read; trying again", reason=str(error), error=type(error).__name__)
                failed = str(error)
                self._closed.wait(_PAUSE_S)

    def _read(self, projection: Projection) -> None:
        stopped = self._closed.is_set
        topics = [self._settings.topics.prefix + name for name in projection.topics]
        if (present := wait_for_topics(self._settings, topics, stopped)) is not None:
            partitions = {topic: present[topic] for topic in topics}
            shown = Telemetry("match", 0, PROCESS)
            ProjectionRuntime(self._settings, projection, partitions, shown, Health(), stopped).run()
