"""The simulated judge: a real client sees what it asked for, scores behave, and every fault is what it says."""

import asyncio
import base64
import http.client
import itertools
import json
import math
import signal
import socket
import urllib.error
import urllib.request
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import openai
import pytest
from commands import begun, ragweir, told
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from services import eventually

from ragweir.metrics.judged import answer_parsing
from ragweir.metrics.judged.driver import ChatCall, Completion, Judged
from ragweir.metrics.judged.driver import judge as conversation
from ragweir.metrics.judged.framing import frame
from ragweir.metrics.judged.rubric import Rubric
from ragweir.metrics.judged.suite import Ask, Case, Embed
from ragweir.metrics.judged.suites import suites
from ragweir.streams.playground.serving import Request
from ragweir.streams.playground.simulated.endpoint import Endpoint, JudgeOptions
from ragweir.streams.playground.simulated.faults import FAULTS, OF_COMPLETIONS, Draws, Faults, WrongFaults
from ragweir.streams.playground.simulated.filling import filled
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.services.judge.probe import SIMULATED

CONTEXTS = (
    "Ada Lovelace wrote notes on the Analytical Engine in 1843.",
    "The engine was designed by Charles Babbage.",
    "Rain fell on the harbour of Trondheim all week.",
)
QUERY = "Who wrote notes on the Analytical Engine?"
EXPECTED = ("Ada Lovelace wrote the notes on the Analytical Engine.", "Lovelace, in 1843.")
GROUNDED = Case(QUERY, "Ada Lovelace wrote notes on the Analytical Engine in 1843.", CONTEXTS, EXPECTED)
MADE_UP = Case(QUERY, "Nobody remembers, but pirates sold forty purple bicycles.", CONTEXTS, EXPECTED)
JUDGED = [suite for suite in suites().values() if suite.asks]
MODES = ("json_schema", "json_object", "text")
PROMPTED = "\n\nThe JSON schema of the answer:\n"


@pytest.fixture(scope="module")
def judge() -> Iterator[SimulatedJudge]:
    with simulated_judge() as running:
        yield running


@pytest.fixture(autouse=True)
def _well(judge: SimulatedJudge) -> None:
    judge.set_faults()


_CLIENTS: list[openai.OpenAI] = []


@pytest.fixture(autouse=True)
def _clients_are_closed() -> Iterator[None]:
    yield
    while _CLIENTS:
        _CLIENTS.pop().close()


def client(judge: SimulatedJudge | str, key: str = "any", timeout_s: float = 30) -> openai.OpenAI:
    """A client that never repeats a request; it is closed when the test ends."""
    url = judge if isinstance(judge, str) else judge.base_url
    _CLIENTS.append(openai.OpenAI(base_url=url, api_key=key, max_retries=0, timeout=timeout_s))
    return _CLIENTS[-1]


def drawing() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"w{next(numbers)}zq"


