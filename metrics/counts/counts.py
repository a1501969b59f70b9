"""The counts of all subjects, and their names."""

from __future__ import annotations

from ragweir.metrics.counts.answers import AnswerCounts
from ragweir.metrics.counts.overlap import OverlapCounts
from ragweir.metrics.counts.passages import PassageCounts
from ragweir.metrics.counts.sizes import SizeCounts
from ragweir.metrics.counts.wording import WordingCounts


class Counts(SizeCounts, PassageCounts, AnswerCounts, OverlapCounts, WordingCounts):
    """Everything that is counted in the texts of one event, by the reference: sets of Python.

    Its attributes with a name in `NAMES` are the counts, each computed on first access. The others are the sets behind
    them, which explanations read and a faster way to count does not have.
    """


NAMES = (
    *("query_tokens", "response_tokens", "expected_tokens", "context_tokens"),
    *("query_cut", "response_cut", "expected_cut", "contexts_cut"),
    *("response_stems", "context_stems", "supported_stems", "unsupported_stems", "query_stems", "covered_query_stems"),
    *("response_pairs", "supported_pairs", "response_triples", "supported_triples"),
    *("response_numbers", "supported_numbers", "response_moments", "supported_moments"),
    *("response_phrases", "supported_phrases", "content_sentences", "weak_sentences"),
    *("query_distinct", "response_distinct", "common_distinct"),
    *("cosine_dot", "query_squares", "response_squares", "query_common_squares", "response_common_squares"),
    *("query_keywords", "answered_keywords", "response_supported", "response_claims", "unsupported_claims"),
    *("dont_know", "non_answer", "declines", "hedges", "source_indicators", "citations"),
    *("query_script", "response_script"),
    *("query_terms", "term_passages", "passage_tokens", "passage_content", "passage_distinct", "passage_repeated"),
    *("passage_terms", "passage_occurrences", "passage_used"),
    *("answer_tokens", "answer_exact", "answer_keywords", "answer_keywords_found"),
    *("answer_numbers", "answer_numbers_found", "answer_common", "answer_subsequence"),
)
"""The names of the counts, in the order in which a tuple has them."""
