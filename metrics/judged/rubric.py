"""The suite `rubric`: quality of the answer and its contexts, by scales in words (the LLM rubric)."""

from __future__ import annotations

from ragweir.metrics.judged.asking import NO_CONTEXTS, Share, ShortText, ask, numbered_contexts
from ragweir.metrics.judged.deciding import Deciding, by_fields, score
from ragweir.metrics.judged.suite import Answer, Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null, Value

_INTRODUCTION = """\
Grade by the criteria below, each for itself. For each, first say why in one or two short sentences, then give a score \
between 0 and 1; numbers between those that are named may be used."""

_NOTHING_RETRIEVED = "Retrieval found no context for this query: no statement of fact has anything to rest on."

_CRITERIA = {
    "relevance": """\
relevance: does the response answer the query?
1.0: it answers just what was asked, and completely
0.8 to 0.9: it answers well and in good detail
0.6 to 0.7: it answers, but more should have been said
0.4 to 0.5: it answers in part; important points are missing
0.0 to 0.3: it does not deal with what was asked""",
    "faithfulness": """\
faithfulness: do the contexts bear out what the response says? Another wording or format of a fact is the same fact.
1.0: each fact and figure comes from the contexts
0.8 to 0.9: well grounded, with small sensible inferences
0.6 to 0.7: mostly grounded, with some details that nothing supports
0.4 to 0.5: half grounded, half not
0.0 to 0.3: much of what it states has no support""",
    "hallucination": """\
hallucination: how much of the response is made up? Lower is better.
0.0: nothing; all of it comes from the contexts
0.1 to 0.2: small sensible inferences, nothing invented
0.3 to 0.5: some details or assumptions without support
0.6 to 0.8: inventions of weight
0.9 to 1.0: mostly or wholly invented""",
    "contextual_relevance": """\
contextual_relevance: do the contexts help to answer the query?
1.0: they hold just the information that is needed
0.8 to 0.9: very relevant and useful
0.6 to 0.7: fairly relevant
0.4 to 0.5: hardly relevant
0.0 to 0.3: irrelevant or of no use""",
}


class Relevance(Answer):
    """The grade of a response whose contexts are not known."""

    relevance_reason: ShortText
    relevance: Share


class Grounding(Relevance):
    """The grades of a response for which nothing was retrieved."""

    faithfulness_reason: ShortText
    faithfulness: Share
    hallucination_reason: ShortText
    hallucination: Share


class Rubric(Grounding):
    """The grades of a response and its contexts."""

    contextual_relevance_reason: ShortText
    contextual_relevance: Share


def judge_relevance(answer: Relevance) -> float:
    """Relevance of the response to the query, by a judge's rubric.

    Formula: the judge's score, clamped to its range. 1 is a complete answer, 0.8 a good one, 0.6 could be longer, 0.4
    answers in part, below 0.4 not at all.
    Undefined: without a usable answer of the judge.
    Reference: the LLM rubric, "Relevance Score".
    """
    return answer.relevance


def judge_faithfulness(answer: Grounding) -> float:
    """Support of the response by the contexts, by a judge's rubric.

    Formula: the judge's score, clamped to its range. 1 is fully grounded, 0.8 with small inferences, 0.6 with some
    unsupported details, 0.4 half grounded, below 0.4 largely unsupported. If the list of contexts is empty, the prompt
    says that nothing was retrieved.
    Undefined: without `contexts`; without a usable answer of the judge.
    Reference: the LLM rubric, "Faithfulness Score".
    """
    return answer.faithfulness


def judge_hallucination(answer: Grounding) -> float:
    """Share of the response that is made up, by a judge's rubric.

    Formula: the judge's score, clamped to its range. 0 is nothing, up to 0.2 small inferences, up to 0.5 some
    unsupported details, up to 0.8 major inventions, above that mostly invented. It may differ from
    1 - `judge_faithfulness`, as each is judged separately.
    Undefined: as `judge_faithfulness`.
    Reference: the LLM rubric, "Hallucination Score".
    """
    return answer.hallucination


