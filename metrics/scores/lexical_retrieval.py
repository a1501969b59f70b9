"""Retrieval metrics from the words of the contexts: match with the question, redundancy, and use in the answer.

Contexts are read best rank first, and a context that occurs twice with one chunk_id (both methods found it) once. Words
are compared, not meaning: a synonym is another word, a negated sentence has the same words.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat
from math import fsum, log

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.view import View

_K1 = 1.5
_B = 0.75

_NO_QUERY_WORDS = Null("the query has no content words")
_NO_CONTENT = Null("the response has no content words")
_NO_PASSAGES = Null("there are no contexts")
_ONE_PASSAGE = Null("there are fewer than two distinct contexts")
_NO_TERM_FOUND = Null("no context has a content word of the query")
_NO_REPETITION = Null("fewer than two distinct contexts have content words")


def query_context_coverage(view: View) -> Value:
    """Share of the question's content words that occur in the contexts.

    Formula: |query stems in any context| / |query stems|; stems are the first five code points of words. 0 if the
    contexts are empty.
    Undefined: without `contexts`, or if the query has no content words.
    Reference: recall of query terms, common practice.
    Known limits: a synonym counts as missing.

    >>> from ragweir.metrics.view import example
    >>> query_context_coverage(example(query="When does the flood policy expire?",
    ...                                contexts=[{"text": "Flood policies last a year."}]))
    0.6666666666666666
    """
    counts = view.counts
    stems = counts.query_stems
    return counts.covered_query_stems / stems if stems else _NO_QUERY_WORDS


@lru_cache(4_096)
def _weight(number: int, having: int) -> float:
    """Return the idf of a term that so many of a number of passages have, times k1 + 1."""
    return (_K1 + 1) * log(1 + (number - having + 0.5) / (having + 0.5))


@shared
def _bm25(view: View) -> tuple[float, ...] | Null:
    """Return each passage's score for the query, best rank first."""
    counts = view.counts
    lengths = counts.passage_content
    if not counts.query_terms:
        return _NO_QUERY_WORDS
    if not lengths:
        return _NO_PASSAGES
    number, mean_length = len(lengths), sum(lengths) / len(lengths)
    weights = list(map(_weight, repeat(number), counts.term_passages))
    scores = []
    for length, terms, occurrences in zip(lengths, counts.passage_terms, counts.passage_occurrences, strict=True):
        damping = _K1 * (1 - _B + _B * length / mean_length) if terms else 0.0
        found = zip(terms, occurrences, strict=True)
        scores.append(fsum([weights[term] * count / (count + damping) for term, count in found]))
    return tuple(scores)


def bm25_top(view: View) -> Value:
    """Highest BM25 score of a context for the question.

    Formula: highest over the contexts of the sum, over the query's distinct content tokens, of
    idf x tf x (k1 + 1) / (tf + k1 x (1 - b + b x length / mean length)), where k1 = 1.5, b = 0.75 and
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)). The documents are the event's contexts, read as their content tokens.
    Range: 0 and up; higher is better.
    Undefined: without `contexts` or with none; if the query has no content words.
    Reference: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009; with the idf of
    Lucene, which cannot be negative.
    Known limits: with few contexts idf has little meaning, and scores for different queries are only roughly
    comparable. Stop words are left out because among few contexts a rare "how" would weigh as much as a name: for
    MTRAG's questions the right one of five contexts came first in 77 % of trials instead of 73 %.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Floods are covered."}, {"text": "Fire cover starts today."}]
    >>> round(bm25_top(example(query="fire", contexts=contexts)), 4)
    0.6027
    """
    scores = _bm25(view)
    return scores if isinstance(scores, Null) else max(scores)


def bm25_mean(view: View) -> Value:
    """Mean BM25 score of the contexts for the question.

    Formula: mean of the contexts' scores as in `bm25_top`.
    Range: 0 and up; higher is better.
    Undefined: as `bm25_top`.
    Known limits: as `bm25_top`.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Floods are covered."}, {"text": "Fire cover starts today."}]
    >>> round(bm25_mean(example(query="fire", contexts=contexts)), 4)
    0.3014
    """
    scores = _bm25(view)
    return scores if isinstance(scores, Null) else fsum(scores) / len(scores)


