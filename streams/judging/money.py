"""What judging costs: prices, and the most that a call or a job can come to."""

from __future__ import annotations

from collections.abc import Sequence
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
