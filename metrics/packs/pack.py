"""The base of question packs: a question id, and the metrics that are defined for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from ragweir.metrics.metric import Better, Metric, Unit, Value
from ragweir.metrics.text.phrases import Phrase, phrase
from ragweir.metrics.view import View


def _tokens(value: object) -> Phrase:
    if not isinstance(value, str):
        raise ValueError("is not text")  # noqa: TRY004 (pydantic reports ValueErrors)
    tokens = phrase(value)
    if not tokens:
        raise ValueError("has no word or number to look for")
    return tokens


GROUP = "packs"
"""The group of all metrics of packs."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,64}$")]
Question = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[Phrase, BeforeValidator(_tokens)]


class PackPart(BaseModel):
    """A frozen part of a pack, in which an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Pack(PackPart, ABC):
    """Base of the forms of packs."""

    question: Question
    source: str = "a question pack"

    @abstractmethod
    def metrics(self) -> Iterator[Metric]:
        """Yield the pack's metrics."""

    @model_validator(mode="after")
    def _has_distinct_names(self) -> Pack:
        names = [metric.name.removeprefix(f"{self.question}.") for metric in self.metrics()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two metrics of the pack are called {', '.join(twice)}")
        return self

    def metric(
        self,
        name: str,
        compute: Callable[[View], Value],
        unit: Unit,
        better: Better,
        meaning: str,
        formula: str,
        undefined: str = "never",
        needs: tuple[str, ...] = (),
    ) -> Metric:
        """Return one of the pack's metrics; `name` is without the question."""
        compute.__doc__ = (
            f"{meaning}\n\nFormula: {formula}.\nUndefined: {undefined}.\n"
            f"Reference: {self.source}, for question {self.question}."
        )
        name = f"{self.question}.{name}"
        return Metric(compute, GROUP, unit, better, needs, self.source, question=self.question, name=name)
