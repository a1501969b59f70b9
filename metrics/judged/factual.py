"""The suite `factual`: how far the facts agree with an expected answer, in three steps (document 003, after G-Eval)."""

from __future__ import annotations

from ragweir.metrics.judged.asking import ANY_OF_SEVERAL, NO_EXPECTED, Points, Said, asked, references
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

    correctness_reason: Said
    correctness: Points
    completeness_reason: Said
    completeness: Points
    consistency_reason: Said
    consistency: Points


def factual_accuracy_percentage(correctness: float, completeness: float, consistency: float) -> float:
    """How far the response agrees with the expected answer in its facts, by a judge in three steps.

    Formula: 0.5 x correctness + 0.3 x completeness + 0.2 x consistency, each from 0 to 100; the sum is made here, and
    the judge is not asked for it.
    Range: 0 to 100; higher is better.
    Undefined: without `expected`, or when no expected answer says anything; when the judge gave no usable answer.
    Reference: document 003, "Factual Accuracy Percentage"; Liu et al., G-Eval, 2023, for judging in steps.

    >>> factual_accuracy_percentage(90, 80, 100)
    89.0
    """
    # In tenths, as 0.3 and 0.2 have no exact binary form and a grade must not hang on that.
    return round((5 * correctness + 3 * completeness + 2 * consistency) / 10, 6)


def factual_accuracy_grade(percentage: float) -> str:
    """The grade of the factual accuracy: A is excellent, B good, C moderate, D poor, E very poor.

    Formula: A from 80, B from 60, C from 40, D from 20 of `factual_accuracy_percentage`, E below.
    Range: A, B, C, D, E; A is best.
    Undefined: as `factual_accuracy_percentage`.
    Reference: document 003, "Factual Accuracy Percentage".

    >>> factual_accuracy_grade(80), factual_accuracy_grade(79.999999)
    ('A', 'B')
    """
    return next((grade for least, grade in _GRADES if percentage >= least), _LOWEST)


def converse(case: Case) -> Conversation:
    """One question."""
    expected = references(case)
    if not expected:
        return FACTUAL.null(NO_EXPECTED.reason)
    data = (("query", case.query), ("response", case.response), *expected)
    answer = yield from asked(TASK, data, ComparisonSteps)
    if isinstance(answer, Null):
        return FACTUAL.null(answer.reason)
    percentage = factual_accuracy_percentage(answer.correctness, answer.completeness, answer.consistency)
    told = (f"{step} {getattr(answer, step):g}: {getattr(answer, f'{step}_reason')}" for step in _STEPS)
    return SuiteResult(
        {"factual_accuracy_percentage": percentage, "factual_accuracy_grade": factual_accuracy_grade(percentage)},
        {"factual_accuracy_percentage": "; ".join(told)},
    )


METRICS = (
    Metric(factual_accuracy_percentage, "factual", "percent", "higher", ("expected",), "document 003", "llm"),
    Metric(
        factual_accuracy_grade,
        "factual",
        "category",
        "neither",
        ("expected",),
        "document 003",
        "llm",
        labels=("A", "B", "C", "D", "E"),
    ),
)

FACTUAL = Suite("factual", "2", METRICS, converse, asks=1, needs=("expected",))
