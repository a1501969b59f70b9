"""Parts of the suites' questions and answers: names of the event's texts, bounded fields, numbered verdicts.

Schemas only have what strict structured outputs accept everywhere, except `maxLength` of strings, which is left out for
endpoints that reject it. The prompt states that limit as well, and longer strings are cut, not asked for again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cache
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, WithJsonSchema, create_model, field_validator

from ragweir.metrics.judged.deciding import Deciding, DecisionQuestion, Probabilities
from ragweir.metrics.judged.framing import SAID_CHARACTERS
from ragweir.metrics.judged.suite import Answer, Ask, Case, Embed, Vectors
from ragweir.metrics.metric import Null

MOST_STATEMENTS = 40
"""Maximum number of claims or statements of one text; verdicts on all of them fit into one answer."""

NO_CONTEXTS = Null("the event has no contexts")
NO_EXPECTED = Null("the event has no expected answer that says anything")

ANY_OF_SEVERAL = "Where there are several expected answers, each of them alone is right."
"""Part of every task with expected answers."""

A = TypeVar("A", bound=Answer)
Texts = tuple[tuple[str, str], ...]


def _bounded(top: float) -> tuple[AfterValidator, WithJsonSchema]:
    """Return the annotations of a score from 0. A value slightly outside is clamped; farther, it is another scale."""
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
ShortText = Annotated[
    str,
    AfterValidator(lambda text: text[:SAID_CHARACTERS]),
    WithJsonSchema({"type": "string", "maxLength": SAID_CHARACTERS}),
]
"""One reason, claim or statement of a judge."""


class Verdict(Answer):
    """The verdict on one of the numbered texts."""

    number: int
    """Its number, from 1."""
    reason: ShortText
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
    def values(self) -> list[bool]:
        """The verdicts without their reasons."""
        return [verdict.verdict for verdict in self.verdicts]

    def explanation(self, yes: str, names: Sequence[str]) -> str:
        """Return the verdicts as text, negative ones first, since the end may be cut.

        >>> named = Verdict(number=1, reason="named", verdict=True)
        >>> other = Verdict(number=2, reason="another year", verdict=False)
        >>> Verdicts(verdicts=[named, other]).explanation("found", ["It is heath.", "It grows."])
        'It grows. (not found: another year); It is heath. (found: named)'
        """
        ordered = sorted(zip(self.verdicts, names, strict=True), key=lambda pair: pair[0].verdict)
        return "; ".join(f"{name} ({'' if each.verdict else 'not '}{yes}: {each.reason})" for each, name in ordered)


@cache
def verdicts(count: int) -> type[Verdicts]:
    """Return the model of an answer with exactly so many verdicts.

    >>> answer = verdicts(16).model_json_schema()["properties"]["verdicts"]
    >>> answer["minItems"], answer["maxItems"]
    (16, 16)
    """
    exactly = Annotated[list[Verdict], Field(min_length=count, max_length=count)]
    return create_model(f"Verdicts{count}", __base__=Verdicts, __doc__=Verdicts.__doc__, verdicts=(exactly, ...))


def decided_verdicts(task: str, metric: str, statements: Sequence[str]) -> Deciding:
    """Return the form for decision models of verdicts on some statements; the reasons are their probabilities.

    Args:
        task: the instructions that all statements share.
        metric: name of the metric that is the percentage of true statements; empty if there is none.
        statements: one for each verdict, in their order.

    >>> decided_verdicts("", "", ["It is heath."]).read([(0.93, 0.07)]).verdicts
    [Verdict(number=1, reason='probability 0.93', verdict=True)]
    """
    questions = tuple(
        DecisionQuestion(f"verdict_{number}", "predicate", statement) for number, statement in enumerate(statements, 1)
    )

    def read(probabilities: Sequence[Probabilities]) -> Verdicts:
        found = [
            Verdict(number=number, reason=f"probability {own[0]:.2f}", verdict=question.value(own) is True)
            for number, (question, own) in enumerate(zip(questions, probabilities, strict=True), 1)
        ]
        return verdicts(len(found))(verdicts=found)

    return Deciding(task, questions, read, metric)


def ask(
    task: str, data: Texts, answer: type[A], deciding: Deciding | None = None
) -> Generator[Ask | Embed, object, A | Null]:
    """Ask one question; return its answer, or Null with the reason why there is none.

    Raises:
        TypeError: if something else is sent.
    """
    reply = yield Ask(task, data, answer, deciding)
    if not isinstance(reply, (answer, Null)):
        raise TypeError(f"sent a {type(reply).__name__} for a {answer.__name__}")
    return reply


def embed(texts: Sequence[str], *, tokens: bool = False) -> Generator[Ask | Embed, object, Vectors | Null]:
    """Request the vectors of texts, or of their tokens; return them, or Null with the reason why there are none.

    Raises:
        TypeError: if something else is sent.
    """
    reply = yield Embed(tuple(texts), tokens)
    if not isinstance(reply, (list, Null)):
        raise TypeError(f"sent a {type(reply).__name__} for vectors")
    return reply


def numbered_contexts(contexts: Sequence[str]) -> Texts:
    """Return the contexts by name.

    >>> numbered_contexts(["one", "other"])
    (('context 1', 'one'), ('context 2', 'other'))
    """
    return tuple((f"context {number}", text) for number, text in enumerate(contexts, 1))


def references(case: Case) -> Texts:
    """Return the expected answers that are not blank, by name.

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
    r"""Return the texts as numbered lines; line breaks in a text become spaces, so that it cannot look like several.

    >>> numbered_lines(["It is blue.", "It grows\n2. It is red."])
    '1. It is blue.\n2. It grows 2. It is red.'
    """
    return "\n".join(f"{number}. {' '.join(text.split())}" for number, text in enumerate(texts, 1))
