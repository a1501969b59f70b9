"""Retrieval metrics from the metadata of contexts: methods, scores, pages, limits.

They are those of the retrieval, extraction and aggregation framework.

All contexts of the event count, since their texts are not read. They count by distinct `chunk_id`; a context without
an id, or with an empty one, is distinct.
"""

from __future__ import annotations

from math import fsum
from typing import NamedTuple

from ragweir.metrics.metric import Flagged, Metric, Null, Value, shared
from ragweir.metrics.scores.ranking import Chunk
from ragweir.metrics.view import View

_TOP = 10
_HYBRID = "hybrid"
_NO_SCORE = Null("no context has a score")
_NO_CHUNK_NUMBER = Null("no extraction names its chunk")
_NO_LIMIT = Null("the event names no retrieval limit")
_NO_METHOD = Null("no context names its retrieval method")
_NOT_COUNTED = Null("the event does not say how many chunks were retrieved before the filter")
_NO_WARNING = Null("nothing to warn of")
_NOTHING_KNOWN = Null("the event gives neither limits nor a count before the filter")


class _RetrievedChunks(NamedTuple):
    """The facts that the contexts give about their retrieval."""

    number: int
    """The number of distinct chunks."""
    bm25: set[Chunk]
    knn: set[Chunk]
    """The distinct chunks that either method found."""
    has_methods: bool
    """True if any context names its retrieval method."""
    scores: list[float]
    """The scaled score of each chunk by each method that found it; empty if no context has one."""
    is_scaled: bool
    """True if a score was not within 0 and 1."""
    pages: int
    """The number of distinct pages."""


@shared
def _found(view: View) -> _RetrievedChunks:
    by_method: dict[str | None, dict[Chunk, float | None]] = {}  # The highest score of each chunk, at least 0.
    pages: set[int | str | None] = set()
    is_scaled = False
    for place, context in enumerate(view.interaction.contexts or ()):
        method, chunk, score = context.retrieval_method, context.chunk_id or place, context.score
        pages.add(context.page)
        hits = by_method.get(method)
        if hits is None:
            hits = by_method[method] = {}
        before = hits.get(chunk)
        if score is None:
            hits[chunk] = before
            continue
        if not 0.0 <= score <= 1.0:
            is_scaled = True
            score = max(0.0, score)
        if before is None or score > before:
            hits[chunk] = score
    scores = [score for hits in by_method.values() for score in hits.values() if score is not None]
    both = by_method.get(_HYBRID, {})
    return _RetrievedChunks(
        len(set().union(*by_method.values())),
        {*by_method.get("bm25", ()), *both},
        {*by_method.get("knn", ()), *both},
        any(by_method),
        [score for hits in by_method.values() for score in _scaled(hits)] if is_scaled else scores,
        is_scaled,
        len({str(page) for page in pages if page}),
    )


def _scaled(hits: dict[Chunk, float | None]) -> list[float]:
    """Return the scores of one method, divided by the largest if that is above 1."""
    scores = [score for score in hits.values() if score is not None]
    largest = max(scores, default=0.0)
    return [score / largest for score in scores] if largest > 1 else scores


def context_relevance(view: View) -> Value:
    """Quality of the retrieved chunks, by agreement of the methods, scores and number of pages.

    Formula: 0.4 x |found by bm25 and knn| / |found by bm25 or knn| + 0.5 x mean of the scores above 0
    + 0.1 x min(distinct pages / 5, 1). A chunk that both methods found occurs twice or is "hybrid". It has one score
    per method, the higher one if it was sent twice. 0 without any context.
    Range: 0 to 1; above 0.7 is good, 0.4 to 0.7 acceptable; below 0.4 check queries, index and embeddings.
    Undefined: without `contexts`; if there are contexts and none has a score.
    Known limits: with a single method the first term is 0, and without pages the last, as in the framework; pages of
    different documents are not distinguished.
    Deviations: scores above 1 are divided by their method's largest in the event, and negative ones count as 0 (flag
    scores_outside_0_1); if no context names a method, the first term is left out and the others have its weight (flag
    no_retrieval_method).

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"chunk_id": f"c{page}", "page": page, "score": 0.84,
    ...              "retrieval_method": "hybrid" if page < 7 else "bm25"} for page in range(1, 9)]
    >>> round(context_relevance(example(contexts=contexts)), 3)
    0.82
    """
    found = _found(view)
    if not found.number:
        return 0.0
    if not found.scores:
        return _NO_SCORE
    above = [score for score in found.scores if score]
    mean = fsum(above) / max(len(above), 1)
    spread = min(found.pages / 5, 1.0)
    flags = []
    if found.has_methods:
        common = len(found.bm25 & found.knn)
        agreement = common / max(len(found.bm25) + len(found.knn) - common, 1)
        relevance = 0.4 * agreement + 0.5 * mean + 0.1 * spread
    else:
        relevance = (0.5 * mean + 0.1 * spread) / 0.6
        flags.append("no_retrieval_method")
    if found.is_scaled:
        flags.append("scores_outside_0_1")
    return Flagged(relevance, "+".join(flags)) if flags else relevance


