"""The pool against an endpoint that fails in every way: nothing is lost, nothing paid or asked beyond the bounds.

The endpoint is a real server on loopback that does what a test's script says.
"""

import itertools
import json
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
from scripted_endpoint import (
    BOUNDED,
    BOUNDED_ANSWER,
    CUT,
    GARBAGE,
    HANG,
    PLAIN,
    PRICE,
    AskedCall,
    Endpoint,
    Reply,
    Script,
    calls,
    completion,
    embedding_suite,
    error,
    finish,
    job,
    judged_score,
    one,
    pool,
    suite,
    why_null,
)
from scripted_judge import Log, Worker, request
from services import until

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.classification import CLASSIFICATION
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.suite import Case, Embed, Vectors
from ragweir.metrics.metric import Null
from ragweir.streams.playground.simulated.faults import Faults
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.services.judge import client
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.job import JobResult
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.judge.pricing import cost
from ragweir.streams.services.judge.probe import probe
from ragweir.streams.settings import JudgeSettings, Price

SECONDS = 20


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.close()


# What is asked and counted when all is well.


def test_a_question_goes_out_as_the_endpoint_expects_it(endpoint: Endpoint) -> None:
    with pool(endpoint, model="m", max_output_tokens=77) as live:
        assert judged_score(one(live)) == 0.5
    (asked,) = endpoint.asked
    schema = asked.body["response_format"]["json_schema"]
    assert (asked.path, asked.key) == ("/v1/chat/completions", "sk-of-the-test")
    assert (asked.body["model"], asked.body["temperature"], asked.body["max_tokens"]) == ("m", 0, 77)
    assert (schema["name"], schema["strict"]) == ("plain_Graded", True)
    assert sorted(schema["schema"]["properties"]) == ["check", "score"]
    assert "an answer 0" in asked.text


def test_what_a_job_took_is_told_in_tokens_and_money(endpoint: Endpoint) -> None:
    with pool(endpoint) as live:
        end = one(live, job(0, suite("a", 2), suite("b")))
        metrics = live.drain_metrics()
        counts = metrics.counts
        assert len(metrics.observations) == 3
        drained = live.drain_metrics()
        assert (drained.counts, drained.observations) == ({}, [])
    assert (end.usage.calls, end.usage.input_tokens, end.usage.output_tokens) == (3, 300, 30)
    assert end.usage.cost == 3 * cost(PRICE, 100, 10)
    assert counts == {
        ("ragweir_judge_calls_total", "ok"): 3,
        ("ragweir_judge_tokens_total", "input"): 300,
        ("ragweir_judge_tokens_total", "output"): 30,
        ("ragweir_judge_cost_microdollars_total",): 600,
    }


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": None}, "many"])
def test_an_answer_that_does_not_tell_its_usage_counts_with_the_most(endpoint: Endpoint, usage: object) -> None:
    endpoint.script = lambda asked: completion(asked, usage=usage)
    with pool(endpoint, max_output_tokens=100) as live:
        end = one(live)
    assert end.usage.cost >= cost(PRICE, len(endpoint.asked[0].text), 100)


def test_the_key_may_stand_in_a_file(endpoint: Endpoint, tmp_path: Path) -> None:
    (tmp_path / "key").write_text("sk-of-the-file\n")
    with pool(endpoint, api_key_file=tmp_path / "key") as live:
        one(live)
    assert endpoint.asked[0].key == "sk-of-the-file"


def test_settings_that_reach_no_judge_are_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        LiveJudgePool(JudgeSettings())
    with pytest.raises(ConfigurationError, match="api_key_file"):
        LiveJudgePool(JudgeSettings(base_url="http://127.0.0.1:1/v1", api_key_file=tmp_path / "none"))


# Failures that pass.


@pytest.mark.slow
@pytest.mark.parametrize("failure", [error(500), error(503), CUT, HANG, GARBAGE, Reply(said={}), error(408)])
def test_a_failure_that_may_pass_is_tried_again(endpoint: Endpoint, failure: Reply) -> None:
    endpoint.then(failure, failure)
    with pool(endpoint, attempts=3, timeout_s=0.3 if failure is HANG else 5) as live:
        end = one(live)
    assert (judged_score(end), end.usage.calls) == (0.5, 3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("failure", "outcome", "why"),
    [
        (error(500), "server_error", "the judge's endpoint fails (500)"),
        (CUT, "cut", "the connection to the judge broke"),
        (HANG, "timeout", "the judge did not answer in time"),
        (GARBAGE, "unusable", "the judge's endpoint sent what is no answer"),
    ],
)
def test_what_fails_as_often_as_allowed_ends_the_job_for_now(
    endpoint: Endpoint, failure: Reply, outcome: str, why: str
) -> None:
    """With nothing of the suites that were through: all are judged again together."""
    endpoint.script = lambda asked: failure if "Grade second" in asked.text else completion(asked)
    with pool(endpoint, attempts=2, timeout_s=0.3 if failure is HANG else 5, breaker_failures=9) as live:
        end = one(live, job(0, PLAIN, suite("second")))
        assert calls(live.drain_metrics().counts) == {"ok": 1, outcome: 2}
    assert (end.judged, end.why, end.usage.calls) == (None, why, 3)


@pytest.mark.slow
def test_an_answer_in_drops_is_given_up_in_time(endpoint: Endpoint) -> None:
    """Each byte comes soon; together they never do."""
    stop = threading.Event()

    def drip(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 10000\r\n\r\n")
                while not stop.wait(0.02):
                    connection.sendall(b" ")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip, args=(listener,))
        thread.start()
        base_url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        with pool(endpoint, base_url=base_url, timeout_s=0.3, attempts=1) as live:
            assert one(live).why == "the judge did not answer in time"
        stop.set()
        thread.join()


@pytest.mark.slow
def test_too_many_requests_use_up_no_attempt_and_hold_every_call_back(endpoint: Endpoint) -> None:
    for _ in range(3):
        endpoint.then(error(429, retry_after_ms="150"))
    with pool(endpoint, attempts=1, concurrency=1) as live:
        end = one(live)
        assert (judged_score(end), calls(live.drain_metrics().counts)) == (0.5, {"rate_limited": 3, "ok": 1})
    times = [asked.at for asked in endpoint.asked]
    assert all(later - sooner >= 0.15 for sooner, later in itertools.pairwise(times))


