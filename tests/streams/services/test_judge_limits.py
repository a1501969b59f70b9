"""No window ever holds more than the limits, and a failing endpoint is left alone."""

import asyncio
import heapq
import random
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.streams.services.judge.circuit_breaker import LONGEST_S, CircuitBreaker
from ragweir.streams.services.judge.fifo_gate import FifoGate
from ragweir.streams.services.judge.rate_limit import LimitUse, RateLimits, SlidingLog

WINDOW_S = 60.0


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


CallTimes = tuple[float, float, int, float]
CALLS = st.lists(
    st.tuples(
        st.floats(0, 20),  # seconds since the call before it was asked for
        st.floats(0, 90),  # seconds until it comes back
        st.integers(1, 100),  # tokens reserved
        st.floats(0, 1),  # the share of them that was used
    ),
    min_size=1,
    max_size=60,
)


def run(limits: RateLimits, clock: Clock, calls: list[CallTimes]) -> list[tuple[float, float, int]]:
    """Let calls through, first come, first served, as the pool does: when each went, came back, and what it used."""
    went: list[tuple[float, float, int]] = []
    under_way: list[tuple[float, int, int]] = []
    asked_at = clock.now
    for pause, takes, reserved, share in calls:
        asked_at += pause
        at = max(asked_at, clock.now)
        while True:
            while under_way and under_way[0][0] <= at:
                clock.now, *amounts = heapq.heappop(under_way)
                limits.settle(*amounts)
            clock.now = at
            wait = limits.wait_s(reserved)
            if wait == 0:
                break
            at = min(at + wait, under_way[0][0] if under_way else float("inf"))
        limits.take(reserved)
        used = max(1, round(reserved * share))
        heapq.heappush(under_way, (at + takes, reserved, used))
        went.append((at, at + takes, used))
    return went


def fullest(moments: list[tuple[float, int]]) -> int:
    """The most that any window holds, its ends included."""
    return max(sum(n for moment, n in moments if end - WINDOW_S <= moment <= end) for end, _ in moments)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.slow
@given(CALLS, st.integers(1, 8), st.integers(100, 400), st.randoms(use_true_random=False))
def test_no_window_is_above_the_limits_whenever_the_endpoint_counts_a_call(
    calls: list[CallTimes], requests: int, tokens: int, chance: random.Random
) -> None:
    """At its start, at its end, and at random moments between."""
    clock = Clock()
    went = run(RateLimits(requests, tokens, 1, clock, WINDOW_S), clock, calls)
    for counted in (lambda start, _: start, lambda _, back: back, chance.uniform):
        assert fullest([(counted(start, back), 1) for start, back, _ in went]) <= requests
        assert fullest([(counted(start, back), used) for start, back, used in went]) <= tokens


@given(CALLS, st.integers(1, 8))
def test_nothing_goes_in_the_first_window(calls: list[CallTimes], requests: int) -> None:
    """A process before may have used the limit up until the moment of the start."""
    clock = Clock()
    start = clock.now
    assert run(RateLimits(requests, None, 1, clock, WINDOW_S), clock, calls)[0][0] > start + WINDOW_S


@pytest.mark.parametrize(("requests", "tokens", "per_window"), [(10, None, 10), (None, 500, 5), (10, 500, 5)])
def test_instant_calls_reach_the_limit(requests: int | None, tokens: int | None, per_window: int, clock: Clock) -> None:
    start = clock.now
    went = run(RateLimits(requests, tokens, 1, clock, WINDOW_S), clock, [(0, 0, 100, 1)] * per_window * 10)
    assert round(went[-1][0] - start) == 10 * WINDOW_S


def test_what_a_call_did_not_use_is_free_at_once() -> None:
    """The estimate counts bytes, some four times the tokens: throughput would be a quarter otherwise."""
    log = SlidingLog(100, WINDOW_S, now=0.0)
    log.take(100)
    assert log.wait_s(100.0, 50) == float("inf")
    log.settle(100.0, reserved=100, used=25)
    assert log.wait_s(100.0, 75) == 0


def test_a_call_larger_than_the_limit_never_goes() -> None:
    limits = RateLimits(None, 1_000, 4, Clock())
    assert limits.never(251)
    assert not limits.never(250)


def test_slots_keep_the_limit_together(clock: Clock) -> None:
    slots = [RateLimits(10, None, 4, clock, WINDOW_S) for _ in range(4)]
    went = [moment for slot in slots for moment in run(slot, clock, [(0, 0, 1, 1)] * 6)]
    assert fullest([(start, 1) for start, _, _ in went]) <= 10


