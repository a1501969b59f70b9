"""The usage of a call as an endpoint reports it, in the forms of several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatedUsage:
    """Tokens as an endpoint reports them, of any type; None for those that it does not report."""

    input_tokens: object = None
    output_tokens: object = None
    cached: object = None
    """The part of the input that the endpoint had in its own cache."""
    reasoning: object = None
    """The part of the output that is reasoning."""


def stated_usage(usage: object, *, chat: bool) -> StatedUsage:
    """Read the usage of an answer.

    Gemini and Grok leave reasoning out of `completion_tokens`, and have it in `total_tokens` only.

    Args:
        usage: the field of the answer, of any type.
        chat: True for a chat completion, False for embeddings, which have no output.

    >>> stated_usage({"prompt_tokens": 12, "completion_tokens": -3}, chat=True)
    StatedUsage(input_tokens=12, output_tokens=-3, cached=None, reasoning=None)
    >>> stated_usage({"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 85}, chat=True)
    StatedUsage(input_tokens=21, output_tokens=64, cached=None, reasoning=60)
    >>> stated_usage({"prompt_tokens": 4}, chat=False), stated_usage([], chat=False)
    (StatedUsage(input_tokens=4, output_tokens=0, cached=None, reasoning=None), StatedUsage(input_tokens=None, \
output_tokens=None, cached=None, reasoning=None))
    """
    stated = _table(usage)
    taken = stated.get("prompt_tokens")
    cached = _table(stated.get("prompt_tokens_details")).get("cached_tokens", stated.get("prompt_cache_hit_tokens"))
    if not chat:
        return StatedUsage(taken, None if taken is None else 0, cached)
    given, total = stated.get("completion_tokens"), stated.get("total_tokens")
    reasoning = _table(stated.get("completion_tokens_details")).get("reasoning_tokens")
    if type(taken) is int and type(given) is int and type(total) is int and total > taken + given:
        given, hidden = total - taken, total - taken - given
        reasoning = reasoning if type(reasoning) is int and reasoning >= hidden else hidden
    return StatedUsage(taken, given, cached, reasoning)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
