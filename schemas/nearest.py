"""The known name that is nearest to a misspelt one: settings, metrics, suites, maps, topics, paths of events."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LIKE = 0.6
"""Similarity from which on a name is taken for a misspelt one."""


def nearest(name: str, known: Iterable[str], like: float = _LIKE) -> str | None:
    """Return the known name that is nearest to a misspelt one, without regard to case; None if none is near.

    >>> nearest("Max_outptu_tokens", ["max_input_chars", "max_output_tokens"]), nearest("x", ["y"])
    ('max_output_tokens', None)

    Args:
        name: the misspelt name.
        known: the names that there are.
        like: the least similarity, from 0 to 1.
    """
    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, 1, like)
    return by_lower[near[0]] if near else None


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that names the nearest known name; empty if none is near.

    >>> nearest_hint("langfus", ["ragas", "langfuse"])
    '; the nearest is langfuse'
    """
    near = nearest(name, known)
    return "" if near is None else f"; the nearest is {near}"
