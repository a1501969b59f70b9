"""The forms of question packs that search for statements: facts, and a calculation with its result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from ragweir.metrics.metric import Better, Metric, shared
from ragweir.metrics.packs.pack import Name, Pack, PackPart, Words
from ragweir.metrics.text.phrases import Phrase, Phrases
from ragweir.metrics.view import View


def _listed(phrases: tuple[Phrase, ...]) -> str:
    return "; ".join(map(" ".join, phrases))


class Fact(PackPart):
    """A statement of the response: it has one of some phrases, and none that negate it."""

    name: Name
    any: Annotated[tuple[Words, ...], Field(min_length=1)]
    unless: tuple[Words, ...] = ()

    def is_stated(self, found: frozenset[Phrase]) -> bool:
        """Return True if the fact is stated by the phrases found in a response."""
        return not found.isdisjoint(self.any) and found.isdisjoint(self.unless)

    def metric(self, pack: Pack, stated: Callable[[View], Mapping[str, bool]], better: Better = "higher") -> Metric:
        """Return the metric of the fact."""
        first = " or ".join(map(" ".join, self.any[:3]))
        meaning = f"True if the response says {first}{', or the like' if self.any[3:] else ''}."
        formula = f"1 for any of: {_listed(self.any)}" + (f"; unless: {_listed(self.unless)}" if self.unless else "")
        return pack.metric(self.name, lambda view: int(stated(view)[self.name]), "boolean", better, meaning, formula)


def _reader(facts: tuple[Fact, ...]) -> Callable[[View], Mapping[str, bool]]:
    """Return a function that finds, once per event, the facts that the response states."""
    phrases = Phrases(chain.from_iterable(fact.any + fact.unless for fact in facts))

    @shared
    def stated(view: View) -> Mapping[str, bool]:
        found = phrases.found_in((view.response,))
        return {fact.name: fact.is_stated(found) for fact in facts}

    return stated


class FactsPack(Pack):
    """Facts that a good answer states, and the share of them that the response states."""

    form: Literal["facts"]
    score: Name = "fact_score"
    facts: Annotated[tuple[Fact, ...], Field(min_length=1)]

    @override
    def metrics(self) -> Iterator[Metric]:
        """Yield one metric per fact, and their mean."""
        stated = _reader(self.facts)
        for fact in self.facts:
            yield fact.metric(self, stated)
        yield self.metric(
            self.score,
            lambda view: sum(stated(view).values()) / len(self.facts),
            "ratio",
            "higher",
            f"Share of {len(self.facts)} facts that the response states.",
            f"mean of {', '.join(fact.name for fact in self.facts)}",
        )


class WorkingSigns(PackPart):
    """Signs of shown working: an operator between two numbers, or a phrase."""

    name: Name
    signs: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=16)], ...], Field(min_length=1)]
    any: tuple[Words, ...] = ()

    def between_numbers(self) -> re.Pattern[str]:
        """Return a pattern of a sign between two numbers, in one line, with spaces on both sides or on neither.

        "293 * 2.061" and "293*2.061" are such; "**604**", "*293* 2" and a list's mark in the next line are not.
        """
        sign = f"(?:{'|'.join(map(re.escape, self.signs))})"
        space = "[ \\t\\xa0\\u202f]{1,4}"
        number = "[(\\[$€£¥₹]{0,2}-?[$€£¥₹]?\\.?[0-9]"
        return re.compile(f"[0-9][)\\]%]{{0,3}}(?:{space}{sign}{space}|{sign}){number}")


class Correct(PackPart):
    """The verdict: correct if the fact with this name is stated and the failure is not."""

    name: Name
    fact: Name


class CalculationPack(Pack):
    """A calculation: the facts of its result, the signs of shown working, and the statement of a failure."""

    form: Literal["calculation"]
    facts: Annotated[tuple[Fact, ...], Field(min_length=1)]
    steps: WorkingSigns
    failure: Fact
    correct: Correct

    @model_validator(mode="after")
    def _has_correct_fact(self) -> CalculationPack:
        if self.correct.fact not in {fact.name for fact in self.facts}:
            raise ValueError("correct.fact is not the name of one of the facts")
        return self

    @override
    def metrics(self) -> Iterator[Metric]:
        """Yield one metric per fact, then steps, failure and verdict."""
        steps, failure, correct = self.steps, self.failure, self.correct
        stated = _reader((*self.facts, failure))
        words = Phrases(steps.any)
        sign = steps.between_numbers()
        for fact in self.facts:
            yield fact.metric(self, stated)
        yield self.metric(
            steps.name,
            lambda view: int(words.occur_in(view.response) or sign.search(view.response.text) is not None),
            "boolean",
            "higher",
            "True if the response shows its working.",
            f"1 for {' or '.join(steps.signs)} between two numbers"
            + (f", or any of: {_listed(steps.any)}" if steps.any else ""),
        )
        yield failure.metric(self, stated, better="lower")
        yield self.metric(
            correct.name,
            lambda view: int(stated(view)[correct.fact] and not stated(view)[failure.name]),
            "boolean",
            "higher",
            "True if the answer is correct.",
            f"{correct.fact} and not {failure.name}",
        )
