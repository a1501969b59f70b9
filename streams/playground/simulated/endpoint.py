"""The simulated judge's endpoint without I/O: from requests to replies, with a record of the calls.

In addition to OpenAI's paths there are two under /admin for tests and the demo: the calls, and the faults.
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

from ragweir.streams.playground.serving import Reply, Request
from ragweir.streams.playground.simulated.faults import OF_COMPLETIONS, Draws, Faults, RateLimit, WrongFaults
from ragweir.streams.playground.simulated.openai_api import (
    AnswerRequest,
    Composed,
    ErrorReply,
    chat,
    embeddings,
    json_object,
    models,
)
from ragweir.streams.services.judge.probe import SIMULATED

_MAX_CALLS = 200_000
_GARBAGE = b'{"id": "simulated", "choices": [\xff\xfe<html>'
_CHAT, _EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The options of a simulated judge."""

    key: str | None = None
    """API key that requests must have; none if None."""
    models: tuple[str, ...] = ()
    """Models that may be requested; any if empty."""
    structured_outputs: bool = True
    """True if response_format json_schema is supported."""
    json_mode: bool = True
    """True if response_format json_object is supported."""
    requests_per_minute: int | None = None
    """Rate limit in any 60 s; requests above it get a 429 with Retry-After."""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """The record of one request for an answer."""

    at: float
    """Time of the request, in seconds since the epoch."""
    path: str
    schema: str
    """Name of the answer's schema; empty without one."""
    digest: str
    """Digest of the question without marks and check words, the same for a repeated question."""
    status: int
    """HTTP status of the response; 0 if none was sent."""
    fault: str
    prompt_tokens: int
    """Tokens that are charged: 0 without an answer; answers that do not arrive are charged."""
    completion_tokens: int
    cached_tokens: int
    """The part of `prompt_tokens` that is charged as cached."""


class Endpoint:
    """Answers requests, with faults, and records the calls."""

    def __init__(self, options: JudgeOptions, faults: Faults, now: float) -> None:
        self._options = options
        self._formats = {"text": True, "json_schema": options.structured_outputs, "json_object": options.json_mode}
        self._initial = faults
        self._draws = Draws(faults, now)
        self._limit = RateLimit(options.requests_per_minute)
        self._calls: deque[RecordedCall] = deque(maxlen=_MAX_CALLS)
        self._totals: Counter[str] = Counter()
        self._by_schema: Counter[str] = Counter()

    def respond(self, request: Request, now: float) -> Reply:
        """Return the reply to a request that comes at this time."""
        try:
            self._check_key(request.headers.get("authorization", ""))
            handle = _ROUTES.get((request.method, request.path), Endpoint._not_found)
            return handle(self, request.body, now)
        except ErrorReply as error:
            return error.reply

    def calls(self) -> dict[str, Any]:
        """Return the numbers of calls and tokens, and the newest calls."""
        return {
            **{name: self._totals[name] for name in ("count", "prompt_tokens", "completion_tokens")},
            "by_schema": dict(self._by_schema),
            "calls": [asdict(call) for call in self._calls],
        }

    def set_faults(self, changes: Mapping[str, Any], now: float) -> Faults:
        """Set the initial faults with these changes; schedule and random numbers start again.

        Raises:
            WrongFaults: if the changes are invalid.
        """
        faults = Faults.read(self._initial.model_dump() | dict(changes))
        self._draws = Draws(faults, now)
        return faults

    def _check_key(self, authorization: str) -> None:
        key = self._options.key
        if key is not None and not compare_digest(authorization.encode(), f"Bearer {key}".encode()):
            raise ErrorReply(401, "incorrect API key provided", "invalid_api_key")

    def _chat(self, body: bytes, now: float) -> Reply:
        return self._answered(_CHAT, chat(body, self._formats, now), now)

    def _embeddings(self, body: bytes, now: float) -> Reply:
        return self._answered(_EMBEDDINGS, embeddings(body), now)

    def _models(self, _: bytes, now: float) -> Reply:
        return models(self._options.models or (SIMULATED,), now)

    def _not_found(self, _: bytes, __: float) -> Reply:
        raise ErrorReply(404, "there is nothing at this path, or not by this method")

    def _get_calls(self, _: bytes, __: float) -> Reply:
        return Reply(200, orjson.dumps(self.calls()))

    def _post_faults(self, body: bytes, now: float) -> Reply:
        try:
            return Reply(200, orjson.dumps(self.set_faults(json_object(body), now).model_dump()))
        except WrongFaults as wrong:
            raise ErrorReply(400, str(wrong)) from None

    def _answered(self, path: str, question: AnswerRequest, now: float) -> Reply:
        fault, answer = "", Composed(b"", 0)
        try:
            self._check_model(question.model)
            if wait_s := self._limit.wait_s(now):
                raise _too_many({"Retry-After": str(ceil(wait_s))})
            delay_s, fault = self._draws.draw(now)
            if path == _EMBEDDINGS and fault in OF_COMPLETIONS:
                fault = ""
            self._raise_fault(fault)
            if fault == "hang":
                reply = Reply(0, b"", ending="never")
            else:
                answer = question.compose(fault)
                body = _GARBAGE if fault == "garbage" else answer.body
                reply = Reply(200, body, delay_s=delay_s, ending="cut" if fault == "cut-connection" else "whole")
        except ErrorReply as error:
            reply = error.reply
        self._record(now, path, question, reply.status, fault, answer)
        return reply

    def _raise_fault(self, fault: str) -> None:
        match fault:
            case "429":
                raise _too_many({"Retry-After": str(self._draws.faults.retry_after_s)})
            case "429-bare":
                raise _too_many({})
            case "500" | "503":
                raise ErrorReply(int(fault), "a fault that was requested")

    def _check_model(self, model: str) -> None:
        if self._options.models and model not in self._options.models:
            raise ErrorReply(404, f"the model {model!r} does not exist", "model_not_found")

    def _record(
        self, now: float, path: str, question: AnswerRequest, status: int, fault: str, answer: Composed
    ) -> None:
        tokens_in, tokens_out = answer.prompt_tokens, answer.completion_tokens
        self._calls.append(
            RecordedCall(
                now, path, question.schema, question.digest, status, fault, tokens_in, tokens_out, answer.cached_tokens
            )
        )
        self._totals.update(count=1, prompt_tokens=tokens_in, completion_tokens=tokens_out)
        if path == _CHAT:
            self._by_schema[question.schema] += 1


def _too_many(headers: Mapping[str, str]) -> ErrorReply:
    return ErrorReply(429, "too many requests", "rate_limit_exceeded", headers)


_ROUTES: Mapping[tuple[str, str], Callable[[Endpoint, bytes, float], Reply]] = MappingProxyType(
    {
        ("POST", _CHAT): Endpoint._chat,
        ("POST", _EMBEDDINGS): Endpoint._embeddings,
        ("GET", "/v1/models"): Endpoint._models,
        ("GET", "/admin/calls"): Endpoint._get_calls,
        ("POST", "/admin/faults"): Endpoint._post_faults,
    }
)
