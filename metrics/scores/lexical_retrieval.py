"""Retrieval, from the words of the contexts: do they meet the question, repeat each other, and serve the answer?

Contexts are taken best rank first. One that stands twice under one chunk_id (both methods found it) is read once.
None of this understands meaning: a synonym is another word, a negated sentence has the same words.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain
from math import fsum, log

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.scores.grounding import context_stems
from ragweir.metrics.scores.ranking import ranked
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import View

_K1 = 1.5
_B = 0.75

_NO_QUERY_WORDS = Null("the query has no content words")


@shared
def _passages(view: View) -> tuple[Text, ...]:
    """The distinct contexts, best rank first."""
    contexts, texts = view.interaction.contexts or (), view.contexts
    passages: dict[object, Text] = {}
    for place in ranked(view):
        if place < len(texts):
            context = contexts[place]
            # The same id over another text is a careless id, and the text is kept.
            passages.setdefault((context.chunk_id, context.text) if context.chunk_id else place, texts[place])
    return tuple(passages.values())


def query_context_coverage(view: View) -> Value:
    """Share of the question's content words that stand in the contexts.

    Formula: |query stems in any context| / |query stems|; words compare by their first five code points.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the query has no content words. Empty contexts cover nothing: 0.
    Reference: recall of query terms, common practice.
    Known limits: what the question calls by another name than the source counts as missing.

    >>> from ragweir.metrics.view import example
    >>> query_context_coverage(example(query="When does the flood policy expire?",
    ...                                contexts=[{"text": "Flood policies last a year."}]))
    0.6666666666666666
    """
    stems = view.query.stems
    return len(stems & context_stems(view)) / len(stems) if stems else _NO_QUERY_WORDS


@shared
def _bm25(view: View) -> tuple[float, ...] | Null:
    """Each passage's score for the query, best rank first."""
    passages = _passages(view)
    terms = view.query.content_set
    if not terms:
        return _NO_QUERY_WORDS
    if not passages:
        return Null("there are no contexts")
    frequencies = [Counter(filter(terms.__contains__, passage.content)) for passage in passages]
    mean_length = sum(len(passage.content) for passage in passages) / len(passages)
    having = Counter(chain.from_iterable(frequencies))
    weights = {
        term: (_K1 + 1) * log(1 + (len(passages) - count + 0.5) / (count + 0.5)) for term, count in having.items()
    }
    scores = []
    for passage, found in zip(passages, frequencies, strict=True):
        damping = _K1 * (1 - _B + _B * len(passage.content) / mean_length) if found else 0.0
        scores.append(fsum([weights[term] * count / (count + damping) for term, count in found.items()]))
    return tuple(scores)


def bm25_top(view: View) -> Value:
    """How well the best context meets the question, by BM25.

    Formula: highest over the contexts of the sum, over the query's distinct content tokens, of
    idf x tf x (k1 + 1) / (tf + k1 x (1 - b + b x length / mean length)), where k1 = 1.5, b = 0.75 and
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)). The documents are the event's contexts, read as their content tokens.
    Range: 0 and up; higher is better.
    Undefined: without `contexts` or with none; when the query has no content words.
    Reference: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond, 2009; the idf, which
    cannot turn negative, is Lucene's.
    Known limits: with few contexts idf tells little, and scores of events with different queries compare only roughly.
    Stop words are left out because among few contexts a rare "how" would weigh as much as a name: for MTRAG's
    questions the right one of five contexts came first in 77 % of trials instead of 73 %.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Floods are covered."}, {"text": "Fire cover starts today."}]
    >>> round(bm25_top(example(query="fire", contexts=contexts)), 4)
    0.6027
    """
    scores = _bm25(view)
    return scores if isinstance(scores, Null) else max(scores)


def bm25_mean(view: View) -> Value:
    """How well the contexts meet the question on average, by BM25.

    Formula: mean of the contexts' scores as in `bm25_top`.
    Range: 0 and up; higher is better.
    Undefined: as `bm25_top`.
    Reference: as `bm25_top`.
    Known limits: as `bm25_top`.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Floods are covered."}, {"text": "Fire cover starts today."}]
    >>> round(bm25_mean(example(query="fire", contexts=contexts)), 4)
    0.3014
    """
    scores = _bm25(view)
    return scores if isinstance(scores, Null) else fsum(scores) / len(scores)


