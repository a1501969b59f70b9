"""A circuit breaker: stops calls to a failing endpoint for a while, then lets one call probe it.

Closed, all calls may go. Open, none may until a time. Then, half-open, one call probes: its success closes the breaker,
its failure opens it for longer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ragweir.streams.runtime.machine import machine

LONGEST_S = 120.0
"""The longest wait, unless the endpoint asks for a longer one."""


@dataclass(frozen=True, slots=True, eq=False)
class Permit:
    """The permission to make one call."""

    generation: int
    """The number of times that the breaker had opened: results of calls from an earlier generation are not counted."""


class CircuitBreaker:
    """The state of one endpoint.

    Args:
        failures: the number of failures in a row that opens it.
        wait_s: the first wait; it doubles each time until as many calls in a row have succeeded.
        clock: monotonic seconds.
        jitter: returns numbers from 0 to 1, so that many processes do not return at the same moment.
        on_change: called with the reason and the wait in seconds when it opens, and with "" when it closes.

    >>> now = 0.0
    >>> breaker = CircuitBreaker(1, 5, lambda: now, jitter=lambda: 0)
    >>> breaker.record_failure(breaker.permit(), "it hangs")
    >>> breaker.is_open, breaker.wait_s(), breaker.why
    (True, 5.0, 'it hangs')
    >>> now = 5.0
    >>> probe = breaker.permit()
    >>> breaker.level, breaker.wait_s()
    (0.5, inf)
    >>> breaker.record_success(probe)
    >>> breaker.level, breaker.why
    (0.0, '')
    """

    def __init__(
        self,
        failures: int,
        wait_s: float,
        clock: Callable[[], float],
        jitter: Callable[[], float] = machine.random,
        on_change: Callable[[str, float], None] = lambda _why, _wait_s: None,
    ) -> None:
        self._threshold, self._first_wait_s = failures, wait_s
        self._clock, self._jitter, self._on_change = clock, jitter, on_change
        self._generation = 0
        self._failures = self._successes = self._waits = 0
        self._until: float | None = None
        self._probe: Permit | None = None
        self.why = ""
        """The reason why calls wait; empty while it is closed."""

    @property
    def is_open(self) -> bool:
        """True if calls have to wait, except a probe."""
        return self._until is not None

    @property
    def level(self) -> float:
        """1 when open, 0.5 when half-open, 0 when closed."""
        return 0.0 if self._until is None else 1.0 if self._probe is None else 0.5

    @property
    def is_due(self) -> bool:
        """True if it is open and a probe is due or in flight."""
        until = self._until  # Read once: other threads ask too.
        return until is not None and (self._probe is not None or until <= self._clock())

    def wait_s(self) -> float:
        """Return the seconds until a call may go, 0 if now; infinite while a probe is in flight."""
        if self._until is None:
            return 0.0
        return math.inf if self._probe is not None else max(0.0, self._until - self._clock())

    def permit(self) -> Permit:
        """Permit one call, when `wait_s` is 0."""
        permit = Permit(self._generation)
        if self._until is not None:
            self._probe = permit
        return permit

    def is_probe(self, permit: Permit) -> bool:
        """Return whether this is the call that probes."""
        return permit is self._probe

    def record_success(self, permit: Permit) -> None:
        """Record that the endpoint answered the call."""
        if self.is_probe(permit):
            self._until, self._probe, self.why, self._successes = None, None, "", 0
            self._on_change("", 0.0)
        elif permit.generation != self._generation or self.is_open:
            return
        self._failures = 0
        self._successes += 1
        if self._successes >= self._threshold:
            self._waits = 0

    def record_failure(
        self, permit: Permit, why: str, wait_s: float | None = None, *, immediately: bool = False
    ) -> None:
        """Record a failure that may concern all calls.

        Args:
            permit: the call's.
            why: the reason, for people.
            wait_s: the wait that the endpoint asks for, if any; then the breaker opens immediately.
            immediately: open without waiting for more failures.
        """
        if self.is_probe(permit):
            self._probe = None
            self._open(why, wait_s)
        elif self._until is not None:
            if wait_s is not None:
                self._until = max(self._until, self._clock() + wait_s)
        elif permit.generation == self._generation:
            self._failures += 1
            self._successes = 0
            if immediately or wait_s is not None or self._failures >= self._threshold:
                self._open(why, wait_s)

    def cancel(self, permit: Permit) -> None:
        """Record that the call was cancelled; if it was the probe, another call may probe."""
        if self.is_probe(permit):
            self._probe = None

    def _open(self, why: str, wait_s: float | None) -> None:
        if wait_s is None:
            wait_s = min(self._first_wait_s * 2.0 ** min(self._waits, 30), LONGEST_S)
            self._waits += 1
        wait_s += self._jitter() * min(0.2 * wait_s, 5.0)
        self._generation += 1
        self._failures, self._until, self.why = 0, self._clock() + wait_s, why
        self._on_change(why, wait_s)