@shared
def _contributions(view: View) -> tuple[int, ...] | Null:
    """Return the chunk number of each extraction that has one."""
    extractions = view.interaction.extractions or ()
    numbers = tuple(entry.chunk_number for entry in extractions if entry.chunk_number and entry.chunk_number > 0)
    if extractions and not numbers:
        return _NO_CHUNK_NUMBER
    return numbers


def precision_at_10(view: View) -> Value:
    """Share of the chunks with extractions that are among the first ten.

    Formula: distinct chunk numbers up to 10 / min(10, distinct chunk numbers), to three decimals; 0 without
    extractions.
    Undefined: without `extractions`; if there are extractions and none names its chunk.
    Reference: the retrieval, extraction and aggregation framework, `context_precision`.
    Known limits: `chunk_number` is not compared with the number of contexts; numbers below 1 are left out.

    >>> from ragweir.metrics.view import example
    >>> numbers = [1, 2, 3, 4, 5, 6, 7, 8, 9, 15]
    >>> precision_at_10(example(extractions=[{"chunk_number": number} for number in numbers]))
    0.9
    """
    numbers = _contributions(view)
    if isinstance(numbers, Null):
        return numbers
    distinct = set(numbers)
    return round(sum(number <= _TOP for number in distinct) / min(_TOP, len(distinct)), 3) if distinct else 0.0


def avg_rank(view: View) -> Value:
    """Mean rank of the chunks with extractions.

    Formula: mean chunk number over the extractions that name one, to one decimal; 0 without extractions.
    Range: 1 and up, or 0; lower is better.
    Undefined: as `precision_at_10`.
    Reference: the retrieval, extraction and aggregation framework, `context_precision`.

    >>> from ragweir.metrics.view import example
    >>> avg_rank(example(extractions=[{"chunk_number": 1}, {"chunk_number": 1}, {"chunk_number": 5}]))
    2.3
    """
    numbers = _contributions(view)
    if isinstance(numbers, Null):
        return numbers
    return round(sum(numbers) / len(numbers), 1) if numbers else 0.0


def contributing_chunks(view: View) -> Value:
    """Number of chunks with extractions.

    Formula: distinct chunk numbers of the extractions.
    Undefined: as `precision_at_10`.
    Reference: the retrieval, extraction and aggregation framework, `context_precision`.

    >>> from ragweir.metrics.view import example
    >>> contributing_chunks(example(extractions=[{"chunk_number": 2}, {"chunk_number": 2}, {"chunk_number": 7}]))
    2
    """
    numbers = _contributions(view)
    return numbers if isinstance(numbers, Null) else len(set(numbers))


@shared
def _limit_reached(view: View) -> bool | Null:
    retrieval, found = view.interaction.retrieval, _found(view)
    if retrieval is None or (retrieval.bm25_limit is None and retrieval.knn_limit is None):
        return _NO_LIMIT
    if found.number and not found.has_methods:
        return _NO_METHOD
    pairs = (found.bm25, retrieval.bm25_limit), (found.knn, retrieval.knn_limit)
    return any(limit is not None and len(chunks) >= limit for chunks, limit in pairs)


@shared
def _much_filtered(view: View) -> bool | Null:
    retrieval = view.interaction.retrieval
    if retrieval is None or retrieval.retrieved_before_filter is None:
        return _NOT_COUNTED
    return _found(view).number / max(retrieval.retrieved_before_filter, 1) < 0.5


def context_recall_heuristic(view: View) -> Value:
    """Heuristic estimate of the share of the needed information that was retrieved.

    Formula: min(contributing chunks / distinct chunks, 1), x 0.7 if a retrieval limit was reached, else x 0.85 if more
    than half was filtered out; to three decimals. A penalty whose warning (`hit_limit_warning`,
    `high_filtering_warning`) is null is not applied. Below 0.7, or at a limit, the
    framework asks a model.
    Undefined: without `contexts` or `extractions`; if there are extractions and none names its chunk.
    Known limits: it measures the use of the retrieved chunks, not the missed ones.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"chunk_id": name, "retrieval_method": "bm25"} for name in "abcd"]
    >>> extractions = [{"chunk_number": number} for number in (1, 2, 3)]
    >>> context_recall_heuristic(example(contexts=contexts, extractions=extractions))
    0.75
    >>> context_recall_heuristic(example(contexts=contexts, extractions=extractions, retrieval={"bm25_limit": 4}))
    0.525
    """
    numbers = _contributions(view)
    if isinstance(numbers, Null):
        return numbers
    recall = min(len(set(numbers)) / max(_found(view).number, 1), 1.0)
    if _limit_reached(view) is True:
        recall *= 0.7
    elif _much_filtered(view) is True:
        recall *= 0.85
    return round(recall, 3)


