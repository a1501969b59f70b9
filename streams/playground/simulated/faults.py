"""The faults of the simulated judge: the requests that get one, drawn from a seed, and for how long."""

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
        "429": "too many requests, with Retry-After",
        "429-bare": "too many requests, without Retry-After",
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
"""Every fault and what the client gets. Embeddings do not get the last three."""

OF_COMPLETIONS = frozenset({"prose", "wrong-schema", "cut-answer"})
_MINUTE_S = 60.0


def _share(given: object) -> object:
    return 1.0 if given == "all" else given


Share = Annotated[float, BeforeValidator(_share), Field(ge=0, le=1)]


class WrongFaults(ValueError):
    """The faults are invalid; the message is one sentence."""


class Faults(BaseModel):
    """Latency of the simulated judge, and the share of requests that get each fault.

    >>> Faults.read({"shares": {"429": 0.1, "hang": 0.05}, "requests": 100}).shares["429"]
    0.1
    >>> Faults.read({"shares": {"503": 2}})
    Traceback (most recent call last):
    ...
    ragweir.streams.playground.simulated.faults.WrongFaults: shares.503: Input should be less than or equal to 1
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    latency_ms: Annotated[float, Field(ge=0, le=600_000)] = 0
    """Latency of each answer in milliseconds, its median if `latency_sigma` is set. Errors have none."""
    latency_sigma: Annotated[float, Field(ge=0, le=5)] = 0
    """Standard deviation of the logarithm of a lognormal latency; 0 makes it fixed."""
    shares: dict[str, Share] = {}
    """Probability of each fault; "all" is 1. A request gets one at most."""
    retry_after_s: Annotated[int, Field(ge=0)] = 1
    """Retry-After of the fault 429, in seconds."""
    requests: Annotated[int, Field(ge=1)] | None = None
    """Number of requests after which faults end."""
    seconds: Annotated[float, Field(gt=0)] | None = None
    """Seconds after which faults end."""
    seed: int = 0

    @classmethod
    def read(cls, given: Mapping[str, object]) -> Faults:
        """Validate faults.

        Raises:
            WrongFaults: if they are invalid.
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
    """Draws the latency and the fault of each request, in the order of the requests, from the seed.

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
        """Return the latency of the next request in seconds, and its fault; empty for none."""
        draw, deviation = self._random.random(), self._random.gauss()
        return self._latency_s(deviation), self._fault(draw) if self._is_active(now) else ""

    def _latency_s(self, deviation: float) -> float:
        return self.faults.latency_ms * exp(self.faults.latency_sigma * deviation) / 1_000

    def _is_active(self, now: float) -> bool:
        if self._until is not None and now >= self._until:
            return False
        if self._left is None:
            return True
        self._left -= 1
        return self._left >= 0

    def _fault(self, draw: float) -> str:
        for name in FAULTS:
            draw -= self.faults.shares.get(name, 0.0)
            if draw < 0:
                return name
        return ""


class RateLimit:
    """Limits the requests in any 60 s; those that it rejects do not count.

    >>> limit = RateLimit(1)
    >>> limit.wait_s(100.0), limit.wait_s(110.0), limit.wait_s(160.0)
    (0.0, 50.0, 0.0)
    """

    def __init__(self, requests_per_minute: int | None) -> None:
        self._most = requests_per_minute
        self._taken: deque[float] = deque()

    def wait_s(self, now: float) -> float:
        """Return 0 if a request is permitted now, else the seconds until one is."""
        if self._most is None:
            return 0.0
        while self._taken and self._taken[0] <= now - _MINUTE_S:
            self._taken.popleft()
        if len(self._taken) >= self._most:
            return self._taken[0] + _MINUTE_S - now
        self._taken.append(now)
        return 0.0
