"""Rating: which answers a person is asked about, and the labels that this gives."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from ragweir.schemas.label import CANNOT_TELL, WITHDRAWN, Label, LabelDraw, LabelledScore, QueuedAnswer
from ragweir.streams.analysis.labels.rating import TEXT_GONE, Rating, choices
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.settings.labels import Question

NOW = datetime(2026, 11, 26, tzinfo=UTC)
SUPPORTED = Question(name="supported", text="Supported?", metric="unsupported_risk", threshold=0.8)
QUESTIONS = {"supported": SUPPORTED}
DRAW = LabelDraw(id="d", probability=0.25)


def queued(event_id: str, raters: int = 1) -> QueuedAnswer:
    score = LabelledScore(metric="unsupported_risk", value=0.9, bad=True, probability=1)
    return QueuedAnswer(
        event_id=event_id,
        question="supported",
        draw=DRAW,
        judged=score,
        event_time=NOW,
        dimensions={"application": "shop"},
        raters=raters,
    )


def queue(*ids: str, raters: int = 1) -> list[QueuedAnswer]:
    return [queued(each, raters) for each in ids]


def rated(event_id: str, rater: str, value: bool | str = True, draw: LabelDraw | None = DRAW, why: str = "") -> Label:
    return Label(
        event_id=event_id,
        question="supported",
        value=value,
        rater=rater,
        kind="expert",
        blind=True,
        time=NOW,
        draw=draw,
        why=why,
    )


def given(*labels: Label) -> PeopleLabels:
    found = PeopleLabels()
    for label in labels:
        found.add(label)
    return found


def asked(rating: Rating) -> list[str]:
    """The ids in the order in which they are asked, each answered by yes."""
    found = []
    while (answer := rating.present) is not None:
        found.append(answer.event_id)
        rating.stored(rating.label(value=True, time=NOW, seconds=1))
    return found


def test_a_label_copies_its_line_of_the_queue() -> None:
    rating = Rating(queue("a"), given(), "me", QUESTIONS)
    label = rating.label(value=False, time=NOW, seconds=2.5)
    line = queue("a")[0].model_dump(exclude={"raters", "source"})
    assert label.model_dump().items() >= line.items()
    assert (label.value, label.rater, label.kind, label.blind) == (False, "me", "expert", True)
    assert (label.time, label.seconds, label.comment, label.why) == (NOW, 2.5, None, "")


def test_an_answer_counts_once_its_label_is_stored() -> None:
    rating = Rating(queue("a", "b", "a"), given(), "me", QUESTIONS)
    label = rating.label(value=True, time=NOW, seconds=1)
    assert (rating.answered, rating.total, rating.present) == (0, 2, queued("a"))
    rating.stored(label)
    assert (rating.answered, rating.total, rating.present) == (1, 2, queued("b"))
    rating.stored(rating.label(CANNOT_TELL, NOW, 1))
    assert (rating.answered, rating.total, rating.present) == (2, 2, None)
    with pytest.raises(ValueError, match="labelled"):
        rating.label(value=True, time=NOW, seconds=1)


def test_rating_goes_on_after_the_labels_that_there_are() -> None:
    labels = given(rated("b", "me"), rated("c", "me", CANNOT_TELL), rated("a", "me"), rated("a", "me", WITHDRAWN))
    rating = Rating(queue("a", "b", "c", "d"), labels, "me", QUESTIONS)
    assert (rating.answered, rating.total) == (2, 4)
    assert asked(rating) == ["a", "d"]


def test_undo_asks_the_last_answer_again_and_then_the_one_before() -> None:
    """Also those of an earlier run, in the order in which they were given."""
    labels = given(rated("a", "other"), rated("b", "me"), rated("a", "me"))
    rating = Rating(queue("a", "b", "c", raters=2), labels, "me", QUESTIONS)
    rating.stored(rating.label(value=True, time=NOW, seconds=1))
    for event_id in ("c", "a", "b"):
        label = rating.undo(NOW + timedelta(seconds=1))
        assert label is not None
        assert (label.event_id, label.value, label.seconds) == (event_id, WITHDRAWN, None)
        rating.stored(label)
    assert rating.undo(NOW) is None
    assert asked(rating) == ["b", "a", "c"]


def test_a_skipped_answer_is_asked_after_all_others() -> None:
    rating = Rating(queue("a", "b", "c"), given(), "me", QUESTIONS)
    rating.skip()
    assert asked(rating) == ["b", "c", "a"]
    rating.skip()
    assert rating.present is None


@pytest.mark.parametrize(
    ("raters", "labels", "expected"),
    [
        (1, [rated("a", "x")], ["b"]),
        (2, [rated("a", "x")], ["a", "b"]),
        (2, [rated("a", "x"), rated("a", "y")], ["b"]),
        (2, [rated("a", "x"), rated("a", "me")], ["b"]),
        (1, [rated("a", "x", WITHDRAWN)], ["a", "b"]),
        (1, [rated("a", "x", CANNOT_TELL)], ["b"]),
        # The report weights drawn labels alone, so that an imported one takes nobody's place.
        (1, [rated("a", "x", draw=None)], ["a", "b"]),
        (1, [rated("a", "me", draw=None)], ["a", "b"]),
        # The text of the event was gone, and is there now.
        (1, [rated("a", "x", CANNOT_TELL, why=TEXT_GONE)], ["a", "b"]),
        (1, [rated("a", "me", CANNOT_TELL, why=TEXT_GONE)], ["a", "b"]),
    ],
)
def test_an_answer_is_asked_of_as_many_people_as_its_line_says(
    raters: int, labels: list[Label], expected: list[str]
) -> None:
    assert asked(Rating(queue("a", "b", raters=raters), given(*labels), "me", QUESTIONS)) == expected


def said(**by_rater: bool | str) -> list[Label]:
    return [rated("a", rater, value) for rater, value in by_rater.items()]


@pytest.mark.parametrize(
    ("labels", "expected", "answered"),
    [
        (said(x=True, y=False), ["a"], 0),
        (said(x=True, y=True), [], 0),
        (said(x=True, y=CANNOT_TELL), [], 0),
        (said(x=True), [], 0),
        (said(x=True, y=False, z=True), [], 0),  # The third look has been taken.
        (said(x=True, me=False), [], 0),  # Who is one of the two is not the third.
        (said(x=True, y=False, me=False), [], 1),
        (said(x=True, y=WITHDRAWN), [], 0),
    ],
)
def test_a_third_person_is_asked_where_two_disagree(labels: list[Label], expected: list[str], answered: int) -> None:
    rating = Rating(queue("a", "b", raters=2), given(*labels), "me", QUESTIONS, disagreed=True)
    assert (rating.answered, rating.total) == (answered, answered + len(expected))
    assert asked(rating) == expected


def test_two_disagree_if_one_calls_the_answer_bad_and_one_good() -> None:
    """Two steps of a scale that are both good are no disagreement."""
    scale = ("poor", "fair", "fine")
    question = Question(name="supported", text="?", scale="ordinal", values=scale, bad=("poor",), metric="m")
    for second, expected in (("fair", []), ("poor", ["a"])):
        labels = given(rated("a", "x", "fine"), rated("a", "y", second))
        rating = Rating(queue("a", raters=2), labels, "me", {"supported": question}, disagreed=True)
        assert asked(rating) == expected


def gone_of(rating: Rating) -> list[tuple[str, str]]:
    """Store the labels of the lost answers before the present one."""
    found = []
    for label in rating.gone(NOW):
        rating.stored(label)
        assert (label.value, label.seconds) == (CANNOT_TELL, None)
        found.append((label.event_id, label.why))
    return found


def test_a_lost_answer_is_labelled_when_its_turn_comes() -> None:
    """If rating ends early, lost answers are among the labelled ones in their share of the queue, not in full."""
    rating = Rating(queue("a", "b", "c", "d"), given(), "me", QUESTIONS)
    assert rating.keep({"b", "c"}) == 2
    assert (rating.answered, rating.total) == (0, 2)
    assert gone_of(rating) == [("a", TEXT_GONE)]
    assert gone_of(rating) == []
    rating.stored(rating.label(value=True, time=NOW, seconds=1))
    assert (rating.present, gone_of(rating)) == (queued("c"), [])
    rating.stored(rating.label(value=True, time=NOW, seconds=1))
    assert (rating.present, rating.waits) == (None, True)
    assert gone_of(rating) == [("d", TEXT_GONE)]
    assert (rating.answered, rating.total, rating.waits) == (2, 2, False)


def test_a_lost_answer_gets_one_label() -> None:
    """Not one in each run, nor beside one of a person who could read it."""
    labels = given(rated("a", "x", CANNOT_TELL, why=TEXT_GONE), rated("b", "x"), rated("d", "me"))
    rating = Rating(queue("a", "b", "c", "d", raters=2), labels, "me", QUESTIONS)
    assert rating.keep({"c"}) == 2
    assert gone_of(rating) == []
    assert rating.undo(NOW) is None  # Nobody could answer it again.
    assert (asked(rating), rating.answered, rating.waits) == (["c"], 2, False)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"y": True, "n": False, "c": CANNOT_TELL}),
        (
            {"scale": "ordinal", "values": ("poor", "fine"), "bad": ("poor",)},
            {"1": "poor", "2": "fine", "c": CANNOT_TELL},
        ),
    ],
)
def test_each_answer_has_a_key(more: Mapping[str, object], expected: dict[str, bool | str]) -> None:
    question = Question.model_validate({"name": "q", "text": "?", "metric": "m", **more})
    assert {each.key: each.value for each in choices(question)} == expected
    assert all(question.read(each.value) == each.value for each in choices(question))
