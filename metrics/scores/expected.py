"""Comparison of the answer with an expected answer (the expected-answer benchmark)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from ragweir.metrics.counts.answers import LCS_TOKENS
from ragweir.metrics.metric import Flagged, Metric, Null, Value, shared
from ragweir.metrics.view import View

_NONE_GIVEN = Null("the event's list of expected answers is empty")
_NO_KEYWORDS = Null("the expected answer has no keywords")
_NO_NUMBERS = Null("the expected answer has no numbers")


def _best(scores: Sequence[float | Null]) -> float | Null:
    """Return the best value over the expected answers, without those that have none."""
    if len(scores) == 1:
        return scores[0]
    numbers = [score for score in scores if not isinstance(score, Null)]
    return max(numbers) if numbers else scores[0] if scores else _NONE_GIVEN


def _shares(found: Iterable[int], wanted: Iterable[int], none: Null) -> tuple[float | Null, ...]:
    """Return the share that was found for each expected answer; `none` for those with nothing to find."""
    return tuple([part / whole if whole else none for part, whole in zip(found, wanted, strict=True)])


def exact_match(view: View) -> Value:
    r"""True if the answer equals an expected one, except for case and white space.

    Formula: 1 if both texts are equal after folding (case, apostrophes, hyphens, minus signs), with each run of white
    space as one space and none at the ends; else 0.
    Undefined: without `expected`, or if its list is empty. Two empty texts are equal.
    Reference: the expected-answer benchmark, "Exact Match".
    Known limits: strict; a right answer in other words is 0.

    >>> from ragweir.metrics.view import example
    >>> exact_match(example(response="  Cornish\nHeath ", expected="cornish heath"))
    1.0
    >>> exact_match(example(response="Cornish heath.", expected="cornish heath"))
    0.0
    """
    return _best([float(is_exact) for is_exact in view.counts.answer_exact])


@shared
def _coverages(view: View) -> tuple[float | Null, ...]:
    """Return the keyword coverage of each expected answer."""
    counts = view.counts
    return _shares(counts.answer_keywords_found, counts.answer_keywords, _NO_KEYWORDS)


def keyword_coverage(view: View) -> Value:
    """Share of the expected answer's keywords that the answer has.

    Formula: keywords found in the response / keywords. Keywords, each counted once: capitalised phrases; numbers (a
    percentage by its number), dates, times and identifiers; words of four letters or more that are not stop words, and
    character pairs in scripts written without spaces. Phrases are compared without case, numbers by value. Of several
    expected answers the best covered one counts.
    Undefined: without `expected`, or if no expected answer has a keyword ("No.").
    Reference: the expected-answer benchmark, "Keyword Coverage".
    Known limits: words are compared whole ("change" is not "changes"), and a negated keyword counts as found.

    >>> from ragweir.metrics.view import example
    >>> keyword_coverage(example(expected="Territory 118 has a rate change of 0.305%",
    ...                          response="The rate change for Territory 118 is 0.305%"))
    1.0
    """
    return _best(_coverages(view))


def number_match(view: View) -> Value:
    """Share of the expected answer's numbers that the answer has.

    Formula: |expected numbers in the response| / |expected numbers|, distinct and by value: $604 is 604.00, and -0.133
    is not 0.133. Digits in a date, a time or an identifier are not numbers. Of several expected answers with numbers
    the best matched one counts.
    Undefined: without `expected`, or if no expected answer has a number.
    Reference: the expected-answer benchmark, "Number Match".
    Known limits: a number may refer to something else, and numbers in words are not read.

    >>> from ragweir.metrics.view import example
    >>> number_match(example(expected="$604", response="The premium is $604"))
    1.0
    """
    counts = view.counts
    return _best(_shares(counts.answer_numbers_found, counts.answer_numbers, _NO_NUMBERS))


def answer_completeness(view: View) -> Value:
    """Mean of the answer's relative length and its keyword coverage.

    Formula: (min(response tokens / expected tokens, 1) + keyword coverage) / 2, for one expected answer; of several the
    best value counts.
    Undefined: if `keyword_coverage` is.
    Reference: the expected-answer benchmark, "Answer Completeness".
    Known limits: length is not content; use it together with a measure of accuracy.

    >>> from ragweir.metrics.view import example
    >>> answer_completeness(example(expected="The premium is $604", response="$604"))
    0.375
    """
    counts = view.counts
    words = counts.response_tokens
    return _best(
        [
            coverage if isinstance(coverage, Null) else (min(words / expected, 1.0) + coverage) / 2
            for expected, coverage in zip(counts.answer_tokens, _coverages(view), strict=True)
        ]
    )


def source_citation_quality(view: View) -> Value:
    """Share of three kinds of references to sources that the answer has.

    Formula: min(indicators found / 3, 1). The eight indicators are source, table, page, document, pdf (or their
    plurals), according to, based on, from; each counts once, as a whole word.
    Undefined: never; an empty response is 0.
    Reference: the expected-answer benchmark, "Source Citation Quality". Deviation: it has "source:" and
    "table:"; here these words count with and without the colon ("Table 3" cites a table).
    Known limits: English, and any "from" counts, also that of a place.

    >>> from ragweir.metrics.view import example
    >>> round(source_citation_quality(example(response="According to the rate manual, page 12, it is $604.")), 2)
    0.67
    """
    return min(view.counts.source_indicators / 3, 1.0)


def _f1(common: int, response: int, expected: int) -> float:
    """Return the harmonic mean of common / response and common / expected; 1 for two empty texts."""
    total = response + expected
    return 2 * common / total if total else 1.0


def token_f1(view: View) -> Value:
    """F1 of the tokens that answer and expected answer have in common, as in SQuAD.

    Formula: with precision = common / response tokens and recall = common / expected tokens, 2 P R / (P + R); a token
    counts as often as both have it. 1 if both texts are empty, 0 if one is. Of several expected answers the best value
    counts.
    Undefined: without `expected`, or if its list is empty.
    Reference: Rajpurkar et al., SQuAD (EMNLP 2016), on our tokens; its script also leaves out a, an, the.

    >>> from ragweir.metrics.view import example
    >>> round(token_f1(example(expected="The premium is $604", response="$604")), 2)
    0.4
    """
    counts = view.counts
    words = counts.response_tokens
    return _best(tuple(map(_f1, counts.answer_common, repeat(words), counts.answer_tokens)))


def rouge_l(view: View) -> Value:
    """F1 of the longest common subsequence of answer and expected answer.

    Formula: with L the length of the longest common subsequence of tokens, P = L / response tokens and R = L / expected
    tokens, 2 P R / (P + R). 1 if both texts are empty, 0 if one is. Of several expected answers the best value counts.
    Undefined: without `expected`, or if its list is empty.
    Reference: Lin, ROUGE (2004), sentence-level ROUGE-L with beta 1 as in the rouge-score package, on our tokens.
    Known limits: of longer texts the first 4,096 tokens count, and the value is flagged `cut`.

    >>> from ragweir.metrics.view import example
    >>> rouge_l(example(expected="police killed the gunman", response="police kill the gunman"))
    0.75
    """
    counts = view.counts
    words, answers = counts.response_tokens, counts.answer_tokens
    if max(words, *answers, 0) <= LCS_TOKENS:
        return _best(tuple(map(_f1, counts.answer_subsequence, repeat(words), answers)))
    read = [min(tokens, LCS_TOKENS) for tokens in answers]
    best = _best(tuple(map(_f1, counts.answer_subsequence, repeat(min(words, LCS_TOKENS)), read)))
    return best if isinstance(best, Null) else Flagged(best, "cut")


_DOCUMENT = "the expected-answer benchmark"
_EXPECTED = ("expected",)

METRICS = (
    Metric(exact_match, "expected", "boolean", "higher", _EXPECTED, _DOCUMENT),
    Metric(keyword_coverage, "expected", "ratio", "higher", _EXPECTED, _DOCUMENT),
    Metric(number_match, "expected", "ratio", "higher", _EXPECTED, _DOCUMENT),
    Metric(answer_completeness, "expected", "ratio", "higher", _EXPECTED, _DOCUMENT),
    Metric(source_citation_quality, "expected", "ratio", "higher", (), _DOCUMENT),
    Metric(token_f1, "expected", "ratio", "higher", _EXPECTED, "SQuAD"),
    Metric(rouge_l, "expected", "ratio", "higher", _EXPECTED, "ROUGE"),
)
