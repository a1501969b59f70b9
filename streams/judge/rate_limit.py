"""Requests and tokens per minute, exact over any sliding minute: logs of what was let through, and no bucket.

The endpoint may count a call at any moment between its sending and its answer. So a call stands in the log from the
moment it is let through until a whole window after it has come back: whichever moments the endpoint counts by, no
window of them holds more than the limit. The price is that calls of L seconds reach 60 / (60 + L) of the limit.

Nobody knows what a process before this one has sent. So the log begins as if the limit had just been used up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

_TICK_S = 0.001
"""A window's both ends belong to it: what leaves it has to be a little older."""


class SlidingLog:
    """What was let through of one thing, such as tokens; at most so much in any window, its ends included.

    Args:
        most: in one window.
        window_s: the window's length.
        now: the time at which the log begins, as if all had just been used.

    >>> log = SlidingLog(2, 60.0, now=0.0)
    >>> log.wait_s(0.0, 1)
    60.001
    >>> log.take(2)
    >>> log.wait_s(100.0, 1)
    inf
    >>> log.settle(100.0, reserved=2, used=1)
    >>> log.wait_s(100.0, 1), log.wait_s(100.0, 2)
    (0.0, 60.001)
    """

    def __init__(self, most: int, window_s: float, now: float) -> None:
        self.most, self._window_s = most, window_s
        self._under_way = 0
        self._back: deque[tuple[float, int]] = deque([(now, most)])
        self._sum = most

    def wait_s(self, now: float, amount: int) -> float:
        """How long until so much may be taken: 0 if at once, infinite if something under way has to come back first."""
        while self._back and self._back[0][0] + self._window_s < now:
            self._sum -= self._back.popleft()[1]
        excess = self._under_way + self._sum + amount - self.most
        if excess <= 0:
            return 0.0
        for time, each in self._back:
            excess -= each
            if excess <= 0:
                return time + self._window_s - now + _TICK_S
        return math.inf

    def take(self, amount: int) -> None:
        """Let so much through."""
        self._under_way += amount

    def settle(self, now: float, *, reserved: int, used: int) -> None:
        """What was taken came back, and was so much in truth."""
        self._under_way -= reserved
        if used:
            self._back.append((now, used))
            self._sum += used


class RateLimits:
    """One slot's share of the limits on requests and tokens.

    Below one request per window for each slot, a slot sends one in as many windows as there are slots to a request.
    Then each slot keeps its own pace exactly, and together they do on average; all of them may send in one window.

    Args:
        requests: per window, over all slots; None for any number.
        tokens: likewise.
        slots: among how many the limits are shared.
        clock: seconds that never go back.
        window_s: the window's length.
    """

    def __init__(
        self,
        requests: int | None,
        tokens: int | None,
        slots: int,
        clock: Callable[[], float],
        window_s: float = 60.0,
    ) -> None:
        self._clock, now = clock, clock()
        self._requests = self._tokens = None
        self.closed_s = 0.0
        """How long nothing goes at the beginning."""
        if requests is not None:
            share = requests / slots
            pace_s = window_s if share >= 1 else window_s / share
            self._requests = SlidingLog(max(1, math.floor(share)), pace_s, now)
            self.closed_s = pace_s
        if tokens is not None:
            self._tokens = SlidingLog(tokens // slots, window_s, now)
            self.closed_s = max(self.closed_s, window_s)

    def never(self, tokens: int) -> bool:
        """Whether one call of so many tokens is more than the limit."""
        return self._tokens is not None and tokens > self._tokens.most

    def wait_s(self, tokens: int) -> float:
        """How long until a call of so many tokens may go; infinite if another has to come back first."""
        now = self._clock()
        of_requests = self._requests.wait_s(now, 1) if self._requests else 0.0
        of_tokens = self._tokens.wait_s(now, tokens) if self._tokens else 0.0
        return max(of_requests, of_tokens)

    def take(self, tokens: int) -> None:
        """Let a call through that `wait_s` had nothing to wait for."""
        if self._requests:
            self._requests.take(1)
        if self._tokens:
            self._tokens.take(tokens)

    def settle(self, reserved: int, used: int) -> None:
        """A call that was let through came back, having used so many tokens."""
        now = self._clock()
        if self._requests:
            self._requests.settle(now, reserved=1, used=1)
        if self._tokens:
            self._tokens.settle(now, reserved=reserved, used=used)
