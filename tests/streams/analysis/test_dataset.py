"""Regression sets: which answers are taken, what leaves of them, and what other tools read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import CANNOT_TELL, Label
from ragweir.streams.analysis.dataset.building import Dataset, build, choice
from ragweir.streams.analysis.dataset.condition import conditions
from ragweir.streams.analysis.dataset.dataset_files import FORMATS
from ragweir.streams.analysis.dataset.duplicates import SAME, SameQuestions, words_of
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings, from_groups
from ragweir.streams.settings.labels import SHIPPED

TEN = datetime(2026, 11, 21, 10, tzinfo=UTC)
RECORDED = Path(__file__).parents[2] / "exports/datasets"
CATALOGUE = known_catalogue(Settings()).metrics


def event(name: str, **fields: Any) -> Interaction:
    given = {
        "query": f"What about {name}?",
        "response": f"It is {name}.",
        "contexts": [{"text": "A passage."}],
        **fields,
    }
    return Interaction(event_id=name, **given)


def label(name: str, value: bool | str, rater: str = "r", question: str = "supported", comment: str = "") -> Label:
    return Label(
        event_id=name,
        question=question,
        value=value,
        rater=rater,
        kind="expert",
        blind=True,
        time=TEN,
        comment=comment or None,
    )


def made(
    scores: Mapping[str, float | None],
    labels: list[Label] = [],  # noqa: B006 - never changed
    events: Mapping[str, Interaction] | None = None,
    settings: Settings | None = None,
    where: str | None = None,
    worst: int = 0,
    metric: str | None = None,
) -> Dataset:
    """The dataset of events, named in the order of their times, with their values of unsupported_risk."""
    settings = settings or Settings()
    chosen = choice(settings, CATALOGUE, where, worst, metric, has_labels=True)
    evaluated = Evaluated(chosen.criteria, ())
    for number, (name, value) in enumerate(scores.items()):
        time = (TEN + timedelta(minutes=number)).isoformat()
        source = {"topic": "answers.jsonl", "partition": 0, "offset": number + 1}
        row = {"event_id": name, "event_time": time, "scores": {"unsupported_risk": value}, "source": source}
        evaluated.add(orjson.dumps(row))
    people = PeopleLabels()
    for each in labels:
        people.add(each)
    known = {name: event(name) for name in scores} if events is None else events
    return build(
        chosen,
        evaluated,
        people,
        settings,
        lambda taken: {e.event_id: known[e.event_id] for e in taken if e.event_id in known},
    )


def ids(dataset: Dataset) -> list[str]:
    return [each.event.event_id for each in dataset.items]


def test_what_people_call_bad_is_taken_newest_first() -> None:
    found = made({"a": 0.1, "b": 0.2, "c": None, "d": 0.9}, [label("a", False), label("b", True), label("c", False)])
    assert ids(found) == ["c", "a"]
    assert found.items[1].because == ("people call it bad: supported",)
    assert found.items[1].people == (
        {"question": "supported", "value": False, "kind": "expert", "time": "2026-11-21T10:00:00Z"},
    )


def test_the_answer_of_most_people_counts_and_a_tie_takes_nothing() -> None:
    two = [label("a", False, "1"), label("a", True, "2"), label("b", False, "1"), label("b", False, "2")]
    three = [label("b", True, "3"), label("c", CANNOT_TELL, "1"), label("c", False, "2"), label("d", CANNOT_TELL)]
    assert ids(made(dict.fromkeys("abcd", 0.1), two + three)) == ["c", "b"]


def test_a_later_evaluation_of_an_event_replaces_the_earlier() -> None:
    """An event that was judged after it was scored has two; a condition asks the last one."""
    chosen = choice(Settings(), CATALOGUE, "unsupported_risk > 0.5", 0, None, has_labels=False)
    evaluated = Evaluated(chosen.criteria, ())
    for name, risk in (("a", 0.9), ("b", 0.9), ("a", 0.1)):
        evaluated.add(orjson.dumps({"event_id": name, "event_time": TEN, "scores": {"unsupported_risk": risk}}))
    found = build(
        chosen, evaluated, PeopleLabels(), Settings(), lambda taken: {e.event_id: event(e.event_id) for e in taken}
    )
    assert ids(found) == ["b"]


def test_all_conditions_have_to_hold() -> None:
    labels = [label("a", False), label("b", False), label("c", True)]
    found = made({"a": 0.9, "b": 0.2, "c": 0.95}, labels, where="supported = no and unsupported_risk >= 0.9")
    assert ids(found) == ["a"]
    assert found.items[0].because == ("supported = no", "unsupported_risk >= 0.9")
    assert found.items[0].scores == {"unsupported_risk": 0.9}


def test_the_worst_scores_are_taken_after_the_labelled_without_those_that_people_call_good() -> None:
    labels = [label("a", False), label("d", True)]
    found = made({"a": 0.95, "b": 0.8, "c": 0.3, "d": 0.99, "e": None, "f": 0.9}, labels, worst=2)
    assert ids(found) == ["a", "f", "b"]
    assert [each.because for each in found.items[1:]] == [
        ("unsupported_risk 0.9, one of the worst 2",),
        ("unsupported_risk 0.8, one of the worst 2",),
    ]


def test_the_worst_of_a_metric_that_is_better_high_are_the_lowest() -> None:
    chosen = choice(Settings(), CATALOGUE, None, 1, "context_support", has_labels=False)
    evaluated = Evaluated(chosen.criteria, ())
    for name, support in (("a", 0.5), ("b", 0.1), ("c", 0.9)):
        evaluated.add(orjson.dumps({"event_id": name, "event_time": TEN, "scores": {"context_support": support}}))
    found = build(
        chosen, evaluated, PeopleLabels(), Settings(), lambda taken: {e.event_id: event(e.event_id) for e in taken}
    )
    assert ids(found) == ["b"]


@pytest.mark.parametrize(
    ("where", "why"),
    [
        ("supported", "is no condition"),
        ("supported = maybe", "supported = is one of yes, no"),
        ("supported > 1", "supported = is one of yes, no"),
        ("suported = no", "no question and no metric suported.*supported"),
        ("unsupported_risk > high", "high is no number"),
        ("", "is no condition"),
    ],
)
def test_a_wrong_condition_says_why(where: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        conditions(where, SHIPPED, CATALOGUE)


def test_nothing_to_take_is_an_error() -> None:
    with pytest.raises(PermanentError, match="none of the 1 evaluations is taken; 2 labelled events are not among"):
        made({"a": 0.1}, [label("x", False), label("y", False)])
    with pytest.raises(ConfigurationError, match="no labels are given"):
        choice(Settings(), CATALOGUE, None, 0, None, has_labels=False)
    with pytest.raises(PermanentError, match="1 answer with texts that are gone"):
        made({"a": 0.1}, [label("a", False)], events={})


ASKED = [
    ("Who wrote the first program?", "  who WROTE the ﬁrst program ", True),
    ("Can you tell me when the Eiffel Tower was opened?", "Can you tell me when the Eiffel Tower opened?", True),
    ("When can I return a device that I bought in your shop in June if the box is open and damaged now?",
     "When can I return a device that I bought in your shop in May if the box is open and damaged now?", True),
    ("What is the capital of France?", "What is the capital of Greece?", False),
    ("Please tell me in one or two sentences how high the monthly fee of plan 7 is in Germany",
     "Please tell me in one or two sentences how high the monthly fee of plan 8 is in Germany", False),
    ("Am I as a customer of the family plan allowed to lend my second card to a friend of mine",
     "Am I as a customer of the family plan not allowed to lend my second card to a friend of mine", False),
    ("何时开门？", "何时开门", True),
    ("?", "!", True),
    ("", "Who?", False),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "same"), ASKED)
def test_the_same_question_in_other_words_is_found(one: str, other: str, same: bool) -> None:
    asked = SameQuestions()
    assert [asked.add(one), asked.add(other)] == [0, 0 if same else 1]


def test_candidates_are_found_that_a_comparison_of_all_pairs_finds() -> None:
    """Against sets of words and pairs of words compared one by one, over questions with a word left out or replaced."""
    randomness = Random(33)
    words = [f"w{'abcdefghij'[number % 10]}{'klmnopqrst'[number // 10]}" for number in range(100)]
    base = [[randomness.choice(words) for _ in range(randomness.randint(8, 30))] for _ in range(60)]
    texts = []
    for own in base:
        changed = list(own)
        changed[randomness.randrange(len(changed))] = randomness.choice(words)
        texts += [" ".join(own), " ".join(changed), " ".join(own[:-1])]
    randomness.shuffle(texts)

    def parts(text: str) -> set[Any]:
        own = text.split()
        return {*own, *pairwise(own)}

    expected: list[int] = []
    for place, text in enumerate(texts):
        firsts = [other for other in range(place) if expected[other] == other]
        near = (o for o in firsts if len(parts(text) & parts(texts[o])) >= SAME * len(parts(text) | parts(texts[o])))
        exact = (expected[other] for other in range(place) if texts[other] == text)
        expected.append(next(exact, next(near, place)))
    asked = SameQuestions()
    assert [asked.add(text) for text in texts] == expected
    assert len(set(expected)) < 150


def test_the_first_answer_to_a_question_is_kept_and_the_others_are_named() -> None:
    events = {name: event(name, query="Who?") for name in "abc"}
    found = made({"a": 0.1, "b": 0.9, "c": 0.5}, [label("a", False)], events, worst=2)
    assert ids(found) == ["a"]
    assert found.items[0].duplicates == ["b", "c"]
    assert "left out: 2 answers to a question that an item has" in found.notes


def test_the_same_words_after_another_conversation_are_another_question() -> None:
    events = {
        name: event(name, query="And there?", history=[{"role": "user", "text": f"Is it warm in {place}?"}])
        for name, place in (("a", "Rome"), ("b", "Oslo"), ("c", "Rome"))
    }
    found = made(dict.fromkeys("abc", 0.9), [label(name, False) for name in "abc"], events)
    assert ids(found) == ["c", "b"]
    assert found.items[0].asked == "user: Is it warm in Rome?\nuser: And there?"


ADDRESS = "ada@example.org"


def personal() -> Interaction:
    return event(
        "a",
        query=f"What about {ADDRESS}?",
        response=f"Ask {ADDRESS}.",
        contexts=[{"text": f"{ADDRESS} is on leave.", "document_id": "d", "score": 0.5}, {"text": None}],
        history=[{"role": "user", "text": f"I am {ADDRESS}"}],
        expected=[f"Write to {ADDRESS}."],
        feedback={"comment": ADDRESS},
        extra={"mail": ADDRESS},
        session_id=ADDRESS,
        labels={"mail": ADDRESS},
    )


@pytest.mark.parametrize("mode", ["on", "off"])
def test_every_text_is_redacted_as_the_judges_are(mode: str) -> None:
    """Question, answer, passages, conversation, expected answer and comments; further fields of the event stay out."""
    settings = from_groups({"judge": {"redaction": mode}})
    found = made({"a": 0.9}, [label("a", False, comment=f"{ADDRESS} says so")], {"a": personal()}, settings)
    for name, content in found.files("set").items():
        assert (ADDRESS.encode() in content) == (mode == "off"), name
    item = found.items[0]
    assert item.redacted == (mode == "on")
    assert ("judge.redaction is off, so that the texts are written as they are" in found.notes) == (mode == "off")
    said = "[email]" if mode == "on" else ADDRESS
    assert item.query == f"What about {said}?"
    assert item.event.history is not None
    assert item.event.history[0].text == f"I am {said}"
    assert item.people[0]["comment"] == f"{said} says so"
    assert item.passages == [f"{said} is on leave."]
    assert item.event.expected == (f"Write to {said}.",)


def test_an_answer_that_must_not_leave_is_left_out_and_counted() -> None:
    settings = from_groups({"judge": {"redaction": "refuse"}})
    events = {"a": personal(), "b": event("b")}
    found = made({"a": 0.9, "b": 0.9}, [label("a", False), label("b", False)], events, settings)
    assert ids(found) == ["b"]
    assert "left out: 1 answer with texts that must not leave (judge.redaction)" in found.notes


def test_raters_stay_out() -> None:
    found = made({"a": 0.9}, [label("a", False, rater="0123456789abcdef")])
    assert not any(b"0123456789abcdef" in content for content in found.files("set").values())


def example() -> Dataset:
    """The dataset of tests/exports/datasets."""
    events = {
        "q1": event(
            "q1",
            query='Who said "Eureka"?',
            response="Newton did.\nIn Cambridge.",
            contexts=[
                {"text": "He said “heureka”.", "document_id": "greeks"},
                {"text": "A second one."},
            ],
            expected=["Archimedes", "Archimedes of Syracuse"],
            trace_id="0af7651916cd43dd8448eb211c80319c",
            span_id="b7ad6b7169203331",
            application="quotes",
            pipeline_version="v7",
        ),
        "q2": event(
            "q2",
            query="And 何时 did he live?",
            response="No idea.",
            contexts=[],
            history=[{"role": "user", "text": "Who was Kepler?"}, {"role": "assistant", "text": "An astronomer."}],
        ),
        "q3": event("q3", query="Is tea served?", response="Yes, until midnight.", contexts=None),
    }
    labels = [label("q1", False, comment="It was Archimedes."), label("q2", False)]
    return made({"q1": 0.75, "q2": 0.5, "q3": 0.9}, labels, events, worst=1, where="supported = no")


@pytest.mark.parametrize("name", FORMATS)
def test_the_files_are_those_that_the_tools_have_read(name: str) -> None:
    """Changed files are read again with each SDK, as tests/exports/README.md says, and the test below is run."""
    assert example().files("quotes")[name].decode() == (RECORDED / name).read_text(encoding="utf-8")


def recorded(name: str) -> list[dict[str, Any]]:
    file = next(RECORDED.glob(f"{name}-*.json"))
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found


READ = {  # The names of question, answer, passages and expected answer in each tool.
    "ragas": ("user_input", "response", "retrieved_contexts", "reference"),
    "deepeval": ("input", "actual_output", "retrieval_context", "expected_output"),
    "opik": ("input", "response", "contexts", "expected_output"),
}


@pytest.mark.parametrize("tool", [*READ, "langfuse"])
def test_each_tool_has_read_question_answer_passages_and_expected_answer(tool: str) -> None:
    items = example().items
    expected = [(each.asked, each.response, each.passages, (each.event.expected or (None,))[0]) for each in items]
    assert [each[0] for each in expected][:2] == [
        "user: Who was Kepler?\nassistant: An astronomer.\nuser: And 何时 did he live?",
        'Who said "Eureka"?',
    ]
    if tool == "langfuse":
        rows = recorded(tool)
        read = [(r["input"], r["metadata"]["response"], r["metadata"]["contexts"], r["expected_output"]) for r in rows]
        assert [each["unknown"] for each in rows] == [[]] * len(items)
        assert [each["source_trace_id"] for each in rows] == [each.event.trace_id for each in items]
        assert len({each["id"] for each in rows}) == len(items)
        assert {each["dataset_name"] for each in rows} == {"quotes"}
    else:
        read = [tuple(each.get(name) for name in READ[tool]) for each in recorded(tool)]
    assert read == expected


def test_the_tools_know_where_an_item_comes_from() -> None:
    origins = {
        "deepeval": [each["additional_metadata"] for each in recorded("deepeval")],
        "opik": [each["metadata"] for each in recorded("opik")],
        "langfuse": [each["metadata"] for each in recorded("langfuse")],
    }
    for tool, found in origins.items():
        assert [each["event_id"] for each in found] == ["q2", "q1", "q3"], tool
        assert found[1]["people"][0]["comment"] == "It was Archimedes.", tool
        assert found[2]["because"] == ["unsupported_risk 0.9, one of the worst 1"], tool


def test_our_file_is_events_that_can_be_scored_again() -> None:
    items = example().items
    lines = example().files("quotes")["dataset.jsonl"].splitlines()
    events = [Interaction.model_validate(orjson.loads(line)) for line in lines]
    assert [encode(each.model_copy(update={"extra": {}})) for each in events] == [encode(each.event) for each in items]
    assert [orjson.loads(line)["dataset"]["because"] for line in lines] == [list(each.because) for each in items]


def test_words_are_compared_without_case_and_signs() -> None:
    assert words_of("Don't—STOP!") == ["don't", "stop"]
