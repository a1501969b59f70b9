"""Admission of requests: reserves for those that can be judged next, and settles those that cannot, or not today."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Literal

from ragweir.metrics.metric import Null
from ragweir.streams.judge.config import JudgeConfig
from ragweir.streams.judge.days import DayClock, next_day
from ragweir.streams.judge.fairness import ABOVE_SHARE, TenantShares
from ragweir.streams.judge.held_requests import HeldRequest, Reservation
from ragweir.streams.judge.job import Job
from ragweir.streams.judge.ledgers import Ledgers
from ragweir.streams.judge.pricing import allowance
from ragweir.streams.judge.request_state import RequestState
from ragweir.streams.judge.results import by_floor_alone, case_of, chosen, result, unjudged, waiting

_DECIDING_S = 5.0
"""The time after which no other request is decided about before the next tick: a user's redaction may be slow."""
_ABOVE_BUDGET = "what it may cost is above a worker's part of a day's budget"
_OVER_BUDGET = "the day's budget is spent"
_EXPIRED = "it waited too long"


class RequestAdmission:
    """Decides about requests that wait.

    Args:
        config: of the judge.
        ledgers: where costs are reserved.
        shares: give each tenant its turn.
        days: says on which days.
    """

    def __init__(self, config: JudgeConfig, ledgers: Ledgers, shares: TenantShares, days: DayClock) -> None:
        self._config, self._ledgers, self._shares, self._days = config, ledgers, shares, days
        self._expire = timedelta(hours=config.judge.expire_h)

    def admit(self, requests: Iterable[HeldRequest], slots: int, now: datetime) -> None:
        """Decide about requests by their tenants' turns: each is reserved for, gets a result, or goes on waiting.

        All wait as long as it is not known into how many parts the budgets of the day are divided.

        Args:
            requests: those that wait, in the order of their arrival.
            slots: the number of jobs that may begin.
            now: the time, by which requests expire.
        """
        clock = self._config.clock
        until_s = clock() + _DECIDING_S
        if not self._ledgers.is_open(self._days.today()):
            slots = 0
        alive = []
        for request in requests:
            if now - request.requested_at > self._expire:
                self._settle(request, "expired", _EXPIRED)
            else:
                alive.append(request)
        turns = self._shares.in_turn(alive)
        while slots > 0 and clock() <= until_s and (first := next(turns, None)):
            self._decide(first)
            slots -= first.state is RequestState.RESERVED

    def move(self, requests: Iterable[HeldRequest], now: datetime) -> None:
        """Let requests wait for their tenants' turns in `judge.retry`, so that what is behind them can be read.

        They wait there for nothing else, are no older or younger by it, and none of their attempts is used up.
        """
        for held in requests:
            request, partition, evaluation = held.request, held.record.partition, held.request.evaluation
            if request.requested_at is None:
                account = self._ledgers.account(self._days.today(), evaluation.application, evaluation.tenant)
                self._ledgers.asked(partition, account, by_floor=by_floor_alone(evaluation))
            again = waiting("judge.retry", request, partition, held.requested_at, now, ABOVE_SHARE)
            held.move(result(held.record, again, "moved"))

    def _decide(self, held: HeldRequest) -> None:
        """Decide about a request. It goes on waiting while calls under way hold the money that it needs."""
        config, request, partition = self._config, held.request, held.record.partition
        if held.case is None:
            whole, held.cut = case_of(request, config.judge.max_input_chars)
            redacted = config.redact(whole)
            if isinstance(redacted, Null):
                return self._settle(held, "failed", redacted.reason)
            held.case = redacted
        evaluation = request.evaluation
        suites = [config.suites[each.suite] for each in chosen(evaluation) if each.suite in config.suites]
        amount = allowance(config.price, config.embedding_price, held.case, suites, config.judge.max_output_tokens)
        ledgers, days = self._ledgers, [day for day in self._days.days() if self._ledgers.is_open(day)]
        accounts = [ledgers.account(day, evaluation.application, evaluation.tenant) for day in days]
        if not ledgers.allows(accounts[0], amount):
            return self._settle(held, "failed", _ABOVE_BUDGET)
        if deposits := ledgers.reserve(partition, accounts[0], amount):
            # Where tomorrow has no room the job begins all the same, and gives up at midnight if it has not ended.
            later = (ledgers.reserve(partition, account, amount) for account in accounts[1:])
            every = (deposits, *(each for each in later if each))
            own = tuple(each[0].account[0] for each in every)
            held.reserve(Reservation(Job(held.id, held.case, suites, amount, own, self._days.today), every))
        elif not ledgers.may_fit(accounts[0], amount):
            again = waiting("judge.deferred", request, partition, held.requested_at, next_day(days[0]), _OVER_BUDGET)
            held.settle(result(held.record, again, "deferred"))
        if held.state is not RequestState.WAITING and request.requested_at is None:
            ledgers.asked(partition, accounts[0], by_floor=by_floor_alone(evaluation))
        return None

    def _settle(self, held: HeldRequest, status: Literal["failed", "expired"], why: str) -> None:
        """Settle a request with an evaluation whose judged metrics are null."""
        emission = unjudged(held.request, status, why, self._config.suites, self._config.off)
        held.settle(result(held.record, emission, status))
