"""Calls the judge with retries, rate limits, circuit breaker and budget.

This is the one place where calls are repeated. What a call may cost at most is looked at before it goes. A failure that
is the question's own uses up one of its attempts; while the endpoint fails for all, the breaker is open and they wait.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from threading import Lock

import stamina
import structlog

from ragweir.metrics.judged.driver import Completion
from ragweir.metrics.judged.suite import Vectors
from ragweir.metrics.metric import Null
from ragweir.streams.judge.circuit_breaker import CircuitBreaker, Permit
from ragweir.streams.judge.fifo_gate import FifoGate
from ragweir.streams.judge.job import JobBudget
from ragweir.streams.judge.pricing import FREE, cost
from ragweir.streams.judge.protocol import (
    CallRejected,
    EndpointFailed,
    EndpointRequest,
    EndpointResponse,
    EndpointUnusable,
    JudgeError,
    OptionUnsupported,
    RateLimited,
    ResponseFormat,
)
from ragweir.streams.judge.rate_limit import RateLimits
from ragweir.streams.records import Count, Measurements
from ragweir.streams.settings import JudgeSettings

Value = Completion | Vectors | Null
_LONGEST_BACKOFF_S = 10.0
_KEPT_LATENCIES = 10_000
_CALL_SECONDS: Count = ("ragweir_judge_call_seconds",)
_log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


class JudgingFailed(Exception):
    """The calls of a question failed as often as allowed; later they may succeed. The message is fixed words."""


class CallStats:
    """Counts and latencies of calls: one thread adds to them, another takes them."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._counts: Counter[Count] = Counter()
        self._latencies: deque[float] = deque(maxlen=_KEPT_LATENCIES)

    def add(self, name: str, *labels: str, number: int = 1) -> None:
        """Add to a counter of the telemetry table."""
        if number:
            with self._lock:
                self._counts[name, *labels] += number

    def took(self, seconds: float) -> None:
        """Add the duration of a call."""
        self._latencies.append(seconds)

    def drain(self, levels: Mapping[Count, float]) -> Measurements:
        """Return the counts and durations since the last call, with these gauges; of very many durations the newest."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        seconds = [self._latencies.popleft() for _ in range(len(self._latencies))]
        return Measurements(counts, levels, [(_CALL_SECONDS, each) for each in seconds])


@dataclass(slots=True, eq=False)
class _PendingCall:
    """One question that waits for its answer."""

    asked: EndpointRequest
    budget: JobBudget
    most_cost: int
    """The most that one call can cost, in millionths of a dollar."""
    failed_probes: int = 0
    why: str = ""
    """Why its last call failed."""
    recoveries: int = 0
    """The number of times that the endpoint had recovered by then."""


class Caller:
    """Makes calls, all on one event loop.

    Args:
        settings: of the judge.
        send: makes one call.
        limits: the requests and tokens that may be sent.
        stats: where calls are counted.
        clock: seconds that never go back.
        is_full: says whether no other job could begin now.
        backoff_s: the time before a failed call is repeated at first; it doubles each time after.
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
            settings.breaker_failures, settings.breaker_wait_s, clock, told=self._breaker_changed
        )
        self._limits, self._limit_gate, self._breaker_gate = limits, FifoGate(), FifoGate()
        self._dialect = ResponseFormat.first(settings)
        self._untried: set[_PendingCall] = set()
        self._recoveries = 0
        self._repeated = stamina.AsyncRetryingCaller(
            attempts=settings.attempts,
            timeout=None,
            wait_initial=backoff_s,
            wait_max=max(backoff_s, _LONGEST_BACKOFF_S),
            wait_jitter=backoff_s,
        ).on((EndpointFailed, EndpointUnusable))

    @property
    def unavailable_reason(self) -> str:
        """Why no job should begin now; empty also when the time has come to probe and only a new job could do it.

        That is so when no question waits, or only such as have probed in vain: it may be they that make the endpoint
        fail, and another is wanted as a witness.
        """
        return "" if self.breaker.is_due and not self._untried else self.breaker.why

    async def answer(self, asked: EndpointRequest, budget: JobBudget) -> Value:
        """Return the answer to a question, or why there will be none.

        Raises:
            GaveUp: if its calls failed as often as allowed.
            DayOver: if nothing is reserved on the day of its next call.
        """
        price = self._settings.prices.get(asked.model, FREE)
        question = _PendingCall(asked, budget, cost(price, asked.most_input, asked.most_output))
        self._untried.add(question)
        try:
            return await self._repeated(self._attempt, question)
        except CallRejected as error:
            return Null(error.why)
        except (EndpointFailed, EndpointUnusable) as error:
            raise JudgingFailed(error.why) from None
        finally:
            self._untried.discard(question)

    async def _attempt(self, question: _PendingCall) -> Value:
        """Call until there is an answer, or a failure that uses up an attempt.

        Raises:
            EndpointFailed, EndpointUnusable: if the call failed, and not because all do.
            CallRejected: if the question cannot be answered.
            GaveUp: if it is not tried again for now.
            DayOver: if nothing is reserved on the day of its next call.
        """
        dialect = self._dialect
        while True:
            try:
                answered = await self._pass(question, dialect)
            except OptionUnsupported as error:
                simpler = dialect.simpler(error.option, self._settings)
                if simpler is None:
                    raise CallRejected("rejected", error.why) from None
                dialect = simpler
            except RateLimited:
                pass  # The breaker is open now; that is waited for.
            except (EndpointFailed, EndpointUnusable) as error:
                if self._is_attempt(question, error):
                    raise
                if question.failed_probes >= self._settings.attempts and self._is_full() and not self._untried:
                    raise JudgingFailed(error.why) from None
            else:
                if dialect != self._dialect:
                    self._dialect = dialect
                    _log.info("the judge takes answers so", answers=dialect.answers, length=dialect.length)
                return answered.value

    async def _pass(self, question: _PendingCall, dialect: ResponseFormat) -> EndpointResponse:
        """Pass the limits and the breaker, and make one call.

        Raises:
            JudgeError: if it came to nothing.
            GaveUp: if there is no money left for it, and would be but for calls that broke off.
            DayOver: if nothing is reserved on the day on which it would go out.
        """
        self._must_afford(question)
        reserved = question.asked.most_input + question.asked.most_output
        if self._limits.never(reserved):
            raise CallRejected("rejected", "the question is larger than judge.tokens_per_minute admits")
        await self._limit_gate.turn(lambda: self._limits.wait_s(reserved), lambda: self._limits.take(reserved))
        used = reserved
        try:
            permit = await self._breaker_gate.turn(self.breaker.wait_s, self.breaker.permit)
            try:
                answered = await self._sent(question, dialect)
                self.breaker.succeeded(permit)
            except JudgeError as error:
                self._blame(question, permit, error)
                raise
            except BaseException:
                self.breaker.withdrawn(permit)
                raise
            finally:
                self._breaker_gate.changed()
            bill = answered.bill(question.asked, FREE)
            if bill.input_tokens is not None and bill.output_tokens is not None:
                used = bill.input_tokens + bill.output_tokens
            return answered
        finally:
            self._limits.settle(reserved, used)
            self._limit_gate.changed()

    def _is_attempt(self, question: _PendingCall, error: JudgeError) -> bool:
        """Whether a failure uses up an attempt: not where all fail, unless others got through since it failed last."""
        others_went = bool(question.why) and self._recoveries > question.recoveries
        question.why, question.recoveries = error.why, self._recoveries
        return others_went or not self.breaker.is_open

    def _blame(self, question: _PendingCall, permit: Permit, error: JudgeError) -> None:
        """Tell the breaker what an error says about the endpoint."""
        if isinstance(error, CallRejected | OptionUnsupported):
            self.breaker.succeeded(permit)
            return
        if isinstance(error, EndpointFailed) and self.breaker.probes(permit):
            # A question that does not even reach the endpoint cannot be what makes it fail.
            question.failed_probes += error.outcome != "unreachable"
            self._untried.discard(question)
        at_once = not isinstance(error, EndpointFailed)
        self.breaker.failed(permit, error.why, error.pause_s, at_once=at_once)

    def _must_afford(self, question: _PendingCall) -> None:
        budget = question.budget
        budget.day()
        missing = budget.usage.cost + question.most_cost - budget.job.allowance
        if missing > budget.broken:
            raise CallRejected("rejected", "its reservation is used up")
        if missing > 0:
            raise JudgingFailed(question.why or "its reservation is used up by calls that broke off")

    async def _sent(self, question: _PendingCall, dialect: ResponseFormat) -> EndpointResponse:
        """Make one call, count it and pay for it, on the day on which it goes out.

        Raises:
            JudgeError: if it came to nothing.
            DayOver: if nothing is reserved on this day.
        """
        asked, usage, stats = question.asked, question.budget.usage, self._stats
        day = question.budget.day()
        usage.calls += 1
        began, outcome = self._clock(), "broken_off"
        try:
            answered = await self._send(asked, dialect)
            outcome = "ok"
        except JudgeError as error:
            outcome = error.outcome
            self._pay(question, day, question.most_cost if error.billed else 0, broken=True)
            raise
        finally:
            stats.add("ragweir_judge_calls_total", outcome)
            stats.took(self._clock() - began)
        bill = answered.bill(asked, self._settings.prices.get(asked.model, FREE))
        sent, got = bill.input_tokens, bill.output_tokens
        self._pay(question, day, bill.amount, broken=False)
        usage.flags |= {bill.flag} - {""}
        if asked.model == self._settings.model:  # What gives vectors is another.
            usage.model = answered.model
        usage.input_tokens += sent or 0
        usage.output_tokens += got or 0
        stats.add("ragweir_judge_tokens_total", "input", number=sent or 0)
        stats.add("ragweir_judge_tokens_total", "output", number=got or 0)
        return answered

    def _pay(self, question: _PendingCall, day: str, amount: int, *, broken: bool) -> None:
        question.budget.usage.costs[day] += amount
        question.budget.broken += amount if broken else 0
        self._stats.add("ragweir_judge_cost_microdollars_total", number=amount)

    def _breaker_changed(self, why: str, wait_s: float) -> None:
        if why:
            self._stats.add("ragweir_judge_breaker_opened_total")
            _log.warning("the judge is left alone for a while", why=why, wait_s=round(wait_s, 1))
        else:
            self._recoveries += 1
            _log.info("the judge answers again")