def bm25_rank_agreement(view: View) -> Value:
    """Does the context that BM25 finds best come first?

    Formula: 1 when no context scores higher than the first one, else 0; scores as in `bm25_top`.
    Range: 1 or 0; a semantic retriever may rightly disagree, so neither is better.
    Undefined: as `bm25_top`; with fewer than two distinct contexts; when no context has a content word of the query.
    Reference: common practice.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Floods are covered."}, {"text": "Fire cover starts today."}]
    >>> bm25_rank_agreement(example(query="fire", contexts=contexts))
    False
    """
    scores = _bm25(view)
    if isinstance(scores, Null):
        return scores
    if len(scores) < 2:
        return Null("there are fewer than two distinct contexts")
    best = max(scores)
    return scores[0] == best if best else Null("no context has a content word of the query")


@shared
def _used(view: View) -> tuple[bool, ...] | Null:
    """For each passage, best rank first, whether the answer drew on it."""
    passages = _passages(view)
    sentences = [stems for stems in view.response.sentence_stems if stems]
    if not passages:
        return Null("there are no contexts")
    if not sentences:
        return Null("the response has no content words")
    having: dict[str, list[int]] = {stem: [] for stem in view.response.stems}
    for place, passage in enumerate(passages):
        for stem in passage.stems & having.keys():
            having[stem].append(place)
    used: set[int] = set()
    for sentence in sentences:
        # Only contexts that share a stem are looked at: trying all on each sentence is a product.
        shares = Counter(chain.from_iterable(map(having.__getitem__, sentence)))
        best = max(shares.values(), default=0)
        if 2 * best >= len(sentence):
            used.update(place for place, share in shares.items() if share == best)
    return tuple(place in used for place in range(len(passages)))


def context_utilisation(view: View) -> Value:
    """Share of the contexts that the answer drew on.

    Formula: a context counts as used when some sentence of the response has at least half of its content stems in it,
    and in no other context more of them; used contexts / distinct contexts. Contexts that tie are all used.
    Range: 0 to 1; higher is better: what is retrieved and not used costs tokens and distracts.
    Undefined: without `contexts` or with none; when no sentence of the response has content words.
    Reference: common practice; words compare by their first five code points.
    Known limits: a sentence in words of its own uses nothing; one drawn from three contexts alike may use none.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "The flood policy lasts a year."}, {"text": "Fire cover starts today."}]
    >>> context_utilisation(example(contexts=contexts, response="Your flood policy lasts one year."))
    0.5
    """
    used = _used(view)
    return used if isinstance(used, Null) else sum(used) / len(used)


def explain_utilisation(view: View) -> tuple[str, ...]:
    """Which contexts the answer did not draw on, by their rank.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "The flood policy lasts a year."}, {"text": "Fire cover starts today."}]
    >>> explain_utilisation(example(contexts=contexts, response="Your flood policy lasts one year."))
    ('context 2 was not used',)
    """
    used = _used(view)
    if isinstance(used, Null):
        return ()
    return tuple(f"context {rank} was not used" for rank, drawn_on in enumerate(used, 1) if not drawn_on)


def context_redundancy(view: View) -> Value:
    """How much of a context has already been said by those before it.

    Formula: mean, over the distinct contexts that have content tokens but for the first of them, of the share of a
    context's distinct content tokens that stand in an earlier one.
    Range: 0 to 1; lower is better.
    Undefined: without `contexts`; when fewer than two distinct contexts have content tokens.
    Reference: common practice.
    Known limits: documents about one subject share its words without repeating its facts.

    >>> from ragweir.metrics.view import example
    >>> contexts = [{"text": "Fire cover starts today."}, {"text": "Fire cover ends tomorrow."}]
    >>> context_redundancy(example(contexts=contexts))
    0.5
    """
    said: set[str] = set()
    shares = []
    for passage in _passages(view):
        content = passage.content_set
        if content and said:
            shares.append(len(content & said) / len(content))
        said |= content
    return fsum(shares) / len(shares) if shares else Null("fewer than two distinct contexts have content words")


def context_tokens(view: View) -> Value:
    """How much text was retrieved.

    Formula: sum of the distinct contexts' tokens. A language model's own tokens are some more.
    Range: 0 and up; neither direction is better.
    Undefined: without `contexts`. Empty contexts give 0.
    Reference: common practice.

    >>> from ragweir.metrics.view import example
    >>> context_tokens(example(contexts=[{"text": "Fire cover starts today."}, {"text": "Yes."}]))
    5
    """
    return sum(len(passage.tokens) for passage in _passages(view))


_GROUP = "lexical_retrieval"
_SOURCE = "beyond the documents"
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
