"""The requests that a worker holds: each with its state, in the order of their arrival, by partition.

Requests finish in any order, but each partition emits only the finished prefix of its buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile

from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.metrics.judged.suite import Case
from ragweir.schemas.codec.json import parse
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import Finished, JudgeRequest
from ragweir.streams.runtime.records import Outcome, Record, TopicPartition
from ragweir.streams.services.judge.job import Job, JobId
from ragweir.streams.services.judge.request_state import RequestEvent, RequestState, next_state
from ragweir.streams.services.judge.worker_ledgers import LedgerReservation

UNREADABLE = JudgeRequest(
    evaluation=Evaluation(event_id="", event_time=datetime.fromtimestamp(0, UTC), catalogue_version=""),
    query="",
    response="",
)
"""The request of a record that holds none."""
_LAST_MS = 2**43
"""The latest timestamp of a record that is used: it may be any number, and dates end with the year 9999."""


def read_request(record: Record, max_bytes: int) -> JudgeRequest:
    """Read the request of a record; raises Rejected if it holds none."""
    try:
        return JudgeRequest.model_validate(parse(record.value, max_bytes))
    except ValidationError:
        raise Rejected("invalid", "not a request") from None


@dataclass(frozen=True, slots=True)
class JobReservation:
    """The allowance of a job, reserved on each of its days."""

    job: Job
    by_day: tuple[tuple[LedgerReservation, ...], ...]
    """The ledgers in which it is reserved, for each day of the job."""


@dataclass(slots=True, eq=False)
class HeldRequest:
    """A request whose result is not committed.

    Only its methods change its state; each raises ValueError if the table has no such transition.
    """

    record: Record
    request: JudgeRequest
    state: RequestState = RequestState.WAITING
    case: Case | None = None
    """The case as it may be sent, once it is needed."""
    cut: bool = False
    """True if the case leaves out a part of the request."""
    costs: Mapping[str, int] = field(default_factory=dict)
    """The cost of its job, in millionths of a dollar, by days."""
    judged: bool = False
    """True if its job has judged it."""
    behind: bool = False
    """True if older requests of its tenant wait in `judge.retry`."""
    moved: bool = False
    """True if its result is to wait there too."""
    result: Outcome = field(default_factory=Outcome)
    """The outcome that settles it; empty without a result."""
    requested_at: datetime = field(init=False)
    """The time of the first request for this judgement."""
    size: int = field(init=False)
    """The bytes of the request as it was read."""
    _reservation: JobReservation | None = None

    def __post_init__(self) -> None:
        self.size = len(self.record.value or b"")
        stamp_ms = max(0, min(self.record.timestamp_ms or 0, _LAST_MS))
        self.requested_at = self.request.requested_at or datetime.fromtimestamp(stamp_ms / 1000, UTC)

    @property
    def id(self) -> JobId:
        """The topic, partition and offset of the request; its job has the same id."""
        return self.record.topic, self.record.partition, self.record.offset

    @property
    def reservation(self) -> JobReservation:
        """The reservation of its job; raises ValueError if it has none."""
        if self._reservation is None:
            raise ValueError(f"a request that is {self.state} has no job")
        return self._reservation

    def reserve(self, reservation: JobReservation) -> None:
        """Record the reservation of its job."""
        self._change(RequestEvent.RESERVE)
        self._reservation = reservation

    def resolve(self, result: Outcome) -> None:
        """Record a result without a job."""
        self._change(RequestEvent.RESOLVE)
        self.result = result

    def move(self, result: Outcome) -> None:
        """Record a result without a job: the request waits in `judge.retry`."""
        self.resolve(result)
        self.moved, self.case = True, None

    def end(self, result: Outcome, costs: Mapping[str, int], *, judged: bool) -> None:
        """Record the result of its job."""
        self._change(RequestEvent.END)
        self.result, self.costs, self.judged = result, costs, judged

    def emit(self, outcome: Outcome) -> None:
        """Add its result to the outcome of the current transaction."""
        self._change(RequestEvent.EMIT)
        outcome.extend(self.result)

    def commit(self) -> None:
        """Apply the commit of the current transaction."""
        self._change(RequestEvent.COMMIT)

    def abort(self) -> None:
        """Apply the abort of the current transaction."""
        self._change(RequestEvent.ABORT)
        if self.state is RequestState.WAITING:
            self._reservation = None

    def _change(self, event: RequestEvent) -> None:
        self.state = next_state(self.state, event)


@dataclass(slots=True)
class PartitionBuffer:
    """The held requests of one partition of one topic, in the order of offsets."""

    next_offset: int
    """The offset after the last request that was taken."""
    topic_id: str = ""
    """Kafka's id of the topic; empty where it is not known."""
    requests: deque[HeldRequest] = field(default_factory=deque)
    _committed: Finished | None = None

    def emit(self, outcome: Outcome, most: int) -> Iterator[HeldRequest]:
        """Emit the finished prefix, until the outcome settles `most` requests; yield those that are emitted."""
        for request in self.requests:
            if request.state.is_emitted:
                continue
            if not request.state.has_result or len(outcome.settled) >= most:
                return
            request.emit(outcome)
            yield request

    def finished(self) -> Finished | None:
        """Return the last request that is finished once the current transaction is committed.

        Records that hold no request are left out.
        """
        last = self._committed
        for request in takewhile(lambda each: each.state.is_emitted, self.requests):
            if request.request is not UNREADABLE:
                topic, partition, offset = request.id
                event_id = request.request.evaluation.event_id
                position = {"topic": topic, "partition": partition, "offset": offset}
                last = Finished(**position, event_id=event_id, topic_id=self.topic_id)
        return last

    def commit(self) -> list[HeldRequest]:
        """Apply a commit, and return the requests that are done, which the buffer no longer holds."""
        self._committed = self.finished()
        for request in self.requests:
            request.commit()
        done = list(takewhile(lambda each: each.state is RequestState.DONE, self.requests))
        for _ in done:
            self.requests.popleft()
        return done


