"""A real model as the judge: what it says is poor, and protocol, usage, cost and failures are those of a real server.

SmolLM2-135M is too weak to judge well; nothing here is about the worth of its scores.
"""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from llama_server import ENVIRONMENT, LlamaServer
from services import require

from ragweir.metrics.judged.asking import Share, ask
from ragweir.metrics.judged.suite import Answer, Case, Conversation, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null
from ragweir.streams.services.judge.job import Job, JobResult
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.judge.pricing import cost
from ragweir.streams.services.judge.probe import error_message, probe
from ragweir.streams.services.judge.protocol import JudgeError
from ragweir.streams.settings import JudgeSettings, Price

EVENTS = int(os.environ.get("MODEL_EVENTS", "50"))
PRICE = Price(input_usd=1, output_usd=10, cached_usd=0.5)
DAY = "2026-11-26"
PATIENCE_S = 3_600
"""The machine may be busy; no test is about speed."""
NAMED = (
    "the judge's answer lacks its check word",
    "the judge's answer was cut; raise judge.max_output_tokens",
    "the judge's answer did not fit its schema",
    "the judge's answer was not JSON",
)

pytestmark = pytest.mark.skipif(not ENVIRONMENT.is_dir(), reason="`make test-model` installs the model")


class Graded(Answer):
    """A grade."""

    score: Share


def converse(case: Case) -> Conversation:
    task = "Does the response answer the query? Give a score from 0 to 1."
    said = yield from ask(task, (("query", case.query), ("response", case.response)), Graded)
    return SuiteResult({"grade": said if isinstance(said, Null) else said.score})