def chat(call: ChatCall, mode: str = "json_schema") -> dict[str, Any]:
    """A call as the body of a chat completion, its schema in the request or in the prompt."""
    by_endpoint = mode == "json_schema"
    system = call.framed.system + ("" if by_endpoint else PROMPTED + json.dumps(call.schema))
    messages = [{"role": "system", "content": system}, {"role": "user", "content": call.framed.user}]
    body: dict[str, Any] = {"model": "any", "messages": messages, "temperature": 0}
    if by_endpoint:
        named = {"name": call.name, "strict": True, "schema": call.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif mode == "json_object":
        body["response_format"] = {"type": "json_object"}
    return body


def rubric(case: Case = GROUNDED, draw: Callable[[], str] | None = None) -> ChatCall:
    contexts = tuple((f"context {number}", text) for number, text in enumerate(case.contexts or (), 1))
    ask = Ask("Grade it.", (("query", case.query), ("response", case.response), *contexts), Rubric)
    framed, check = frame(ask, draw or drawing())
    return ChatCall(framed, "rubric_Rubric", answer_parsing.schema(Rubric), b"", Rubric, check)


def asked(using: openai.OpenAI, call: ChatCall | None = None, **more: Any) -> Any:
    return using.chat.completions.create(**chat(call or rubric()), **more)


def judged(using: openai.OpenAI, case: Case, mode: str) -> tuple[Judged, list[dict[str, Any]]]:
    """What all suites find through the endpoint, and each answer, which is valid for its schema."""
    driver = conversation(case, JUDGED, drawing())
    found: list[dict[str, Any]] = []
    said: ChatCall | Embed = next(driver)
    try:
        while True:
            if isinstance(said, Embed):
                vectors = using.embeddings.create(model="any", input=list(said.texts)).data
                said = driver.send([np.asarray(each.embedding, dtype=np.float32) for each in vectors])
                continue
            assert not said.is_repair
            choice = using.chat.completions.create(**chat(said, mode)).choices[0]
            answer = json.loads(choice.message.content or "")
            Draft202012Validator(said.schema).validate(answer)
            found.append(answer)
            said = driver.send(Completion(choice.message.content or "", cut=choice.finish_reason == "length"))
    except StopIteration as end:
        return end.value, found


def texts(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text of an answer with the name of its field."""
    if isinstance(value, dict):
        for field, inner in value.items():
            yield from texts(inner, field)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, name)
    elif isinstance(value, str):
        yield name, value


# What it says


@pytest.mark.heavy
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "case",
    [
        GROUNDED,
        MADE_UP,
        Case(QUERY, "", CONTEXTS, EXPECTED),
        Case(QUERY, "Ada.", (), ("Ada",)),
        Case(QUERY, "Ada."),
        Case("谁写了笔记?", "阿达写了笔记。" * 400, ("阿达·洛芙莱斯写了笔记。",) * 12, ("阿达",)),
        Case("{", '{"properties": {"a": 1}}', ('[[x begin query]]\n{"type": "object"}',), ("}",)),
    ],
    ids=["grounded", "made up", "empty", "no contexts", "bare", "Chinese", "braces"],
)
def test_every_suite_gets_answers_that_it_can_use_in_every_mode(judge: SimulatedJudge, mode: str, case: Case) -> None:
    """No repair, no failed suite; each answer is valid, and each of its reasons says that it is simulated."""
    result, found = judged(client(judge), case, mode)
    assert not result.flags or case.response == ""
    assert set(result.statuses.values()) == {"judged"}
    assert not [reason for reason in result.reasons.values() if "judge's answer" in reason]
    reasons = [text for answer in found for name, text in texts(answer) if name.endswith("reason")]
    assert reasons
    assert all(reason.startswith("simulated: ") for reason in reasons)


def test_the_three_modes_give_the_same_scores(judge: SimulatedJudge) -> None:
    one, *others = (judged(client(judge), GROUNDED, mode)[0].scores for mode in MODES)
    assert all(scores == one for scores in others)


def test_what_is_grounded_scores_better_than_what_is_made_up(judge: SimulatedJudge) -> None:
    """Every score and category, each in its direction."""
    good, bad = (judged(client(judge), case, "json_schema")[0] for case in (GROUNDED, MADE_UP))
    better = {metric.name: metric.better for suite in JUDGED for metric in suite.metrics}
    of_contexts = {
        "judge_contextual_relevance",
        "ragas_context_precision",
        "ragas_context_precision_at_k",
        "ragas_context_recall",
    }
    for name, score in good.scores.items():
        other = bad.scores[name]
        assert score is not None
        assert other is not None
        if name in of_contexts:
            assert score == other, name
        else:
            assert (score > other) == (better[name] == "higher"), name
    assert good.scores["ragas_faithfulness"] == 100
    assert bad.scores["ragas_faithfulness"] == 0
    assert good.scores["ragas_context_precision"] == pytest.approx(100 / 3), "only the first context is of the query"
    assert good.categories == {"factual_accuracy_grade": "A", "answer_class": "CORRECT"}
    assert bad.categories == {"factual_accuracy_grade": "E", "answer_class": "WRONG"}


def test_hallucination_is_what_faithfulness_lacks(judge: SimulatedJudge) -> None:
    for case in (GROUNDED, MADE_UP, Case(QUERY, "Ada wrote forty notes.", CONTEXTS)):
        scores = judged(client(judge), case, "json_schema")[0].scores
        assert scores["judge_faithfulness"] + scores["judge_hallucination"] == pytest.approx(1)  # type: ignore[operator]


def test_the_same_question_has_the_same_answer_under_other_marks(judge: SimulatedJudge) -> None:
    """But for its check word, which no text of the event can set."""
    draw, using = drawing(), client(judge)
    first, second = (json.loads(asked(using, rubric(draw=draw)).choices[0].message.content) for _ in range(2))
    assert first.pop("check") != second.pop("check")
    assert first == second


def test_a_completion_says_that_it_is_simulated_whichever_model_was_asked_for(judge: SimulatedJudge) -> None:
    found = asked(client(judge))
    assert found.model == SIMULATED == "simulated-judge"
    assert found.choices[0].finish_reason == "stop"
    sent = sum(len(message["content"].encode()) for message in chat(rubric())["messages"])
    assert sent / 5 < found.usage.prompt_tokens < sent / 3
    answered = len(found.choices[0].message.content.encode())
    assert answered / 5 < found.usage.completion_tokens < answered / 3 + 1
    assert found.usage.total_tokens == found.usage.prompt_tokens + found.usage.completion_tokens


@pytest.mark.parametrize("option", ["max_tokens", "max_completion_tokens"])
def test_a_longer_answer_than_was_asked_for_is_cut(judge: SimulatedJudge, option: str) -> None:
    found = asked(client(judge), **{option: 10})
    assert found.choices[0].finish_reason == "length"
    assert found.usage.completion_tokens == 10
    whole = asked(client(judge), **{option: 1_000})
    assert whole.choices[0].finish_reason == "stop"
    assert whole.choices[0].message.content.startswith(found.choices[0].message.content)


def test_without_a_schema_it_says_only_that_it_is_simulated(judge: SimulatedJudge) -> None:
    using = client(judge)
    messages: Any = [{"role": "user", "content": [{"type": "text", "text": "Are you there?"}]}]
    plain = using.chat.completions.create(model="any", messages=messages)
    assert (plain.choices[0].message.content or "").startswith("simulated: ")
    bound = using.chat.completions.create(model="any", messages=messages, response_format={"type": "json_object"})
    assert json.loads(bound.choices[0].message.content or "")["reason"].startswith("simulated: ")


# Schemas that nobody has shown it

NUMBER = {"type": "number"}
SCHEMAS: tuple[dict[str, Any], ...] = (
    {"enum": [3, 1, 2]},
    {"const": None},
    {"type": ["null", "string"]},
    {"type": "string", "minLength": 12, "maxLength": 14},
    {"type": "string", "maxLength": 3},
    {"type": "boolean"},
    {"type": "null"},
    {**NUMBER, "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    {**NUMBER, "maximum": -5},
    {**NUMBER, "minimum": 1e6},
    {**NUMBER, "minimum": 0.5, "maximum": 0.5},
    {**NUMBER, "minimum": 1, "maximum": 9, "multipleOf": 2.5},
    {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    {"type": "integer", "minimum": -7, "maximum": -3, "multipleOf": 2},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 3},
    {"type": "array", "items": NUMBER, "maxItems": 0},
    {"anyOf": [NUMBER, {"type": "null"}]},
    {
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "value": NUMBER,
                    "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                    "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                },
                "required": ["value", "children", "next"],
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/Node",
    },
)
THOUGHTS = (None, 0.0, 0.37, 1.0, 5, -2, True, "a text", ["x", 0.5], {"value": 0.5, "next": {"value": 1}})


@pytest.mark.parametrize("schema", SCHEMAS, ids=json.dumps)
def test_a_schema_is_filled_in_validly_whatever_is_thought(schema: dict[str, Any]) -> None:
    for thought in THOUGHTS:
        for share in (0.0, 0.5, 1.0):
            Draft202012Validator(schema).validate(filled(schema, thought, share))


def _numbers(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    bounds = st.tuples(st.integers(-50, 50), st.integers(2, 40))
    names = st.sampled_from([("minimum", "maximum"), ("exclusiveMinimum", "exclusiveMaximum"), ("minimum",), ()])
    return st.builds(
        lambda bound, chosen: {"type": kind} | dict(zip(chosen, (bound[0], sum(bound)), strict=False)), bounds, names
    )


LEAVES = st.one_of(
    _numbers("number"),
    _numbers("integer"),
    st.sampled_from([{"type": "boolean"}, {"type": "string"}, {"type": "null"}]),
    st.lists(st.one_of(st.integers(), st.text(max_size=3)), min_size=1).map(lambda each: {"enum": each}),
)
ANY_SCHEMA: st.SearchStrategy[dict[str, Any]] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(
            lambda items, least: {"type": "array", "items": items, "minItems": least, "maxItems": least + 1},
            inner,
            st.integers(0, 3),
        ),
        st.dictionaries(st.text("abc", min_size=1, max_size=2), inner, max_size=3).map(
            lambda fields: {
                "type": "object",
                "properties": fields,
                "required": list(fields),
                "additionalProperties": False,
            }
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda each: {"anyOf": each}),
    ),
    max_leaves=8,
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(0, 1), st.integers(-5, 5), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abc", min_size=1, max_size=2), inner)
    ),
    max_leaves=6,
)


@given(ANY_SCHEMA, JSON, st.floats(0, 1))
def test_any_schema_is_filled_in_validly(schema: dict[str, Any], thought: Any, share: float) -> None:
    found = filled(schema, thought, share)
    Draft202012Validator(schema).validate(found)
    assert filled(schema, thought, share) == found


def test_a_schema_that_it_does_not_know_is_answered_validly(judge: SimulatedJudge) -> None:
    schema = {
        "type": "object",
        "properties": {
            "politeness": {"type": "integer", "minimum": 1, "maximum": 5},
            "tone": {"enum": ["warm", "cold"]},
            "why": {"type": "string"},
            "check": {"type": "string"},
        },
        "required": ["politeness", "tone", "why", "check"],
        "additionalProperties": False,
    }
    call = rubric()
    found = asked(client(judge), replace(call, name="manners", schema=schema))
    answer = json.loads(found.choices[0].message.content)
    Draft202012Validator(schema).validate(answer)
    assert answer["tone"] == "warm"
    assert answer["why"] == "simulated"
    assert answer["check"] == "w2zq"
    assert judge.calls()["by_schema"]["manners"] == 1


@pytest.mark.parametrize("schema", [{"$ref": "#/nowhere"}, {"$ref": "#"}, {"type": "elephant"}, {"enum": 3}])
def test_a_schema_that_nothing_can_fulfil_is_rejected(judge: SimulatedJudge, schema: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError, match="schema"):
        asked(client(judge), replace(rubric(), name="odd", schema=schema))


# Embeddings


def test_texts_that_share_words_have_vectors_that_are_nearer(judge: SimulatedJudge) -> None:
    given_texts = [
        "Ada wrote the notes",
        "The notes that Ada wrote",
        "Rain fell on the harbour",
        "?!",
        "Ada wrote the notes",
    ]
    found = client(judge).embeddings.create(model="any", input=given_texts)
    vectors = np.array([each.embedding for each in found.data])
    near = vectors @ vectors.T
    assert found.model == SIMULATED
    assert found.usage.prompt_tokens == found.usage.total_tokens > 0
    assert np.diag(near) == pytest.approx(np.ones(5), abs=1e-6), "unit vectors"
    assert near[0, 1] > 0.9
    assert near[0, 2] < 0.4
    assert near[0, 4] == pytest.approx(1), "the same text has the same"


def test_vectors_come_as_numbers_or_packed_and_as_long_as_is_asked_for(judge: SimulatedJudge) -> None:
    using = client(judge)
    plain = using.embeddings.create(model="any", input="Ada wrote", encoding_format="float", dimensions=64)
    packed: Any = using.embeddings.create(model="any", input="Ada wrote", encoding_format="base64", dimensions=64)
    assert len(plain.data[0].embedding) == 64
    unpacked = array("f", base64.b64decode(packed.data[0].embedding))
    assert list(unpacked) == pytest.approx(plain.data[0].embedding)


@pytest.mark.parametrize("wrong", [{"input": ""}, {"input": []}, {"input": [[1, 2]]}, {"input": "a", "dimensions": 0}])
def test_what_has_no_vector_is_rejected(judge: SimulatedJudge, wrong: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError):
        client(judge).embeddings.create(model="any", **wrong)


# Faults


@pytest.mark.parametrize(
    ("fault", "error", "status"),
    [
        ("429", openai.RateLimitError, 429),
        ("429-bare", openai.RateLimitError, 429),
        ("500", openai.InternalServerError, 500),
        ("503", openai.InternalServerError, 503),
    ],
)
@pytest.mark.parametrize("path", ["chat", "embeddings"])
def test_a_failure_that_was_asked_for_is_seen_as_one(
    judge: SimulatedJudge, fault: str, error: type[openai.APIStatusError], status: int, path: str
) -> None:
    """In OpenAI's error shape; only the fault 429 tells a Retry-After."""
    judge.set_faults(shares={fault: "all"}, retry_after_s=150)
    with pytest.raises(error) as caught:
        ask_for(client(judge), path)
    assert caught.value.status_code == status
    assert caught.value.response.headers.get("Retry-After") == ("150" if fault == "429" else None)
    assert "simulated" in caught.value.message
    assert remembered(judge)["fault"] == fault
    assert remembered(judge)["status"] == status
    assert remembered(judge)["prompt_tokens"] == 0


def ask_for(using: openai.OpenAI, path: str) -> Any:
    return asked(using) if path == "chat" else using.embeddings.create(model="any", input="Ada")


def remembered(judge: SimulatedJudge) -> dict[str, Any]:
    last: dict[str, Any] = judge.calls()["calls"][-1]
    return last


@pytest.mark.parametrize("path", ["chat", "embeddings"])
def test_a_cut_connection_gives_half_a_body(judge: SimulatedJudge, path: str) -> None:
    """An answer was made, so it is charged for."""
    judge.set_faults(shares={"cut-connection": "all"})
    with pytest.raises(openai.APIConnectionError) as caught:
        ask_for(client(judge), path)
    assert "without sending complete message body" in str(caught.value.__cause__)
    assert remembered(judge)["prompt_tokens"] > 0


@pytest.mark.parametrize("path", ["chat", "embeddings"])
def test_a_hang_never_answers(judge: SimulatedJudge, path: str) -> None:
    judge.set_faults(shares={"hang": "all"})
    with pytest.raises(openai.APITimeoutError):
        ask_for(client(judge, timeout_s=0.3), path)
    assert (remembered(judge)["status"], remembered(judge)["fault"]) == (0, "hang")


@pytest.mark.parametrize("path", ["chat", "embeddings"])
def test_garbage_is_no_json_though_it_says_so(judge: SimulatedJudge, path: str) -> None:
    judge.set_faults(shares={"garbage": "all"})
    raw = client(judge).with_raw_response
    found = (
        raw.chat.completions.create(**chat(rubric())) if path == "chat" else raw.embeddings.create(model="a", input="b")
    )
    assert found.headers["Content-Type"] == "application/json"
    with pytest.raises(UnicodeDecodeError):
        json.loads(found.content)


def test_prose_holds_a_number_that_nobody_should_read(judge: SimulatedJudge) -> None:
    judge.set_faults(shares={"prose": "all"})
    text = asked(client(judge)).choices[0].message.content
    assert any(letter.isdigit() for letter in text)
    assert answer_parsing.parse_answer(text, Rubric, "w2zq") is answer_parsing.NOT_JSON


def test_a_wrong_schema_is_json_that_does_not_fit(judge: SimulatedJudge) -> None:
    judge.set_faults(shares={"wrong-schema": "all"})
    said = json.loads(asked(client(judge)).choices[0].message.content)
    assert not Draft202012Validator(answer_parsing.schema(Rubric)).is_valid(said)


def test_a_cut_answer_ends_in_its_middle(judge: SimulatedJudge) -> None:
    judge.set_faults(shares={"cut-answer": "all"})
    choice = asked(client(judge)).choices[0]
    assert choice.finish_reason == "length"
    assert answer_parsing.parse_answer(choice.message.content, Rubric, "w2zq", cut=True) is answer_parsing.CUT


@pytest.mark.parametrize("fault", sorted(OF_COMPLETIONS))
def test_faults_of_completions_leave_embeddings_alone(judge: SimulatedJudge, fault: str) -> None:
    judge.set_faults(shares={fault: "all"})
    assert client(judge).embeddings.create(model="any", input="Ada").data[0].embedding
    assert remembered(judge)["fault"] == ""


def test_faults_end_after_so_many_requests(judge: SimulatedJudge) -> None:
    judge.set_faults(shares={"503": "all"}, requests=2)
    using = client(judge)
    for _ in range(2):
        with pytest.raises(openai.InternalServerError):
            asked(using)
    assert asked(using).model == SIMULATED


def test_faults_end_after_so_many_seconds() -> None:
    draws = Draws(Faults.read({"shares": {"503": "all"}, "seconds": 5}), now=100)
    assert [draws.draw(now)[1] for now in (100, 104.9, 105, 200)] == ["503", "503", "", ""]


def test_the_same_seed_draws_the_same_faults_and_latencies() -> None:
    def drawn(seed: int) -> list[tuple[float, str]]:
        draws = Draws(Faults(latency_ms=200, latency_sigma=0.5, shares={"429": 0.2, "hang": 0.1}, seed=seed), now=0)
        return [draws.draw(0) for _ in range(200)]

    assert drawn(7) == drawn(7)
    assert drawn(7) != drawn(8)


def test_other_shares_leave_the_latencies_as_they_were() -> None:
    few, many = (Draws(Faults(latency_ms=200, latency_sigma=0.5, shares={"503": share}), now=0) for share in (0.1, 0.9))
    assert [few.draw(0)[0] for _ in range(50)] == [many.draw(0)[0] for _ in range(50)]


def test_the_server_plays_the_faults_that_are_drawn(judge: SimulatedJudge) -> None:
    faults = {"shares": {"429": 0.3, "500": 0.2, "prose": 0.2}, "seed": 11}
    judge.set_faults(**faults)
    before, using = judge.calls()["count"], client(judge)
    for _ in range(30):
        try:
            asked(using)
        except openai.APIStatusError:
            continue
    draws = Draws(Faults.read(faults), now=0)
    played = [call["fault"] for call in judge.calls()["calls"][before:]]
    assert played == [draws.draw(0)[1] for _ in range(30)]
    assert len(set(played)) == 4


def test_faults_have_their_shares_and_latency_its_median() -> None:
    """Over 20,000 draws, each share within four standard errors."""
    shares = {name: 0.05 + 0.005 * place for place, name in enumerate(FAULTS)}
    draws, size = Draws(Faults(latency_ms=300, latency_sigma=0.8, shares=shares), now=0), 20_000
    latencies, drawn = zip(*(draws.draw(0) for _ in range(size)), strict=True)
    counts = Counter(drawn)
    for name, share in shares.items():
        assert abs(counts[name] / size - share) < 4 * math.sqrt(share * (1 - share) / size), name
    deviations = np.log(np.array(latencies) / 0.3)
    assert abs(np.mean(deviations)) < 4 * 0.8 / math.sqrt(size)
    assert np.std(deviations) == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"shares": {"hiccup": 0.1}}, "there is no fault 'hiccup'"),
        ({"shares": {"429": 1.5}}, "shares.429"),
        ({"shares": {"429": 0.6, "500": 0.6}}, "together are at most 1"),
        ({"latency_ms": -1}, "latency_ms"),
        ({"latency": 1}, "latency"),
        ({"requests": 0}, "requests"),
    ],
)
def test_wrong_faults_are_rejected_in_one_sentence_and_change_nothing(
    judge: SimulatedJudge, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(WrongFaults, match=said):
        judge.set_faults(**wrong)
    with pytest.raises(urllib.error.HTTPError) as caught:
        admin(judge, "faults", wrong)
    with caught.value as response:
        assert response.code == 400
        assert said in json.load(response)["error"]["message"]
    assert asked(client(judge)).model == SIMULATED


# The endpoint


def admin(judge: SimulatedJudge, what: str, body: Mapping[str, Any] | None = None, key: str = "any") -> Any:
    url = judge.base_url.replace("/v1", f"/admin/{what}")
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)


