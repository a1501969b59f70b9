"""The agent of `match`: it finds the answer of each feedback, which waits for one that is not evaluated yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from typing_extensions import override

from ragweir.errors import Rejected, TransientError
from ragweir.schemas.codec.json import encode, encode_fields, parse
from ragweir.schemas.feedback import (
    UnmatchedClass,
    UnmatchedFeedback,
    WaitingFeedback,
    feedback_of,
    received_time,
    waiting_key,
)
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.agent_parts import Holding, Preparation
from ragweir.streams.runtime.records import Emission, Outcome, Record, TopicPartition
from ragweir.streams.services.match.target_store import EvaluatedAnswer, TargetStore
from ragweir.streams.services.match.waiting import CLOCK_KEY, Waiting, WaitingList, restored
from ragweir.streams.services.shared.feedback_agent import UNMATCHED, FeedbackAgent, source_of
from ragweir.streams.services.shared.raters import hashed_rater

_SERVICE = "match"
_KEYED, _WAITING = "feedback.keyed", "feedback.waiting"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_hashed = lru_cache(maxsize=4_096)(hashed_rater)
_GRACE_MS = 600_000
"""Time by which the evaluations that were read must be newer than an answer that is given up, in milliseconds."""
_MOST_CHECKED = 1_000
"""Feedback of one transaction whose answer is looked for again, and that is given up."""
_UNKNOWN: tuple[UnmatchedClass, str] = "unknown", "no such answer was evaluated within feedback.horizon"
_CROWDED: tuple[UnmatchedClass, str] = (
    "crowded",
    "no such answer was evaluated, and more feedback waits than a worker holds",
)


@dataclass(frozen=True, slots=True)
class MatchConfig:
    """The configuration of a match agent."""

    key: str
    """The key of the hashes of givers."""
    horizon_s: int
    dimensions: tuple[str, ...]
    """The names of the dimensions of windows."""
    max_bytes: int
    """The size of the largest feedback that is read."""
    most_waiting: int = 50_000
    """The most feedback that a worker has wait for its answer."""


class TargetSource(Preparation):
    """Fills the store of answers. The default adds none."""

    def close(self) -> None:
        """Stop filling the store."""


class MatchAgent(FeedbackAgent):
    """Writes feedback with the event that it is about to `feedback.keyed`.

    Feedback whose answer is not evaluated yet is state, in `feedback.waiting`. It goes to `feedback.unmatched` once
    evaluations that were written the horizon after it were read. If more waits than a worker may hold, the oldest goes
    before, yet none before evaluations written ten minutes after it were read; until then no more feedback is read.

    Args:
        config: the configuration.
        store: the answers.
        source: fills the store.
    """

    outputs = _KEYED, _WAITING, UNMATCHED
    changelog = _WAITING
    clock_record = Emission(_WAITING, CLOCK_KEY, None, ())
    """A tombstone, by which the horizon counts in the brokers' time."""

    def __init__(self, config: MatchConfig, store: TargetStore, source: TargetSource) -> None:
        super().__init__(_SERVICE)
        self._config, self._store = config, store
        self.preparation = self._source = source
        self._waiting = WaitingList(store)
        self._topic_ids: dict[int, str] = {}
        self.holding = _WaitingRoom(lambda: max(0, config.most_waiting - len(self._waiting)))

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Match feedback, or have it wait."""
        outcome = Outcome(settled=list(records))
        for record in records:
            outcome.counts["ragweir_events_in_total",] += 1
            try:
                feedback = self._read(record)
            except Rejected as rejected:
                self.reject(record, rejected.error_class, rejected.message, outcome)
                continue
            inserted = self._store.inserted
            answer, is_known = self._find(feedback)
            if answer is None:
                key, value = self.unmatched_key(record), encode(feedback)
                waiting = Waiting.of(record.partition, key, value, feedback)
                self._waiting.add(waiting, inserted if is_known else -1)
                headers = self.headers("waiting_feedback", feedback)
                outcome.emissions.append(Emission(_WAITING, key, value, headers, record.partition))
                self.count(feedback.name, "waiting", outcome)
            else:
                self._match(feedback, answer, outcome)
        return outcome

    def _read(self, record: Record) -> WaitingFeedback:
        """Return the feedback of a record, without what is not kept.

        Raises:
            Rejected: if it is none.
        """
        if record.value is None:
            raise Rejected("tombstone", "the record has no value")
        found = feedback_of(parse(record.value, self._config.max_bytes))
        received = received_time(record.timestamp_ms)
        return WaitingFeedback.trusted(
            {
                "event_id": found.event_id,
                "trace_id": found.trace_id,
                "span_id": found.span_id,
                "name": found.name,
                "value": found.value,
                "giver": None if found.giver is None else _hashed(found.giver, self._config.key),
                "time": received if found.time is None else min(found.time, received),
                "received": received,
                "source": source_of(record),
            }
        )

    def _find(self, feedback: WaitingFeedback) -> tuple[EvaluatedAnswer | None, bool]:
        """Return the answer, and false if the store cannot be asked."""
        try:
            return self._store.find(feedback), True
        except TransientError:  # It is opened again, and asked again.
            return None, False

    def _match(self, feedback: WaitingFeedback, answer: EvaluatedAnswer, outcome: Outcome) -> None:
        value = encode_fields(
            {
                "name": feedback.name,
                "value": feedback.value,
                "giver": feedback.giver,
                "time": feedback.time,
                "received": feedback.received,
                "source": feedback.source,
                "event_id": answer.event_id,
                "event_time": _EPOCH + timedelta(microseconds=answer.time_us),
                "dimensions": dict(zip(self._config.dimensions, answer.labels, strict=True)),
            }
        )
        headers = self.headers("keyed_feedback", feedback)
        outcome.emissions.append(Emission(_KEYED, answer.event_id.encode(), value, headers))
        self.count(feedback.name, "matched", outcome)

    @override
    def unmatched_key(self, record: Record) -> bytes:
        return waiting_key(self._topic_ids.get(record.partition, ""), record.partition, record.offset)

    def _settle(self, waiting: Waiting, outcome: Outcome, reason: tuple[UnmatchedClass, str] | None = None) -> None:
        """Match feedback that waits, or give it up for a reason; without either it waits on."""
        feedback = waiting.feedback()
        try:
            answer = self._store.find(feedback)
        except TransientError:
            self._waiting.check_again(waiting)
            return
        if answer is not None:
            self._match(feedback, answer, outcome)
        elif reason is not None:
            error_class, message = reason
            unmatched = UnmatchedFeedback(
                error_class=error_class,
                message=message,
                source=feedback.source,
                received=feedback.received,
                length=len(waiting.value),
                feedback=feedback,
            )
            self.add_unmatched(waiting.key, unmatched, feedback.name, outcome)
        else:
            return
        outcome.emissions.append(Emission(_WAITING, waiting.key, None, (), waiting.partition))
        self._waiting.remove(waiting)

    # The end of a transaction.

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Match feedback whose answer has come, and give up that which has waited long enough."""
        outcome = Outcome()
        for waiting in self._waiting.to_check(_MOST_CHECKED):
            self._settle(waiting, outcome)
        read_ms, now_ms = self._store.read_through_ms, round(now_s * 1000)
        through_ms = min(now_ms, read_ms - _GRACE_MS)
        for waiting in self._waiting.older(through_ms - self._config.horizon_s * 1000, _MOST_CHECKED):
            self._settle(waiting, outcome, _UNKNOWN)
        crowd = min(_MOST_CHECKED, len(self._waiting) - self._config.most_waiting * 9 // 10)
        for waiting in self._waiting.older(through_ms, crowd):
            self._settle(waiting, outcome, _CROWDED)
        if not self._waiting.has_to_check:
            self._store.let_drop(caught_up={partition for _, partition in caught_up} >= self._waiting.partitions)
        outcome.levels["ragweir_feedback_waiting",] = len(self._waiting)
        outcome.levels["ragweir_feedback_answers_read_timestamp_seconds",] = read_ms / 1000
        return outcome

    @override
    def on_commit(self) -> None:
        self._waiting.on_commit()

    @override
    def on_abort(self) -> None:
        self._waiting.on_abort()

    @override
    def drain(self) -> None:
        self._source.close()

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        _, partition = assignment.topic_partition
        self._topic_ids[partition] = assignment.topic_id
        held: dict[bytes, Waiting] = {}
        for record in assignment.changelog:
            held.pop(record.key or b"", None)
            if record.value is not None and (waiting := restored(record)) is not None:
                held[waiting.key] = waiting
        self._waiting.assign(partition, held)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        for _, partition in partitions:
            self._waiting.revoke(partition)


class _WaitingRoom(Holding):
    """The room for feedback that waits: nothing more is read without."""

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room

    @property
    @override
    def capacity(self) -> int:
        return self._room()
