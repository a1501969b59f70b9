"""Routing: the selection of events to judge. A pure function of the event, its scores, its row and the settings.

An event's probability of being judged by a suite is the largest of the suite's floor and of the rules that fire, and
for `rubric` that of the event's routing row (`ragweir.streams.services.shared.routing_rows`), unless the settings have
no share. A keyed hash of the event's id gives a uniform number from 0 to 1 per suite; below the probability the event
is selected. So every runtime, batch, worker and replay selects the same events, and suites are selected independently.
Another key selects other events.
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
from ragweir.metrics.judged.suites import suites as judged_suites
from ragweir.metrics.unavailable import CONTENT_ABSENT
from ragweir.schemas.evaluation import Decision, SuiteDecision
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.services.shared.routing_rows import DRAW_RANGE, FLOOR, RowDecision, Selection, shipped_selection
from ragweir.streams.settings import RoutingSettings, Rule
from ragweir.streams.settings.routing import SHARED_SUITE

_READ_BY_ALL = frozenset({"query", "response"})
"""The fields that every suite reads."""

_DRAWS = struct.Struct(">8Q")
"""The longest digest of the hash, with a draw for each suite: another length would change all draws."""
_CACHED_DECISIONS = 4_096
"""The most decisions that are cached; there are few, since they depend only on the rules that fired, the rows
and the draws."""

_CACHED_ROWS = 1_024
"""The most rows that are kept with the floor of the settings."""

_Kind = Literal["number", "label", "text", "yes or no", "list"]
_SCORES, _CATEGORIES, _FIELDS, _LABELS = range(4)
"""The sources of an event's values."""
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
"""The fields of the interaction that rules can be on, apart from labels, which are text."""
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
"""The tests of values by operator."""


# Plain tuples: reading a named one costs as much as the rest of the test.
_Clause = tuple[int, int, str, Callable[[Any], bool], str | None]
"""A compiled rule: its bit in the set of fired rules, source and name of its value, test, `unless`."""
_Chance = tuple[int, int, int]
"""A suite's bit in the set of selecting suites, the index of its draw, and the number of its values that select."""