@pytest.mark.slow
def test_too_many_requests_without_a_word_on_how_long_wait_as_long_as_a_failure(endpoint: Endpoint) -> None:
    endpoint.then(error(429), error(429))
    with pool(endpoint, attempts=1, breaker_wait_s=0.1, breaker_failures=9) as live:
        assert judged_score(one(live)) == 0.5
    first, second, third = (asked.at for asked in endpoint.asked)
    assert second - first >= 0.1
    assert third - second >= 0.2


@pytest.mark.slow
def test_while_the_endpoint_wants_peace_one_call_in_flight_is_the_most(endpoint: Endpoint) -> None:
    peace = threading.Event()
    endpoint.script = lambda asked: completion(asked) if peace.is_set() else error(429, retry_after_ms="20")
    with pool(endpoint, attempts=1) as live:
        for number in range(8):
            live.start(job(number))
        until(lambda: len(endpoint.asked) >= 8 + 5)
        assert live.unavailable_reason == "the judge wants fewer calls (429)"
        peace.set()
        assert {judged_score(end) for end in finish(live, number=8).values()} == {0.5}
    # Eight at once at first; then one by one, each after the wait.
    times = [asked.at for asked in endpoint.asked if not peace.is_set()]
    assert all(later - sooner >= 0.02 for sooner, later in itertools.pairwise(times[8:]))


@pytest.mark.slow
def test_an_outage_costs_no_event_an_attempt_beyond_those_that_tell_it(endpoint: Endpoint) -> None:
    down = threading.Event()
    down.set()
    endpoint.script = lambda asked: error(503) if down.is_set() else completion(asked)
    with pool(endpoint, attempts=2, breaker_failures=3, breaker_wait_s=0.005) as live:
        for number in range(8):
            live.start(job(number))
        until(lambda: len(endpoint.asked) >= 8 + 6)
        assert live.drain_metrics().levels["ragweir_judge_breaker",] >= 0.5
        assert live.unavailable_reason == "the judge's endpoint fails (503)"
        assert live.take_results() == []
        down.clear()
        assert {judged_score(end) for end in finish(live, number=8).values()} == {0.5}
        assert (live.drain_metrics().levels["ragweir_judge_breaker",], live.unavailable_reason) == (0.0, "")


