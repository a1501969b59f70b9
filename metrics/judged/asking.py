"""What the suites' questions have in common: how the event's texts are named, and the bounded parts of answers.

Schemas stay within what strict structured outputs take everywhere, with one exception: every field is required, and
strings have a `maxLength`, which is left out for endpoints that refuse it. The prompt states the bound too, and what is
longer all the same is cut here, since a long reason is no reason to ask again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cache
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, WithJsonSchema, create_model, field_validator

from ragweir.metrics.judged.framing import SAID_CHARACTERS
from ragweir.metrics.judged.suite import Answer, Ask, Case, Embed, Vectors
from ragweir.metrics.metric import Null

MOST_STATEMENTS = 40
"""Claims or statements that one text is taken apart into, at most; with verdicts on them an answer still has room."""

NO_CONTEXTS = Null("the event has no contexts")
NO_EXPECTED = Null("the event has no expected answer that says anything")

ANY_OF_SEVERAL = "Where there are several expected answers, each of them alone is right."
"""Stands in every task that shows expected answers."""

A = TypeVar("A", bound=Answer)
Texts = tuple[tuple[str, str], ...]


def _bounded(top: float) -> tuple[AfterValidator, WithJsonSchema]:
    """A number of a scale from 0. Slightly outside is clamped; far outside is another scale, and refused."""
    slack = top / 10

    def clamped(value: float) -> float:
        if not -slack <= value <= top + slack:
            raise ValueError(f"must be from 0 to {top:g}")
        return max(0.0, min(top, value))

    return AfterValidator(clamped), WithJsonSchema({"type": "number", "minimum": 0, "maximum": int(top)})


_SHARE, _POINTS = _bounded(1.0), _bounded(100.0)
Share = Annotated[float, _SHARE[0], _SHARE[1]]
"""A score from 0 to 1."""
Points = Annotated[float, _POINTS[0], _POINTS[1]]
"""A score from 0 to 100."""
Said = Annotated[
    str,
    AfterValidator(lambda text: text[:SAID_CHARACTERS]),
    WithJsonSchema({"type": "string", "maxLength": SAID_CHARACTERS}),
]
"""One reason, claim or statement of a judge."""


class Verdict(Answer):
    """The verdict on one of the numbered texts."""

    number: int
    """Its number, from 1."""
    reason: Said
    """In at most ten words."""
    verdict: bool


class Verdicts(Answer):
    """One verdict on each of the numbered texts, in their order."""

    verdicts: list[Verdict]

    @field_validator("verdicts")
    @classmethod
    def _are_in_order(cls, verdicts: list[Verdict]) -> list[Verdict]:
        if [verdict.number for verdict in verdicts] != list(range(1, len(verdicts) + 1)):
            raise ValueError(f"must be numbered 1 to {len(verdicts)}, in order")
        return verdicts

    @property
    def holding(self) -> list[bool]:
        """The verdicts alone."""
        return [verdict.verdict for verdict in self.verdicts]

    def told(self, yes: str, names: Sequence[str]) -> str:
        """The verdicts in words for people, what does not hold first, since who publishes them cuts the end.

        >>> named = Verdict(number=1, reason="named", verdict=True)
        >>> other = Verdict(number=2, reason="another year", verdict=False)
        >>> Verdicts(verdicts=[named, other]).told("found", ["It is heath.", "It grows."])
        'It grows. (not found: another year); It is heath. (found: named)'
        """
        ordered = sorted(zip(self.verdicts, names, strict=True), key=lambda pair: pair[0].verdict)
        return "; ".join(f"{name} ({'' if each.verdict else 'not '}{yes}: {each.reason})" for each, name in ordered)


@cache
def verdicts(count: int) -> type[Verdicts]:
    """The answer that holds exactly so many verdicts.

    >>> answer = verdicts(16).model_json_schema()["properties"]["verdicts"]
    >>> answer["minItems"], answer["maxItems"]
    (16, 16)
    """
    exactly = Annotated[list[Verdict], Field(min_length=count, max_length=count)]
    return create_model(f"Verdicts{count}", __base__=Verdicts, __doc__=Verdicts.__doc__, verdicts=(exactly, ...))


def asked(task: str, data: Texts, answer: type[A]) -> Generator[Ask | Embed, object, A | Null]:
    """Ask one question: its answer, or why there is none.

    Raises:
        TypeError: if what is sent is neither.
    """
    reply = yield Ask(task, data, answer)
    if not isinstance(reply, (answer, Null)):
        raise TypeError(f"sent a {type(reply).__name__} for a {answer.__name__}")
    return reply


def embedded(texts: tuple[str, ...]) -> Generator[Ask | Embed, object, Vectors | Null]:
    """Ask for the texts' vectors.

    Raises:
        TypeError: if what is sent is neither a list of vectors nor a `Null`.
    """
    reply = yield Embed(texts)
    if not isinstance(reply, (list, Null)):
        raise TypeError(f"sent a {type(reply).__name__} for vectors")
    return reply


def numbered_contexts(contexts: Sequence[str]) -> Texts:
    """The contexts by name.

    >>> numbered_contexts(["one", "other"])
    (('context 1', 'one'), ('context 2', 'other'))
    """
    return tuple((f"context {number}", text) for number, text in enumerate(contexts, 1))


def references(case: Case) -> Texts:
    """The expected answers that say anything, by name; none where the event has none.

    >>> references(Case("Which plant?", "", expected=("Cornish heath", " ", "Erica vagans")))
    (('expected 1', 'Cornish heath'), ('expected 2', 'Erica vagans'))
    >>> references(Case("Which plant?", "", expected=("Cornish heath",)))
    (('expected', 'Cornish heath'),)
    """
    given = [text for text in case.expected or () if text.strip()]
    if len(given) == 1:
        return (("expected", given[0]),)
    return tuple((f"expected {number}", text) for number, text in enumerate(given, 1))


def numbered_lines(texts: Sequence[str]) -> str:
    r"""One numbered line each; line breaks within become spaces, so that no text can pass for several.

    >>> numbered_lines(["It is blue.", "It grows\n2. It is red."])
    '1. It is blue.\n2. It grows 2. It is red.'
    """
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))
