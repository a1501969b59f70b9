"""The demo's simulated rater: it knows the samples, errs now and then, and sees no score."""

from datetime import UTC, datetime

from ragweir.schemas.label import CANNOT_TELL, LabelDraw, LabelledScore, QueuedAnswer
from ragweir.streams.playground.demo.rater import ERRS_OF, said
from ragweir.streams.playground.demo.samples import QUESTIONS, interactions

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)


def queued(event_id: str, sample: str | None, risk: float = 0.5) -> QueuedAnswer:
    return QueuedAnswer(
        event_id=event_id,
        question="supported",
        draw=LabelDraw(id="d", probability=1),
        judged=LabelledScore(metric="unsupported_risk", value=risk, bad=risk > 0.7, probability=1),
        dimensions={} if sample is None else {"labels.sample": sample},
    )


def test_it_calls_the_samples_that_are_made_worse_bad_and_errs_on_few() -> None:
    events = interactions(600, NOW)
    names = [event["labels"]["sample"] for event in events]
    worse = [name.endswith("-v2") and name.removesuffix("-v2") in QUESTIONS for name in names]
    answers = [queued(event["event_id"], name) for event, name in zip(events, names, strict=True)]
    wrong = [said(each) is not (not bad) for each, bad in zip(answers, worse, strict=True)]
    assert 0.1 < sum(worse) / len(worse) < 0.6
    assert 0.5 / ERRS_OF < sum(wrong) / len(wrong) < 1.5 / ERRS_OF


def test_its_answer_does_not_depend_on_the_score() -> None:
    name = f"{QUESTIONS[0]}-v2"
    assert {said(queued("1", name, risk)) for risk in (0.0, 0.5, 1.0)} == {said(queued("1", name))}


def test_it_cannot_tell_of_an_answer_of_which_it_knows_nothing() -> None:
    assert said(queued("1", None)) == CANNOT_TELL