class Router:
    """Decides about events.

    Args:
        routing: rules and floors.
        catalogue: the metrics that are switched on.
        suites: the names of all suites in an order that never changes; a new one comes last.

    Raises:
        ConfigurationError: if a rule or floor has an unknown name, or a test that does not fit its value.

    >>> from ragweir.metrics.catalogue import everything
    >>> router = Router(RoutingSettings(), Catalogue(everything()), ["rubric", "context_recall", "ragas", "factual",
    ...     "classification", "semantic"])
    >>> event = Interaction(event_id="1", query="Who?", response="Ada.")
    >>> for suite in router.decide(event, {"unsupported_risk": 0.99, "context_recall_heuristic": 0.7}, {}).suites[:2]:
    ...     print(suite)
    suite='rubric' status='selected' probability=1.0 because=('share',) row='shipped' row_digest=None
    suite='context_recall' status='not_selected' probability=0.02 because=('floor',) row=None row_digest=None
    """

    def __init__(self, routing: RoutingSettings, catalogue: Catalogue, suites: Sequence[str]) -> None:
        if len(suites) > _DRAWS.size // 8:
            raise ValueError(f"one digest has draws for {_DRAWS.size // 8} suites")
        rules = tuple(_usable(routing, catalogue))
        self._floors = routing.chosen_floors
        for name in [*(name for rule in rules for name in rule.suites), *self._floors]:
            if name not in suites:
                raise ConfigurationError(_unknown_suite(name, rules, suites))
        self._rules = rules
        self._clauses = tuple(_clause(1 << number, rule, catalogue) for number, rule in enumerate(rules))
        named = {name for rule in rules for name in rule.suites} | self._floors.keys()
        named |= {SHARED_SUITE} if routing.uses_rows else set()
        # The metrics of a suite are a group of its name: a suite that is switched off costs nothing.
        wanted = named & {metric.group for metric in catalogue.metrics.values()}
        self._suites = tuple((1 << place, place, name) for place, name in enumerate(suites) if name in wanted)
        self.suites = tuple(name for _, _, name in self._suites)
        """The suites that can select events."""
        self._shared_draw = next((place for _, place, name in self._suites if name == SHARED_SUITE), None)
        self.uses_rows = routing.uses_rows and self._shared_draw is not None
        """True if rows select events."""
        self._shipped = shipped_selection(routing)
        self._floored = lru_cache(_CACHED_ROWS)(self._floored_of)
        self._keyed = blake2b(digest_size=_DRAWS.size, key=routing.key.encode())
        self._chances = lru_cache(_CACHED_DECISIONS)(self._chances_of)
        self._decision = lru_cache(_CACHED_DECISIONS)(self._decision_of)
        needs = {name: _READ_BY_ALL.union(suite.needs) for name, suite in judged_suites().items()}
        self._needs = tuple((bit, needs.get(name, _READ_BY_ALL)) for bit, _, name in self._suites)

    def decide(
        self,
        event: Interaction,
        scores: Mapping[str, float | None],
        categories: Mapping[str, str | None],
        absent: Sequence[str] = (),
        row: Selection | None = None,
    ) -> Decision:
        """Decide about an event with its scores and categories of the free metrics.

        The decision has each suite of a rule or floor that is switched on, with its probability, and as reasons the
        rules that fired, in the order of the settings, and the floor. The suite of `routing.share` has the reasons of
        the row instead of a floor: `share` if it selects the event because of its risk, and `floor` if its draw is
        below the row's floor. A suite that reads a field in `absent`, whose content was not captured, has the
        probability 0 and the reason `content_absent`.

        Args:
            event: the event.
            scores: its scores.
            categories: its categories.
            absent: fields of the event that were not captured.
            row: the selection by the event's row; None for the shipped one.
        """
        sources = (scores, categories, event.__dict__, event.labels)
        fired = 0
        for bit, source, name, fulfils, unless in self._clauses:
            value = sources[source].get(name)
            if value is not None and fulfils(value) and (unless is None or scores.get(unless) != 1):
                fired |= bit
        keyed = self._keyed.copy()
        keyed.update(event.event_id.encode())
        draws = _DRAWS.unpack(keyed.digest())
        choice = None
        if self.uses_rows and self._shared_draw is not None:
            by = self._floored(row or self._shipped)
            choice = by.choice(scores.get("unsupported_risk"), draws[self._shared_draw])
        selected = 0
        for bit, index, bound in self._chances(fired, choice):
            if draws[index] < bound:
                selected |= bit
        barred = sum(bit for bit, needs in self._needs if not needs.isdisjoint(absent)) if absent else 0
        return self._decision(fired, choice, selected & ~barred, barred)

    def _floored_of(self, row: Selection) -> Selection:
        return row.with_floor(self._floors.get(SHARED_SUITE, 0.0))

    def _reasons(
        self, suite: str, fired: int, choice: RowDecision | None
    ) -> tuple[float, tuple[str, ...], str | None, str | None]:
        """Return a suite's probability, the reasons, and the row's revision and digest, if it has a row."""
        rules = {
            rule.name: rule.probability
            for number, rule in enumerate(self._rules)
            if fired & 1 << number and suite in rule.suites
        }
        highest = max(rules.values(), default=0.0)
        if choice is not None and suite == SHARED_SUITE:
            return max(highest, choice.probability), (*rules, *choice.because), choice.row, choice.digest
        floor = self._floors.get(suite, 0.0)
        return max(highest, floor), (*rules, FLOOR) if floor else tuple(rules), None, None

    def _chances_of(self, fired: int, choice: RowDecision | None) -> tuple[_Chance, ...]:
        return tuple(
            # Integers are compared, since the largest draws would round to 1.
            (bit, place, ceil(probability * DRAW_RANGE))
            for bit, place, suite in self._suites
            if (probability := self._reasons(suite, fired, choice)[0])
        )

    def _decision_of(self, fired: int, choice: RowDecision | None, selected: int, barred: int) -> Decision:
        return Decision(
            suites=tuple(
                SuiteDecision(
                    suite=suite,
                    status="selected" if selected & bit else "not_selected",
                    probability=probability,
                    because=because,
                    row=row,
                    row_digest=digest,
                )
                for bit, _, suite in self._suites
                for probability, because, row, digest in (
                    (0.0, (CONTENT_ABSENT,), None, None) if barred & bit else self._reasons(suite, fired, choice),
                )
            )
        )


