"""Grounding metrics: overlap of the answer with the retrieved contexts, by words alone.

They compare words, not meaning: "the fee is refundable" and "the fee is not refundable" have the same grounding, and a
paraphrase looks unsupported. They rank answers for review; they are no proof.

Content words are compared by their first five code points (`Text.stems`), so that "requires" matches "required". An
answer may draw on several contexts, so that all contexts together count. If they are present but empty, nothing is
supported. A metric is null if the answer has nothing of its kind, such as numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import TypeVar

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.text.phrases import Phrases
from ragweir.metrics.view import View

Tokens = tuple[str, ...]
T = TypeVar("T", str, Tokens)

_EXPLAINED = 20
_EXPLAINED_LENGTH = 40
_NO_CONTENT = Null("the response has no content words")


@shared
def context_stems(view: View) -> frozenset[str]:
    """Return the content stems of all contexts together."""
    return frozenset().union(*(text.stems for text in view.contexts))


def _supported(view: View, wanted: set[T], read: Callable[[list[str]], Iterable[T]]) -> set[T]:
    """Return the wanted elements that are read in some context."""
    # Intersecting an iterator with the few wanted ones needs no large set of a context's elements.
    return wanted.intersection(chain.from_iterable(read(text.tokens) for text in view.contexts)) if wanted else wanted


@shared
def response_pairs(view: View) -> set[Tokens]:
    """Return the response's distinct token pairs."""
    return set(pairwise(view.response.tokens))


@shared
def supported_pairs(view: View) -> set[Tokens]:
    """Return the response's distinct token pairs that occur in a context."""
    return _supported(view, response_pairs(view), pairwise)


def _triples(tokens: list[str]) -> Iterator[Tokens]:
    return zip(tokens, tokens[1:], tokens[2:], strict=False)


@shared
def response_triples(view: View) -> set[Tokens]:
    """Return the response's distinct token triples."""
    return set(_triples(view.response.tokens))


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
    stems = view.response.stems
    return len(stems & context_stems(view)) / len(stems) if stems else _NO_CONTENT


def explain_support(view: View) -> tuple[str, ...]:
    """Return the answer's content words that occur in no context, in order, each once; at most 20, each cut at 40.

    >>> from ragweir.metrics.view import example
    >>> explain_support(example(contexts=[{"text": "The tower opened in 1889."}],
    ...                         response="The tower was opened in 1889 by Eiffel."))
    ('eiffel',)
    """
    if view.interaction.contexts is None:
        return ()
    known = context_stems(view)
    response = view.response
    tokens = zip(response.tokens, response.token_stems, strict=True)
    missing = dict.fromkeys(token for token, stem in tokens if stem and stem not in known)
    return tuple(token[:_EXPLAINED_LENGTH] for token in islice(missing, _EXPLAINED))


@shared
def unsupported_stems(view: View) -> frozenset[str]:
    """Return the response's content stems that occur in neither the contexts nor the query."""
    return view.response.stems - context_stems(view) - view.query.stems


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
    return len(unsupported_stems(view))


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
    pairs = response_pairs(view)
    return len(supported_pairs(view)) / len(pairs) if pairs else Null("the response has fewer than two tokens")


def trigram_support(view: View) -> Value:
    """Share of the answer's distinct runs of three tokens that occur in a context.

    Formula: |response triples in any context| / |response triples|; tokens as in `bigram_support`.
    Undefined: without `contexts`, or if the response has fewer than three tokens.
    Known limits: as `bigram_support`, more so.

    >>> from ragweir.metrics.view import example
    >>> trigram_support(example(contexts=[{"text": "The tower opened in 1889."}], response="The tower opened late."))
    0.5
    """
    triples = response_triples(view)
    if not triples:
        return Null("the response has fewer than three tokens")
    return len(_supported(view, triples, _triples)) / len(triples)


@shared
def supported_values(view: View) -> set[str]:
    """Return the response's numbers, dates and clock times that occur in a context, by value."""
    response = view.response
    # The canonical forms of numbers, dates and times differ from each other and from all other tokens.
    return _supported(view, {*response.numbers, *response.dates, *response.times}, iter)


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
    numbers = view.response.numbers
    return len(numbers & supported_values(view)) / len(numbers) if numbers else Null("the response has no numbers")


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
    moments = view.response.dates | view.response.times
    return len(moments & supported_values(view)) / len(moments) if moments else Null("the response has no date or time")


def _count_supported(view: View, phrases: frozenset[Tokens]) -> int:
    """Return the number of the response's phrases that occur in a context."""
    words = {phrase[0] for phrase in phrases if len(phrase) == 1}
    # The pairs are known already; they decide runs of two and exclude most longer ones.
    runs = [phrase for phrase in phrases if len(phrase) > 1 and supported_pairs(view).issuperset(pairwise(phrase))]
    longer = Phrases(run for run in runs if len(run) > 2).found_in(view.contexts)
    return len(_supported(view, words, iter)) + sum(len(run) == 2 for run in runs) + len(longer)


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
    phrases = view.response.phrases
    if not phrases:
        return Null("the response has no capitalised phrase")
    return _count_supported(view, phrases) / len(phrases)


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
    known = context_stems(view)
    sentences = [stems for stems in view.response.sentence_stems if stems]
    if not sentences:
        return _NO_CONTENT
    return sum(2 * len(stems & known) < len(stems) for stems in sentences) / len(sentences)


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
