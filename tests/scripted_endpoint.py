"""An endpoint of the judge on loopback that follows a script, and pools that call it: what tests of the pool share."""

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any

from pydantic import Field
from services import until

from ragweir.metrics.judged.asking import Share, ShortText
from ragweir.metrics.judged.framing import unframed
from ragweir.metrics.judged.suite import Answer, Ask, Case, Conversation, Embed, Suite, SuiteResult
from ragweir.metrics.metric import Metric, Null
from ragweir.streams.services.judge.job import Job, JobResult, JudgePool
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.settings import JudgeSettings, Price

PRICE = Price(input_usd=1, output_usd=10)
PLENTY = 10**9
DAY = "2026-11-22"


# Suites that ask as little as can be.


class Graded(Answer):
    """A grade."""

    score: float


def _metric(name: str) -> Metric:
    return Metric(print, "test", "ratio", "higher", (), "test", cost="llm", name=name)


def suite(name: str = "plain", asks: int = 1) -> Suite:
    """Asks for a grade several times, and adds up."""

    def converse(case: Case) -> Conversation:
        total = 0.0
        for number in range(asks):
            said = yield Ask(f"Grade {name} {number}.", (("response", case.response),), Graded)
            if isinstance(said, Null):
                return SuiteResult({name: said})
            assert isinstance(said, Graded)
            total += said.score
        return SuiteResult({name: total / asks})

    return Suite(name, "1", (_metric(name),), converse, asks)


def embedding_suite(*, tokens: bool = False) -> Suite:
    """How many vectors came back."""

    def converse(case: Case) -> Conversation:
        said = yield Embed((case.query, case.response), tokens)
        assert isinstance(said, Null | list)
        return SuiteResult({"vectors": said if isinstance(said, Null) else len(said) / 10})

    return Suite("vectors", "1", (_metric("vectors"),), converse, 0)


PLAIN = suite()


class Bounded(Answer):
    """An answer whose schema has every kind of bound."""

    reason: ShortText
    score: Share
    marks: Annotated[list[bool], Field(min_length=1, max_length=1)]


def _bounded(case: Case) -> Conversation:
    said = yield Ask("Grade it.", (("response", case.response),), Bounded)
    return SuiteResult({"bounded": said.score if isinstance(said, Bounded) else said if isinstance(said, Null) else 0})


BOUNDED = Suite(
    "bounded",
    "1",
    (_metric("bounded"),),
    _bounded,
    1,
)
BOUNDED_ANSWER = json.dumps({"reason": "so", "score": 0.5, "marks": [True], "check": "CHECK"})


# The endpoint.


@dataclass(frozen=True)
class Reply:
    """What the endpoint does with one request."""

    status: int = 200
    said: object = None
    headers: dict[str, str] = field(default_factory=dict)
    ending: str = "whole"


@dataclass
class AskedCall:
    """One request as it came."""

    at: float
    path: str
    body: dict[str, Any]
    key: str
    length: int
    headers: dict[str, str] = field(default_factory=dict)
    """By names in lower case."""

    @property
    def text(self) -> str:
        """The user's message, or what is to be embedded."""
        return self.body["messages"][1]["content"] if "messages" in self.body else " ".join(self.body["input"])


def completion(asked: AskedCall, text: str | None = None, *, usage: object = None, **choice: Any) -> Reply:
    """A completion; by default a grade of 0.5, with the check word."""
    check = unframed(asked.body["messages"][0]["content"], "")[2]
    told = json.dumps({"score": 0.5, "check": check}) if text is None else text.replace("CHECK", check)
    message = {"role": "assistant", "content": told}
    choices = [{"index": 0, "finish_reason": "stop", "message": message} | choice]
    counted = {"prompt_tokens": 100, "completion_tokens": 10} if usage is None else usage
    return Reply(said={"choices": choices, "usage": counted})


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Reply:
    said = {"error": {"message": message, "code": code, "type": "x", "param": None}}
    return Reply(status, said, {name.replace("_", "-"): value for name, value in headers.items()})


