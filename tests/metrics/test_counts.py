"""The counts that the metrics of texts divide: their names, their numbers by hand, and other ways to count."""

import sys
import unicodedata
from collections import namedtuple
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweir.metrics import texts as texts_module
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.counts import NAMES, Counts
from ragweir.metrics.laws import corpus
from ragweir.metrics.lazy import lazy
from ragweir.metrics.metric import Metric
from ragweir.metrics.text.text import Text
from ragweir.metrics.view import TextLimits, View, example
from ragweir.schemas.interaction import Interaction

CATALOGUE = Catalogue(everything())
SETS = {"known_stems", "known_values", "missing_claims", "pairs"}
"""The attributes of the reference that are no counts."""

NativeCounts = namedtuple("NativeCounts", NAMES)  # type: ignore[misc]  # noqa: PYI024 (as a kernel makes it)


def as_tuple(view: View) -> Counts:
    """Count as a kernel does: all at once, into a tuple."""
    return cast("Counts", NativeCounts(*(getattr(view.reference, name) for name in NAMES)))


def counted(**fields: Any) -> dict[str, Any]:
    counts = example(**fields).counts
    return {name: getattr(counts, name) for name in NAMES}


# Names ---------------------------------------------------------------------------------------------------------------


def test_every_count_has_a_name_and_a_definition() -> None:
    """The names are those of the reference's attributes, once each, and each is documented."""
    attributes = {name: each for kind in Counts.__mro__ for name, each in vars(kind).items() if isinstance(each, lazy)}
    assert {name for name in attributes if not name.startswith("_")} - SETS == {*NAMES}
    assert len({*NAMES}) == len(NAMES)
    assert [name for name in NAMES if not attributes[name].__doc__] == []


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in {int, bool, str}


@pytest.mark.parametrize("fields", corpus.ORDINARY)
def test_counts_are_whole_numbers(fields: corpus.Fields) -> None:
    """No float, no set and no text other than the name of a script is among them."""
    event = corpus.interaction(fields)
    assert event is not None
    for name in NAMES:
        value = getattr(View(event).counts, name)
        assert _is_plain(value), name
        assert isinstance(value, str) <= name.endswith("_script"), name


# Numbers by hand -----------------------------------------------------------------------------------------------------

FEE = {
    "query": "What is the late fee, the fee of Acme?",
    "response": "The late fee is $25 [2]. It may rise. Acme Corp bills in May 2026, on Dec 9, 2025 [1, 7].",
    "expected": ["The late fee is $25.", "acme corp", ""],
    "contexts": [
        {"text": "The late fee is $25 from Dec 9, 2025.", "chunk_id": "a", "rank": 2},
        {"text": "Acme Corp sells late tickets; late tickets.", "chunk_id": "b", "rank": 1},
        {"text": "The late fee is $25 from Dec 9, 2025.", "chunk_id": "a", "rank": 3},
    ],
}
BY_HAND = {
    # query: what is the late fee the fee of acme
    # response: the late fee is 25 | it may rise | acme corp bills in may 2026 on 2025-12-09
    "query_tokens": 9,
    "response_tokens": 16,
    "expected_tokens": 7,
    "context_tokens": 7 + 7 + 7,
    "query_cut": False,
    "response_cut": False,
    "expected_cut": False,
    "contexts_cut": False,
    # late fee 25 rise acme corp bills 2026 2025-
    "response_stems": 9,
    # late fee 25 2025- acme corp sells ticke
    "context_stems": 8,
    # late fee 25 acme corp 2025-
    "supported_stems": 6,
    # rise bills 2026
    "unsupported_stems": 3,
    # late fee acme
    "query_stems": 3,
    "covered_query_stems": 3,
    "response_pairs": 15,
    # the-late late-fee fee-is is-25 acme-corp
    "supported_pairs": 5,
    "response_triples": 14,
    # the-late-fee late-fee-is fee-is-25
    "supported_triples": 3,
    # 25 2026
    "response_numbers": 2,
    "supported_numbers": 1,
    "response_moments": 1,
    "supported_moments": 1,
    # acme-corp; may is a stop word, and the first word of a sentence alone is no name
    "response_phrases": 1,
    "supported_phrases": 1,
    # of three sentences: three of three stems, none of one, three of five
    "content_sentences": 3,
    "weak_sentences": 1,
    "query_distinct": 7,
    "response_distinct": 15,
    # the is late fee acme
    "common_distinct": 5,
    # late 1 x 1, fee 2 x 1, acme 1 x 1; the other tokens of the response are 25 rise corp bills 2026 2025-12-09
    "cosine_dot": 4,
    "query_squares": 6,
    "response_squares": 9,
    "query_common_squares": 6,
    "response_common_squares": 3,
    "query_keywords": 3,
    "answered_keywords": 3,
    "response_supported": True,
    # the late fee is 25; acme corp bills has no verb that the tables know; it may rise hedges
    "response_claims": 1,
    "unsupported_claims": 0,
    "dont_know": False,
    "non_answer": False,
    "declines": False,
    # may, and not May
    "hedges": 1,
    "source_indicators": 0,
    "citations": (2, 1, 7),
    "query_script": "Latin",
    "response_script": "Latin",
    "query_terms": 3,
    # by rank: the second context, then the first; the third is the first again
    "passage_tokens": (7, 7),
    # acme corp sells late tickets late tickets; late fee 25 2025-12-09
    "passage_content": (7, 4),
    "passage_distinct": (5, 4),
    "passage_repeated": (0, 1),
    # the terms are late, fee, acme
    "passage_terms": ((0, 2), (0, 1)),
    "passage_occurrences": ((2, 1), (1, 1)),
    "term_passages": (2, 1, 1),
    "passage_used": (False, True),
    "answer_tokens": (5, 2, 0),
    "answer_exact": (False, False, False),
    # late and 25, as fee has three letters; acme and corp
    "answer_keywords": (2, 2, 0),
    "answer_keywords_found": (2, 2, 0),
    "answer_numbers": (1, 0, 0),
    "answer_numbers_found": (1, 0, 0),
    "answer_common": (5, 2, 0),
    "answer_subsequence": (5, 2, 0),
}


