"""The judged suites by scripted answers: the documents' figures, their edges, and laws that all suites keep."""

import json
from collections.abc import Callable
from fractions import Fraction
from hashlib import blake2b
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError, create_model

from ragweir.metrics.judged import classification, factual, ragas, recall, rubric
from ragweir.metrics.judged.answer_parsing import schema
from ragweir.metrics.judged.asking import MOST_STATEMENTS, SAID_CHARACTERS, Verdicts, verdicts
from ragweir.metrics.judged.descriptions import field_docstrings
from ragweir.metrics.judged.suite import Answer, Ask, Case, Conversation, Embed, Suite, SuiteResult
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Flagged, Null

SUITES = suites()
FAILED = Null("the call failed")

NAV = Case(
    query="What is the NAV of HDFC Top 100 Fund?",
    response="The NAV is ₹842.50 as of Dec 9, 2025.",
    contexts=('{"nav": 842.50, "date": "2025-12-09", "fund_name": "HDFC Top 100"}',),
)
HEATH = Case(
    query="Which plant known as Erica vagans has another common name, and which?",
    response="Cornish heath",
    contexts=("THE END. LONDON: R. CLAY, SONS, AND TAYLOR", "the _erica vagans_--the lovely Cornish heath"),
    expected=("Cornish heath",),
)


def without(case: Case, *names: str) -> Case:
    """The case of an event that lacks some fields."""
    fields = {name: getattr(case, name) for name in ("query", "response", "contexts", "expected", "scores")}
    return Case(**fields | dict.fromkeys(names))


def played(conversation: Conversation, *replies: object) -> tuple[SuiteResult, list[Ask | Embed]]:
    """Drive a conversation by replies, all of which it must take. A table is an answer as it travels, in JSON."""
    said: list[Ask | Embed] = []
    reply: Any = None
    left = list(replies)
    while True:
        try:
            wanted = conversation.send(reply)
        except StopIteration as end:
            assert not left, "more was scripted than was asked"
            return end.value, said
        said.append(wanted)
        reply = left.pop(0)
        if isinstance(wanted, Ask) and isinstance(reply, dict):
            reply = wanted.answer.model_validate_json(json.dumps(reply))


def ruled(*rulings: bool) -> dict[str, Any]:
    """Verdicts as a judge gives them."""
    said = enumerate(rulings, 1)
    return {
        "verdicts": [{"number": number, "reason": f"reason {number}", "verdict": ruling} for number, ruling in said]
    }


def graded(**scores: float) -> dict[str, Any]:
    """Scores, each with a reason before it."""
    said: dict[str, Any] = {}
    for name, score in scores.items():
        said |= {f"{name}_reason": f"{name}, as", name: score}
    return said


FULL = {"relevance": 0.9, "faithfulness": 1, "hallucination": 0, "contextual_relevance": 0.8}


# rubric


def test_rubric_grades_four_criteria_in_one_question_and_weighs_correctness() -> None:
    """The LLM rubric: relevance 0.90 and faithfulness 1.00 come to 0.93. An integer is as good as a float."""
    findings, said = played(rubric.converse(NAV), graded(**FULL))
    assert findings.values == {
        "judge_relevance": 0.9,
        "judge_faithfulness": 1.0,
        "judge_hallucination": 0.0,
        "judge_contextual_relevance": 0.8,
        "answer_correctness": 0.93,
    }
    assert findings.explanations["judge_contextual_relevance"] == "contextual_relevance, as"
    assert set(findings.explanations) == set(findings.values) - {"answer_correctness"}
    assert isinstance(said[0], Ask)
    assert said[0].data == (("query", NAV.query), ("response", NAV.response), ("context 1", (NAV.contexts or ("",))[0]))


@pytest.mark.parametrize(("said", "kept"), [(1.05, 1.0), (-0.05, 0.0), (1.1, 1.0), (0.85, 0.85), (-0.0, 0.0)])
def test_a_score_slightly_out_of_range_is_clamped(said: float, kept: float) -> None:
    """As in the LLM rubric."""
    findings, _ = played(rubric.converse(NAV), graded(**FULL | {"relevance": said}))
    assert str(findings.values["judge_relevance"]) == str(kept)


