"""What goes wrong at the simulated judge: which requests, how, and for how long, drawn from a seed."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from math import exp
from types import MappingProxyType
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

FAULTS: Mapping[str, str] = MappingProxyType(
    {
        "429": "refused as too many, with Retry-After",
        "429-bare": "refused as too many, without Retry-After",
        "500": "an internal error",
        "503": "overloaded",
        "hang": "no answer until the client leaves",
        "cut-connection": "the connection ends in the middle of the body",
        "garbage": "a body that is no JSON",
        "prose": "a completion that is prose instead of JSON",
        "wrong-schema": "a completion that is JSON with nothing of the schema",
        "cut-answer": "a completion that ends in its middle, finish_reason length",
    }
)
"""Every fault and what a client sees. The last three are of completions: embeddings are never met by them."""

OF_COMPLETIONS = frozenset({"prose", "wrong-schema", "cut-answer"})
_MINUTE_S = 60.0


def _share(given: object) -> object:
    return 1.0 if given == "all" else given


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]


class WrongFaults(ValueError):
    """What was given are not faults; the message is one sentence."""


class Faults(BaseModel):
    """How the simulated judge misbehaves: its latency, and the share of requests that each fault meets.

    >>> Faults.read({"shares": {"429": 0.1, "hang": 0.05}, "requests": 100}).shares["429"]
    0.1
    >>> Faults.read({"shares": {"503": 2}})
    Traceback (most recent call last):
    ...
    ragweir.streams.playground.simulated.faults.WrongFaults: shares.503: Input should be less than or equal to 1
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    latency_ms: Annotated[float, Field(ge=0, le=600_000)] = 0
    """Of each answer; its median where `latency_sigma` is set. Errors come at once."""
    latency_sigma: Annotated[float, Field(ge=0, le=5)] = 0
    """Of the logarithm of a lognormal latency; 0 makes it fixed."""
    shares: dict[str, Share] = {}
    """The probability of each fault; "all" is 1. A request meets one at most."""
    retry_after_s: Annotated[int, Field(ge=0)] = 1
    """What the fault 429 tells."""
    requests: Annotated[int, Field(ge=1)] | None = None
    """For so many requests there are faults, and then none."""
    seconds: Annotated[float, Field(gt=0)] | None = None
    """For so long there are faults, and then none."""
    seed: int = 0

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Faults:
        """The faults that somebody wants.

        Raises:
            WrongFaults: if they cannot be.
        """
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise WrongFaults(f"{place}: {first['msg'].removeprefix('Value error, ')}") from None

    @field_validator("shares")
    @classmethod
    def _are_known(cls, shares: dict[str, float]) -> dict[str, float]:
        if unknown := shares.keys() - FAULTS.keys():
            raise ValueError(f"there is no fault {min(unknown)!r}; there are {', '.join(FAULTS)}")
        if sum(shares.values()) > 1:
            raise ValueError("the shares of all faults together are at most 1")
        return shares


class Draws:
    """The latency and the fault of each request, in the order in which requests come: a function of the seed.

    Args:
        faults: what may happen.
        now: the time in seconds, from which on `seconds` counts.

    >>> draws = Draws(Faults(latency_ms=200, shares={"503": 1.0}, requests=1), now=0)
    >>> draws.draw(0), draws.draw(0)
    ((0.2, '503'), (0.2, ''))
    """

    def __init__(self, faults: Faults, now: float) -> None:
        self.faults = faults
        self._random = random.Random(faults.seed)  # noqa: S311 (the same faults for the same seed)
        self._left = faults.requests
        self._until = None if faults.seconds is None else now + faults.seconds

    def draw(self, now: float) -> tuple[float, str]:
        """The next request's latency in seconds, and its fault; empty for none."""
        lot, deviation = self._random.random(), self._random.gauss()
        return self._latency_s(deviation), self._fault(lot) if self._on(now) else ""

    def _latency_s(self, deviation: float) -> float:
        return self.faults.latency_ms * exp(self.faults.latency_sigma * deviation) / 1_000

    def _on(self, now: float) -> bool:
        if self._until is not None and now >= self._until:
            return False
        if self._left is None:
            return True
        self._left -= 1
        return self._left >= 0

    def _fault(self, lot: float) -> str:
        for name in FAULTS:
            lot -= self.faults.shares.get(name, 0.0)
            if lot < 0:
                return name
        return ""


class RateLimit:
    """At most so many requests in any 60 s; those that it refuses do not count.

    >>> limit = RateLimit(1)
    >>> limit.wait_s(100.0), limit.wait_s(110.0), limit.wait_s(160.0)
    (0.0, 50.0, 0.0)
    """

    def __init__(self, requests_per_minute: int | None) -> None:
        self._most = requests_per_minute
        self._taken: deque[float] = deque()

    def wait_s(self, now: float) -> float:
        """0 for a request that is let through; else after how long one could be."""
        if self._most is None:
            return 0.0
        while self._taken and self._taken[0] <= now - _MINUTE_S:
            self._taken.popleft()
        if len(self._taken) >= self._most:
            return self._taken[0] + _MINUTE_S - now
        self._taken.append(now)
        return 0.0