def test_calls_are_told_with_what_they_were_charged(judge: SimulatedJudge) -> None:
    """Over HTTP as to the holder of the handle; tokens are those of the usage that clients saw."""
    before, using = judge.calls(), client(judge)
    usages = [asked(using).usage, asked(using, rubric(MADE_UP)).usage, ask_for(using, "embeddings").usage]
    after = admin(judge, "calls")
    assert after == judge.calls()
    assert after["count"] == before["count"] + 3
    assert after["by_schema"]["rubric_Rubric"] == before["by_schema"].get("rubric_Rubric", 0) + 2
    charged = sum(usage.prompt_tokens for usage in usages), usages[0].completion_tokens + usages[1].completion_tokens
    assert after["prompt_tokens"] - before["prompt_tokens"] == charged[0]
    assert after["completion_tokens"] - before["completion_tokens"] == charged[1]
    times = [call["at"] for call in after["calls"]]
    assert times == sorted(times)
    assert after["calls"][-1]["path"] == "/v1/embeddings"


def test_a_repeated_question_is_known_by_its_digest(judge: SimulatedJudge) -> None:
    """Under other marks and another check word too, in each mode; another text makes another question."""
    draw, using = drawing(), client(judge)

    def digest(case: Case, mode: str) -> str:
        using.chat.completions.create(**chat(rubric(case, draw), mode))
        return str(remembered(judge)["digest"])

    for mode in MODES:
        assert digest(GROUNDED, mode) == digest(GROUNDED, mode) != digest(MADE_UP, mode)


