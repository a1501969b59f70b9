"""The demo's simulated rater: it knows the bad answers, and errs now and then."""

from datetime import UTC, datetime

from ragweir.schemas.label import CANNOT_TELL
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.playground.demo.rater import ERRS_OF, said
from ragweir.streams.playground.demo.samples import QUESTIONS, interactions

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def test_it_calls_the_samples_that_are_made_worse_bad_and_errs_on_few() -> None:
    events = interactions(600, NOW)
    names = [event["labels"]["sample"] for event in events]
    worse = [name.endswith("-v2") and name.removesuffix("-v2") in QUESTIONS for name in names]
    values = [said(each["event_id"], EventTexts(each["query"], each["response"], None)) for each in events]
    wrong = [value is bad for value, bad in zip(values, worse, strict=True)]
    assert 0.1 < sum(worse) / len(worse) < 0.6
    assert 0.5 / ERRS_OF < sum(wrong) / len(wrong) < 1.5 / ERRS_OF


def test_it_cannot_tell_of_an_answer_whose_text_is_gone() -> None:
    assert said("1", None) == CANNOT_TELL
