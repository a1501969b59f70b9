"""Rate limits on requests and tokens per minute, exact over any sliding minute.

The endpoint may count a call at any moment between its sending and its answer. So a call counts from its sending until
a whole window after its answer: no window of the endpoint holds more than the limit. The price is that calls of L
seconds reach 60 / (60 + L) of the limit. An earlier process may have sent calls, so the limit begins as used up.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

_TICK_S = 0.001
"""Both ends of a window belong to it: a call has to be a little older to be outside."""


class SlidingLog:
    """The use of one resource, such as tokens: at most `most` in any window. It begins as used up at `now`.

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
        self._in_flight = 0
        self._returned: deque[tuple[float, int]] = deque([(now, most)])
        self._sum = most

    def wait_s(self, now: float, amount: int) -> float:
        """Return the seconds until an amount may be taken, 0 if now; infinite if a call has to return first."""
        while self._returned and self._returned[0][0] + self._window_s < now:
            self._sum -= self._returned.popleft()[1]
        excess = self._in_flight + self._sum + amount - self.most
        if excess <= 0:
            return 0.0
        for time, each in self._returned:
            excess -= each
            if excess <= 0:
                return time + self._window_s - now + _TICK_S
        return math.inf

    def take(self, amount: int) -> None:
        """Take an amount for a call."""
        self._in_flight += amount

    def settle(self, now: float, *, reserved: int, used: int) -> None:
        """Replace the amount that a call has taken by the amount that it used."""
        self._in_flight -= reserved
        if used:
            self._returned.append((now, used))
            self._sum += used


class RateLimits:
    """One slot's share of the limits on requests and tokens per window over all slots; None is unlimited.

    If there are more slots than requests per window, a slot sends one request in `slots / requests` windows. Then each
    slot keeps the limit exactly, and all together keep it on average; all may send in one window.
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
        """The seconds at the beginning in which no call may go."""
        if requests is not None:
            share = requests / slots
            pace_s = window_s if share >= 1 else window_s / share
            self._requests = SlidingLog(max(1, math.floor(share)), pace_s, now)
            self.closed_s = pace_s
        if tokens is not None:
            self._tokens = SlidingLog(tokens // slots, window_s, now)
            self.closed_s = max(self.closed_s, window_s)

    def never(self, tokens: int) -> bool:
        """Return whether one call of so many tokens exceeds the limit."""
        return self._tokens is not None and tokens > self._tokens.most

    def wait_s(self, tokens: int) -> float:
        """Return the seconds until a call of so many tokens may go; infinite if another has to return first."""
        now = self._clock()
        waits = (log.wait_s(now, amount) for log, amount in ((self._requests, 1), (self._tokens, tokens)) if log)
        return max(waits, default=0.0)

    def take(self, tokens: int) -> None:
        """Take a request and its tokens, when `wait_s` is 0."""
        if self._requests:
            self._requests.take(1)
        if self._tokens:
            self._tokens.take(tokens)

    def settle(self, reserved: int, used: int) -> None:
        """Settle a call that has returned, with the tokens that it used."""
        now = self._clock()
        if self._requests:
            self._requests.settle(now, reserved=1, used=1)
        if self._tokens:
            self._tokens.settle(now, reserved=reserved, used=used)