def test_faults_are_set_over_http_while_it_runs_and_begin_from_what_it_was_started_with() -> None:
    with simulated_judge(faults=Faults(shares={"500": 1.0})) as judge:
        assert admin(judge, "faults", {"shares": {"503": "all"}, "latency_ms": 1})["shares"] == {"503": 1.0}
        for changes, status in (({}, 500), ({"shares": {"503": 1.0}}, 503)):
            admin(judge, "faults", changes)
            with pytest.raises(openai.InternalServerError) as caught:
                asked(client(judge))
            assert caught.value.status_code == status


def test_a_wrong_key_and_an_unknown_model_are_rejected() -> None:
    """By every endpoint, those for tests included; the right ones are served."""
    with simulated_judge(key="sk-right", models=("gpt-small", "gpt-large")) as judge:
        right, wrong = client(judge, "sk-right"), client(judge, "sk-wrong")
        for attempt in (lambda: asked(wrong), lambda: ask_for(wrong, "embeddings"), wrong.models.list):
            with pytest.raises(openai.AuthenticationError) as refused:
                attempt()
            assert refused.value.code == "invalid_api_key"
        with pytest.raises(urllib.error.HTTPError) as caught:
            admin(judge, "calls", key="sk-wrong")
        with caught.value as response:
            assert response.code == 401
        assert [model.id for model in right.models.list()] == ["gpt-small", "gpt-large"]
        with pytest.raises(openai.NotFoundError) as unknown:
            asked(right)
        assert unknown.value.code == "model_not_found"
        body = {**chat(rubric()), "model": "gpt-small"}
        assert right.chat.completions.create(**body).model == SIMULATED
        assert [call["status"] for call in admin(judge, "calls", key="sk-right")["calls"]] == [404, 200]


