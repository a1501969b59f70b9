"""The suite `factual`: agreement of the facts with an expected answer, in three steps (after G-Eval)."""

from __future__ import annotations

from ragweir.metrics.judged.asking import ANY_OF_SEVERAL, NO_EXPECTED, Points, ShortText, ask, references
from ragweir.metrics.judged.deciding import by_fields, score
from ragweir.metrics.judged.suite import Answer, Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null

TASK = f"""\
Hold the response to the query against the expected answer, in three steps. In each, first say why in one or two short \
sentences, then give a score between 0 and 100. {ANY_OF_SEVERAL}

correctness: are the facts that the response states right?
90 to 100: all of them, without an error
70 to 89: small inaccuracies that leave the meaning as it is
50 to 69: some clear errors, but the main points are right
30 to 49: several grave errors
0 to 29: mostly wrong or invented

completeness: is all that matters in the expected answer there?
90 to 100: all of it, in fitting detail
70 to 89: most of it; small details are missing
50 to 69: the core, without important details
30 to 49: large gaps in what matters
0 to 29: most of it is missing

consistency: does the response agree with itself?
90 to 100: throughout, without a contradiction
70 to 89: mostly; some of it is ambiguous
50 to 69: some inconsistencies, but coherent on the whole
30 to 49: clear contradictions or gaps in its logic
0 to 29: it contradicts itself throughout"""

_STEPS = ("correctness", "completeness", "consistency")
_GRADES = ((80.0, "A"), (60.0, "B"), (40.0, "C"), (20.0, "D"))
_LOWEST = "E"


class ComparisonSteps(Answer):
    """The three steps of the comparison."""

    correctness_reason: ShortText
    correctness: Points
    completeness_reason: ShortText
    completeness: Points
    consistency_reason: ShortText
    consistency: Points


_PARTS = dict(zip(_STEPS, TASK.split("\n\n")[1:], strict=True))
_DECIDING = by_fields(
    ComparisonSteps,
    *(score(step, part) for step, part in _PARTS.items()),
    task=f"Hold the response to the query against the expected answer. {ANY_OF_SEVERAL}",
)


def factual_accuracy_percentage(correctness: float, completeness: float, consistency: float) -> float:
    """Agreement of the response with the expected answer in its facts, by a judge in three steps.

    Formula: 0.5 x correctness + 0.3 x completeness + 0.2 x consistency, each from 0 to 100. The judge gives the parts,
    not the sum.
    Undefined: without `expected`, or if all expected answers are blank; without a usable answer of the judge.
    Reference: the GraphRAG metrics guide, "Factual Accuracy Percentage"; Liu et al., G-Eval, 2023, for
    judging in steps.

    >>> factual_accuracy_percentage(90, 80, 100)
    89.0
    """
    # In tenths: 0.3 and 0.2 have no exact binary form, and that must not change a grade.
    return round((5 * correctness + 3 * completeness + 2 * consistency) / 10, 6)


def factual_accuracy_grade(percentage: float) -> str:
    """Grade of the factual accuracy: A is excellent, B good, C moderate, D poor, E very poor.

    Formula: A from 80, B from 60, C from 40, D from 20 of `factual_accuracy_percentage`, E below.
    Range: A, B, C, D, E; A is best.
    Undefined: as `factual_accuracy_percentage`.
    Reference: the GraphRAG metrics guide, "Factual Accuracy Percentage".

    >>> factual_accuracy_grade(80), factual_accuracy_grade(79.999999)
    ('A', 'B')
    """
    return next((grade for least, grade in _GRADES if percentage >= least), _LOWEST)


def converse(case: Case) -> Conversation:
    """Ask one question."""
    expected = references(case)
    if not expected:
        return FACTUAL.null(NO_EXPECTED)
    data = (("query", case.query), ("response", case.response), *expected)
    answer = yield from ask(TASK, data, ComparisonSteps, _DECIDING)
    if isinstance(answer, Null):
        return FACTUAL.null(answer)
    percentage = factual_accuracy_percentage(answer.correctness, answer.completeness, answer.consistency)
    steps = (f"{step} {getattr(answer, step):g}: {getattr(answer, f'{step}_reason')}" for step in _STEPS)
    return SuiteResult(
        {"factual_accuracy_percentage": percentage, "factual_accuracy_grade": factual_accuracy_grade(percentage)},
        {"factual_accuracy_percentage": "; ".join(steps)},
    )


_NEEDS = ("expected",)
_LABELS = tuple("ABCDE")

_SOURCE = "the GraphRAG metrics guide"
METRICS = (
    Metric(factual_accuracy_percentage, "factual", "percent", "higher", _NEEDS, _SOURCE, "llm"),
    Metric(factual_accuracy_grade, "factual", "category", "neither", _NEEDS, _SOURCE, "llm", labels=_LABELS),
)

FACTUAL = Suite("factual", "2", METRICS, converse, asks=1, needs=_NEEDS, parts=3)