@pytest.mark.parametrize("said", [85, 1.11, -0.11, True, "0.9", None, [0.9], 1e999])
def test_what_is_no_score_of_the_scale_is_no_answer(said: object) -> None:
    """85 of 100 must not pass for 1, nor true, nor text."""
    with pytest.raises(ValidationError):
        rubric.Relevance.model_validate_json(json.dumps({"relevance_reason": "good", "relevance": said}))


def test_rubric_without_contexts_asks_for_relevance_alone() -> None:
    """What an event does not say is null, and the judge is not asked about it."""
    findings, said = played(rubric.converse(without(NAV, "contexts")), graded(relevance=0.7))
    assert findings.values.pop("judge_relevance") == 0.7
    assert set(findings.values.values()) == {Null("the event has no contexts")}
    assert isinstance(said[0], Ask)
    assert "faithfulness" not in said[0].task
    assert list(said[0].answer.model_fields) == ["relevance_reason", "relevance"]


def test_rubric_with_no_context_found_grades_the_answer_as_resting_on_nothing() -> None:
    """Empty contexts are of no relevance, without asking; the judge is told that retrieval found none."""
    case = Case(NAV.query, NAV.response, ())
    findings, said = played(rubric.converse(case), graded(relevance=1, faithfulness=0, hallucination=1))
    assert findings.values == {
        "judge_relevance": 1.0,
        "judge_faithfulness": 0.0,
        "judge_hallucination": 1.0,
        "judge_contextual_relevance": 0.0,
        "answer_correctness": 0.7,
    }
    assert isinstance(said[0], Ask)
    assert "found no context" in said[0].task
    assert "contextual_relevance" not in said[0].task


# context_recall


def test_context_recall_shows_the_first_ten_contexts() -> None:
    """The retrieval, extraction and aggregation framework limits the prompt to ten chunks."""
    case = Case("Which roof?", "Tile.", tuple(f"text {n}" for n in range(12)))
    findings, said = played(recall.converse(case), {"reason": "all is there", "recall": 0.9})
    assert findings == SuiteResult({"context_recall_llm": 0.9}, {"context_recall_llm": "all is there"})
    assert isinstance(said[0], Ask)
    assert [name for name, _ in said[0].data] == ["query", "response", *(f"context {n}" for n in range(1, 11))]


def test_context_recall_of_nothing_is_0_and_of_the_unknown_null() -> None:
    """Neither asks anybody."""
    assert played(recall.converse(Case("?", "!", ())))[0].values == {"context_recall_llm": 0.0}
    values = played(recall.converse(Case("?", "!")))[0].values
    assert values == {"context_recall_llm": Null("the event has no contexts")}


# ragas

NO_CLAIMS: dict[str, Any] = {"claims": []}
NO_STATEMENTS: dict[str, Any] = {"statements": []}
NO_QUESTIONS: dict[str, Any] = {"questions": []}
CLAIM = {"claims": ["Cornish heath is Erica vagans."]}
STATEMENT = {"statements": [{"expected": 1, "statement": "Cornish heath is the common name of Erica vagans."}]}
THREE = {"questions": ["Which heath grows in Cornwall?", "What is Erica vagans called?", "Which plant is it?"]}


def directly(score: float) -> dict[str, Any]:
    return {"reason": "it names it", "score": score}


def at_cosines(*cosines: float) -> list[np.ndarray[Any, Any]]:
    """A query's vector and others at these cosines to it, of other lengths."""
    rows = [(2, 0), *((3 * cosine, 3 * (1 - cosine**2) ** 0.5) for cosine in cosines)]
    return [np.array(row, dtype=np.float32) for row in rows]


def rounded(findings: SuiteResult) -> dict[str, float | str | None]:
    """The values as the GraphRAG metrics guide prints them."""
    bare = {name: value.value if isinstance(value, Flagged) else value for name, value in findings.values.items()}
    return {
        name.removeprefix("ragas_"): round(value, 2) if isinstance(value, float) else None
        for name, value in bare.items()
    }


def test_ragas_local_search() -> None:
    """The GraphRAG metrics guide: 100, no precision, 100 and 83.27 come to 93.73. The call for precision has failed."""
    findings, said = played(
        ragas.converse(HEATH), CLAIM, ruled(True), FAILED, STATEMENT, ruled(True), THREE, at_cosines(0.9, 0.8, 0.7981)
    )
    assert rounded(findings) == {
        "faithfulness": 100,
        "context_precision": None,
        "context_precision_at_k": None,
        "context_recall": 100,
        "answer_relevance": 83.27,
        "score": 93.73,
    }
    assert findings.values["ragas_context_precision"] == FAILED
    assert said[-1] == Embed((HEATH.query, *THREE["questions"]))


