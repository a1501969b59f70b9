"""Retrieval from the words of the contexts; rank-bm25 and slow plain code are the references."""

import json
import math
from collections.abc import Callable
from itertools import chain, permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi  # type: ignore[import-untyped]

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Null, Value
from ragweir.metrics.scores.lexical_retrieval import (
    METRICS,
    bm25_mean,
    bm25_rank_agreement,
    bm25_top,
    context_redundancy,
    context_tokens,
    context_utilisation,
    explain_utilisation,
    query_context_coverage,
)
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import TextLimits, View, example

CATALOGUE = Catalogue(METRICS)
LABELLED = Path(__file__).parents[2] / ".." / "shared" / "data" / "mtrag.jsonl"

PIECES: tuple[str, ...] = (
    "the ",
    "fire ",
    "flood ",
    "policy ",
    "policies ",
    "cover ",
    "1,200 ",
    "$1200 ",
    "not. ",
    "roof ",
    "tile; ",
)
PIECES += ("covers ", "insurer ", "COVID-19 ", "Über ", "東京都 ", "حريق ", "\n")
TEXT = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


def texts(*contexts: str, **fields: Any) -> View:
    return example(contexts=[{"text": text} for text in contexts], **fields)


def real_events() -> list[View]:
    if not LABELLED.exists():
        pytest.skip("the labelled answers are not on this machine")
    rows = (json.loads(line) for line in LABELLED.read_text().splitlines())
    return [
        example(query=row["question"], response=row["response"], contexts=row["contexts"])
        for row in rows
        if row["contexts"]
    ]


# The references


class PositiveBM25(BM25Okapi):  # type: ignore[misc]
    def _calc_idf(self, nd: dict[str, int]) -> None:
        self.idf = {term: math.log(1 + (self.corpus_size - df + 0.5) / (df + 0.5)) for term, df in nd.items()}


def reference_bm25(view: View) -> list[float]:
    okapi = PositiveBM25([Text(context.text).content for context in view.interaction.contexts or ()], k1=1.5, b=0.75)
    scores: list[float] = okapi.get_scores(list(dict.fromkeys(view.query.content))).tolist()
    return scores


def reference_redundancy(view: View) -> float | None:
    contents = [content for text in view.contexts if (content := set(text.content))]
    shares = [
        sum(any(token in earlier for earlier in contents[:place]) for token in content) / len(content)
        for place, content in enumerate(contents)
    ][1:]
    return sum(shares) / len(shares) if shares else None


def reference_utilisation(view: View) -> float | None:
    used: set[int] = set()
    stems = [stems for stems in view.response.sentence_stems if stems]
    for sentence in stems:
        support = [sum(stem in text.stems for stem in sentence) / len(sentence) for text in view.contexts]
        used |= {place for place, share in enumerate(support) if share >= 0.5 and share == max(support)}
    return len(used) / len(view.contexts) if stems and view.contexts else None


def agrees(value: Value, reference: float | None) -> bool:
    if reference is None:
        return isinstance(value, Null)
    return isinstance(value, float) and math.isclose(value, reference, abs_tol=1e-9)


def check_against_references(view: View) -> None:
    if view.query.content and any(text.content for text in view.contexts):
        scores = reference_bm25(view)
        assert agrees(bm25_top(view), max(scores))
        assert agrees(bm25_mean(view), sum(scores) / len(scores))
        if len(scores) > 1 and max(scores) > 0:
            assert bm25_rank_agreement(view) is (scores[0] > max(scores) - 1e-12)
    assert agrees(context_redundancy(view), reference_redundancy(view))
    assert agrees(context_utilisation(view), reference_utilisation(view))
    wanted, held = set(view.query.stems), set(chain.from_iterable(text.stems for text in view.contexts))
    assert agrees(query_context_coverage(view), len(wanted & held) / len(wanted) if wanted else None)
    assert context_tokens(view) == sum(len(text.tokens) for text in view.contexts)


@given(TEXT, TEXT, st.lists(TEXT, max_size=6))
def test_random_texts_agree_with_the_references(query: str, response: str, contexts: list[str]) -> None:
    """On any words, in any script, all values are those of rank-bm25 and of plain code to 1e-9."""
    check_against_references(texts(*contexts, query=query, response=response))