@dataclass(frozen=True, slots=True)
class Condition:
    """The test of a rule, without its suites."""

    _clause: _Clause

    @property
    def scored(self) -> bool:
        """True if it is on a metric."""
        return self._clause[1] in (_SCORES, _CATEGORIES)

    def holds(
        self, event: Interaction | None, scores: Mapping[str, float | None], categories: Mapping[str, str | None]
    ) -> bool:
        """Return whether an event fulfils it; a condition on a metric does not need the event."""
        _, source, name, fulfils, _ = self._clause
        fields, labels = (event.__dict__, event.labels) if event is not None else ({}, {})
        value = (scores, categories, fields, labels)[source].get(name)
        return value is not None and fulfils(value)


def condition(rule: Rule, catalogue: Catalogue) -> Condition:
    """Return a rule's condition.

    Raises:
        ConfigurationError: if it has an unknown name, or a test that does not fit its value.
    """
    return Condition(_clause(1, rule, catalogue))


def _usable(routing: RoutingSettings, catalogue: Catalogue) -> Iterator[Rule]:
    """Yield the user's rules, or the default rules whose metrics are switched on."""
    own = "rules" in routing.model_fields_set
    for rule in routing.chosen_rules:
        names = [rule.on] if rule.unless is None else [rule.on, rule.unless]
        if own or all(name in catalogue.metrics or _field(name) for name in names):
            yield rule


def _unknown_suite(name: str, rules: Sequence[Rule], suites: Sequence[str]) -> str:
    by = next((f"rule {rule.name}" for rule in rules if name in rule.suites), "a floor")
    return (
        f"routing: {by} is for the suite {name!r}, and the suites are {', '.join(suites)}{nearest_hint(name, suites)}"
    )


def _field(name: str) -> tuple[int, str, _Kind] | None:
    """Return the source, name and kind of a field; None if there is no such field."""
    group, _, label = name.partition(".")
    if group == "labels" and label:
        return _LABELS, label, "text"
    return (_FIELDS, name, _KINDS[name]) if name in _KINDS else None


def _value(rule: Rule, catalogue: Catalogue) -> tuple[int, str, _Kind]:
    """Return the source, name and kind of the value of a rule."""
    if found := _field(rule.on):
        return found
    metric = catalogue.metrics.get(rule.on)
    if metric is None:
        raise ConfigurationError(
            f"routing: rule {rule.name} is on {rule.on!r}, which is no field, nor a metric switched on"
            f"{catalogue.hint(rule.on, _KINDS)}"
        )
    if metric.cost != "free":
        raise ConfigurationError(f"routing: rule {rule.name} is on {rule.on!r}, which is known only after judging")
    if metric.unit == "category":
        return _CATEGORIES, rule.on, "label"
    return _SCORES, rule.on, "yes or no" if metric.unit == "boolean" else "number"


def _clause(bit: int, rule: Rule, catalogue: Catalogue) -> _Clause:
    source, name, kind = _value(rule, catalogue)
    test, bound = rule.condition
    if test not in _OPERATORS[kind]:
        takes = ", ".join(_OPERATORS[kind])
        raise ConfigurationError(
            f"routing: rule {rule.name} asks {test!r} of {rule.on!r}, a {kind}, which takes {takes}"
        )
    if test == "is" and isinstance(bound, str) != (kind in ("label", "text")):
        raise ConfigurationError(f"routing: rule {rule.name} compares {rule.on!r}, a {kind}, with what can never be it")
    if kind == "label":
        labels = catalogue.metrics[rule.on].labels
        wanted = {"is": (bound,), "in": bound, "present": ()}[test]
        if unknown := [label for label in wanted if labels and label not in labels]:
            raise ConfigurationError(
                f"routing: rule {rule.name}: {rule.on!r} is never {unknown[0]!r}: {', '.join(labels)}"
            )
    if rule.unless is not None:
        metric = catalogue.metrics.get(rule.unless)
        if metric is None or metric.unit != "boolean" or metric.cost != "free":
            raise ConfigurationError(
                f"routing: rule {rule.name} has unless {rule.unless!r}, which is no free yes-or-no metric switched on"
                f"{catalogue.hint(rule.unless)}"
            )
    return bit, source, name, _TESTS[test](bound), rule.unless