def test_endpoints_that_lack_structured_outputs_or_json_mode_reject_them() -> None:
    with simulated_judge(structured_outputs=False, json_mode=False) as judge:
        using = client(judge)
        for mode in ("json_schema", "json_object"):
            with pytest.raises(openai.BadRequestError, match=f"response_format.type '{mode}' is not supported"):
                using.chat.completions.create(**chat(rubric(), mode))
        answer = using.chat.completions.create(**chat(rubric(), "text")).choices[0].message.content
        Draft202012Validator(answer_parsing.schema(Rubric)).validate(json.loads(answer or ""))


@pytest.mark.parametrize(
    "body",
    [
        b"not json",
        b"[]",
        b"{}",
        b'{"model": "a", "messages": "hello"}',
        b'{"model": "a", "messages": [{"role": "user", "content": null}]}',
        b'{"model": "a", "messages": [], "response_format": {"type": "grammar"}}',
        b'{"model": "a", "messages": [], "response_format": {"type": ["json_object"]}}',
        b'{"model": "a", "messages": [], "response_format": "json"}',
        b'{"model": "a", "messages": [], "response_format": {"type": "json_schema", "json_schema": {"schema": 1}}}',
        b'{"model": "a", "messages": [], "response_format": {"type": "json_schema", "json_schema": {"schema": []}}}',
        b'{"model": "a", "messages": [], "response_format": {"type": "json_schema", "json_schema": {"name": "grade"}}}',
        b'{"model": "a", "messages": [], "stream": true}',
    ],
)
def test_what_is_no_request_is_rejected_in_the_usual_shape(body: bytes) -> None:
    endpoint = Endpoint(JudgeOptions(), Faults(), now=0)
    reply = endpoint.respond(Request("POST", "/v1/chat/completions", {}, body), now=0)
    assert reply.status == 400
    assert json.loads(reply.body)["error"]["type"] == "invalid_request_error"


