"""Draws, files of labels, and the report: each number against one that is computed here by hand."""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.criterion import Criterion, criterion
from ragweir.metrics.people.shares import Limits
from ragweir.schemas.label import Label, LabelDraw
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.drawing import DrawnQueue, draw
from ragweir.streams.analysis.labels.evaluated import Evaluated, read_evaluated
from ragweir.streams.analysis.labels.on_topics import TopicLabels
from ragweir.streams.analysis.labels.report import AgreementTable, report
from ragweir.streams.analysis.labels.store import LabelFile, PeopleLabels, read_labels, read_queue, written
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.labels import SHIPPED, Question

RISK = Criterion("unsupported_risk", 0.8, higher_is_better=False, suite=None)
FAITHFUL = Criterion("judge_faithfulness", 0.5, higher_is_better=True, suite="rubric")
NOW = datetime(2026, 11, 26, tzinfo=UTC)
QUESTION = Question(name="supported", text="?", metric="unsupported_risk", threshold=0.8)


def evaluation(number: int, risk: float | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "event_id": f"e{number}",
        "event_time": f"2026-11-2{number % 5}T10:00:00Z",
        "application": "shop",
        "catalogue_version": "3",
        "scores": {"unsupported_risk": risk},
        **fields,
    }


def judged(
    number: int, value: float | None, probability: float, status: str = "judged", **fields: Any
) -> dict[str, Any]:
    suite = {"suite": "rubric", "status": status, "probability": probability}
    by = {"model": "judge-1", "prompt_version": "rubric:2 ragas:1"}
    judge = {"stage": "judged", "judge": by} if status == "judged" else {}
    return (
        evaluation(number) | judge | {"scores": {"judge_faithfulness": value}, "decision": {"suites": [suite]}} | fields
    )


def read(lines: Iterable[Mapping[str, Any]], *own: Criterion) -> Evaluated:
    found = Evaluated(own or (RISK,), ("application", "labels.region"))
    for line in lines:
        found.add(orjson.dumps(line))
    return found


def drawn(evaluated: Evaluated, count: int, place: int = 0, application: str | None = None) -> DrawnQueue:
    return draw(evaluated, place, "supported", count, application, 0.0, random.Random(7), NOW)


def label(event_id: str, value: object, rater: str = "a", **fields: Any) -> Label:
    own = {"question": "supported", "kind": "expert", "blind": True, "time": NOW}
    return Label.model_validate({"event_id": event_id, "value": value, "rater": rater, **own, **fields})


def labelled(queue: DrawnQueue, bad: Mapping[str, bool], most: int | None = None) -> PeopleLabels:
    found = PeopleLabels({queue.draw.id: queue.draw})
    for answer in queue.answers[:most]:
        found.add(label(answer.event_id, not bad[answer.event_id], draw=answer.draw, judged=answer.judged))
    return found


def table(found: Iterable[AgreementTable]) -> AgreementTable:
    (only,) = found
    return only


def numbers(of: AgreementTable) -> dict[str, float]:
    return {name: round(each.value, 6) for name, each in of.numbers if isinstance(each, Limits)}


# Draws.


def test_half_of_the_answers_are_bad_by_the_metric_and_the_rest_good() -> None:
    evaluated = read([evaluation(number, 0.9 if number < 30 else 0.1) for number in range(400)])
    queue = drawn(evaluated, 40)
    assert [sum(answer.judged.bad is bad for answer in queue.answers) for bad in (True, False)] == [20, 20]
    assert {round(answer.draw.probability, 6) for answer in queue.answers if answer.judged.bad} == {round(20 / 30, 6)}
    assert len({answer.event_id for answer in queue.answers}) == 40
    assert (queue.draw.events, queue.draw.bad.judged.count, queue.draw.good.drawn) == (400, 30, 20)
    assert (queue.draw.start.isoformat(), queue.draw.end > datetime(2026, 11, 24, 10, tzinfo=UTC)) == (
        "2026-11-20T10:00:00+00:00",
        True,
    )