def test_ragas_basic_search() -> None:
    """The GraphRAG metrics guide: 0, 0, 0 and 83.27 come to 24.98."""
    findings, _ = played(
        ragas.converse(HEATH),
        *(CLAIM, ruled(False), ruled(False, False), STATEMENT, ruled(False), THREE),
        at_cosines(0.8327, 0.8327, 0.8327),
    )
    assert rounded(findings) == {
        "faithfulness": 0,
        "context_precision": 0,
        "context_precision_at_k": 0,
        "context_recall": 0,
        "answer_relevance": 83.27,
        "score": 24.98,
    }


def test_ragas_of_a_model_alone() -> None:
    """The GraphRAG metrics guide: without contexts all is null but relevance, 82.29, which the score then equals."""
    case = without(HEATH, "contexts")
    findings, _ = played(ragas.converse(case), THREE, at_cosines(0.8229, 0.8229, 0.8229))
    assert rounded(findings) == {
        "faithfulness": None,
        "context_precision": None,
        "context_precision_at_k": None,
        "context_recall": None,
        "answer_relevance": 82.29,
        "score": 82.29,
    }
    nulls = {name: value for name, value in findings.values.items() if isinstance(value, Null)}
    assert set(nulls.values()) == {Null("the event has no contexts")}


def test_ragas_tells_which_claims_and_contexts_failed() -> None:
    """What does not hold comes first, as explanations are cut; ranks weigh in precision at k."""
    case = Case("Which plant?", "Heath. It is blue.", ("The end.", "Cornish heath.", "It is pink."))
    claims = {"claims": ["It is heath.", "It is\nblue.", " "]}
    findings, said = played(
        ragas.converse(case), claims, ruled(True, False), ruled(False, True, True), THREE, at_cosines(1, 1, 1)
    )
    assert rounded(findings) == {
        "faithfulness": 50,
        "context_precision": 66.67,
        "context_precision_at_k": 58.33,
        "context_recall": None,
        "answer_relevance": 100,
        "score": round((15 + 0.2 * 200 / 3 + 30) / 0.8, 2),
    }
    told = findings.explanations
    assert told["ragas_faithfulness"] == ("It is\nblue. (not supported: reason 2); It is heath. (supported: reason 1)")
    assert told["ragas_context_precision"].startswith("context 1 (not relevant: reason 1); context 2 (relevant:")
    assert isinstance(said[1], Ask)
    assert said[1].data[0] == ("claims", "1. It is heath.\n2. It is blue.")


def test_an_answer_without_claims_is_faithful() -> None:
    """100, and no verdicts are asked for; a blank answer is not even taken apart."""
    case = without(HEATH, "expected")
    findings, _ = played(ragas.converse(case), NO_CLAIMS, ruled(True, True), THREE, at_cosines(1, 1, 1))
    assert findings.values["ragas_faithfulness"] == 100
    blank = Case(HEATH.query, " \n", HEATH.contexts)
    findings, _ = played(ragas.converse(blank), ruled(True, True), NO_QUESTIONS, directly(0))
    assert findings.values["ragas_faithfulness"] == 100
    assert findings.values["ragas_answer_relevance"] == Flagged(0.0, "direct_assessment")


def test_empty_contexts_are_precise_in_nothing_and_recall_nothing() -> None:
    """0 each, without verdicts; but an expected answer without statements leaves nothing to recall: 100."""
    case = Case(HEATH.query, HEATH.response, (), HEATH.expected)
    findings, _ = played(ragas.converse(case), CLAIM, STATEMENT, THREE, at_cosines(1, 1, 1))
    assert rounded(findings) == {
        "faithfulness": 0,
        "context_precision": 0,
        "context_precision_at_k": 0,
        "context_recall": 0,
        "answer_relevance": 100,
        "score": 30,
    }
    findings, _ = played(ragas.converse(case), NO_CLAIMS, NO_STATEMENTS, THREE, at_cosines(1, 1, 1))
    assert findings.values["ragas_context_recall"] == 100
    assert findings.values["ragas_faithfulness"] == 100