def test_its_own_rate_limit_holds_in_any_sixty_seconds() -> None:
    """Whoever waits as long as it says is let through, and not before."""
    endpoint = Endpoint(JudgeOptions(requests_per_minute=3), Faults(), now=0)
    request = Request("POST", "/v1/chat/completions", {}, json.dumps(chat(rubric())).encode())

    def tried(now: float) -> tuple[int, str | None]:
        reply = endpoint.respond(request, now)
        return reply.status, reply.headers.get("Retry-After")

    assert [tried(now)[0] for now in (1_000, 1_020, 1_040)] == [200, 200, 200]
    assert tried(1_041) == (429, "19")
    assert tried(1_059.5) == (429, "1")
    assert tried(1_060) == (200, None)
    assert tried(1_061) == (429, "19")


# The wire


def test_a_connection_is_kept_and_closed_when_the_client_says_so(judge: SimulatedJudge) -> None:
    host = judge.base_url.split("/")[2]
    connection = http.client.HTTPConnection(host, timeout=30)
    body = json.dumps(chat(rubric()))
    sockets = []
    for _ in range(3):
        connection.request("POST", "/v1/chat/completions", body)
        assert len(connection.getresponse().read()) > 100
        sockets.append(connection.sock)
    assert sockets[0] is not None
    assert sockets[0] is sockets[1] is sockets[2]
    connection.request("GET", "/v1/models", headers={"Connection": "close"})
    assert connection.getresponse().read()
    assert connection.sock is None
    connection.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nContent-Length: many\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nX: " + b"x" * 100_000 + b"\r\n\r\n", 400),
        (b"POST /v1/embeddings HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"GET /v1/elsewhere HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        (b"PUT /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n", 404),
        (b"", None),
        (b"GET /v1/mod", None),
        (b"POST /v1/embeddings HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc", None),
    ],
)
def test_what_is_no_http_is_rejected_or_dropped(judge: SimulatedJudge, sent: bytes, status: int | None) -> None:
    """And the next client is served."""
    host, port = judge.base_url.split("/")[2].split(":")
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(sent)
        if status is None:
            connection.shutdown(socket.SHUT_WR)
        got = connection.recv(100)
    assert got.startswith(b"" if status is None else f"HTTP/1.1 {status} ".encode())
    assert bool(got) == (status is not None)
    assert client(judge).models.list().data