def test_an_answer_that_was_judged_by_chance_is_drawn_more_often_than_one_that_is_always_judged() -> None:
    """Within a verdict each has the same overall chance: that of being judged by that of being drawn."""
    lines = [judged(number, 0.9, 1.0 if number % 2 else 0.25) for number in range(200)]
    queue = drawn(read(lines, FAITHFUL), 40)
    assert {round(each.judged.probability * each.draw.probability, 9) for each in queue.answers} == {0.08}
    assert {(each.judged.model, each.judged.suite_version) for each in queue.answers} == {("judge-1", "2")}


def test_a_draw_is_of_one_judge_and_says_what_it_leaves_out() -> None:
    old = {"judge": {"model": "judge-0", "prompt_version": "rubric:1"}}
    lines = [judged(number, 0.9, 1.0, event_time=f"2026-11-20T10:00:{number:02}Z", **old) for number in range(20)]
    lines += [judged(number, 0.1, 1.0, event_time=f"2026-11-20T11:00:{number:02}Z") for number in range(20, 50)]
    queue = drawn(read(lines, FAITHFUL), 10)
    assert (queue.draw.model, queue.draw.suite_version, queue.draw.events) == ("judge-1", "2", 30)
    assert "20 events up to 2026-11-20 10:00:19 UTC are left out" in queue.notes[-1]


def test_an_application_is_drawn_from_alone_and_an_unknown_one_is_named() -> None:
    evaluated = read([evaluation(number, 0.9, application="a" if number % 2 else "b") for number in range(20)])
    assert {answer.dimensions["application"] for answer in drawn(evaluated, 6, application="a").answers} == {"a"}
    with pytest.raises(PermanentError, match="no event of the application c; those of the events: a, b"):
        drawn(evaluated, 6, application="c")


def test_more_than_there_are_is_all_there_are() -> None:
    evaluated = read([evaluation(number, 0.9 if number < 3 else 0.1) for number in range(7)])
    queue = drawn(evaluated, 100)
    assert ({answer.draw.probability for answer in queue.answers}, len(queue.answers)) == ({1.0}, 7)
    assert queue.notes == ["there are 7 answers with unsupported_risk, which are all drawn"]
    with pytest.raises(PermanentError, match="no event has judge_faithfulness"):
        drawn(read([evaluation(1, 0.5)], FAITHFUL), 3)


def test_of_several_evaluations_of_an_event_the_last_one_counts() -> None:
    found = read(
        [judged(1, None, 0.5, "selected"), judged(1, 0.2, 0.5), judged(2, None, 0.5, "not_selected")], FAITHFUL
    )
    assert (len(found), found.tally(0, range(2))) == (2, {(0, 0.5): 1, (4, 0.5): 1})


# The report.


def test_the_numbers_of_drawn_answers_stand_for_all_events() -> None:
    """The metric flags 100 of 1,000, of which 60 are bad, and misses 30: with all labelled the numbers are exact."""
    lines = [evaluation(number, 0.9 if number < 100 else 0.1) for number in range(1_000)]
    evaluated = read(lines)
    bad = {f"e{number}": number < 60 or number >= 970 for number in range(1_000)}
    own = labelled(drawn(evaluated, 1_000), bad)
    exact = {"tpr": 60 / 90, "tnr": 870 / 910, "precision": 0.6, "people_rate": 0.09, "kappa": (0.93 - 0.828) / 0.172}
    rounded = {name: round(value, 6) for name, value in exact.items()}
    for found in (report(own, [(QUESTION, [RISK])]), report(own, [(QUESTION, [RISK])], evaluated)):
        assert numbers(table(found.tables)) == rounded
        assert table(found.tables).drawn


def test_answers_that_were_not_drawn_speak_for_themselves() -> None:
    lines = [evaluation(number, 0.9 if number < 100 else 0.1) for number in range(1_000)]
    found = PeopleLabels()
    for number in (*range(10), *range(500, 510)):
        found.add(label(f"e{number}", number not in (0, 1, 2, 3, 4, 500), kind="import"))
    found.add(label("gone", True))
    made = report(found, [(QUESTION, [RISK])], read(lines))
    only = table(made.tables)
    assert (only.drawn, only.labels, only.application) == (False, 20, "shop")
    assert numbers(only) == {"tpr": 0.833333, "tnr": 0.642857, "precision": 0.5, "kappa": 0.4, "people_rate": 0.3}
    assert made.notes == ["1 labelled answer to supported has no unsupported_risk here"]


