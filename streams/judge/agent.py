"""The judge agent: requests in, judged evaluations out, many under way at once; none is lost, none is judged twice.

Each request that is held has a state (`request_state`). In each transaction `tick` takes the results of jobs that have
ended, books their cost, emits the finished prefix of each partition, and reserves for the next requests. `on_commit`
starts the jobs whose reservations are committed. The pool makes the calls; here is no I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.judging import CLOCK_KEY, LedgerEntry
from ragweir.streams.agent import Agent, Assignment, Origin
from ragweir.streams.emissions import add_dead_letter
from ragweir.streams.judge.admission import RequestAdmission
from ragweir.streams.judge.config import JudgeConfig
from ragweir.streams.judge.days import DayClock
from ragweir.streams.judge.fairness import ABOVE_SHARE, Name, TenantShares
from ragweir.streams.judge.held_requests import UNREADABLE, HeldRequest, HeldRequests, read_request
from ragweir.streams.judge.job import JobResult, JudgePool
from ragweir.streams.judge.ledger import Budget
from ragweir.streams.judge.ledgers import Ledgers
from ragweir.streams.judge.request_state import RequestState
from ragweir.streams.judge.results import judged, result, unjudged, waiting
from ragweir.streams.records import Count, Emission, EventPosition, Measurements, Outcome, Record, TopicPartition

_SERVICE, _REQUESTS = "judge", "judge.requests"
_ELSEWHERE = timedelta(seconds=5)
"""The time for which a partition is left alone whose ledger another worker holds: so it is while topics grow."""
_CALL_SECONDS: Count = ("ragweir_judge_call_seconds",)
_HELD_PER_JOB = 4
"""Requests in memory for each that may be in flight: those that wait, and those that finished before an earlier one."""
_MOST_HELD_BYTES = 64 * 1024 * 1024
"""The bytes that the held requests may have as they were read, not counting the last batch."""
_MOST_MOVED = 4_000
"""Requests above their tenants' shares that are in memory, as long as one before them is not finished."""
_READ_ON = 100
"""Requests that are read at once, at least, to find those of other tenants behind a flood."""
_RESUME = 0.75
"""The part of what may be held at which reading goes on: stopping and going on throws away what was fetched."""


