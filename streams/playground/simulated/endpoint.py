"""The simulated judge's endpoint without I/O: requests in, replies out, and what was called kept for who asks.

Beside OpenAI's paths there are two under /admin for tests and the demo: what was called, and the faults.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hmac import compare_digest
from math import ceil
from types import MappingProxyType
from typing import Any

import orjson

from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.playground.simulated.faults import OF_COMPLETIONS, Draws, Faults, RateLimit, WrongFaults
from ragweir.streams.playground.simulated.openai_api import (
    AnswerRequest,
    Composed,
    ErrorReply,
    Reply,
    chat,
    embeddings,
    json_object,
    models,
)

_KEPT_CALLS = 200_000
_GARBAGE = b'{"id": "simulated", "choices": [\xff\xfe<html>'
_CHAT, _EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class Options:
    """What the simulated judge is started with."""

    key: str | None = None
    """Which requests must bear; None lets everybody in."""
    models: tuple[str, ...] = ()
    """Which may be asked for; empty for any."""
    structured_outputs: bool = True
    """Whether response_format json_schema is served; else it is refused."""
    json_mode: bool = True
    """Whether response_format json_object is."""
    requests_per_minute: int | None = None
    """In any 60 s; what goes beyond is refused, with Retry-After."""


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. Names of headers are lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """What is remembered of one request for an answer."""

    at: float
    """When it came, in seconds since the epoch."""
    path: str
    schema: str
    """The name of the answer's schema; empty where there was none."""
    digest: str
    """Of what was asked, without marks and check words: a repeated question has the same."""
    status: int
    """Of the response; 0 when none was sent."""
    fault: str
    prompt_tokens: int
    """What it was charged with: 0 when no answer was made; an answer that did not arrive is charged for."""
    completion_tokens: int


class Endpoint:
    """All that the simulated judge says, and remembers.

    Args:
        options: what it is started with.
        faults: how it misbehaves until told otherwise.
        now: the time, in seconds since the epoch.
    """

    def __init__(self, options: Options, faults: Faults, now: float) -> None:
        self._options = options
        self._formats = {"text": True, "json_schema": options.structured_outputs, "json_object": options.json_mode}
        self._initial = faults
        self._draws = Draws(faults, now)
        self._limit = RateLimit(options.requests_per_minute)
        self._calls: deque[RecordedCall] = deque(maxlen=_KEPT_CALLS)
        self._totals: Counter[str] = Counter()
        self._by_schema: Counter[str] = Counter()

    def respond(self, request: Request, now: float) -> Reply:
        """The reply to a request that came at this time."""
        try:
            self._must_bear_key(request.headers.get("authorization", ""))
            handle = _ROUTES.get((request.method, request.path), Endpoint._nothing)
            return handle(self, request.body, now)
        except ErrorReply as refused:
            return refused.reply

    def calls(self) -> dict[str, Any]:
        """What was called: counts and tokens of all calls, and each of the newest."""
        return {
            **{name: self._totals[name] for name in ("count", "prompt_tokens", "completion_tokens")},
            "by_schema": dict(self._by_schema),
            "calls": [asdict(call) for call in self._calls],
        }

    def set_faults(self, changes: Mapping[str, Any], now: float) -> Faults:
        """Misbehave as at the start but for these fields; schedule and seed begin anew.

        Raises:
            WrongFaults: if they cannot be.
        """
        faults = Faults.read(self._initial.model_dump() | dict(changes))
        self._draws = Draws(faults, now)
        return faults

    def _must_bear_key(self, authorization: str) -> None:
        key = self._options.key
        if key is not None and not compare_digest(authorization.encode(), f"Bearer {key}".encode()):
            raise ErrorReply(401, "incorrect API key provided", "invalid_api_key")

    def _chat(self, body: bytes, now: float) -> Reply:
        return self._answered(_CHAT, chat(body, self._formats, now), now)

    def _embeddings(self, body: bytes, now: float) -> Reply:
        return self._answered(_EMBEDDINGS, embeddings(body), now)

    def _models(self, _: bytes, now: float) -> Reply:
        return models(self._options.models or (SIMULATED,), now)

    def _nothing(self, _: bytes, __: float) -> Reply:
        raise ErrorReply(404, "there is nothing at this path, or not by this method")

    def _told_calls(self, _: bytes, __: float) -> Reply:
        return Reply(200, orjson.dumps(self.calls()))

    def _told_faults(self, body: bytes, now: float) -> Reply:
        try:
            return Reply(200, orjson.dumps(self.set_faults(json_object(body), now).model_dump()))
        except WrongFaults as wrong:
            raise ErrorReply(400, str(wrong)) from None

    def _answered(self, path: str, asked: AnswerRequest, now: float) -> Reply:
        fault, answer = "", Composed(b"", 0)
        try:
            self._must_serve(asked.model)
            if wait_s := self._limit.wait_s(now):
                raise _too_many({"Retry-After": str(ceil(wait_s))})
            delay_s, fault = self._draws.draw(now)
            if path == _EMBEDDINGS and fault in OF_COMPLETIONS:
                fault = ""
            self._must_not_fail(fault)
            if fault == "hang":
                reply = Reply(0, b"", ending="never")
            else:
                answer = asked.compose(fault)
                body = _GARBAGE if fault == "garbage" else answer.body
                reply = Reply(200, body, delay_s=delay_s, ending="cut" if fault == "cut-connection" else "whole")
        except ErrorReply as refused:
            reply = refused.reply
        self._remember(now, path, asked, reply.status, fault, answer)
        return reply

    def _must_not_fail(self, fault: str) -> None:
        match fault:
            case "429":
                raise _too_many({"Retry-After": str(self._draws.faults.retry_after_s)})
            case "429-bare":
                raise _too_many({})
            case "500" | "503":
                raise ErrorReply(int(fault), "a failure that was asked for")

    def _must_serve(self, model: str) -> None:
        if self._options.models and model not in self._options.models:
            raise ErrorReply(404, f"the model {model!r} does not exist", "model_not_found")

    def _remember(self, now: float, path: str, asked: AnswerRequest, status: int, fault: str, answer: Composed) -> None:
        tokens_in, tokens_out = answer.prompt_tokens, answer.completion_tokens
        self._calls.append(RecordedCall(now, path, asked.schema, asked.digest, status, fault, tokens_in, tokens_out))
        self._totals.update(count=1, prompt_tokens=tokens_in, completion_tokens=tokens_out)
        if path == _CHAT:
            self._by_schema[asked.schema] += 1


def _too_many(headers: Mapping[str, str]) -> ErrorReply:
    return ErrorReply(429, "too many requests", "rate_limit_exceeded", headers)


_ROUTES: Mapping[tuple[str, str], Callable[[Endpoint, bytes, float], Reply]] = MappingProxyType(
    {
        ("POST", _CHAT): Endpoint._chat,
        ("POST", _EMBEDDINGS): Endpoint._embeddings,
        ("GET", "/v1/models"): Endpoint._models,
        ("GET", "/admin/calls"): Endpoint._told_calls,
        ("POST", "/admin/faults"): Endpoint._told_faults,
    }
)