def test_of_several_expected_answers_the_one_best_recalled_counts() -> None:
    """Any of them is right, so that statements of another one that are missing cost nothing."""
    case = Case(HEATH.query, HEATH.response, HEATH.contexts, ("Cornish heath", "Erica vagans, a heather of the Lizard"))
    stated = [(1, "It is heath."), (1, "It is Cornish."), (2, "It is a heather."), (2, "It grows on the Lizard.")]
    statements = {"statements": [{"expected": number, "statement": text} for number, text in stated]}
    findings, said = played(
        ragas.converse(case),
        *(CLAIM, ruled(True), ruled(True, True), statements, ruled(True, True, True, False), THREE),
        at_cosines(1, 1, 1),
    )
    assert findings.values["ragas_context_recall"] == 100
    assert isinstance(said[3], Ask)
    assert [name for name, _ in said[3].data] == ["query", "expected 1", "expected 2"]


@pytest.mark.parametrize("replies", [(NO_QUESTIONS,), ({"questions": ["", " "]},), (THREE, Null("no embeddings"))])
def test_relevance_is_assessed_directly_for_want_of_questions_or_embeddings(replies: tuple[object, ...]) -> None:
    """The judge's own score x 100, flagged."""
    case = without(HEATH, "contexts")
    findings, said = played(ragas.converse(case), *replies, directly(0.75))
    assert findings.values["ragas_answer_relevance"] == Flagged(75.0, "direct_assessment")
    assert findings.values["ragas_score"] == 75
    assert findings.explanations == {"ragas_answer_relevance": "it names it"}
    assert isinstance(said[-1], Ask)
    assert said[-1].task == ragas.DIRECTLY


def test_opposite_questions_are_of_no_relevance() -> None:
    """A cosine below 0 leaves the mean at no less than 0; a vector of zeros has none."""
    case = without(HEATH, "contexts")
    findings, _ = played(ragas.converse(case), THREE, at_cosines(-1, -1, 0.5))
    assert findings.values["ragas_answer_relevance"] == 0
    nothing = [np.zeros(2, dtype=np.float32), *at_cosines(1, 1)]
    assert played(ragas.converse(case), THREE, nothing)[0].values["ragas_answer_relevance"] == 0


@pytest.mark.parametrize("broken", range(7))
def test_a_call_that_fails_costs_only_what_rests_on_it(broken: int) -> None:
    """Whichever of ragas' questions finds no answer, the other metrics keep their values."""
    script: list[object] = [CLAIM, ruled(True), ruled(True, True), STATEMENT, ruled(True), THREE, Null("no embeddings")]
    script.append(directly(1))
    cost = [
        (0, 2, {"ragas_faithfulness"}),
        (1, 2, {"ragas_faithfulness"}),
        (2, 3, {"ragas_context_precision", "ragas_context_precision_at_k"}),
        (3, 5, {"ragas_context_recall"}),
        (4, 5, {"ragas_context_recall"}),
        (5, 8, {"ragas_answer_relevance"}),
        (7, 8, {"ragas_answer_relevance"}),
    ]
    place, after, lost = cost[broken]
    findings, said = played(ragas.converse(HEATH), *script[:place], FAILED, *script[after:])
    assert {name for name, value in findings.values.items() if value == FAILED} == lost
    assert findings.values["ragas_score"] == 100
    assert sum(isinstance(each, Ask) for each in said) <= SUITES["ragas"].asks


@given(
    st.lists(st.floats(0, 100) | st.none(), min_size=4, max_size=4),
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=4, max_size=4),
)
def test_the_score_lies_between_its_parts(parts: list[float | None], weights: list[float]) -> None:
    """Renormalised over what is defined, whatever the weights; null when none of it has any."""
    score = ragas.ragas_score([FAILED if part is None else part for part in parts], weights)
    defined = [part for part, weight in zip(parts, weights, strict=True) if part is not None and weight]
    if defined:
        assert isinstance(score, float)
        assert min(defined) - 1e-9 <= score <= min(100.0, max(defined) + 1e-9)
    else:
        assert score == Null("no part of the score has a value")


def test_weights_are_those_of_the_settings() -> None:
    """The table of suites takes them."""
    suite = suites((1, 0, 0, 3))["ragas"]
    values = played(suite.converse(without(HEATH, "expected")), CLAIM, ruled(True), FAILED, NO_QUESTIONS, directly(0.5))
    assert values[0].values["ragas_score"] == 62.5