def test_each_count_is_what_a_reader_counts() -> None:
    """Every count of one event, worked out by hand."""
    assert counted(**FEE) == BY_HAND


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        (
            {"query": "Who built it?", "response": "Eiffel built the tower.", "contexts": [{"text": "A tower."}]},
            {"unsupported_stems": 1, "supported_stems": 1, "covered_query_stems": 0},
        ),
        ({"response": "It is so. Hail falls."}, {"content_sentences": 1, "weak_sentences": 1}),
        ({"response": "none of it"}, {"non_answer": False}),
        ({"response": "La casa covers el roof."}, {"response_supported": False, "response_claims": 0}),
        ({"contexts": [{"text": "Fire covers."}, {"text": "Fire covered."}]}, {"passage_repeated": (0, 1)}),
        ({"contexts": [{"text": "Fire covers."}] * 2}, {"passage_repeated": (0, 2)}),
        ({"contexts": [{"text": text, "chunk_id": "x"} for text in ("a b", "c")]}, {"passage_tokens": (2, 1)}),
        ({"response": "fee fee late", "expected": ["fee late"]}, {"answer_common": (2,)}),
        ({"response": "a " * 4_096 + "b", "expected": ["b"]}, {"answer_subsequence": (0,), "answer_common": (1,)}),
        (
            {"response": "Gustave Eiffel, Eiffel Ltd.", "expected": ["By Gustave Eiffel Ltd."]},
            {"answer_keywords": (3,), "answer_keywords_found": (2,)},
        ),
        ({"response": "I don't know."}, {"dont_know": True, "declines": True, "non_answer": False}),
        ({"response": " none! "}, {"non_answer": True, "dont_know": False}),
        ({"response": "none of these"}, {"non_answer": False}),
        ({"response": "unknown"}, {"non_answer": True, "dont_know": True}),
        ({"response": "From the tables, according to page 2 and pages 3."}, {"source_indicators": 4}),
        ({"response": "May it rain? It may, I think, not be likely. MAY!"}, {"hedges": 4}),
        ({"response": "Премия составляет 604 доллара."}, {"response_supported": False, "response_claims": 0}),
        ({"response": "...", "query": "?"}, {"query_script": None, "response_tokens": 0, "response_pairs": 0}),
        (
            {"response": "The plan covers care.", "contexts": [{"text": "The plan is new. It covers care."}]},
            {"response_claims": 1, "unsupported_claims": 1},
        ),
        (
            {"response": "A bad fee.", "contexts": [{"text": "A bad"}, {"text": "fee. A"}]},
            {"supported_pairs": 1, "supported_triples": 0, "supported_stems": 2},
        ),
        (
            {"response": "By Gustave Eiffel Ltd.", "contexts": [{"text": "Gustave Eiffel, Eiffel Ltd."}]},
            {"response_phrases": 1, "supported_phrases": 0, "supported_pairs": 2},
        ),
        (
            {"response": "a\u00a0B’s \u2212 c", "expected": [" A b's - C ", "a b's - cd", "b's a - c"]},
            {"answer_exact": (True, False, False), "answer_common": (3, 2, 3), "answer_subsequence": (3, 2, 2)},
        ),
        (
            {"response": "x", "expected": ["Acme Corp sells Rule C-1 on Monday to the best of them at 5"]},
            # acme corp sells rule c-1 monday best 5, and the runs acme-corp and rule-c-1
            {"answer_keywords": (10,)},
        ),
        (
            # Both sentences have half of their stems in one passage; the second one as many in the other.
            {"response": "Hail falls. Wind blows.", "contexts": [{"text": "Hail, wind."}, {"text": "Blows."}]},
            {"passage_used": (True, True), "weak_sentences": 0},
        ),
        (
            {"response": "Hail falls on roofs.", "contexts": [{"text": "Hail."}, {"text": "Falls."}]},
            {"passage_used": (False, False), "weak_sentences": 0},
        ),
        ({"contexts": [{"text": "a b"}] * 2}, {"passage_tokens": (2, 2), "context_tokens": 4}),
        ({"contexts": [{"text": "a b", "chunk_id": "x"}] * 2}, {"passage_tokens": (2,), "context_tokens": 4}),
    ],
)
def test_counts_of_single_texts(fields: dict[str, Any], counts: dict[str, Any]) -> None:
    """Cases that the event by hand does not have."""
    found = counted(**fields)
    assert {name: found[name] for name in counts} == counts


