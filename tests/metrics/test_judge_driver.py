"""The driver of conversations and the reading of answers, with scripted completions."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from ragweir.metrics.judged.answer_parsing import (
    CUT,
    MAX_CHARACTERS,
    NO_CHECK,
    NOT_JSON,
    TOO_LONG,
    UNFIT,
    AnswerFault,
    parse_answer,
    schema,
)
from ragweir.metrics.judged.driver import EXPLANATION_CHARACTERS, ChatCall, Completion, Judged, judge
from ragweir.metrics.judged.framing import frame, framed, sendable, unframed
from ragweir.metrics.judged.suite import Answer, Ask, Case, Conversation, Embed, Suite, SuiteResult
from ragweir.metrics.metric import Flagged, Metric, Null

CASE = Case("Who wrote it?", "Ada did.", contexts=("Ada wrote the first program.",))
OUT = Null("the judge cannot be reached")
Reply = object


class Claim(Answer):
    """One claim.

    What follows is for programmers.
    """

    text: str
    verdict: Literal["yes", "no"]


class Grade(Answer):
    """A grade."""

    because: str
    """Why, in one sentence."""
    title: float = Field(ge=0, le=1)
    """A field that is called as a word of JSON schemas."""
    claims: tuple[Claim, ...]
    first: Claim | None


class Score(Answer):
    """A score."""

    score: float


def metric(name: str, unit: Any = "ratio", **more: Any) -> Metric:
    return Metric(lambda: None, "judged", unit, "higher", (), "a test", cost="llm", name=name, **more)


def suite(converse: Callable[[Case], Conversation], *metrics: Metric, name: str = "tested", **more: Any) -> Suite:
    return Suite(name, "1", metrics or (metric("quality"),), converse, asks=1, **more)


def ask(task: str = "How good is it?", data: tuple[tuple[str, str], ...] = (("response", "Ada did."),)) -> Ask:
    return Ask(task, data, Score)


def score_of(case: Case) -> Conversation:
    answer = yield ask(data=(("response", case.response),))
    return SuiteResult({"quality": answer.score if isinstance(answer, Score) else answer})


def finding(**values: Any) -> Callable[[Case], Conversation]:
    """A conversation that asks nothing."""

    def converse(_: Case) -> Conversation:
        yield from ()
        return SuiteResult(values)

    return converse


def words() -> Callable[[], str]:
    numbers: Iterator[int] = iter(range(10_000, 10**9))
    return lambda: f"w{next(numbers)}"


def said(call: ChatCall, text: str) -> Completion:
    """What a judge says to a call; CHECK in it is the check word."""
    return Completion(text.replace("CHECK", unframed(call.framed.system, call.framed.user)[2]))


def drive(
    suites: list[Suite], *replies: Reply, case: Case = CASE, draw: Callable[[], str] | None = None
) -> tuple[Judged, list[ChatCall | Embed]]:
    """Drive a conversation with what is replied to its calls one after the other; no more calls than that come."""
    asked: list[ChatCall | Embed] = []
    left = list(replies)
    driven = judge(case, suites, draw or words())
    reply: Reply = None
    try:
        while True:
            asked.append(driven.send(reply))
            reply = left.pop(0)
            if isinstance(reply, str):
                assert isinstance(asked[-1], ChatCall)
                reply = said(asked[-1], reply)
    except StopIteration as end:
        assert not left
        return end.value, asked


GOOD = '{"score": 0.25, "check": "CHECK"}'


def test_a_conversation_comes_to_values() -> None:
    """What the judge answers is what the suite is sent, and what it finds is rounded and recorded."""
    judged, asked = drive([suite(score_of)], '{"score": 0.12345678, "check": "CHECK"}')
    assert judged == Judged(scores={"quality": 0.123457}, statuses={"tested": "judged"})
    [call] = asked
    assert isinstance(call, ChatCall)
    assert call.name == "tested_Score"
    assert unframed(call.framed.system, call.framed.user)[0] == {"response": "Ada did."}


OBJECT = '{"score": 0.5, "check": "owl"}'
READINGS: dict[str, tuple[str, float | AnswerFault]] = {
    "an object": (OBJECT, 0.5),
    "white space around it": (f" \n{OBJECT}\t\r\n", 0.5),
    "a fence around it": (f"```json\n{OBJECT}\n```\n", 0.5),
    "an integer for a float": ('{"score": 1, "check": "owl"}', 1.0),
    "the fields in another order": ('{"check": "owl", "score": 0.5}', 0.5),
    "prose": ("Step 1: the answer is relevant. score: 0.2", NOT_JSON),
    "prose before it": (f"Here it is: {OBJECT}", NOT_JSON),
    "prose after it": (f"{OBJECT} I hope this helps!", NOT_JSON),
    "prose before its fence": (f"Sure!\n```json\n{OBJECT}\n```", NOT_JSON),
    "a fence of another language": (f"```python\n{OBJECT}\n```", NOT_JSON),
    "a fence without a language": (f"```\n{OBJECT}\n```", NOT_JSON),
    "two fences": (f"```json\n{OBJECT}\n```\n```json\n{OBJECT}\n```", NOT_JSON),
    "a fence that stays open": (f"```json\n{OBJECT}", NOT_JSON),
    "two objects": (f"{OBJECT}\n{OBJECT}", NOT_JSON),
    "a byte order mark": (f"\ufeff{OBJECT}", NOT_JSON),
    "nothing": ("", NOT_JSON),
    "white space alone": (" \n\t", NOT_JSON),
    "a comment in it": ('{"score": 0.5, /* good */ "check": "owl"}', NOT_JSON),
    "single quotes": ("{'score': 0.5, 'check': 'owl'}", NOT_JSON),
    "a trailing comma": ('{"score": 0.5, "check": "owl",}', NOT_JSON),
    "half an object": ('{"score": 0.5, "check": "ow', NOT_JSON),
    "a field twice": ('{"score": 1.0, "score": 0.5, "check": "owl"}', NOT_JSON),
    "the check word twice": ('{"score": 0.5, "check": "cat", "check": "owl"}', NOT_JSON),
    "NaN": ('{"score": NaN, "check": "owl"}', NOT_JSON),
    "infinity": ('{"score": -Infinity, "check": "owl"}', NOT_JSON),
    "a number beyond all floats": ('{"score": 1e999, "check": "owl"}', NOT_JSON),
    "a number of 5,000 digits": (f'{{"score": {"9" * 5_000}, "check": "owl"}}', NOT_JSON),
    "a number of 400 digits": (f'{{"score": {"9" * 400}, "check": "owl"}}', NOT_JSON),
    "depth without end": ("[" * 90_000, NOT_JSON),
    "depth": (f'{{"score": {"[" * 40_000}1{"]" * 40_000}, "check": "owl"}}', NOT_JSON),
    "some depth": (f'{{"score": {"[" * 500}1{"]" * 500}, "check": "owl"}}', UNFIT),
    "a list": (f"[{OBJECT}]", UNFIT),
    "a string": ('"score: 1.0"', UNFIT),
    "a number": ("1.0", UNFIT),
    "null": ("null", UNFIT),
    "an object in a string": (json.dumps(OBJECT), UNFIT),
    "no check word": ('{"score": 0.5}', NO_CHECK),
    "another check word": ('{"score": 0.5, "check": "OWL"}', NO_CHECK),
    "a check word and more": ('{"score": 0.5, "check": "owl, that is"}', NO_CHECK),
    "a list of check words": ('{"score": 0.5, "check": ["owl"]}', NO_CHECK),
    "a check word deeper down": ('{"score": 0.5, "x": {"check": "owl"}}', NO_CHECK),
    "a score in quotes": ('{"score": "0.5", "check": "owl"}', UNFIT),
    "true as a score": ('{"score": true, "check": "owl"}', UNFIT),
    "null as a score": ('{"score": null, "check": "owl"}', UNFIT),
    "no score": ('{"check": "owl"}', UNFIT),
    "an unknown field": ('{"score": 0.5, "bonus": 1, "check": "owl"}', UNFIT),
    "a megabyte": (f'{{"score": 0.5, "check": "owl"{" " * 1_000_000}}}', TOO_LONG),
    "just not too long": ('{"score": 0.5, "check": "owl"}'.ljust(MAX_CHARACTERS), 0.5),
}


@pytest.mark.parametrize(("text", "expected"), READINGS.values(), ids=list(READINGS))
def test_an_answer_is_read_whole_or_not_at_all(text: str, expected: float | AnswerFault) -> None:
    """Only one JSON object with its check word, and of its shape, is an answer."""
    answer = parse_answer(text, Score, "owl")
    assert (answer.score if isinstance(answer, Score) else answer) == expected


@given(st.text(), st.text())
def test_nothing_may_stand_around_an_answer(before: str, after: str) -> None:
    """Whatever else a judge says before or after its object makes it unusable; reading never raises."""
    answer = parse_answer(f"{before}{OBJECT}{after}", Score, "owl")
    assert isinstance(answer, Score) == (before.strip() == "" and after.strip() == "")
    assert isinstance(parse_answer(before, Score, "owl"), AnswerFault)


def test_half_a_surrogate_pair_does_not_cost_an_answer() -> None:
    """An answer with a broken emoji is read, and what it explains can be sent on."""
    answer = parse_answer(r'{"text": "fine \ud83d", "verdict": "yes", "check": "owl"}', Claim, "owl")
    assert answer == Claim(text="fine ?", verdict="yes")


def test_a_cut_answer_that_is_whole_counts() -> None:
    """An object that ended before the limit of tokens has lost nothing; any other has."""
    assert parse_answer(OBJECT, Score, "owl", cut=True) == Score(score=0.5)
    assert parse_answer(OBJECT[:-3], Score, "owl", cut=True) == CUT


def objects(node: object) -> Iterator[dict[str, Any]]:
    """All schemas of objects within a schema."""
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield node
        for each in node.values():
            yield from objects(each)
    elif isinstance(node, list):
        for each in node:
            yield from objects(each)


def test_schemas_are_strict() -> None:
    """Every object is closed and requires all its fields, nothing is a reference, and the check word comes last."""
    shape = schema(Grade)
    found = list(objects(shape))
    assert len(found) == 3
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert shape["required"] == ["because", "title", "claims", "first", "check"]
    assert "$" not in json.dumps(shape)
    assert shape["properties"]["because"] == {"type": "string", "description": "Why, in one sentence."}
    assert shape["properties"]["claims"]["items"]["description"] == "One claim."
    assert schema(Grade) is shape


def test_what_a_schema_allows_is_read() -> None:
    """An object that the schema accepts is an answer, one that it refuses is none."""
    claim = {"text": "It is.", "verdict": "yes"}
    fits = {"because": "So.", "title": 1, "claims": [claim], "first": None, "check": "owl"}
    jsonschema.validate(fits, schema(Grade))
    assert isinstance(parse_answer(json.dumps(fits), Grade, "owl"), Grade)
    for wrong in ({"title": 2}, {"claims": [claim | {"more": 1}]}, {"claims": [{"text": ""}]}, {"first": "yes"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(fits | wrong, schema(Grade))
        assert parse_answer(json.dumps(fits | wrong), Grade, "owl") == UNFIT


FAULTY: dict[str, tuple[Completion, AnswerFault]] = {
    "prose": (Completion("Zebra! I would say 0.9."), NOT_JSON),
    "cut": (Completion('{"score": 0.', cut=True), CUT),
    "no check word": (Completion('{"score": 0.9, "check": "Zebra"}'), NO_CHECK),
    "too long": (Completion("Zebra" * 100_000), TOO_LONG),
    "wrong schema": (Completion("[]"), UNFIT),
}


@pytest.mark.parametrize(("faulty", "fault"), FAULTY.values(), ids=list(FAULTY))
def test_an_unusable_answer_is_asked_for_again_once(faulty: Completion, fault: AnswerFault) -> None:
    """The second question has new marks and says in fixed words what was wrong; then the metric is null."""
    judged, (first, second) = drive([suite(score_of)], faulty, GOOD)
    assert judged == Judged(scores={"quality": 0.25}, statuses={"tested": "judged"})
    assert isinstance(first, ChatCall)
    assert isinstance(second, ChatCall)
    assert (first.is_repair, second.is_repair) == (False, True)
    assert first.identity == second.identity != b"", "so that its answer can be kept for the question"
    assert first.read(faulty) == fault
    texts, instructions, check = unframed(first.framed.system, first.framed.user)
    texts_again, instructions_again, check_again = unframed(second.framed.system, second.framed.user)
    assert texts == texts_again
    assert check != check_again
    assert fault.advice not in instructions
    assert fault.advice in instructions_again
    assert "Zebra" not in instructions_again + second.framed.system

    judged, asked = drive([suite(score_of)], faulty, faulty)
    assert len(asked) == 2
    assert judged == Judged(scores={"quality": None}, reasons={"quality": fault.reason}, statuses={"tested": "failed"})


def test_the_last_answer_gives_the_reason() -> None:
    """When both answers are unusable in different ways, the second one's fault is the reason."""
    judged, _ = drive([suite(score_of)], "prose", "[]")
    assert judged.reasons == {"quality": UNFIT.reason}


