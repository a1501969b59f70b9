"""The cost of judging: prices, the bills of calls, and the most that a call or a job can cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from ragweir.metrics.judged.suite import Case, Suite
from ragweir.streams.services.judge.usage import StatedUsage
from ragweir.streams.settings import JudgeSettings, Price

FRAME_BYTES = 8_000
"""The most bytes of instructions and schema around an event's texts; a test checks every shipped prompt."""
MARKS_BYTES = 100
"""The most bytes of marks around each text."""
_BYTES_PER_TOKEN = 8
"""The most bytes per token of an answer that the next question repeats."""
MOST = 10**12
"""The most that a call costs, in millionths of a dollar: sums of many stay within the integers of JSON readers."""
FREE = Price(input_usd=0, output_usd=0)


def price_of(settings: JudgeSettings, model: str | None) -> Price:
    """Return the price of a model; models without a price are free."""
    return settings.prices.get(model or "", FREE)


def most_tokens(*texts: str) -> int:
    """Return an upper bound of the tokens of texts: their bytes, since no tokeniser makes a token of less than one.

    >>> most_tokens("naïve")
    6
    """
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def cost(price: Price, input_tokens: int, output_tokens: int, cached: int = 0, reasoning: int = 0) -> int:
    """Return the cost of a call, in millionths of a dollar, rounded up, and at most a million dollars.

    Args:
        price: the model's.
        input_tokens: all input tokens.
        output_tokens: all output tokens.
        cached: the part of the input that the endpoint had in its own cache.
        reasoning: the part of the output that is reasoning.

    >>> cost(Price(input_usd=0.15, output_usd=0.6), 1_000, 100)
    210
    >>> cost(Price(input_usd=0.15, output_usd=0.6, cached_usd=0.05, reasoning_usd=1), 1_000, 100, 400, 50)
    190
    """
    cached_usd = price.input_usd if price.cached_usd is None else price.cached_usd
    reasoning_usd = price.output_usd if price.reasoning_usd is None else price.reasoning_usd
    # Dollars per million tokens are millionths of a dollar per token.
    exact = (
        price.input_usd * (input_tokens - cached)
        + cached_usd * cached
        + price.output_usd * (output_tokens - reasoning)
        + reasoning_usd * reasoning
    )
    return ceil(round(min(exact, MOST), 6))


def most_cost(price: Price, input_tokens: int, output_tokens: int) -> int:
    """Return the most that a call of so many tokens costs: nothing is cached, and all output may be reasoning.

    >>> most_cost(Price(input_usd=1, output_usd=2, reasoning_usd=3), 10, 10)
    40
    """
    return cost(price, input_tokens, output_tokens, reasoning=output_tokens if _reasoning_is_dearer(price) else 0)


def _reasoning_is_dearer(price: Price) -> bool:
    return price.reasoning_usd is not None and price.reasoning_usd > price.output_usd


_PLAUSIBLE = 4
"""Reported usage above this multiple of the reservation is implausible. It may exceed the reservation, since reasoning
tokens are billed and not bounded by the longest answer."""
IMPLAUSIBLE, ABOVE = "usage_implausible", "usage_above_reservation"
"""Flags of evaluations."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of one call that was answered."""

    amount: int
    """Millionths of a dollar."""
    input_tokens: int | None
    """None if the endpoint reports no plausible usage."""
    output_tokens: int | None
    flag: str = ""
    cached: int = 0
    """The part of the input tokens that the endpoint had in its own cache."""
    reasoning: int = 0
    """The part of the output tokens that is reasoning."""


def billed(status: int) -> bool:
    """Return whether a call that ended with an HTTP error is booked with the most it can cost.

    An endpoint that fails while it works may charge for it; one that rejects a call does no work.

    >>> [status for status in (302, 400, 401, 408, 429, 500, 502, 503, 504, 524) if billed(status)]
    [500, 502, 504, 524]
    """
    return 500 <= status < 600 and status not in _NOT_TAKEN


_NOT_TAKEN = frozenset({501, 503, 505, 511})


