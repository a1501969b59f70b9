"""The judge agent: requests in, judged evaluations out, many events under way at once; none lost, none judged twice.

Requests are taken in order and finish in any; what is emitted is always a finished prefix of a partition. Calls go out
only after what they may cost is committed to the ledger. The desk does the calling; here is no I/O.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice

from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.metrics.judged.suite import Case, Suite
from ragweir.metrics.metric import Null
from ragweir.schemas.codec import parse
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import Finished, JudgeRequest, LedgerEntry
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.agents.agent import Agent, Assignment
from ragweir.streams.emissions import bury, cloud_event
from ragweir.streams.judging.job import Desk, Ended, Job, JobId
from ragweir.streams.judging.ledger import Account, Budget, Ledger, affordable, day_of, next_day
from ragweir.streams.judging.money import allowance
from ragweir.streams.judging.results import by_floor_alone, case_of, chosen, judged, unjudged, waiting
from ragweir.streams.records import Count, Emission, EventPosition, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.settings import JudgeSettings, Price

_SERVICE = "judge"
_CALL_SECONDS: Count = ("ragweir_judge_call_seconds",)
_MICRO = 1_000_000
_HELD_PER_JOB = 4
"""Requests in memory for each that may be in flight: those that wait, and those that finished before an earlier one."""
_MOST_HELD_BYTES = 64 * 1024 * 1024
"""What the held requests may take as they were read, but for the last batch."""
_RESUME = 0.75
"""The part of what may be held at which reading goes on: stopping and going on throws away what was fetched."""
_DECIDING_S = 5.0
"""After so long no other request is redacted before the next look: a user's redaction may be slow."""
_ABOVE_BUDGET = "what it may cost is above a partition's part of a day's budget"
_OVER_BUDGET = "the day's budget is spent"


@dataclass(frozen=True, slots=True)
class JudgeConfig:
    """All that judging depends on beside the requests and the endpoint."""

    suites: Mapping[str, Suite]
    judge: JudgeSettings
    price: Price
    embedding_price: Price
    partitions: int
    """Of the requests' topic: each has an equal part of the budgets."""
    redact: Callable[[Case], Case | Null] = lambda case: case
    """Gives the case as it may leave, or the reason why it must not."""
    day: str | None = None
    """The day that all costs are booked on; without one the budget renews each day."""
    off: frozenset[str] = frozenset()
    """Metrics that are not published."""
    max_bytes: int = max_record_bytes(MAX_EVENT_BYTES)
    clock: Callable[[], float] = time.monotonic
    """Seconds that never go back."""


Emit = Callable[[Outcome], None]


@dataclass(slots=True)
class _Held:
    """A request that was taken and is not yet committed."""

    record: Record
    request: JudgeRequest
    requested_at: datetime
    emit: Emit | None = None
    """Emits what became of it; None as long as it is not finished."""
    case: Case | None = None
    cut: bool = False
    job: Job | None = None
    account: Account | None = None
    spent: int = 0
    judged: bool = False

    @property
    def id(self) -> JobId:
        return self.record.topic, self.record.partition, self.record.offset


@dataclass(slots=True)
class _Lane:
    """What was taken of one partition of one topic, in order; the first is the oldest that is not committed."""

    next_offset: int
    held: deque[_Held] = field(default_factory=deque)
    emitted: int = 0
    """How many of the first ones what was emitted last has finished."""
    last: Finished | None = None
    """The last that could be read of what is finished with it."""