CUT, HANG, GARBAGE = Reply(ending="cut"), Reply(ending="hang"), Reply(said="<html>hello</html>")
Script = Callable[[AskedCall], Reply]


class Endpoint:
    """A server that follows a script: first the replies that are queued, then what the script says."""

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[AskedCall] = []
        self.script: Script = completion
        self._next: list[Reply] = []
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # A response in two packets would wait for the first to be acknowledged.

            def do_POST(self) -> None:
                outer._handle(self)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, *_: object) -> None:
                """A client may leave."""

        self._server = Server(("127.0.0.1", port), Handler)
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.base_url = f"http{'s' if tls else ''}://127.0.0.1:{self._server.server_port}/v1"

    def then(self, *replies: Reply) -> None:
        self._next += replies

    def _handle(self, request: BaseHTTPRequestHandler) -> None:
        length = int(request.headers["content-length"])
        body = json.loads(request.rfile.read(length))
        headers = {name.lower(): value for name, value in request.headers.items()}
        key = headers.get("authorization", "").removeprefix("Bearer ")
        asked = AskedCall(time.monotonic(), request.path, body, key, length, headers)
        with self._lock:
            self.asked.append(asked)
            reply = self._next.pop(0) if self._next else None
        reply = reply or self.script(asked)
        if reply.ending == "hang":
            self._stopping.wait()
        if reply.ending != "whole":
            request.close_connection = True
            return
        data = (reply.said if isinstance(reply.said, str) else json.dumps(reply.said)).encode()
        request.send_response(reply.status)
        for name, value in {"content-type": "application/json", "content-length": str(len(data))}.items():
            request.send_header(name, value)
        for name, value in reply.headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    def close(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


# The pool.


@contextmanager
def pool(
    endpoint: Endpoint | None, *, window_s: float = 60.0, embedder: Any = None, **settings: Any
) -> Iterator[LiveJudgePool]:
    """A pool that waits little."""
    plain: dict[str, Any] = {"breaker_wait_s": 0.05, "prices": {"gpt-4o-mini": PRICE}, "api_key": "sk-of-the-test"}
    plain |= {"base_url": endpoint.base_url if endpoint else None} | settings
    made = {} if embedder is None else {"embedder": embedder}
    live = LiveJudgePool(JudgeSettings(**plain), window_s=window_s, backoff_s=0.001, **made)
    try:
        yield live
    finally:
        live.close()


def job(number: int = 0, *suites: Suite, response: str = "an answer", allowance: int = PLENTY) -> Job:
    return Job(
        ("requests", 0, number),
        Case("a question", f"{response} {number}"),
        suites or (PLAIN,),
        allowance,
        (DAY,),
        lambda: DAY,
    )


def finish(pool: JudgePool, jobs: Iterable[Job] = (), number: int | None = None) -> dict[int, JobResult]:
    """Start jobs, and wait for as many ends; by number."""
    started = list(jobs)
    for each in started:
        pool.start(each)
    ended: list[JobResult] = []

    def all_ended() -> bool:
        ended.extend(pool.take_results())
        return len(ended) >= (len(started) if number is None else number)

    until(all_ended)
    return {end.id[2]: end for end in ended}


def one(pool: JudgePool, the: Job | None = None) -> JobResult:
    return finish(pool, [the or job()])[(the or job()).id[2]]


def judged_score(end: JobResult, metric: str = "plain") -> float | None:
    assert end.judged is not None, end.why
    return end.judged.scores[metric]


def why_null(end: JobResult, metric: str = "plain") -> str:
    assert end.judged is not None, end.why
    assert end.judged.scores[metric] is None
    return end.judged.reasons[metric]


def calls(counts: Any) -> dict[str, int]:
    return {label[1]: number for label, number in counts.items() if label[0] == "ragweir_judge_calls_total"}
