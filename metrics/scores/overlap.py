"""Word overlap of question, answer and contexts: relevance, completeness and hallucination (the lexical evaluators).

Their hallucination score is the maximum of `claim_error` and `topic_drift`, which are metrics as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from ragweir.metrics.counts import Counts
from ragweir.metrics.metric import Metric, Null, Value
from ragweir.metrics.view import View

DRIFT = 0.2
"""Penalty for an answer off its contexts' topic; the evaluators have the same number as the bound of the overlap."""
_PAIRS_PER_FOUND = 5  # An overlap under 0.2, as an integer.

# The smoothed inverse document frequency over two texts is ln((1 + 2) / (1 + df)) + 1: 1 for a word of both.
_OWN_WEIGHT = (math.log(3 / 2) + 1) ** 2

_EXPLAINED = 10
_EXPLAINED_LENGTH = 120


_NO_TOKENS = Null("neither the query nor the response has a token")
_UNSUPPORTED_LANGUAGE = Null("the response is in a language that no word list serves, so its claims cannot be read")


def _cosine(counts: Counts) -> float:
    """Return the cosine of the TF-IDF vectors of query and response; the corpus is the two texts."""
    if not counts.cosine_dot:
        return 0.0
    return counts.cosine_dot / math.sqrt(
        _squared_length(counts.query_squares, counts.query_common_squares)
        * _squared_length(counts.response_squares, counts.response_common_squares)
    )


def _squared_length(squares: int, common: int) -> float:
    """Return the squared length of a vector, from the squared occurrences of all tokens and of the common ones."""
    return common + (squares - common) * _OWN_WEIGHT


def lexical_relevance(view: View) -> Value:
    """Word overlap of question and answer, as the mean of TF-IDF cosine and Jaccard index.

    Formula: (TF-IDF cosine + Jaccard) / 2. The cosine is scikit-learn's TfidfVectorizer fitted on the two texts
    (smoothed idf, l2 norm, without stop words) with our tokens; Jaccard is over all distinct tokens. 0 if one text is
    empty.
    Undefined: if neither text has a token.
    Reference: the lexical evaluators, "Relevance Evaluator".
    Known limits: a good answer need not repeat the question; "cost" is not "price"; negation is ignored.

    >>> from ragweir.metrics.view import example
    >>> round(lexical_relevance(example(query="What is the late fee?", response="The late fee is $25.")), 4)
    0.688
    """
    counts = view.counts
    common = counts.common_distinct
    union = counts.query_distinct + counts.response_distinct - common
    return (_cosine(counts) + common / union) / 2 if union else _NO_TOKENS


def lexical_completeness(view: View) -> Value:
    """Share of the question's keywords that occur in the answer.

    Formula: |query keywords in the response| / |query keywords|; keywords are the distinct tokens without stop words. 1
    if the question has none ("Is it?").
    Reference: the lexical evaluators, "Completeness Evaluator".
    Known limits: repeating the question is enough; keywords must be the same word.

    >>> from ragweir.metrics.view import example
    >>> lexical_completeness(example(query="Is it?", response="Yes."))
    1.0
    """
    counts = view.counts
    keywords = counts.query_keywords
    return counts.answered_keywords / keywords if keywords else 1.0


def claim_error(view: View) -> Value:
    """Share of the answer's checkable statements that the contexts do not support.

    Formula: |unsupported anchors| / |anchors|; 0 without anchors. Anchors are the response's distinct numbers and
    amounts, dates and clock times, and claims (`ragweir.metrics.text.claims`). Numbers and dates are supported if a
    context has them by value, in any sentence; a claim if one sentence of a context has all of its content stems.
    Undefined: without `contexts`; if the response's language is not supported.
    Reference: the lexical evaluators, "Hallucination Evaluator", steps 1 and 2; `ragweir score --explain` lists the
    anchors.
    Known limits: strict: a claim in other words than the context's is unsupported, and negation is ignored.

    >>> from ragweir.metrics.view import example
    >>> view = example(contexts=[{"text": "The fee is $25."}], response="The fee is $25. It covers 3 visits.")
    >>> round(claim_error(view), 4)
    0.5
    """
    counts = view.counts
    if not counts.response_supported:
        return _UNSUPPORTED_LANGUAGE
    unsupported, values = counts.unsupported_claims, counts.response_numbers + counts.response_moments
    total = values + counts.response_claims
    wrong = values - counts.supported_numbers - counts.supported_moments + unsupported
    return wrong / total if total else 0.0


