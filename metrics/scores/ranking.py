"""Ranking against relevance labels: what retrieval should have found, and how high it stands.

Labels are `contexts[].relevant` (a boolean, or a grade from 0) and `retrieval.relevant_ids` (grade 1 each). A chunk's
own label decides over the list, the highest one if the chunk stands twice; what has neither is not relevant.
Contexts count by distinct `chunk_id`, a chunk that stands twice at its best place; one without an id counts as itself.
Order is by `rank`, else as sent, over every context of the event.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, fsum, ldexp, log2

from ragweir.metrics.metric import Flagged, Metric, Null, Value, shared
from ragweir.metrics.view import View

_TOP = 10

Chunk = str | int
"""What a context is known by: its chunk_id, or its place in the list."""


@dataclass(frozen=True, slots=True)
class _Ranking:
    """What is known of relevance: the grades as retrieved, and as the best possible order would have them."""

    gains: tuple[float, ...]
    """One per distinct chunk, best rank first; 0 for a chunk that is not known to be relevant."""
    ideal: tuple[float, ...]
    """Every grade above 0, retrieved or not, highest first."""
    complete: bool
    """Whether the event lists its relevant chunks, those that were missed included."""


@shared
def ranked(view: View) -> tuple[int, ...]:
    """Places of the contexts in their list, best rank first; a context without `rank` ranks where it stands.

    >>> from ragweir.metrics.view import example
    >>> ranked(example(contexts=[{"rank": 3}, {"rank": 1}, {"rank": 2}]))
    (1, 2, 0)
    """
    ranks = [
        place + 1 if context.rank is None else context.rank
        for place, context in enumerate(view.interaction.contexts or ())
    ]
    return tuple(sorted(range(len(ranks)), key=ranks.__getitem__))


@shared
def _ranking(view: View) -> _Ranking | Null:
    interaction = view.interaction
    contexts = interaction.contexts or ()
    listed = interaction.retrieval.relevant_ids if interaction.retrieval is not None else None
    labels: dict[Chunk, float] = {}
    for place, context in enumerate(contexts):
        if context.relevant is not None:
            chunk = context.chunk_id or place
            labels[chunk] = max(labels.get(chunk, 0.0), float(context.relevant))
    if listed is None and not labels:
        return Null("no relevance labels")
    grades: dict[Chunk, float] = {**dict.fromkeys(listed or (), 1.0), **labels}
    ideal = tuple(sorted((grade for grade in grades.values() if grade > 0), reverse=True))
    if listed is not None and not ideal:
        return Null("no chunk is relevant")
    order = dict.fromkeys(contexts[place].chunk_id or place for place in ranked(view))
    return _Ranking(tuple(grades.get(chunk, 0.0) for chunk in order), ideal, listed is not None)


def hit_at_10(view: View) -> Value:
    """Is there a relevant chunk among the first ten?

    Formula: 1 when one of the first ten distinct chunks has a grade above 0, else 0.
    Range: 1 or 0; 1 is better.
    Undefined: without `contexts`; without labels; when `relevant_ids` is given and no chunk is relevant, since there
    was nothing to find.
    Reference: "success at 10" in trec_eval.

    >>> from ragweir.metrics.view import example
    >>> hit_at_10(example(contexts=[{"chunk_id": "a"}, {"chunk_id": "b"}], retrieval={"relevant_ids": ["b", "z"]}))
    True
    """
    ranking = _ranking(view)
    return ranking if isinstance(ranking, Null) else any(ranking.gains[:_TOP])


def _of_known(value: float, ranking: _Ranking) -> Value:
    # Chunks that retrieval missed can only be known from the list.
    return value if ranking.complete else Flagged(value, "only_retrieved_chunks_labelled")


def recall_at_10(view: View) -> Value:
    """What part of the relevant chunks stands among the first ten?

    Formula: relevant chunks among the first ten distinct ones / relevant chunks.
    Range: 0 to 1; higher is better.
    Undefined: as `hit_at_10`, and when no chunk is labelled relevant.
    Reference: "recall at 10" in trec_eval.
    Known limits: without `relevant_ids` the relevant chunks that were never retrieved are unknown, and the value is an
    upper bound (flag only_retrieved_chunks_labelled).

    >>> from ragweir.metrics.view import example
    >>> recall_at_10(example(contexts=[{"chunk_id": "a"}, {"chunk_id": "b"}], retrieval={"relevant_ids": ["b", "z"]}))
    0.5
    """
    ranking = _ranking(view)
    if isinstance(ranking, Null):
        return ranking
    if not ranking.ideal:
        return Null("no chunk is labelled relevant")
    return _of_known(sum(gain > 0 for gain in ranking.gains[:_TOP]) / len(ranking.ideal), ranking)


def mrr(view: View) -> Value:
    """How high the first relevant chunk stands.

    Formula: 1 / rank of the first relevant chunk among all distinct ones; 0 when none is. The mean over events is the
    mean reciprocal rank.
    Range: 0 to 1; higher is better.
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
    """The discounted sum of the first ten grades, divided by 2 ** exponent."""
    return fsum(ldexp(gain, -exponent) / log2(rank + 1) for rank, gain in enumerate(gains[:_TOP], 1))


def ndcg_at_10(view: View) -> Value:
    """How near the order of the first ten is to the best possible one, by graded relevance.

    Formula: sum of grade / log2(rank + 1) over the first ten distinct chunks, divided by the same sum over the highest
    ten grades. Gains are linear in the grade.
    Range: 0 to 1; higher is better.
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
        return Null("no chunk is labelled relevant")
    # In units of a power of two near the highest grade: that rounds nothing, and no sum of grades can overflow.
    _, exponent = frexp(ranking.ideal[0])
    return _of_known(_discounted(ranking.gains, exponent) / _discounted(ranking.ideal, exponent), ranking)


_GROUP = "ranking"
_NEEDS = ("contexts",)

METRICS = (
    Metric(hit_at_10, _GROUP, "boolean", "higher", _NEEDS, "trec_eval", order_free=False),
    Metric(recall_at_10, _GROUP, "ratio", "higher", _NEEDS, "trec_eval", order_free=False),
    Metric(mrr, _GROUP, "ratio", "higher", _NEEDS, "Voorhees 1999", order_free=False),
    Metric(ndcg_at_10, _GROUP, "ratio", "higher", _NEEDS, "Järvelin and Kekäläinen 2002", order_free=False),
)
