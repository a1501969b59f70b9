"""The client of a registry, and registries that misbehave."""

import gzip
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest
from services import until
from typing_extensions import override

from ragweir.errors import RegistryUnavailable, RegistryUnusable, Rejected
from ragweir.schemas.registry.schema import Read, Schema
from ragweir.streams.commands.registry_records import RecordSchemas
from ragweir.streams.playground.serving import Reply, Request, serving
from ragweir.streams.runtime.registry import client as client_module
from ragweir.streams.runtime.registry.client import RegistryClient, SchemaNotFound
from ragweir.streams.runtime.registry.schemas import RegistrySchemas
from ragweir.streams.settings import RegistrySettings, Settings


def made(_: int, schema: Schema) -> Read:
    return lambda data: (schema.text, data)


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
def server(headers: list[Mapping[str, str]]) -> Iterator[str]:
    def reply(request: Request) -> Reply:
        headers.append(request.headers)
        status, answer = ANSWERS.get(request.path.removeprefix("/api"), (404, None))
        return Reply(status, orjson.dumps(answer))

    with serving(reply) as listening:
        yield f"{listening.url}/api"


@pytest.mark.slow
def test_the_client_knows_each_answer() -> None:
    headers: list[Mapping[str, str]] = []
    with server(headers) as url, ExitStack() as opened:
        client = opened.enter_context(
            RegistryClient(RegistrySettings(url=url, client={"basic_auth_user_info": "me:it:self"}))
        )
        assert client.schema(1) == Schema("AVRO", '"string"')
        assert headers[-1]["authorization"] == "Basic bWU6aXQ6c2VsZg=="
        assert client.schema(2) == Schema("JSON", "{}", ("inner", "middle"))
        assert client.schema(10).references == ("l",)
        for schema_id, kind in ((3, SchemaNotFound), (8, SchemaNotFound), (7, RegistryUnavailable)):
            with pytest.raises(kind):
                client.schema(schema_id)
        for schema_id in (4, 5, 6):
            with pytest.raises(RegistryUnusable):
                client.schema(schema_id)
        with pytest.raises(RegistryUnavailable, match="302"):
            client.schema(9)
        with RegistryClient(RegistrySettings(url=url, client={"bearer.auth.token": "hunter2"})) as token:
            token.schema(1)
        assert headers[-1]["authorization"] == "Bearer hunter2"
    with RegistryClient(RegistrySettings(url=url)) as away, pytest.raises(RegistryUnavailable, match="ConnectError"):
        away.schema(1)


# Registries that misbehave.


def gzipped(data: bytes, times: int = 1) -> bytes:
    for _ in range(times):
        data = gzip.compress(data)
    return data