def test_an_old_check_word_does_not_count() -> None:
    """The answer to a repair has to carry the new check word."""
    driven = judge(CASE, [suite(score_of)], words())
    first = next(driven)
    assert isinstance(first, ChatCall)
    driven.send(Completion("prose"))
    with pytest.raises(StopIteration) as end:
        driven.send(said(first, GOOD))
    assert end.value.value.reasons == {"quality": NO_CHECK.reason}


@pytest.mark.parametrize("before", [[], ["prose"]], ids=["at first", "at the repair"])
def test_no_completion_is_no_answer(before: list[str]) -> None:
    """A Null instead of a completion goes to the suite as it is, and nothing is asked again."""
    judged, asked = drive([suite(score_of)], *before, OUT)
    assert len(asked) == len(before) + 1
    assert judged.reasons == {"quality": OUT.reason}
    assert judged.statuses == {"tested": "failed"}


def test_what_the_event_lacks_is_not_asked_about() -> None:
    """A suite whose fields are missing is null without a question, and has not failed."""
    needy = suite(score_of, metric("quality"), metric("kind", "category", labels=("good",)), needs=("expected",))
    judged, asked = drive([needy])
    assert asked == []
    assert judged == Judged(
        scores={"quality": None},
        categories={"kind": None},
        reasons=dict.fromkeys(("quality", "kind"), "the event has no expected"),
        undefined=["quality", "kind"],
        statuses={"tested": "judged"},
    )
    drive([needy], GOOD, case=Case("", "", expected=()))


