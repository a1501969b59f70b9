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


def chat_usage(usage: object) -> StatedUsage:
    """Read the usage of a chat completion, of any type.

    Gemini and Grok leave reasoning out of `completion_tokens`, and have it in `total_tokens` only.

    >>> chat_usage({"prompt_tokens": 12, "completion_tokens": -3})
    StatedUsage(input_tokens=12, output_tokens=-3, cached=None, reasoning=None)
    >>> chat_usage({"prompt_tokens": 21, "completion_tokens": 4, "total_tokens": 85})
    StatedUsage(input_tokens=21, output_tokens=64, cached=None, reasoning=60)
    """
    stated = _table(usage)
    taken, cached = _prompt(stated)
    given, total = stated.get("completion_tokens"), stated.get("total_tokens")
    reasoning = _table(stated.get("completion_tokens_details")).get("reasoning_tokens")
    if type(taken) is int and type(given) is int and type(total) is int and total > taken + given:
        given, hidden = total - taken, total - taken - given
        reasoning = reasoning if type(reasoning) is int and reasoning >= hidden else hidden
    return StatedUsage(taken, given, cached, reasoning)


def embedding_usage(usage: object) -> StatedUsage:
    """Read the usage of embeddings, of any type, which have no output.

    >>> embedding_usage({"prompt_tokens": 4}), embedding_usage([]).output_tokens
    (StatedUsage(input_tokens=4, output_tokens=0, cached=None, reasoning=None), None)
    """
    taken, cached = _prompt(_table(usage))
    return StatedUsage(taken, None if taken is None else 0, cached)


def decision_usage(usage: object) -> StatedUsage:
    """Read the usage of a decision model, of any type.

    >>> decision_usage({"input_tokens": 90, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 60}})
    StatedUsage(input_tokens=90, output_tokens=2, cached=60, reasoning=None)
    """
    stated = _table(usage)
    taken, given = _table(stated.get("input_tokens_details")), _table(stated.get("output_tokens_details"))
    return StatedUsage(
        stated.get("input_tokens"),
        stated.get("output_tokens"),
        taken.get("cached_tokens"),
        given.get("reasoning_tokens"),
    )


def _prompt(stated: Mapping[str, object]) -> tuple[object, object]:
    """Return the input tokens, and the cached part of them."""
    cached = _table(stated.get("prompt_tokens_details")).get("cached_tokens", stated.get("prompt_cache_hit_tokens"))
    return stated.get("prompt_tokens"), cached


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}