def test_a_slot_with_less_than_one_request_a_window_sends_one_in_several(clock: Clock) -> None:
    starts = [start for start, _, _ in run(RateLimits(1, None, 4, clock, WINDOW_S), clock, [(0, 0, 1, 1)] * 3)]
    assert [round(later - sooner) for sooner, later in zip([1_000.0, *starts], starts, strict=False)] == [240] * 3


def test_without_limits_everything_goes_at_once() -> None:
    limits = RateLimits(None, None, 1, Clock())
    assert (limits.wait_s(10**9), limits.never(10**9), limits.closed_s) == (0.0, False, 0.0)


def test_the_line_is_first_come_first_served() -> None:
    """A small call behind a large one waits with it, or the large one would never go."""

    async def main() -> list[str]:
        room, went = 0, list[str]()
        line = FifoGate()

        async def call(name: str, needs: int) -> None:
            await line.enter(lambda: 0.0 if room >= needs else float("inf"), lambda: went.append(name))

        tasks = [asyncio.create_task(call(name, needs)) for name, needs in (("large", 3), ("small", 1), ("tiny", 0))]
        for each in (1, 2, 3):
            room = each
            await asyncio.sleep(0)
            line.notify()
        await asyncio.gather(*tasks)
        return went

    assert asyncio.run(main()) == ["large", "small", "tiny"]


def test_a_call_that_is_broken_off_in_line_holds_nobody_up() -> None:
    async def main() -> str:
        line = FifoGate()
        first = asyncio.create_task(line.enter(lambda: float("inf"), lambda: "first"))
        second = asyncio.create_task(line.enter(lambda: 0.0, lambda: "second"))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert asyncio.run(main()) == "second"


def breaker(clock: Clock, failures: int = 3, jitter: float = 0.0) -> CircuitBreaker:
    return CircuitBreaker(failures, 5, clock, jitter=lambda: jitter)


@pytest.fixture
def tried(clock: Clock) -> CircuitBreaker:
    return breaker(clock)


def fail(breaker: CircuitBreaker, times: int = 1, wait_s: float | None = None) -> None:
    for permit in [breaker.permit() for _ in range(times)]:
        breaker.record_failure(permit, "it fails", wait_s)


def test_it_opens_after_failures_in_a_row_and_not_before() -> None:
    tried = breaker(Clock())
    fail(tried, 2)
    tried.record_success(tried.permit())
    fail(tried, 2)
    assert (tried.level, tried.why) == (0.0, "")
    fail(tried)
    assert (tried.level, tried.why) == (1.0, "it fails")


def test_when_its_time_has_come_exactly_one_call_goes_and_its_success_closes(
    clock: Clock, tried: CircuitBreaker
) -> None:
    fail(tried, 3)
    assert tried.wait_s() == 5
    clock.now += 5
    assert tried.wait_s() == 0
    probe = tried.permit()
    assert (tried.wait_s(), tried.level) == (float("inf"), 0.5)
    tried.record_success(probe)
    assert (tried.wait_s(), tried.level) == (0, 0.0)


def test_each_failed_probe_doubles_the_wait_up_to_two_minutes(clock: Clock, tried: CircuitBreaker) -> None:
    fail(tried, 3)
    waits = []
    for _ in range(7):
        waits.append(tried.wait_s())
        clock.now += tried.wait_s()
        fail(tried)
    assert waits == [5, 10, 20, 40, 80, LONGEST_S, LONGEST_S]


def test_the_wait_shrinks_again_only_after_as_many_successes_as_failures_open_it(
    clock: Clock, tried: CircuitBreaker
) -> None:
    """Or an endpoint that fails every other call would be asked at the pace of the first wait for ever."""
    fail(tried, 3)
    clock.now += 5
    tried.record_success(tried.permit())
    fail(tried, 3)
    assert tried.wait_s() == 10
    clock.now += 10
    for _ in range(3):
        tried.record_success(tried.permit())
    fail(tried, 3)
    assert tried.wait_s() == 5


@pytest.mark.parametrize("asked_s", [0.5, 30, 400, 7_200])
def test_what_the_endpoint_asks_for_is_kept_whatever_its_length(asked_s: float, tried: CircuitBreaker) -> None:
    fail(tried, 1, asked_s)
    assert tried.wait_s() == asked_s


def test_jitter_only_lengthens_a_wait_and_little() -> None:
    waits = []
    for jitter in (0.0, 0.5, 1.0):
        tried = breaker(Clock(), jitter=jitter)
        fail(tried, 1, 600)
        waits.append(tried.wait_s())
    assert waits == [600, 602.5, 605]


