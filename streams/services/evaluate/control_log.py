"""Reading of routing rows from the topic `control`: to its end at the start, and every minute in a thread."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import itemgetter

import structlog
from confluent_kafka import KafkaException
from typing_extensions import override

from ragweir.errors import PermanentError, RagweirError
from ragweir.streams.runtime.kafka.reader import OffsetRange, offset_range, read, topic_id
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Count, Measurements
from ragweir.streams.services.shared.routing_rows import LEAD, MAX_ROWS, RoutingRows, RowSource, RowTable
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

INTERVAL_S = 60.0
_RETRY_S = 1.0
_BATCH = 1_000


class ControlLog(RowSource):
    """The rows of the topic. A failed reading is counted and logged, and the rows that are known stay.

    Args:
        settings: all settings.
        topic: full name of the topic.
        ends: the offset of each partition before which rows are read, once; None to read on while it is written.
        read_at: the time of these ends.
        interval_s: seconds between two readings.
        most: the most rows that are held.
    """

    def __init__(
        self,
        settings: Settings,
        topic: str,
        ends: Mapping[int, int] | None = None,
        read_at: datetime | None = None,
        interval_s: float = INTERVAL_S,
        most: int = MAX_ROWS,
    ) -> None:
        super().__init__(RoutingRows())
        self._settings, self._topic, self._ends, self._read_at = settings, topic, ends, read_at
        self._interval_s = interval_s
        self._most, self._table = most, RowTable(most)
        self._topic_id = ""
        self._next: dict[int, int] = {}
        """The offset of each partition at which reading goes on."""
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._counts: Counter[Count] = Counter()
        self._failing = False

    @property
    @override
    def topics(self) -> Mapping[str, str]:
        return {self._topic: self._topic_id}

    @override
    def start(self, stopped: Callable[[], bool]) -> None:
        while not self._try_to_read():
            if stopped():
                return
            self._closed.wait(_RETRY_S)
        log.info("routing rows read", topic=self._topic, rows=len(self.rows))
        if self._ends is None:
            threading.Thread(target=self._keep_reading, name="control", daemon=True).start()

    @override
    def close(self) -> None:
        self._closed.set()

    @override
    def drain_metrics(self) -> Measurements:
        with self._lock:
            counts, self._counts = self._counts, Counter()
        levels: dict[Count, float | None] = {("ragweir_routing_rows",): len(self.rows)}
        if self.rows.known_until is not None:
            levels["ragweir_routing_known_until_timestamp_seconds",] = self.rows.known_until.timestamp()
        return Measurements(counts, levels)

    def _keep_reading(self) -> None:
        while not self._closed.wait(self._interval_s):
            self._try_to_read()

    def _try_to_read(self) -> bool:
        """Read what is new; return false if that failed."""
        try:
            self._read()
        except (RagweirError, KafkaException) as error:
            self._count("ragweir_routing_read_errors_total", 1)
            if not self._failing:
                log.warning("routing rows cannot be read; those that are known hold on", reason=str(error))
            self._failing = True
            return False
        if self._failing:
            log.info("routing rows are read again", topic=self._topic)
        self._failing = False
        return True

    def _read(self) -> None:
        # The time before the ends are asked for: all rows that were committed by then are read.
        began = self._read_at or datetime.fromtimestamp(machine.time(), UTC)
        self._check_topic(own := topic_id(self._settings, self._topic))
        if not self._topic_id:
            self._table = RowTable(self._most)  # Without those of a reading that failed.
        held = offset_range(self._settings, self._topic)
        if self._ends is not None:
            held = OffsetRange(self._topic, held.starts, self._ends)
        new = held.since(self._next)
        records = read(self._settings, new)
        while batch := list(islice(records, _BATCH)):
            rejected = self._table.add(batch)
            for why, group in groupby(sorted(rejected, key=itemgetter(0)), key=itemgetter(0)):
                found = [record for _, record in group]
                self._count("ragweir_routing_rows_ignored_total", len(found), why)
                position = f"{found[0].topic}/{found[0].partition}/{found[0].offset}"
                log.warning("records of control have no effect", why=why, records=len(found), first=position)
        # Once more, so that no row of another topic is used.
        self._check_topic(topic_id(self._settings, self._topic), own)
        self._topic_id = own
        self._next = dict(held.ends)
        if len(new) or self.rows.known_until is None:
            self.rows = self._table.rows(began + LEAD)
        else:
            self.rows = self.rows.known(began + LEAD)

    def _check_topic(self, now: str, before: str = "") -> None:
        """Check that a topic is the one that was read before.

        Raises:
            PermanentError: if it is not.
        """
        if now != (self._topic_id or before or now):
            raise PermanentError(f"{self._topic} was deleted and created again: a new process reads it from its start")

    def _count(self, name: str, number: int, *labels: str) -> None:
        with self._lock:
            self._counts[name, *labels] += number