def judge_contextual_relevance(answer: Rubric | Grounding) -> float:
    """Usefulness of the retrieved contexts for the query, by a judge's rubric.

    Formula: the judge's score, clamped to its range; 1 is exactly what is needed, 0.8 very useful, 0.6 fairly useful,
    0.4 hardly, below 0.4 useless. 0 without a question on it if the list of contexts is empty.
    Undefined: without `contexts`; without a usable answer of the judge.
    Reference: the LLM rubric, "Contextual Relevance".
    """
    return answer.contextual_relevance if isinstance(answer, Rubric) else 0.0


def answer_correctness(relevance: float, faithfulness: float) -> float:
    """Overall correctness of the answer, from its relevance and its faithfulness.

    Formula: 0.7 x `judge_relevance` + 0.3 x `judge_faithfulness`.
    Undefined: if one of the two is.
    Reference: the LLM rubric, "Answer Correctness".
    Known limits: neither part uses an expected answer, so that errors of the contexts are not found.

    >>> answer_correctness(0.90, 1.00)
    0.93
    """
    return (7 * relevance + 3 * faithfulness) / 10  # In tenths: 0.7 and 0.3 have no exact binary form.


def task(answer: type[Relevance]) -> str:
    """Return the instructions for an answer of this model."""
    criteria = (text for name, text in _CRITERIA.items() if name in answer.model_fields)
    note = () if answer is not Grounding else (_NOTHING_RETRIEVED,)
    return "\n\n".join((_INTRODUCTION, *note, *criteria))


def deciding(answer: type[Relevance]) -> Deciding:
    """Return the questions for a decision model, one for each criterion."""
    questions = (score(name, text, f"judge_{name}") for name, text in _CRITERIA.items() if name in answer.model_fields)
    return by_fields(answer, *questions, task=_NOTHING_RETRIEVED if answer is Grounding else "")


def converse(case: Case) -> Conversation:
    """Ask one question, on the criteria for which the event has the texts."""
    wanted: type[Relevance] = Rubric if case.contexts else Relevance if case.contexts is None else Grounding
    data = (("query", case.query), ("response", case.response), *numbered_contexts(case.contexts or ()))
    answer = yield from ask(task(wanted), data, wanted, deciding(wanted))
    values: dict[str, Value] = dict.fromkeys(_NAMES, NO_CONTEXTS)
    if isinstance(answer, Null):
        asked = _NAMES if issubclass(wanted, Grounding) else (judge_relevance.__name__,)
        return SuiteResult(values | dict.fromkeys(asked, answer))
    values["judge_relevance"] = judge_relevance(answer)
    if isinstance(answer, Grounding):
        values["judge_faithfulness"] = judge_faithfulness(answer)
        values["judge_hallucination"] = judge_hallucination(answer)
        values["judge_contextual_relevance"] = judge_contextual_relevance(answer)
        values["answer_correctness"] = answer_correctness(answer.relevance, answer.faithfulness)
    reasons = {f"judge_{name}": getattr(answer, f"{name}_reason", "") for name in _CRITERIA}
    return SuiteResult(values, {name: reason for name, reason in reasons.items() if reason})


_SOURCE = "the LLM rubric"

METRICS = (
    Metric(judge_relevance, "rubric", "ratio", "higher", (), _SOURCE, "llm"),
    Metric(judge_faithfulness, "rubric", "ratio", "higher", ("contexts",), _SOURCE, "llm"),
    Metric(judge_hallucination, "rubric", "ratio", "lower", ("contexts",), _SOURCE, "llm"),
    Metric(judge_contextual_relevance, "rubric", "ratio", "higher", ("contexts",), _SOURCE, "llm"),
    Metric(answer_correctness, "rubric", "ratio", "higher", ("contexts",), _SOURCE, "llm"),
)
_NAMES = tuple(metric.name for metric in METRICS)

RUBRIC = Suite("rubric", "2", METRICS, converse, asks=1, parts=4)