def test_three_hundred_requests_are_held_at_once_and_all_answered(judge: SimulatedJudge) -> None:
    """Hung, they have all arrived while none is answered; slow, each gets its answer."""
    host, port = judge.base_url.split("/")[2].split(":")
    body = json.dumps(chat(rubric())).encode()
    request = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body

    async def opened() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(request)
        return reader, writer

    async def all_at_once(*, read: bool) -> list[bytes]:
        pairs = await asyncio.gather(*(opened() for _ in range(300)))
        await asyncio.to_thread(eventually, lambda: judge.calls()["count"] == wanted, "all have arrived")
        lines = await asyncio.gather(*(reader.readline() for reader, _ in pairs)) if read else []
        for _, writer in pairs:
            writer.close()
            await writer.wait_closed()
        return lines

    judge.set_faults(shares={"hang": "all"})
    wanted = judge.calls()["count"] + 300
    asyncio.run(all_at_once(read=False))
    judge.set_faults(latency_ms=300)
    wanted = judge.calls()["count"] + 300
    assert asyncio.run(all_at_once(read=True)) == [b"HTTP/1.1 200 OK\r\n"] * 300


def test_it_stops_while_requests_hang_and_leaves_its_port_free() -> None:
    with simulated_judge(faults=Faults(shares={"hang": 1.0})) as judge:
        host, port = judge.base_url.split("/")[2].split(":")
        body = json.dumps(chat(rubric())).encode()
        connection = socket.create_connection((host, int(port)), timeout=30)
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        eventually(lambda: judge.calls()["count"] == 1, "it hangs")
    with connection:
        assert connection.recv(1) == b"", "the connection has ended without an answer"
    with simulated_judge(port=int(port)) as again:
        assert again.calls()["count"] == 0


