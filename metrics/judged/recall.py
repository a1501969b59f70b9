"""The suite `context_recall`: completeness of the contexts for the query, by a judge."""

from __future__ import annotations

from ragweir.metrics.judged.asking import NO_CONTEXTS, Share, ShortText, ask, numbered_contexts
from ragweir.metrics.judged.deciding import by_fields, score
from ragweir.metrics.judged.suite import Answer, Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null

MOST_CONTEXTS = 10
"""Number of contexts, from the first, that the judge is shown."""

_QUESTION = """\
Judge whether retrieval found all that is needed to answer the query. The response, which may be wrong, shows what \
answer was drawn from the contexts."""
_LEVELS = """\
1.0: all that a complete answer needs
0.7 to 0.9: nearly all; only minor points are missing
0.4 to 0.6: the core, but important points are missing
0.1 to 0.3: little of what is needed
0.0: nothing of it"""

TASK = f"""\
{_QUESTION} First say in one or two short sentences what is there and what is missing, then give the share of the \
needed information that the contexts hold, between 0 and 1.
{_LEVELS}"""


class Recall(Answer):
    """How complete the contexts are."""

    reason: ShortText
    recall: Share


_DECIDING = by_fields(Recall, score("recall", f"{_QUESTION}\n{_LEVELS}", "context_recall_llm"))


def context_recall_llm(answer: Recall) -> float:
    """Share of the information needed for the query that the contexts have, by a judge.

    Formula: the judge's score, clamped to its range, from the query, the response and the first ten contexts; 0 without
    a call if the list of contexts is empty.
    Undefined: without `contexts`; without a usable answer of the judge.
    Reference: the retrieval, extraction and aggregation framework, `context_recall_llm`, which gives the
    range; the bands between its ends are ours.
    Known limits: the judge guesses what a complete answer needs; `ragas_context_recall` uses an expected answer.
    """
    return answer.recall


def converse(case: Case) -> Conversation:
    """Ask one question, unless nothing was retrieved."""
    name = context_recall_llm.__name__
    if not case.contexts:
        return SuiteResult({name: NO_CONTEXTS if case.contexts is None else 0.0})
    shown = numbered_contexts(case.contexts[:MOST_CONTEXTS])
    answer = yield from ask(TASK, (("query", case.query), ("response", case.response), *shown), Recall, _DECIDING)
    if isinstance(answer, Null):
        return SuiteResult({name: answer})
    return SuiteResult({name: context_recall_llm(answer)}, {name: answer.reason})


_NAME, _NEEDS = "context_recall", ("contexts",)

_SOURCE = "the retrieval, extraction and aggregation framework"
METRICS = (Metric(context_recall_llm, _NAME, "ratio", "higher", _NEEDS, _SOURCE, "llm", order_free=False),)

CONTEXT_RECALL = Suite(_NAME, "2", METRICS, converse, asks=1, needs=_NEEDS)
