"""Ranking metrics, which compare the retrieved contexts with relevance labels.

Labels are `contexts[].relevant` (a boolean, or a grade from 0) and `retrieval.relevant_ids` (grade 1 each). A chunk's
own label has precedence over the list, the highest one if the chunk occurs twice; a chunk with neither is not relevant.
Contexts count by distinct `chunk_id`, at the best rank of a chunk that occurs twice; one without an id is distinct.
Order is by `rank`, else as sent, over all contexts of the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, fsum, ldexp, log2

from ragweir.metrics.metric import Flagged, Metric, Null, Value, shared
from ragweir.metrics.view import View

_TOP = 10

_NO_LABELS = Null("no relevance labels")
_NONE_RELEVANT = Null("no chunk is relevant")
_NONE_LABELLED_RELEVANT = Null("no chunk is labelled relevant")

Chunk = str | int
"""Identity of a context: its chunk_id, or its place in the list."""


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Relevance grades in the retrieved order, and in the best possible order."""

    gains: tuple[float, ...]
    """The grade of each distinct chunk, best rank first; 0 without a label."""
    ideal: tuple[float, ...]
    """All grades above 0, retrieved or not, highest first."""
    complete: bool
    """True if the event lists its relevant chunks, with those that were missed."""


@shared
def _ranking(view: View) -> _Ranking | Null:
    interaction = view.interaction
    contexts = interaction.contexts or ()
    listed = interaction.retrieval.relevant_ids if interaction.retrieval is not None else None
    labels: dict[Chunk, float] = {}
    for place, context in enumerate(contexts):
        if (relevant := context.relevant) is not None:
            chunk = context.chunk_id or place
            labels[chunk] = max(labels.get(chunk, 0.0), float(relevant))
    if listed is None and not labels:
        return _NO_LABELS
    grades: dict[Chunk, float] = {**dict.fromkeys(listed or (), 1.0), **labels}
    ideal = tuple(sorted((grade for grade in grades.values() if grade > 0), reverse=True))
    if listed is not None and not ideal:
        return _NONE_RELEVANT
    order = dict.fromkeys(contexts[place].chunk_id or place for place in view.texts.ranked)
    return _Ranking(tuple(grades.get(chunk, 0.0) for chunk in order), ideal, listed is not None)


def hit_at_10(view: View) -> Value:
    """True if a relevant chunk is among the first ten.

    Formula: 1 if one of the first ten distinct chunks has a grade above 0, else 0.
    Undefined: without `contexts`; without labels; if `relevant_ids` is given and no chunk is relevant.
    Reference: "success at 10" in trec_eval.

    >>> from ragweir.metrics.view import example
    >>> hit_at_10(example(contexts=[{"chunk_id": "a"}, {"chunk_id": "b"}], retrieval={"relevant_ids": ["b", "z"]}))
    True
    """
    ranking = _ranking(view)
    return ranking if isinstance(ranking, Null) else any(ranking.gains[:_TOP])


def _flag_incomplete(value: float, ranking: _Ranking) -> Value:
    # Chunks that retrieval missed are only known from the list.
    return value if ranking.complete else Flagged(value, "only_retrieved_chunks_labelled")


def recall_at_10(view: View) -> Value:
    """Share of the relevant chunks that are among the first ten.

    Formula: relevant chunks among the first ten distinct ones / relevant chunks.
    Undefined: as `hit_at_10`, and if no chunk is labelled relevant.
    Reference: "recall at 10" in trec_eval.
    Known limits: without `relevant_ids`, relevant chunks that were not retrieved are unknown and the value is an upper
    bound (flag only_retrieved_chunks_labelled).

    >>> from ragweir.metrics.view import example
    >>> recall_at_10(example(contexts=[{"chunk_id": "a"}, {"chunk_id": "b"}], retrieval={"relevant_ids": ["b", "z"]}))
    0.5
    """
    ranking = _ranking(view)
    if isinstance(ranking, Null):
        return ranking
    if not ranking.ideal:
        return _NONE_LABELLED_RELEVANT
    return _flag_incomplete(sum(gain > 0 for gain in ranking.gains[:_TOP]) / len(ranking.ideal), ranking)


def mrr(view: View) -> Value:
    """Reciprocal rank of the first relevant chunk.

    Formula: 1 / rank of the first relevant chunk among all distinct ones; 0 if none is relevant. Its mean over events
    is the mean reciprocal rank.
    Undefined: as `hit_at_10`.
    Reference: Voorhees, The TREC-8 Question Answering Track Report, 1999.

    >>> from ragweir.metrics.view import example
    >>> mrr(example(contexts=[{"relevant": False}, {"relevant": True}]))
    0.5
    """
    ranking = _ranking(view)
    if isinstance(ranking, Null):
        return ranking
    return next((1 / rank for rank, gain in enumerate(ranking.gains, 1) if gain), 0.0)


def _discounted(gains: tuple[float, ...], exponent: int) -> float:
    """Return the discounted sum of the first ten grades, divided by 2 ** exponent."""
    return fsum(ldexp(gain, -exponent) / log2(rank + 1) for rank, gain in enumerate(gains[:_TOP], 1))


def ndcg_at_10(view: View) -> Value:
    """Normalised discounted cumulative gain of the first ten chunks.

    Formula: sum of grade / log2(rank + 1) over the first ten distinct chunks, divided by the same sum over the highest
    ten grades. Gains are linear in the grade.
    Undefined: as `recall_at_10`.
    Reference: Järvelin and Kekäläinen, Cumulated Gain-Based Evaluation of IR Techniques, 2002, as trec_eval has it.
    Known limits: as `recall_at_10`.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"chunk_id": "a", "relevant": 1}, {"chunk_id": "b", "relevant": 3}]
    >>> round(ndcg_at_10(example(contexts=contexts, retrieval={"relevant_ids": ["a", "b"]})), 4)
    0.7967
    """
    ranking = _ranking(view)
    if isinstance(ranking, Null):
        return ranking
    if not ranking.ideal:
        return _NONE_LABELLED_RELEVANT
    # In units of a power of two near the highest grade, so that sums cannot overflow and nothing is rounded.
    _, exponent = frexp(ranking.ideal[0])
    return _flag_incomplete(_discounted(ranking.gains, exponent) / _discounted(ranking.ideal, exponent), ranking)


_GROUP = "ranking"
_NEEDS = ("contexts",)

METRICS = (
    Metric(hit_at_10, _GROUP, "boolean", "higher", _NEEDS, "trec_eval", order_free=False),
    Metric(recall_at_10, _GROUP, "ratio", "higher", _NEEDS, "trec_eval", order_free=False),
    Metric(mrr, _GROUP, "ratio", "higher", _NEEDS, "Voorhees 1999", order_free=False),
    Metric(ndcg_at_10, _GROUP, "ratio", "higher", _NEEDS, "Järvelin and Kekäläinen 2002", order_free=False),
)