# Other ways to count -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [TextLimits(), TextLimits(max_tokens=5, max_contexts=1, max_event_tokens=14)])
def test_any_way_to_count_gives_the_same_evaluation(limits: TextLimits) -> None:
    """Formulas read only what has a name, and explanations do without the other way's sets."""
    for fields in corpus.ordinary():
        event = corpus.interaction(fields)
        assert event is not None
        one, other = View(event, limits), View(event, limits, as_tuple)
        assert CATALOGUE.score(one) == CATALOGUE.score(other)
        assert CATALOGUE.explain(one) == CATALOGUE.explain(other)


def test_another_way_to_count_spares_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """No text is tokenised for the shipped metrics; an own metric that reads one gets it."""
    event = corpus.interaction(corpus.RICH | {"extractions": None, "question_id": None})
    assert event is not None
    known = as_tuple(View(event))
    read: list[str] = []

    def watched(raw: str, max_tokens: int) -> Text:
        read.append(raw)
        return Text(raw, max_tokens)

    monkeypatch.setattr(texts_module, "Text", watched)
    assert CATALOGUE.score(View(event, counting=lambda _: known)).raised == []
    assert read == []

    def first_words(view: View) -> float:
        """Number of tokens of the first context."""
        return len(view.contexts[0])

    own = Catalogue([Metric(first_words, "own", "count", "neither", ("contexts",), "here")])
    assert own.score(View(event, counting=lambda _: known)).scores == {"first_words": 9.0}
    assert read == [context.text for context in event.contexts or ()]


@pytest.mark.parametrize(
    "event",
    [
        Interaction(event_id="1", query=None, response="", contexts=()),
        Interaction(event_id="1", query="", response="", contexts=({"chunk_id": "a"},)),
        Interaction(event_id="1", query="", response="").with_flags({"cut:expected"}),
    ],
)
def test_an_event_with_an_unavailable_field_is_counted_by_the_reference(event: Interaction) -> None:
    """Another way knows nothing of texts that are not there."""

    def refused(_: View) -> Counts:
        raise AssertionError

    assert View(event, counting=refused).counts.response_tokens == 0