@pytest.mark.slow
def test_real_answers_agree_with_the_references() -> None:
    """So they are on the labelled answers."""
    for view in real_events():
        check_against_references(view)


# Question and contexts


def test_coverage_compares_beginnings_of_words() -> None:
    """ "policy" is found in "policies"; stop words of the question do not count."""
    view = texts("Flood policies.", "Fire.", query="What is the policy on fire and hail?")
    assert query_context_coverage(view) == 2 / 3


def test_repeating_a_word_of_the_query_changes_nothing() -> None:
    """A query's token counts once."""
    contexts = "Fire cover.", "Flood cover.", "Roof."
    once, twice = (bm25_top(texts(*contexts, query=query)) for query in ("fire cover", "fire fire cover"))
    assert once == twice


def test_numbers_meet_by_value() -> None:
    """$1,200 in the question is 1200 in the context."""
    assert query_context_coverage(texts("It costs 1200.", query="$1,200?")) == 1.0
    assert isinstance(score := bm25_top(texts("It costs 1200.", "Other.", query="$1,200?")), float)
    assert score > 0


@pytest.mark.parametrize(
    ("contexts", "value"),
    [
        (["fire", "flood"], True),
        (["flood", "fire"], False),
        (["fire", "fire"], True),  # a tie with the first
        (["hail", "roof"], Null("no context has a content word of the query")),
        (["", ""], Null("no context has a content word of the query")),
        (["fire"], Null("there are fewer than two distinct contexts")),
        ([], Null("there are no contexts")),
    ],
)
def test_rank_agreement(contexts: list[str], value: Value) -> None:
    """The first context agrees when none scores higher; without a choice or a match there is nothing to agree on."""
    assert bm25_rank_agreement(texts(*contexts, query="fire")) == value


def test_first_means_best_rank() -> None:
    """A stated rank decides over the place in the list."""
    contexts = [{"text": "flood", "rank": 2}, {"text": "fire", "rank": 1}]
    assert bm25_rank_agreement(example(query="fire", contexts=contexts)) is True


# Contexts and answer


@pytest.mark.parametrize(
    ("response", "value"),
    [
        ("Fire flood.", 1.0),  # half in each: both support it alike
        ("Fire flood hail.", 0.0),  # a third in each
        ("Fire flood. Fire roof.", 1.0),
        ("Fire. Hail storm wind.", 0.5),
        ("Fire. Flood.", 1.0),
        ("", Null("the response has no content words")),
        ("It is.", Null("the response has no content words")),
    ],
)
def test_utilisation_takes_contexts_that_hold_half_a_sentence(response: str, value: Value) -> None:
    """Half is enough, less is not, and contexts that tie are all used."""
    assert context_utilisation(texts("fire cover", "flood cover", response=response)) == value


def test_only_the_best_context_of_a_sentence_is_used() -> None:
    """A context that holds half is not used where another holds more; the explanation names it by its rank."""
    view = texts("fire cover", "fire roof cover", response="Fire roof.")
    assert context_utilisation(view) == 0.5
    assert explain_utilisation(view) == ("context 1 was not used",)
    assert explain_utilisation(texts("fire")) == ()


def test_redundancy_looks_back_over_all_earlier_contexts() -> None:
    """The first context repeats nothing, and a later one what any before it has said."""
    view = texts("", "fire cover", "flood cover", "Fire, flood, the roof", "...")
    assert context_redundancy(view) == pytest.approx((1 / 2 + 2 / 3) / 2)
    assert context_redundancy(texts("fire", "fire")) == 1.0
    assert context_redundancy(texts("fire", "flood")) == 0.0


@pytest.mark.parametrize("contexts", [[], ["fire"], ["fire", ""], ["", "the"]])
def test_redundancy_needs_two_contexts_with_content(contexts: list[str]) -> None:
    """Null where there is nothing to compare."""
    assert context_redundancy(texts(*contexts)) == Null("fewer than two distinct contexts have content words")


# Which contexts


