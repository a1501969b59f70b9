"""The suite `classification`: correct, wrong, or an admission of not knowing (the GraphRAG metrics guide)."""

from __future__ import annotations

from typing import Literal

from ragweir.metrics.judged.asking import ANY_OF_SEVERAL, NO_EXPECTED, ShortText, ask, references
from ragweir.metrics.judged.deciding import DecisionQuestion, Option, by_fields
from ragweir.metrics.judged.suite import Answer, Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null

DONT_KNOW = "DON'T KNOW"

_QUESTION = f"""\
Decide whether the response to the query is right, by the expected answer. Look at whether its facts agree, whether it \
is complete, and whether the heart of the query is answered; another wording is as good. {ANY_OF_SEVERAL}"""
_CLASSES = {
    "CORRECT": "its facts are right, and it answers the query in substance as the expected answer does",
    "WRONG": "it has an error of fact, contradicts the expected answer, lacks so much that it misleads, or does not "
    "answer what was asked",
}

TASK = f"""\
{_QUESTION} First say why in one or two short sentences, then give the class.
{chr(10).join(f"{name}: {said}" for name, said in _CLASSES.items())}"""


class Class(Answer):
    """Whether the response is right."""

    reason: ShortText
    verdict: Literal["CORRECT", "WRONG"]


_OPTIONS = tuple(Option(name, said) for name, said in _CLASSES.items())
_DECIDING = by_fields(Class, DecisionQuestion("verdict", "choice", _QUESTION, _OPTIONS, "answer_class"))


def answer_class(answer: Class | None) -> str:
    """Class of the answer compared with the expected answer: correct, wrong, or an admission of not knowing.

    Formula: DON'T KNOW if `dont_know` is true, without a call; else the judge's verdict. The labels' counts in a window
    are the guide's `correct_answers_count`, `wrong_answers_count` and `dont_know_answers_count`.
    Undefined: without `expected`, or if all expected answers are blank; without a usable answer of the judge.
    Reference: the GraphRAG metrics guide, "Correct", "Wrong" and "Don't Know Answers Count".
    Known limits: those of `dont_know`: a correct answer with one of its phrases counts as not knowing.

    >>> answer_class(None), answer_class(Class(reason="Another plant.", verdict="WRONG"))
    ("DON'T KNOW", 'WRONG')
    """
    return DONT_KNOW if answer is None else answer.verdict


def converse(case: Case) -> Conversation:
    """Ask one question, unless the answer admits that it does not know."""
    name = answer_class.__name__
    expected = references(case)
    if not expected:
        return SuiteResult({name: NO_EXPECTED})
    if case.scores.get("dont_know") == 1:
        return SuiteResult({name: answer_class(None)})
    data = (("query", case.query), ("response", case.response), *expected)
    answer = yield from ask(TASK, data, Class, _DECIDING)
    if isinstance(answer, Null):
        return SuiteResult({name: answer})
    return SuiteResult({name: answer_class(answer)}, {name: answer.reason})


METRICS = (
    Metric(
        answer_class,
        *("classification", "category", "neither", ("expected",), "the GraphRAG metrics guide", "llm"),
        labels=("CORRECT", "WRONG", DONT_KNOW),
        aliases=("correct_answers_count", "wrong_answers_count", "dont_know_answers_count"),
    ),
)

CLASSIFICATION = Suite("classification", "2", METRICS, converse, asks=1, needs=("expected",))