# Limits --------------------------------------------------------------------------------------------------------------

PIECES = st.lists(st.sampled_from(["word", "a", ".", " ", "費用は", "\u0301", "9", "-", "Dec 9, 2025"]), max_size=12)
TEXTS = PIECES.map("".join)


def _forced(view: View, limits: TextLimits) -> tuple[str, ...]:
    """Return the flags by tokenising everything."""
    texts = {name: getattr(view, name) for name in ("query", "response", "contexts", "expected")}
    flags = [
        f"{name}_cut"
        for name, value in texts.items()
        if any(text.cut for text in (value if isinstance(value, tuple) else (value,)))
    ]
    dropped = len(view.interaction.contexts or ()) > limits.max_contexts
    return (*flags, *["contexts_dropped"] * dropped)


@given(TEXTS, TEXTS, st.lists(TEXTS, max_size=2), st.lists(TEXTS, max_size=3), st.integers(0, 30), st.integers(0, 60))
def test_the_flags_of_cut_texts_do_not_depend_on_what_is_read(
    query: str, response: str, expected: list[str], contexts: list[str], most: int, event_most: int
) -> None:
    """They are the same before and after the texts are read, and for any way to count."""
    limits = TextLimits(max_tokens=most, max_contexts=2, max_event_tokens=event_most)
    event = example(
        query=query, response=response, expected=expected, contexts=[{"text": text} for text in contexts]
    ).interaction
    flags = View(event, limits).cuts
    assert flags == _forced(View(event, limits), limits)
    assert flags == View(event, limits, as_tuple).cuts


def test_short_texts_are_not_tokenised_for_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue that reads no text costs no tokens."""

    def refused(*_: object) -> Text:
        raise AssertionError

    monkeypatch.setattr(texts_module, "Text", refused)
    assert View(example(**FEE).interaction).cuts == ()


@pytest.mark.slow
def test_no_text_has_more_tokens_than_characters() -> None:
    """Characters that normalisation expands are the only ones that could."""
    expanded = [char for char in map(chr, range(sys.maxunicode + 1)) if len(unicodedata.normalize("NFC", char)) > 1]
    assert len(expanded) > 60
    wrong = [text for char in expanded for text in (char, char * 3, f"가{char}文{char}") if len(Text(text)) > len(text)]
    assert wrong == []


def test_the_limit_of_the_event_is_shared_out_in_order() -> None:
    """Query and response come first, then the expected answers, then the contexts."""
    words = "word " * 6
    fields: dict[str, Any] = {"query": words, "response": words, "expected": [words], "contexts": [{"text": words}] * 2}
    event = example(**fields).interaction
    view = View(event, TextLimits(max_tokens=5, max_event_tokens=17))
    counts = view.counts
    assert (counts.query_tokens, counts.response_tokens, counts.expected_tokens, counts.context_tokens) == (5, 5, 5, 2)
    assert view.cuts == ("query_cut", "response_cut", "contexts_cut", "expected_cut")


def _reads(function: Callable[[View], object]) -> set[str]:
    """Return the counts that a metric reads of some event."""

    class Watched:
        def __init__(self, counts: Counts, read: set[str]) -> None:
            self._counts, self._read = counts, read

        def __getattr__(self, name: str) -> object:
            self._read.add(name)
            return getattr(self._counts, name)

    read: set[str] = set()
    for fields in (FEE, {"response": "Премия составляет 604."}, {"query": "a", "response": "b"}):
        event = example(**fields).interaction
        if event.contexts is None or event.expected is None:
            event = event.model_copy(update={"contexts": (), "expected": ()})
        function(View(event, counting=lambda view: cast("Counts", Watched(view.reference, read))))
    return read


def test_every_count_is_read_by_a_metric_or_a_limit() -> None:
    """A count that nothing reads costs its time for nothing."""
    free = [metric for metric in CATALOGUE.free.values() if metric.group not in {"performance", "extraction"}]
    simple = [metric for metric in free if not {*metric.needs} - {"contexts", "expected"}]
    read = set().union(*(_reads(metric.compute) for metric in simple))
    limits = {"query_tokens", "expected_tokens", "context_tokens"} | {name for name in NAMES if name.endswith("_cut")}
    assert read | limits == {*NAMES}
