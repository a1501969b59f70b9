"""Intake: what parsed JSON is made into an interaction by. Lists over their limit are cut, and the event is flagged.

Validation costs time and memory for every element, and much more for a wrong one, so elements are counted before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from schemas.interaction import Interaction

MAX_ITEMS: Mapping[str, int] = MappingProxyType(
    {
        "contexts": 1_000,
        "spans": 1_000,
        "extractions": 1_000,
        "aggregation": 1_000,
        "retrieval.relevant_ids": 1_000,
        "history": 200,
        "labels": 64,
        "expected": 32,
    }
)
"""The lists of an interaction, with the number of elements that is read of each unless `limits.max_items` says
otherwise. A longer one is cut to so many, the first ones, and the event is flagged `cut:FIELD`."""

MOST_ITEMS = 100_000
"""The most elements of any list that can be asked for."""

CUT = "cut:"
"""What the flag of a cut list begins with."""


def read(data: object, max_items: Mapping[str, int] = MAX_ITEMS) -> Interaction:
    """Make an interaction of parsed JSON, which is left as it is.

    >>> event = read({"event_id": "1", "query": "", "response": "", "expected": ["a"] * 33})
    >>> len(event.expected), event.flags
    (32, ('cut:expected',))

    Args:
        data: what was parsed, or what a map made of it.
        max_items: how many elements are read of each list in `MAX_ITEMS`.

    Raises:
        pydantic.ValidationError: if it is no interaction.
    """
    flags: set[str] = set()
    if isinstance(data, dict):
        data = _cut(data, max_items, flags)
    event = Interaction.model_validate(data)
    return event.flagged(flags) if flags else event


def _cut(data: dict[str, Any], max_items: Mapping[str, int], flags: set[str]) -> dict[str, Any]:
    """The event with its lists cut."""
    for path, most in max_items.items():
        holder, _, name = path.rpartition(".")
        part = data.get(holder) if holder else data
        if not isinstance(part, dict):
            continue
        items = part.get(name)
        if isinstance(items, list | dict) and len(items) > most:
            kept = items[:most] if isinstance(items, list) else dict(islice(items.items(), most))
            data = {**data, holder: {**part, name: kept}} if holder else {**data, name: kept}
            flags.add(CUT + path)
    return data
