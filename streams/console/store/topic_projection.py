"""The projection of evaluations, labels, feedback and dead letters to the console's store."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NoReturn, TypeVar

import structlog
from pydantic import BaseModel, ValidationError
from typing_extensions import override

from ragweir.errors import PermanentError, Rejected, RestartRequired
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation_record import read_scored
from ragweir.schemas.feedback import JoinedFeedback
from ragweir.schemas.label import Draw, Label, QueuedAnswer
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.analysis.dead_letters.letters import read_letter
from ragweir.streams.console.store.layout import remove
from ragweir.streams.console.store.people_series import PeopleSeries
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.exclusive import lock
from ragweir.streams.runtime.projection import Projection
from ragweir.streams.runtime.records import Count, Measurements, Record
from ragweir.streams.services.console.instruments import TOPICS
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

FILE = "answers.sqlite"
"""Name of the store in `console.folder`."""
EVALUATIONS, LABELS, DRAWS, LETTERS, FEEDBACK = TOPICS
_CLEAN_SECONDS = 60
_PEOPLE_SECONDS = 60
"""Time between two reports of labels."""
_FROM_START = dict.fromkeys(range(10_000), 0)
"""Every partition from its start: a compacted topic has what holds, however old."""


class ConsoleProjection(Projection):
    """Keeps the console's store up to date: rows and offsets in one transaction.

    A store that is damaged, of another version, or of a topic that was created again is removed, and the topics are
    read again.

    Args:
        settings: all settings.
        is_damaged: returns true once a reader found that the store is damaged.
        more: returns what was measured beside it since the last call.
    """

    def __init__(
        self,
        settings: Settings,
        is_damaged: Callable[[], bool] = lambda: False,
        more: Callable[[], Measurements] = Measurements,
    ) -> None:
        self._settings, self._is_damaged, self._more = settings, is_damaged, more
        self._file = settings.console.folder / FILE
        self._max_bytes = max_record_bytes(settings.limits.max_event_bytes)
        self._store: StoreWriter | None = None
        self._lock: int | None = None
        self._topics = TOPICS if settings.feedback.enabled else tuple(each for each in TOPICS if each != FEEDBACK)
        self._names = {settings.topics.prefix + name: name for name in self._topics}
        self._ids: dict[str, str] = {}
        self._resumed: dict[tuple[str, int], int] = {}
        self._next: dict[tuple[str, str, int], int] = {}
        self._times: dict[int, tuple[int, int]] = {}
        """Timestamps of the first and the last evaluation of each partition."""
        self._is_up_to_date = False
        self._clean_at = self._people_at = self._ratio = 0.0
        self._people = PeopleSeries(settings)
        self._has_new_labels = True
        self._levels: dict[Count, float | None] = {}
        self._counts: Counter[Count] = Counter()

    @property
    @override
    def topics(self) -> tuple[str, ...]:
        return self._topics

    @property
    @override
    def since_s(self) -> float:
        return self._settings.console.retention_h * 3600

    @property
    def _own(self) -> StoreWriter:
        if self._store is None:
            raise RuntimeError("open comes first")
        return self._store

    @override
    def open(self) -> None:
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self._file.parent / "lock", os.O_RDWR | os.O_CREAT, 0o600)
            if not lock(self._lock):
                raise PermanentError(f"another console keeps its store in {self._file.parent}: set console.folder")
            try:
                self._store = StoreWriter(self._file)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                log.warning("the console's store cannot be used and is made anew", reason=str(error))
                remove(self._file)
                self._store = StoreWriter(self._file)
        except (OSError, sqlite3.OperationalError) as error:
            raise PermanentError(
                f"{self._file} cannot be written: {error}; set console.folder to a folder of ragweir's user"
            ) from None

    @override
    def resume(self, topic: str, topic_id: str) -> Mapping[int, int]:
        self._ids[topic] = topic_id
        with self._anew_if_damaged():
            stored = self._own.offsets(topic)
        if stored.keys() - {topic_id}:
            self._renew(f"{topic} was created again")
        if not stored:
            return {} if self._names[topic] in (EVALUATIONS, LETTERS) else _FROM_START
        self._resumed |= {(topic, partition): offset for partition, offset in stored[topic_id].items()}
        return stored[topic_id]

    @override
    def take(self, record: Record) -> None:
        if self._resumed and record.offset < self._resumed.pop(record.topic_partition, 0):
            self._renew(f"{record.topic} is shorter than before")
        self._next[record.topic, self._ids[record.topic], record.partition] = record.offset + 1
        self._is_up_to_date = False
        if record.value is not None or self._names[record.topic] == LETTERS:
            if not _TAKE[self._names[record.topic]](self, record):
                self._counts["ragweir_console_records_total", self._names[record.topic], "unreadable"] += 1
                return
            self._counts["ragweir_console_records_total", self._names[record.topic], "taken"] += 1

    def _take_evaluation(self, record: Record) -> bool:
        written_ms = record.timestamp_ms or round(machine.time() * 1000)
        first, _ = self._times.get(record.partition, (written_ms, 0))
        self._times[record.partition] = first, written_ms
        found = read_scored(record.value or b"", self._max_bytes)
        if found is not None:
            self._own.take(found, record.partition, record.offset, written_ms)
        return found is not None

    def _take_label(self, record: Record) -> bool:
        found = _parsed(record, Label)
        self._has_new_labels = True
        if found is not None:
            self._own.take_label(found)
        return found is not None

    def _take_draw(self, record: Record) -> bool:
        self._has_new_labels = True
        if (made := _parsed(record, Draw)) is not None:
            self._own.take_draw(made)
        elif (answer := _parsed(record, QueuedAnswer)) is not None:
            self._own.take_queued(answer)
        else:
            return False
        return True

    def _take_letter(self, record: Record) -> bool:
        found = read_letter(record)
        if found is not None:
            self._own.take_letter(found)
        return found is not None

    def _take_feedback(self, record: Record) -> bool:
        found = _parsed(record, JoinedFeedback)
        if found is not None:
            self._own.take_feedback(found, record.timestamp_ms or 0)
        return found is not None

    @override
    def flush(self, now_s: float, *, caught_up: bool) -> None:
        if self._is_damaged():
            self._renew("it is damaged")
        with self._anew_if_damaged():
            if self._own.taken or not (caught_up and self._is_up_to_date):
                self._ratio = 1.0 if caught_up else self._read(now_s)
                self._own.flush(self._next, self._ratio)
                self._next.clear()
                self._is_up_to_date = caught_up
            oldest_ms = (now_s - self.since_s) * 1000
            dropped = self._own.drop(self._settings.console.max_bytes, oldest_ms)
            if caught_up and self._has_new_labels and now_s >= self._people_at:
                self._has_new_labels, self._people_at = False, now_s + _PEOPLE_SECONDS
                self._levels = self._people.levels(self._own.people_labels())
            if now_s >= self._clean_at:
                self._clean_at = now_s + _CLEAN_SECONDS
                self._own.drop_heads(oldest_ms)
        self._counts["ragweir_console_segments_dropped_total",] += dropped

    def _read(self, now_s: float) -> float:
        """Return the part of the evaluations that was read, by their timestamps."""
        if not self._times:
            return 0.0
        first, last = min(first for first, _ in self._times.values()), min(last for _, last in self._times.values())
        return min(0.99, max(0.0, (last - first) / max(1.0, now_s * 1000 - first)))

    @contextmanager
    def _anew_if_damaged(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:  # Such as a full disk: what is there is as it was.
            raise RestartRequired(f"{self._file} cannot be written: {error}") from None
        except sqlite3.DatabaseError as error:
            self._renew(str(error))

    def _renew(self, reason: str) -> NoReturn:
        """Remove the store and end this process: the next one reads the topics again.

        Raises:
            RestartRequired: always.
        """
        self.close()
        remove(self._file)
        raise RestartRequired(f"the console's store is made anew: {reason}")

    @override
    def drain_metrics(self) -> Measurements:
        counts, self._counts = self._counts, Counter()
        counts["ragweir_console_evaluations_replaced_total",] = self._own.replaced
        counts["ragweir_console_records_total", EVALUATIONS, "rejected"] = self._own.rejected
        self._own.replaced = self._own.rejected = 0
        levels: dict[Count, float | None] = {
            **self._levels,
            ("ragweir_console_store_bytes",): float(self._own.size()),
            ("ragweir_console_read_ratio",): self._ratio,
        }
        self._levels = {}
        more = self._more()
        return Measurements(counts + Counter(more.counts), levels, more.observations)

    @override
    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


_Part = TypeVar("_Part", bound=BaseModel)


def _parsed(record: Record, model: type[_Part]) -> _Part | None:
    try:
        return model.model_validate(parse(record.value or b""))
    except (ValidationError, Rejected):
        return None


_TAKE: Mapping[str, Callable[[ConsoleProjection, Record], bool]] = {
    EVALUATIONS: ConsoleProjection._take_evaluation,
    LABELS: ConsoleProjection._take_label,
    DRAWS: ConsoleProjection._take_draw,
    LETTERS: ConsoleProjection._take_letter,
    FEEDBACK: ConsoleProjection._take_feedback,
}
