r"""Questions to a decision model, which answers each with probabilities of given options and writes no text.

A question is a statement that is true or false, a choice of one option, or a score on levels in their order. The levels
of scales in words are read from the tasks of a chat model, so that both kinds of model have the same ones:

>>> instructions, levels = scale("Is it polite?\n1.0: it is\n0.2 to 0.6: in part\n0.0: not at all")
>>> instructions, [(level.label, level.value) for level in levels]
('Is it polite?', [('0.0', 0.0), ('0.2 to 0.6', 0.4), ('1.0', 1.0)])
>>> DecisionQuestion("polite", "score", instructions, levels).value((0.1, 0.4, 0.5))
0.66
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import Literal

from pydantic import BaseModel

LIKELY = 0.5
"""The least probability of a statement that counts as true."""

Probabilities = tuple[float, ...]
"""The probabilities of a question's options, in their order; their sum is 1."""
Distribution = dict[str, float]
"""The probabilities of a metric's values: labels, or numbers as text."""
_DIGITS, _ROUNDED = 6, 1e-3
"""Digits of values and probabilities, and the most by which the sum of a distribution differs from 1."""

_LEVEL = re.compile(r"^(\d+(?:\.\d+)?)(?: to (\d+(?:\.\d+)?))?: (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Option:
    """One possible answer."""

    label: str
    description: str = ""
    value: float = 0.0
    """Its number on the scale of a score."""


TRUE_OR_FALSE = (Option("true"), Option("false"))


@dataclass(frozen=True, slots=True)
class DecisionQuestion:
    """One question about texts."""

    name: str
    kind: Literal["predicate", "choice", "score"]
    instructions: str
    options: tuple[Option, ...] = TRUE_OR_FALSE
    """Those of a score are in ascending order."""
    metric: str = ""
    """Name of the metric that the answer is the value of; empty if there is none."""
    factor: float = 1.0
    """The metric's value for a score of 1."""

    def value(self, probabilities: Probabilities) -> bool | str | float:
        """Return the answer: true or false, the label of the likeliest option, or the expected score.

        >>> DecisionQuestion("a", "predicate", "It is blue.").value((0.5, 0.5))
        True
        >>> DecisionQuestion("a", "choice", "Which?", (Option("red"), Option("blue"))).value((0.3, 0.7))
        'blue'
        """
        if self.kind == "predicate":
            return probabilities[0] >= LIKELY
        if self.kind == "choice":
            return self.options[probabilities.index(max(probabilities))].label
        return round(sum(each * option.value for each, option in zip(probabilities, self.options, strict=True)), 6)

    def reason(self, probabilities: Probabilities) -> str:
        """Return the likeliest option and its probability, in place of a reason.

        >>> DecisionQuestion("a", "choice", "Which?", (Option("red"), Option("blue"))).reason((0.3, 0.7))
        'likeliest blue (probability 0.70)'
        """
        likeliest = max(probabilities)
        return f"likeliest {self.options[probabilities.index(likeliest)].label} (probability {likeliest:.2f})"

    def distribution(self, probabilities: Probabilities) -> Distribution:
        """Return the probabilities of the metric's values.

        >>> DecisionQuestion("a", "score", "", (Option("", value=0.15), Option("", value=1.0))).distribution((0.2, 0.8))
        {'0.15': 0.2, '1': 0.8}
        """
        is_score = self.kind == "score"
        values = [_shown(self.factor * each.value) if is_score else each.label for each in self.options]
        return _distribution(values, probabilities)


@dataclass(frozen=True, slots=True)
class Deciding:
    """The form of a question to the judge for a decision model."""

    task: str
    """The instructions that all questions share, with nothing of the event; may be empty."""
    questions: tuple[DecisionQuestion, ...]
    read: Callable[[Sequence[Probabilities]], BaseModel]
    """Returns the answer from the probabilities of each question's options."""
    share: str = ""
    """Name of the metric that is the percentage of true statements; empty if there is none."""

    def distributions(self, probabilities: Sequence[Probabilities]) -> dict[str, Distribution]:
        """Return the probabilities of the values of metrics, by metric."""
        pairs = zip(self.questions, probabilities, strict=True)
        found = {question.metric: question.distribution(own) for question, own in pairs if question.metric}
        return {**found, self.share: percentages([own[0] for own in probabilities])} if self.share else found


def by_fields(answer: type[BaseModel], *questions: DecisionQuestion, task: str = "") -> Deciding:
    """Return the form whose questions have the names of the answer's fields.

    Args:
        answer: the model of the answer.
        questions: one question for each field that is no reason. Its reason is the field `NAME_reason`, or `reason`.
        task: the instructions that all questions share.
    """

    def read(probabilities: Sequence[Probabilities]) -> BaseModel:
        values: dict[str, object] = {}
        for question, own in zip(questions, probabilities, strict=True):
            reason = f"{question.name}_reason"
            values[question.name] = question.value(own)
            values[reason if reason in answer.model_fields else "reason"] = question.reason(own)
        return answer(**values)

    return Deciding(task, questions, read)


def score(name: str, text: str, metric: str = "", factor: float = 1.0) -> DecisionQuestion:
    """Return the question for a score on the levels of a text, and the metric that it is the value of."""
    return DecisionQuestion(name, "score", *scale(text), metric, factor)


def percentages(likely: Sequence[float]) -> Distribution:
    """Return the probabilities of each percentage of true statements, which are taken to be independent.

    >>> percentages([0.5, 0.9])
    {'0': 0.05, '50': 0.5, '100': 0.45}
    """
    counts = [1.0]
    for each in likely:
        counts = [a * (1 - each) + b * each for a, b in zip([*counts, 0.0], [0.0, *counts], strict=True)]
    return _distribution([_shown(100 * count / len(likely)) for count in range(len(counts))], counts)


def expected(distribution: Mapping[str, float]) -> float | None:
    """Return the mean of a distribution of numbers; None if it is none.

    >>> expected({"0": 0.05, "50": 0.5, "100": 0.45})
    70.0
    >>> [expected(each) for each in ({"CORRECT": 1.0}, {"0.5": 0.5}, {"nan": 1.0}, {})]
    [None, None, None, None]
    """
    try:
        mean = fsum(float(value) * probability for value, probability in distribution.items())
    except ValueError:
        return None
    return mean if isfinite(mean) and abs(fsum(distribution.values()) - 1) < _ROUNDED else None


def _shown(value: float) -> str:
    return f"{round(value, _DIGITS):.12g}"


def _distribution(values: Sequence[str], probabilities: Sequence[float]) -> Distribution:
    """Return the probabilities of values, rounded, without those of 0."""
    sums: dict[str, float] = defaultdict(float)
    for value, probability in zip(values, probabilities, strict=True):
        sums[value] += probability
    return {value: rounded for value, each in sums.items() if (rounded := round(each, _DIGITS))}


def scale(text: str) -> tuple[str, tuple[Option, ...]]:
    """Return the instructions of a task and its levels, lowest first; the value of a range of scores is its middle."""
    levels = [
        Option(f"{low} to {high}" if high else low, said, round((float(low) + float(high or low)) / 2, 6))
        for low, high, said in _LEVEL.findall(text)
    ]
    return _LEVEL.sub("", text).strip(), tuple(sorted(levels, key=lambda level: level.value))
