"""Routing: which events the judge gets. A pure function of the event, its scores and the settings.

An event's probability of being judged by a suite is the largest of the suite's floor and of the rules that fire. One
number per event and suite, uniform on 0 to 1 and drawn by a keyed hash of the event's id, decides: below the
probability the event is selected. So every runtime, batch, worker and replay selects the same events, suites are drawn
independently of each other, and another key draws others.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from math import ceil
from typing import Any, Literal

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.evaluation import Decision, SuiteDecision
from ragweir.schemas.interaction import Interaction
from ragweir.streams.settings import RoutingSettings, Rule

FLOOR = "floor"
"""Stands among the reasons where a suite has a floor, after the rules."""

_LOTS = struct.Struct(">8Q")
"""All of the hash's longest digest, of which each suite has its place: a longer digest would draw all lots anew."""
_OF = 2**64
"""How many lots there are; one is drawn."""
_REMEMBERED = 4_096
"""Decisions that are kept; there are few, as they depend on nothing but what fired and what was drawn."""

_Kind = Literal["number", "label", "text", "yes or no", "list"]
_SCORES, _CATEGORIES, _FIELDS, _LABELS = range(4)
"""Where the values of an event stand."""
_KINDS: Mapping[str, _Kind] = {
    "application": "text",
    "tenant": "text",
    "environment": "text",
    "pipeline_version": "text",
    "model": "text",
    "question_id": "text",
    "session_id": "text",
    "finish_reason": "text",
    "error": "text",
    "answerable": "yes or no",
    "expected": "list",
}
"""The fields of the interaction that rules can be on; labels are text."""
_NUMERIC = ("above", "below", "is", "present")
_OPERATORS: Mapping[_Kind, tuple[str, ...]] = {
    "number": _NUMERIC,
    "yes or no": _NUMERIC,
    "label": ("is", "in", "present"),
    "text": ("is", "in", "present"),
    "list": ("present",),
}
_TESTS: Mapping[str, Callable[[Any], Callable[[Any], bool]]] = {
    "above": lambda bound: partial(operator.lt, bound),
    "below": lambda bound: partial(operator.gt, bound),
    # Booleans are numbers, here as in Python: true is 1.
    "is": lambda value: partial(operator.eq, value),
    "in": lambda values: frozenset(values).__contains__,
    "present": lambda _: lambda _: True,
}
"""From what a rule says to what it asks of a value."""


# Plain tuples: taking one with names apart costs as much as the rest of asking it.
_Clause = tuple[int, int, str, Callable[[Any], bool], str | None]
"""A rule made ready: its bit in the pattern of what fired, where and by which name its value stands, test, unless."""
_Chance = tuple[int, int, int]
"""A suite's bit in the pattern of what is selected, the place of its lot, and how many of all lots select the event."""


