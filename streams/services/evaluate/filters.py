"""Filters: conditions that the events of a replay must all fulfil.

Their fields, metrics and operators are those of routing rules.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.interaction import Interaction
from ragweir.streams.services.evaluate.routing import Condition, condition
from ragweir.streams.settings import Rule
from ragweir.streams.settings.time_arguments import time_argument

_CONDITION = re.compile(r"\s*([\w.-]+)\s*([=<>])\s*(.*\S)\s*")
_OPERATORS: Mapping[str, str] = {"=": "is", "<": "below", ">": "above"}
_BOOLEANS = {"true": True, "false": False}
_EXAMPLES = "such as application=support-bot, labels.region=eu, context_support<0.5, refusal=true or time>2026-11-01"


@dataclass(frozen=True, slots=True)
class Filters:
    """Compiled conditions.

    >>> from ragweir.metrics.catalogue import everything
    >>> filters = Filters.read(["application=bot", "context_support<0.5"], Catalogue(everything()))
    >>> event = Interaction(event_id="1", query="Who?", response="Ada.", application="bot")
    >>> filters.admit_event(event, time_argument("2026-11-22", "now"))
    True
    >>> filters.admit_scores({"context_support": 0.5}, {}), filters.admit_scores({"context_support": None}, {})
    (False, False)
    """

    fields: Sequence[Condition] = ()
    scores: Sequence[Condition] = ()
    after: datetime | None = None
    before: datetime | None = None

    @classmethod
    def read(cls, texts: Sequence[str], catalogue: Catalogue) -> Filters:
        """Read conditions.

        Raises:
            ConfigurationError: if one is malformed, or does not fit its field or metric.
        """
        fields: list[Condition] = []
        scores: list[Condition] = []
        times: dict[str, datetime] = {}
        for text in texts:
            found = _CONDITION.fullmatch(text)
            if found is None:
                raise ConfigurationError(f"--only {text!r} is no condition {_EXAMPLES}")
            name, sign, value = found.groups()
            if name == "time":
                if sign == "=":
                    raise ConfigurationError(f"--only {text!r}: a time takes < or >")
                times[sign] = time_argument(value, f"--only {text!r}:")
                continue
            made = _condition(text, name, sign, value, catalogue)
            (scores if made.scored else fields).append(made)
        return cls(tuple(fields), tuple(scores), times.get(">"), times.get("<"))

    def admit_event(self, event: Interaction, time: datetime) -> bool:
        """Return whether an event fulfils the conditions on its time and fields."""
        if (self.after is not None and time <= self.after) or (self.before is not None and time >= self.before):
            return False
        return not self.fields or all(each.holds(event, {}, {}) for each in self.fields)

    def admit_scores(self, scores: Mapping[str, float | None], categories: Mapping[str, str | None]) -> bool:
        """Return whether a scored event fulfils the conditions on metrics."""
        return not self.scores or all(each.holds(None, scores, categories) for each in self.scores)


def _condition(text: str, name: str, sign: str, value: str, catalogue: Catalogue) -> Condition:
    metric = catalogue.metrics.get(name)
    operand: str | float | bool = value
    try:
        if sign != "=" or (metric is not None and metric.unit != "category") or name == "answerable":
            operand = _BOOLEANS[value] if value in _BOOLEANS else float(value)
        rule = Rule.model_validate({"name": "only", "on": name, _OPERATORS[sign]: operand, "suites": ("none",)})
    except ValueError:
        raise ConfigurationError(f"--only {text!r}: {value} is no number, nor true or false") from None
    try:
        return condition(rule, catalogue)
    except ConfigurationError as wrong:
        raise ConfigurationError(f"--only {text!r}: {str(wrong).removeprefix('routing: rule only ')}") from None