def test_an_endpoint_that_cannot_be_reached_is_waited_for(endpoint: Endpoint) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    base_url = f"http://127.0.0.1:{port}/v1"
    with pool(endpoint, base_url=base_url, breaker_failures=1, breaker_wait_s=0.005, attempts=1) as live:
        live.start(job())
        until(lambda: live.unavailable_reason)
        assert live.unavailable_reason == "the judge's endpoint cannot be reached"
        late = Endpoint(port)
        end = finish(live, number=1)[0]
        late.close()
    assert judged_score(end) == 0.5
    assert end.usage.cost == cost(PRICE, 100, 10), "what reached nobody costs nothing"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (error(401, "Incorrect API key provided: sk-of-the-test"), "the judge rejects the key (401)"),
        (error(403), "the judge rejects the key (403)"),
        (error(402), "the judge's account has no credit left (402)"),
        (error(429, code="insufficient_quota"), "the judge's account has no credit left (429)"),
        (error(404, code="model_not_found"), "the judge does not know the model gpt-4o-mini (404)"),
        (
            error(404, 'model "gpt-4o-mini" not found, try pulling it first'),
            "the judge does not know the model gpt-4o-mini (404)",
        ),
        (error(400, "gpt-4o-mini is not a valid model ID"), "the judge does not know the model gpt-4o-mini (400)"),
        (Reply(404, "404 page not found"), "nothing answers at judge.base_url (404)"),
    ],
)
def test_what_somebody_has_to_mend_is_told_in_a_sentence_and_loses_nothing(
    endpoint: Endpoint, refusal: Reply, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_UNUSABLE_PAUSE_S", 0.05)
    wrong = threading.Event()
    wrong.set()
    endpoint.script = lambda asked: refusal if wrong.is_set() else completion(asked)
    with pool(endpoint, attempts=1) as live:
        live.start(job())
        until(lambda: len(endpoint.asked) >= 3)
        assert (live.unavailable_reason, live.take_results()) == (told, [])
        wrong.clear()
        assert judged_score(finish(live, number=1)[0]) == 0.5
        assert calls(live.drain_metrics().counts).keys() == {"refused", "ok"}


def test_a_model_that_is_unknown_for_vectors_alone_does_not_stop_what_needs_none(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_UNUSABLE_PAUSE_S", 0.01)
    unknown = error(404, code="model_not_found")
    endpoint.script = lambda asked: unknown if asked.body["model"] == "e" else completion(asked)
    with pool(endpoint, embedding_model="e", attempts=2, concurrency=3) as live:
        live.start(job(0, embedding_suite()))
        ended: dict[int, JobResult] = {}
        for number in range(1, 200):
            ended |= finish(live, [job(number)])
            if 0 in ended:
                break
        assert ended.pop(0).why == "the judge does not know the model e (404)"
        assert {judged_score(end) for end in ended.values()} == {0.5}


def test_what_has_to_be_mended_is_asked_again_after_a_minute_only() -> None:
    assert client._UNUSABLE_PAUSE_S == 60


# Questions that make the endpoint fail.


def poisoned(asked: AskedCall) -> Reply:
    return error(500) if "poison" in asked.text else completion(asked)


@pytest.mark.slow
def test_a_question_that_alone_fails_keeps_the_others_away_no_longer_than_its_attempts(endpoint: Endpoint) -> None:
    """It opens the breaker and probes in vain. Then another is wanted as a witness, and its success closes it."""
    endpoint.script = poisoned
    with pool(endpoint, attempts=3, breaker_failures=1, breaker_wait_s=0.005, concurrency=3) as live:
        live.start(job(0, response="poison"))
        ended: dict[int, JobResult] = {}
        for number in range(1, 200):
            until(lambda: len(endpoint.asked) >= 2 and not live.unavailable_reason)
            ended |= finish(live, [job(number)])
            if 0 in ended:
                break
        assert ended.pop(0).why == "the judge's endpoint fails (500)"
        assert {judged_score(end) for end in ended.values()} == {0.5}


@pytest.mark.parametrize(
    ("failure", "why"), [(error(500), "the judge's endpoint fails (500)"), (CUT, "the connection to the judge broke")]
)
def test_where_there_is_no_room_for_a_witness_it_goes_after_its_attempts(
    endpoint: Endpoint, failure: Reply, why: str
) -> None:
    endpoint.script = lambda asked: failure if "poison" in asked.text else completion(asked)
    with pool(endpoint, attempts=3, breaker_failures=1, breaker_wait_s=0.005, concurrency=1) as live:
        end = one(live, job(0, response="poison"))
        assert (end.judged, end.why, end.usage.calls) == (None, why, 1 + 3)
        until(lambda: not live.unavailable_reason)
        assert judged_score(one(live, job(1))) == 0.5


@pytest.mark.parametrize(
    ("refusal", "why"),
    [
        (error(400, "filtered", "content_filter"), "the judge's content filter refused the texts"),
        (error(403, "Your input was flagged"), "the judge's content filter refused the texts"),
        (error(400, "too long", "context_length_exceeded"), "the texts are too long for the judge"),
        (error(413), "the texts are too long for the judge"),
        (error(400, "the words of the event"), "the judge rejected the request (400)"),
    ],
)
def test_what_is_rejected_of_one_question_is_null_and_not_tried_again(
    endpoint: Endpoint, refusal: Reply, why: str
) -> None:
    endpoint.script = lambda asked: refusal if "Grade second" in asked.text else completion(asked)
    with pool(endpoint, breaker_failures=1) as live:
        end = one(live, job(0, PLAIN, suite("second")))
        assert (live.unavailable_reason, calls(live.drain_metrics().counts)) == ("", {"ok": 1, "rejected": 1})
    assert end.judged is not None
    assert (why_null(end, "second"), judged_score(end)) == (why, 0.5)
    assert end.judged.statuses == {"plain": "judged", "second": "failed"}


@pytest.mark.parametrize(
    "choice", [{"finish_reason": "content_filter"}, {"message": {"content": None, "refusal": "I won't"}}]
)
def test_a_judge_that_declines_gives_null(endpoint: Endpoint, choice: dict[str, Any]) -> None:
    endpoint.script = lambda asked: completion(asked, **choice)
    with pool(endpoint) as live:
        assert why_null(one(live)) == "the judge declined to answer"


THOUGHT = {"prompt_tokens": 100, "completion_tokens": 1_500, "completion_tokens_details": {"reasoning_tokens": 1_400}}


@pytest.mark.parametrize(
    ("message", "usage"),
    [
        ({"content": None}, None),
        ({"content": "", "reasoning_content": "Let me see"}, None),
        ({"content": "", "reasoning": "Let me see"}, None),
        ({"content": "<think>Let me see"}, None),
        ({"content": '<think>I see.</think>{"score": 0.'}, None),
        ({"content": '{"score": 0.'}, THOUGHT),
    ],
)
def test_an_answer_that_was_cut_after_a_model_thought_is_not_paid_for_twice(
    endpoint: Endpoint, message: dict[str, Any], usage: object
) -> None:
    """It would think as long again."""
    endpoint.script = lambda asked: completion(asked, finish_reason="length", message=message, usage=usage)
    with pool(endpoint) as live:
        end = one(live)
        assert calls(live.drain_metrics().counts) == {"ok": 1}
    assert why_null(end) == "the judge's answer was cut; raise judge.max_output_tokens"


def test_an_answer_that_was_cut_without_thoughts_is_asked_for_again_shorter(endpoint: Endpoint) -> None:
    endpoint.then(completion_of('{"score": 0.', finish_reason="length"))
    with pool(endpoint) as live:
        assert judged_score(one(live)) == 0.5
    assert "Be much shorter." in endpoint.asked[1].text


def completion_of(text: str, **choice: Any) -> Reply:
    """A completion whatever is asked."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10}
    return Reply(said={"choices": [{"message": {"content": text}} | choice], "usage": usage})


@pytest.mark.parametrize("message", ["No connected db.", "API key not valid. Please pass a valid API key."])
def test_a_400_that_is_about_the_key_opens_the_breaker_and_one_that_quotes_such_words_does_not(
    endpoint: Endpoint, message: str
) -> None:
    """An event that has them could otherwise stop the judge."""
    quoted = {"error": {"message": f"bad input: {message}", "input": json.dumps({"message": message})}}
    endpoint.then(Reply(400, quoted), Reply(400, {"error": {"code": 400, "message": message}}))
    with pool(endpoint) as live:
        assert why_null(one(live)) == "the judge rejected the request (400)"
        assert live.unavailable_reason == ""
        live.start(job(1))
        until(lambda: live.unavailable_reason)
        assert live.unavailable_reason == "the judge rejects the key (400)"


# Endpoints that understand less.


def understands(*formats: str | None) -> Script:
    def script(asked: AskedCall) -> Reply:
        kind = asked.body.get("response_format", {}).get("type")
        return completion(asked) if kind in formats else error(400, f"response_format {kind} is not supported")

    return script


@pytest.mark.parametrize(
    ("formats", "requests"), [(("json_object", None), 2), ((None,), 3), (("json_schema", "json_object"), 1)]
)
def test_the_simplest_form_that_an_endpoint_understands_is_found_and_remembered(
    endpoint: Endpoint, formats: tuple[str | None, ...], requests: int
) -> None:
    endpoint.script = understands(*formats)
    with pool(endpoint) as live:
        assert judged_score(one(live)) == 0.5
        assert len(endpoint.asked) == requests
        one(live, job(1))
        assert len(endpoint.asked) == requests + 1
    last = endpoint.asked[-1]
    in_prompt = '"additionalProperties"' in last.body["messages"][0]["content"]
    assert in_prompt == (last.body.get("response_format", {}).get("type") != "json_schema")


def test_the_form_that_an_endpoint_understands_is_logged_once(endpoint: Endpoint) -> None:
    """Answers of another form may be worse, and who runs the judge can find the reason."""
    endpoint.script = understands("json_object")
    with structlog.testing.capture_logs() as logs, pool(endpoint) as live:
        one(live)
        one(live, job(1))
    changes = [each for each in logs if each["event"] == "response format of the judge changed"]
    assert [(each["answers"], each["length"]) for each in changes] == [("json_object", "max_tokens")]


def test_a_form_is_not_remembered_from_a_question_that_no_form_helps(endpoint: Endpoint) -> None:
    """Or one event whose text an endpoint quotes could change how all others are asked."""
    endpoint.script = lambda asked: error(422, "bad: response_format") if "odd" in asked.text else completion(asked)
    with pool(endpoint) as live:
        assert why_null(one(live, job(0, response="odd"))) == "the judge does not support a setting of its answers"
        one(live, job(1))
    assert endpoint.asked[-1].body["response_format"]["type"] == "json_schema"


# What llama-cpp-python and ik_llama.cpp say.
LLAMA = (
    "[{'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or "
    "'json_object'\", 'input': 'json_schema', 'ctx': {'expected': \"'text' or 'json_object'\"}}]"
)
IK_LLAMA = 'response_format type must be one of "text" or "json_object", but got: json_schema'


@pytest.mark.parametrize("message", [LLAMA, IK_LLAMA])
@pytest.mark.parametrize("status", [400, 422, 500, 503])
def test_an_error_that_names_the_form_leads_to_a_simpler_one_whatever_its_status(
    endpoint: Endpoint, status: int, message: str
) -> None:
    def script(asked: AskedCall) -> Reply:
        kind = asked.body["response_format"]["type"]
        return completion(asked) if kind == "json_object" else error(status, message, "None")

    endpoint.script = script
    with pool(endpoint, breaker_failures=1) as live:
        assert judged_score(one(live)) == 0.5
        assert (live.unavailable_reason, calls(live.drain_metrics().counts)) == ("", {"rejected": 1, "ok": 1})


@pytest.mark.parametrize(
    ("understood", "form"), [({"json_object", None}, "json_object"), ({None}, "text")], ids=["JSON mode", "neither"]
)
def test_the_check_at_the_start_falls_back_alike(endpoint: Endpoint, understood: set[str | None], form: str) -> None:
    names = ("relevance", "faithfulness", "hallucination", "contextual_relevance")
    fields = {f"{name}{kind}": value for name in names for kind, value in (("_reason", "so"), ("", 0.5))}

    def script(asked: AskedCall) -> Reply:
        if asked.body.get("response_format", {}).get("type") not in understood:
            return error(500, LLAMA)
        return completion(asked, json.dumps({**fields, "check": "CHECK"}))

    endpoint.script = script
    assert probe(JudgeSettings(base_url=endpoint.base_url)).response_format.answers == form


def test_a_server_error_that_no_form_helps_is_one(endpoint: Endpoint) -> None:
    """It is tried again, and does not blame the event."""
    endpoint.script = lambda _: error(500, "response_format broke")
    with pool(endpoint, attempts=2) as live:
        end = one(live)
    assert (end.judged, end.why) == (None, "the judge's endpoint fails (500)")
    kinds = [asked.body.get("response_format", {}).get("type") for asked in endpoint.asked]
    assert kinds == ["json_schema", "json_object", None] * 2


def bounds(schema: Any) -> list[int]:
    """Every maxLength in a schema."""
    if isinstance(schema, list):
        return [each for node in schema for each in bounds(node)]
    if not isinstance(schema, dict):
        return []
    own = [schema["maxLength"]] if "maxLength" in schema else []
    return own + bounds(list(schema.values()))


def test_strings_are_bounded_where_the_endpoint_takes_that_and_the_prompt_says_so_everywhere(
    endpoint: Endpoint,
) -> None:
    """In the words of OpenAI, which names response_format too."""

    def script(asked: AskedCall) -> Reply:
        if bounds(asked.body["response_format"]):
            return error(400, "Invalid schema for response_format 'a': In context=(), 'maxLength' is not permitted.")
        return completion(asked, '{"check": "CHECK", "reason": "", "verdict": "CORRECT"}')

    endpoint.script = script
    case = Case("a", "b", expected=("c",))
    with pool(endpoint) as live:
        for number in range(2):
            end = one(live, replace(job(number, CLASSIFICATION), case=replace(case, query=f"{number}")))
            assert end.judged
            assert end.judged.categories == {"answer_class": "CORRECT"}
    kinds = [asked.body["response_format"]["type"] for asked in endpoint.asked]
    assert kinds == ["json_schema"] * 3, "it is remembered"
    assert [sorted(bounds(asked.body["response_format"])) for asked in endpoint.asked] == [[64, 400], [], []]
    checks = [asked.body["response_format"]["json_schema"]["schema"]["properties"]["check"] for asked in endpoint.asked]
    assert [each.get("pattern") for each in checks] == ["^[0-9a-f]{16}$", None, None]
    assert all("at most 400 characters" in asked.body["messages"][0]["content"] for asked in endpoint.asked)


def ignores_schemas(asked: AskedCall) -> Reply:
    """Takes every response_format and obeys none: the model knows of the prompt alone."""
    knows = '"additionalProperties"' in asked.body["messages"][0]["content"]
    return completion(asked) if knows else completion(asked, '{"grade": "good", "check": "CHECK"}')


def test_an_endpoint_that_ignores_schemas_in_silence_is_asked_by_the_prompt_and_it_is_logged(
    endpoint: Endpoint,
) -> None:
    """Its first answer shows it; the repair has the schema in the prompt, and so has every later question."""
    endpoint.script = ignores_schemas
    with structlog.testing.capture_logs() as logs, pool(endpoint) as live:
        assert [judged_score(one(live, job(number))) for number in range(3)] == [0.5] * 3
    forms = [asked.body["response_format"]["type"] for asked in endpoint.asked]
    assert forms == ["json_schema", "json_object", "json_object", "json_object"]
    changes = [each for each in logs if each["event"] == "response format of the judge changed"]
    assert [(each["answers"], each["ignored_schemas"]) for each in changes] == [("json_object", True)]


@pytest.mark.parametrize("odd", ["prose", '{"grade": 1, "check": "CHECK"}', "[]", '{"score": 0.5}'])
def test_one_odd_answer_does_not_change_how_all_others_are_asked(endpoint: Endpoint, odd: str) -> None:
    """Its repair is asked by the prompt; where most answers fit, schemas go on."""
    with pool(endpoint) as live:
        assert judged_score(one(live)) == 0.5
        endpoint.script = lambda asked: (
            completion(asked)
            if asked.body["response_format"]["type"] != "json_schema"
            else (completion(asked, odd) if "odd" in asked.text else completion(asked))
        )
        assert judged_score(one(live, job(1, response="odd"))) == 0.5
        one(live, job(2))
    forms = [asked.body["response_format"]["type"] for asked in endpoint.asked]
    assert forms == ["json_schema", "json_schema", "json_object", "json_schema"]


@pytest.mark.parametrize("weak", ['{"score": 5, "check": "CHECK"}', '{"score": "high", "check": "CHECK"}'])
def test_an_answer_of_the_right_shape_is_no_sign_that_schemas_are_ignored(endpoint: Endpoint, weak: str) -> None:
    endpoint.script = lambda asked: completion(asked, weak)
    with pool(endpoint) as live:
        one(live)
    assert {asked.body["response_format"]["type"] for asked in endpoint.asked} == {"json_schema"}


def test_a_schema_that_the_settings_require_is_kept_even_if_it_is_ignored(endpoint: Endpoint) -> None:
    endpoint.script = ignores_schemas
    with pool(endpoint, answers="json_schema") as live:
        assert why_null(one(live)) == "the judge's answer did not fit its schema"
    assert {asked.body["response_format"]["type"] for asked in endpoint.asked} == {"json_schema"}


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        (
            "Invalid schema for response_format 'a': In context=('properties', 'check'), 'pattern' is not permitted.",
            True,
        ),
        ("For 'string' type, property 'pattern' is not supported", True),
        ("For 'number' type, properties maximum, minimum are not supported", False),
        ("The provided JSON schema contains features not supported by xgrammar.", False),
    ],
)
def test_a_bound_that_an_endpoint_does_not_take_is_left_out(endpoint: Endpoint, message: str, kept: bool) -> None:
    """In the words of OpenAI, Anthropic and vLLM: of strings alone, or of all."""
    endpoint.then(error(400, message))
    endpoint.script = lambda asked: completion(asked, BOUNDED_ANSWER)
    with pool(endpoint) as live:
        assert judged_score(one(live, job(0, BOUNDED)), "bounded") == 0.5
    first, second = (json.dumps(asked.body["response_format"]) for asked in endpoint.asked)
    for keyword, is_kept in (("pattern", False), ("maxLength", False), ("minimum", kept), ("minItems", kept)):
        assert (f'"{keyword}"' in first, f'"{keyword}"' in second) == (True, is_kept)


def test_text_can_be_chosen(endpoint: Endpoint) -> None:
    with pool(endpoint, answers="text") as live:
        assert judged_score(one(live)) == 0.5
    (asked,) = endpoint.asked
    assert "response_format" not in asked.body
    assert '"additionalProperties"' in asked.body["messages"][0]["content"]


@pytest.mark.parametrize("forced", ["json_schema", "json_object"])
def test_a_form_that_the_settings_force_is_kept(endpoint: Endpoint, forced: str) -> None:
    endpoint.script = understands(None)
    with pool(endpoint, answers=forced) as live:
        assert why_null(one(live)) == "the judge does not support a setting of its answers"
    assert [asked.body["response_format"]["type"] for asked in endpoint.asked] == [forced]


def test_models_that_want_other_names_or_their_own_temperature_are_asked_so(endpoint: Endpoint) -> None:
    def script(asked: AskedCall) -> Reply:
        if "max_tokens" in asked.body:
            return error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in asked.body:
            return error(400, "Unsupported value: 'temperature' does not support 0 with this model.")
        return completion(asked)

    endpoint.script = script
    with pool(endpoint, max_output_tokens=99) as live:
        assert judged_score(one(live)) == 0.5
    assert endpoint.asked[-1].body["max_completion_tokens"] == 99


def test_what_a_model_rejects_can_be_set_so_that_no_start_tries_it(endpoint: Endpoint) -> None:
    limits = {"temperature": None, "output_limit": "max_completion_tokens", "max_output_tokens": 99}
    with pool(endpoint, **limits) as live:
        one(live)
    (asked,) = endpoint.asked
    assert asked.body["max_completion_tokens"] == 99
    assert not {"temperature", "max_tokens"} & asked.body.keys()


def test_a_limit_that_the_settings_require_is_kept(endpoint: Endpoint) -> None:
    endpoint.script = lambda _: error(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    with pool(endpoint, output_limit="max_tokens") as live:
        assert why_null(one(live)) == "the judge does not support a setting of its length"
    assert len(endpoint.asked) == 1


# Money and limits.


CACHED = {"prompt_tokens": 100, "completion_tokens": 30, "prompt_tokens_details": {"cached_tokens": 80}}


def test_cached_input_and_reasoning_have_prices_and_counts_of_their_own(endpoint: Endpoint) -> None:
    usage = CACHED | {"completion_tokens_details": {"reasoning_tokens": 20}}
    endpoint.script = lambda asked: completion(asked, usage=usage)
    price = Price(input_usd=10, output_usd=100, cached_usd=1, reasoning_usd=50)
    with pool(endpoint, prices={"gpt-4o-mini": price}) as live:
        end = one(live)
        counts = live.drain_metrics().counts
    assert end.usage.cost == 20 * 10 + 80 * 1 + 10 * 100 + 20 * 50
    assert (end.usage.input_tokens, end.usage.output_tokens) == (100, 30)
    assert counts["ragweir_judge_cached_tokens_total",] == 80
    assert counts["ragweir_judge_reasoning_tokens_total",] == 20
    assert counts["ragweir_judge_cost_microdollars_total",] == end.usage.cost


def test_the_ledger_has_what_cached_input_costs_to_the_millionth(endpoint: Endpoint) -> None:
    """Reserved is the price of input that is not cached; the evaluation and the ledger have what was charged."""
    endpoint.script = lambda asked: completion(asked, usage=CACHED)
    price = Price(input_usd=10, output_usd=100, cached_usd=1)
    judge = JudgeSettings(base_url=endpoint.base_url, prices={"gpt-4o-mini": price})
    live, log = LiveJudgePool(judge), Log()
    log.ask(*(request(f"{number}") for number in range(3)))
    try:
        worker = Worker(log, JudgeAgent(JudgeConfig({"grading": suite("grading")}, judge, 1), live))
        until(lambda: worker.turn() is not None and len(log.read("evaluations")) == 3)
    finally:
        live.close()
    charged = 20 * 10 + 80 * 1 + 30 * 100
    assert [each["judge"]["cost_usd"] for each in log.read("evaluations")] == [charged / 1_000_000] * 3
    entries = [each for each in log.read("judge.ledger") if each]
    assert max(each["reserved"] for each in entries) > 3 * charged
    assert (entries[-1]["spent"], entries[-1]["reserved"]) == (3 * charged, 0)


@pytest.mark.parametrize("cached", [101, -1, 1.5, "80", True])
def test_a_discount_that_cannot_be_is_not_taken_and_is_flagged(endpoint: Endpoint, cached: object) -> None:
    endpoint.script = lambda asked: completion(
        asked, usage=CACHED | {"prompt_tokens_details": {"cached_tokens": cached}}
    )
    price = Price(input_usd=10, output_usd=100, cached_usd=1)
    with pool(endpoint, prices={"gpt-4o-mini": price}) as live:
        end = one(live)
    assert end.usage.cost == 100 * 10 + 30 * 100
    assert end.usage.flags == {"usage_implausible"}


def test_a_reservation_holds_for_answers_that_are_all_reasoning(endpoint: Endpoint) -> None:
    endpoint.script = lambda asked: completion(
        asked, usage=CACHED | {"completion_tokens": 100, "completion_tokens_details": {"reasoning_tokens": 100}}
    )
    price = Price(input_usd=0, output_usd=1, reasoning_usd=10)
    for allowance, asked in ((999, 0), (1_000, 1)):
        with pool(endpoint, prices={"gpt-4o-mini": price}, max_output_tokens=100) as live:
            end = one(live, job(0, allowance=allowance))
        assert (end.usage.cost, len(endpoint.asked)) == (1_000 * asked, asked)


def test_a_call_that_could_cost_more_than_is_left_is_not_made(endpoint: Endpoint) -> None:
    with pool(endpoint, max_output_tokens=1_000) as live:
        end = one(live, job(0, allowance=10_000))
    assert why_null(end) == "its reservation is used up"
    assert (endpoint.asked, end.usage.cost) == ([], 0)


def test_what_a_job_pays_stays_within_its_allowance_even_if_each_answer_is_the_most_expensive(
    endpoint: Endpoint,
) -> None:
    endpoint.script = lambda asked: completion(
        asked, usage={"prompt_tokens": sum(len(m["content"]) for m in asked.body["messages"]), "completion_tokens": 100}
    )
    with pool(endpoint, max_output_tokens=100) as live:
        for number, allowance in enumerate(range(3_000, 20_000, 1_700)):
            end = one(live, job(number, suite("a", 3), suite("b", 3), allowance=allowance))
            assert 0 < end.usage.cost <= allowance


@pytest.mark.slow
def test_money_that_broken_calls_used_up_lets_the_job_come_again(endpoint: Endpoint) -> None:
    """What broke off may be on the bill. A null for want of money would blame the event for it."""
    endpoint.then(HANG)
    with pool(endpoint, timeout_s=0.2, max_output_tokens=1_000) as live:
        end = one(live, job(0, allowance=15_000))
    assert (end.judged, end.why, end.usage.calls) == (None, "the judge did not answer in time", 1)
    assert 10_000 < end.usage.cost <= 15_000


def test_each_call_is_booked_on_the_day_on_which_it_goes_out_and_none_on_a_day_without_a_reservation(
    endpoint: Endpoint,
) -> None:
    """Of six calls two go out on each day; the third day has no reservation."""
    days = iter(("sat", "sun", "mon"))
    today = [next(days)]

    def script(asked: AskedCall) -> Reply:
        if len(endpoint.asked) % 2 == 0:
            today[0] = next(days)  # It is another day when the answer comes.
        return completion(asked)

    endpoint.script = script
    with pool(endpoint) as live:
        end = one(live, replace(job(0, suite("a", 6)), days=("sat", "sun"), today=lambda: today[0]))
    assert (end.judged, end.why, end.day_over) == (None, "the day of its reservation is over", True)
    assert end.usage.costs == {"sat": 2 * cost(PRICE, 100, 10), "sun": 2 * cost(PRICE, 100, 10)}
    assert len(endpoint.asked) == 4


@pytest.mark.slow
def test_no_window_at_the_endpoint_holds_more_requests_than_the_limit(endpoint: Endpoint) -> None:
    """Retries and answers that come late included; and none comes in the first window."""
    chance = Counter[str]()

    def script(asked: AskedCall) -> Reply:
        chance["calls"] += 1
        time.sleep(0.02 * (chance["calls"] % 4))
        return error(500) if chance["calls"] % 3 == 0 else completion(asked)

    endpoint.script = script
    began = time.monotonic()
    with pool(endpoint, requests_per_minute=4, window_s=0.25) as live:
        finish(live, map(job, range(12)))
    times = [asked.at for asked in endpoint.asked]
    assert times[0] > began + 0.25
    assert max(sum(end - 0.25 <= at <= end for at in times) for end in times) <= 4


def test_a_question_larger_than_the_limit_of_tokens_is_null(endpoint: Endpoint) -> None:
    with pool(endpoint, tokens_per_minute=1_000, window_s=0.01) as live:
        assert why_null(one(live)) == "the question is larger than judge.tokens_per_minute admits"
    assert endpoint.asked == []


# Stored answers.


def test_an_equal_question_is_answered_from_the_cache_for_nothing(endpoint: Endpoint) -> None:
    with pool(endpoint) as live:
        first, second = one(live, job(7, suite("a", 2))), one(live, job(7, suite("a", 2)))
        assert calls(live.drain_metrics().counts) == {"ok": 2, "cached": 2}
    assert first.judged == second.judged
    assert (second.usage.calls, second.usage.cached, second.usage.cost) == (0, 2, 0)


def test_a_fresh_job_takes_no_stored_answer_and_leaves_none(endpoint: Endpoint) -> None:
    """Anchors are judged anew each time, and an event with the same texts is not answered by them."""
    fresh = replace(job(7, suite("a", 2)), fresh=True)
    with pool(endpoint) as live:
        for each in (fresh, fresh, job(7, suite("a", 2)), fresh):
            one(live, each)
        assert calls(live.drain_metrics().counts) == {"ok": 8}


def test_another_body_is_asked_itself(endpoint: Endpoint, tmp_path: Path) -> None:
    """With more effort a model may answer otherwise."""
    for effort in ("low", "high", "low"):
        with pool(endpoint, extra_body={"reasoning_effort": effort}, cache_file=tmp_path / "answers") as live:
            one(live)
    assert [asked.body["reasoning_effort"] for asked in endpoint.asked] == ["low", "high"]


def test_another_model_is_asked_itself(endpoint: Endpoint, tmp_path: Path) -> None:
    for model in ("one", "two", "one"):
        with pool(endpoint, model=model, cache_file=tmp_path / "answers") as live:
            one(live)
    assert [asked.body["model"] for asked in endpoint.asked] == ["one", "two"]


PROSE = Reply(
    said={"choices": [{"message": {"content": "I think 0.5."}}], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
)


def test_the_answer_of_a_repair_is_kept_for_the_question_that_led_to_it(endpoint: Endpoint) -> None:
    endpoint.then(PROSE)
    with pool(endpoint) as live:
        ended = [one(live) for _ in range(2)]
        assert [judged_score(end) for end in ended] == [0.5, 0.5]
        assert live.drain_metrics().counts["ragweir_judge_repairs_total",] == 1
    assert len(endpoint.asked) == 2


def test_an_answer_that_could_not_be_used_is_not_kept(endpoint: Endpoint) -> None:
    """Neither the first nor that of the repair, whatever is asked after it."""
    endpoint.then(PROSE, PROSE)
    with pool(endpoint) as live:
        two = suite("two", 1), suite("other", 1)
        assert why_null(one(live, job(0, *two)), "two") == "the judge's answer was not JSON"
        again = one(live, job(0, *two))
        assert judged_score(again, "two") == 0.5
        assert again.usage.cached == 1
    assert len(endpoint.asked) == 4, "two in vain, one of the other suite, and the first question again"


@pytest.mark.slow
def test_forty_events_are_judged_again_from_the_cache_alone_though_many_answers_had_to_be_repaired(
    tmp_path: Path,
) -> None:
    """The judge is simulated; 12 % of its answers cannot be used."""
    settings: dict[str, Any] = {"cache_file": tmp_path / "answers", "concurrency": 40, "model": "simulated-judge"}
    cases = [
        Case(f"How far is town {number}?", f"{number} miles.", (f"Town {number} is {number} miles off.",))
        for number in range(40)
    ]
    jobs = [replace(job(number, RUBRIC), case=case) for number, case in enumerate(cases)]
    # One after the other, since faults are drawn in the order of requests; by this seed no repair meets one.
    faults = Faults(shares={"prose": 0.06, "wrong-schema": 0.03, "cut-answer": 0.03}, seed=6)
    with simulated_judge(faults=faults) as judge:
        with pool(None, base_url=judge.base_url, **settings) as live:
            first = [one(live, each).judged for each in jobs]
            assert live.drain_metrics().counts["ragweir_judge_repairs_total",] >= 3
        calls_before = judge.calls()["count"]
        assert calls_before > 40
        for again in ({"base_url": judge.base_url}, {"cached_only": True}):
            with pool(None, **settings | again) as live:
                ended = finish(live, jobs)
            assert [ended[number].usage.cached for number in range(40)] == [1] * 40
            for number, judged in enumerate(first):
                found = ended[number].judged
                assert judged is not None
                assert found is not None
                assert found.scores == judged.scores
                assert found.statuses == {"rubric": "judged"}
        assert judge.calls()["count"] == calls_before


def test_cached_only_calls_nobody(endpoint: Endpoint, tmp_path: Path) -> None:
    with pool(endpoint, cache_file=tmp_path / "answers") as live:
        one(live, job(1))
    with pool(None, cached_only=True, cache_file=tmp_path / "answers", embedding_model="e") as live:
        ended = finish(live, [job(1), job(2), job(3, embedding_suite())])
        assert judged_score(ended[1]) == 0.5
        assert (why_null(ended[2]), why_null(ended[3], "vectors")) == ("not in the cache", "not in the cache")
        assert live.unavailable_reason == ""
    assert len(endpoint.asked) == 1


# Embeddings.


def vectors(asked: AskedCall) -> Reply:
    data = [{"index": at, "embedding": [1.0, at]} for at, _ in enumerate(asked.body["input"])]
    return Reply(said={"data": data[::-1], "usage": {"prompt_tokens": 30, "total_tokens": 30}})


def test_vectors_come_from_the_endpoint_where_it_has_a_model_for_them(endpoint: Endpoint) -> None:
    endpoint.script = vectors
    prices = {"gpt-4o-mini": PRICE, "e": Price(input_usd=2, output_usd=0)}
    with pool(endpoint, embedding_model="e", prices=prices) as live:
        end = one(live, job(0, embedding_suite()))
    assert (judged_score(end, "vectors"), end.usage.cost, end.usage.input_tokens) == (0.2, 60, 30)
    assert endpoint.asked[0].path == "/v1/embeddings"
    assert endpoint.asked[0].body["input"] == ["a question", "an answer 0"]


@pytest.mark.parametrize(
    "data", [[], [{"index": 0, "embedding": [1]}], [{"index": i, "embedding": [i] * (i + 1)} for i in (0, 1)]]
)
def test_vectors_that_do_not_fit_the_texts_are_no_answer(endpoint: Endpoint, data: object) -> None:
    endpoint.script = lambda _: Reply(said={"data": data})
    with pool(endpoint, embedding_model="e", attempts=2) as live:
        assert one(live, job(0, embedding_suite())).why == "the judge's endpoint sent what is no answer"


class Local:
    """Gives vectors, and sees how many ask at once."""

    name = "local"

    def __init__(self) -> None:
        self.at_once, self.most = 0, 0

    def embed(self, embed: Embed) -> Vectors | Null:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        time.sleep(0.005)
        self.at_once -= 1
        return [np.ones(2, np.float32) for _ in embed.texts]


def test_without_one_the_local_model_gives_them_one_request_at_a_time(endpoint: Endpoint) -> None:
    local = Local()
    with pool(endpoint, embedder=lambda: local) as live:
        ended = finish(live, [job(number, embedding_suite()) for number in range(8)])
    assert {judged_score(end, "vectors") for end in ended.values()} == {0.2}
    assert (local.most, endpoint.asked) == (1, [])


def test_vectors_of_tokens_come_from_the_local_model_even_if_the_endpoint_has_one(endpoint: Endpoint) -> None:
    with pool(endpoint, embedder=Local, embedding_model="e") as live:
        assert judged_score(one(live, job(0, embedding_suite(tokens=True))), "vectors") == 0.2
    assert endpoint.asked == []


def test_without_the_extra_they_are_null_and_the_reason_names_it(endpoint: Endpoint) -> None:
    def missing() -> Local:
        raise ConfigurationError("not installed")

    with pool(endpoint, embedder=missing) as live:
        for number in range(2):
            why = why_null(one(live, job(number, embedding_suite())), "vectors")
            assert why == "embeddings need the extra semantic, or judge.embedding_model"


# Jobs.


def test_a_job_that_is_cancelled_is_not_heard_of_and_may_begin_again(endpoint: Endpoint) -> None:
    endpoint.then(HANG)
    with pool(endpoint) as live:
        live.start(job())
        until(lambda: endpoint.asked)
        live.cancel([job().id, ("another", 0, 0)])
        assert judged_score(one(live)) == 0.5
        assert calls(live.drain_metrics().counts) == {"broken_off": 1, "ok": 1}
        assert live.take_results() == []
        assert live.drain_metrics().levels["ragweir_judge_in_flight",] == 0


def test_a_job_that_ended_before_it_was_cancelled_is_not_heard_of(endpoint: Endpoint) -> None:
    with pool(endpoint) as live:
        live.start(job())
        until(live._runs[job().id].done)
        live.cancel([job().id])
        live.start(job())
        until(live._runs[job().id].done)
        (end,) = live.take_results()
        assert end.usage.cached == 1, "the second run found the first one's answer"


def test_a_probe_that_is_cancelled_leaves_the_endpoint_to_another(endpoint: Endpoint) -> None:
    endpoint.then(error(500), HANG)
    with pool(endpoint, breaker_failures=1) as live:
        live.start(job())
        until(lambda: len(endpoint.asked) == 2)
        live.cancel([job().id])
        until(lambda: not live.unavailable_reason)
        assert judged_score(one(live, job(1))) == 0.5


def test_more_jobs_than_the_settings_allow_are_an_error_of_whoever_starts_them(endpoint: Endpoint) -> None:
    endpoint.script = lambda _: HANG
    with pool(endpoint, concurrency=2) as live:
        live.start(job(0))
        with pytest.raises(ValueError, match="twice"):
            live.start(job(0))
        live.start(job(1))
        with pytest.raises(ValueError, match="concurrency"):
            live.start(job(2))


@pytest.mark.slow
def test_many_jobs_are_under_way_at_once(endpoint: Endpoint) -> None:
    together = threading.Barrier(40, timeout=SECONDS)

    def script(asked: AskedCall) -> Reply:
        together.wait()
        return completion(asked)

    endpoint.script = script
    with pool(endpoint, concurrency=40) as live:
        assert {judged_score(end) for end in finish(live, map(job, range(40))).values()} == {0.5}


def test_closing_breaks_off_what_is_under_way_and_leaves_no_thread(endpoint: Endpoint) -> None:
    endpoint.script = lambda _: HANG
    with pool(endpoint) as live:
        live.start(job())
        until(lambda: endpoint.asked)
        assert any(thread.name == "judge-pool" for thread in threading.enumerate())
    assert not any(thread.name == "judge-pool" for thread in threading.enumerate())


# Logs.


@pytest.mark.slow
def test_neither_the_texts_nor_the_key_are_ever_told(
    endpoint: Endpoint, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if the endpoint sends them back in what it says of an error."""
    monkeypatch.setattr(client, "_UNUSABLE_PAUSE_S", 0.05)
    secret = secrets.token_hex(8)
    statuses = iter([500, 429, 401, 400, 422, 404, 200])

    def script(asked: AskedCall) -> Reply:
        status = next(statuses, 200)
        return (
            completion(asked, f"no JSON, but {asked.text}") if status == 200 else error(status, asked.text + asked.key)
        )

    endpoint.script = script
    with structlog.testing.capture_logs() as logs, pool(endpoint, api_key=f"sk-{secret}", breaker_failures=1) as live:
        ended = [one(live, job(number, response=secret)) for number in range(4)]
        told = [str(live.drain_metrics().counts), *(str(end) for end in ended)]
    assert secret not in json.dumps([logs, told, *capfd.readouterr()])
    assert [line["event"] for line in logs].count("circuit breaker of the judge opened") == 4
