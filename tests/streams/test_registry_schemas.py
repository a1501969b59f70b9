"""Schemas are asked for in the background: found, missing, or waited for while the registry is away."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from typing_extensions import override

from ragweir.errors import Interrupted, PermanentError, RegistryRefused, RegistryUnavailable, Rejected
from ragweir.schemas.registry.decoder import RegistryDecoder
from ragweir.schemas.registry.schema import Read, Schema
from ragweir.streams.registry import schemas as module
from ragweir.streams.registry.client import RegistryClient, SchemaNotFound
from ragweir.streams.registry.schemas import RegistrySchemas
from ragweir.streams.settings import RegistrySettings


def eventually(condition: Callable[[], object], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def made(_: int, schema: Schema) -> Read:
    return lambda data: (schema.text, data)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INTERVAL_SECONDS", 0.001)


def test_a_schema_is_asked_for_once() -> None:
    asked: list[int] = []

    def fetch(schema_id: int) -> Schema:
        asked.append(schema_id)
        return Schema("AVRO", str(schema_id))

    schemas = RegistrySchemas(fetch, made)
    assert not schemas.ready(7)
    eventually(lambda: schemas.ready(7))
    read = schemas.reader(7)
    assert not isinstance(read, Rejected)
    assert read(b"a") == ("7", b"a")
    assert schemas.reader(8)
    assert asked == [7, 8]


def test_a_worker_that_waits_for_the_registry_is_alive_and_stops_when_told() -> None:
    """As when it is assigned a partition, and reads the records before its start."""

    def fetch(_: int) -> Schema:
        raise RegistryUnavailable("away")

    beats = 0

    def stopped() -> bool:
        nonlocal beats
        beats += 1
        return beats == 3

    schemas = RegistrySchemas(fetch, made)
    decoder = RegistryDecoder(schemas)
    decoder.start(stopped)
    with pytest.raises(Interrupted):
        list(decoder.decode(b"\0\0\0\0\7abc"))
    assert beats == 3


def test_a_missing_schema_is_asked_for_half_a_minute_and_then_unknown_for_one() -> None:
    now_s, asked = 0.0, 0

    def fetch(_: int) -> Schema:
        nonlocal asked
        asked += 1
        raise SchemaNotFound

    schemas = RegistrySchemas(fetch, made, lambda: now_s)
    assert not schemas.ready(7)
    eventually(lambda: asked)
    while now_s < 29.5:
        now_s += 0.5
        with schemas._changed:
            schemas._changed.notify_all()
        time.sleep(0.01)
        assert not schemas.ready(7)
    # Not every time that it might be.
    assert 3 < asked < 12
    now_s = 30.1
    with schemas._changed:
        schemas._changed.notify_all()
    eventually(lambda: schemas.ready(7))
    rejected = schemas.reader(7)
    assert isinstance(rejected, Rejected)
    assert str(rejected) == "schema 7 is not in the registry"
    before = asked
    now_s = 89.0
    assert schemas.ready(7)
    assert asked == before
    now_s = 91.0
    assert not schemas.ready(7)
    eventually(lambda: asked > before)


def test_a_registry_that_is_away_is_waited_for() -> None:
    now_s, away = 0.0, True

    def fetch(schema_id: int) -> Schema:
        if away:
            raise RegistryUnavailable("it answers 503")
        return Schema("AVRO", str(schema_id))

    schemas = RegistrySchemas(fetch, made, lambda: now_s)
    for _ in range(100):
        now_s += 10
        assert not schemas.ready(7)
        with schemas._changed:
            schemas._changed.notify_all()
        time.sleep(0.001)
    away = False

    def found() -> bool:
        nonlocal now_s
        now_s += 1
        with schemas._changed:
            schemas._changed.notify_all()
        return schemas.ready(7)

    eventually(found)
    assert not isinstance(schemas.reader(7), Rejected)


def test_a_registry_that_refuses_is_no_matter_of_waiting() -> None:
    def fetch(_: int) -> Schema:
        raise RegistryRefused("it may not read")

    schemas = RegistrySchemas(fetch, made)
    with pytest.raises(PermanentError, match="may not read"):
        schemas.reader(7)
    with pytest.raises(PermanentError, match="may not read"):
        schemas.ready(8)


def test_forged_ids_take_bounded_memory() -> None:
    schemas = RegistrySchemas(lambda schema_id: Schema("AVRO", str(schema_id)), made)
    for schema_id in range(3_000):
        schemas.ready(schema_id)
    assert len(schemas._asked) <= 1_000
    eventually(lambda: len(schemas._known) == 1_000)
    for schema_id in range(5_000, 5_500):
        schemas.reader(schema_id)
    assert len(schemas._known) == 1_000
    assert len(schemas._missing) <= 1_000


def test_look_ups_are_at_most_ten_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    pause = threading.Event()
    monkeypatch.undo()

    def sleep(seconds: float) -> None:
        if threading.current_thread().name == "registry":  # Threads of other tests may still run.
            pauses.append(seconds)
        pause.wait(0.001)

    monkeypatch.setattr(module.time, "sleep", sleep)
    schemas = RegistrySchemas(lambda schema_id: Schema("AVRO", str(schema_id)), made)
    for schema_id in range(20):
        schemas.reader(schema_id)
    assert len(pauses) >= 19
    assert set(pauses) == {0.1}


# The client, against a server that answers as Apicurio 2.5.11 does.

ANSWERS: dict[str, tuple[int, Any]] = {
    "/schemas/ids/1": (200, {"schema": '"string"', "references": []}),
    "/schemas/ids/2": (
        200,
        {"schema": "{}", "schemaType": "JSON", "references": [{"name": "a", "subject": "a/b", "version": 3}]},
    ),
    "/subjects/a%2Fb/versions/3": (
        200,
        {"schema": "middle", "references": [{"name": "c", "subject": "c", "version": 1}]},
    ),
    "/subjects/c/versions/1": (200, {"schema": "inner"}),
    "/schemas/ids/3": (404, {"message": "No content with id/hash 'contentId-3' was found.", "error_code": 40403}),
    "/schemas/ids/4": (404, {"message": "RESTEASY003210: Could not find resource", "error_code": 404}),
    "/schemas/ids/5": (401, {}),
    "/schemas/ids/6": (403, {}),
    "/schemas/ids/7": (503, {}),
    "/schemas/ids/8": (200, "x" * 5_000_000),
    "/schemas/ids/9": (302, {}),
    "/schemas/ids/10": (200, {"schema": "", "references": [{"name": "l", "subject": "loop", "version": 1}]}),
    "/subjects/loop/versions/1": (200, {"schema": "l", "references": [{"name": "l", "subject": "loop", "version": 1}]}),
}


@contextmanager
def server(headers: list[dict[str, str]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            headers.append(dict(self.headers))
            status, answer = ANSWERS.get(self.path.removeprefix("/api"), (404, None))
            body = orjson.dumps(answer)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, format: str, *args: object) -> None: ...

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}/api"
    finally:
        listening.shutdown()
        listening.server_close()


def test_the_client_knows_each_answer() -> None:
    headers: list[dict[str, str]] = []
    with server(headers) as url:
        client = RegistryClient(RegistrySettings(url=url, client={"basic_auth_user_info": "me:it:self"}))
        assert client.schema(1) == Schema("AVRO", '"string"')
        assert headers[-1]["Authorization"] == "Basic bWU6aXQ6c2VsZg=="
        assert client.schema(2) == Schema("JSON", "{}", ("inner", "middle"))
        assert client.schema(10).references == ("l",)
        for schema_id, kind in ((3, SchemaNotFound), (8, SchemaNotFound), (7, RegistryUnavailable)):
            with pytest.raises(kind):
                client.schema(schema_id)
        for schema_id in (4, 5, 6):
            with pytest.raises(RegistryRefused):
                client.schema(schema_id)
        with pytest.raises(RegistryUnavailable, match="302"):
            client.schema(9)
        token = RegistryClient(RegistrySettings(url=url, client={"bearer.auth.token": "hunter2"}))
        token.schema(1)
        assert headers[-1]["Authorization"] == "Bearer hunter2"
    with pytest.raises(RegistryUnavailable, match="ConnectError"):
        client.schema(1)