def test_vectors_pass_through() -> None:
    """What an Embed asks for comes back to the suite as it is, vectors or Null."""

    def converse(case: Case) -> Conversation:
        vectors = yield Embed((case.query, case.response))
        return SuiteResult({"quality": vectors if isinstance(vectors, Null) else float(vectors[0][1])})  # type: ignore[index]

    judged, asked = drive([suite(converse)], [np.array([0, 0.5], np.float32)])
    assert asked == [Embed(("Who wrote it?", "Ada did."))]
    assert judged.scores == {"quality": 0.5}
    judged, _ = drive([suite(converse)], OUT)
    assert judged.reasons == {"quality": OUT.reason}
    assert judged.statuses == {"tested": "judged"}


class Secret(Exception):
    pass


def raises_at_once(case: Case) -> Conversation:
    raise Secret(case.response)


def raises_at_first(case: Case) -> Conversation:
    yield from ()
    raise Secret(case.response)


def raises_later(case: Case) -> Conversation:
    yield ask()
    raise Secret(case.response)


def raises_stop_iteration(case: Case) -> Conversation:
    yield ask()
    next(iter(case.contexts[1:]))  # type: ignore[index]


RAISING: dict[Callable[[Case], Conversation], tuple[int, str]] = {
    raises_at_once: (0, "Secret"),
    raises_at_first: (0, "Secret"),
    raises_later: (1, "Secret"),
    raises_stop_iteration: (1, "RuntimeError"),
}