def test_a_verdict_of_the_judge_counts_by_its_probability() -> None:
    """Two of four answers were judged with p = .25 and stand for eight; the plain share would be a half."""
    lines = [judged(number, 0.1, 1.0 if number < 20 else 0.25) for number in range(40)]
    found = PeopleLabels()
    for number in range(40):
        found.add(label(f"e{number}", number < 20, kind="import"))
    only = table(report(found, [(QUESTION, [FAITHFUL])], read(lines, FAITHFUL)).tables)
    assert numbers(only)["people_rate"] == 0.8
    assert only.judge == ("judge-1", "2")


LIKELY = {"judge_faithfulness": {"0.15": 0.1, "0.45": 0.2, "1": 0.7}}


def test_the_judges_probabilities_are_held_against_people() -> None:
    """The score is of the probability below the threshold, .3 here, weighted as the other numbers are."""
    lines = [
        judged(number, 0.8, 1.0 if number < 20 else 0.25, probabilities=LIKELY if number < 39 else {})
        for number in range(40)
    ]
    found = PeopleLabels()
    for number in range(40):
        found.add(label(f"e{number}", "cannot_tell" if number == 38 else number >= 10, kind="import"))
    made = report(found, [(QUESTION, [FAITHFUL])], read(lines, FAITHFUL))
    score = table(made.tables).brier
    assert score is not None
    weighted = 10 * 0.7**2 + 10 * 0.3**2 + 18 * 4 * 0.3**2
    assert (score.n, score.value) == (38, pytest.approx(weighted / (20 + 18 * 4)))
    assert 0 < score.low < score.value < score.high < 1
    (data,) = made.data()["questions"]
    assert data["brier"]["value"] == round(score.value, 6)


def test_without_probabilities_there_is_no_brier_score() -> None:
    """Neither in tables nor in JSON, whether an evaluation has none or those of another metric."""
    for own in ({}, {"ragas_faithfulness": {"100": 1.0}}, {"judge_faithfulness": {"high": 1.0}}):
        lines = [judged(number, 0.1, 1.0, probabilities=own) for number in range(4)]
        found = PeopleLabels()
        for number in range(4):
            found.add(label(f"e{number}", number < 2, kind="import"))
        made = report(found, [(QUESTION, [FAITHFUL])], read(lines, FAITHFUL))
        assert table(made.tables).brier is None
        assert "brier" not in made.data()["questions"][0]


def test_an_evaluation_that_was_replaced_leaves_no_probability() -> None:
    lines = [judged(0, 0.1, 1.0, probabilities=LIKELY), judged(0, 0.9, 1.0)]
    found = PeopleLabels()
    found.add(label("e0", True, kind="import"))
    assert table(report(found, [(QUESTION, [FAITHFUL])], read(lines, FAITHFUL)).tables).brier is None


def test_only_a_part_of_the_queue_is_labelled_yet() -> None:
    """The queue is in random order, so that the labelled part stands for all of it."""
    lines = [evaluation(number, 0.9 if number < 200 else 0.1) for number in range(1_000)]
    evaluated = read(lines)
    bad = {f"e{number}": number < 100 for number in range(1_000)}
    only = table(report(labelled(drawn(evaluated, 400), bad, 100), [(QUESTION, [RISK])]).tables)
    assert only.labels == 100
    assert 0.06 < numbers(only)["people_rate"] < 0.14


