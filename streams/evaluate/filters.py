"""Filters: which events a replay is about, said as conditions that must all hold.

What a condition can be on, and what it can ask, is as for the rules of the routing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.interaction import Interaction
from ragweir.streams.evaluate.routing import Condition, condition
from ragweir.streams.settings import Rule
from ragweir.streams.time_arguments import time_argument

_FORM = re.compile(r"\s*([\w.-]+)\s*([=<>])\s*(.*\S)\s*")
_ASKS: Mapping[str, str] = {"=": "is", "<": "below", ">": "above"}
_TRUTHS = {"true": True, "false": False}
_EXAMPLES = "such as application=support-bot, labels.region=eu, context_support<0.5, refusal=true or time>2026-11-01"


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions, made ready.

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
        """From their texts.

        Raises:
            ConfigurationError: if one is none, or asks what cannot be asked.
        """
        fields: list[Condition] = []
        scores: list[Condition] = []
        times: dict[str, datetime] = {}
        for text in texts:
            found = _FORM.fullmatch(text)
            if found is None:
                raise ConfigurationError(f"--only {text!r} is no condition {_EXAMPLES}")
            name, sign, value = found.groups()
            if name == "time":
                times[sign] = _time(text, sign, value)
                continue
            made = _condition(text, name, sign, value, catalogue)
            (scores if made.scored else fields).append(made)
        return cls(tuple(fields), tuple(scores), times.get(">"), times.get("<"))

    def admit_event(self, event: Interaction, time: datetime) -> bool:
        """Whether an event fulfils what can be asked before it is scored."""
        if (self.after is not None and time <= self.after) or (self.before is not None and time >= self.before):
            return False
        return all(each.holds(event, {}, {}) for each in self.fields)

    def admit_scores(self, scores: Mapping[str, float | None], categories: Mapping[str, str | None]) -> bool:
        """Whether an event that was scored fulfils the rest."""
        return all(each.holds(None, scores, categories) for each in self.scores)


def _time(text: str, sign: str, value: str) -> datetime:
    if sign == "=":
        raise ConfigurationError(f"--only {text!r}: a time takes < or >")
    return time_argument(value, f"--only {text!r}:")


def _condition(text: str, name: str, sign: str, value: str, catalogue: Catalogue) -> Condition:
    metric = catalogue.metrics.get(name)
    asked: str | float | bool = value
    if sign != "=" or (metric is not None and metric.unit != "category") or name == "answerable":
        try:
            asked = _TRUTHS[value] if value in _TRUTHS else float(value)
            rule = Rule.model_validate({"name": "only", "on": name, _ASKS[sign]: asked, "suites": ("none",)})
        except ValueError:
            raise ConfigurationError(f"--only {text!r}: {value} is no number, nor true or false") from None
    else:
        rule = Rule.model_validate({"name": "only", "on": name, "is": asked, "suites": ("none",)})
    try:
        return condition(rule, catalogue)
    except ConfigurationError as wrong:
        raise ConfigurationError(f"--only {text!r}: {str(wrong).removeprefix('routing: rule only ')}") from None
