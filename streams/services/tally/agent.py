"""The agent of `tally`: it keeps the newest feedback of each answer, name and giver, and counts it in windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import StateError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.feedback import JoinedFeedback, KeyedFeedback, joined_key
from ragweir.schemas.window import Window
from ragweir.schemas.window_key import WindowKey, encode_window_key
from ragweir.streams.runtime.agent import Assignment
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.services.shared.feedback_agent import UNMATCHED, FeedbackAgent
from ragweir.streams.services.tally.held_feedback import Held, HeldFeedback, WindowOf, short_key
from ragweir.streams.services.tally.recent_feedback import RecentFeedback

_SERVICE = "tally"
_JOINED, _WINDOWS = "feedback.joined", "feedback.windows"
_KEY_BYTES = 1024
"""The most bytes of the key of a record that is unmatched."""
_HELD_HORIZONS = 3
"""The time for which feedback is held, in horizons: as long as its topic keeps it."""
_SIZE, _HOUR = "1h", timedelta(hours=1)


@dataclass(slots=True)
class _Change:
    """Feedback that the open transaction has changed, with what was held before it."""

    partition: int
    key: bytes
    before: Held | None


class TallyAgent(FeedbackAgent):
    """Keeps what `feedback.joined` has of each partition of `feedback.keyed`, in the partition of the same number.

    Feedback is joined if it is newer than what was joined before: repeated and disordered records change nothing, so
    that each feedback counts once even if `match` writes it again.

    Args:
        horizon_s: the setting `feedback.horizon` in seconds.
    """

    outputs = _JOINED, _WINDOWS, UNMATCHED
    changelog = _JOINED

    def __init__(self, horizon_s: int) -> None:
        super().__init__(_SERVICE)
        self._held_ms = _HELD_HORIZONS * horizon_s * 1000
        self._states: dict[int, HeldFeedback] = {}
        self._newest_ms: defaultdict[int, int] = defaultdict(int)
        self._changes: list[_Change] = []
        self._touched: dict[tuple[int, WindowOf], None] = {}
        self._recent = RecentFeedback(self._names)

    # Records.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Join feedback that is newer than what was joined before."""
        outcome = Outcome(settled=list(records))
        for record in records:
            outcome.counts["ragweir_events_in_total",] += 1
            try:
                feedback = KeyedFeedback.model_validate_json(record.value or b"")
            except ValidationError:
                self.reject(record, "invalid", "the record of feedback.keyed is none of match", outcome)
            else:
                self._join(record, feedback, outcome)
        return outcome

    @override
    def unmatched_key(self, record: Record) -> bytes | None:
        return record.key and record.key[:_KEY_BYTES]

    def _join(self, record: Record, feedback: KeyedFeedback, outcome: Outcome) -> None:
        state, key = self._states[record.partition], short_key(feedback)
        written_ms = record.timestamp_ms or 0
        held, before = state.held_of(feedback, written_ms), state.newest.get(key)
        if before is not None and held.order <= before.order:
            self.count(feedback.name, "outdated", outcome)
            return
        state.put(key, held)
        self._newest_ms[record.partition] = max(self._newest_ms[record.partition], written_ms)
        self._changes.append(_Change(record.partition, key, before))
        self._touched[record.partition, held.window] = None
        if before is not None:
            self._touched[record.partition, before.window] = None
        headers = self.headers("joined_feedback", feedback)
        own_key = joined_key(feedback.event_id, feedback.name, feedback.giver)
        outcome.emissions.append(Emission(_JOINED, own_key, encode(feedback), headers, record.partition))
        was_given = before is not None and before.value is not None
        result = "taken_back" if held.value is None else "replaced" if was_given else "joined"
        self.count(feedback.name, result, outcome)

    # The end of a transaction.

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Emit the windows that have changed."""
        outcome = Outcome()
        for partition, window in self._touched:
            outcome.emissions.append(self._window(partition, window))
        outcome.levels |= self._recent.levels(self._states.values(), now_s)
        outcome.levels["ragweir_feedback_values",] = sum(len(state.newest) for state in self._states.values())
        return outcome

    def _window(self, partition: int, of: WindowOf) -> Emission:
        dimensions = dict(of.labels)
        window = Window(
            window=_SIZE,
            start=of.start,
            end=of.start + _HOUR,
            dimensions=dimensions,
            partition=partition,
            part=0,
            events=0,
            categories=self._states[partition].categories(of),
        )
        key = encode_window_key(WindowKey(of.start, dimensions, partition, 0))
        headers = cloud_event(_SERVICE, "window", key.decode(), of.start, "application/json")
        return Emission(_WINDOWS, key, encode(window), headers, partition)

    @override
    def on_commit(self) -> None:
        self._changes, self._touched = [], {}
        for partition, state in self._states.items():
            state.forget(self._newest_ms[partition] - self._held_ms)

    @override
    def on_abort(self) -> None:
        for change in reversed(self._changes):
            self._states[change.partition].undo(change.key, change.before)
        self._changes, self._touched = [], {}

    @override
    def drain_metrics(self) -> Measurements:
        """Return the gauges that have no value any more since the last call."""
        return Measurements(levels=dict.fromkeys(self._recent.take_gone()))

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over with the feedback that was joined; see `Agent.on_assigned`.

        Raises:
            StateError: if feedback was read, and the changelog never had a record, as after it was deleted.
        """
        _, partition = assignment.topic_partition
        if assignment.start and not assignment.changelog.end:
            raise StateError(
                f"partition {partition} of feedback.keyed is read up to offset {assignment.start}, but feedback.joined "
                "was deleted or emptied, so that windows would count anew: stop tally, and delete its group with "
                "kafka-consumer-groups to join all feedback again that feedback.keyed still has"
            )
        state = self._states[partition] = HeldFeedback()
        self._newest_ms[partition] = 0
        for record in assignment.changelog:
            try:
                feedback = JoinedFeedback.model_validate_json(record.value or b"")
            except ValidationError:
                continue  # A record of another writer.
            state.put(short_key(feedback), state.held_of(feedback, record.timestamp_ms or 0))
            self._newest_ms[partition] = max(self._newest_ms[partition], record.timestamp_ms or 0)
        state.forget(self._newest_ms[partition] - self._held_ms)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        for _, partition in partitions:
            self._states.pop(partition, None)