# factual


GRADES = [(100, "A"), (80, "A"), (79.9999, "B"), (60, "B"), (59.9999, "C"), (40, "C"), (39.9999, "D"), (20, "D")]


@pytest.mark.parametrize(("score", "grade"), [*GRADES, (19.9999, "E"), (0, "E")])
def test_grades_begin_at_their_edge(score: float, grade: str) -> None:
    """The GraphRAG metrics guide: A from 80, B from 60, C from 40, D from 20, E below."""
    steps = graded(correctness=score, completeness=score, consistency=score)
    findings, _ = played(factual.converse(HEATH), steps)
    assert findings.values == {"factual_accuracy_percentage": score, "factual_accuracy_grade": grade}


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_the_sum_of_the_steps_is_exact(correctness: int, completeness: int, consistency: int) -> None:
    """No grade hangs on how tenths are written in binary."""
    found = factual.factual_accuracy_percentage(correctness, completeness, consistency)
    assert found == float(Fraction(5 * correctness + 3 * completeness + 2 * consistency, 10))


def test_factual_says_why_and_shows_every_reference() -> None:
    """Each step's score and reason; any expected answer is right, and blank ones are none."""
    case = Case(HEATH.query, HEATH.response, None, ("Cornish heath", "", "Erica vagans"))
    findings, said = played(factual.converse(case), graded(correctness=90, completeness=100.5, consistency=80))
    assert findings.values["factual_accuracy_percentage"] == 91
    assert findings.explanations["factual_accuracy_percentage"].startswith("correctness 90: correctness, as; comple")
    assert isinstance(said[0], Ask)
    assert [name for name, _ in said[0].data] == ["query", "response", "expected 1", "expected 2"]
    assert "each of them alone is right" in said[0].task


# classification


@pytest.mark.parametrize("verdict", ["CORRECT", "WRONG"])
def test_the_judge_says_right_or_wrong(verdict: str) -> None:
    """And why."""
    findings, said = played(classification.converse(HEATH), {"reason": "another plant", "verdict": verdict})
    assert findings == SuiteResult({"answer_class": verdict}, {"answer_class": "another plant"})
    assert isinstance(said[0], Ask)
    assert said[0].data[-1] == ("expected", "Cornish heath")


def test_who_does_not_know_is_not_asked_about() -> None:
    """The free metric decides before any question; false or null, it decides nothing."""
    case = Case(HEATH.query, "I don't know.", None, HEATH.expected, {"dont_know": 1.0})
    assert played(classification.converse(case)) == (SuiteResult({"answer_class": "DON'T KNOW"}), [])
    for score in (0.0, None):
        known = Case(HEATH.query, "I don't know.", None, HEATH.expected, {"dont_know": score})
        assert played(classification.converse(known), FAILED)[0].values == {"answer_class": FAILED}


def test_a_judge_cannot_say_that_an_answer_does_not_know() -> None:
    """The third class is ours alone."""
    with pytest.raises(ValidationError):
        classification.Class.model_validate_json('{"reason": "", "verdict": "DON\'T KNOW"}')


@pytest.mark.parametrize("suite", ["factual", "classification"])
@pytest.mark.parametrize("expected", [None, (), ("", " \n")])
def test_nothing_expected_is_null_without_a_question(suite: str, expected: tuple[str, ...] | None) -> None:
    """Even for an answer that does not know: it is counted only among events that have an expected answer."""
    findings, _ = played(SUITES[suite].converse(Case("?", "Unknown.", None, expected, {"dont_know": 1.0})))
    assert set(findings.values.values()) == {Null("the event has no expected answer that says anything")}


# laws of answers


@pytest.mark.parametrize(
    "numbers", [[1], [1, 2, 3], [], [2, 1], [1, 1], [0, 1]], ids=["few", "many", "none", "order", "twice", "zero"]
)
def test_verdicts_that_do_not_fit_the_texts_are_no_answer(numbers: list[int]) -> None:
    """Exactly one for each text, in order; anything else is asked for again."""
    said = {"verdicts": [{"number": number, "reason": "", "verdict": True} for number in numbers]}
    with pytest.raises(ValidationError):
        verdicts(2).model_validate_json(json.dumps(said))


