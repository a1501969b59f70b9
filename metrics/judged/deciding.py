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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

MOST_QUESTIONS = 400
"""Maximum number of questions of one call."""
LIKELY = 0.5
"""The least probability of a statement that counts as true."""

Probabilities = tuple[float, ...]
"""The probabilities of a question's options, in their order; their sum is 1."""

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


@dataclass(frozen=True, slots=True)
class Deciding:
    """The form of a question to the judge for a decision model."""

    task: str
    """The instructions that all questions share, with nothing of the event; may be empty."""
    questions: tuple[DecisionQuestion, ...]
    read: Callable[[Sequence[Probabilities]], BaseModel]
    """Returns the answer from the probabilities of each question's options."""


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


def score(name: str, text: str) -> DecisionQuestion:
    """Return the question for a score on the levels of a text."""
    return DecisionQuestion(name, "score", *scale(text))


def scale(text: str) -> tuple[str, tuple[Option, ...]]:
    """Return the instructions of a task and its levels, lowest first; the value of a range of scores is its middle."""
    levels = [
        Option(f"{low} to {high}" if high else low, said, round((float(low) + float(high or low)) / 2, 6))
        for low, high, said in _LEVEL.findall(text)
    ]
    return _LEVEL.sub("", text).strip(), tuple(sorted(levels, key=lambda level: level.value))
