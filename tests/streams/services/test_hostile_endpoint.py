"""An endpoint that speaks badly in every way: each call is a failure that the breaker sees and that is booked.

The endpoint is a real server on loopback that writes raw bytes.
"""

import asyncio
import gzip
import itertools
import json
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import orjson
import pytest
from decisions_endpoint import decided
from hostile_endpoint import Attack, Hostile, Request, good, hostile, http, said
from scripted_judge import NOON, Log, Worker
from services import until

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.deciding import DecisionQuestion, Option, scale
from ragweir.metrics.judged.driver import DecisionCall
from ragweir.metrics.judged.framing import Framed
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.suite import Answer, Ask, Case, Conversation, Embed, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.client import Client
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.decisions import decisions
from ragweir.streams.services.judge.job import Job, JobResult
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.judge.pricing import cost
from ragweir.streams.services.judge.protocol import (
    MAX_NAME_CHARACTERS,
    MAX_RESPONSE_BYTES,
    EndpointRequest,
    EndpointResponse,
    JudgeError,
    ResponseFormat,
    embedding,
)
from ragweir.streams.settings import JudgeSettings, Price

PRICE = Price(input_usd=1, output_usd=10)
PLENTY = 10**12
DAY = "2026-11-22"
MOST_OUTPUT = 100
MEGABYTE = 1024 * 1024


# Attacks.


def always(*pieces: bytes) -> Attack:
    return lambda _: pieces


def answering(change: Callable[[bytes], Iterable[bytes]]) -> Attack:
    """Takes what would be a usable answer, as JSON, and does something to it."""
    return lambda request: change(json.dumps(good(request)).encode())


def endless(piece: bytes, *before: bytes) -> Attack:
    return lambda _: itertools.chain(before, itertools.repeat(piece))


def dripping(piece: bytes, *before: bytes) -> Attack:
    def drip(_: Request) -> Iterator[bytes]:
        yield from before
        while True:
            time.sleep(0.01)
            yield piece

    return drip