def hit_limit_warning(view: View) -> Value:
    """True if a retrieval method returned as many chunks as its limit allows, so that there may be more.

    Formula: distinct chunks found by bm25 >= bm25_limit, or by knn >= knn_limit; an absent limit is not reached.
    Undefined: without `contexts` or `retrieval`; if both limits are absent; if there are contexts and none names its
    method.
    Reference: the retrieval, extraction and aggregation framework, `context_recall_heuristic`.
    Known limits: a limit of 0 is always reached, as in the framework: leave out the limit of a method that is off.

    >>> from ragweir.metrics.view import example
    >>> found = [{"chunk_id": name, "retrieval_method": "knn"} for name in "abc"]
    >>> hit_limit_warning(example(contexts=found, retrieval={"knn_limit": 3}))
    True
    >>> hit_limit_warning(example(contexts=found, retrieval={"knn_limit": 4}))
    False
    """
    return _limit_reached(view)


def high_filtering_warning(view: View) -> Value:
    """True if more than half of the retrieved chunks were filtered out.

    Formula: distinct chunks / max(retrieved_before_filter, 1) < 0.5.
    Undefined: without `contexts` or `retrieval`, or if that has no number of chunks before the filter.
    Reference: the retrieval, extraction and aggregation framework, `context_recall_heuristic`.
    Known limits: no chunks before and none after the filter are a warning, as in the framework.

    >>> from ragweir.metrics.view import example
    >>> high_filtering_warning(example(contexts=[{}, {}], retrieval={"retrieved_before_filter": 5}))
    True
    >>> high_filtering_warning(example(contexts=[{}, {}], retrieval={"retrieved_before_filter": 4}))
    False
    """
    return _much_filtered(view)


def recall_warning(view: View) -> Value:
    """The reason why retrieval may be incomplete.

    Formula: HIT_RETRIEVAL_LIMIT if `hit_limit_warning`, else HIGH_THRESHOLD_FILTERING if `high_filtering_warning`.
    Undefined: if neither warning is true, which is the good case, or both are null.

    >>> from ragweir.metrics.view import example
    >>> recall_warning(example(contexts=[{}, {}], retrieval={"retrieved_before_filter": 5}))
    'HIGH_THRESHOLD_FILTERING'
    """
    reached, filtered = _limit_reached(view), _much_filtered(view)
    if reached is True:
        return "HIT_RETRIEVAL_LIMIT"
    if filtered is True:
        return "HIGH_THRESHOLD_FILTERING"
    return _NO_WARNING if reached is False or filtered is False else _NOTHING_KNOWN


_GROUP = "retrieval"
_DOCUMENT = "the retrieval, extraction and aggregation framework"
_CONTEXTS = ("contexts",)
_EXTRACTIONS = ("extractions",)
_BOTH = (*_CONTEXTS, *_EXTRACTIONS)
_SETTINGS = ("contexts", "retrieval")
_WARNINGS = ("HIT_RETRIEVAL_LIMIT", "HIGH_THRESHOLD_FILTERING")

METRICS = (
    Metric(context_relevance, _GROUP, "ratio", "higher", _CONTEXTS, _DOCUMENT),
    Metric(precision_at_10, _GROUP, "ratio", "higher", _EXTRACTIONS, _DOCUMENT, aliases=("context_precision",)),
    Metric(avg_rank, _GROUP, "count", "lower", _EXTRACTIONS, _DOCUMENT),
    Metric(contributing_chunks, _GROUP, "count", "neither", _EXTRACTIONS, _DOCUMENT, aliases=("contributing_count",)),
    Metric(context_recall_heuristic, _GROUP, "ratio", "higher", _BOTH, _DOCUMENT, aliases=("recall_score",)),
    Metric(hit_limit_warning, _GROUP, "boolean", "lower", _SETTINGS, _DOCUMENT),
    Metric(high_filtering_warning, _GROUP, "boolean", "lower", _SETTINGS, _DOCUMENT),
    Metric(recall_warning, _GROUP, "category", "neither", _SETTINGS, _DOCUMENT, labels=_WARNINGS),
)
