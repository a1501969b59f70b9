"""Grounding: how much of the answer stands in the retrieved contexts, by the words alone.

None of these understands meaning: "the fee is refundable" and "the fee is not refundable" are grounded alike, and a
true answer in words of its own looks unsupported. They rank answers for a closer look; they do not convict.

Content words compare by their first five code points (`Text.stems`), so that "requires" finds "required". What the
contexts hold is held by all of them together: an answer may draw on several. Contexts that are present but empty
hold nothing, so whatever the answer says is unsupported; what the answer does not contain at all has no share, so
the metric is null.
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
    """The content stems of all contexts together."""
    return frozenset().union(*(text.stems for text in view.contexts))


def _stated(view: View, wanted: set[T], read: Callable[[list[str]], Iterable[T]]) -> set[T]:
    """Those of the wanted things that are read in some context."""
    # Running over a context against the few wanted ones spares a large set of all that it holds.
    return wanted.intersection(chain.from_iterable(read(text.tokens) for text in view.contexts)) if wanted else wanted


@shared
def response_pairs(view: View) -> set[Tokens]:
    """The response's distinct token pairs."""
    return set(pairwise(view.response.tokens))


@shared
def stated_pairs(view: View) -> set[Tokens]:
    """The response's distinct token pairs that stand in a context."""
    return _stated(view, response_pairs(view), pairwise)


def _triples(tokens: list[str]) -> Iterator[Tokens]:
    return zip(tokens, tokens[1:], tokens[2:], strict=False)


@shared
def response_triples(view: View) -> set[Tokens]:
    """The response's distinct token triples."""
    return set(_triples(view.response.tokens))


def context_support(view: View) -> Value:
    """Share of the answer's distinct content words that stand in the contexts.

    Formula: |response stems in any context| / |response stems|.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the response has no content words. Empty contexts support nothing: 0.
    Reference: the best single signal on short answers against human labels; `bench/labelled.py` prints its AUROC.
    Known limits: word overlap knows neither negation nor who did what to whom, and paraphrase counts as unsupported.

    >>> from ragweir.metrics.view import example
    >>> context_support(example(contexts=[{"text": "The tower opened in 1889."}],
    ...                         response="The tower was opened in 1889 by Eiffel."))
    0.75
    """
    stems = view.response.stems
    return len(stems & context_stems(view)) / len(stems) if stems else _NO_CONTENT


def explain_support(view: View) -> tuple[str, ...]:
    """The answer's content words that stand in no context, in order, each once; at most 20, each cut at 40.

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
    """The response's content stems that stand in neither the contexts nor the query."""
    return view.response.stems - context_stems(view) - view.query.stems


def unsupported_words(view: View) -> Value:
    """How many distinct content words the answer brought that neither the contexts nor the question have.

    Formula: |response stems - context stems - query stems|.
    Range: 0 and up; lower is better. 0 for an empty response.
    Undefined: without `contexts`.
    Reference: the best single signal on long answers, where one invented sentence hardly moves a share.
    Known limits: as `context_support`; it grows with the length of the answer.

    >>> from ragweir.metrics.view import example
    >>> unsupported_words(example(query="Who built it?", contexts=[{"text": "The tower opened in 1889."}],
    ...                           response="Gustave Eiffel built the tower."))
    2
    """
    return len(unsupported_stems(view))


def bigram_support(view: View) -> Value:
    """Share of the answer's distinct pairs of neighbouring tokens that stand as neighbours in a context.

    All tokens count, stop words too, and a pair may span the end of a sentence: of the variants tried (all tokens or
    content only, whole words or stems, bounded by sentences or not) this and the one on stems rank answers best on
    both labelled sets, and this one is the cheapest.

    Formula: |response pairs in any context| / |response pairs|.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the response has fewer than two tokens.
    Reference: as document 004's n-gram overlap.
    Known limits: rewards copying; a faithful summary in other words scores low.

    >>> from ragweir.metrics.view import example
    >>> bigram_support(example(contexts=[{"text": "The tower opened in 1889."}], response="The tower opened late."))
    0.6666666666666666
    """
    pairs = response_pairs(view)
    return len(stated_pairs(view)) / len(pairs) if pairs else Null("the response has fewer than two tokens")


def trigram_support(view: View) -> Value:
    """Share of the answer's distinct runs of three tokens that stand in a context.

    Formula: |response triples in any context| / |response triples|; tokens as in `bigram_support`.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the response has fewer than three tokens.
    Reference: as document 004's n-gram overlap.
    Known limits: as `bigram_support`, more so.

    >>> from ragweir.metrics.view import example
    >>> trigram_support(example(contexts=[{"text": "The tower opened in 1889."}], response="The tower opened late."))
    0.5
    """
    triples = response_triples(view)
    if not triples:
        return Null("the response has fewer than three tokens")
    return len(_stated(view, triples, _triples)) / len(triples)


