"""The requests that a worker holds: each with its state, in the order of their arrival, by partition.

Requests finish in any order. What is emitted of a partition is always a finished prefix of its buffer.
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
from ragweir.streams.judge.job import Job, JobId
from ragweir.streams.judge.ledgers import Deposit
from ragweir.streams.judge.request_state import RequestEvent, RequestState, next_state
from ragweir.streams.records import Outcome, Record, TopicPartition

UNREADABLE = JudgeRequest(
    evaluation=Evaluation(event_id="", event_time=datetime.fromtimestamp(0, UTC), catalogue_version=""),
    query="",
    response="",
)
"""Stands for the request of a record that holds none."""
_LAST_MS = 2**43
"""The latest time of a record that is believed: any number may stand there, and dates end with the year 9999."""


def read_request(record: Record, max_bytes: int) -> JudgeRequest:
    """Read the request that a record holds.

    Raises:
        Rejected: if it holds none.
    """
    try:
        return JudgeRequest.model_validate(parse(record.value, max_bytes))
    except ValidationError:
        raise Rejected("invalid", "not a request") from None


@dataclass(frozen=True, slots=True)
class Reservation:
    """An amount that is set aside for a job on each of its days."""

    job: Job
    """Its allowance is the amount."""
    deposits: tuple[tuple[Deposit, ...], ...]
    """Where it is set aside, for each day of the job."""


@dataclass(slots=True, eq=False)
class HeldRequest:
    """A request that was taken and whose result is not committed.

    Its methods are the only ones that change its state; each raises ValueError where the table has no such transition.
    """

    record: Record
    request: JudgeRequest
    state: RequestState = RequestState.WAITING
    case: Case | None = None
    """The case as it may be sent, once it has been made."""
    cut: bool = False
    """True where something of the request is left out of the case."""
    costs: Mapping[str, int] = field(default_factory=dict)
    """The cost of its job, in millionths of a dollar, by days."""
    judged: bool = False
    """True where its job has judged it."""
    behind: bool = False
    """True where older requests of its tenant wait in `judge.retry`."""
    moved: bool = False
    """True where its result is that it waits there too."""
    result: Outcome = field(default_factory=Outcome)
    """All that is committed when it is settled; empty as long as it has no result."""
    requested_at: datetime = field(init=False)
    """When it was first asked for."""
    _reservation: Reservation | None = None

    def __post_init__(self) -> None:
        stamp_ms = max(0, min(self.record.timestamp_ms or 0, _LAST_MS))
        self.requested_at = self.request.requested_at or datetime.fromtimestamp(stamp_ms / 1000, UTC)

    @property
    def id(self) -> JobId:
        """The topic, partition and offset of the request; its job has the same id."""
        return self.record.topic, self.record.partition, self.record.offset

    @property
    def reservation(self) -> Reservation:
        """The amount that is reserved for its job.

        Raises:
            ValueError: if it has no job.
        """
        if self._reservation is None:
            raise ValueError(f"a request that is {self.state} has no job")
        return self._reservation

    def reserve(self, reservation: Reservation) -> None:
        """Reserve for a job."""
        self._change(RequestEvent.RESERVE)
        self._reservation = reservation

    def settle(self, result: Outcome) -> None:
        """Give it a result without a job."""
        self._change(RequestEvent.SETTLE)
        self.result = result

    def move(self, result: Outcome) -> None:
        """Give it the result that it waits in `judge.retry`, without a job."""
        self.settle(result)
        self.moved, self.case = True, None

    def end(self, result: Outcome, costs: Mapping[str, int], *, judged: bool) -> None:
        """Give it the result of its job, which has ended."""
        self._change(RequestEvent.END)
        self.result, self.costs, self.judged = result, costs, judged

    def emit(self, outcome: Outcome) -> None:
        """Add its result to the outcome of the transaction in hand."""
        self._change(RequestEvent.EMIT)
        outcome.extend(self.result)

    def committed(self) -> None:
        """Take part in the commit of the transaction in hand."""
        self._change(RequestEvent.COMMIT)

    def aborted(self) -> None:
        """Take part in the abort of the transaction in hand."""
        self._change(RequestEvent.ABORT)
        if self.state is RequestState.WAITING:
            self._reservation = None

    def _change(self, event: RequestEvent) -> None:
        self.state = next_state(self.state, event)


@dataclass(slots=True)
class PartitionBuffer:
    """The requests that are held of one partition of one topic, in the order of offsets."""

    next_offset: int
    """The offset of the next request that is not known yet."""
    topic_id: str = ""
    """Kafka's id of the topic; empty where it is not known."""
    requests: deque[HeldRequest] = field(default_factory=deque)
    _committed: Finished | None = None

    def emit(self, outcome: Outcome, most: int) -> None:
        """Emit the finished requests up to the first one that is not, until the outcome settles so many."""
        for request in self.requests:
            if request.state.is_emitted:
                continue
            if not request.state.has_result or len(outcome.settled) >= most:
                return
            request.emit(outcome)

    def finished(self) -> Finished | None:
        """Return the last request that is finished once the transaction in hand is committed.

        Records that held no request are left out.
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
        """Take part in a commit. Returns the requests that are done, which the buffer no longer holds."""
        self._committed = self.finished()
        for request in self.requests:
            request.committed()
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
        """The partitions of which requests are held."""
        return [partition for partition, buffer in self._buffers.items() if buffer.requests]

    @property
    def size(self) -> int:
        """The bytes of the requests as they were read."""
        return sum(len(request.record.value or b"") for request in self)

    @property
    def is_emitting(self) -> bool:
        """True while requests are held that can be emitted, or have been in the transaction in hand."""
        return any(buffer.requests and buffer.requests[0].state.has_result for buffer in self._buffers.values())

    def buffer(self, record: Record) -> PartitionBuffer:
        """Return the buffer of a record's partition; a new one begins with this record."""
        topic_id = self.topic_ids.get(record.topic, "")
        return self._buffers.setdefault(record.topic_partition, PartitionBuffer(record.offset, topic_id))

    def add(self, request: HeldRequest) -> None:
        """Hold one more, which is the next one of its partition."""
        buffer = self.buffer(request.record)
        buffer.next_offset = request.record.offset + 1
        buffer.requests.append(request)
        self._requests[request.id] = request

    def get(self, request_id: JobId) -> HeldRequest | None:
        """Return a request by its id; None if it is not held."""
        return self._requests.get(request_id)

    def in_state(self, *states: RequestState) -> list[HeldRequest]:
        """Return those in one of these states, in the order of their arrival."""
        return [request for request in self if request.state in states]

    def emit(self, outcome: Outcome, most: int) -> None:
        """Emit the finished prefix of each partition, until the outcome settles so many requests."""
        for buffer in self._buffers.values():
            buffer.emit(outcome, most)

    def finished(self, partition: int) -> tuple[Finished, ...]:
        """Return, of each topic, the last request of a partition that is finished once all is committed."""
        lasts = (buffer.finished() for (_, own), buffer in self._buffers.items() if own == partition)
        return tuple(last for last in lasts if last is not None)

    def commit(self) -> None:
        """Take part in a commit; what is done is no longer held."""
        for buffer in self._buffers.values():
            for request in buffer.commit():
                del self._requests[request.id]

    def abort(self) -> None:
        """Take part in an abort."""
        for request in self:
            request.aborted()

    def drop(self, partitions: Collection[int]) -> list[HeldRequest]:
        """Forget the partitions with these numbers, of all topics. Returns the requests that were held of them."""
        dropped = [request for request in self if request.record.partition in partitions]
        for request in dropped:
            del self._requests[request.id]
        self._buffers = {place: buffer for place, buffer in self._buffers.items() if place[1] not in partitions}
        return dropped
