"""Calls the judge with retries, rate limits, circuit breaker and budget.

No other module repeats calls. Before a call is sent, the most that it can cost is checked against the budget. A failure
of the call itself uses up one of its attempts; while the endpoint fails for all, the breaker is open and calls wait.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import stamina
import structlog

from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.call_stats import CallStats
from ragweir.streams.services.judge.circuit_breaker import CircuitBreaker, Permit
from ragweir.streams.services.judge.fifo_gate import FifoGate
from ragweir.streams.services.judge.job import JobBudget
from ragweir.streams.services.judge.pricing import FREE, most_cost, price_of
from ragweir.streams.services.judge.protocol import (
    CallRejected,
    EndpointFailed,
    EndpointRequest,
    EndpointResponse,
    EndpointUnusable,
    JudgeError,
    JudgeValue,
    KeyReplaced,
    OptionUnsupported,
    RateLimited,
    ResponseFormat,
)
from ragweir.streams.services.judge.rate_limit import RateLimits
from ragweir.streams.settings import JudgeSettings

_LONGEST_BACKOFF_S = 10.0
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class JudgingFailed(Exception):
    """A call failed as often as allowed; later it may succeed. The message is fixed words."""


@dataclass(slots=True)
class SchemaRecord:
    """Counts of answers by whether an endpoint that binds answers to their schemas could have given them."""

    bound: int = 0
    unbound: int = 0

    def count(self, *, is_bound: bool) -> None:
        """Count the first answer to a question."""
        self.bound += is_bound
        self.unbound += not is_bound

    @property
    def are_ignored(self) -> bool:
        """True if most answers show that the endpoint ignores schemas without an error."""
        return self.unbound > self.bound


@dataclass(slots=True, eq=False)
class _PendingCall:
    """A call that has no answer yet."""

    request: EndpointRequest
    budget: JobBudget
    most_cost: int
    """The most that one attempt can cost, in millionths of a dollar."""
    is_simpler: bool = False
    """True if the answer is not to be bound by a JSON schema, as the endpoint may ignore it."""
    failed_probes: int = 0
    why: str = ""
    """The reason of the last failure."""
    recoveries: int = 0
    """The number of recoveries of the endpoint before the last failure."""


class Caller:
    """Makes calls, all on one event loop.

    `is_full` returns whether no other job can start now. The backoff after a failed call doubles each time, beginning
    with `backoff_s`.
    """

    def __init__(
        self,
        settings: JudgeSettings,
        send: Callable[[EndpointRequest, ResponseFormat], Awaitable[EndpointResponse]],
        limits: RateLimits,
        stats: CallStats,
        clock: Callable[[], float],
        is_full: Callable[[], bool],
        backoff_s: float,
    ) -> None:
        self._settings, self._send, self._stats, self._clock, self._is_full = settings, send, stats, clock, is_full
        self.breaker = CircuitBreaker(
            settings.breaker_failures, settings.breaker_wait_s, clock, on_change=self._breaker_changed
        )
        self._limits, self._limit_gate, self._breaker_gate = limits, FifoGate(), FifoGate()
        self._response_format = ResponseFormat.first(settings)
        self.schemas = SchemaRecord()
        self._unprobed: set[_PendingCall] = set()
        """The calls that have not probed an endpoint which failed."""
        self._recoveries = 0
        self._retrying = stamina.AsyncRetryingCaller(
            attempts=settings.attempts,
            timeout=None,
            wait_initial=backoff_s,
            wait_max=max(backoff_s, _LONGEST_BACKOFF_S),
            wait_jitter=backoff_s,
        ).on((EndpointFailed, EndpointUnusable))

    @property
    def unavailable_reason(self) -> str:
        """The reason why no job should start now; empty also when a probe is due and only a new job can make it.

        That is so if no call waits, or all that wait have probed and failed: they may be the cause, so a probe by
        another call is needed.
        """
        return "" if self.breaker.is_due and not self._unprobed else self.breaker.why

    async def answer(self, request: EndpointRequest, budget: JobBudget, *, is_simpler: bool = False) -> JudgeValue:
        """Return the answer to a request, or Null with the reason why the endpoint does not answer it.

        Args:
            request: the request.
            budget: the budget of its job.
            is_simpler: True to have the schema in the prompt, since the endpoint may ignore it elsewhere.

        Raises:
            JudgingFailed: if its calls failed as often as allowed.
            DayOver: if nothing is reserved on the day of its next call.
        """
        price = price_of(self._settings, request.model)
        call = _PendingCall(request, budget, most_cost(price, request.most_input, request.most_output), is_simpler)
        self._unprobed.add(call)
        try:
            return await self._retrying(self._attempt, call)
        except CallRejected as error:
            return Null(error.why)
        except (EndpointFailed, EndpointUnusable) as error:
            raise JudgingFailed(error.why) from None
        finally:
            self._unprobed.discard(call)

    async def _attempt(self, call: _PendingCall) -> JudgeValue:
        """Call until there is an answer, or a failure that uses up an attempt."""
        response_format = first = self._format_without_schema() if call.is_simpler else self._response_format
        while True:
            try:
                response = await self._pass(call, response_format)
            except OptionUnsupported as error:
                simpler = response_format.simpler(error.option, self._settings)
                if simpler is None:
                    raise CallRejected("rejected", error.why) from None
                response_format = simpler
            except (RateLimited, KeyReplaced):
                pass  # The next pass waits for the breaker, or carries the other key.
            except (EndpointFailed, EndpointUnusable) as error:
                if self._is_attempt(call, error):
                    raise
                if call.failed_probes >= self._settings.attempts and self._is_full() and not self._unprobed:
                    raise JudgingFailed(error.why) from None
            else:
                if response_format != first and not call.is_simpler:
                    self._adopt(response_format)
                return response.value

    def leave_schemas(self) -> None:
        """Have schemas in the prompt from now on, if most answers to JSON schemas did not fit them."""
        if self.schemas.are_ignored:
            self._adopt(self._format_without_schema())

    def _format_without_schema(self) -> ResponseFormat:
        present = self._response_format
        simpler = present.simpler("answers", self._settings) if present.answers == "json_schema" else None
        return simpler or present

    def _adopt(self, response_format: ResponseFormat) -> None:
        if response_format != self._response_format:
            self._response_format = response_format
            _log.info(
                "response format of the judge changed",
                answers=response_format.answers,
                length=response_format.length,
                ignored_schemas=self.schemas.are_ignored,
            )

    async def _pass(self, call: _PendingCall, response_format: ResponseFormat) -> EndpointResponse:
        """Wait for the rate limits and the breaker, and make one call."""
        self._check_budget(call)
        reserved = call.request.most_input + call.request.most_output
        if self._limits.never(reserved):
            raise CallRejected("rejected", "the question is larger than judge.tokens_per_minute admits")
        await self._limit_gate.enter(lambda: self._limits.wait_s(reserved), lambda: self._limits.take(reserved))
        used = reserved
        try:
            permit = await self._breaker_gate.enter(self.breaker.wait_s, self.breaker.permit)
            try:
                response = await self._sent(call, response_format)
                self.breaker.record_success(permit)
            except JudgeError as error:
                self._record_error(call, permit, error)
                raise
            except BaseException:
                self.breaker.cancel(permit)
                raise
            finally:
                self._breaker_gate.notify()
            bill = response.bill(call.request, FREE)
            if bill.input_tokens is not None and bill.output_tokens is not None:
                used = bill.input_tokens + bill.output_tokens
            return response
        finally:
            self._limits.settle(reserved, used)
            self._limit_gate.notify()

    def _is_attempt(self, call: _PendingCall, error: JudgeError) -> bool:
        """Return whether a failure uses up an attempt: if the breaker is closed, or others succeeded since."""
        others_succeeded = bool(call.why) and self._recoveries > call.recoveries
        call.why, call.recoveries = error.why, self._recoveries
        return others_succeeded or not self.breaker.is_open

    def _record_error(self, call: _PendingCall, permit: Permit, error: JudgeError) -> None:
        """Record in the breaker what an error means for the endpoint."""
        if isinstance(error, CallRejected | OptionUnsupported):
            self.breaker.record_success(permit)
            return
        if isinstance(error, KeyReplaced):
            self.breaker.cancel(permit)
            return
        if isinstance(error, EndpointFailed) and self.breaker.is_probe(permit):
            # A call that does not even reach the endpoint cannot be the cause of the failure.
            call.failed_probes += error.outcome != "unreachable"
            self._unprobed.discard(call)
        immediately = not isinstance(error, EndpointFailed)
        self.breaker.record_failure(permit, error.why, error.pause_s, immediately=immediately)

    def _check_budget(self, call: _PendingCall) -> None:
        budget = call.budget
        budget.day()
        missing = budget.usage.cost + call.most_cost - budget.job.allowance
        if missing > budget.broken:
            raise CallRejected("rejected", "its reservation is used up")
        if missing > 0:
            raise JudgingFailed(call.why or "its reservation is used up by calls that broke off")

    async def _sent(self, call: _PendingCall, response_format: ResponseFormat) -> EndpointResponse:
        """Make one call, and book it on the day on which it is sent."""
        request, usage, stats = call.request, call.budget.usage, self._stats
        day = call.budget.day()
        usage.calls += 1
        began, outcome = self._clock(), "broken_off"
        try:
            response = await self._send(request, response_format)
            outcome = "ok"
        except JudgeError as error:
            outcome = error.outcome
            self._book(call, day, call.most_cost if error.billed else 0, broken=True)
            raise
        finally:
            stats.add("ragweir_judge_calls_total", outcome)
            stats.add_duration(self._clock() - began)
        bill = response.bill(request, price_of(self._settings, request.model))
        self._book(call, day, bill.amount, broken=False)
        usage.flags |= {bill.flag} - {""}
        if request.model == self._settings.model:  # The embedding model is another.
            usage.model = response.model
        input_tokens, output_tokens = bill.input_tokens or 0, bill.output_tokens or 0
        usage.input_tokens += input_tokens
        usage.output_tokens += output_tokens
        stats.add("ragweir_judge_tokens_total", "input", number=input_tokens)
        stats.add("ragweir_judge_tokens_total", "output", number=output_tokens)
        stats.add("ragweir_judge_cached_tokens_total", number=bill.cached)
        stats.add("ragweir_judge_reasoning_tokens_total", number=bill.reasoning)
        return response

    def _book(self, call: _PendingCall, day: str, amount: int, *, broken: bool) -> None:
        call.budget.usage.costs[day] += amount
        call.budget.broken += amount if broken else 0
        self._stats.add("ragweir_judge_cost_microdollars_total", number=amount)

    def _breaker_changed(self, why: str, wait_s: float) -> None:
        if why:
            self._stats.add("ragweir_judge_breaker_opened_total")
            _log.warning("circuit breaker of the judge opened", why=why, wait_s=round(wait_s, 1))
        else:
            self._recoveries += 1
            _log.info("circuit breaker of the judge closed")