def test_draws_that_overlap_in_time_are_named() -> None:
    """As two draws from one file do; those of days that follow each other are combined without a word."""
    bad = {f"e{number}": False for number in range(400)}
    made = [
        drawn(
            read(
                [evaluation(number, 0.9, event_time=f"2026-11-{day}T10:00:00Z") for number in range(start, start + 9)]
            ),
            5,
        )
        for day, start in ((20, 0), (21, 100), (20, 200))
    ]
    queues = [
        DrawnQueue(each.draw.model_copy(update={"id": str(number)}), each.answers) for number, each in enumerate(made)
    ]
    for those, notes in ((queues[:2], 0), (queues, 1)):
        found = PeopleLabels()
        for queue in those:
            found.draws[queue.draw.id] = queue.draw
            for answer in queue.answers:
                draw_of = answer.draw.model_copy(update={"id": queue.draw.id})
                found.add(label(answer.event_id, not bad[answer.event_id], draw=draw_of, judged=answer.judged))
        assert len([each for each in report(found, [(QUESTION, [RISK])]).notes if "overlap in time" in each]) == notes


def test_people_who_disagree_or_cannot_tell_widen_the_limits() -> None:
    lines = [evaluation(number, 0.9) for number in range(40)]
    found = PeopleLabels()
    for number in range(40):
        found.add(label(f"e{number}", value=number < 20))
    sure = dict(table(report(found, [(QUESTION, [RISK])], read(lines)).tables).numbers)["people_rate"]
    for number in (1, 2, 21):
        found.add(label(f"e{number}", number >= 20, rater="b"))
    found.add(label("e5", "cannot_tell"))
    found.add(label("e6", "withdrawn"))
    only = table(report(found, [(QUESTION, [RISK])], read(lines)).tables)
    unsure = dict(only.numbers)["people_rate"]
    assert isinstance(sure, Limits)
    assert isinstance(unsure, Limits)
    assert (only.labels, only.unanswered, unsure.n) == (39, 4, 35)
    assert unsure.high - unsure.low > sure.high - sure.low
    assert only.person_to_person == "3 answers have labels of two people; 30 are needed"


def test_two_people_are_compared_where_both_have_labelled_enough() -> None:
    found = PeopleLabels()
    for number in range(40):
        found.add(label(f"e{number}", number < 20))
        found.add(label(f"e{number}", number < 15, rater="b"))
    only = table(report(found, [(QUESTION, [RISK])], read([evaluation(number, 0.9) for number in range(40)])).tables)
    assert isinstance(only.person_to_person, Limits)
    assert round(only.person_to_person.value, 6) == 0.75


def test_labels_of_users_of_other_questions_and_of_wrong_values_are_in_no_table() -> None:
    found = PeopleLabels()
    found.add(label("e1", value=True, kind="user"))
    found.add(label("e1", value=True, question="other"))
    found.add(label("e2", "perhaps"))
    made = report(found, [(QUESTION, [RISK])], read([evaluation(1, 0.9)]))
    assert made.tables == []
    assert made.notes == [
        "1 label of users is in no table: users choose the answers that they rate",
        "1 label has a value that is no answer to supported: perhaps",
        "1 label is of a question that is not reported here: other",
        "agreement with people unknown",
    ]


def test_another_metric_is_reported_with_the_labels_of_a_draw() -> None:
    """Its verdicts divide the answers in another way than the draw did, so that chances differ within a verdict."""
    lines = [
        evaluation(
            number,
            0.9 if number < 200 else 0.1,
            scores={"unsupported_risk": 0.9 if number < 200 else 0.1, "rouge_l": (number % 10) / 10},
        )
        for number in range(1_000)
    ]
    overlap = Criterion("rouge_l", 0.25, higher_is_better=True, suite=None)
    evaluated = read(lines, RISK, overlap)
    bad = {f"e{number}": number % 10 < 3 for number in range(1_000)}
    made = report(labelled(drawn(evaluated, 400), bad), [(QUESTION, [RISK, overlap])], evaluated)
    own = numbers(made.tables[1])
    assert (own["tpr"], own["tnr"], own["precision"]) == (1.0, 1.0, 1.0)
    assert own["people_rate"] == 0.3


# Questions.


def test_every_shipped_question_has_metrics_of_the_catalogue_with_a_direction() -> None:
    catalogue = known_catalogue(Settings()).metrics
    assert [[found.metric for found in criteria(each, catalogue)] for each in SHIPPED] == [
        ["judge_faithfulness", "unsupported_risk"],
        ["judge_relevance"],
        ["refusal_correct"],
    ]
    with pytest.raises(ConfigurationError, match="neither direction"):
        criterion("refusal", 0.5, catalogue)
    with pytest.raises(ConfigurationError, match="the nearest is unsupported_risk"):
        criterion("unsuported_risk", 0.5, catalogue)