def bm25_rank_agreement(view: View) -> Value:
    """True if the first context has the highest BM25 score.

    Formula: 1 if no context has a higher score than the first one, else 0; scores as in `bm25_top`. A semantic
    retriever may rightly disagree.
    Undefined: as `bm25_top`; with fewer than two distinct contexts; if no context has a content word of the query.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Floods are covered."}, {"text": "Fire cover starts today."}]
    >>> bm25_rank_agreement(example(query="fire", contexts=contexts))
    False
    """
    scores = _bm25(view)
    if isinstance(scores, Null):
        return scores
    if len(scores) < 2:
        return _ONE_PASSAGE
    best = max(scores)
    return scores[0] == best if best else _NO_TERM_FOUND


def context_utilisation(view: View) -> Value:
    """Share of the contexts that the answer drew on.

    Formula: used contexts / distinct contexts. A context is used if some sentence of the response has at least half of
    its content stems in it, and no more of them in another context. Unused contexts cost tokens and distract.
    Undefined: without `contexts` or with none; if no sentence of the response has content words.
    Reference: common practice; stems are the first five code points of words.
    Known limits: a paraphrase uses nothing; a sentence that draws on three contexts equally may use none.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "The flood policy lasts a year."}, {"text": "Fire cover starts today."}]
    >>> context_utilisation(example(contexts=contexts, response="Your flood policy lasts one year."))
    0.5
    """
    counts = view.counts
    used, sentences = counts.passage_used, counts.content_sentences
    if not used:
        return _NO_PASSAGES
    return sum(used) / len(used) if sentences else _NO_CONTENT


def explain_utilisation(view: View) -> tuple[str, ...]:
    """Return the ranks of the contexts that the answer did not draw on.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "The flood policy lasts a year."}, {"text": "Fire cover starts today."}]
    >>> explain_utilisation(example(contexts=contexts, response="Your flood policy lasts one year."))
    ('context 2 was not used',)
    """
    counts = view.counts
    used = counts.passage_used
    if not counts.content_sentences:
        return ()
    return tuple(f"context {rank} was not used" for rank, drawn_on in enumerate(used, 1) if not drawn_on)


def context_redundancy(view: View) -> Value:
    """Mean share of a context that repeats earlier contexts.

    Formula: mean, over the distinct contexts with content tokens except the first, of the share of a context's distinct
    content tokens that occur in an earlier one.
    Undefined: without `contexts`; if fewer than two distinct contexts have content tokens.
    Known limits: documents on one subject share its words without repeating its facts.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Fire cover starts today."}, {"text": "Fire cover ends tomorrow."}]
    >>> context_redundancy(example(contexts=contexts))
    0.5
    """
    counts = view.counts
    earlier = False
    shares = []
    for content, repeated in zip(counts.passage_distinct, counts.passage_repeated, strict=True):
        if content and earlier:
            shares.append(repeated / content)
        earlier = earlier or content > 0
    return fsum(shares) / len(shares) if shares else _NO_REPETITION


def context_tokens(view: View) -> Value:
    """Length of the retrieved contexts in tokens.

    Formula: sum of the distinct contexts' tokens; 0 if they are empty. A language model counts somewhat more tokens.

    >>> from ragweir.metrics.view import example
    >>> context_tokens(example(contexts=[{"text": "Fire cover starts today."}, {"text": "Yes."}]))
    5
    """
    return sum(view.counts.passage_tokens)


_GROUP = "lexical_retrieval"
_SOURCE = "ragweir's own"
_NEEDS = ("contexts",)

METRICS = (
    Metric(query_context_coverage, _GROUP, "ratio", "higher", _NEEDS, _SOURCE),
    Metric(bm25_top, _GROUP, "score", "higher", _NEEDS, "Robertson and Zaragoza 2009"),
    Metric(bm25_mean, _GROUP, "score", "higher", _NEEDS, "Robertson and Zaragoza 2009"),
    Metric(bm25_rank_agreement, _GROUP, "boolean", "neither", _NEEDS, _SOURCE, order_free=False),
    Metric(context_utilisation, _GROUP, "ratio", "higher", _NEEDS, _SOURCE, explain=explain_utilisation),
    Metric(context_redundancy, _GROUP, "ratio", "lower", _NEEDS, _SOURCE, order_free=False),
    Metric(context_tokens, _GROUP, "count", "neither", _NEEDS, _SOURCE),
)