def topic_drift(view: View) -> Value:
    """Penalty for an answer that shares almost no wording with its contexts.

    Formula: 0.2 if less than 0.2 of the response's distinct token pairs occur in a context, else 0; 0 for a response of
    fewer than two tokens.
    Range: 0 or 0.2; lower is better.
    Reference: the lexical evaluators, "Topic Drift Gate".
    Known limits: a threshold, not a measure; `bigram_support` is the overlap itself.

    >>> from ragweir.metrics.view import example
    >>> topic_drift(example(contexts=[{"text": "The fee is $25."}], response="Bananas ripen in the sun."))
    0.2
    """
    counts = view.counts
    return DRIFT if counts.supported_pairs * _PAIRS_PER_FOUND < counts.response_pairs else 0.0


def lexical_hallucination(view: View) -> Value:
    """Degree to which the answer goes beyond its contexts, by its checkable statements and its wording.

    Formula: max(`claim_error`, `topic_drift`).
    Undefined: as `claim_error`, since 0 would mean that claims were checked.
    Reference: the lexical evaluators, "Hallucination Evaluator".
    Known limits: as `claim_error`.

    >>> from ragweir.metrics.view import example
    >>> lexical_hallucination(example(contexts=[{"text": "The fee is $25."}], response="The fee is $30."))
    1.0
    """
    error = claim_error(view)
    return error if isinstance(error, Null) else max(error, topic_drift(view))  # type: ignore[type-var]


def _unsupported_anchors(view: View) -> Iterator[str]:
    response = view.response
    supported = view.reference.known_values
    for kind, values in (("number", response.numbers), ("date", response.dates), ("time", response.times)):
        yield from (f"{kind} {value}" for value in sorted(values - supported))
    spans = response.spans
    for claim in view.reference.missing_claims:
        clause = response.text[spans[claim.start][0] : spans[claim.stop - 1][1]]
        yield f"claim {' '.join(clause.split())}"


def explain_hallucination(view: View) -> tuple[str, ...]:
    """Return the answer's unsupported anchors: numbers, dates, times, claims; at most 10, each cut at 120 characters.

    >>> from ragweir.metrics.view import example
    >>> explain_hallucination(example(contexts=[{"text": "The fee is $25."}], response="The fee is $30."))
    ('number 30', 'claim The fee is $30')
    """
    if view.interaction.contexts is None or not view.response.is_supported:
        return ()
    return tuple(anchor[:_EXPLAINED_LENGTH] for anchor in islice(_unsupported_anchors(view), _EXPLAINED))


_CONTEXTS = ("contexts",)
_DOCUMENT = "the lexical evaluators"

METRICS = (
    Metric(lexical_relevance, "overlap", "ratio", "higher", (), _DOCUMENT, aliases=("relevance",)),
    Metric(lexical_completeness, "overlap", "ratio", "higher", (), _DOCUMENT, aliases=("completeness",)),
    Metric(claim_error, "overlap", "ratio", "lower", _CONTEXTS, _DOCUMENT),
    Metric(topic_drift, "overlap", "ratio", "lower", _CONTEXTS, _DOCUMENT),
    Metric(
        *(lexical_hallucination, "overlap", "ratio", "lower", _CONTEXTS, _DOCUMENT),
        aliases=("hallucination",),
        explain=explain_hallucination,
    ),
)
