"""The support of an answer by sentences and words, from which the grounding metrics follow."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweir.metrics.laws import corpus
from ragweir.metrics.metric import Null, Value
from ragweir.metrics.scores.grounding import (
    context_support,
    date_support,
    explain_support,
    number_support,
    unsupported_sentences,
    unsupported_words,
)
from ragweir.metrics.support_spans import SentenceSpan, SupportSpans, support_spans
from ragweir.metrics.unavailable import Unavailable
from ragweir.metrics.view import TextLimits, View, example
from ragweir.schemas.interaction import Interaction

RETURNS = [{"text": "Call us.", "rank": 3}, {"text": "Returns take 30 days.", "rank": 2}, {"text": "Days.", "rank": 1}]


def spans_of(view: View) -> SupportSpans:
    found = support_spans(view)
    assert found is not None
    return found


def told(found: SupportSpans) -> list[tuple[str, list[str], int | None]]:
    """Each sentence, its words without support as they are written, and the place of the nearest passage."""
    text = found.text
    return [
        (text[each.start : each.stop], [text[word.start : word.stop] for word in each.unsupported], each.passage)
        for each in found.sentences
    ]


def test_each_sentence_has_its_words_without_support_and_its_nearest_passage() -> None:
    """Words are shown as they are written; the passage with most of the stems is the nearest, else the best rank."""
    response = '  "Call us!" Returns take Ninety days;\n- or some Days, (Voucher included).  Really? '
    assert told(spans_of(example(contexts=RETURNS, response=response))) == [
        ('"Call us!"', [], 0),
        ("Returns take Ninety days;", ["Ninety"], 1),
        ("- or some Days, (Voucher included).", ["Voucher", "included"], 2),
        ("Really?", ["Really"], None),
    ]
    assert told(spans_of(example(contexts=RETURNS, response="Some days."))) == [("Some days.", [], 2)]


def test_the_weakest_sentences_come_first() -> None:
    """The one with the smallest share of its stems in the contexts is the first; supported ones are left out."""
    found = spans_of(example(contexts=RETURNS, response="Returns take 90 days. Call us. Vouchers wait in Lyon."))
    assert [found.text[each.start : each.stop] for each in found.weakest] == [
        "Vouchers wait in Lyon.",
        "Returns take 90 days.",
    ]
    assert [each.is_weak for each in found.weakest] == [True, False]


def test_an_event_without_contexts_has_none_and_an_absent_text_raises() -> None:
    """Contexts that are empty support nothing; those that are not there leave the support open."""
    assert support_spans(example(response="Yes.")) is None
    assert told(spans_of(example(response="Surely.", contexts=[]))) == [("Surely.", ["Surely"], None)]
    absences: tuple[dict[str, Any], ...] = (
        {"response": None, "contexts": []},
        {"response": "Yes.", "contexts": [{"chunk_id": "a"}]},
    )
    for absent in absences:
        with pytest.raises(Unavailable):
            support_spans(example(**absent))
    without_question = spans_of(example(query=None, response="Surely.", contexts=[]))
    assert not without_question.sentences[0].unsupported[0].in_query


def test_values_that_differ_are_named_with_those_of_the_nearest_passage() -> None:
    """Numbers, dates and times are compared by value, whatever their notation."""
    contexts = [
        {"text": "The fee of 123,456 euros is due on 9 December 2025 at 5 pm, since 2 years."},
        {"text": "Nothing else."},
    ]
    response = "The fee of 123,451 euros is due on 2025-12-09. The fee of 123456.00 euros is due at 6 pm. Else 7."
    found = spans_of(example(contexts=contexts, response=response))
    assert [
        ([response[value.start : value.stop] for value in each.values], each.instead) for each in found.sentences
    ] == [
        (["123,451"], ("2",)),
        (["6 pm"], ("5 pm",)),
        (["7"], ()),
    ]


@pytest.mark.parametrize(
    ("response", "sentences"),
    [
        ("Take 30 days [1]. Call us [2, 3].", ["Take 30 days [1].", "Call us [2, 3]."]),
        ("Take 30 days. [1] [2] Call us. [3]", ["Take 30 days. [1] [2]", "Call us. [3]"]),
        ("[1] Take 30 days.\n\n[4]", ["[1] Take 30 days.\n\n[4]"]),
        ("期限为九十天。[1]请致电我们。", ["期限为九十天。[1]", "请致电我们。"]),
    ],
)
def test_a_sentence_has_the_citation_marks_behind_it(response: str, sentences: list[str]) -> None:
    """Also those behind its full stop, as many models write them."""
    found = spans_of(example(contexts=RETURNS, response=response))
    assert [response[each.start : each.stop] for each in found.sentences] == sentences


def _number(value: Value) -> Value:
    return 0.0 if isinstance(value, Null) else value


def _inner(sentence: SentenceSpan) -> Iterator[tuple[int, int]]:
    yield from ((word.start, word.stop) for word in sentence.unsupported)
    yield from ((value.start, value.stop) for value in sentence.values)


def breaches(view: View) -> Iterator[str]:
    """What does not follow from the spans, or is out of their bounds."""
    found = support_spans(view)
    if found is None:
        return
    text, sentences = found.text, found.sentences
    words = [word for each in sentences for word in each.unsupported]
    lacking, stems = {word.stem for word in words}, view.response.stems
    with_stems = [each for each in sentences if each.stems]
    expected = {
        context_support: (len(stems) - len(lacking)) / len(stems) if stems else 0.0,
        unsupported_words: len({word.stem for word in words if not word.in_query}),
        unsupported_sentences: sum(each.is_weak for each in with_stems) / len(with_stems) if with_stems else 0.0,
    }
    for metric, kinds, values in (
        (number_support, "N", view.response.numbers),
        (date_support, "DT", view.response.dates | view.response.times),
    ):
        differing = {value.token for each in sentences for value in each.values if value.kind in kinds}
        expected[metric] = (len(values) - len(differing)) / len(values) if values else 0.0
    if tuple(number for mark in found.citations for number in mark.numbers) != view.response.citations:
        yield "citations"
    yield from (metric.__name__ for metric, value in expected.items() if _number(metric(view)) != value)
    if explain_support(view) != tuple(token[:40] for token in list(dict.fromkeys(w.token for w in words))[:20]):
        yield "explain_support"
    places = [place for each in sentences for place in (each.start, each.stop)]
    if places != sorted(places) or any(not text[each.start : each.stop].strip() for each in sentences):
        yield "places of sentences"
    if any(not each.start <= start < stop <= each.stop for each in sentences for start, stop in _inner(each)):
        yield "places of words"


def test_the_metrics_follow_from_the_spans_of_every_event_of_the_corpus() -> None:
    """Share, numbers and evidence are those of the spans, whatever the event holds and wherever its texts are cut."""
    fields = (*corpus.ordinary(), *corpus.texts(sizes=[200]))
    events = [event for event in map(corpus.interaction, fields) if event is not None]
    assert len(events) > 20
    for event in events:
        for limits in (TextLimits(), TextLimits(max_tokens=3, max_contexts=1, max_event_tokens=12)):
            try:
                assert list(breaches(View(event, limits))) == []
            except Unavailable:
                continue


@settings(max_examples=30)
@given(st.text(max_size=200), st.lists(st.text(max_size=100), max_size=4))
def test_the_metrics_follow_from_the_spans_of_any_text(response: str, contexts: list[str]) -> None:
    """Any Unicode has spans within its text."""
    fields = {"query": response[::2], "response": response, "contexts": [{"text": text} for text in contexts]}
    assert list(breaches(View(Interaction.model_validate({"event_id": "1", **fields})))) == []


PIECES = """
    30 30.0 1,208 2025-12-09 5 pm 9 December 2025 fee fees returns Lyon of the . ! [1] [2,3] [99] e.g. 期限九十天
    。 مدة ١٢ \u202e (
""".split()
pieces = st.lists(st.sampled_from([*PIECES, "\n", "  "]), max_size=30).map(" ".join)


@pytest.mark.slow
@settings(max_examples=200)
@given(pieces, pieces, st.lists(pieces, max_size=4))
def test_the_metrics_follow_from_the_spans_of_words_values_and_marks(
    query: str, response: str, contexts: list[str]
) -> None:
    """Texts of what sentences are made of, in any order, with and without limits that cut them."""
    fields = {"query": query, "response": response, "contexts": [{"text": text} for text in contexts]}
    for limits in (TextLimits(), TextLimits(max_tokens=9)):
        assert list(breaches(View(Interaction.model_validate({"event_id": "1", **fields}), limits))) == []
