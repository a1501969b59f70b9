"""Settings of people's labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import FiniteFloat, StringConstraints, field_validator, model_validator

from ragweir.schemas.label import CANNOT_TELL, WITHDRAWN
from ragweir.streams.settings.group import SettingsGroup

DEFAULT_LABEL_KEY = "ragweir"
"""The key of hashed raters if none is set, which is public."""
YES, NO = "yes", "no"
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,60}$")]
Step = Annotated[str, StringConstraints(min_length=1, max_length=60, strip_whitespace=True)]


class Question(SettingsGroup):
    """A question that people answer about single answers, and the metric that answers it too."""

    name: Name
    """Name of the question; labels and series carry it."""
    text: Annotated[str, StringConstraints(min_length=1, max_length=500)]
    """Text that the rater reads."""
    scale: Literal["binary", "ordinal", "category"] = "binary"
    """`binary` is answered by yes or no, `ordinal` by one of ordered steps, `category` by one of unordered values."""
    values: tuple[Step, ...] = ()
    """Steps of an ordinal scale in ascending order, or values of a category; empty for a binary question."""
    bad: tuple[Step, ...] = (NO,)
    """Answers that call the event bad; the others call it good. Names of `values`, or `yes` or `no`."""
    metric: str
    """Metric that answers the same question; numbers of the catalogue that are better high or low."""
    threshold: FiniteFloat = 0.5
    """Value that divides bad from good: below it is bad if higher values of the metric are better, else above it."""
    also: Mapping[str, FiniteFloat] = {}
    """Further metrics that answer the question, with their thresholds. They are reported beside `metric`, and answers
    are drawn by the first of them that the events have if no event has `metric`."""

    @field_validator("values")
    @classmethod
    def _are_distinct(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(values)) < len(values):
            raise ValueError("two values are equal")
        if taken := {CANNOT_TELL, WITHDRAWN}.intersection(values):
            raise ValueError(f"{min(taken)} is an answer of every question")
        return values

    @model_validator(mode="after")
    def _fits(self) -> Question:
        if self.scale == "binary" and self.values:
            raise ValueError(f"question {self.name} is binary and has no values; scale is ordinal or category")
        if self.scale != "binary" and not 2 <= len(self.values) <= 9:
            raise ValueError(f"question {self.name} needs 2 to 9 values, which are answered by one key each")
        if not self.bad or not set(self.bad) < set(self.answers):
            raise ValueError(f"bad of question {self.name} needs some of {', '.join(self.answers)}, and not all")
        return self

    @property
    def answers(self) -> tuple[str, ...]:
        """The names of its answers, without `cannot_tell`."""
        return self.values or (YES, NO)

    def read(self, value: object) -> bool | str | None:
        """Return the value of a label; None if it is none of this question.

        >>> question = Question(name="supported", text="?", metric="unsupported_risk")
        >>> question.read("No"), question.read(True), question.read("cannot_tell"), question.read(7)
        (False, True, 'cannot_tell', None)
        """
        if value in (CANNOT_TELL, WITHDRAWN):
            return str(value)
        if isinstance(value, bool):
            return value if self.scale == "binary" else None
        named = {name.casefold(): name for name in self.answers}
        if self.scale == "binary":
            named |= {"true": YES, "false": NO, "1": YES, "0": NO, "1.0": YES, "0.0": NO}
        if (found := named.get(str(value).strip().casefold())) is None:
            return None
        return found == YES if self.scale == "binary" else found

    def is_bad(self, value: bool | str) -> bool | None:  # noqa: FBT001 - an answer, not a switch
        """Return whether a label's value calls the event bad; None if it does not say.

        >>> Question(name="supported", text="?", metric="unsupported_risk").is_bad(False)
        True
        """
        name = (YES if value else NO) if isinstance(value, bool) else value
        return name in self.bad if name in self.answers else None


SHIPPED = (
    Question(
        name="supported",
        text="Is everything in the answer supported by the passages?",
        metric="judge_faithfulness",
        also={"unsupported_risk": 0.7},
    ),
    Question(name="helpful", text="Does the answer help with the question?", metric="judge_relevance"),
    Question(
        name="refused_rightly",
        text="Is it right that the answer gives, or does not give, what was asked for?",
        metric="refusal_correct",
    ),
)


class LabelSettings(SettingsGroup):
    """People's labels: the questions, and what is kept of the raters."""

    questions: tuple[Question, ...] = SHIPPED
    """Questions that people answer; each is a table `[[labels.questions]]`, and they replace the shipped ones:
    `supported`, `helpful` and `refused_rightly`."""
    key: Annotated[str, StringConstraints(min_length=1)] = DEFAULT_LABEL_KEY
    """Secret key of the hashes that stand for raters and givers of feedback; set it in the environment, as
    RAGWEIR_LABELS__KEY. With the default key, which is public, a name can be guessed from its hash."""
    comments: bool = False
    """True to keep the comments of raters, which may repeat text of events."""
    range: Annotated[str, StringConstraints(pattern=r"^\d+[mhd]$")] = "7d"
    """Time that a draw covers by default, before now, such as `7d`."""

    @field_validator("questions")
    @classmethod
    def _names_differ(cls, questions: tuple[Question, ...]) -> tuple[Question, ...]:
        if not questions:
            raise ValueError("there is no question")
        if len({each.name for each in questions}) < len(questions):
            raise ValueError("two questions have the same name")
        return questions
