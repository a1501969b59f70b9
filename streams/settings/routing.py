"""Settings of the routing, the selection of events for the judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, StringConstraints, field_validator, model_validator

from ragweir.streams.settings.group import SettingsGroup

DEFAULT_ROUTING_KEY = "ragweir"
"""The default of `routing.key`, which is public."""
DEFAULT_ROUTING_KEY_WARNING = (
    "routing.key is the shipped default: whoever knows it can choose ids that are judged; "
    "set RAGWEIR_ROUTING__KEY to `openssl rand -hex 16`"
)

Probability = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]


class Rule(SettingsGroup):
    """A rule that selects events for the judge by one condition on a metric or a field, which null does not fulfil."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,60}$")]
    """Name of the rule, unique among the rules; evaluations give it as the reason of a selection."""
    on: str
    """A metric, a category, or a field of the interaction (`application`, `labels.region`, `expected`, ...)."""
    above: FiniteFloat | None = None
    """Condition: the value is greater than this number."""
    below: FiniteFloat | None = None
    """Condition: the value is less than this number."""
    is_: Annotated[str | bool | FiniteFloat | None, Field(alias="is")] = None
    """Condition: the value is this text, label or number; true and false of a metric are 1 and 0."""
    in_: Annotated[tuple[str, ...] | None, Field(alias="in", min_length=1)] = None
    """Condition: the value is one of these texts or labels."""
    present: Literal[True] | None = None
    """Condition: there is a value, whatever it is."""
    unless: str | None = None
    """Name of a boolean metric; the rule does not fire where it is true. Unset: no such exception."""
    suites: Annotated[tuple[str, ...], Field(min_length=1)]
    """Suites of judged metrics that the event is selected for."""
    probability: Probability = 1.0
    """Probability with which an event that fulfils the condition is selected, from 0 to 1."""

    @model_validator(mode="after")
    def _has_one_condition(self) -> Rule:
        if len(self._conditions) != 1:
            raise ValueError(f"rule {self.name} needs one of above, below, is, in, present")
        return self

    @property
    def condition(self) -> tuple[str, Any]:
        """The operator and its operand.

        >>> Rule(name="risk", on="unsupported_risk", above=0.7, suites=("rubric",)).condition
        ('above', 0.7)
        """
        return self._conditions[0]

    @property
    def _conditions(self) -> list[tuple[str, Any]]:
        given = (("above", self.above), ("below", self.below), ("is", self.is_), ("in", self.in_))
        return [each for each in (*given, ("present", self.present)) if each[1] is not None]


SHARED_SUITE = "rubric"
"""The suite whose events are selected by `routing.share`."""

_RULES = (
    Rule(name="risk", on="unsupported_risk", above=0.7, suites=(SHARED_SUITE,)),
    # It fires on about 40 % of real answers, most of them good, so a sample of them is enough.
    Rule(name="hallucination", on="lexical_hallucination", above=0.7, suites=(SHARED_SUITE,), probability=0.2),
    Rule.model_validate(
        {"name": "no-context", "on": "answered_without_context", "is": True, "suites": (SHARED_SUITE,)}
    ),
    Rule(name="recall", on="context_recall_heuristic", below=0.7, suites=("context_recall",)),
    Rule.model_validate({"name": "limit", "on": "hit_limit_warning", "is": True, "suites": ("context_recall",)}),
    Rule(
        name="reference",
        on="expected",
        present=True,
        suites=("ragas", "factual", "classification", "semantic"),
        probability=0.02,
    ),
)


class RoutingSettings(SettingsGroup):
    """Selection of events for the judge. It is deterministic: a replay selects the same events."""

    share: Probability = 0.1
    """Share of an application's events that the suite `rubric` judges, from 0 to 1. The rows of the topic `control` say
    which: the events with the highest `unsupported_risk`, and some of the others at random. It replaces the default
    rules and the default floor of `rubric`; those set here hold in addition, and the largest probability counts. If
    rules or floors set here name `rubric` and `share` is unset, there is no share: rules and floors alone select."""
    floor_share: Probability = 0.25
    """Part of `share` that is selected at random from all events, from 0 to 1. Estimates over all events need it; a
    higher one narrows their intervals, and fewer bad answers are found. The same part of each budget of the judge is
    kept for these events."""
    share_from_budget: bool = False
    """If true, `ragweir routing plan` makes rows with the share for which `judge.daily_budget_usd` suffices, by the
    events of the last seven days and the cost of a judged event in the ledger. `share` holds until a cost is known, and
    for applications without a row."""
    rules: tuple[Rule, ...] = _RULES
    """Rules that select events for the judge; an event is selected with the largest probability of the rules that fire.
    Rules set here replace the default ones. A default rule on a metric that is switched off is left out; a rule set
    here on such a metric is an error. The default rules for `rubric` hold only without a `share`."""
    floors: dict[str, Probability] = {SHARED_SUITE: 0.02, "context_recall": 0.02}
    """Probability with which any event is selected at random, by suite, from 0 to 1. Estimates over all events need a
    floor above 0; a higher one narrows their intervals and costs more calls. The default floor of `rubric` holds only
    without a `share`."""
    key: str = DEFAULT_ROUTING_KEY
    """Secret key, 1 to 64 bytes, of the hash that selects events at random; set it in the environment, as
    RAGWEIR_ROUTING__KEY. Another key selects other events. Producers that know the key, and everybody knows the
    default, can choose event ids that are judged."""

    @property
    def has_share(self) -> bool:
        """True if `share` selects events for `rubric`; false if it is unset, and rules or floors set by hand name it.

        >>> RoutingSettings(floors={"rubric": 0.1}).has_share, RoutingSettings(floors={"ragas": 0.1}).has_share
        (False, True)
        """
        return "share" in self.model_fields_set or not (
            (self._are_own_rules and any(SHARED_SUITE in rule.suites for rule in self.rules))
            or (self._are_own_floors and SHARED_SUITE in self.floors)
        )

    @property
    def uses_rows(self) -> bool:
        """True if rows select events."""
        return self.has_share and self.share > 0

    @property
    def chosen_rules(self) -> tuple[Rule, ...]:
        """The rules that hold: the default ones for `rubric` only without a share."""
        if self._are_own_rules or not self.has_share:
            return self.rules
        return tuple(rule for rule in self.rules if SHARED_SUITE not in rule.suites)

    @property
    def chosen_floors(self) -> Mapping[str, float]:
        """The floors that hold: the default one of `rubric` only without a share."""
        if self._are_own_floors or not self.has_share:
            return self.floors
        return {suite: floor for suite, floor in self.floors.items() if suite != SHARED_SUITE}

    @property
    def reserved_share(self) -> float:
        """The part of each budget of the judge that only events selected by a random floor may spend."""
        return self.floor_share if self.has_share else 0.0

    @property
    def _are_own_rules(self) -> bool:
        return "rules" in self.model_fields_set

    @property
    def _are_own_floors(self) -> bool:
        return "floors" in self.model_fields_set

    @field_validator("rules")
    @classmethod
    def _names_differ(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        if len({rule.name for rule in rules}) < len(rules):
            raise ValueError("two rules have the same name")
        if any(rule.name == "floor" for rule in rules):
            raise ValueError("floor is the name of the random floor")
        if any(rule.name == "share" for rule in rules):
            raise ValueError("share is the name of the selection by routing.share")
        return rules

    @field_validator("key")
    @classmethod
    def _fits_the_hash(cls, key: str) -> str:
        if not 0 < len(key.encode()) <= 64:
            raise ValueError("the key has 1 to 64 bytes")
        return key
