"""A cause of bad events, with its numbers."""

from __future__ import annotations

from dataclasses import dataclass

FEWEST = 20
"""Minimum number of servings of a value that is tested."""


@dataclass(slots=True)
class Cause:
    """A value, or several that the same events carry, with an excess of bad events."""

    values: list[int]
    """Numbers of the values, the most certain one first."""
    servings: int
    """Events that carry it."""
    bad: int
    """Bad ones of them."""
    excess_bad: float
    """Bad events beyond as many as the share of those that it is compared with gives."""
    difference: float
    low: float
    high: float
    """Difference of the shares of bad events, with its limits."""
    p_adjusted: float
    log_p: float
    within: int | None = None
    """Place of the cause that it is a part of, in the list of causes."""