@pytest.mark.parametrize("converse", RAISING, ids=lambda converse: converse.__name__)
def test_a_suite_that_raises_costs_only_itself(converse: Callable[[Case], Conversation]) -> None:
    """Its metrics are null with the class of the error alone, it is flagged and failed, and the next suite goes on."""
    asks, error = RAISING[converse]
    judged, _ = drive([suite(converse, metric("a"), metric("b")), suite(score_of, name="next")], *[GOOD] * (asks + 1))
    assert judged == Judged(
        scores={"a": None, "b": None, "quality": 0.25},
        reasons=dict.fromkeys("ab", f"the suite raised {error}"),
        flags=["tested:raised"],
        statuses={"tested": "failed", "next": "judged"},
    )


KIND = metric("kind", "category", labels=("good", "bad"))
NO_NUMBER = Null("the result is not a finite number", "unanswered")
NO_LABEL = Null("the result is not one of the metric's labels", "unanswered")
BEYOND = Null("the result is out of bounds", "unanswered")
VALUES: list[tuple[Metric, object, float | str | Null]] = [
    (metric("m"), 0.1234565, 0.123456),
    (metric("m"), 1, 1.0),
    (metric("m", "boolean"), True, 1.0),
    (metric("m"), 1.0000001, 1.0),
    (metric("m", "percent"), 93.73, 93.73),
    (metric("m"), float("nan"), NO_NUMBER),
    (metric("m"), float("inf"), NO_NUMBER),
    (metric("m"), "0.5", NO_NUMBER),
    (metric("m"), None, NO_NUMBER),
    (metric("m"), 1.1, BEYOND),
    (metric("m"), -0.1, BEYOND),
    (metric("m"), Null("so"), Null("so")),
    (KIND, "good", "good"),
    (KIND, "ugly", NO_LABEL),
    (KIND, "", NO_LABEL),
    (KIND, 1.0, NO_LABEL),
    (KIND, None, NO_LABEL),
    (KIND, Null("so"), Null("so")),
]


