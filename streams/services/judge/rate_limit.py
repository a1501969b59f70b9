"""Rate limits on requests and tokens per minute, exact over any sliding minute.

The endpoint may count a call at any moment between its sending and its answer. So a call counts from its sending until
a whole window after its answer: no window of the endpoint holds more than the limit. The price is that calls of L
seconds reach 60 / (60 + L) of the limit.

An earlier process may have sent calls, so the limit begins as used up. Where its use is committed (`rate_ledger`), the
limit begins with that. Then calls need a grant that is committed before they are sent, and what a process may have used
of its last grant counts as used when the next one starts.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

_TICK_S = 0.001
"""Both ends of a window belong to it: a call has to be a little older to be outside."""
_GRANT_POLL_S = 0.02
"""Time after which a call that waits for a grant looks for it again."""
_GRANTS = 12
"""Grants in which a whole limit is used: a restart costs one of them, which is 5 s of a minute."""


@dataclass(frozen=True, slots=True)
class LimitUse:
    """The use of one limit at a moment."""

    returned: Sequence[tuple[int, int]]
    """The amounts that calls of the last window have used, by the whole seconds since they returned."""
    open: int
    """The most that further calls, and those in flight, use before the next use is committed."""


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

    def __init__(self, most: int, window_s: float, now: float, *, granted: bool = False) -> None:
        self.most, self._window_s = most, window_s
        self._in_flight = 0
        self._returned: deque[tuple[float, int]] = deque([(now, most)])
        self._sum = most
        self._granted: int | None = 0 if granted else None
        """The amount that calls may take before the next use is committed; None without a limit of it."""
        self._needed = self._offered = 0
        """The amount for which the first call waits, and that of the grant that is not committed."""

    def wait_s(self, now: float, amount: int) -> float:
        """Return the seconds until an amount may be taken, 0 if now; infinite if a call has to return first."""
        self._forget(now)
        excess = self._in_flight + self._sum + amount - self.most
        if excess <= 0:
            if self._granted is None or amount <= self._granted:
                return 0.0
            self._needed = amount
            return _GRANT_POLL_S
        for time, each in self._returned:
            excess -= each
            if excess <= 0:
                return time + self._window_s - now + _TICK_S
        return math.inf

    def take(self, amount: int) -> None:
        """Take an amount for a call."""
        self._in_flight += amount
        self._needed = 0
        if self._granted is not None:
            self._granted -= amount

    def settle(self, now: float, *, reserved: int, used: int) -> None:
        """Replace the amount that a call has taken by the amount that it used."""
        self._in_flight -= reserved
        if self._granted is not None:
            self._granted += reserved - used
        if used:
            self._returned.append((now, used))
            self._sum += used

    # Grants.

    @property
    def needs_grant(self) -> bool:
        """True if the first call waits for a grant."""
        return self._granted is not None and self._needed > self._granted

    def use(self, now: float) -> LimitUse:
        """Return the use with a further grant, which `grant` makes valid once the use is committed."""
        self._forget(now)
        granted = self._granted or 0
        self._offered = max(0, max(self._needed, self.most // _GRANTS) - granted)
        returned: Counter[int] = Counter()
        for time, amount in self._returned:
            returned[int(now - time)] += amount
        return LimitUse(sorted(returned.items()), max(0, self._in_flight + granted + self._offered))

    def grant(self) -> None:
        """Let calls take what the last use has granted, which is committed."""
        if self._granted is not None:
            self._granted += self._offered
        self._offered = 0

    def begin(self, now: float, use: LimitUse, passed_s: float) -> None:
        """Begin with the use of an earlier process, which was committed so many seconds ago; nothing is taken yet."""
        returned = sorted((now - max(0.0, passed_s) - age_s, amount) for age_s, amount in use.returned)
        self._returned = deque([*returned, (now, use.open)])
        self._sum = sum(amount for _, amount in self._returned)

    def _forget(self, now: float) -> None:
        while self._returned and self._returned[0][0] + self._window_s < now:
            self._sum -= self._returned.popleft()[1]


class RateLimits:
    """One slot's share of the limits on requests and tokens per window over all slots; None is unlimited.

    If there are more slots than requests per window, a slot sends one request in `slots / requests` windows. Then each
    slot keeps the limit exactly, and all together keep it on average; all may send in one window.

    Any thread may call it. `granted` is true if calls need grants, which the agent commits.
    """

    def __init__(
        self,
        requests: int | None,
        tokens: int | None,
        slots: int,
        clock: Callable[[], float],
        window_s: float = 60.0,
        *,
        granted: bool = False,
    ) -> None:
        self._clock, self._lock, now = clock, Lock(), clock()
        self._logs: dict[str, SlidingLog] = {}
        self._is_used = False
        self.closed_s = 0.0
        """The seconds at the beginning in which no call may go, while the use of an earlier process is not known."""
        if requests is not None:
            share = requests / slots
            pace_s = window_s if share >= 1 else window_s / share
            self._logs["requests"] = SlidingLog(max(1, math.floor(share)), pace_s, now, granted=granted)
            self.closed_s = pace_s
        if tokens is not None:
            self._logs["tokens"] = SlidingLog(tokens // slots, window_s, now, granted=granted)
            self.closed_s = max(self.closed_s, window_s)

    def never(self, tokens: int) -> bool:
        """Return whether one call of so many tokens exceeds the limit."""
        log = self._logs.get("tokens")
        return log is not None and tokens > log.most

    def wait_s(self, tokens: int) -> float:
        """Return the seconds until a call of so many tokens may go; infinite if another has to return first."""
        with self._lock:
            now, amounts = self._clock(), {"requests": 1, "tokens": tokens}
            return max((log.wait_s(now, amounts[name]) for name, log in self._logs.items()), default=0.0)

    def take(self, tokens: int) -> None:
        """Take a request and its tokens, when `wait_s` is 0."""
        with self._lock:
            self._is_used = True
            for name, log in self._logs.items():
                log.take(1 if name == "requests" else tokens)

    def settle(self, reserved: int, used: int) -> None:
        """Settle a call that has returned, with the tokens that it used."""
        with self._lock:
            now = self._clock()
            for name, log in self._logs.items():
                amounts = (1, 1) if name == "requests" else (reserved, used)
                log.settle(now, reserved=amounts[0], used=amounts[1])

    # Grants.

    def use(self) -> Mapping[str, LimitUse]:
        """Return the use of each limit to commit, with further grants; nothing if no call waits for one."""
        with self._lock:
            if not any(log.needs_grant for log in self._logs.values()):
                return {}
            now = self._clock()
            return {name: log.use(now) for name, log in self._logs.items()}

    def grant(self) -> None:
        """Let calls take the grants of the last `use`, which is committed."""
        with self._lock:
            for log in self._logs.values():
                log.grant()

    def begin(self, uses: Mapping[str, LimitUse], passed_s: float) -> None:
        """Begin with the use that an earlier process committed so many seconds ago, unless calls were sent since."""
        with self._lock:
            now = self._clock()
            for name, use in uses.items():
                if name in self._logs and not self._is_used:
                    self._logs[name].begin(now, use, passed_s)