def test_a_chunk_that_stands_twice_is_read_once() -> None:
    """The same id over the same text is one context, in every metric."""
    once = [{"chunk_id": "a", "text": "fire cover"}, {"chunk_id": "b", "text": "flood cover"}]
    twice = [*once, once[0], once[1]]
    fields = {"query": "fire", "response": "Flood cover."}
    assert CATALOGUE.score(example(contexts=twice, **fields)) == CATALOGUE.score(example(contexts=once, **fields))


@pytest.mark.parametrize("chunk_id", [None, ""])
def test_contexts_without_an_id_are_all_read(chunk_id: str | None) -> None:
    """Without ids the same text twice is said twice, and under one id different texts are both kept."""
    assert context_tokens(example(contexts=[{"chunk_id": chunk_id, "text": "fire"}] * 2)) == 2
    assert context_tokens(example(contexts=[{"chunk_id": "a", "text": text} for text in ("fire", "flood")])) == 2


def test_contexts_beyond_the_limit_are_not_read() -> None:
    """Only the first of the list are read, and the evaluation says so."""
    interaction = texts("fire", "flood", "roof").interaction
    view = View(interaction, TextLimits(max_contexts=2))
    scored = CATALOGUE.score(view)
    assert scored.scores["context_tokens"] == 2.0
    assert scored.flags == ["contexts_dropped"]


def test_absent_contexts_are_null_and_empty_ones_are_empty() -> None:
    """Without contexts nothing is known; with none, nothing is covered and there are no tokens."""
    assert set(CATALOGUE.score(example(query="fire", response="Fire.")).scores.values()) == {None}
    scored = CATALOGUE.score(example(query="fire", response="Fire.", contexts=[]))
    values = {name: value for name, value in scored.scores.items() if value is not None}
    assert values == {"query_context_coverage": 0.0, "context_tokens": 0.0}


# All of them


@pytest.mark.heavy
@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric.order_free], ids=lambda metric: metric.name)
@given(TEXT, TEXT, st.lists(TEXT, max_size=4))
def test_order_means_nothing_where_the_catalogue_says_so(
    metric: Any, query: str, response: str, contexts: list[str]
) -> None:
    """Permuting the contexts leaves these values unchanged to the last bit."""
    values = {repr(metric.compute(texts(*order, query=query, response=response))) for order in permutations(contexts)}
    assert len(values) == 1


@pytest.mark.parametrize("metric", [bm25_rank_agreement, context_redundancy])
def test_order_matters_to_the_others(metric: Callable[[View], Value]) -> None:
    """These two are rightly not called free of order."""
    contexts = "fire", "fire flood roof"
    assert metric(texts(*contexts, query="fire")) != metric(texts(*reversed(contexts), query="fire"))


STRANGE = [
    "",
    " ",
    "\ud800",
    "🔥🏠",
    "東京の火災保険。",
    "تأمين ضد الحريق",
    "ไฟไหม้",
    "e\u0301" * 50,
    "[1]",
    "\x00",
    "1e9",
]


@given(
    st.sampled_from(STRANGE) | st.text(),
    st.sampled_from(STRANGE) | st.text(),
    st.lists(st.sampled_from(STRANGE) | st.text(), max_size=5),
)
def test_any_unicode_is_survived(query: str, response: str, contexts: list[str]) -> None:
    """Nothing raises, and every value lies within its bounds."""
    scored = CATALOGUE.score(texts(*contexts, query=query, response=response))
    assert not scored.raised
    for name, value in scored.scores.items():
        least, greatest = CATALOGUE.metrics[name].bounds
        assert value is None or (math.isfinite(value) and value >= (least or 0.0))
        assert value is None or greatest is None or value <= greatest


@pytest.mark.slow
@pytest.mark.parametrize("word", ["policy", "東京", "حريق"])
def test_a_huge_event_is_scored(word: str) -> None:
    """Texts are read to their limit, and all of an event to the limit of the event."""
    text = f"{word} roof. " * 15_000
    scored = CATALOGUE.score(texts(text, text, query=f"{word} tile", response=text))
    assert not scored.raised
    assert scored.scores["context_tokens"] == TextLimits().max_event_tokens - 20_000 - 2
    assert scored.scores["context_redundancy"] == 1.0
    assert scored.scores["query_context_coverage"] == 0.5
    assert scored.scores["context_utilisation"] == 1.0