def test_calls_from_before_it_opened_neither_close_it_nor_open_it_again(clock: Clock, tried: CircuitBreaker) -> None:
    """With hundreds in flight most of them fail after the first few have opened it."""
    early = [tried.permit() for _ in range(9)]
    fail(tried, 3)
    tried.record_success(early[0])
    assert tried.is_open
    tried.record_failure(early[1], "late")
    assert tried.wait_s() == 5
    clock.now += 5
    tried.record_success(tried.permit())
    for permit in early[2:]:
        tried.record_failure(permit, "late")
    assert not tried.is_open


def test_a_wait_that_is_asked_for_while_it_is_open_lengthens_it(tried: CircuitBreaker) -> None:
    early = tried.permit()
    fail(tried, 3)
    tried.record_failure(early, "late", 300)
    assert tried.wait_s() == 300


def test_a_probe_that_is_broken_off_leaves_its_place_to_another(clock: Clock, tried: CircuitBreaker) -> None:
    fail(tried, 3)
    clock.now += 5
    tried.cancel(tried.permit())
    assert tried.wait_s() == 0


def test_opening_and_closing_are_told() -> None:
    clock, told = Clock(), list[tuple[str, float]]()
    tried = CircuitBreaker(1, 5, clock, jitter=lambda: 0, on_change=lambda why, wait_s: told.append((why, wait_s)))
    fail(tried)
    clock.now += 5
    tried.record_success(tried.permit())
    assert told == [("it fails", 5), ("", 0)]


# Restarts.

STEPS = "call", "call", "call", "tick", "tick", "abort", "return", "wait", "kill"


class Slot:
    """The processes of one slot, one after the other, and the entry that they commit, which the next begins with."""

    def __init__(self, requests: int | None, tokens: int | None, clock: Clock) -> None:
        self._given, self.clock = (requests, tokens, 1), clock
        self.stored: tuple[Mapping[str, LimitUse], float] | None = None
        self.limits = RateLimits(*self._given, clock, WINDOW_S, granted=True)

    def restart(self) -> None:
        """SIGKILL, and a new process that reads the entry."""
        self.limits = RateLimits(*self._given, self.clock, WINDOW_S, granted=True)
        if self.stored is not None:
            uses, at = self.stored
            self.limits.begin(uses, self.clock.now - at)

    def tick(self, *, abort: bool = False) -> None:
        """A transaction of the agent."""
        if (uses := self.limits.use()) and not abort:
            self.stored = uses, self.clock.now
            self.limits.grant()


@given(
    st.integers(1, 30),
    st.integers(100, 2_000),
    st.lists(st.sampled_from(STEPS), max_size=300),
    st.randoms(use_true_random=False),
)
def test_no_window_is_above_the_limits_however_often_a_process_is_killed(
    requests: int, tokens: int, steps: list[str], chance: random.Random
) -> None:
    """Calls that a kill breaks off count at any moment from their sending to the kill."""
    clock = Clock()
    slot = Slot(requests, tokens, clock)
    clock.now += 2 * WINDOW_S
    went: list[tuple[float, float, int]] = []
    under_way: list[tuple[float, int]] = []
    for step in steps:
        if step == "call" and slot.limits.wait_s(amount := chance.randint(1, 100)) == 0:
            slot.limits.take(amount)
            under_way.append((clock.now, amount))
        elif step in ("tick", "abort"):
            slot.tick(abort=step == "abort")
        elif step == "return" and under_way:
            start, reserved = under_way.pop(0)
            slot.limits.settle(reserved, used := chance.randint(1, reserved))
            went.append((start, clock.now, used))
        elif step == "wait":
            clock.now += chance.choice([0.1, 1.0, 10.0, 30.0])
        elif step == "kill":
            went += [(start, clock.now, reserved) for start, reserved in under_way]
            under_way.clear()
            slot.restart()
    for counted in (lambda start, _: start, lambda _, back: back, chance.uniform):
        if went:
            assert fullest([(counted(start, back), 1) for start, back, _ in went]) <= requests
            assert fullest([(counted(start, back), used) for start, back, used in went]) <= tokens


@pytest.mark.parametrize("spent", [1, 30, 60])
def test_a_restart_costs_no_more_than_five_seconds_of_the_limit(spent: int, clock: Clock) -> None:
    """However much of it was used: without the entry nothing went for a minute. The calls before it still count."""
    slot = Slot(60, None, clock)
    clock.now += 2 * WINDOW_S
    for _ in range(spent):
        clock.now += 1.0
        while slot.limits.wait_s(1):
            slot.tick()
        slot.limits.take(1)
        slot.limits.settle(1, 1)
    slot.restart()
    start = clock.now
    while slot.limits.wait_s(1):
        slot.tick()
        clock.now += 0.1
    assert clock.now - start <= 5.5
