"""The answer against an expected answer: the benchmark's examples, independent references, and the edges."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Flagged, Null, Value
from ragweir.metrics.scores.expected import (
    LCS_TOKENS,
    METRICS,
    answer_completeness,
    exact_match,
    keyword_coverage,
    number_match,
    rouge_l,
    source_citation_quality,
    token_f1,
)
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import example

CATALOGUE = Catalogue(METRICS)
MTRAG = Path(__file__).parents[3] / "shared" / "data" / "mtrag.jsonl"


def pair(response: str, expected: Any) -> Any:
    return example(response=response, expected=expected)


def number(value: Value) -> float:
    assert isinstance(value, float | int), value
    return value


# Exact match


@pytest.mark.parametrize(
    ("response", "expected", "value"),
    [
        ("Cornish heath", "cornish HEATH", 1),
        ("\n Cornish \t heath ", "Cornish heath", 1),
        ("Cornish heath.", "Cornish heath", 0),
        ("Cornishheath", "Cornish heath", 0),
        ("don’t", "don't", 1),
        ("cafe\u0301", "caf\u00e9", 1),
        ("", "", 1),
        ("  ", "", 1),
        ("", "x", 0),
        ("-5", "\u22125", 1),
        ("no", ["yes", "No"], 1),
        ("no", ["yes", "maybe"], 0),
    ],
)
def test_exact_match_sees_past_case_and_space_only(response: str, expected: Any, value: int) -> None:
    assert exact_match(pair(response, expected)) == value


# Keywords


@pytest.mark.parametrize(
    ("expected", "response", "value"),
    [
        # The document's example, its phrase taken apart, and its figure changed.
        ("Territory 118 has a rate change of 0.305%", "The rate change for Territory 118 is 0.305%", 1),
        ("Territory 118 has a rate change of 0.305%", "The rate change for 118, a territory, is 0.305%", 5 / 6),
        ("Territory 118 has a rate change of 0.305%", "The rate change for Territory 118 is -0.305%", 5 / 6),
        ("Territory 118 has a rate change of 0.305%", "", 0),
        # Numbers by value, dates and identifiers whole.
        ("$604", "604.00 dollars", 1),
        ("1,200 units", "1200 items", 1 / 2),
        ("on 9 December 2025", "on 2025-12-09", 1),
        ("see C-1", "see C-2", 0),
        # Four letters are a keyword, three are none; stop words never are.
        ("rate", "a rate", 1),
        ("which rate and fee", "the rate", 1),
        # A single capitalised word inside a sentence is a keyword whatever its length, once.
        ("the BMW", "the bmw", 1),
        ("the Paris", "Paris", 1),
        # Phrases need not be capitalised in the answer, but must stand together.
        ("ask Anna Keller", "anna keller", 1),
        ("ask Anna Keller", "Keller, says Anna", 2 / 3),
        # Scripts without spaces compare by character pairs.
        ("東京都", "京都", 1 / 2),
    ],
)
def test_keyword_coverage_counts_each_keyword_once(expected: str, response: str, value: float) -> None:
    assert number(keyword_coverage(pair(response, expected))) == pytest.approx(value, abs=1e-12)


def test_the_best_of_several_expected_answers_counts() -> None:
    view = pair("The premium is $604", ["The deductible is $250", "premium $604", "No."])
    assert keyword_coverage(view) == 1
    assert number_match(view) == 1
    assert answer_completeness(view) == 1
    assert token_f1(view) == pytest.approx(2 * 2 / (4 + 2))
    assert rouge_l(view) == pytest.approx(2 * 2 / (4 + 2))


@pytest.mark.parametrize("expected", ["No.", "", ["No.", "it is"], "!?"])
def test_an_expected_answer_without_keywords_has_no_coverage(expected: Any) -> None:
    view = pair("No.", expected)
    for metric in (keyword_coverage, answer_completeness):
        assert metric(view) == Null("the expected answer has no keywords")


# Numbers


@pytest.mark.parametrize(
    ("expected", "response", "value"),
    [
        ("$604", "The premium is $604", 1),
        ("293 and 2.061", "293", 1 / 2),
        ("293 and 2.061", "none", 0),
        ("-0.133%", "0.133%", 0),
        ("-0.133%", "\u22120.133", 1),
        ("5 and 5.0", "5", 1),
        ("3 items on 2025-12-09", "3", 1),
        ("Rule C-1 has 2 parts", "2", 1),
    ],
)
def test_number_match_is_the_share_of_distinct_values(expected: str, response: str, value: float) -> None:
    assert number_match(pair(response, expected)) == value


def test_an_expected_answer_without_numbers_says_nothing_about_numbers() -> None:
    assert number_match(pair("604", "the premium")) == Null("the expected answer has no numbers")
    assert number_match(pair("604", ["the premium", "605"])) == 0


# Completeness


@pytest.mark.parametrize(
    ("expected", "response", "value"),
    [
        ("alpha beta gamma delta", "alpha beta", (2 / 4 + 2 / 4) / 2),
        ("alpha beta gamma delta", "it is so far off", (1 + 0) / 2),
        ("alpha beta gamma delta", "alpha beta gamma delta and more", 1),
        ("alpha beta gamma delta", "", 0),
    ],
)
def test_completeness_is_the_mean_of_length_and_coverage(expected: str, response: str, value: float) -> None:
    assert answer_completeness(pair(response, expected)) == value


# Citations


@pytest.mark.parametrize(
    ("response", "found"),
    [
        ("", 0),
        ("It is $604.", 0),
        ("Source: the manual", 1),
        ("Sources: the manual", 1),
        ("source, Source and SOURCES", 1),
        ("page 12, table 3", 2),
        ("Pages 12 and 13, tables 3 and 4, PDFs", 3),
        ("According to the document, based on table 3 from page 12 of the PDF (source: manual)", 8),
        ("resources, homepage, stable, documented, therefrom", 0),
        ("according, to; based, on", 2),
        ("according ourselves to", 0),
    ],
)
def test_citation_quality_is_a_third_per_distinct_indicator(response: str, found: int) -> None:
    assert number(source_citation_quality(example(response=response))) == min(found / 3, 1)


# Token F1 and ROUGE-L against their definitions


def squad_f1(prediction: Sequence[str], truth: Sequence[str]) -> float:
    """SQuAD 2.0's compute_f1, written from its definition."""
    if not prediction or not truth:
        return float(list(prediction) == list(truth))
    same = sum((Counter(prediction) & Counter(truth)).values())
    if same == 0:
        return 0.0
    precision, recall = same / len(prediction), same / len(truth)
    return 2 * precision * recall / (precision + recall)


