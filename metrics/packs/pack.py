"""What every question pack is: a question, and the metrics that it defines, as data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Annotated, NamedTuple

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


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_]{1,64}$")]
Question = Annotated[str, Field(min_length=1, max_length=200)]
Words = Annotated[Phrase, BeforeValidator(_tokens)]


class PackPart(BaseModel):
    """A frozen part of a pack, in which a misspelt field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Finding(NamedTuple):
    """One metric of a pack: its own name, and the rest of its line in the catalogue."""

    name: str
    compute: Callable[[View], Value]
    unit: Unit
    better: Better
    meaning: str
    formula: str
    undefined: str = "never"
    needs: tuple[str, ...] = ()


class Pack(PackPart, ABC):
    """What all forms have: the question, and where the pack comes from."""

    question: Question
    source: str = "a question pack"

    @abstractmethod
    def findings(self) -> Iterator[Finding]:
        """The pack's metrics, without the question before their names."""

    @model_validator(mode="after")
    def _distinct_names(self) -> Pack:
        names = [finding.name for finding in self.findings()]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"two metrics of the pack are called {', '.join(twice)}")
        return self

    def metrics(self) -> tuple[Metric, ...]:
        """The pack's lines of the catalogue."""
        return tuple(map(self._metric, self.findings()))

    def _metric(self, finding: Finding) -> Metric:
        bounds = "0 and up" if finding.unit == "count" else "0 to 1"

        def compute(view: View) -> Value:
            return finding.compute(view)

        compute.__doc__ = (
            f"{finding.meaning}\n\nFormula: {finding.formula}.\nRange: {bounds}; {finding.better} is better.\n"
            f"Undefined: {finding.undefined}.\nReference: {self.source}, for question {self.question}."
        )
        return Metric(
            compute,
            group="packs",
            unit=finding.unit,
            better=finding.better,
            needs=finding.needs,
            source=self.source,
            question=self.question,
            name=f"{self.question}.{finding.name}",
        )
