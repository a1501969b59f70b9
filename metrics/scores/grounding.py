"""Grounding metrics: overlap of the answer with the retrieved contexts, by words alone.

They compare words, not meaning: "the fee is refundable" and "the fee is not refundable" have the same grounding, and a
paraphrase looks unsupported. They rank answers for review; they are no proof.

Content words are compared by their first five code points (`Text.stems`), so that "requires" matches "required". An
answer may draw on several contexts, so that all contexts together count. If they are present but empty, nothing is
supported. A metric is null if the answer has nothing of its kind, such as numbers.
"""

from __future__ import annotations

from itertools import islice

from ragweir.metrics.metric import Metric, Null, Value
from ragweir.metrics.support_spans import support_spans
from ragweir.metrics.view import View

_EXPLAINED = 20
_EXPLAINED_LENGTH = 40
_NO_CONTENT = Null("the response has no content words")
_NO_PAIRS = Null("the response has fewer than two tokens")
_NO_TRIPLES = Null("the response has fewer than three tokens")
_NO_NUMBERS = Null("the response has no numbers")
_NO_MOMENTS = Null("the response has no date or time")
_NO_PHRASES = Null("the response has no capitalised phrase")


def context_support(view: View) -> Value:
    """Share of the answer's distinct content words that occur in the contexts.

    Formula: |response stems in any context| / |response stems|; 0 if the contexts are empty.
    Undefined: without `contexts`, or if the response has no content words.
    Reference: the best single signal on short answers; `tools/measure_grounding.py` prints its AUROC against labels.
    Known limits: negation and word order are ignored, and a paraphrase counts as unsupported.

    >>> from ragweir.metrics.view import example
    >>> context_support(example(contexts=[{"text": "The tower opened in 1889."}],
    ...                         response="The tower was opened in 1889 by Eiffel."))
    0.75
    """
    counts = view.counts
    stems = counts.response_stems
    return counts.supported_stems / stems if stems else _NO_CONTENT


def explain_support(view: View) -> tuple[str, ...]:
    """Return the answer's content words that occur in no context, in order, each once; at most 20, each cut at 40.

    >>> from ragweir.metrics.view import example
    >>> explain_support(example(contexts=[{"text": "The tower opened in 1889."}],
    ...                         response="The tower was opened in 1889 by Eiffel."))
    ('eiffel',)
    """
    spans = support_spans(view)
    missing = dict.fromkeys(word.token for each in spans.sentences for word in each.unsupported) if spans else ()
    return tuple(token[:_EXPLAINED_LENGTH] for token in islice(missing, _EXPLAINED))


def unsupported_words(view: View) -> Value:
    """Number of distinct content words of the answer that occur in neither the contexts nor the question.

    Formula: |response stems - context stems - query stems|; 0 for an empty response.
    Reference: the best single signal on long answers, where one invented sentence hardly changes a share.
    Known limits: as `context_support`; it grows with the length of the answer.

    >>> from ragweir.metrics.view import example
    >>> unsupported_words(example(query="Who built it?", contexts=[{"text": "The tower opened in 1889."}],
    ...                           response="Gustave Eiffel built the tower."))
    2
    """
    return view.counts.unsupported_stems


def bigram_support(view: View) -> Value:
    """Share of the answer's distinct pairs of neighbouring tokens that are neighbours in a context.

    All tokens count, with stop words, and a pair may span two sentences: of the variants tried (all tokens or content
    only, whole words or stems, within sentences or not) this and the one on stems rank answers best on both labelled
    sets, and this one is the cheapest.

    Formula: |response pairs in any context| / |response pairs|.
    Undefined: without `contexts`, or if the response has fewer than two tokens.
    Known limits: rewards copying; a faithful summary in other words scores low.

    >>> from ragweir.metrics.view import example
    >>> bigram_support(example(contexts=[{"text": "The tower opened in 1889."}], response="The tower opened late."))
    0.6666666666666666
    """
    counts = view.counts
    pairs = counts.response_pairs
    return counts.supported_pairs / pairs if pairs else _NO_PAIRS


def trigram_support(view: View) -> Value:
    """Share of the answer's distinct runs of three tokens that occur in a context.

    Formula: |response triples in any context| / |response triples|; tokens as in `bigram_support`.
    Undefined: without `contexts`, or if the response has fewer than three tokens.
    Known limits: as `bigram_support`, more so.

    >>> from ragweir.metrics.view import example
    >>> trigram_support(example(contexts=[{"text": "The tower opened in 1889."}], response="The tower opened late."))
    0.5
    """
    counts = view.counts
    triples = counts.response_triples
    return counts.supported_triples / triples if triples else _NO_TRIPLES