@cache
def scorer() -> Any:
    """The rouge-score package on our tokens."""
    from rouge_score import rouge_scorer  # noqa: PLC0415 - it imports NLTK, which no other process needs

    return rouge_scorer.RougeScorer(
        ["rougeL"], tokenizer=SimpleNamespace(tokenize=lambda text: list(Text(text).tokens))
    )


def package_rouge_l(response: str, expected: str) -> float:
    """The rouge-score package; it calls two empty texts 0."""
    if not Text(response).tokens and not Text(expected).tokens:
        return 1.0
    return float(scorer().score(expected, response)["rougeL"].fmeasure)


WORDS = st.lists(st.sampled_from(["rate", "the", "Territory", "118", "-0.5", "C-1", "is", "価格"]), max_size=40)


@pytest.mark.slow
@given(WORDS, WORDS)
def test_token_f1_and_rouge_l_agree_with_their_references_on_random_text(one: list[str], other: list[str]) -> None:
    response, expected = " ".join(one), " ".join(other)
    view = pair(response, expected)
    assert number(token_f1(view)) == pytest.approx(squad_f1(Text(response).tokens, Text(expected).tokens), abs=1e-9)
    assert number(rouge_l(view)) == pytest.approx(package_rouge_l(response, expected), abs=1e-9)


@pytest.mark.slow
@pytest.mark.skipif(not MTRAG.exists(), reason=f"{MTRAG.name} is not here")
def test_token_f1_and_rouge_l_agree_with_their_references_on_real_answers() -> None:
    for line in MTRAG.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        response, expected = row["response"], row["targets"][0]
        expected = expected if isinstance(expected, str) else expected["text"]
        view = pair(response, expected)
        assert number(token_f1(view)) == pytest.approx(squad_f1(view.response.tokens, Text(expected).tokens), abs=1e-9)
        assert number(rouge_l(view)) == pytest.approx(package_rouge_l(response, expected), abs=1e-9)


def test_rouge_l_reads_a_bounded_number_of_tokens_and_says_so() -> None:
    shuffled = random.Random(4).choices("abcdefg", k=LCS_TOKENS + 1)
    whole, cut = " ".join(shuffled), " ".join(shuffled[:LCS_TOKENS])
    assert rouge_l(pair(cut, cut)) == 1
    assert rouge_l(pair(whole, whole)) == Flagged(1.0, "cut")
    assert rouge_l(pair(whole, cut)) == Flagged(1.0, "cut")


def test_a_text_copied_has_the_highest_values() -> None:
    text = "Territory 118 changes by 0.305%, from page 12."
    scores = CATALOGUE.score(pair(text, text)).scores
    assert {name: value for name, value in scores.items() if value != 1} == {"source_citation_quality": 0.666667}


# Edges


def test_without_expected_only_citation_quality_has_a_value() -> None:
    scored = CATALOGUE.score(example(response="from page 1"))
    assert [name for name, value in scored.scores.items() if value is not None] == ["source_citation_quality"]
    assert set(scored.reasons.values()) == {"the event has no expected"}


def test_an_empty_list_of_expected_answers_is_null_for_each_metric() -> None:
    scored = CATALOGUE.score(example(response="from page 1", expected=[]))
    assert set(scored.reasons.values()) == {"the event's list of expected answers is empty"}


TRYING = [
    " ",
    "\ud800 lone",
    "مرحبا 604 بالعالم",
    "東京都は大きい",
    "👍🏽 x\u0301\u0301",
    "A " * 30_000,
    "9" * 5_000,
]


@pytest.mark.slow
@pytest.mark.parametrize("response", TRYING)
@pytest.mark.parametrize("expected", TRYING)
def test_every_text_is_survived(response: str, expected: str) -> None:
    scored = CATALOGUE.score(pair(response, expected))
    assert not scored.raised
    assert all(value is None or 0 <= value <= 1 for value in scored.scores.values())