class HeldRequests:
    """All requests that a worker holds."""

    def __init__(self) -> None:
        self._requests: dict[JobId, HeldRequest] = {}
        """In the order of their arrival."""
        self._buffers: dict[TopicPartition, PartitionBuffer] = {}
        self.topic_ids: dict[str, str] = {}
        """Kafka's ids of the topics of requests, by name."""

    def __iter__(self) -> Iterator[HeldRequest]:
        return iter(self._requests.values())

    def __len__(self) -> int:
        return len(self._requests)

    def __getitem__(self, request_id: JobId) -> HeldRequest:
        return self._requests[request_id]

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions with held requests."""
        return [partition for partition, buffer in self._buffers.items() if buffer.requests]

    @property
    def size(self) -> int:
        """The bytes of the requests as they were read."""
        return sum([request.size for request in self])

    @property
    def is_emitting(self) -> bool:
        """True while some requests can be emitted, or have been in the current transaction."""
        return any(buffer.requests and buffer.requests[0].state.has_result for buffer in self._buffers.values())

    def buffer(self, record: Record) -> PartitionBuffer:
        """Return the buffer of a record's partition; a new one starts at this record."""
        topic_id = self.topic_ids.get(record.topic, "")
        return self._buffers.setdefault(record.topic_partition, PartitionBuffer(record.offset, topic_id))

    def add(self, request: HeldRequest) -> None:
        """Hold the next request of its partition."""
        buffer = self.buffer(request.record)
        buffer.next_offset = request.record.offset + 1
        buffer.requests.append(request)
        self._requests[request.id] = request

    def in_state(self, *states: RequestState) -> list[HeldRequest]:
        """Return the requests in one of these states, in the order of their arrival."""
        return [request for request in self if request.state in states]

    def emit(self, outcome: Outcome, most: int) -> list[HeldRequest]:
        """Emit the finished prefix of each partition, until the outcome settles `most` requests; return those."""
        return [request for buffer in self._buffers.values() for request in buffer.emit(outcome, most)]

    def finished(self, partition: int) -> tuple[Finished, ...]:
        """Return the last request of a partition in each topic that is finished once the transaction is committed."""
        lasts = (buffer.finished() for (_, own), buffer in self._buffers.items() if own == partition)
        return tuple(last for last in lasts if last is not None)

    def commit(self) -> None:
        """Apply a commit; requests that are done are no longer held."""
        for buffer in self._buffers.values():
            for request in buffer.commit():
                del self._requests[request.id]

    def abort(self) -> None:
        """Apply an abort."""
        for request in self:
            request.abort()

    def drop(self, partitions: Collection[int]) -> list[HeldRequest]:
        """Drop the partitions with these numbers in all topics, and return their requests."""
        dropped = [request for request in self if request.record.partition in partitions]
        for request in dropped:
            del self._requests[request.id]
        self._buffers = {each: buffer for each, buffer in self._buffers.items() if each[1] not in partitions}
        return dropped
