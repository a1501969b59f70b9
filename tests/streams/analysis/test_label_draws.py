"""Draws of answers and the report on their labels, from lines of evaluations to numbers."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

import orjson
import pytest

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.estimate import Estimate, EstimatedMetric
from ragweir.metrics.aggregation.selection import Chance, Weights
from ragweir.metrics.criterion import Criterion
from ragweir.metrics.people.shares import Limits
from ragweir.schemas.codec.json import encode
from ragweir.schemas.label import Draw, Label
from ragweir.streams.analysis.labels.drawing import DrawnQueue, draw, labels_for_width
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.report import AgreementTable, report
from ragweir.streams.analysis.labels.sampling_frame import Frame
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.settings.labels import Question

CRITERION = Criterion("judge_faithfulness", 0.5, higher_is_better=True, suite="faithfulness")
QUESTION = Question(name="supported", text="?", metric="judge_faithfulness")
NOW = datetime(2026, 11, 26, tzinfo=UTC)
DAY_S = 86_400


def line(number: int, status: str, probability: float, score: float | None, **fields: Any) -> Mapping[str, Any]:
    suite = {"suite": "faithfulness", "status": status, "probability": probability}
    judge = {"model": "judge-1", "prompt_version": "faithfulness:1 rubric:4"} if status == "judged" else None
    return {
        "event_id": f"e{number}",
        "event_time": 1_800_000_000 + number,
        "application": "search",
        "scores": {"judge_faithfulness": score, "other": 0.3},
        "decision": {"suites": [{"suite": "rubric", "status": "judged", "probability": 1.0}, suite]},
        "judge": judge,
    } | fields


def day(number: int = 0, bad_every: int = 5) -> list[Mapping[str, Any]]:
    """Return 1,200 events of a day: 100 selected for sure, of the others each eleventh with p = 1 / 11."""
    events = []
    for place in range(1_200):
        score = 0.1 if place % bad_every == 0 else 0.9
        time = {"event_id": f"{number}-{place}", "event_time": 1_800_000_000 + DAY_S * number + place}
        chance = 1.0 if place < 100 else 1 / 11
        if place < 100 or place % 11 == 0:
            status = "failed" if place % 50 == 0 else "judged"
            events.append(line(place, status, chance, None if status == "failed" else score, **time))
        else:
            events.append(line(place, "not_selected", chance, None, **time))
    return events


def evaluated(lines: Iterable[Mapping[str, Any]]) -> Evaluated:
    found = Evaluated([CRITERION], ["application"])
    for each in lines:
        found.add(orjson.dumps(each))
    return found


def drawn(events: Evaluated, count: int = 40, application: str | None = None) -> DrawnQueue:
    return draw(events, 0, "supported", count, application, 0.0, Random(count), NOW)


def labels(*queues: DrawnQueue) -> PeopleLabels:
    """Return labels of all answers, after the records were written and read."""
    found = PeopleLabels()
    for queue in queues:
        made = Draw.model_validate_json(encode(queue.draw))
        found.draws[made.id] = made
        for number, answer in enumerate(queue.answers):
            own = {
                "value": answer.judged.bad is (number % 8 == 0),
                "rater": "r",
                "kind": "expert",
                "blind": True,
                "time": NOW,
            }
            found.add(Label.model_validate({**orjson.loads(encode(answer)), **own}))
    return found


def table(given: PeopleLabels, events: Evaluated | None = None) -> AgreementTable:
    (found,) = report(given, [(QUESTION, [CRITERION])], events).tables
    return found


def test_a_draw_stands_for_all_events_of_its_range() -> None:
    """The share of flagged events is that of the aggregation's own estimate, event by event."""
    events = evaluated(day())
    made = drawn(events).draw
    estimate, chance, statuses = (
        Estimate(EstimatedMetric("faithfulness")),
        Chance(),
        dict.fromkeys(("selected", "judged", "not_selected"), 0),
    )
    for each in day():
        suite = each["decision"]["suites"][1]
        selected, judged = suite["status"] != "not_selected", suite["status"] == "judged"
        weights = Weights.of(suite["probability"])
        chance = chance.merged(Chance(suite["probability"], 0, weights if selected else Weights()))
        statuses["selected" if selected else "not_selected"] += 1
        statuses["judged"] += selected
        if judged:
            estimate.add(float(each["scores"]["judge_faithfulness"] < 0.5), suite["probability"])
    expected = estimate.result(statuses, chance)
    found = Frame.from_draw(Draw.model_validate_json(encode(made))).flagged()
    assert isinstance(found, Limits)
    assert (found.value, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high))
    assert expected.unanswered > 0
    assert made.events == 1_200
    assert (made.bad.drawn, made.good.drawn) == (20, 20)


def test_labels_say_the_same_with_and_without_the_evaluations() -> None:
    events = evaluated(day())
    given = labels(drawn(events))
    own, again = table(given), table(given, events)
    assert own == again
    assert own.labels == 40
    assert own.judge == ("judge-1", "1")


def test_each_answer_has_one_overall_chance() -> None:
    """Within a verdict, the probability of the draw times that of being judged is the same."""
    found = drawn(evaluated(day()), 20)
    for bad in (True, False):
        overall = [each.draw.probability * each.judged.probability for each in found.answers if each.judged.bad is bad]
        assert len(overall) == 10
        assert overall == pytest.approx([overall[0]] * 10)


def test_draws_of_different_days_are_pooled() -> None:
    """The number of a range of two days lies between those of the days, at their mean, as they have as many events."""
    first, second = evaluated(day(0, bad_every=10)), evaluated(day(1, bad_every=3))
    queues = drawn(first, 60), drawn(second, 60)
    rates = [
        each.agreement.people_rate
        for each in (table(labels(queues[0])), table(labels(queues[1])), table(labels(*queues)))
    ]
    values = [each.value for each in rates if isinstance(each, Limits)]
    assert values[0] < values[2] < values[1]
    assert values[2] == pytest.approx((values[0] + values[1]) / 2, abs=0.03)


def test_half_a_queue_stands_for_the_whole() -> None:
    """Labels of the first half of a queue have the weights of half as many chances."""
    events = evaluated(day())
    queue = drawn(events, 60)
    half = DrawnQueue(queue.draw, queue.answers[:30])
    whole, part = (table(labels(each)).agreement.people_rate for each in (queue, half))
    assert isinstance(whole, Limits)
    assert isinstance(part, Limits)
    assert part.value == pytest.approx(whole.value, abs=0.1)
    assert part.high - part.low > whole.high - whole.low


def test_as_many_answers_are_planned_as_a_width_takes() -> None:
    """A narrower interval takes more answers, up to a width that labels of all judged answers do not reach."""
    events = evaluated(day())
    counts = [labels_for_width(events, 0, None, width) for width in (0.6, 0.5, 0.4)]
    assert counts[0] < counts[1] < counts[2] < 196
    with pytest.raises(PermanentError, match=r"labels of all 196 .* 0\.05 wide, as .* of the events are bad by it"):
        labels_for_width(events, 0, None, 0.05)
    free = evaluated([line(place, "not_selected", 0.1, None) for place in range(9)])
    with pytest.raises(PermanentError, match="no event has the metric"):
        labels_for_width(free, 0, None, 0.5)