def test_long_reasons_are_cut_and_long_lists_refused() -> None:
    """A long reason is no reason to ask again, but a list without end is no answer."""
    long = recall.Recall.model_validate({"reason": "why " * 1000, "recall": 1})
    assert len(long.reason) == SAID_CHARACTERS
    with pytest.raises(ValidationError):
        ragas.Claims.model_validate({"claims": ["It is."] * (MOST_STATEMENTS + 1)})


ANSWERS: list[type[Answer]] = [
    *(rubric.Relevance, rubric.Grounding, rubric.Rubric, recall.Recall),
    *(ragas.Claims, ragas.Statements, ragas.Questions, ragas.Direct, factual.ComparisonSteps, classification.Class),
    *(verdicts(1), verdicts(MOST_STATEMENTS)),
]
STRICT = {"type", "description", "properties", "required", "additionalProperties", "items", "enum"} | {
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
}
"""The keywords that OpenAI's strict structured outputs take, of which there are more."""
MOST = {"maxLength"}
"""The keyword that some endpoints refuse; it is left out for them."""


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_schemas_are_strict_bounded_and_ask_for_reasons_first(answer: type[Answer]) -> None:
    """Every number, string, list and class has its bounds; every score or verdict comes after its reason."""

    def check(node: dict[str, Any]) -> None:
        assert node.keys() <= STRICT | MOST
        if node["type"] == "object":
            assert node["additionalProperties"] is False
            assert node["required"] == list(node["properties"])
            before: list[str] = []
            for name, field in node["properties"].items():
                if field["type"] in ("number", "boolean") or "enum" in field:
                    assert before[-1].endswith("reason"), name
                before.append(name)
                check(field)
        elif node["type"] == "array":
            assert node["maxItems"] <= MOST_STATEMENTS
            check(node["items"])
        elif node["type"] == "string" and "enum" not in node:
            assert node["maxLength"] <= SAID_CHARACTERS
        elif node["type"] == "number":
            assert (node["minimum"], node["maximum"]) in {(0, 1), (0, 100)}

    check(schema(answer))


def _digest(*parts: object) -> str:
    return blake2b(json.dumps(parts).encode(), digest_size=4).hexdigest()


def _wording(suite: str) -> list[object]:
    tasks: dict[str, list[tuple[str, type[Answer]]]] = {
        "rubric": [(rubric.task(shape), shape) for shape in (rubric.Relevance, rubric.Grounding, rubric.Rubric)],
        "context_recall": [(recall.TASK, recall.Recall)],
        "ragas": [
            (ragas.CLAIMS, ragas.Claims),
            (ragas.SUPPORT, Verdicts),
            (ragas.USEFUL, Verdicts),
            (ragas.STATEMENTS, ragas.Statements),
            (ragas.ATTRIBUTION, Verdicts),
            (ragas.ASKED_FOR, ragas.Questions),
            (ragas.DIRECTLY, ragas.Direct),
        ],
        "factual": [(factual.TASK, factual.ComparisonSteps)],
        "classification": [(classification.TASK, classification.Class)],
    }
    return [(task, answer.__doc__, _fields(answer)) for task, answer in tasks[suite]]


def _fields(answer: type[Answer]) -> list[tuple[str, str | None]]:
    return [(name, field.description) for name, field in answer.model_fields.items()]


WORDINGS = {
    ("rubric", "2"): "80054204",
    ("context_recall", "2"): "01f3c69c",
    ("ragas", "2"): "d2d43a91",
    ("factual", "2"): "02464dae",
    ("classification", "2"): "4b69c1dc",
}


@pytest.mark.parametrize("name", [name for name, suite in SUITES.items() if suite.asks])
def test_another_wording_is_another_version(name: str) -> None:
    """Evaluations say by which version they were judged: whoever rewords a question raises it, here and there."""
    assert WORDINGS[name, SUITES[name].version] == _digest(*_wording(name))


# laws of suites

SECRET = "heliotrope"
TEXTS = st.sampled_from(["", " ", f"The {SECRET} is blue.", f"{SECRET}\n2. {SECRET}", "\ud800 😀"])
CASES = st.builds(
    Case,
    query=TEXTS,
    response=TEXTS,
    contexts=st.none() | st.lists(TEXTS, max_size=4).map(tuple),
    expected=st.none() | st.lists(TEXTS, max_size=3).map(tuple),
    scores=st.sampled_from([{}, {"dont_know": 1.0}, {"dont_know": 0.0}, {"dont_know": None}]),
)