GRADING = Suite(
    "grading", "1", (Metric(print, "test", "ratio", "higher", (), "test", cost="llm", name="grade"),), converse, 1
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    made = LlamaServer(tmp_path_factory.mktemp("model") / "server.log")
    made.start()
    yield made
    made.kill()


def settings(server: LlamaServer, **more: Any) -> JudgeSettings:
    plain: dict[str, Any] = {"base_url": server.base_url, "model": "smollm2", "prices": {"smollm2": PRICE}}
    plain |= {"timeout_s": 600, "concurrency": 1, "max_output_tokens": 100, "breaker_wait_s": 0.5, "attempts": 1}
    return JudgeSettings(**plain | more)


@contextmanager
def pool(server: LlamaServer, **more: Any) -> Iterator[LiveJudgePool]:
    live = LiveJudgePool(settings(server, **more), backoff_s=0.01)
    try:
        yield live
    finally:
        live.close()


def job(number: int) -> Job:
    case = Case(f"How far is town {number}?", f"Town {number} is {number} miles off.")
    return Job(("requests", 0, number), case, (GRADING,), 10**9, (DAY,), lambda: DAY)


def ended(live: LiveJudgePool) -> JobResult:
    found: list[JobResult] = []

    def has_ended() -> bool:
        found.extend(live.take_results())
        return bool(found)

    require(has_ended, PATIENCE_S, "the model did not answer", 0.02)
    return found[0]


def test_a_weak_model_judges_at_least_half_of_the_events_under_the_grammar(server: LlamaServer) -> None:
    """Its answers have the form of the schema, by the server's grammar; the others failed with a reason that is named.

    Usage is what the server counts itself, and the cost that usage at its prices, to the millionth.
    """
    before, results = server.tokens(), []
    with pool(server) as live:
        for number in range(EVENTS):
            live.start(job(number))
            results.append(ended(live))
        counts = live.drain_metrics().counts
    statuses, reasons = Counter[str](), Counter[str]()
    for each in results:
        assert each.judged is not None, each.why
        statuses.update(each.judged.statuses.values())
        reasons.update(each.judged.reasons.values())
    print(f"\n{EVENTS} events: {dict(statuses)}; reasons of those that failed: {dict(reasons)}")
    assert statuses["judged"] >= EVENTS / 2
    assert set(reasons) <= set(NAMED)
    cached = counts["ragweir_judge_cached_tokens_total",]
    read, written = (now - then for now, then in zip(server.tokens(), before, strict=True))
    assert sum(each.usage.input_tokens for each in results) - cached == read
    assert sum(each.usage.output_tokens for each in results) == written
    spent = sum(each.usage.cost for each in results)
    exact = (read + cached) * 1 - cached * 0.5 + written * 10
    calls = sum(each.usage.calls for each in results)
    assert exact <= spent <= exact + calls, "each call is rounded up"
    print(f"{calls} calls, {read + cached} tokens in ({cached} cached), {written} out, {spent} millionths of a dollar")
    assert counts["ragweir_judge_calls_total", "ok"] == calls


def test_a_model_that_cannot_answer_is_said_so_in_a_sentence_costs_what_it_cost_and_stops_nothing(
    server: LlamaServer,
) -> None:
    """Without the grammar it does not keep to the form."""
    chosen = settings(server, answers="text")
    with pytest.raises(JudgeError) as caught:
        probe(chosen)
    told = error_message(chosen, caught.value)
    assert told.startswith(f"{server.base_url}: its answer is of no use: the judge's answer ")
    assert "\n" not in told
    before = server.tokens()
    with pool(server, answers="text") as live:
        live.start(job(0))
        result = ended(live)
        assert live.unavailable_reason == ""
    assert result.judged is not None
    assert result.judged.statuses == {"grading": "failed"}
    assert result.judged.reasons["grade"] in NAMED
    written = server.tokens()[1] - before[1]
    assert result.usage.output_tokens == written
    assert result.usage.cost >= cost(PRICE, 0, written)


def test_an_answer_that_is_cut_is_named(server: LlamaServer) -> None:
    """Its suite asks for more than fits."""
    long = Suite("long", "1", (Metric(print, "t", "ratio", "higher", (), "t", cost="llm", name="long"),), _long, 1)
    with pool(server, max_output_tokens=64) as live:
        live.start(Job(("requests", 0, 0), Case("Why?", "So."), (long,), 10**9, (DAY,), lambda: DAY))
        result = ended(live)
    assert result.judged is not None
    assert result.judged.reasons == {"long": "the judge's answer was cut; raise judge.max_output_tokens"}
    assert result.usage.output_tokens == 64 * result.usage.calls


class Several(Answer):
    """Many numbers."""

    scores: tuple[Share, ...]
    more: tuple[Share, ...]
    others: tuple[Share, ...]


def _long(case: Case) -> Conversation:
    task = "Give a thousand scores from 0 to 1 in each list."
    said = yield from ask(task, (("response", case.response),), Several)
    return SuiteResult({"long": said if isinstance(said, Null) else 1.0})


def test_a_call_that_takes_too_long_is_booked_with_the_most_it_can_cost(server: LlamaServer) -> None:
    with pool(server, timeout_s=0.05, breaker_failures=9) as live:
        live.start(job(100))
        result = ended(live)
    assert (result.judged, result.why) == (None, "the judge did not answer in time")
    assert result.usage.cost > cost(PRICE, 500, 100)
    require(lambda: _answers(server), PATIENCE_S, "the server is still busy with the call that was given up", 0.2)


def _answers(server: LlamaServer) -> bool:
    with pool(server) as live:
        live.start(job(101))
        result = ended(live)
    return result.judged is not None


def test_a_server_that_is_killed_in_mid_call_and_started_again_goes_on(server: LlamaServer) -> None:
    """The call that broke off is booked at its most; the event is judged when the model is loaded again."""
    with pool(server, breaker_failures=1, attempts=20) as live:
        live.start(job(200))
        require(server.is_working, PATIENCE_S, "no call", 0.02)
        server.kill()
        require(lambda: live.unavailable_reason, PATIENCE_S, "the breaker did not open", 0.02)
        server.start()
        result = ended(live)
        counts = live.drain_metrics().counts
    assert result.judged is not None, result.why
    assert counts["ragweir_judge_calls_total", "cut"] == 1
    assert result.usage.cost > cost(PRICE, 500, 100)
