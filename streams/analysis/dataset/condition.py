"""Conditions on answers: what people said to a question, or the value of a metric."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ragweir.errors import ConfigurationError
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.settings.labels import Question

EXAMPLE = '"supported = no" or "unsupported_risk > 0.8"'
_ONE = re.compile(r"\s*(?P<name>[\w.]+)\s*(?P<sign>>=|<=|=|>|<)\s*(?P<value>\S.*?)\s*")
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True, slots=True)
class PeopleSaid:
    """Holds for the answers to which most people gave one answer."""

    question: str
    value: bool | str
    text: str
    """The condition as it was written."""


@dataclass(frozen=True, slots=True)
class ScoreIs:
    """Holds for the answers whose value of a metric is on one side of a number."""

    metric: str
    sign: str
    value: float
    text: str
    """The condition as it was written."""

    def holds(self, value: float | None) -> bool:
        """Return whether it holds for a value; it does not for none.

        >>> condition = ScoreIs("unsupported_risk", ">", 0.8, "unsupported_risk > 0.8")
        >>> condition.holds(0.9), condition.holds(0.8), condition.holds(None)
        (True, False, False)
        """
        return value is not None and _SIGNS[self.sign](value, self.value)


Condition = PeopleSaid | ScoreIs


def conditions(text: str, questions: Sequence[Question], catalogue: Mapping[str, Metric]) -> list[Condition]:
    """Parse conditions that are joined by `and`, all of which have to hold.

    >>> from ragweir.streams.settings.labels import SHIPPED
    >>> conditions("supported = no", SHIPPED, {})
    [PeopleSaid(question='supported', value=False, text='supported = no')]

    Raises:
        ConfigurationError: if one is none, or names nothing that there is.
    """
    return [_condition(part, questions, catalogue) for part in re.split(r"\s+and\s+", text.strip())]


def _condition(text: str, questions: Sequence[Question], catalogue: Mapping[str, Metric]) -> Condition:
    match = _ONE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"--where {text!r} is no condition; one looks like {EXAMPLE}")
    name, sign, value = match["name"], match["sign"], match["value"]
    if question := next((each for each in questions if each.name == name), None):
        said = question.read(value)
        if said is None or sign != "=":
            raise ConfigurationError(f"--where {text!r}: {name} = is one of {', '.join(question.answers)}")
        return PeopleSaid(name, said, f"{name} = {value}")
    if name not in catalogue:
        names = [each.name for each in questions] + list(catalogue)
        raise ConfigurationError(f"--where: there is no question and no metric {name}{nearest_hint(name, names)}")
    try:
        return ScoreIs(name, sign, float(value), f"{name} {sign} {value}")
    except ValueError:
        raise ConfigurationError(f"--where {text!r}: {value} is no number") from None