@pytest.mark.parametrize("flag", [None, "by-guess"])
@pytest.mark.parametrize(("metric", "found", "expected"), VALUES)
def test_only_finite_numbers_and_labels_are_values(
    metric: Metric, found: Any, expected: float | str | Null, flag: str | None
) -> None:
    """Anything else that a suite finds is null with a reason; flags name the metric."""
    given = found if flag is None else Flagged(found, flag)
    judged, _ = drive([suite(finding(**{metric.name: given}), metric)])
    results: dict[str, Any] = {"scores": {}, "categories": {}}
    value = None if isinstance(expected, Null) else expected
    results["categories" if metric is KIND else "scores"][metric.name] = value
    assert judged == Judged(
        **results,
        reasons={metric.name: expected.reason} if isinstance(expected, Null) else {},
        undefined=[metric.name] if isinstance(expected, Null) and expected.kind == "undefined" else [],
        flags=[] if flag is None else [f"{metric.name}:{flag}"],
        statuses={"tested": "judged"},
    )


def test_what_a_suite_leaves_out_is_null() -> None:
    """Every metric of a suite has a result, and nothing else that it says is taken over."""
    judged, _ = drive([suite(finding(a=0.5, other=0.7), metric("a"), metric("b"))])
    assert judged.scores == {"a": 0.5, "b": None}
    assert judged.reasons == {"b": "the suite left it out"}


def test_explanations_are_bounded_and_printable() -> None:
    """Explanations are cut, and hold nothing that breaks lines, turns the writing or cannot be encoded."""
    long, odd = "x" * 600, "a\nb\x00c\u202ed\ud800e\u2028f\x85g\x9bh ü\U0001f600"

    def converse(_: Case) -> Conversation:
        yield from ()
        return SuiteResult(dict.fromkeys("abc", 1.0), {"a": long, "b": odd, "c": "", "unknown": "x"})

    judged, _ = drive([suite(converse, *map(metric, "abc"))])
    assert judged.explanations == {"a": "x" * EXPLANATION_CHARACTERS, "b": "a b c d e f g h ü\U0001f600"}


