"""What judging costs: prices, and the most that a call or a job can come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from ragweir.metrics.judged.suite import Case, Suite
from ragweir.streams.settings import Price

FRAME_BYTES = 8_000
"""Instructions and schema around an event's texts, at most; a test holds every shipped prompt to it."""
MARKS_BYTES = 100
"""What stands around each text, at most."""
_BYTES_PER_TOKEN = 8
"""Of an answer, at most, as far as it is repeated in the next question."""
MOST = 10**12
"""The most that a call costs, in millionths of a dollar: so sums of many keep within the integers of JSON's readers."""
FREE = Price(input_usd=0, output_usd=0)


def most_tokens(*texts: str) -> int:
    """More tokens than any tokeniser makes of these texts: bytes, since none makes a token of less than one.

    >>> most_tokens("naïve")
    6
    """
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


def cost(price: Price, input_tokens: int, output_tokens: int) -> int:
    """Return the cost of a call, in millionths of a dollar, rounded up, and at most a million dollars.

    >>> cost(Price(input_usd=0.15, output_usd=0.6), 1_000, 100)
    210
    """
    # Dollars per million tokens are millionths of a dollar per token.
    return ceil(round(min(price.input_usd * input_tokens + price.output_usd * output_tokens, MOST), 6))


_PLAUSIBLE = 4
"""The usage that an endpoint reports is believed up to so many times what was reserved: reasoning tokens are billed,
and are not bounded by the longest answer."""
IMPLAUSIBLE, ABOVE = "usage_implausible", "usage_above_reservation"
"""Flags of evaluations: the reported usage cannot be, or it is more than was reserved."""


@dataclass(frozen=True, slots=True)
class CallCost:
    """The cost of one call that was answered."""

    amount: int
    """Millionths of a dollar."""
    input_tokens: int | None
    """None where the endpoint does not say, or says what cannot be."""
    output_tokens: int | None
    flag: str = ""


def billed(status: int) -> bool:
    """Return whether a call that ended with an HTTP error counts with all that it may have cost.

    An endpoint that fails in the middle may charge for its work; one that does not take a call does none.

    >>> [status for status in (302, 400, 401, 408, 429, 500, 502, 503, 504, 524) if billed(status)]
    [500, 502, 504, 524]
    """
    return 500 <= status < 600 and status not in _NOT_TAKEN


_NOT_TAKEN = frozenset({501, 503, 505, 511})


def bill(price: Price, most: tuple[int, int], stated: tuple[object, object], *, answered: bool) -> CallCost:
    """Return what an answer costs.

    Args:
        price: of the model.
        most: the input and output tokens that were reserved.
        stated: the input and output tokens that the endpoint reports; None where it reports none.
        answered: whether there is an answer, which takes tokens.

    >>> price = Price(input_usd=1, output_usd=1)
    >>> bill(price, (100, 50), (80, 20), answered=True)
    CallCost(amount=100, input_tokens=80, output_tokens=20, flag='')
    >>> bill(price, (100, 50), (80, 400), answered=True)
    CallCost(amount=480, input_tokens=80, output_tokens=400, flag='usage_above_reservation')
    >>> {bill(price, (100, 50), odd, answered=True) for odd in ((80, 10**12), (-1, 20), (8.5, 1), (True, 2), (0, 0))}
    {CallCost(amount=150, input_tokens=None, output_tokens=None, flag='usage_implausible')}
    >>> bill(price, (100, 50), (None, None), answered=True)
    CallCost(amount=150, input_tokens=None, output_tokens=None, flag='')
    """
    reserved = CallCost(cost(price, *most), None, None)
    if stated == (None, None):
        return reserved
    tokens = [each for each in stated if type(each) is int]
    least = (int(most[0] > 0 and answered), int(most[1] > 0 and answered))
    if len(tokens) == 2 and all(each >= own for each, own in zip(tokens, least, strict=True)):
        amount = cost(price, *tokens)
        if sum(tokens) <= _PLAUSIBLE * sum(most) and amount <= _PLAUSIBLE * reserved.amount:
            above = sum(tokens) > sum(most) or amount > reserved.amount
            return CallCost(amount, tokens[0], tokens[1], ABOVE if above else "")
    return CallCost(reserved.amount, None, None, IMPLAUSIBLE)


def allowance(price: Price, embedding_price: Price, case: Case, suites: Sequence[Suite], max_output_tokens: int) -> int:
    """What to reserve for a job: for each question the whole event, the frame and the longest answer, priced.

    No suite's question holds more than the event's texts and an answer before it, and none embeds more. A repair is
    made within this, or not at all.
    """
    texts = (case.query, case.response, *(case.contexts or ()), *(case.expected or ()))
    asks = sum(suite.asks for suite in suites)
    question = most_tokens(*texts) + FRAME_BYTES + MARKS_BYTES * len(texts)
    answers_before = max(0, asks - 1) * _BYTES_PER_TOKEN * max_output_tokens
    embedded = len(suites) * (most_tokens(*texts) + _BYTES_PER_TOKEN * max_output_tokens)
    return cost(price, asks * question + answers_before, asks * max_output_tokens) + cost(embedding_price, embedded, 0)
