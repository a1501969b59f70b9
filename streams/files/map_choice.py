"""Chooses the map that a sample of events is read through: none, a given, a ready or an inferred one."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import interaction
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.mapping.paths import path_text, steps
from ragweir.schemas.codec.mapping.sample_paths import columns
from ragweir.schemas.codec.ready_maps import PRODUCTS, SIGNATURES, ready_map
from ragweir.schemas.interaction import Interaction
from ragweir.streams.files.schema_inference import REQUIRED, Rules, propose, written

_OWN_SHARE = 0.5
"""Share of readable events from which on a source is taken to have ragweir's schema."""
_SIGNED_SHARE = 0.9
"""Share of events that must have the names by which a product's exports are recognised."""

Names = tuple[str | None, ...]
"""A path without the places of list elements: None stands for any of them."""


@dataclass(frozen=True, slots=True)
class MapChoice:
    """A map for a sample of events."""

    toml: str
    """The map's text; empty if the events have ragweir's own schema."""
    rules: Rules = field(default_factory=dict)
    ready: str = ""
    """The name of a ready map."""

    @property
    def is_complete(self) -> bool:
        """True if no map is needed, or the map has all required rules."""
        return not self.toml or self.rules.keys() >= set(REQUIRED)

    @property
    def product(self) -> str:
        """The name of the product whose export a ready map reads."""
        return PRODUCTS[self.ready]


OWN = MapChoice("")
"""No map, for events that have ragweir's own schema."""


def named_map(toml: str) -> MapChoice:
    """Return a map that the user names, by its text."""
    return MapChoice(toml, tomllib.loads(toml))


def choose(events: Sequence[object]) -> MapChoice:
    """Choose a map for a sample: none, if most events are interactions; a ready map that fits; an inferred one.

    >>> choose([{"user_input": "Who?", "response": "Ada."}]).product
    'ragas'
    >>> choose([{"id": 1, "question": "Who?", "answer": "Ada."}]).rules
    {'event_id': 'id', 'query': 'question', 'response': 'answer'}
    """
    if _have_own_schema(events):
        return OWN
    name = next((name for name in SIGNATURES if _fits(name, events)), None)
    if name is not None:
        toml = ready_map(name)
        return MapChoice(toml, tomllib.loads(toml), name)
    rules = propose(events)
    return MapChoice(written(rules) + "\n", rules)


def _have_own_schema(events: Collection[object]) -> bool:
    """Return true if enough events are interactions without a map."""
    interactions = 0
    for event in events:
        with suppress(Rejected):
            interaction(event)
            interactions += 1
    return interactions >= _OWN_SHARE * len(events)


def _fits(name: str, events: Sequence[object]) -> bool:
    """Return true if events have a product's names, and its ready map rejects none and does not skip all of them."""
    signed = sum(
        isinstance(event, Mapping) and any(names <= event.keys() for names in SIGNATURES[name]) for event in events
    )
    if signed < _SIGNED_SHARE * len(events):
        return False
    mapping = FieldMap.parse(ready_map(name))
    read = 0
    for event in events:
        try:
            fields = mapping(event)
            if fields is not None:
                interaction(fields)
                read += 1
        except Rejected:
            return False
    return read > 0


def unread(choice: MapChoice, events: Sequence[object]) -> list[tuple[str, int]]:
    r"""Return the paths of values that no rule reads, with the numbers of events that have them, most frequent first.

    >>> unread(named_map('event_id = "id"\nquery = "q"\nresponse = "a"'), [{"id": 1, "q": "?", "b": {"c": 2}}])
    [('b.c', 1)]
    """
    read = (
        {_names(path) for path in _paths(choice.rules)}
        if choice.toml
        else {(name,) for name in Interaction.model_fields}
    )
    found = columns(events)
    above = {path[:-1] for path in found}
    counts: Counter[Names] = Counter()
    for path, values in found.items():
        names = tuple(step if isinstance(step, str) else None for step in path)
        if path not in above and not any(_overlap(names, each) for each in read):
            counts[names] = max(counts[names], len(values))
    ordered = sorted(counts.items(), key=lambda each: (-each[1], len(each[0])))
    return [(path_text(names), number) for names, number in ordered]


def _overlap(some: Names, other: Names) -> bool:
    """Return true if one path leads to a part of the other's value."""
    return all(one == two for one, two in zip(some, other, strict=False))


def _names(path: Sequence[object]) -> Names:
    return tuple(step if isinstance(step, str) else None for step in path)


def _paths(rule: Any) -> Iterator[tuple[str | int | None, ...]]:
    """Yield the paths that a rule reads, or all rules of a map."""
    if isinstance(rule, str):
        yield steps(rule)
    elif isinstance(rule, list):
        for each in rule:
            yield from _paths(each)
    elif "path" in rule:
        path = steps(rule["path"])
        # The entries of an object are of any name.
        goes_on = "then" in rule and "entries" not in rule
        yield from ((*path, *rest) for rest in _paths(rule["then"])) if goes_on else [path]
        if "after" in rule:
            yield from _paths(rule["after"])
        if "where" in rule:
            yield from ((*path[: _after_last_list(path)], *rest) for rest in _paths(rule["where"]))
    elif "first" in rule or "hash" in rule:
        yield from _paths(rule.get("first") or rule["hash"])
    elif "constant" not in rule and "row" not in rule:  # The map itself.
        for each in rule.values():
            yield from _paths(each)


def _after_last_list(path: Sequence[object]) -> int:
    return len(path) - [*reversed(path)].index(None)