def encoded(encoding: str, body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def answer(data: Any) -> bytes:
    body = orjson.dumps(data)
    return f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


@contextmanager
def misbehaving(answers: Callable[[str], bytes], trickle: bytes = b"") -> Iterator[str]:
    """Serve what a function of the path gives, then byte by byte for ever what follows; yield the address."""
    ended = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.close_connection = True
            with suppress(OSError):
                self.wfile.write(answers(self.path))
                while trickle and not ended.wait(0.2):
                    self.wfile.write(trickle)

        @override
        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        ended.set()
        listening.shutdown()


def bomb(times: int) -> bytes:
    """200 MB, compressed so many times; not for every test worker that imports this."""
    return gzipped(b'"' + b"a" * 200_000_000 + b'"', times)


# Asks for a schema, and has no more memory than some answers may take.
ASKING = """
import resource, sys
import asyncio, httpx
from pathlib import Path
from ragweir.streams.runtime.registry.client import RegistryClient
from ragweir.streams.settings import RegistrySettings, Settings

with RegistryClient(RegistrySettings(url=sys.argv[1])) as client:
    (data,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmData"))
    limit = int(data.split()[1]) * 1024 + 50_000_000
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    try:
        client.schema(1)
    except Exception as error:
        print(type(error).__name__)
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("encoding", "times", "raised"),
    [
        pytest.param("gzip", 1, "SchemaNotFound", id="200 MB in 200 KB"),
        pytest.param("gzip, gzip", 2, "RegistryUnavailable", id="encoded twice"),
    ],
)
def test_an_encoded_answer_is_bounded_before_it_is_decoded(encoding: str, times: int, raised: str) -> None:
    given = encoded(encoding, bomb(times))
    with misbehaving(lambda _: given) as url:
        command = [sys.executable, "-P", "-c", ASKING, url]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == f"{raised}\n"


@pytest.mark.slow
@pytest.mark.parametrize("given", [encoded("gzip", b"no such thing"), encoded("br", b"\0")])
def test_an_answer_that_cannot_be_decoded_is_none(given: bytes) -> None:
    with (
        misbehaving(lambda _: given) as url,
        RegistryClient(RegistrySettings(url=url)) as client,
        pytest.raises(RegistryUnavailable),
    ):
        client.schema(1)


@pytest.mark.slow
def test_an_answer_that_is_encoded_all_the_same_is_read() -> None:
    given = encoded("gzip", gzipped(b'{"schema": "a"}'))
    with misbehaving(lambda _: given) as url, RegistryClient(RegistrySettings(url=url)) as client:
        assert client.schema(1).text == "a"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "trickle"),
    [
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b" ", id="of the body"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", b"A: a\r\n", id="of the head"),
        pytest.param(b"", b"H", id="of the status"),
    ],
)
def test_a_request_ends_whose_answer_comes_byte_by_byte(given: bytes, trickle: bytes) -> None:
    """Each byte renews a time limit of reading: the answer would take days."""
    with (
        misbehaving(lambda _: given, trickle) as url,
        RegistryClient(RegistrySettings(url=url)) as client,
        pytest.raises(RegistryUnavailable),
    ):
        client.schema(1)


@pytest.mark.slow
def test_the_answers_of_a_schema_have_a_limit_in_all() -> None:
    """A hundred references of 3 MB each."""
    asked: list[str] = []

    def answers(path: str) -> bytes:
        asked.append(path)
        references = [{"name": "r", "subject": f"s{each}", "version": 1} for each in range(100)]
        return answer({"schema": "a" * 3_000_000, "references": references if "ids" in path else []})

    with misbehaving(answers) as url, RegistryClient(RegistrySettings(url=url)) as client:
        with pytest.raises(SchemaNotFound):
            client.schema(1)
        assert len(asked) == 2


@pytest.mark.slow
def test_all_requests_for_a_schema_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred references of a little less than the time limit of each held all other ids for minutes."""
    monkeypatch.setattr(client_module, "SCHEMA_SECONDS", 0.5, raising=False)
    asked: list[str] = []

    def answers(path: str) -> bytes:
        asked.append(path)
        time.sleep(0.05)
        references = [{"name": "r", "subject": f"s{each}", "version": 1} for each in range(100)]
        return answer({"schema": "a", "references": references if "ids" in path else []})

    with misbehaving(answers) as url, RegistryClient(RegistrySettings(url=url)) as client:
        with pytest.raises(RegistryUnavailable, match="with those that it refers to"):
            client.schema(1)
        assert len(asked) < 20


NONSENSE = [
    pytest.param([], "(the whole)", id="a list"),
    pytest.param({}, "(schema)", id="no schema"),
    pytest.param({"schema": 7}, "(schema)", id="a number as the schema"),
    pytest.param({"schema": "{}", "schemaType": ["AVRO"]}, "(schemaType)", id="a list as the type"),
    pytest.param({"schema": "{}", "references": 7}, "(references)", id="a number as the references"),
    pytest.param({"schema": "{}", "references": ["a"]}, "(references.0)", id="a text as a reference"),
    pytest.param({"schema": "{}", "references": [{"subject": "a"}]}, "(references.0.version)", id="without a version"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("given", "where"), NONSENSE)
def test_an_id_whose_answer_is_nonsense_is_waited_for_as_one_that_is_missing(given: Any, where: str) -> None:
    """It was waited for as long as a registry that is away: for ever."""
    now_s, asked = 0.0, 0

    def answers(_: str) -> bytes:
        nonlocal asked
        asked += 1
        return answer(given)

    with misbehaving(answers) as url, RegistryClient(RegistrySettings(url=url)) as client:
        schemas = RegistrySchemas(client.schema, made, lambda: now_s)
        assert not schemas.ready(7)
        until(lambda: asked == 1 and schemas._asked[7].next_s > 0)
        now_s = 31.0
        with schemas._changed:
            schemas._changed.notify_all()
        until(lambda: asked == 2 and schemas.ready(7))
        why = f"schema 7 cannot be used: the registry's answer for it is not a schema {where}"
        assert str(schemas.reader(7)) == why
        # Commands do not wait.
        with (
            RecordSchemas(Settings(registry={"url": url})) as by_command,
            pytest.raises(Rejected, match=re.escape(why)),
        ):
            by_command.as_json(b"\0\0\0\0\7")


@pytest.mark.parametrize("given", [[], {}, {"id": "7"}])
def test_a_registry_that_gives_no_id_is_one_sentence(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ANSWERS, "/subjects/a", (200, given))
    with (
        server([]) as url,
        RegistryClient(RegistrySettings(url=url)) as client,
        pytest.raises(RegistryUnavailable, match="no id of a schema"),
    ):
        client.find("a", Schema("AVRO", "{}"))
