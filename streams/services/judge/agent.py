"""The judge agent: requests in, judged evaluations out, many at a time; none is lost, none is judged twice.

Each request that is held has a state (`request_state`). In each transaction `tick` takes the results of jobs that have
ended, books their cost, emits the finished prefix of each partition, and reserves for the next requests. `on_commit`
starts the jobs whose reservations are committed. The pool makes the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial

from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.judging import CLOCK_KEY
from ragweir.schemas.topics import OTLP_EVALUATIONS
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.emissions import add_dead_letter
from ragweir.streams.runtime.records import Emission, Measurements, Outcome, Record, TopicPartition
from ragweir.streams.services.judge.admission import RequestAdmission
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.days import DayClock
from ragweir.streams.services.judge.fairness import ABOVE_SHARE, TenantShares
from ragweir.streams.services.judge.held_requests import UNREADABLE, HeldRequest, HeldRequests, read_request
from ragweir.streams.services.judge.holding import HELD_PER_JOB, MOST_HELD_BYTES, RUNNING, JudgeHolding
from ragweir.streams.services.judge.job import JobResult, JudgePool
from ragweir.streams.services.judge.judged_rows import judged_rows
from ragweir.streams.services.judge.ledger import Budget
from ragweir.streams.services.judge.parts import JudgePreparation, JudgeRecovery
from ragweir.streams.services.judge.request_state import RequestState
from ragweir.streams.services.judge.results import result, waiting
from ragweir.streams.services.judge.settling import found, missing
from ragweir.streams.services.judge.worker_ledgers import WorkerLedgers
from ragweir.streams.services.shared.row_writer import DOCUMENTS, RowWriter

_SERVICE, _REQUESTS = "judge", "judge.requests"
_OTHER_OWNER_PAUSE = timedelta(seconds=5)
"""The pause of a partition whose ledger another worker has, as happens while topics grow."""


class JudgeAgent(Agent):
    """Judges requests by the jobs of a pool, within the budgets."""

    _OUTPUTS = "evaluations", "judge.retry", "judge.deferred", "judge.ledger", "dead-letter"
    changelog = "judge.ledger"

    def __init__(self, config: JudgeConfig, pool: JudgePool) -> None:
        judge = config.judge
        self._config, self._pool = config, pool
        self._requests = HeldRequests()
        self._ledgers = WorkerLedgers(
            cache(partial(Budget.share, judge, config.floor_share)), config.partitions, config.shares
        )
        self._days = DayClock(config.clock, config.day)
        self._shares = TenantShares(judge.budgets_by_tenant, HELD_PER_JOB * judge.concurrency, MOST_HELD_BYTES // 2)
        self._admission = RequestAdmission(config, self._ledgers, self._shares, self._days)
        self._now = datetime.fromtimestamp(0, UTC)
        self.holding = self._holding = JudgeHolding(self._requests, self._shares, judge.concurrency, moves=config.moves)
        # A tombstone of an account that cannot exist: the days of budgets follow the brokers' time.
        self.clock_record = None if config.day else Emission("judge.ledger", CLOCK_KEY, None, ())
        self.preparation = JudgePreparation(config.rates)
        self.recovery = JudgeRecovery(config.max_bytes)
        self._row_writer = RowWriter(_SERVICE, "judged", config.documents) if config.documents else None

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        anchors = ("judge.anchors",) if self._config.anchors else ()
        rows = (DOCUMENTS,) if self._row_writer else ()
        return (*self._OUTPUTS, *anchors, *rows, *((OTLP_EVALUATIONS,) if self._config.otlp else ()))

    # The flow of records.

    @override
    def drain(self) -> None:
        self._holding.draining = True

    @override
    def drain_metrics(self) -> Measurements:
        """Return the pool's metrics, and the number of requests that wait."""
        metrics = self._pool.drain_metrics()
        waiting_requests = float(len(self._requests.in_state(RequestState.WAITING)))
        return replace(metrics, levels={**metrics.levels, ("ragweir_judge_waiting",): waiting_requests})

    # One transaction.

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Take requests, which `tick` settles later.

        Requests that are held already, as after an abort, and those that have to wait are skipped.
        """
        if records:
            self._shares.count(self._requests)
        for record in records:
            partition, buffer = record.topic_partition, self._requests.buffer(record)
            if partition in self._holding or record.offset < buffer.next_offset:
                continue
            request = self._read(record)
            until = request.request.not_before
            if partition[1] not in self._ledgers:
                until = self._now + _OTHER_OWNER_PAUSE
            if until is not None and until > self._now:
                self._holding.pause(record, until)
                continue
            tenant = self._shares.name(request.request)
            if self._holding.reads_on and request.request.why == ABOVE_SHARE and self._shares.has_share(tenant):
                # It was moved before, and goes on waiting there.
                self._holding.pause_for_share(record, tenant)
                continue
            request.behind = self._holding.is_crowded(tenant)
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
            unreadable.resolve(letter)
            return unreadable

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter instead of its result; see `Agent.dead_letter`.

        It is the first of its partition that is not settled, whether it is held or not. The cost of its job is booked.
        """
        letter, outcome = Outcome(settled=[record]), Outcome()
        add_dead_letter(letter, _SERVICE, record, error_class, reason, HEAD_BYTES)
        record_id = record.topic, record.partition, record.offset
        request = next((each for each in self._requests if each.id == record_id), None)
        if request is None:
            request = HeldRequest(record, UNREADABLE)
            self._requests.add(request)
        if request.state is RequestState.WAITING:
            request.resolve(letter)
        elif request.state is RequestState.IN_FLIGHT:
            # The cost of its calls will not be known.
            self._pool.cancel([request.id])
            job = request.reservation.job
            request.end(letter, dict.fromkeys(job.days, job.allowance), judged=False)
        request.result = letter
        request.emit(outcome)
        return outcome

    @override
    def tick(self, now_s: float, caught_up: Collection[TopicPartition], max_settled: int) -> Outcome:
        """Settle finished requests, and emit changes of the ledger: new reservations and the cost of ended jobs."""
        self._now = datetime.fromtimestamp(now_s, UTC)
        self._shares.count(self._requests)
        self._holding.resume(self._now)
        self._days.set(now_s, self._ledgers.newest_day)
        day = self._days.today()
        for job_result in self._pool.take_results():
            held = self._requests[job_result.id]
            was_judged = job_result.judged is not None
            held.end(self._result(held, job_result), job_result.usage.costs, judged=was_judged)
        self._ledgers.begin(self._days.days())
        self._book()
        outcome = Outcome()
        outcome.emissions += self._due_anchors(day)
        emitted = self._requests.emit(outcome, max_settled)
        # Before requests are moved, so that no slot stays free.
        self._admission.admit(self._requests.in_state(RequestState.WAITING), self._free_slots(), self._now)
        if self._holding.reads_on:
            surplus = self._shares.surplus(self._requests.in_state(RequestState.WAITING))
            self._admission.move(surplus, self._now)
        emitted += self._requests.emit(outcome, max_settled)
        if self._row_writer:
            outcome.emissions += judged_rows(self._row_writer, emitted)
        outcome.emissions += self._ledgers.emissions(day, self._requests.finished)
        if self._config.rates:
            outcome.emissions += self._config.rates.emissions(now_s)
        outcome.levels |= self._ledgers.levels(day)
        return outcome

    def _result(self, held: HeldRequest, ended: JobResult) -> Outcome:
        config, request, judge = self._config, held.request, self._config.judge
        if ended.judged is not None:
            suites = held.reservation.job.suites
            return found(config, held.record, request, ended.judged, suites, ended.usage, cut=held.cut)
        if not ended.day_over and request.attempts >= judge.retries:
            return missing(config, held.record, request, "failed", ended.why, ended.usage)
        until = self._now
        if not ended.day_over:
            request = request.model_copy(update={"attempts": request.attempts + 1})
            until += timedelta(seconds=judge.retry_delay_s)
        emission = waiting("judge.retry", request, held.record.partition, held.requested_at, until, ended.why)
        return result(held.record, emission, "retried")

    def _book(self) -> None:
        """Book the cost of jobs before their results are emitted: requests before them may wait for the budget."""
        for held in self._requests:
            if held.state.is_unbooked:
                reservation = held.reservation
                for number, (day, own) in enumerate(zip(reservation.job.days, reservation.by_day, strict=True)):
                    self._ledgers.settle(own, held.costs.get(day, 0), judged=held.judged and number == 0)

    def _due_anchors(self, day: str) -> Iterator[Emission]:
        """Yield the requests of the run of anchors that is due, and record it in the ledger."""
        anchors, ledgers = self._config.anchors, self._ledgers
        if anchors is None or self._holding.draining or not ledgers.has_anchors or not ledgers.is_open(day):
            return
        if (progress := anchors.due(ledgers.anchors, day, self._now)) is not None:
            ledgers.request_anchors(progress)
            yield from anchors.requests(progress, self._now)

    def _free_slots(self) -> int:
        """Return the number of jobs that may start."""
        if self._holding.draining or self._pool.unavailable_reason:
            return 0
        return self._config.judge.concurrency - len(self._requests.in_state(*RUNNING))

    @override
    def on_commit(self) -> None:
        """Start the jobs whose reservations are committed."""
        jobs = [request.reservation.job for request in self._requests.in_state(RequestState.RESERVED)]
        self._ledgers.commit()
        self._requests.commit()
        if self._config.rates:
            self._config.rates.on_commit()
        for job in jobs:
            self._pool.start(job)

    @override
    def on_abort(self) -> None:
        self._requests.abort()

    # Partitions.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Take a partition over.

        The partitions of all inputs with one number share a ledger, which is assigned with the partition of requests.
        So it has one owner even while the inputs have different numbers of partitions.
        """
        topic, partition = assignment.topic_partition
        self._requests.topic_ids[topic] = assignment.topic_id
        if topic.endswith(_REQUESTS):
            self._ledgers.restore(partition, assignment.changelog, assignment.partitions)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Cancel the jobs of partitions that are given up, and drop their requests; the next owner reads them again."""
        numbers = {partition for _, partition in partitions}
        dropped = self._requests.drop(numbers)
        for request in dropped:
            if request.state is RequestState.IN_FLIGHT or request.state.is_unbooked:
                self._ledgers.forfeit(each for day in request.reservation.by_day for each in day)
        self._pool.cancel([request.id for request in dropped if request.state is RequestState.IN_FLIGHT])
        self._holding.drop(numbers)
        self._ledgers.drop(numbers)