def both(_: Case) -> Conversation:
    """A value that rests on the first question, and one that rests on the second."""
    one = yield ask("One?")
    two = yield ask("Two?")
    values = [reply.score if isinstance(reply, Score) else reply for reply in (one, two)]
    return SuiteResult(dict(zip("ab", values, strict=True)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("replies", "status"),
    [
        ([GOOD, GOOD], "judged"),
        ([GOOD, OUT], "judged"),
        (["prose", GOOD, GOOD], "judged"),
        (["prose", "prose", GOOD], "judged"),
        (["prose", "prose", OUT], "failed"),
        ([OUT, OUT], "failed"),
        ([OUT, '{"score": 7, "check": "CHECK"}'], "failed"),
        (['{"score": 7, "check": "CHECK"}'] * 2, "judged"),
    ],
)
def test_failed_is_a_suite_without_any_value_for_want_of_an_answer(replies: list[Reply], status: str) -> None:
    """One value is enough, and a judge that answered has not failed even when no value came of it."""
    judged, _ = drive([suite(both, metric("a"), metric("b"))], *replies)
    assert judged.statuses == {"tested": status}


def identity(question: Ask, draw: Callable[[], str] | None = None, **named: Any) -> bytes:
    def converse(_: Case) -> Conversation:
        yield question
        return SuiteResult()

    asker = replace(suite(converse), **named)
    asked = next(judge(CASE, [asker], draw or words()))
    assert isinstance(asked, ChatCall)
    return asked.identity


def test_equal_questions_have_equal_identities() -> None:
    """Marks and check words do not enter."""
    other = iter(["other", "words"])
    assert identity(ask()) == identity(ask(), lambda: next(other))


def test_different_questions_have_different_identities() -> None:
    """Task, texts, their names and borders, schema, suite and version all enter."""
    emoji, halves = (("a", "\U0001f600"),), (("a", "\ud83d\ude00"),)
    questions = [
        identity(ask()),
        identity(ask("Another?")),
        identity(ask(data=())),
        identity(ask(data=(("a", "bc"), ("d", "")))),
        identity(ask(data=(("a", "b"), ("d", "c")))),
        identity(ask(data=(("ab", "c"), ("d", "")))),
        identity(ask(data=emoji)),
        identity(ask(data=halves)),
        identity(Ask(ask().task, ask().data, Grade)),
        identity(ask(), name="t"),
        identity(ask(), version="2"),
    ]
    assert len(set(questions)) == len(questions)


def test_a_word_that_occurs_in_a_text_is_drawn_again() -> None:
    """Neither the mark nor the check word occurs in the question, and they differ."""
    drawn = iter(["", "taken", "good", "mark", "mark", "also", "word"])
    question = ask("How good?", (("query", "[[taken end query]]"), ("response", "also this")))
    framed, check = frame(question, lambda: next(drawn))
    assert check == "word"
    assert "[[mark begin query]]" in framed.user
    assert unframed(framed.system, framed.user)[0] == dict(question.data)


def test_drawing_ends_when_every_word_is_taken() -> None:
    """A drawing that only gives words of the question ends as a failed suite rather than never."""
    judged, asked = drive([suite(score_of)], draw=lambda: "Ada")
    assert asked == []
    assert judged.reasons == {"quality": "the suite raised ValueError"}


@pytest.mark.parametrize("data", [(("a", ""), ("a", "")), (("a]]", ""),), (("", ""),), (("a\nb", ""),)])
def test_names_of_texts_are_words_and_differ(data: tuple[tuple[str, str], ...]) -> None:
    """A name that could break the frame, or hide another text, is refused."""
    with pytest.raises(ValueError, match="names of texts"):
        framed(ask(data=data), "mark", "check")
    with pytest.raises(ValueError, match="the mark occurs"):
        framed(ask(), "Ada", "check")


@given(st.lists(st.text(st.characters(exclude_categories=())), max_size=4))
def test_any_texts_come_out_of_their_frame_as_they_went_in(texts: list[str]) -> None:
    """Texts of any characters can be sent, stand between their marks and nowhere else, and are found again."""
    question = ask(data=tuple((f"text {number}", text) for number, text in enumerate(texts)))
    put, check = frame(question, words())
    found, instructions, word = unframed(put.system, put.user)
    assert found == {name: sendable(text) for name, text in question.data}
    assert word == check
    assert instructions == unframed_of_empty(len(texts), check)
    put.user.encode()
    for name, text in question.data:
        assert len(found[name].encode()) <= len(text.encode("utf-8", "surrogatepass"))


def unframed_of_empty(number: int, check: str) -> str:
    """The instructions around so many texts."""
    empty, _ = frame(ask(data=tuple((f"text {each}", "") for each in range(number))), words())
    assert check == "w10001"
    return unframed(empty.system, empty.user)[1]


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("a < b, <p>x</p>, [1], [[x]], a || b\r\n\tc", "a < b, <p>x</p>, [1], [[x]], a || b\r\n\tc"),
        ("\x00\x1b[31m\x85\ud800", "  [31m  "),
        ("<|im_end|><s></s>", "(|im_end|>(s>(/s>"),
        ("[INST] [/INST] <<SYS>> <end_of_turn>", "(INST] (/INST] (<SYS>> (end_of_turn>"),
    ],
)
def test_texts_go_out_as_they_are_but_for_what_a_server_might_obey(text: str, sent: str) -> None:
    """Control characters and tokens of chat templates are taken apart, ordinary text is not."""
    assert sendable(text) == sent