# Files.


def test_a_queue_is_read_as_it_was_written(tmp_path: Path) -> None:
    queue = drawn(read([evaluation(number, 0.9, labels={"region": "eu"}) for number in range(9)]), 5)
    file = tmp_path / "queue.jsonl"
    file.write_bytes(written([queue.draw, *queue.answers]))
    assert read_queue(file) == (queue.draw, queue.answers)
    assert queue.answers[0].dimensions == {"application": "shop", "labels.region": "eu"}
    file.write_bytes(written(queue.answers))
    with pytest.raises(PermanentError, match="first line is no draw"):
        read_queue(file)


def test_a_later_label_replaces_an_earlier_one_of_the_same_person(tmp_path: Path) -> None:
    with LabelFile(tmp_path / "labels.jsonl") as file:
        for each in (label("1", value=True), label("1", value=False, rater="b"), label("1", value=False)):
            file.add(each)
        file.add(label("2", "withdrawn"))
    assert os.name != "posix" or not (tmp_path / "labels.jsonl").stat().st_mode & 0o077
    found = read_labels(tmp_path / "labels.jsonl")
    assert [(each.rater, each.value) for each in found.current()] == [("b", False), ("a", False)]


def test_a_label_that_the_disk_does_not_return_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here a disk that keeps zeros, as after a lost write."""
    write = os.write
    with LabelFile(tmp_path / "labels.jsonl") as file:
        file.add(label("1", value=True))
        monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(len(data))))
        with pytest.raises(PermanentError, match="does not hold what was written"):
            file.add(label("2", value=True))
        assert [each.event_id for each in file.content.current()] == ["1"]


def test_of_two_labels_on_topics_the_later_one_counts_in_whatever_order_they_are_read() -> None:
    """When topics grow, a key gets another partition, and the partitions are read at the same time."""
    newer, older = (label("1", value=said, time=NOW - timedelta(hours=age)) for said, age in ((True, 0), (False, 1)))
    for order in ((newer, older), (older, newer)):
        found = TopicLabels()
        for each in order:
            found.add(each)
        assert [each.value for each in found.current()] == [True]


def test_a_torn_line_is_removed_and_a_second_writer_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_bytes(written([label("1", value=True)]) + b'{"event_id":"2","question"')
    with LabelFile(path) as file:
        assert (file.removed, len(file.content.labels)) == (26, 1)
        with pytest.raises(PermanentError, match="in use"):
            LabelFile(path)
        file.add(label("3", value=True))
    assert [each.event_id for each in read_labels(path).current()] == ["1", "3"]


def test_a_last_label_without_a_line_end_is_kept(tmp_path: Path) -> None:
    """An editor leaves it so; a killed writer does not, which writes both at once."""
    path = tmp_path / "labels.jsonl"
    path.write_bytes(written([label("1", value=True)]).rstrip())
    with LabelFile(path) as file:
        assert file.removed == 0
        file.add(label("2", value=True))
    assert [each.event_id for each in read_labels(path).current()] == ["1", "2"]


@pytest.mark.parametrize(
    "content",
    [
        b'{"event_id":"1","query":"?","response":"!"}',
        b'{"event_id":"1","query":"?","response":"!"}\n{"event_id":"2","que',
        b"id,label\n1,yes",
        b"notes without a line end",
        b"\x1f\x8b\x08torn",
    ],
)
def test_a_file_of_something_else_stays_as_it_is(content: bytes, tmp_path: Path) -> None:
    """Its last line is no torn label, and is not removed."""
    path = tmp_path / "events.jsonl"
    path.write_bytes(content)
    with pytest.raises(PermanentError):
        LabelFile(path)
    assert path.read_bytes() == content


ADDING = """
import sys
from datetime import datetime, UTC
from pathlib import Path
from ragweir.schemas.label import Label
from ragweir.streams.analysis.labels.store import LabelFile
with LabelFile(Path(sys.argv[1])) as file:
    for number in range(len(file.content.labels), 100_000):
        own = {"question": "q", "value": True, "rater": "a", "kind": "expert", "blind": True}
        file.add(Label(event_id=str(number), time=datetime.now(UTC), **own))
        print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_loses_no_label_that_it_reported(tmp_path: Path) -> None:
    path, reported = tmp_path / "labels.jsonl", -1
    for _ in range(5):
        with subprocess.Popen([sys.executable, "-P", "-c", ADDING, path], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(20):
                reported = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            reported = max([reported, *(int(line) for line in process.stdout.read().split("\n")[:-1])])
        with LabelFile(path) as file:
            ids = [int(each.event_id) for each in file.content.labels.values()]
        assert ids == list(range(len(ids)))
        assert len(ids) > reported >= 0


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"[]", "no JSON object"),
        (b"{", "not JSON"),
        (b'{"event_id": "1"}', "no label: question: Field required"),
        (b'{"id": "1"}', "no label: question"),
        (
            orjson.dumps(orjson.loads(written([label("1", value=True)])) | {"draw": {"id": "d", "probability": 0}}),
            "no label: draw.probability",
        ),
    ],
)
def test_a_line_that_is_no_label_is_named(line: bytes, said: str, tmp_path: Path) -> None:
    file = tmp_path / "labels.jsonl"
    file.write_bytes(written([label("0", value=True)]) + line + b"\n")
    with pytest.raises(PermanentError, match=f"line 2 of .*{said}"):
        read_labels(file)