def bill(price: Price, most: tuple[int, int], least: tuple[int, int], stated: StatedUsage) -> CallCost:
    """Return the cost of an answered call.

    Args:
        price: the model's.
        most: the input and output tokens that were reserved.
        least: the input and output tokens that the answer takes at least: 1 of each if it is a text that is not empty.
        stated: the usage that the endpoint reports.

    >>> price = Price(input_usd=1, output_usd=1, cached_usd=0.5)
    >>> bill(price, (100, 50), (1, 1), StatedUsage(80, 20))
    CallCost(amount=100, input_tokens=80, output_tokens=20, flag='', cached=0, reasoning=0)
    >>> bill(price, (100, 50), (1, 1), StatedUsage(80, 20, 40))
    CallCost(amount=80, input_tokens=80, output_tokens=20, flag='', cached=40, reasoning=0)
    >>> bill(price, (100, 50), (1, 1), StatedUsage(80, 20, 81))
    CallCost(amount=100, input_tokens=80, output_tokens=20, flag='usage_implausible', cached=0, reasoning=0)
    >>> bill(price, (100, 50), (1, 1), StatedUsage(80, 400)).flag
    'usage_above_reservation'
    >>> odd = [StatedUsage(*each) for each in ((80, 10**12), (-1, 20), (8.5, 1), (True, 2), (0, 0))]
    >>> {bill(price, (100, 50), (1, 1), each).amount for each in odd}
    {150}
    >>> bill(price, (100, 50), (1, 1), StatedUsage())
    CallCost(amount=150, input_tokens=None, output_tokens=None, flag='', cached=0, reasoning=0)
    """
    reserved = CallCost(most_cost(price, *most), None, None)
    if (stated.input_tokens, stated.output_tokens) == (None, None):
        return reserved
    tokens = [each for each in (stated.input_tokens, stated.output_tokens) if type(each) is int]
    if len(tokens) == 2 and all(each >= own for each, own in zip(tokens, least, strict=True)):
        taken, given = tokens
        parts = _parts(stated, taken, given)
        # Parts that cannot be are not taken for a discount.
        cached, reasoning = parts or (0, given if _reasoning_is_dearer(price) else 0)
        amount = cost(price, taken, given, cached, reasoning)
        if taken + given <= _PLAUSIBLE * sum(most) and amount <= _PLAUSIBLE * reserved.amount:
            above = taken + given > sum(most) or amount > reserved.amount
            flag = ABOVE if above else IMPLAUSIBLE if parts is None else ""
            return CallCost(amount, taken, given, flag, *(parts or ()))
    return replace(reserved, flag=IMPLAUSIBLE)


def _parts(stated: StatedUsage, taken: int, given: int) -> tuple[int, int] | None:
    """Return the cached and the reasoning tokens; None if they cannot be parts of the input and output."""
    cached, reasoning = stated.cached or 0, stated.reasoning or 0
    if type(cached) is int and type(reasoning) is int and 0 <= cached <= taken and 0 <= reasoning <= given:
        return cached, reasoning
    return None


def allowance(settings: JudgeSettings, case: Case, suites: Sequence[Suite]) -> int:
    """Return the most that a job may cost: per question the price of the whole event, the frame and the longest answer.

    No question of a suite holds more than the event's texts and an earlier answer, and none embeds more. A repair is
    made only within this amount. Where a decision model reads the texts once for each part of a question, it is so
    many questions.
    """
    price, max_output_tokens = price_of(settings, settings.model), settings.max_output_tokens
    texts = (case.query, case.response, *(case.contexts or ()), *(case.expected or ()))
    asks = sum(suite.asks for suite in suites)
    most_parts = max((suite.parts for suite in suites), default=1) if settings.reads_apart else 1
    reads = sum(suite.asks * suite.parts for suite in suites) if settings.reads_apart else asks
    own = most_tokens(*texts)
    question = own + FRAME_BYTES + MARKS_BYTES * len(texts)
    answers_before = max(0, asks - 1) * _BYTES_PER_TOKEN * max_output_tokens
    embedded = len(suites) * (own + _BYTES_PER_TOKEN * max_output_tokens)
    chat = most_cost(price, reads * question + most_parts * answers_before, asks * max_output_tokens)
    return chat + cost(price_of(settings, settings.embedding_model), embedded, 0)
