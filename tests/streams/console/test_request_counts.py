"""The series of what browsers ask: every request, login, fetched record and closed connection is counted once."""

import contextlib
import socket
from pathlib import Path

import pytest
from browsers import FROM_OWN_PAGE, TOKEN, stranger
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ragweir.errors import PermanentError, Unreachable
from ragweir.streams.console import web_server
from ragweir.streams.console.application import application
from ragweir.streams.console.request_counts import CountedFetcher, RequestCounts
from ragweir.streams.console.store.topic_projection import ConsoleProjection
from ragweir.streams.console.web_server import SECONDS, listen, served
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.instruments import telemetry_of
from ragweir.streams.settings import Settings
from ragweir.streams.settings.console import ConsoleSettings

_PATIENCE_S = 30


def page(_: Request) -> Response:
    return PlainTextResponse("a page")


def broken(_: Request) -> Response:
    raise ValueError


PAGES = [Route("/", page), Route("/broken", broken)]


def shown(counts: RequestCounts) -> dict[str, float]:
    """The samples of a console's telemetry that took what was counted: only series of the table can be."""
    telemetry = telemetry_of("console", 0)
    telemetry.add(counts.drain())
    return {
        " ".join([sample.name.removeprefix("ragweir_console_"), *sample.labels.values()]): sample.value
        for metric in telemetry.registry.collect()
        for sample in metric.samples
        if sample.value and sample.name.startswith("ragweir_console_") and not sample.name.endswith("_created")
    }


def test_requests_are_counted_by_the_status_of_their_answers_and_logins_by_their_result() -> None:
    counts = RequestCounts()
    client = stranger(application(PAGES, ConsoleSettings(), TOKEN, counts))
    client.get("/")
    for token in ("wrong", "again", TOKEN):
        client.post("/login", data={"token": token, "name": "Ada"}, headers=FROM_OWN_PAGE)
    client.get("/static/console.css")
    for path in ("/", "/", "/broken", "/none"):
        client.get(path)
    found = shown(counts)
    assert {name: value for name, value in found.items() if name.startswith("requests_total")} == {
        "requests_total 2xx": 2,
        "requests_total 3xx": 2,
        "requests_total 4xx": 3,
        "requests_total 5xx": 1,
    }
    assert found["request_seconds_count"] == 8
    assert (found["logins_total admitted"], found["logins_total rejected"]) == (1, 2)
    assert shown(counts) == {}


@pytest.mark.slow
def test_closed_connections_are_counted_by_their_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web_server, "MAX_CONNECTIONS", 3)
    for phase in SECONDS:
        monkeypatch.setitem(SECONDS, phase, 600)
    counts = RequestCounts()
    app = application(PAGES, ConsoleSettings(), TOKEN)
    with contextlib.ExitStack() as stack:
        listening, _ = stack.enter_context(listen(ConsoleSettings(port=0)))
        stack.enter_context(served(app, listening, counts))
        port = listening.getsockname()[1]

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S))

        idle = [connect() for _ in range(5)]
        assert [each.recv(1) for each in idle[:2]] == [b"", b""]
        monkeypatch.setitem(SECONDS, "silent", 0.01)
        late = connect()
        assert late.recv(1) == b""
    found = shown(counts)
    assert (found["connections_closed_total crowded"], found["connections_closed_total late"]) == (3, 1)


def test_fetched_records_are_counted_by_their_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """With answers of Kafka's in place of a broker: tests/integration/test_console_topics.py has one."""
    counts = RequestCounts()
    fetcher = CountedFetcher(Settings(), counts)
    answers = iter([Record("t", 0, 0, None, b"", 1), None, Unreachable("slow"), PermanentError("no"), None])

    def fetched(*_: object) -> Record | None:
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    monkeypatch.setattr(RecordFetcher, "_fetched", fetched)
    for _ in range(5):
        with contextlib.suppress(Unreachable, PermanentError):
            fetcher.fetch("t", 0, 0)
    found = shown(counts)
    assert [found[f"fetches_total {result}"] for result in ("found", "gone", "failed")] == [1, 2, 2]


def test_the_projection_gives_them_to_the_telemetry(tmp_path: Path) -> None:
    counts = RequestCounts()
    projection = ConsoleProjection(Settings(console={"folder": tmp_path}), more=counts.drain)
    projection.open()
    counts.on_answer(200, 0.25)
    measured = projection.drain_metrics()
    projection.close()
    assert measured.counts["ragweir_console_requests_total", "2xx"] == 1
    assert measured.observations == [(("ragweir_console_request_seconds",), 0.25)]


def test_what_nobody_drains_stays_small() -> None:
    counts = RequestCounts()
    for _ in range(20_000):
        counts.on_answer(200, 0.1)
    drained = counts.drain()
    assert (len(drained.observations), drained.counts["ragweir_console_requests_total", "2xx"]) == (10_000, 20_000)