@shared
def stated_values(view: View) -> set[str]:
    """The response's numbers, dates and clock times that stand in a context, by value."""
    response = view.response
    # The canonical form of a token tells numbers, dates and times from each other and from all else.
    return _stated(view, {*response.numbers, *response.dates, *response.times}, iter)


def number_support(view: View) -> Value:
    """Share of the answer's numbers that stand in the contexts, by value.

    Formula: |response numbers in any context| / |response numbers|; $604 = 604.00, digits in dates, times and
    identifiers are no numbers.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the response has no numbers.
    Reference: document 004's numeric anchors.
    Known limits: a number that was computed from others, or written in words, is not found.

    >>> from ragweir.metrics.view import example
    >>> number_support(example(contexts=[{"text": "The fee is $604.00."}], response="It costs 604, or 1,208 for two."))
    0.5
    """
    numbers = view.response.numbers
    return len(numbers & stated_values(view)) / len(numbers) if numbers else Null("the response has no numbers")


def date_support(view: View) -> Value:
    """Share of the answer's dates and clock times that stand in the contexts, by value.

    Formula: |response dates and times in any context| / |response dates and times|; however they are written.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the response has no dates or times.
    Reference: document 004's date anchors (dates, times).
    Known limits: a year alone is a number; "next Monday" is no date.

    >>> from ragweir.metrics.view import example
    >>> date_support(example(contexts=[{"text": "Signed on 2025-12-09."}], response="They signed on 9 December 2025."))
    1.0
    """
    moments = view.response.dates | view.response.times
    return len(moments & stated_values(view)) / len(moments) if moments else Null("the response has no date or time")


def _standing(view: View, phrases: frozenset[Tokens]) -> int:
    """Count the response's phrases that stand in a context."""
    words = {phrase[0] for phrase in phrases if len(phrase) == 1}
    # The pairs, already known, tell all of a run of two, and rule out most of the longer ones.
    runs = [phrase for phrase in phrases if len(phrase) > 1 and stated_pairs(view).issuperset(pairwise(phrase))]
    longer = Phrases(run for run in runs if len(run) > 2).found_in(view.contexts)
    return len(_stated(view, words, iter)) + sum(len(run) == 2 for run in runs) + len(longer)


def name_support(view: View) -> Value:
    """Share of the answer's names that stand in the contexts.

    Formula: |response phrases in any context| / |response phrases|; a phrase is a run of capitalised words, numbers
    and identifiers ("Territory 118"), compared without case, and must stand as a run.
    Range: 0 to 1; higher is better.
    Undefined: without `contexts`, or when the response has no capitalised phrase.
    Reference: after document 001's capitalised phrases.
    Known limits: a title or a capitalised heading counts as a name; "Eiffel" does not support "Gustave Eiffel".

    >>> from ragweir.metrics.view import example
    >>> name_support(example(contexts=[{"text": "By Gustave Eiffel."}], response="Built by Gustave Eiffel in Lyon."))
    0.5
    """
    phrases = view.response.phrases
    if not phrases:
        return Null("the response has no capitalised phrase")
    return _standing(view, phrases) / len(phrases)


def unsupported_sentences(view: View) -> Value:
    """Share of the answer's sentences of which less than half stands in the contexts.

    Formula: |sentences with under half of their content stems in the contexts| / |sentences with content stems|.
    Range: 0 to 1; lower is better.
    Undefined: without `contexts`, or when the response has no content words.
    Reference: after the sentence-level checks of document 004.
    Known limits: as `context_support`; short sentences turn on one word.

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
_BEYOND = "beyond the documents"

METRICS = (
    Metric(context_support, "grounding", "ratio", "higher", _CONTEXTS, _BEYOND, explain=explain_support),
    Metric(unsupported_words, "grounding", "count", "lower", _CONTEXTS, _BEYOND),
    Metric(bigram_support, "grounding", "ratio", "higher", _CONTEXTS, "after document 004"),
    Metric(trigram_support, "grounding", "ratio", "higher", _CONTEXTS, "after document 004"),
    Metric(number_support, "grounding", "ratio", "higher", _CONTEXTS, "after document 004"),
    Metric(date_support, "grounding", "ratio", "higher", _CONTEXTS, "after document 004"),
    Metric(name_support, "grounding", "ratio", "higher", _CONTEXTS, "after document 001"),
    Metric(unsupported_sentences, "grounding", "ratio", "lower", _CONTEXTS, _BEYOND),
)
