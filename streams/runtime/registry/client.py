"""The client of a Schema Registry: one request for a schema, and one for each schema that it refers to."""

from __future__ import annotations

import asyncio
import ssl
import zlib
from http import HTTPStatus
from typing import Any, Self
from urllib.parse import quote

import orjson
from pydantic import BaseModel, Field, ValidationError

from ragweir.errors import ConfigurationError, RegistryUnavailable, RegistryUnusable
from ragweir.schemas.registry.schema import AVRO, MAX_SCHEMA_BYTES, Schema
from ragweir.streams.runtime.certificates import certificate_error
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.masking import masked_url
from ragweir.streams.settings import RegistrySettings

TIMEOUT_SECONDS = 2.0
"""Time limit of one request, from its connection to the last byte of its answer."""
SCHEMA_SECONDS = 10.0
"""Time limit of all requests for one schema with those that it refers to."""
MAX_REFERENCES = 100
"""Maximum number of schemas that one schema refers to, directly or not."""
_MAX_ANSWER_BYTES = 4 * MAX_SCHEMA_BYTES
"""Maximum size of the answers that give one schema with those that it refers to."""
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_DECODED = ("gzip", "x-gzip", "deflate")
"""The encodings that are read, though none is asked for."""
_REJECTED = (HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
_MAX_MESSAGE = 300
_NOT_FOUND = range(40400, 40500)
"""The codes by which a registry says that it has no such schema; another 404 is that of a server that is none."""


class SchemaNotFound(Exception):
    """The registry has no such schema, or gives none that can be used. The message says so of the schema."""

    def __init__(self, message: str = "is not in the registry") -> None:
        super().__init__(message)


class _Reference(BaseModel):
    subject: str
    version: int


class _SchemaAnswer(BaseModel):
    """The answer that gives a schema."""

    type: str | None = Field(None, alias="schemaType")
    text: str = Field(alias="schema")
    references: tuple[_Reference, ...] | None = None


class _Room:
    """The bytes and the time that answers may still have."""

    def __init__(self) -> None:
        self.left, self._until_s = _MAX_ANSWER_BYTES, machine.monotonic() + SCHEMA_SECONDS

    @property
    def seconds(self) -> float:
        """The time that is left; below 0 if there is none."""
        return self._until_s - machine.monotonic()

    def take(self, size: int) -> None:
        """Count bytes.

        Raises:
            SchemaNotFound: if there are too many.
        """
        self.left -= size
        if self.left < 0:
            raise SchemaNotFound(f"cannot be used: the registry's answers are over {_MAX_ANSWER_BYTES} bytes")


class RegistryClient:
    """Reads and registers schemas. It does not repeat requests. One thread at a time may use it.

    Args:
        settings: the address and the properties of the connection; the address is set.

    Raises:
        ConfigurationError: if a file of the connection cannot be read.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self.url = masked_url(settings.url or "")
        """The address, without secrets."""
        try:
            import httpx  # noqa: PLC0415 - not needed without a registry
        except ModuleNotFoundError:
            raise ConfigurationError(
                "a Schema Registry needs the package httpx; pip install 'ragweir[registry]' brings it"
            ) from None
        self._error = httpx.HTTPError
        # A time limit of httpx is that of one read, and a server may send byte by byte; asyncio ends a whole request.
        self._runner = asyncio.Runner()
        given = settings.client
        headers = {
            "Accept": "application/vnd.schemaregistry.v1+json, application/json",
            "Accept-Encoding": "identity",
        }
        if token := given.get("bearer.auth.token"):
            headers["Authorization"] = f"Bearer {token}"
        user, _, password = given.get("basic.auth.user.info", "").partition(":")
        try:
            self._http = httpx.AsyncClient(
                base_url=settings.url or "",
                auth=(user, password) if user else None,
                headers=headers,
                timeout=TIMEOUT_SECONDS,
                verify=_tls(settings),
            )
        except (OSError, ValueError) as error:  # An SSLError is an OSError.
            raise ConfigurationError(f"registry.client: {type(error).__name__}: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._runner.run(self._http.aclose())
        self._runner.close()

    def schema(self, schema_id: int) -> Schema:
        """Return a schema with those that it refers to.

        Raises:
            SchemaNotFound: if there is none with this id, or the answer is not a schema.
            RegistryUnavailable: if there is no answer, or one that a later request may not get.
            RegistryUnusable: if a later request would get the same.
        """
        room = _Room()
        answer = self._schema(f"schemas/ids/{schema_id}", room)
        references: dict[tuple[str, int], str] = {}
        self._add_references(answer, references, room)
        return Schema(answer.type or AVRO, answer.text, tuple(references.values()))

    def subjects(self) -> int:
        """Return the number of subjects.

        Raises:
            RegistryUnavailable, RegistryUnusable: as `schema`.
        """
        answer = self._ask("GET", "subjects")
        return len(answer) if isinstance(answer, list) else 0

    def has_subject(self, subject: str) -> bool:
        """Return whether there is a version of a subject; may raise what `subjects` raises."""
        try:
            self._ask("GET", f"subjects/{quote(subject, safe='')}/versions")
        except SchemaNotFound:
            return False
        return True

    def find(self, subject: str, schema: Schema) -> int:
        """Return the id of a schema of a subject.

        Raises:
            SchemaNotFound: if it is not registered there.
            RegistryUnavailable, RegistryUnusable: as `schema`.
        """
        return _id(self._ask("POST", f"subjects/{quote(subject, safe='')}", _posted(schema)))

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema, and return its id; one that is there keeps its id. May raise what `subjects` raises."""
        return _id(self._ask("POST", f"subjects/{quote(subject, safe='')}/versions", _posted(schema)))

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set the compatibility that new versions of a subject need; may raise what `subjects` raises."""
        self._ask("PUT", f"config/{quote(subject, safe='')}", {"compatibility": level})

    def _schema(self, path: str, room: _Room) -> _SchemaAnswer:
        answer = self._ask("GET", path, room=room)
        try:
            return _SchemaAnswer.model_validate(answer)
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"])) or "the whole"
            raise SchemaNotFound(f"cannot be used: the registry's answer for it is not a schema ({where})") from None

    def _add_references(self, answer: _SchemaAnswer, found: dict[tuple[str, int], str], room: _Room) -> None:
        """Add the schemas that one refers to, each after those that it refers to itself."""
        for each in answer.references or ():
            subject, version = each.subject, each.version
            if (subject, version) in found:
                continue
            if len(found) >= MAX_REFERENCES:
                raise SchemaNotFound(f"cannot be used: it refers to more than {MAX_REFERENCES} schemas")
            found[subject, version] = ""  # Registries have no circles; this one would end here.
            inner = self._schema(f"subjects/{quote(subject, safe='')}/versions/{version}", room)
            self._add_references(inner, found, room)
            del found[subject, version]
            found[subject, version] = inner.text

    def _ask(self, method: str, path: str, body_json: Any = None, *, room: _Room | None = None) -> Any:
        """Send a request; return the JSON of its answer, whose bytes are taken from `room`."""
        content, room = None if body_json is None else orjson.dumps(body_json), room or _Room()
        try:
            return self._answer(*self._runner.run(self._exchange(method, path, content, room)))
        except TimeoutError:
            if room.seconds > 0:
                raise RegistryUnavailable(f"it gives no whole answer within {TIMEOUT_SECONDS:.0f} s") from None
            raise RegistryUnavailable(
                f"it does not give a schema, with those that it refers to, within {SCHEMA_SECONDS:.0f} s"
            ) from None
        except (self._error, ssl.SSLError, zlib.error) as error:  # A late alert of TLS is raised as it is.
            untrusted = certificate_error(error, 'registry.client with "ssl.ca.location"')
            raise RegistryUnavailable(untrusted or f"{type(error).__name__}: {error}") from None

    async def _exchange(self, method: str, path: str, content: bytes | None, room: _Room) -> tuple[int, bytes]:
        """Return the status of the answer to a request, and its body."""
        headers = {} if content is None else {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        async with (
            asyncio.timeout(min(TIMEOUT_SECONDS, room.seconds)),
            self._http.stream(method, path, content=content, headers=headers) as response,
        ):
            body = bytearray()
            async for part in response.aiter_raw():
                room.take(len(part))
                body += part
            return response.status_code, _decoded(bytes(body), response.headers.get("Content-Encoding", ""), room)

    def _answer(self, status: int, body: bytes) -> Any:
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            answer = None
        if status == HTTPStatus.OK and answer is not None:
            return answer
        code = answer.get("error_code") if isinstance(answer, dict) else None
        if status == HTTPStatus.NOT_FOUND and code in _NOT_FOUND:
            raise SchemaNotFound
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            what = "the registry does not know who asks" if status == HTTPStatus.UNAUTHORIZED else "it may not read"
            raise RegistryUnusable(
                f"{self.url} answers {status}: {what}; set registry.client with basic.auth.user.info, "
                "bearer.auth.token or a certificate that may read schemas"
            )
        if status in _REJECTED:
            why = str(answer.get("message") or "")[:_MAX_MESSAGE] if isinstance(answer, dict) else ""
            raise RegistryUnusable(f"{self.url} answers {status}: it does not take the schema: {why}")
        if status == HTTPStatus.NOT_FOUND:
            raise RegistryUnusable(
                f"{self.url} answers {status} without an error code of a Schema Registry: registry.url needs the whole "
                "path of its API, such as http://registry:8080/apis/ccompat/v7 for Apicurio"
            )
        raise RegistryUnavailable(f"it answers {status}")


def _decoded(body: bytes, encoding: str, room: _Room) -> bytes:
    """Return a body without its encoding, of as many bytes as there is room for."""
    if encoding in ("", "identity"):
        return body
    if encoding not in _DECODED:
        raise RegistryUnavailable(f"its answer has the encoding {encoding[:_MAX_MESSAGE]!r}, which was not asked for")
    decoded = zlib.decompressobj(_GZIP_OR_ZLIB).decompress(body, room.left + 1)
    room.take(len(decoded))
    return decoded


def _posted(schema: Schema) -> dict[str, str]:
    return {"schema": schema.text, "schemaType": schema.type}


def _id(answer: Any) -> int:
    """Return the id of an answer to a schema that was sent."""
    found = answer.get("id") if isinstance(answer, dict) else None
    if not isinstance(found, int):
        raise RegistryUnavailable("its answer has no id of a schema")
    return found


def _tls(settings: RegistrySettings) -> ssl.SSLContext | bool:
    given = settings.client
    if not any(name.startswith("ssl.") for name in given):
        return True
    context = ssl.create_default_context(cafile=given.get("ssl.ca.location"))
    if certificate := given.get("ssl.certificate.location"):
        # Without a password OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(certificate, given.get("ssl.key.location"), given.get("ssl.key.password", ""))
    return context
