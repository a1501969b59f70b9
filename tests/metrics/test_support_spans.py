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
    explain_support,
    unsupported_sentences,
    unsupported_words,
)
from ragweir.metrics.support_spans import SupportSpans, support_spans
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


def _number(value: Value) -> Value:
    return 0.0 if isinstance(value, Null) else value


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
    yield from (metric.__name__ for metric, value in expected.items() if _number(metric(view)) != value)
    if explain_support(view) != tuple(token[:40] for token in list(dict.fromkeys(w.token for w in words))[:20]):
        yield "explain_support"
    places = [place for each in sentences for place in (each.start, each.stop)]
    if places != sorted(places) or any(not text[each.start : each.stop].strip() for each in sentences):
        yield "places of sentences"
    if any(not each.start <= word.start < word.stop <= each.stop for each in sentences for word in each.unsupported):
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
