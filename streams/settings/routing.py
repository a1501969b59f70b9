"""Settings of the routing: which events the judge gets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, StringConstraints, field_validator, model_validator

from ragweir.streams.settings.group import SettingsGroup

SHIPPED_KEY = "ragweir"
"""The default of `routing.key`, which everybody knows."""


SHIPPED_KEY_WARNING = (
    "routing.key is the shipped default: whoever knows it can choose ids that are judged; "
    "set RAGWEIR_ROUTING__KEY to `openssl rand -hex 16`"
)


Probability = Annotated[float, Field(ge=0, le=1)]


Weight = Annotated[float, Field(ge=0)]


class Rule(SettingsGroup):
    """A reason to judge an event: one condition on a metric or a field. What is null or absent fulfils none."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,60}$")]
    on: str
    """A metric, a category, or a field of the interaction (`application`, `labels.region`, `expected`, ...)."""
    above: FiniteFloat | None = None
    """Fulfilled by what is greater; what is equal is not."""
    below: FiniteFloat | None = None
    """Fulfilled by what is less; what is equal is not."""
    is_: Annotated[str | bool | FiniteFloat | None, Field(alias="is")] = None
    """Text, a label, a number; true and false of a metric are 1 and 0."""
    in_: Annotated[tuple[str, ...] | None, Field(alias="in", min_length=1)] = None
    """Texts or labels."""
    present: Literal[True] | None = None
    """Whatever its value is, as long as there is one."""
    unless: str | None = None
    """A boolean metric that, when true, keeps the rule from firing."""
    suites: Annotated[tuple[str, ...], Field(min_length=1)]
    probability: Probability = 1.0
    """With which an event that fulfils the condition is selected."""

    @model_validator(mode="after")
    def _has_one_condition(self) -> Rule:
        if len(self._conditions) != 1:
            raise ValueError(f"rule {self.name} needs one of above, below, is, in, present")
        return self

    @property
    def condition(self) -> tuple[str, Any]:
        """Its operator and what that compares with.

        >>> Rule(name="risk", on="unsupported_risk", above=0.7, suites=("rubric",)).condition
        ('above', 0.7)
        """
        return self._conditions[0]

    @property
    def _conditions(self) -> list[tuple[str, Any]]:
        given = (("above", self.above), ("below", self.below), ("is", self.is_), ("in", self.in_))
        return [each for each in (*given, ("present", self.present)) if each[1] is not None]


_RULES = (
    Rule(name="risk", on="unsupported_risk", above=0.7, unless="refusal", suites=("rubric",)),
    # It fires on some two fifths of real answers, most of them good: enough is a part of them.
    Rule(name="hallucination", on="lexical_hallucination", above=0.7, suites=("rubric",), probability=0.2),
    Rule.model_validate({"name": "no-context", "on": "answered_without_context", "is": True, "suites": ("rubric",)}),
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
    """Which events the judge gets. A replay selects the same ones."""

    rules: tuple[Rule, ...] = _RULES
    """Reasons to judge an event; an event is selected with the largest probability of those that fire.

    Rules set here take the place of those that ship. Of these, the ones on metrics that are switched off are left out;
    a rule set here on such a metric is an error.
    """
    floors: dict[str, Probability] = {"rubric": 0.02, "context_recall": 0.02}
    """Per suite, the probability with which any event is selected at random, so that estimates speak of all events."""
    key: str = SHIPPED_KEY
    """The secret of the hash that selects events at random, 1 to 64 bytes, best given by the environment as
    RAGWEIR_ROUTING__KEY. Another key selects other events; a producer who knows the key, such as this default, can
    choose event ids that are judged."""

    @field_validator("rules")
    @classmethod
    def _names_differ(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        if len({rule.name for rule in rules}) < len(rules):
            raise ValueError("two rules have the same name")
        if any(rule.name == "floor" for rule in rules):
            raise ValueError("floor is the name of the random floor")
        return rules

    @field_validator("key")
    @classmethod
    def _fits_the_hash(cls, key: str) -> str:
        if not 0 < len(key.encode()) <= 64:
            raise ValueError("the key has 1 to 64 bytes")
        return key
