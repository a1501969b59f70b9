"""The forms of a question pack that look for statements: facts, and a calculation with its result."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from ragweir.metrics.metric import Better, shared
from ragweir.metrics.packs.pack import Finding, Name, Pack, PackPart, Words
from ragweir.metrics.text.phrases import Phrase, Phrases
from ragweir.metrics.view import View


def _listed(phrases: tuple[Phrase, ...]) -> str:
    return "; ".join(map(" ".join, phrases))


class Fact(PackPart):
    """Something that the response says: any of some phrases stands in it, and none of those that take it back."""

    name: Name
    any: Annotated[tuple[Words, ...], Field(min_length=1)]
    unless: tuple[Words, ...] = ()

    def stated(self, standing: frozenset[Phrase]) -> bool:
        """Whether it is said, given which phrases stand in the response."""
        return not standing.isdisjoint(self.any) and standing.isdisjoint(self.unless)

    @property
    def meaning(self) -> str:
        """What a 1 means, in a line."""
        first = " or ".join(map(" ".join, self.any[:3]))
        return f"Whether the response says {first}{', or the like' if self.any[3:] else ''}."

    @property
    def formula(self) -> str:
        """The phrases in full."""
        return f"1 for any of: {_listed(self.any)}" + (f"; unless: {_listed(self.unless)}" if self.unless else "")


def _reader(facts: tuple[Fact, ...]) -> Callable[[View], Mapping[str, bool]]:
    """A function that tells, once per event, which of the facts the response states."""
    phrases = Phrases(chain.from_iterable(fact.any + fact.unless for fact in facts))

    @shared
    def stated(view: View) -> Mapping[str, bool]:
        standing = phrases.found_in((view.response,))
        return {fact.name: fact.stated(standing) for fact in facts}

    return stated


def _fact_finding(fact: Fact, stated: Callable[[View], Mapping[str, bool]], better: Better = "higher") -> Finding:
    return Finding(fact.name, lambda view: int(stated(view)[fact.name]), "boolean", better, fact.meaning, fact.formula)


class FactsPack(Pack):
    """Facts that a good answer states, and the share of them that it does."""

    form: Literal["facts"]
    score: Name = "fact_score"
    facts: Annotated[tuple[Fact, ...], Field(min_length=1)]

    @override
    def findings(self) -> Iterator[Finding]:
        """One per fact, and the mean."""
        stated = _reader(self.facts)
        for fact in self.facts:
            yield _fact_finding(fact, stated)
        yield Finding(
            self.score,
            lambda view: sum(stated(view).values()) / len(self.facts),
            "ratio",
            "higher",
            f"Share of {len(self.facts)} facts that the response states.",
            f"mean of {', '.join(fact.name for fact in self.facts)}",
        )


class WorkingSigns(PackPart):
    """How working is recognised: one of the signs between two numbers, or one of the phrases."""

    name: Name
    signs: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=16)], ...], Field(min_length=1)]
    any: tuple[Words, ...] = ()

    def between_numbers(self) -> re.Pattern[str]:
        """A sign with a number on either side.

        Space stands on both sides of the sign or on neither, all in one line: "293 * 2.061" and "293*2.061" multiply,
        "**604**", "*293* 2" and a list's mark in the next line do not.
        """
        sign = f"(?:{'|'.join(map(re.escape, self.signs))})"
        space = "[ \\t\\xa0\\u202f]{1,4}"
        number = "[(\\[$€£¥₹]{0,2}-?[$€£¥₹]?\\.?[0-9]"
        return re.compile(f"[0-9][)\\]%]{{0,3}}(?:{space}{sign}{space}|{sign}){number}")


class Correct(PackPart):
    """The verdict: right when the fact of this name is stated and the answer does not say that it failed."""

    name: Name
    fact: Name


class CalculationPack(Pack):
    """A figure that the answer must reach: its facts, whether working is shown, and whether it says that it failed."""

    form: Literal["calculation"]
    facts: Annotated[tuple[Fact, ...], Field(min_length=1)]
    steps: WorkingSigns
    failure: Fact
    correct: Correct

    @model_validator(mode="after")
    def _known_fact(self) -> CalculationPack:
        if self.correct.fact not in {fact.name for fact in self.facts}:
            raise ValueError("correct.fact is not the name of one of the facts")
        return self

    @override
    def findings(self) -> Iterator[Finding]:
        """One per fact, then steps, failure and verdict."""
        steps, failure, correct = self.steps, self.failure, self.correct
        stated = _reader((*self.facts, failure))
        words = Phrases(steps.any)
        sign = steps.between_numbers()
        for fact in self.facts:
            yield _fact_finding(fact, stated)
        yield Finding(
            steps.name,
            lambda view: int(words.occur_in(view.response) or sign.search(view.response.text) is not None),
            "boolean",
            "higher",
            "Whether the response shows its working.",
            f"1 for {' or '.join(steps.signs)} between two numbers"
            + (f", or any of: {_listed(steps.any)}" if steps.any else ""),
        )
        yield _fact_finding(failure, stated, better="lower")
        yield Finding(
            correct.name,
            lambda view: int(stated(view)[correct.fact] and not stated(view)[failure.name]),
            "boolean",
            "higher",
            "Whether the answer is right.",
            f"{correct.fact} and not {failure.name}",
        )