def test_a_line_that_is_no_evaluation_is_named(tmp_path: Path) -> None:
    file = tmp_path / "evaluations.jsonl"
    file.write_bytes(orjson.dumps(evaluation(1, 0.5)) + b'\n{"question": "?"}\n')
    with pytest.raises(PermanentError, match=r"line 2 of .* is no evaluation"):
        read_evaluated(file, [RISK], (), lambda _: None)
    file.write_bytes(b"")
    with pytest.raises(PermanentError, match="no evaluation"):
        read_evaluated(file, [RISK], (), lambda _: None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"event_time": "yesterday"},
        {"event_time": "9999-99-99T00:00:00Z"},
        {"scores": {"unsupported_risk": "high"}},
        {"scores": {"unsupported_risk": [1]}},
        {"scores": 7},
        {"source": {"topic": "t", "partition": 2**40, "offset": 1}},
        {"source": {"topic": "t", "partition": 0, "offset": 2**70}},
        {"source": {"topic": "t", "partition": 0, "offset": -1}},
        {"decision": {"suites": [{"suite": "rubric"}]}},
        {"event_id": None},
        {"event_id": ["a"]},
    ],
    ids=str,
)
def test_a_line_that_is_none_leaves_the_others_as_they_are(wrong: dict[str, Any]) -> None:
    """The topic has whatever was written to it, and is read on."""
    found = Evaluated((RISK, FAITHFUL), ())
    found.add(orjson.dumps(evaluation(0, 0.9)))
    with pytest.raises((ValueError, TypeError)):
        found.add(json.dumps({**evaluation(1, 0.9), **wrong}).encode())
    found.add(orjson.dumps(evaluation(2, 0.1)))
    assert found.rows == {"e0": 0, "e2": 1}
    columns = [found.times, found.group, *found.sources, *found.verdicts, *found.values, *found.chances]
    assert {len(column) for column in columns} == {2}
    assert list(found.verdicts[0]) == [0, 1]


def test_labels_without_their_draw_stand_for_all_evaluations() -> None:
    """As a file of labels may have lost its first line."""
    evaluated = read([evaluation(number, 0.9 if number < 100 else 0.1) for number in range(1_000)])
    found = PeopleLabels()
    for number in (*range(50), *range(500, 550)):
        chance = LabelDraw(id="lost", probability=0.5 if number < 100 else 50 / 900)
        found.add(label(f"e{number}", number >= 100, draw=chance))
    only = table(report(found, [(QUESTION, [RISK])], evaluated).tables)
    assert (only.drawn, numbers(only)["people_rate"], numbers(only)["tpr"]) == (True, 0.1, 1.0)