class Router:
    """Decides about events.

    Args:
        routing: rules and floors.
        catalogue: the metrics that are switched on.
        suites: the names of all suites in an order that never changes; a new one comes last.

    Raises:
        ConfigurationError: if a rule or floor names what does not exist, or asks what cannot be asked.

    >>> from ragweir.metrics.catalogue import everything
    >>> router = Router(RoutingSettings(floors={"rubric": 0.02}), Catalogue(everything()), ["rubric", "context_recall",
    ...     "ragas", "factual", "classification", "semantic"])
    >>> event = Interaction(event_id="1", query="Who?", response="Ada.")
    >>> for suite in router.decide(event, {"unsupported_risk": 0.9, "context_recall_heuristic": 0.7}, {}).suites[:2]:
    ...     print(suite)
    suite='rubric' status='selected' probability=1.0 because=('risk', 'floor')
    suite='context_recall' status='not_selected' probability=0.0 because=()
    """

    def __init__(self, routing: RoutingSettings, catalogue: Catalogue, suites: Sequence[str]) -> None:
        if len(suites) > _LOTS.size // 8:
            raise ValueError(f"one digest has lots for {_LOTS.size // 8} suites")
        rules = tuple(_usable(routing, catalogue))
        for name in [*(name for rule in rules for name in rule.suites), *routing.floors]:
            if name not in suites:
                raise ConfigurationError(_unknown_suite(name, rules, suites))
        self._rules = rules
        self._floors = routing.floors
        self._clauses = tuple(_clause(1 << number, rule, catalogue) for number, rule in enumerate(rules))
        named = {name for rule in rules for name in rule.suites} | routing.floors.keys()
        # The metrics of a suite are a group of its name: one that is switched off is not asked, and costs nothing.
        wanted = named & {metric.group for metric in catalogue.metrics.values()}
        self._suites = tuple((1 << place, place, name) for place, name in enumerate(suites) if name in wanted)
        self.suites = tuple(name for _, _, name in self._suites)
        """The suites that events are selected for."""
        self._keyed = blake2b(digest_size=_LOTS.size, key=routing.key.encode())
        self._chances = lru_cache(_REMEMBERED)(self._chances_of)
        self._decision = lru_cache(_REMEMBERED)(self._decision_of)

    def decide(
        self, event: Interaction, scores: Mapping[str, float | None], categories: Mapping[str, str | None]
    ) -> Decision:
        """Decide about an event.

        Args:
            event: its id draws the lots, its fields answer rules.
            scores: of the free metrics.
            categories: likewise.

        Returns:
            Of every suite that a rule or floor names and that is switched on: whether the event is selected, at what
            probability, and because of what: the rules that fired, in the order of the settings, and the floor.
        """
        places = (scores, categories, event.__dict__, event.labels)
        fired = 0
        for bit, place, name, fulfils, unless in self._clauses:
            value = places[place].get(name)
            if value is not None and fulfils(value) and (unless is None or scores.get(unless) != 1):
                fired |= bit
        keyed = self._keyed.copy()
        keyed.update(event.event_id.encode())
        drawn = _LOTS.unpack(keyed.digest())
        selected = 0
        for bit, place, lots in self._chances(fired):
            if drawn[place] < lots:
                selected |= bit
        return self._decision(fired, selected)

    def _reasons(self, suite: str, fired: int) -> dict[str, float]:
        """What gives an event its chance of a suite: the probability of each, in the order of the settings."""
        reasons = {
            rule.name: rule.probability
            for number, rule in enumerate(self._rules)
            if fired & 1 << number and suite in rule.suites
        }
        floor = self._floors.get(suite, 0.0)
        return reasons | {FLOOR: floor} if floor else reasons

    def _chances_of(self, fired: int) -> tuple[_Chance, ...]:
        return tuple(
            # Whole numbers are compared, as the largest lots would round to a fraction of 1.
            (bit, place, ceil(max(reasons.values()) * _OF))
            for bit, place, suite in self._suites
            if (reasons := self._reasons(suite, fired))
        )

    def _decision_of(self, fired: int, selected: int) -> Decision:
        return Decision(
            suites=tuple(
                SuiteDecision(
                    suite=suite,
                    status="selected" if selected & bit else "not_selected",
                    probability=max(reasons.values(), default=0.0),
                    because=tuple(reasons),
                )
                for bit, _, suite in self._suites
                for reasons in (self._reasons(suite, fired),)
            )
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """What a rule asks, apart from any suite."""

    _clause: _Clause

    @property
    def scored(self) -> bool:
        """Whether it is on a metric."""
        return self._clause[1] in (_SCORES, _CATEGORIES)

    def holds(
        self, event: Interaction | None, scores: Mapping[str, float | None], categories: Mapping[str, str | None]
    ) -> bool:
        """Whether an event fulfils it; of a condition on a metric the event itself is not asked."""
        _, place, name, fulfils, _ = self._clause
        fields, labels = (event.__dict__, event.labels) if event is not None else ({}, {})
        value = (scores, categories, fields, labels)[place].get(name)
        return value is not None and fulfils(value)


def condition(rule: Rule, catalogue: Catalogue) -> Condition:
    """A rule's condition.

    Raises:
        ConfigurationError: if it is on what does not exist, or asks what cannot be asked.
    """
    return Condition(_clause(1, rule, catalogue))


def _usable(routing: RoutingSettings, catalogue: Catalogue) -> Iterator[Rule]:
    """The user's own rules all; of those that ship the ones whose metrics are switched on."""
    own = "rules" in routing.model_fields_set
    for rule in routing.rules:
        names = [rule.on] if rule.unless is None else [rule.on, rule.unless]
        if own or all(name in catalogue.metrics or _field(name) for name in names):
            yield rule


def _unknown_suite(name: str, rules: Sequence[Rule], suites: Sequence[str]) -> str:
    by = next((f"rule {rule.name}" for rule in rules if name in rule.suites), "a floor")
    return f"routing: {by} is for the suite {name!r}, and the suites are {', '.join(suites)}"


def _field(name: str) -> tuple[int, str, _Kind] | None:
    """Where a field stands, under which name, and of what kind it is; None where there is no such field."""
    group, _, label = name.partition(".")
    if group == "labels" and label:
        return _LABELS, label, "text"
    return (_FIELDS, name, _KINDS[name]) if name in _KINDS else None


def _value(rule: Rule, catalogue: Catalogue) -> tuple[int, str, _Kind]:
    """Where the value that a rule is on stands, under which name, and of what kind it is."""
    if found := _field(rule.on):
        return found
    metric = catalogue.metrics.get(rule.on)
    if metric is None:
        raise ConfigurationError(
            f"routing: rule {rule.name} is on {rule.on!r}, which is no field, nor a metric switched on"
        )
    if metric.cost != "free":
        raise ConfigurationError(f"routing: rule {rule.name} is on {rule.on!r}, which is known only after judging")
    if metric.unit == "category":
        return _CATEGORIES, rule.on, "label"
    return _SCORES, rule.on, "yes or no" if metric.unit == "boolean" else "number"


def _clause(bit: int, rule: Rule, catalogue: Catalogue) -> _Clause:
    place, name, kind = _value(rule, catalogue)
    asked, bound = rule.condition
    if asked not in _OPERATORS[kind]:
        takes = ", ".join(_OPERATORS[kind])
        raise ConfigurationError(
            f"routing: rule {rule.name} asks {asked!r} of {rule.on!r}, a {kind}, which takes {takes}"
        )
    if asked == "is" and isinstance(bound, str) != (kind in ("label", "text")):
        raise ConfigurationError(f"routing: rule {rule.name} compares {rule.on!r}, a {kind}, with what can never be it")
    if kind == "label":
        labels = catalogue.metrics[rule.on].labels
        wanted = {"is": (bound,), "in": bound, "present": ()}[asked]
        if unknown := [label for label in wanted if labels and label not in labels]:
            raise ConfigurationError(
                f"routing: rule {rule.name}: {rule.on!r} is never {unknown[0]!r}: {', '.join(labels)}"
            )
    if rule.unless is not None:
        metric = catalogue.metrics.get(rule.unless)
        if metric is None or metric.unit != "boolean" or metric.cost != "free":
            raise ConfigurationError(
                f"routing: rule {rule.name} has unless {rule.unless!r}, which is no free yes-or-no metric switched on"
            )
    return bit, place, name, _TESTS[asked](bound), rule.unless