def bomb(size: int, wbits: int, encoding: str) -> Attack:
    """So many bytes of nothing, compressed when they are asked for, as every test worker imports this."""

    def packed(_: Request) -> Iterable[bytes]:
        packer = zlib.compressobj(1, wbits=wbits)
        pieces = [packer.compress(bytes(MEGABYTE)) for _ in range(size // MEGABYTE)]
        return [http(b"".join([*pieces, packer.flush()]), "200 OK", f"Content-Encoding: {encoding}")]

    return packed


def reset(request: Request) -> Iterator[bytes]:
    yield http(json.dumps(good(request)).encode())[:-20]
    raise OSError


# The pool.


class Graded(Answer):
    """A grade."""

    score: float


def _metric(name: str) -> Metric:
    return Metric(print, "test", "ratio", "higher", (), "test", cost="llm", name=name)


def _grading(case: Case) -> Conversation:
    reply = yield Ask("Grade it.", (("response", case.response),), Graded)
    return SuiteResult({"grade": reply.score if isinstance(reply, Graded) else Null("no grade")})


def _embedding(case: Case) -> Conversation:
    reply = yield Embed((case.query, case.response))
    return SuiteResult({"vectors": reply if isinstance(reply, Null) else 1.0})


GRADING = Suite("grading", "1", (_metric("grade"),), _grading, 1)
VECTORS = Suite("vectors", "1", (_metric("vectors"),), _embedding, 0)


def settings(server: Hostile, **more: Any) -> JudgeSettings:
    plain: dict[str, Any] = {
        "base_url": server.base_url,
        "api_key": "sk-of-the-test",
        "model": "asked",
        "prices": {"asked": PRICE, "e": PRICE},
        "timeout_s": 30,
        "attempts": 1,
        "breaker_failures": 2,
        "breaker_wait_s": 60,
        "max_output_tokens": MOST_OUTPUT,
    }
    return JudgeSettings(**plain | more)


@contextmanager
def pool(server: Hostile, **more: Any) -> Iterator[LiveJudgePool]:
    live = LiveJudgePool(settings(server, **more), backoff_s=0.001)
    try:
        yield live
    finally:
        live.close()


def finished(live: LiveJudgePool, number: int = 1) -> list[JobResult]:
    deadline, ended = time.monotonic() + 30, list[JobResult]()
    while len(ended) < number:
        assert time.monotonic() < deadline
        ended += live.take_results()
        time.sleep(0.002)
    return ended


def job(*suites: Suite, number: int = 0) -> Job:
    case = Case("What is two and two?", f"It is four. {number}", ("Two and two is four.",))
    return Job(("requests", 0, number), case, suites or (GRADING,), PLENTY, (DAY,), lambda: DAY)


def outcomes(counts: Mapping[tuple[str, ...], int]) -> dict[str, int]:
    return {label[1]: number for label, number in counts.items() if label[0] == "ragweir_judge_calls_total"}


# Answers that are none: what was sent, how it counts, and whether it may be on the bill.

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DEEP = b"[" * 500_000
LONG = "the judge's endpoint sent too long an answer"
NONE = "the judge's endpoint sent what is no answer"
BROKE = "the connection to the judge broke"
LATE = "the judge did not answer in time"

GARBLED: dict[str, tuple[Attack, str, str]] = {
    # No HTTP.
    "nothing": (always(), "cut", BROKE),
    "HTTP/0.9": (always(b"<html>hello</html>"), "unusable", NONE),
    "binary": (always(bytes(range(256)) * 16), "unusable", NONE),
    "TLS": (always(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"), "unusable", NONE),
    "another protocol": (always(b"SSH-2.0-OpenSSH_9.2\r\n"), "unusable", NONE),
    "status of letters": (always(b"HTTP/1.1 abc OK\r\n\r\n"), "unusable", NONE),
    "status 999": (always(http(b"{}", "999 Strange")), "unusable", NONE),
    "status 600": (always(http(b"{}", "600 Strange")), "unusable", NONE),
    "another version": (always(b"HTTP/3.7 200 OK\r\nContent-Length: 2\r\n\r\n{}"), "unusable", NONE),
    # Heads.
    "a status line without end": (endless(b"x" * 4096, b"HTTP/1.1 200 "), "unusable", NONE),
    "a header without end": (endless(b"x" * 4096, HEAD, b"X: "), "unusable", NONE),
    "headers without end": (endless(b"X-%d: y\r\n" % 7 * 100, HEAD), "unusable", NONE),
    "headers in drops": (dripping(b"X: y\r\n", HEAD), "timeout", LATE),
    "1xx without end": (dripping(b"HTTP/1.1 100 Continue\r\n\r\n"), "timeout", LATE),
    "two lengths": (always(HEAD + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}}"), "unusable", NONE),
    "a length of letters": (always(HEAD + b"Content-Length: two\r\n\r\n{}"), "unusable", NONE),
    "a negative length": (always(HEAD + b"Content-Length: -2\r\n\r\n{}"), "unusable", NONE),
    # Bodies.
    "switching protocols": (always(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"), "unusable", NONE),
    "no content": (always(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"), "unusable", NONE),
    "an empty body": (always(http(b"")), "unusable", NONE),
    "a part of a body": (always(http(b"{}", length=100)), "cut", BROKE),
    "a reset in the middle": (reset, "cut", BROKE),
    "a body cut by its length": (answering(lambda body: [http(body, length=len(body) - 5)]), "unusable", NONE),
    "chunks that are none": (always(CHUNKED + b"zz\r\n{}\r\n0\r\n\r\n"), "unusable", NONE),
    "a chunk of many exabytes": (always(CHUNKED + b"f" * 64 + b"\r\n"), "unusable", NONE),
    "a chunk's size without end": (endless(b"0" * 4096, CHUNKED), "timeout", LATE),
    "a body without end": (endless(b" " * 65536, HEAD, b"\r\n"), "unusable", LONG),
    "a body in drops": (dripping(b" ", HEAD, b"\r\n"), "timeout", LATE),
    "silence after the head": (dripping(b"", HEAD, b"\r\n"), "timeout", LATE),
    "a byte too long": (answering(lambda body: [http(body.ljust(MAX_RESPONSE_BYTES + 1))]), "unusable", LONG),
    # Compression.
    "gzip bomb": (bomb(512 * MEGABYTE, 31, "gzip"), "unusable", LONG),
    "zlib bomb": (bomb(512 * MEGABYTE, 15, "deflate"), "unusable", LONG),
    "no gzip": (answering(lambda body: [http(body, "200 OK", "Content-Encoding: gzip")]), "unusable", NONE),
    "half a gzip": (
        answering(lambda body: [http(gzip.compress(body)[:-9], "200 OK", "Content-Encoding: gzip")]),
        "unusable",
        NONE,
    ),
    "gzip twice": (
        answering(lambda body: [http(gzip.compress(gzip.compress(body)), "200 OK", "Content-Encoding: gzip, gzip")]),
        "unusable",
        NONE,
    ),
    "an unknown encoding": (answering(lambda body: [http(body, "200 OK", "Content-Encoding: br")]), "unusable", NONE),
    # JSON.
    "depth": (always(http(DEEP)), "unusable", NONE),
    "depth of objects": (always(http(b'{"a":' * 200_000)), "unusable", NONE),
    "NaN": (answering(lambda body: [http(body.replace(b"100", b"NaN"))]), "unusable", NONE),
    "infinity": (answering(lambda body: [http(body.replace(b"100", b"1e999"))]), "unusable", NONE),
    "half a surrogate pair": (answering(lambda body: [http(body.replace(b"score", b"\\ud800"))]), "unusable", NONE),
    "UTF-16": (answering(lambda body: [http(body.decode().encode("utf-16"))]), "unusable", NONE),
    "Latin-1": (answering(lambda body: [http(body.replace(b"a model", b"\xe9"))]), "unusable", NONE),
    "a byte order mark": (answering(lambda body: [http(b"\xef\xbb\xbf" + body)]), "unusable", NONE),
    "two answers": (answering(lambda body: [http(body + body)]), "unusable", NONE),
    "server-sent events": (answering(lambda body: [http(b"data: " + body + b"\n\n")]), "unusable", NONE),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("attack", "outcome", "why"), GARBLED.values(), ids=list(GARBLED))
def test_an_answer_that_is_none_is_a_failure_that_the_breaker_sees_and_that_is_booked(
    attack: Attack, outcome: str, why: str
) -> None:
    """At the most that the call can cost, since the endpoint may bill it."""
    with hostile(attack) as server, pool(server, timeout_s=0.5 if outcome == "timeout" else 30) as live:
        live.start(job())
        (end,) = finished(live)
        counts = live.drain_metrics().counts
        live.start(job())
        until(lambda: live.unavailable_reason)
        assert live.unavailable_reason == why
    assert (end.judged, end.why) == (None, why)
    assert outcomes(counts) == {outcome: 1}
    request = server.requests[0]
    assert end.usage.cost == counts["ragweir_judge_cost_microdollars_total",]
    assert end.usage.cost > cost(PRICE, len(request.body) // 2, MOST_OUTPUT)


SIZES: dict[str, Attack] = {
    "gzip bomb": GARBLED["gzip bomb"][0],
    "a body without end": GARBLED["a body without end"][0],
    "a header without end": GARBLED["a header without end"][0],
    "headers without end": GARBLED["headers without end"][0],
    "an error without end": endless(b"x" * 65536, b"HTTP/1.1 500 Oh\r\n\r\n"),
    "a redirect without end": endless(b"x" * 65536, b"HTTP/1.1 302 Oh\r\nLocation: /\r\n\r\n"),
}


@pytest.mark.slow
@pytest.mark.parametrize("attack", SIZES.values(), ids=list(SIZES))
def test_whatever_is_sent_takes_little_memory(attack: Attack) -> None:
    with hostile(attack) as server, pool(server) as live:
        live.start(job())  # What is loaded once is loaded now.
        finished(live)
    with hostile(attack) as server, pool(server) as live:
        tracemalloc.start()
        try:
            live.start(job())
            finished(live)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * MEGABYTE


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_an_answer_that_is_compressed_though_that_was_not_asked_for_is_read(encoding: str) -> None:
    pack = gzip.compress if encoding == "gzip" else zlib.compress

    def attack(request: Request) -> Iterable[bytes]:
        return [http(pack(json.dumps(good(request)).encode()), "200 OK", f"Content-Encoding: {encoding}")]

    with hostile(attack) as server, pool(server) as live:
        live.start(job())
        (end,) = finished(live)
    assert end.judged
    assert end.judged.scores == {"grade": 0.5}


# Redirects.


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    """They would carry the texts of events to another host."""
    with hostile(lambda request: [http(json.dumps(good(request)).encode())]) as other:

        def attack(_: Request) -> Iterable[bytes]:
            return [http(b"", f"{status} Elsewhere", f"Location: {other.base_url}/chat/completions")]

        with hostile(attack) as server, pool(server) as live:
            live.start(job())
            until(lambda: live.unavailable_reason)
            assert outcomes(live.drain_metrics().counts) == {"refused": 1}
            assert live.unavailable_reason == f"judge.base_url redirects, which is not followed ({status})"
    assert other.requests == []


# Answers of which parts are odd.

ODD: list[Any] = [None, True, -1, 1.5, 2**53, 2**63, 1e308, "", "x", "\x1b[2J" * 9, [], [[]], {}, {"a": {}}, ["x"] * 9]


def changed(tree: Any, odd: Any) -> Iterator[Any]:
    """The tree with each of its nodes once replaced, itself included."""
    yield odd
    if isinstance(tree, dict):
        for key, inner in tree.items():
            yield from (tree | {key: each} for each in changed(inner, odd))
            yield {name: each for name, each in tree.items() if name != key}
    if isinstance(tree, list):
        for place, inner in enumerate(tree):
            yield from ([*tree[:place], each, *tree[place + 1 :]] for each in changed(inner, odd))


VECTOR = {"object": "embedding", "index": 0, "embedding": [0.5, 1]}
ERROR = {"error": {"message": "no", "type": "t", "param": "p", "code": "c"}}


def _asked(server: Hostile) -> tuple[Client, EndpointRequest, EndpointRequest]:
    chosen = settings(server, embedding_model="e")
    plain = EndpointRequest(
        "asked", "/chat/completions", lambda _: {"m": 1}, _chat_reader(), MAX_RESPONSE_BYTES, 1_000, 100
    )
    return Client(chosen), plain, embedding(Embed(("one",)), "e")


def _decisions() -> EndpointRequest:
    questions = (
        DecisionQuestion("holds", "predicate", "It holds."),
        DecisionQuestion("kind", "choice", "Which kind?", (Option("one"), Option("other"))),
        DecisionQuestion("score", "score", *scale("How much?\n0: none\n1: all")),
    )
    return decisions(DecisionCall(Framed("rules", "texts"), questions, b""), JudgeSettings(model="asked"))


def _chat_reader() -> Callable[[Any], Any]:
    from ragweir.streams.services.judge.protocol import _completion  # noqa: PLC0415

    return _completion


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["chat", "vectors", "decisions", "error"])
def test_no_value_anywhere_in_an_answer_raises_what_is_no_trouble(kind: str) -> None:
    """Every node of an answer, a list of vectors and an error, replaced by every odd value, and left out."""
    tree = {
        "chat": said("{}"),
        "vectors": {"data": [VECTOR], "model": "e", "usage": {"prompt_tokens": 3}},
        "decisions": decided(_decisions().body(ResponseFormat())),
        "error": ERROR,
    }
    bodies = [orjson.dumps(each) for odd in ODD for each in changed(tree[kind], odd)]
    waiting = iter(bodies)
    status = "400 Bad" if kind == "error" else "200 OK"
    sent: list[EndpointRequest] = []
    ends: list[EndpointResponse | JudgeError] = []

    async def ask_all(server: Hostile) -> None:
        client, chat, vectors = _asked(server)
        sent.append({"vectors": vectors, "decisions": _decisions()}.get(kind, chat))
        for _ in bodies:
            try:
                ends.append(await client.send(sent[0], ResponseFormat()))
            except JudgeError as trouble:
                ends.append(trouble)
        await client.aclose()

    with hostile(lambda _: [http(next(waiting), status)], stays=True) as server:
        asyncio.run(ask_all(server))
    assert len(ends) == len(bodies) > 100
    (asked,) = sent
    most_tokens = asked.most_input + asked.most_output
    for end in ends:
        if isinstance(end, EndpointResponse):
            assert end.model.isprintable()
            assert 0 < len(end.model) <= MAX_NAME_CHARACTERS
            bill, most = end.bill(asked, PRICE), cost(PRICE, asked.most_input, asked.most_output)
            assert 0 < bill.amount <= 4 * most
            for count in (bill.input_tokens, bill.output_tokens):
                assert count is None or (type(count) is int and 0 <= count <= 4 * most_tokens)


COUNTS = [2**53, 2**63, 2**64, -1, 1.0, 1.5, "7", True, None, [7], {"a": 7}]


@pytest.mark.parametrize("count", COUNTS, ids=str)
@pytest.mark.parametrize("side", ["prompt_tokens", "completion_tokens"])
def test_a_count_of_tokens_that_cannot_be_is_booked_as_the_most(side: str, count: Any) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, side: count}
    answer: Attack = lambda request: [http(json.dumps(good(request, usage=usage)).encode())]  # noqa: E731
    with hostile(answer) as server, pool(server) as live:
        live.start(job())
        (end,) = finished(live)
    assert end.judged
    assert end.judged.scores == {"grade": 0.5}
    assert end.usage.cost > cost(PRICE, len(server.requests[0].body) // 2, MOST_OUTPUT)


NO_VECTORS: dict[str, Any] = {
    "strings": ["0.5", "1"],
    "booleans": [True, False],
    "nulls": [None, 1],
    "one string": "AAAAPwAAgD8=",
    "nested": [[0.5], [1]],
    "objects": [{"a": 1}],
    "empty": [],
    "beyond 32 bits": [1e300, 1],
    "a number": 5,
}


@pytest.mark.parametrize("vector", NO_VECTORS.values(), ids=list(NO_VECTORS))
def test_what_is_no_vector_is_no_answer(vector: Any) -> None:
    data = [{"index": index, "embedding": vector} for index in (0, 1)]
    must_be_no_answer({"data": data})


@pytest.mark.parametrize(
    "data",
    [
        [{"index": 0, "embedding": [1, 2]}, {"index": 0, "embedding": [3, 4]}],
        [{"index": 1, "embedding": [1, 2]}, {"index": 2, "embedding": [3, 4]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": "1", "embedding": [3, 4]}],
        [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [3]}],
        [{"index": index, "embedding": [1, 2]} for index in range(50_000)],
    ],
    ids=["one index twice", "another index", "an index of letters", "different lengths", "too many"],
)
def test_vectors_that_are_not_those_of_the_texts_are_no_answer(data: list[Any]) -> None:
    must_be_no_answer({"data": data})


def must_be_no_answer(body: object) -> None:
    with hostile(always(http(orjson.dumps(body)))) as server, pool(server, embedding_model="e") as live:
        live.start(job(VECTORS))
        (end,) = finished(live)
        assert outcomes(live.drain_metrics().counts) == {"unusable": 1}
    assert end.judged is None
    assert end.usage.cost > 0


def test_the_largest_vectors_of_real_models_are_read() -> None:
    """3,072 numbers in OpenAI's form, one to a line, for each of 17 texts take 1.1 MiB."""
    numbers = ",\n".join(["        -0.0123456789"] * 3_072)
    texts = tuple(f"text {number}" for number in range(17))
    vectors = ",".join(f'{{"index": {index}, "embedding": [\n{numbers}\n]}}' for index in range(2))

    async def ask(server: Hostile) -> EndpointResponse:
        client = Client(settings(server))
        answered = await client.send(embedding(Embed(texts[:2]), "e"), ResponseFormat())
        await client.aclose()
        return answered

    with hostile(always(http(f'{{"data": [{vectors}]}}'.encode()))) as server:
        value = asyncio.run(ask(server)).value
    assert isinstance(value, list)
    assert [each.shape for each in value] == [(3_072,)] * 2
    assert embedding(Embed(texts), "e").most_bytes == 17 * 64 * 1024


WAITS = [
    "nan",
    "-inf",
    "1e999",
    "9" * 4_000,
    "-1",
    "\xe9",
    "Mon, 99 Foo 99999999999 99:99:99 +9999999999",
    "()",
    "\x1b[2J",
]


@pytest.mark.parametrize("status", ["429 Slowly", "503 Later"])
def test_no_word_on_how_long_to_wait_makes_a_pause_without_end(status: str) -> None:
    pauses: list[float | None] = []

    async def ask_all(server: Hostile) -> None:
        client, chat, _ = _asked(server)
        for _ in WAITS:
            with pytest.raises(JudgeError) as caught:
                await client.send(chat, ResponseFormat())
            pauses.append(caught.value.pause_s)
        await client.aclose()

    waiting = iter(WAITS)
    with hostile(lambda _: [http(b"{}", status, f"Retry-After: {next(waiting)}")]) as server:
        asyncio.run(ask_all(server))
    assert len(pauses) == len(WAITS)
    assert all(pause is None or 0 < pause <= 900 for pause in pauses)


# Connections.


def test_an_answer_that_was_not_asked_for_is_not_taken_for_the_next() -> None:
    """Each request is answered twice at once."""

    def attack(request: Request) -> Iterable[bytes]:
        return [2 * http(orjson.dumps(good(request)))]

    with hostile(attack, stays=True) as server, pool(server) as live:
        for number in range(5):
            live.start(job(number=number))
            (end,) = finished(live)
            assert end.judged
            assert end.judged.scores == {"grade": 0.5}
        assert not live.drain_metrics().counts.get(("ragweir_judge_repairs_total",))


def test_cookies_are_not_kept() -> None:
    def attack(request: Request) -> Iterable[bytes]:
        return [http(orjson.dumps(good(request)), "200 OK", f"Set-Cookie: c{len(request.body)}={'x' * 4_000}; Path=/")]

    with hostile(attack, stays=True) as server, pool(server) as live:
        for number in range(3):
            live.start(job(number=number))
            finished(live)
    assert len(server.requests) == 3
    assert not any("cookie" in request.head.lower() for request in server.requests)


def test_calls_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with hostile(lambda request: [http(orjson.dumps(good(request)))]) as proxy:
        for name in ("NO_PROXY", "no_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://user:word@127.0.0.1:{proxy.port}")
        with pool(proxy, base_url="http://judge.invalid/v1?version=3") as live:
            live.start(job())
            (end,) = finished(live)
    assert end.judged
    head = proxy.requests[0].head
    assert head.startswith("POST http://judge.invalid/v1/chat/completions?version=3 HTTP/1.1\r\n")
    assert "Authorization: Bearer sk-of-the-test\r\n" in head
    assert "Proxy-Authorization: Basic" in head


def test_a_user_and_password_in_the_url_take_the_place_of_the_key() -> None:
    with hostile(lambda request: [http(orjson.dumps(good(request)))]) as server:
        url = server.base_url.replace("//", "//ada:word@")
        with pool(server, base_url=url) as live:
            live.start(job())
            finished(live)
    assert "Authorization: Basic YWRhOndvcmQ=\r\n" in server.requests[0].head


@pytest.mark.parametrize("url", ["http://[::1/v1", "http://judge:port/v1"])
def test_a_url_that_is_none_is_told_at_the_start(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        LiveJudgePool(JudgeSettings(base_url=url))


@pytest.mark.parametrize("url", ["judge/v1", "ftp://judge.invalid/v1", "http:///v1", "http://127.0.0.1:1/v1"])
def test_a_url_that_leads_nowhere_costs_nothing(url: str) -> None:
    with hostile(always()) as server, pool(server, base_url=url) as live:
        live.start(job())
        (end,) = finished(live)
        assert outcomes(live.drain_metrics().counts) == {"unreachable": 1}
    assert (end.why, end.usage.cost) == ("the judge's endpoint cannot be reached", 0)


# Money.

FREE_OF_CHARGE = (
    "302 Found",
    "400 Bad",
    "401 Who",
    "404 Nothing",
    "408 Slow",
    "413 Large",
    "422 No",
    "429 Slowly",
    "503 Later",
)
CHARGED = ("500 Broken", "502 Between", "504 Late", "524 Late")


@pytest.mark.slow
@pytest.mark.parametrize("status", [*FREE_OF_CHARGE, *CHARGED])
def test_a_call_that_ends_with_an_error_costs_what_it_may_have_cost(status: str) -> None:
    """Nothing where the endpoint did not take it; all that it may cost where the endpoint failed in its middle."""
    with hostile(always(http(b"{}", status))) as server, pool(server) as live:
        live.start(job())
        until(lambda: server.requests)
        time.sleep(0.2)
        counts = live.drain_metrics().counts
    assert sum(outcomes(counts).values()) == 1
    assert (counts.get(("ragweir_judge_cost_microdollars_total",), 0) > 0) == (status in CHARGED)


SOLID = {"prompt_tokens": 100, "completion_tokens": 10}
REPORTED: dict[str, tuple[dict[str, object], set[str]]] = {
    "as reserved": ({}, set()),
    "reasoning beyond the longest answer": ({"completion_tokens": 3_000}, {"usage_above_reservation"}),
    "zeros with a text": ({"prompt_tokens": 0, "completion_tokens": 0}, {"usage_implausible"}),
    "no tokens of the text": ({"completion_tokens": 0}, {"usage_implausible"}),
    "a million millions": ({"prompt_tokens": 10**12}, {"usage_implausible"}),
    "negative": ({"prompt_tokens": -100}, {"usage_implausible"}),
    "no integer": ({"completion_tokens": 10.5}, {"usage_implausible"}),
    "true": ({"completion_tokens": True}, {"usage_implausible"}),
}


@pytest.mark.parametrize(("reported", "flags"), REPORTED.values(), ids=list(REPORTED))
def test_usage_is_believed_within_reason(reported: dict[str, object], flags: set[str]) -> None:
    """What cannot be counts with the reservation, and the evaluation says so; more than that is paid up to a bound."""
    usage = SOLID | reported
    with (
        hostile(lambda request: [http(orjson.dumps(good(request, usage=usage)))]) as server,
        pool(server, max_output_tokens=1_000) as live,
    ):
        live.start(job())
        (end,) = finished(live)
        asked = json.loads(server.requests[0].body)
    assert end.usage.flags == flags
    if flags == {"usage_implausible"}:
        assert end.usage.cost >= cost(PRICE, len(asked["messages"][1]["content"]), 1_000), "the reservation"
        assert (end.usage.input_tokens, end.usage.output_tokens) == (0, 0)
    else:
        assert end.usage.cost == cost(PRICE, usage["prompt_tokens"], usage["completion_tokens"])  # type: ignore[arg-type]


# The agent.


def rubric(request: Request, reason: str, **more: Any) -> dict[str, Any]:
    """An answer to the rubric whose reasons say this."""
    names = ("relevance", "faithfulness", "hallucination", "contextual_relevance")
    fields = {f"{name}{kind}": value for name in names for kind, value in (("_reason", reason), ("", 0.5))}
    return said(json.dumps({**fields, "check": request.check}), **more)


VAST: dict[str, Callable[[Request], object]] = {
    "the model's name": lambda request: rubric(request, "fine", model="m" * 1_000_000),
    "a name that moves the cursor": lambda request: rubric(
        request, "fine", model="\x1b]0;x\x07\x1b[2J\r\n[bold]\u202e"
    ),
    "the reasons": lambda request: rubric(request, "x" * 20_000),
    "reasons of signs that take much room": lambda request: rubric(request, "\U0001f600\x00" * 1_000),
    "counts": lambda request: rubric(
        request, "fine", usage={"prompt_tokens": 2**53 - 1, "completion_tokens": 2**53 - 1}
    ),
    "counts of 64 bits": lambda request: rubric(
        request, "fine", usage={"prompt_tokens": 2**63, "completion_tokens": 2**64 - 1}
    ),
}


@pytest.mark.heavy
@pytest.mark.parametrize("answer", VAST.values(), ids=list(VAST))
def test_no_answer_makes_the_agent_crash_or_its_evaluation_too_large(answer: Callable[[Request], object]) -> None:
    """300 events on one day without a budget: no sum goes beyond what JSON's readers hold either."""
    number = 300
    price = Price(input_usd=1_000, output_usd=1_000)
    with hostile(lambda request: [http(orjson.dumps(answer(request)))], stays=True) as server:
        chosen = settings(
            server, prices={"asked": price}, daily_budget_usd=None, concurrency=50, max_output_tokens=1_500
        )
        live = LiveJudgePool(chosen)
        agent = JudgeAgent(JudgeConfig({"rubric": RUBRIC}, chosen, 1), live)
        log = Log()
        log.ask(*(request(f"{each}") for each in range(number)))
        try:
            worker, deadline = Worker(log, agent), time.monotonic() + 60
            while len(log.read("evaluations")) < number:
                assert time.monotonic() < deadline
                worker.turn()
                time.sleep(0.005)
        finally:
            live.close()
    for record in log.records["evaluations", 0]:
        assert len(record.value or b"") < max_record_bytes(MAX_EVENT_BYTES) // 16
        found = Evaluation.model_validate_json(record.value or b"")
        assert found.scores["judge_relevance"] == 0.5
        assert found.judge
        assert found.judge.model.isprintable()
        assert len(found.judge.model) <= MAX_NAME_CHARACTERS


def request(event_id: str) -> JudgeRequest:
    decided = SuiteDecision(suite="rubric", status="selected", probability=1.0, because=("risk",))
    evaluation = Evaluation(
        event_id=event_id, event_time=NOON, decision=Decision(suites=(decided,)), catalogue_version="1"
    )
    return JudgeRequest(
        evaluation=evaluation, query=f"What is {event_id}?", response="A number.", contexts=("A number.",)
    )
