"""Admission of waiting requests: a reservation for those that are next, a result for those that cannot be judged."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.days import DayClock, next_day
from ragweir.streams.services.judge.fairness import ABOVE_SHARE, TenantShares
from ragweir.streams.services.judge.held_requests import HeldRequest, JobReservation
from ragweir.streams.services.judge.job import Job
from ragweir.streams.services.judge.pricing import allowance
from ragweir.streams.services.judge.request_state import RequestState
from ragweir.streams.services.judge.results import by_floor, case_of, chosen, result, waiting
from ragweir.streams.services.judge.settling import is_stale, missing
from ragweir.streams.services.judge.worker_ledgers import WorkerLedgers

_DECIDING_S = 5.0
"""The time limit of one round of decisions: a user's redaction may be slow."""
_ABOVE_BUDGET = "what it may cost is above a worker's part of a day's budget"
_OVER_BUDGET = "the day's budget is spent"
_EXPIRED = "it waited too long"


class RequestAdmission:
    """Decides about requests that wait."""

    def __init__(self, config: JudgeConfig, ledgers: WorkerLedgers, shares: TenantShares, days: DayClock) -> None:
        self._config, self._ledgers, self._shares, self._days = config, ledgers, shares, days
        self._expire = timedelta(hours=config.judge.expire_h)

    def admit(self, requests: Iterable[HeldRequest], slots: int, now: datetime) -> None:
        """Decide about requests by their tenants' turns: each gets a reservation or a result, or goes on waiting.

        Expired requests get a result first. No more than `slots` reservations are made, and none while the number of
        shares of the day's budgets is not known.
        """
        clock = self._config.clock
        until_s = clock() + _DECIDING_S
        if not self._ledgers.is_open(self._days.today()):
            slots = 0
        alive = []
        for request in requests:
            if now - request.requested_at > self._expire:
                self._resolve(request, "expired", _EXPIRED)
            else:
                alive.append(request)
        turns = self._shares.in_turn(alive)
        while slots > 0 and clock() <= until_s and (first := next(turns, None)):
            self._decide(first)
            slots -= first.state is RequestState.RESERVED

    def move(self, requests: Iterable[HeldRequest], now: datetime) -> None:
        """Let requests wait for their tenants' turns in `judge.retry`, so that requests behind them can be read.

        Their age and their attempts stay the same.
        """
        for held in requests:
            request, partition, evaluation = held.request, held.record.partition, held.request.evaluation
            if request.requested_at is None:
                account = self._ledgers.account(self._days.today(), evaluation.application, evaluation.tenant)
                self._ledgers.count_request(partition, account, by_floor=by_floor(evaluation))
            again = waiting("judge.retry", request, partition, held.requested_at, now, ABOVE_SHARE)
            held.move(result(held.record, again, "moved"))

    def _decide(self, held: HeldRequest) -> None:
        """Decide about a request. It goes on waiting while running jobs have reserved the budget that it needs."""
        config, request, partition = self._config, held.request, held.record.partition
        if is_stale(config, request):
            return self._resolve(held, "failed", "the anchors have changed")
        if held.case is None:
            whole, held.cut = case_of(request, config.judge.max_input_chars)
            redacted = config.redact(whole)
            if isinstance(redacted, Null):
                return self._resolve(held, "failed", redacted.reason)
            held.case = redacted
        evaluation = request.evaluation
        suites = [config.suites[each.suite] for each in chosen(evaluation) if each.suite in config.suites]
        amount = allowance(config.judge, held.case, suites)
        ledgers, days = self._ledgers, [day for day in self._days.days() if self._ledgers.is_open(day)]
        accounts = [ledgers.account(day, evaluation.application, evaluation.tenant) for day in days]
        drawn = by_floor(evaluation)
        if not ledgers.allows(accounts[0], amount, by_floor=drawn):
            return self._resolve(held, "failed", _ABOVE_BUDGET)
        if today := ledgers.reserve(partition, accounts[0], amount, by_floor=drawn):
            # A job for which tomorrow has no budget starts too, and ends at midnight.
            later = (ledgers.reserve(partition, account, amount, by_floor=drawn) for account in accounts[1:])
            by_day = (today, *(each for each in later if each))
            reserved = tuple(each[0].account[0] for each in by_day)
            fresh = request.anchor is not None
            job = Job(held.id, held.case, suites, amount, reserved, self._days.today, fresh)
            held.reserve(JobReservation(job, by_day))
        elif request.anchor and not ledgers.may_fit(accounts[0], amount, by_floor=drawn):
            return self._resolve(held, "failed", _OVER_BUDGET)  # The next day has runs of its own.
        elif not ledgers.may_fit(accounts[0], amount, by_floor=drawn):
            again = waiting("judge.deferred", request, partition, held.requested_at, next_day(days[0]), _OVER_BUDGET)
            held.resolve(result(held.record, again, "deferred"))
        if held.state is not RequestState.WAITING and request.requested_at is None:
            ledgers.count_request(partition, accounts[0], by_floor=drawn)
        return None

    def _resolve(self, held: HeldRequest, status: Literal["failed", "expired"], why: str) -> None:
        """Resolve a request with an evaluation whose judged metrics are null."""
        held.resolve(missing(self._config, held.record, held.request, status, why))
