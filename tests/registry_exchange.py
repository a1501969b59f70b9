"""An exchange with a real registry: made of it in `make test-registry`, and answered from a file in `make test`."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragweir.errors import RegistryUnusable
from ragweir.schemas.registry.schema import Schema
from ragweir.streams.playground.serving import Reply, Request, serving
from ragweir.streams.runtime.registry.client import RegistryClient, SchemaNotFound
from ragweir.streams.settings import RegistrySettings

FILE = Path(__file__).parent / "registry_exchange.json"
_HEADERS = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
SCHEMAS = (
    Schema("AVRO", '{"type": "record", "name": "Answer", "fields": [{"name": "query", "type": "string"}]}'),
    Schema("PROTOBUF", 'syntax = "proto3";\npackage shop;\n\nmessage Answer {\n  optional string query = 1;\n}\n'),
    Schema("JSON", '{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "title": "Answer"}'),
)
"""They never change, as the recording would."""
Answer = tuple[int, Any]
"""A status and the JSON that came with it."""


def found(ask: Callable[[], Any]) -> Any:
    """Return what a call returns, or the name of the kind of its error."""
    try:
        return ask()
    except (SchemaNotFound, RegistryUnusable) as error:
        return type(error).__name__


def talk(url: str) -> dict[str, Any]:
    """Send each kind of request to a registry; return what the client made of the answers."""
    with RegistryClient(RegistrySettings(url=url)) as client:
        return _said(client)


def _said(client: RegistryClient) -> dict[str, Any]:
    said: dict[str, Any] = {"a registry without subjects": client.subjects()}
    said["no such id"] = found(lambda: client.schema(999))
    for schema in SCHEMAS:
        kind, subject = schema.type, f"answers.{schema.type}-value"
        said[f"{kind}: subject before"] = client.has_subject(subject)
        said[f"{kind}: not registered"] = found(lambda schema=schema, subject=subject: client.find(subject, schema))
        number = client.register(subject, schema)
        client.set_compatibility(subject, "FULL_TRANSITIVE")
        said[f"{kind}: registered"] = number
        said[f"{kind}: subject after"] = client.has_subject(subject)
        said[f"{kind}: registered again"] = client.register(subject, schema) == number
        said[f"{kind}: found"] = client.find(subject, schema) == number
        said[f"{kind}: read"] = client.schema(number) == schema
    # One field more, without a default: the registry names several differences in any order.
    more = [{"name": "query", "type": "string"}, {"name": "other", "type": "int"}]
    wrong = Schema("AVRO", json.dumps({"type": "record", "name": "Answer", "fields": more}))
    said["another schema of a subject"] = found(lambda: client.find("answers.AVRO-value", wrong))
    said["an incompatible schema"] = found(lambda: client.register("answers.AVRO-value", wrong))
    said["no schema"] = found(lambda: client.register("answers.AVRO-value", Schema("AVRO", "{")))
    said["subjects"] = client.subjects()
    return said


@contextmanager
def answering(answer: Callable[[str, str, Any], Answer]) -> Iterator[str]:
    """Serve a registry whose answers come from a function of method, path and body; gives its address."""

    def reply(request: Request) -> Reply:
        status, given = answer(request.method, request.path, json.loads(request.body) if request.body else None)
        return Reply(status, json.dumps(given).encode())

    with serving(reply) as server:
        yield server.url


def recorded(registry: str) -> tuple[dict[str, Any], list[Any]]:
    """Talk to a real registry through a proxy; return what the client made of it, and each request with its answer."""
    exchange: list[Any] = []

    def forward(method: str, path: str, body: Any) -> Answer:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(registry + path, data, _HEADERS, method=method)
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                status, given = response.status, json.load(response)
        except urllib.error.HTTPError as error:
            status, given = error.code, json.loads(error.read())
        exchange.append({"method": method, "path": path, "body": body, "status": status, "answer": given})
        return status, given

    with answering(forward) as url:
        return talk(url), exchange


def replayed(exchange: list[Any]) -> dict[str, Any]:
    """Return what the client makes of a recorded exchange; a request that differs from the recorded one fails."""
    left = iter(exchange)

    def answer(method: str, path: str, body: Any) -> Answer:
        each = next(left)
        if (each["method"], each["path"], each["body"]) != (method, path, body):
            return 500, {"message": f"asked for {method} {path}, recorded is {each['method']} {each['path']}"}
        return each["status"], each["answer"]

    with answering(answer) as url:
        return talk(url)