class JudgeAgent(Agent):
    """Judges requests by the jobs of a pool, within the budgets."""

    def __init__(self, config: JudgeConfig, pool: JudgePool) -> None:
        judge = config.judge
        self._config, self._pool = config, pool
        self._requests = HeldRequests()
        part = cache(
            partial(
                Budget.part,
                total_usd=judge.daily_budget_usd,
                applications=judge.budgets_by_application,
                tenants=judge.budgets_by_tenant,
                other_tenants_share=judge.other_tenants_share,
            )
        )
        self._ledgers = Ledgers(part, config.partitions, config.shares)
        self._days = DayClock(config.clock, config.day)
        self._most_held = _HELD_PER_JOB * judge.concurrency
        self._shares = TenantShares(judge.budgets_by_tenant, self._most_held, _MOST_HELD_BYTES // 2)
        self._admission = RequestAdmission(config, self._ledgers, self._shares, self._days)
        self._now = datetime.fromtimestamp(0, UTC)
        self._paused: dict[TopicPartition, tuple[int, datetime]] = {}
        """The offset of the next request, and the time until which it has to wait."""
        self._crowded: dict[TopicPartition, tuple[int, Name]] = {}
        """The offset of the next request, which was moved, and the tenant whose share has to have room for it."""
        self._newly_paused: set[TopicPartition] = set()
        """Those since the last tick: the runtime must see each of them once, since it has to go back."""
        self._full = self._draining = False

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        """Judged evaluations, requests that have to wait, the ledger, and dead letters."""
        return "evaluations", "judge.retry", "judge.deferred", "judge.ledger", "dead-letter"

    @property
    @override
    def changelog(self) -> str:
        """The ledger is the state that outlives a process."""
        return "judge.ledger"

    @property
    @override
    def clock_record(self) -> Emission | None:
        """A tombstone of an account that there cannot be: the days of budgets are those of the brokers."""
        return None if self._config.day else Emission("judge.ledger", CLOCK_KEY, None, ())

    # The flow of records.

    @property
    @override
    def paused(self) -> Mapping[TopicPartition, int]:
        """The partitions whose next request has to wait, and its offset."""
        return {partition: offset for partition, (offset, _) in (*self._paused.items(), *self._crowded.items())}

    @property
    @override
    def capacity(self) -> int:
        """The number of requests that can be taken."""
        moved = sum(request.moved for request in self._requests)
        held = len(self._requests) - moved
        most = self._most_held * (2 if self._shares_out else 1)
        share = max(held / most, moved / _MOST_MOVED, self._requests.size / _MOST_HELD_BYTES)
        if share >= 1:
            self._full = True
        elif share <= _RESUME:
            self._full = False
        if self._full or self._draining:
            return 0
        return max(_READ_ON if self._shares_out else 1, self._most_held - held)

    @property
    def _shares_out(self) -> bool:
        """True where reading goes on beyond what may be held, since another tenant may have asked there."""
        return self._config.moves and self._shares.known

    @property
    @override
    def held(self) -> Collection[TopicPartition]:
        """The partitions with requests whose results are not committed."""
        return self._requests.partitions

    @property
    @override
    def in_flight(self) -> bool:
        """True while jobs are under way or about to begin, or results can be emitted."""
        return self._requests.is_emitting or bool(
            self._requests.in_state(RequestState.RESERVED, RequestState.IN_FLIGHT)
        )

    @override
    def drain(self) -> None:
        self._draining = True

    @override
    def drain_metrics(self) -> Measurements:
        """Return the counts and latencies of calls since the last call, and the number of requests that wait."""
        return Measurements(
            self._pool.counts(),
            {
                **self._pool.levels(),
                ("ragweir_judge_waiting",): float(len(self._requests.in_state(RequestState.WAITING))),
            },
            [(_CALL_SECONDS, seconds) for seconds in self._pool.latencies()],
        )

    # One transaction.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Take requests. Those that are held already, as after an abort, and those that have to wait are skipped.

        Nothing is settled here: `tick` does that.
        """
        if records:
            self._shares.count(self._requests)
        for record in records:
            partition, buffer = record.topic_partition, self._requests.buffer(record)
            if partition in self._paused or partition in self._crowded or record.offset < buffer.next_offset:
                continue
            request = self._read(record)
            until = request.request.not_before
            if partition[1] not in self._ledgers:
                until = self._now + _ELSEWHERE
            if until is not None and until > self._now:
                self._paused[partition] = record.offset, until
                self._newly_paused.add(partition)
                continue
            tenant = self._shares.name(request.request)
            if self._shares_out and request.request.why == ABOVE_SHARE and self._shares.has_share(tenant):
                # It was moved before: it goes on waiting where it is.
                self._crowded[partition] = record.offset, tenant
                self._newly_paused.add(partition)
                continue
            request.behind = any(tenant == other for _, other in self._crowded.values())
            self._requests.add(request)
            self._shares.add(request)
        return Outcome()

    def _read(self, record: Record) -> HeldRequest:
        try:
            return HeldRequest(record, read_request(record, self._config.max_bytes))
        except Rejected as rejected:
            letter = Outcome(settled=[record])
            letter.counts["ragweir_events_in_total",] = 1
            add_dead_letter(letter, _SERVICE, record, rejected.error_class, rejected.message, self._config.max_bytes)
            unreadable = HeldRequest(record, UNREADABLE)
            unreadable.settle(letter)
            return unreadable

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter, which takes the place of its result, also after an abort.

        It is the first of its partition that is not settled, whether it is held or not. The cost of its job is booked
        all the same. See `Agent.dead_letter`.
        """
        letter, outcome = Outcome(settled=[record]), Outcome()
        add_dead_letter(letter, _SERVICE, record, error_class, reason, HEAD_BYTES)
        request = self._requests.get((record.topic, record.partition, record.offset))
        if request is None:
            request = HeldRequest(record, UNREADABLE)
            self._requests.add(request)
        if request.state is RequestState.WAITING:
            request.settle(letter)
        elif request.state is RequestState.IN_FLIGHT:
            # Nobody will hear what its calls cost.
            self._pool.cancel([request.id])
            job = request.reservation.job
            request.end(letter, dict.fromkeys(job.days, job.allowance), judged=False)
        request.result = letter
        request.emit(outcome)
        return outcome

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Settle finished requests, and emit what is reserved for the next ones and what the last ones have cost."""
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._shares.count(self._requests)
        self._unpause()
        self._days.set(now_s, self._ledgers.newest_day)
        day = self._days.today()
        for ended in self._pool.take_results():
            self._end(ended)
        self._ledgers.begin(self._days.days())
        self._book()
        outcome = Outcome()
        self._requests.emit(outcome, max_settled)
        # Before any are moved: no slot is left free for fairness.
        self._admission.admit(self._requests.in_state(RequestState.WAITING), self._free_slots(), self._now)
        if self._shares_out:
            surplus = self._shares.surplus(self._requests.in_state(RequestState.WAITING))
            self._admission.move(surplus, self._now)
        self._requests.emit(outcome, max_settled)
        outcome.emissions += self._ledgers.emissions(day, self._requests.finished)
        outcome.levels |= self._ledgers.levels(day)
        return outcome

    def _unpause(self) -> None:
        """Go on with partitions whose next request has waited long enough, or whose tenant has room again."""
        self._paused = {
            partition: (offset, until)
            for partition, (offset, until) in self._paused.items()
            if until > self._now or partition in self._newly_paused
        }
        self._crowded = {
            partition: (offset, tenant)
            for partition, (offset, tenant) in self._crowded.items()
            if partition in self._newly_paused or not self._shares.has_room(tenant)
        }
        self._newly_paused.clear()

    def _end(self, ended: JobResult) -> None:
        """Give a request the result of its job."""
        held = self._requests[ended.id]
        held.end(self._result(held, ended), ended.usage.costs, judged=ended.judged is not None)

    def _result(self, held: HeldRequest, ended: JobResult) -> Outcome:
        config, request, judge = self._config, held.request, self._config.judge
        if ended.judged is not None:
            suites = held.reservation.job.suites
            emission = judged(request, ended.judged, suites, ended.usage, judge.model, config.off, cut=held.cut)
            return result(held.record, emission, "judged")
        if ended.day_over:
            emission = waiting("judge.retry", request, held.record.partition, held.requested_at, self._now, ended.why)
            return result(held.record, emission, "retried")
        if request.attempts >= judge.retries:
            emission = unjudged(request, "failed", ended.why, config.suites, config.off)
            return result(held.record, emission, "failed")
        request = request.model_copy(update={"attempts": request.attempts + 1})
        until = self._now + timedelta(seconds=judge.retry_delay_s)
        partition, since = held.record.partition, held.requested_at
        emission = waiting("judge.retry", request, partition, since, until, ended.why)
        return result(held.record, emission, "retried")

    def _book(self) -> None:
        """Book the cost of jobs at once, not with their results: the request before them may wait for this money."""
        for held in self._requests:
            if held.state.is_unbooked:
                reservation = held.reservation
                for number, (day, deposits) in enumerate(zip(reservation.job.days, reservation.deposits, strict=True)):
                    self._ledgers.settle(deposits, held.costs.get(day, 0), judged=held.judged and number == 0)

    def _free_slots(self) -> int:
        """Return the number of jobs that may begin."""
        if self._draining or self._pool.unavailable_reason:
            return 0
        return self._config.judge.concurrency - len(
            self._requests.in_state(RequestState.RESERVED, RequestState.IN_FLIGHT)
        )

    @override
    def on_commit(self) -> None:
        """Start the jobs whose reservations are committed, and forget the requests whose results are."""
        jobs = [request.reservation.job for request in self._requests.in_state(RequestState.RESERVED)]
        self._ledgers.commit()
        self._requests.commit()
        for job in jobs:
            self._pool.start(job)

    @override
    def on_abort(self) -> None:
        """Take reservations and emissions back. The costs of jobs that have ended are booked again."""
        self._requests.abort()

    # Offset recovery.

    @property
    @override
    def provenance(self) -> str:
        """A record of the ledger says which requests were finished by then."""
        return "judge.ledger"

    @override
    def origins(self, output: Record) -> Iterator[Origin]:
        """Return the requests that a record of the ledger says are finished."""
        with suppress(ValidationError):
            for each in LedgerEntry.model_validate_json(output.value or b"").finished:
                yield Origin((each.topic, each.partition), (each.offset, 0), each.event_id, each.topic_id)

    @override
    def identities(self, record: Record) -> Iterator[tuple[EventPosition, str]]:
        """Return the id of the one event that a request is about."""
        with suppress(Rejected):
            yield (record.offset, 0), read_request(record, self._config.max_bytes).evaluation.event_id

    @override
    def replay_command(self, topic: str, first: int, end: int) -> str:
        """Return the command that judges in a run of its own, with a budget of its own, what interactions there are."""
        return "ragweir replay --run-id judged-again --judge budget --budget DOLLARS"

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over. The same partition of all its inputs has one ledger, which comes with the requests'.

        So it has one owner also while the topics have different numbers of partitions, where the same partition of
        another input may be somebody else's.
        """
        topic, partition = assignment.topic_partition
        self._requests.topic_ids[topic] = assignment.topic_id
        if topic.endswith(_REQUESTS):
            self._ledgers.restore(partition, assignment.changelog, assignment.partitions)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel the jobs of partitions that are given up, and forget their requests; the next owner starts anew."""
        numbers = {partition for _, partition in partitions}
        dropped = self._requests.drop(numbers)
        for request in dropped:
            if request.state is RequestState.IN_FLIGHT or request.state.is_unbooked:
                self._ledgers.forfeit(deposit for day in request.reservation.deposits for deposit in day)
        self._pool.cancel([request.id for request in dropped if request.state is RequestState.IN_FLIGHT])
        self._paused = {place: pause for place, pause in self._paused.items() if place[1] not in numbers}
        self._crowded = {place: pause for place, pause in self._crowded.items() if place[1] not in numbers}
        self._ledgers.drop(numbers)
