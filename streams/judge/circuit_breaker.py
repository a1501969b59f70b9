"""Leaves a failing endpoint alone for a while, then lets one call through to see whether it is well again.

Closed, all calls go. Open, none do until a time. Then, half open, one call goes: its success closes the breaker, its
failure opens it for longer.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

LONGEST_S = 120.0
"""The longest wait of our own choosing. An endpoint may ask for a longer one."""


@dataclass(frozen=True, slots=True, eq=False)
class Permit:
    """The leave of one call to go."""

    generation: int
    """How often the breaker had opened until then: what comes of a call from before says nothing new."""


class CircuitBreaker:
    """The state of one endpoint.

    Args:
        failures: how many in a row open it.
        wait_s: for how long at first; twice as long each time after, until as many calls in a row have succeeded.
        clock: seconds that never go back.
        jitter: gives numbers from 0 to 1, so that many processes do not come back at once.
        told: is told why, and for how many seconds, when it opens; and "" when it closes.

    >>> now = 0.0
    >>> breaker = CircuitBreaker(1, 5, lambda: now, jitter=lambda: 0)
    >>> breaker.failed(breaker.permit(), "it hangs"), breaker.wait_s(), breaker.why
    (True, 5.0, 'it hangs')
    >>> now = 5.0
    >>> probe = breaker.permit()
    >>> breaker.level, breaker.wait_s()
    (0.5, inf)
    >>> breaker.succeeded(probe)
    >>> breaker.level, breaker.why
    (0.0, '')
    """

    def __init__(
        self,
        failures: int,
        wait_s: float,
        clock: Callable[[], float],
        jitter: Callable[[], float] = random.random,
        told: Callable[[str, float], None] = lambda _why, _wait_s: None,
    ) -> None:
        self._threshold, self._first_wait_s = failures, wait_s
        self._clock, self._jitter, self._told = clock, jitter, told
        self._era = 0
        self._failures = self._successes = self._waits = 0
        self._until: float | None = None
        self._probe: Permit | None = None
        self.why = ""
        """Why calls wait; empty while it is closed."""

    @property
    def is_open(self) -> bool:
        """Whether calls wait, the one that probes excepted."""
        return self._until is not None

    @property
    def level(self) -> float:
        """1 when open, 0.5 when half open, 0 when closed."""
        return 0.0 if self._until is None else 1.0 if self._probe is None else 0.5

    @property
    def is_due(self) -> bool:
        """Whether it is open and the time has come to probe, or somebody does."""
        until = self._until  # Read once: other threads ask too.
        return until is not None and (self._probe is not None or until <= self._clock())

    def wait_s(self) -> float:
        """How long until a call may go: 0 if at once, infinite while another probes."""
        if self._until is None:
            return 0.0
        return math.inf if self._probe is not None else max(0.0, self._until - self._clock())

    def permit(self) -> Permit:
        """Let one call go that `wait_s` had nothing to wait for."""
        permit = Permit(self._era)
        if self._until is not None:
            self._probe = permit
        return permit

    def probes(self, permit: Permit) -> bool:
        """Whether this is the one call that probes."""
        return permit is self._probe

    def succeeded(self, permit: Permit) -> None:
        """The endpoint answered the call, whatever it said."""
        if self.probes(permit):
            self._until, self._probe, self.why, self._successes = None, None, "", 0
            self._told("", 0.0)
        elif permit.generation != self._era or self.is_open:
            return
        self._failures = 0
        self._successes += 1
        if self._successes >= self._threshold:
            self._waits = 0

    def failed(self, permit: Permit, why: str, wait_s: float | None = None, *, at_once: bool = False) -> bool:
        """The call failed in a way that may concern them all.

        Args:
            permit: the call's.
            why: in words for people.
            wait_s: how long the endpoint is to be left alone, if it is known; then it opens at once.
            at_once: open without waiting for more failures.

        Returns:
            Whether the breaker is open now.
        """
        if self.probes(permit):
            self._probe = None
            self._open(why, wait_s)
        elif self._until is not None:
            if wait_s is not None:
                self._until = max(self._until, self._clock() + wait_s)
        elif permit.generation == self._era:
            self._failures += 1
            self._successes = 0
            if at_once or wait_s is not None or self._failures >= self._threshold:
                self._open(why, wait_s)
        return self.is_open

    def withdrawn(self, permit: Permit) -> None:
        """The call was broken off; if it was probing, another may."""
        if self.probes(permit):
            self._probe = None

    def _open(self, why: str, wait_s: float | None) -> None:
        if wait_s is None:
            wait_s = min(self._first_wait_s * 2.0 ** min(self._waits, 30), LONGEST_S)
            self._waits += 1
        wait_s += self._jitter() * min(0.2 * wait_s, 5.0)
        self._era += 1
        self._failures, self._until, self.why = 0, self._clock() + wait_s, why
        self._told(why, wait_s)