def number_support(view: View) -> Value:
    """Share of the answer's numbers that occur in the contexts, by value.

    Formula: |response numbers in any context| / |response numbers|; $604 = 604.00, and digits in dates, times and
    identifiers are not numbers.
    Undefined: without `contexts`, or if the response has no numbers.
    Reference: the lexical evaluators' numeric anchors.
    Known limits: a number that was computed from others, or written in words, is not found.

    >>> from ragweir.metrics.view import example
    >>> number_support(example(contexts=[{"text": "The fee is $604.00."}], response="It costs 604, or 1,208 for two."))
    0.5
    """
    counts = view.counts
    numbers = counts.response_numbers
    return counts.supported_numbers / numbers if numbers else _NO_NUMBERS


def date_support(view: View) -> Value:
    """Share of the answer's dates and clock times that occur in the contexts, by value.

    Formula: |response dates and times in any context| / |response dates and times|, in any notation.
    Undefined: without `contexts`, or if the response has no dates or times.
    Reference: the lexical evaluators' date anchors (dates, times).
    Known limits: a year alone is a number; "next Monday" is not a date.

    >>> from ragweir.metrics.view import example
    >>> date_support(example(contexts=[{"text": "Signed on 2025-12-09."}], response="They signed on 9 December 2025."))
    1.0
    """
    counts = view.counts
    moments = counts.response_moments
    return counts.supported_moments / moments if moments else _NO_MOMENTS


def name_support(view: View) -> Value:
    """Share of the answer's names that occur in the contexts.

    Formula: |response phrases in any context| / |response phrases|; a phrase is a run of capitalised words, numbers
    and identifiers ("Territory 118"), compared without case, and must occur as a run.
    Undefined: without `contexts`, or if the response has no capitalised phrase.
    Reference: after the expected-answer benchmark's capitalised phrases.
    Known limits: a title or a capitalised heading counts as a name; "Eiffel" does not support "Gustave Eiffel".

    >>> from ragweir.metrics.view import example
    >>> name_support(example(contexts=[{"text": "By Gustave Eiffel."}], response="Built by Gustave Eiffel in Lyon."))
    0.5
    """
    counts = view.counts
    phrases = counts.response_phrases
    return counts.supported_phrases / phrases if phrases else _NO_PHRASES


def unsupported_sentences(view: View) -> Value:
    """Share of the answer's sentences of which less than half occurs in the contexts.

    Formula: |sentences with under half of their content stems in the contexts| / |sentences with content stems|.
    Undefined: without `contexts`, or if the response has no content words.
    Reference: after the sentence-level checks of the lexical evaluators.
    Known limits: as `context_support`; one word decides a short sentence.

    >>> from ragweir.metrics.view import example
    >>> unsupported_sentences(example(contexts=[{"text": "The tower opened in 1889."}],
    ...                               response="The tower opened in 1889. Gustave Eiffel lived upstairs."))
    0.5
    """
    counts = view.counts
    weak, sentences = counts.weak_sentences, counts.content_sentences
    return weak / sentences if sentences else _NO_CONTENT


_CONTEXTS = ("contexts",)
_BEYOND = "ragweir's own"

METRICS = (
    Metric(context_support, "grounding", "ratio", "higher", _CONTEXTS, _BEYOND, explain=explain_support),
    Metric(unsupported_words, "grounding", "count", "lower", _CONTEXTS, _BEYOND),
    Metric(bigram_support, "grounding", "ratio", "higher", _CONTEXTS, "after the lexical evaluators"),
    Metric(trigram_support, "grounding", "ratio", "higher", _CONTEXTS, "after the lexical evaluators"),
    Metric(number_support, "grounding", "ratio", "higher", _CONTEXTS, "after the lexical evaluators"),
    Metric(date_support, "grounding", "ratio", "higher", _CONTEXTS, "after the lexical evaluators"),
    Metric(name_support, "grounding", "ratio", "higher", _CONTEXTS, "after the expected-answer benchmark"),
    Metric(unsupported_sentences, "grounding", "ratio", "lower", _CONTEXTS, _BEYOND),
)
