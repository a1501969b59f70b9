"""The suite `context_recall`: whether the contexts hold all that the query needs, asked of a judge (document 002)."""

from __future__ import annotations

from ragweir.metrics.judged.asking import NO_CONTEXTS, Said, Share, asked, numbered_contexts
from ragweir.metrics.judged.suite import Answer, Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null

MOST_CONTEXTS = 10
"""The first so many are shown to the judge."""

TASK = """\
Judge whether retrieval found all that is needed to answer the query. The response, which may be wrong, shows what \
answer was drawn from the contexts. First say in one or two short sentences what is there and what is missing, then \
give the share of the needed information that the contexts hold, between 0 and 1.
1.0: all that a complete answer needs
0.7 to 0.9: nearly all; only minor points are missing
0.4 to 0.6: the core, but important points are missing
0.1 to 0.3: little of what is needed
0.0: nothing of it"""


class Recall(Answer):
    """How complete the contexts are."""

    reason: Said
    recall: Share


def context_recall_llm(answer: Recall) -> float:
    """How much of what the query needs stands in the contexts, asked of a judge.

    Formula: the judge's score, clamped to its range, from the query, the response and the first ten contexts; 0 without
    asking when the list of contexts is empty.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`; when the judge gave no usable answer.
    Reference: document 002, `context_recall_llm`, which gives the range; the bands between its ends are ours.
    Known limits: what a complete answer needs is the judge's own guess; `ragas_context_recall` asks an expected answer.
    """
    return answer.recall


def converse(case: Case) -> Conversation:
    """One question, and none where nothing was retrieved."""
    name = context_recall_llm.__name__
    if not case.contexts:
        return SuiteResult({name: NO_CONTEXTS if case.contexts is None else 0.0})
    shown = numbered_contexts(case.contexts[:MOST_CONTEXTS])
    answer = yield from asked(TASK, (("query", case.query), ("response", case.response), *shown), Recall)
    if isinstance(answer, Null):
        return SuiteResult({name: answer})
    return SuiteResult({name: context_recall_llm(answer)}, {name: answer.reason})


METRICS = (
    Metric(
        context_recall_llm,
        "context_recall",
        "ratio",
        "higher",
        ("contexts",),
        "document 002",
        "llm",
        order_free=False,
    ),
)

CONTEXT_RECALL = Suite("context_recall", "2", METRICS, converse, asks=1, needs=("contexts",))
