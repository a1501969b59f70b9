"""OpenAI's API as far as the simulated judge has it: reading requests, and composing answers and errors."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil
from typing import Any

import orjson

from ragweir.streams.playground.serving import Reply
from ragweir.streams.playground.simulated.word_overlap import ChatRequest, answered, read, vector
from ragweir.streams.services.judge.probe import SIMULATED

DIMENSIONS = 256
"""Dimensions of embeddings, unless a request has another number."""
_MOST_DIMENSIONS = 4_096
_BYTES_PER_TOKEN = 4
_PROSE = "simulated: all in all I would call this a rather good answer, 9 out of 10."
_WRONG_SCHEMA = '{"verdict": "simulated"}'


class ErrorReply(Exception):
    """The request gets an error instead of an answer."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = {"message": f"simulated: {message}", "type": kind, "param": None, "code": code}
        self.reply = Reply(status, orjson.dumps({"error": error}), headers or {})


@dataclass(frozen=True, slots=True)
class Composed:
    """The body of an answer, and the tokens that are charged."""

    body: bytes
    prompt_tokens: int
    completion_tokens: int = 0
    cached_tokens: int = 0
    """The part of the prompt that is charged as if it had been cached: an even number, about a quarter."""


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A request for an answer, read."""

    model: str
    schema: str
    """Name of the answer's schema; empty without one."""
    digest: str
    """Digest of the question without marks and check words."""
    compose: Callable[[str], Composed]
    """Returns the answer with a fault of completions; empty for none."""


def json_object(body: bytes) -> dict[str, Any]:
    """Parse the body of a request, a JSON object.

    Raises:
        ErrorReply: if it is none.
    """
    try:
        given = orjson.loads(body)
    except orjson.JSONDecodeError:
        given = None
    if not isinstance(given, dict):
        raise ErrorReply(400, "the body is not a JSON object")
    return given


def chat(body: bytes, formats: Mapping[str, bool], now: float) -> AnswerRequest:
    """Read a request for a chat completion.

    Raises:
        ErrorReply: if it is invalid or not supported.
    """
    given = json_object(body)
    response_format = given.get("response_format") or {"type": "text"}
    try:
        kind, model, question = (
            str(response_format["type"]),
            str(given["model"]),
            read(given["messages"], response_format),
        )
    except (KeyError, TypeError, AttributeError):
        raise ErrorReply(400, "model, messages or response_format are missing or of a wrong shape") from None
    if not formats.get(kind, False):
        raise ErrorReply(400, f"response_format.type {kind!r} is not supported by this model")
    if given.get("stream"):
        raise ErrorReply(400, "stream is not supported")
    most = given.get("max_completion_tokens") or given.get("max_tokens")
    max_bytes = _BYTES_PER_TOKEN * most if isinstance(most, int) else None
    return AnswerRequest(
        model, question.name, question.digest, lambda fault: _completion(question, fault, max_bytes, now)
    )


def embeddings(body: bytes) -> AnswerRequest:
    """Read a request for embeddings.

    Raises:
        ErrorReply: if it is invalid or not supported.
    """
    given = json_object(body)
    texts = [given["input"]] if isinstance(given.get("input"), str) else given.get("input")
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise ErrorReply(400, "input is neither a text nor a list of texts, or a text is empty")
    dimensions = given.get("dimensions", DIMENSIONS)
    if not isinstance(dimensions, int) or not 0 < dimensions <= _MOST_DIMENSIONS:
        raise ErrorReply(400, f"dimensions are not between 1 and {_MOST_DIMENSIONS}")
    packed = given.get("encoding_format", "float") == "base64"
    digest = sha256(orjson.dumps(texts)).hexdigest()[:32]
    return AnswerRequest(str(given.get("model")), "", digest, lambda _: _vectors(texts, dimensions, packed=packed))


def models(names: Sequence[str], now: float) -> Reply:
    """Return the list of models."""
    data = [{"id": name, "object": "model", "created": int(now), "owned_by": "simulated"} for name in names]
    return Reply(200, orjson.dumps({"object": "list", "data": data}))


def _tokens(text: str) -> int:
    return ceil(len(text.encode(errors="replace")) / _BYTES_PER_TOKEN)


def _text(question: ChatRequest, fault: str) -> str:
    match fault:
        case "prose":
            return _PROSE
        case "wrong-schema":
            return _WRONG_SCHEMA
    try:
        return answered(question)
    except (LookupError, TypeError, AttributeError, ValueError, RecursionError):
        raise ErrorReply(400, "the schema of response_format is not one that can be filled in") from None


def _completion(question: ChatRequest, fault: str, max_bytes: int | None, now: float) -> Composed:
    """Return a completion, cut by the fault or at the largest number of bytes."""
    whole = _text(question, fault).encode()
    max_bytes = len(whole) // 2 if fault == "cut-answer" else max_bytes
    text = whole[:max_bytes].decode(errors="ignore")
    finish = "length" if max_bytes is not None and len(whole) > max_bytes else "stop"
    tokens_in, tokens_out = sum(map(_tokens, question.messages)), _tokens(text)
    cached = tokens_in // 8 * 2
    message = {"role": "assistant", "content": text, "refusal": None}
    body = {
        "id": f"chatcmpl-simulated-{question.digest}",
        "object": "chat.completion",
        "created": int(now),
        "model": SIMULATED,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
            "prompt_tokens_details": {"cached_tokens": cached},
        },
    }
    return Composed(orjson.dumps(body), tokens_in, tokens_out, cached)


def _vectors(texts: Sequence[str], dimensions: int, *, packed: bool) -> Composed:
    vectors = [vector(text, dimensions) for text in texts]
    shown = [base64.b64encode(array("f", each).tobytes()).decode() for each in vectors] if packed else vectors
    tokens = sum(map(_tokens, texts))
    data = [{"object": "embedding", "index": index, "embedding": each} for index, each in enumerate(shown)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return Composed(orjson.dumps({"object": "list", "data": data, "model": SIMULATED, "usage": usage}), tokens)