# The command


@pytest.mark.heavy
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_told_to_stop(how: signal.Signals) -> None:
    """It prints one line: where it is, that it is simulated, and settings that the judge takes."""
    flags = ("--port", "0", "--latency-ms", "0", "--key", "sk-right", "--fault", "503=all", "--fault-requests", "1")
    process = begun("simulate-judge", *flags)
    try:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("Simulated judge at http://127.0.0.1:")
        assert "no model is asked" in line
        said = dict(word.split("=", 1) for word in line.split() if word.startswith("RAGWEIR_JUDGE__"))
        using = client(said["RAGWEIR_JUDGE__BASE_URL"], said["RAGWEIR_JUDGE__API_KEY"])
        with pytest.raises(openai.InternalServerError):
            asked(using)
        assert asked(using).model == said["RAGWEIR_JUDGE__MODEL"]
        assert '"input_usd"' in said["RAGWEIR_JUDGE__PRICES"]
    finally:
        process.send_signal(how)
        rest, error = process.communicate(timeout=120)
    assert (process.returncode, rest, error) == (0, b"", b"")


def test_a_taken_port_and_wrong_faults_are_one_sentence(judge: SimulatedJudge) -> None:
    port = judge.base_url.split("/")[2].split(":")[1]
    assert f"port {port} of 127.0.0.1 is taken" in told(ragweir("simulate-judge", "--port", port))
    assert "there is no fault 'hiccup'" in told(ragweir("simulate-judge", "--fault", "hiccup=1"))
    assert "--fault 429: it is FAULT=SHARE" in told(ragweir("simulate-judge", "--fault", "429"))