def _said(node: dict[str, Any], draw: Callable[[st.SearchStrategy[Any]], Any], number: int = 1) -> Any:
    """Some answer that fits a schema."""
    if "enum" in node:
        return draw(st.sampled_from(node["enum"]))
    if node["type"] == "object":
        said = {name: _said(field, draw) for name, field in node["properties"].items()}
        return said | ({"number": number} if "number" in said else {})
    if node["type"] == "array":
        least, most = node.get("minItems", 0), node["maxItems"]
        count = draw(st.integers(least, min(most, max(least, 4))))
        return [_said(node["items"], draw, number) for number in range(1, count + 1)]
    return draw(
        {
            "string": st.sampled_from(["", " ", "said so", "\u202e\n"]),
            "boolean": st.booleans(),
            "integer": st.integers(-1, 3),
            "number": st.floats(node.get("minimum"), node.get("maximum")),
        }[node["type"]]
    )


def _vectors(embed: Embed, draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[np.ndarray[Any, Any]]:
    numbers = st.lists(st.floats(-1, 1, width=32), min_size=2, max_size=2)
    rows = st.lists(numbers, min_size=1, max_size=3) if embed.tokens else numbers
    return [np.array(draw(rows), dtype=np.float32) for _ in embed.texts]


@pytest.mark.heavy
@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
@settings(max_examples=150)
@given(CASES, st.data())
def test_whatever_is_answered_every_metric_has_a_value_in_bounds_or_a_reason(
    suite: Suite, case: Case, data: st.DataObject
) -> None:
    """No answer that fits makes a suite raise, ask more than it says, or put texts of the event into instructions."""
    conversation = suite.converse(case)
    reply: Any = None
    asks = 0
    findings: SuiteResult | None = None
    while findings is None:
        try:
            wanted = conversation.send(reply)
        except StopIteration as end:
            findings = end.value
            continue
        if data.draw(st.booleans(), "fails") and data.draw(st.booleans(), "fails again"):
            reply = FAILED
        elif isinstance(wanted, Embed):
            reply = _vectors(wanted, data.draw)
        else:
            reply = wanted.answer.model_validate_json(json.dumps(_said(_plain(wanted.answer), data.draw)))
        if isinstance(wanted, Ask):
            asks += 1
            assert SECRET not in wanted.task
            assert len(dict(wanted.data)) == len(wanted.data), "two texts have one name"
    assert asks <= suite.asks
    assert set(findings.values) == {metric.name for metric in suite.metrics}
    assert findings.explanations.keys() <= findings.values.keys()
    for metric in suite.metrics:
        value = findings.values[metric.name]
        value = value.value if isinstance(value, Flagged) else value
        if isinstance(value, Null):
            assert value.reason
        elif metric.unit == "category":
            assert value in metric.labels
        else:
            low, high = metric.bounds
            assert isinstance(value, float)
            assert low is not None
            assert high is not None
            assert low <= value <= high


def _plain(answer: type[Answer]) -> dict[str, Any]:
    """The schema without the check word, which is the driver's."""
    whole = schema(answer)
    return whole | {"properties": {name: each for name, each in whole["properties"].items() if name != "check"}}


class Plain(Answer):
    """A base."""

    score: float
    """Says how good it is."""
    reason: str
    """Says why."""


class Redeclared(Plain):
    """An answer that declares a field again."""

    score: Annotated[float, Field(description="Given by hand.")]
    """Not this one."""
    reason: str
    rest: list[Plain]
    """Parts."""


def test_descriptions_are_the_docstrings_of_the_fields() -> None:
    """Also of inherited fields and parts; a description that is given counts, and one declared again has its own."""
    fields = schema(Redeclared)["properties"]
    assert {name: fields[name].get("description") for name in ("score", "reason", "rest")} == {
        "score": "Given by hand.",
        "reason": None,
        "rest": "Parts.",
    }
    assert fields["rest"]["items"]["properties"]["reason"]["description"] == "Says why."
    assert field_docstrings(Redeclared) == {"score": "Not this one.", "rest": "Parts."}


def test_a_model_without_source_has_no_descriptions() -> None:
    """Such as one of a notebook's cell that is gone."""
    made = create_model("Made", __base__=Plain, more=(int, ...))
    assert schema(made)["properties"]["more"] == {"type": "integer"}
    assert schema(made)["properties"]["reason"]["description"] == "Says why."