class JudgeAgent(Agent):
    """Judges requests through a desk, within the budgets."""

    def __init__(self, config: JudgeConfig, desk: Desk) -> None:
        self._config = config
        self._desk = desk
        judge = config.judge
        self._budget = Budget.part(
            config.partitions, judge.daily_budget_usd, judge.budgets_by_application, judge.budgets_by_tenant
        )
        self._most_held = _HELD_PER_JOB * judge.concurrency
        self._now = datetime.fromtimestamp(0, UTC)
        self._lanes: dict[TopicPartition, _Lane] = {}
        self._waiting: deque[_Held] = deque()
        self._starting: list[_Held] = []
        """What they may cost is emitted and not yet committed."""
        self._flying: dict[JobId, _Held] = {}
        self._landed: list[_Held] = []
        """They have ended, and what they cost is not yet committed to the ledger."""
        self._ledgers: dict[int, Ledger] = {}
        """As committed."""
        self._booked: dict[int, Ledger] = {}
        """As they are once what was emitted last is committed."""
        self._rests: dict[TopicPartition, tuple[int, datetime]] = {}
        self._fresh: set[TopicPartition] = set()
        """Those that came to rest since the last look: the runtime must see them once, since it has to go back."""
        self._full = self._draining = False

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        """Judged evaluations, requests that have to wait, and what was spent."""
        return "evaluations", "judge.retry", "judge.deferred", "judge.ledger", "dead-letter"

    @property
    @override
    def changelog(self) -> str:
        """The ledger is the state that outlives a process."""
        return "judge.ledger"

    # The flow of records.

    @property
    @override
    def paused(self) -> Mapping[TopicPartition, int]:
        """Partitions whose next request has to wait, and its offset: nothing of them is taken for now."""
        return {place: offset for place, (offset, _) in self._rests.items()}

    @property
    @override
    def capacity(self) -> int:
        """The number of requests that can be taken."""
        held = sum(len(lane.held) for lane in self._lanes.values())
        size = sum(len(each.record.value or b"") for lane in self._lanes.values() for each in lane.held)
        share = max(held / self._most_held, size / _MOST_HELD_BYTES)
        if share >= 1:
            self._full = True
        elif share <= _RESUME:
            self._full = False
        return 0 if self._full or self._draining else max(1, self._most_held - held)

    @property
    @override
    def held(self) -> Collection[TopicPartition]:
        """The partitions with requests that are not committed."""
        return [place for place, lane in self._lanes.items() if lane.held]

    @property
    @override
    def in_flight(self) -> bool:
        """True while calls are under way, or requests are finished and not committed."""
        return bool(self._flying or self._starting or any(_finished(lane) for lane in self._lanes.values()))

    @override
    def drain(self) -> None:
        """Take and begin nothing more."""
        self._draining = True

    @override
    def drain_metrics(self) -> Measurements:
        """Return the counts and latencies of calls since the last call, and how many requests wait."""
        return Measurements(
            self._desk.counts(),
            {**self._desk.levels(), ("ragweir_judge_waiting",): float(len(self._waiting))},
            [(_CALL_SECONDS, seconds) for seconds in self._desk.latencies()],
        )

    # Taking.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Take requests. Those that are known already, as after an abort, and those that have to wait are passed over.

        What they come to is for `tick` to emit.
        """
        for record in records:
            place = record.topic, record.partition
            lane = self._lanes.setdefault(place, _Lane(record.offset))
            if place in self._rests or record.offset < lane.next_offset:
                continue
            held = self._read(record)
            until = held.request.not_before
            if until is not None and until > self._now:
                self._rests[place] = record.offset, until
                self._fresh.add(place)
                continue
            lane.next_offset = record.offset + 1
            lane.held.append(held)
            if held.emit is None:
                self._waiting.append(held)
        return Outcome()

    def _read(self, record: Record) -> _Held:
        stamp = datetime.fromtimestamp(max(0, min(record.timestamp_ms or 0, 2**43)) / 1000, UTC)
        try:
            data = parse(record.value, self._config.max_bytes)
            request = JudgeRequest.model_validate(data)
        except Rejected as rejected:
            return _Held(record, _UNREADABLE, stamp, self._burying(record, rejected))
        except ValidationError:
            return _Held(record, _UNREADABLE, stamp, self._burying(record, Rejected("invalid", "not a request")))
        return _Held(record, request, request.requested_at or stamp)

    def _burying(self, record: Record, rejected: Rejected) -> Emit:
        def emit(outcome: Outcome) -> None:
            bury(outcome, _SERVICE, record, rejected.error_class, rejected.message, self._config.max_bytes)

        return emit

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a request as a dead letter, also one that is finished already. See `Agent.dead_letter`."""
        outcome = Outcome(settled=[record])
        bury(outcome, _SERVICE, record, error_class, reason, HEAD_BYTES)
        lane = self._lanes.get(record.topic_partition)
        if lane is not None and lane.held and lane.held[0].record.offset == record.offset:
            lane.emitted = 1
        return outcome

    # Working.

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], most: int) -> Outcome:
        """What has come of the calls under way, and what is to be reserved for the next ones."""
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._rests = {
            place: rest for place, rest in self._rests.items() if rest[1] > self._now or place in self._fresh
        }
        self._fresh.clear()
        day = self._config.day or day_of(now_s)
        self._booked = {partition: ledger.recent(day) for partition, ledger in self._ledgers.items()}
        for ended in self._desk.ended():
            if (held := self._flying.pop(ended.id, None)) is not None:
                self._land(held, ended)
                self._landed.append(held)
        for held in self._landed:
            self._settle(held)
        outcome = Outcome()
        self._emit_finished(outcome, most)
        self._begin(day)
        self._emit_finished(outcome, most)
        for partition, ledger in self._booked.items():
            lasts = (lane.last for (_, each), lane in self._lanes.items() if each == partition)
            for key, value in ledger.changes(self._ledgers[partition], tuple(last for last in lasts if last)):
                headers = cloud_event(_SERVICE, "ledger", key.decode(), next_day(day), "application/json")
                outcome.emissions.append(Emission("judge.ledger", key, value, headers, partition))
        self._tell_budget(day, outcome)
        return outcome

    def _land(self, held: _Held, ended: Ended) -> None:
        """What a job has come to."""
        config, request = self._config, held.request
        held.spent = ended.usage.cost
        suites = held.job.suites if held.job else ()
        if ended.judged is not None:
            held.judged = True
            emission = judged(request, ended.judged, suites, ended.usage, config.judge.model, config.off, cut=held.cut)
            held.emit = _emitting(emission, "judged")
        elif request.attempts >= config.judge.retries:
            held.emit = _emitting(unjudged(request, "failed", ended.why, config.suites, config.off), "failed")
        else:
            until = self._now + timedelta(seconds=config.judge.retry_delay_s)
            partition = held.record.partition
            again = waiting("judge.retry", request, partition, held.requested_at, until, ended.why)
            held.emit = _emitting(again, "retried")

    def _begin(self, day: str) -> None:
        """Reserve for what can be called next; settle what cannot be judged, or not today."""
        config = self._config
        expire = timedelta(hours=config.judge.expire_h)
        stopped = self._draining or bool(self._desk.shut)
        stay: deque[_Held] = deque()
        until = config.clock() + _DECIDING_S
        for held in self._waiting:
            if self._now - held.requested_at > expire:
                emission = unjudged(held.request, "expired", "it waited too long", config.suites, config.off)
                held.emit = _emitting(emission, "expired")
            elif stopped or self._is_full or config.clock() > until:
                stay.append(held)
            else:
                self._decide(held, day)
                if held.emit is None and held.job is None:
                    stay.append(held)
        self._waiting = stay

    @property
    def _is_full(self) -> bool:
        return len(self._flying) + len(self._starting) >= self._config.judge.concurrency

    def _decide(self, held: _Held, day: str) -> None:
        """Reserve for a request, or settle it. It stays as it is while calls under way hold the money that it needs."""
        config, request, partition = self._config, held.request, held.record.partition
        if held.case is None:
            whole, held.cut = case_of(request, config.judge.max_input_chars)
            redacted = config.redact(whole)
            if isinstance(redacted, Null):
                held.emit = _emitting(unjudged(request, "failed", redacted.reason, config.suites, config.off), "failed")
                return
            held.case = redacted
        suites = [config.suites[each.suite] for each in chosen(request.evaluation) if each.suite in config.suites]
        amount = allowance(config.price, config.embedding_price, held.case, suites, config.judge.max_output_tokens)
        ledger = self._booked[partition]
        evaluation = request.evaluation
        account = self._budget.account(day, evaluation.application, evaluation.tenant)
        if request.requested_at is None:
            ledger = ledger.asked(account, by_floor=by_floor_alone(evaluation))
        if not ledger.allows(account, amount):
            held.emit = _emitting(unjudged(request, "failed", _ABOVE_BUDGET, config.suites, config.off), "failed")
        elif ledger.fits(account, amount):
            held.account, held.job = account, Job(held.id, held.case, suites, amount)
            self._booked[partition] = ledger.reserve(account, amount)
            self._starting.append(held)
        elif not ledger.fits(account, amount, settled=True):
            self._booked[partition] = ledger
            again = waiting("judge.deferred", request, partition, held.requested_at, next_day(day), _OVER_BUDGET)
            held.emit = _emitting(again, "deferred")

    def _emit_finished(self, outcome: Outcome, most: int) -> None:
        for lane in self._lanes.values():
            done = min(_finished(lane), lane.emitted + most - len(outcome.settled))
            for held in islice(lane.held, lane.emitted, done):
                self._emit(held, outcome)
                if held.request is not _UNREADABLE:
                    lane.last = _end(held)
            lane.emitted = done

    def _emit(self, held: _Held, outcome: Outcome) -> None:
        if held.emit is not None:
            outcome.settled.append(held.record)
            outcome.counts["ragweir_events_in_total",] += 1
            held.emit(outcome)

    def _settle(self, held: _Held) -> None:
        """Book what a job has cost. Not only once it can be emitted: the request before it may wait for this money."""
        if held.job is not None and held.account is not None:
            partition = held.record.partition
            self._booked[partition] = self._booked[partition].settle(
                held.account, held.job.allowance, held.spent, judged=held.judged
            )

    def _tell_budget(self, day: str, outcome: Outcome) -> None:
        if self._budget.total is None or not self._booked:
            return
        left = sum(ledger.left(day) or 0 for ledger in self._booked.values())
        outcome.levels["ragweir_judge_budget_left_dollars",] = left / _MICRO
        today = [entry for ledger in self._booked.values() for entry in ledger.accounts.values() if entry.day == day]
        share = affordable(today, self._budget.total * len(self._booked))
        if share is not None:
            outcome.levels["ragweir_judge_affordable_floor_ratio",] = share

    @override
    def on_commit(self) -> None:
        """Start the calls whose reservations are committed, and forget the requests that are."""
        self._ledgers.update(self._booked)
        self._landed = []
        for lane in self._lanes.values():
            for _ in range(lane.emitted):
                lane.held.popleft()
            lane.emitted = 0
        for held in self._starting:
            if held.job is not None:
                self._flying[held.id] = held
                self._desk.start(held.job)
        self._starting = []

    @override
    def on_abort(self) -> None:
        """Take the reservations back; what was emitted is emitted again."""
        for held in self._starting:
            held.job = held.account = None
        self._waiting.extendleft(reversed(self._starting))
        self._starting = []
        for lane in self._lanes.values():
            lane.emitted = 0

    # Offset recovery.

    @property
    @override
    def provenance(self) -> str:
        """A record of the ledger tells which requests were finished by then."""
        return "judge.ledger"

    @override
    def origins(self, output: Record) -> Iterator[tuple[TopicPartition, EventPosition, str]]:
        """Return the requests that are finished by a record of the ledger."""
        with suppress(ValidationError):
            for each in LedgerEntry.model_validate_json(output.value or b"").finished:
                yield (each.topic, each.partition), (each.offset, 0), each.event_id

    @override
    def identities(self, record: Record) -> Iterator[tuple[EventPosition, str]]:
        """Return the id of the one event that a request is about."""
        request = self._read(record).request
        if request is not _UNREADABLE:
            yield (record.offset, 0), request.evaluation.event_id

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over. The same partition of all its inputs has one ledger, which comes with the first."""
        _, partition = assignment.topic_partition
        if partition not in self._ledgers:
            self._ledgers[partition] = Ledger.restored(partition, self._budget, assignment.changelog)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what is under way for partitions that were given up; their next owner begins it anew."""
        gone = {partition for _, partition in partitions}
        self._desk.cancel([job for job in self._flying if job[1] in gone])
        self._flying = {job: held for job, held in self._flying.items() if job[1] not in gone}
        self._waiting = deque(held for held in self._waiting if held.record.partition not in gone)
        self._starting = [held for held in self._starting if held.record.partition not in gone]
        self._landed = [held for held in self._landed if held.record.partition not in gone]
        self._lanes = {place: lane for place, lane in self._lanes.items() if place[1] not in gone}
        self._rests = {place: rest for place, rest in self._rests.items() if place[1] not in gone}
        for partition in gone:
            self._ledgers.pop(partition, None)
            self._booked.pop(partition, None)


_UNREADABLE = JudgeRequest(
    evaluation=Evaluation(event_id="", event_time=datetime.fromtimestamp(0, UTC), catalogue_version=""),
    query="",
    response="",
)
"""Stands for a request that could not be read."""


def _end(held: _Held) -> Finished:
    topic, partition, offset = held.id
    return Finished(topic=topic, partition=partition, offset=offset, event_id=held.request.evaluation.event_id)


def _finished(lane: _Lane) -> int:
    """How many of the first requests of a lane are finished."""
    return next((place for place, held in enumerate(lane.held) if held.emit is None), len(lane.held))


def _emitting(emission: Emission, outcome_name: str) -> Emit:
    def emit(outcome: Outcome) -> None:
        outcome.emissions.append(emission)
        outcome.counts["ragweir_judge_requests_total", outcome_name] += 1
        if emission.topic == "evaluations":
            outcome.counts["ragweir_evaluations_total", "judged"] += 1

    return emit
