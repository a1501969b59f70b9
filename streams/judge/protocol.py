"""What is said to an OpenAI-compatible endpoint and what is made of its words, before and after the network.

Errors, by whose fault it is that no answer came:
    JudgeError
    ├── EndpointFailed     the endpoint failed; the same call may succeed later
    ├── RateLimited        it wants fewer calls
    ├── EndpointUnusable   it takes no calls of ours at all until somebody mends something
    ├── CallRejected       it does not take this one call, and will not
    └── OptionUnsupported  it does not know an option that the call used
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import orjson
from numpy.typing import NDArray

from ragweir.metrics.judged.driver import ChatCall, Completion
from ragweir.metrics.judged.framing import sendable
from ragweir.metrics.judged.suite import Embed, Vectors
from ragweir.metrics.metric import Null
from ragweir.streams.judge.pricing import CallCost, bill, most_tokens
from ragweir.streams.settings import JudgeSettings, Price

TEMPERATURE = 0
MAX_RESPONSE_BYTES = 1024 * 1024
"""The most that a chat completion may have, and that any response may have at least."""
MAX_VECTOR_BYTES = 64 * 1024
"""The most that a response may have per text whose vector is asked for, where that comes to more."""
MAX_NAME_CHARACTERS = 100
"""The characters that are kept of a model's name."""
_TEMPLATE_TOKENS = 32
"""What a chat template puts around two messages, at most."""


class JudgeError(Exception):
    """No answer came back.

    Args:
        outcome: as telemetry counts it.
        why: fixed words for people.
        pause_s: how long the endpoint wants to be left alone, if it said so.
        billed: whether it may be paid for all the same.
    """

    def __init__(self, outcome: str, why: str, *, pause_s: float | None = None, billed: bool = False) -> None:
        super().__init__(why)
        self.outcome, self.why, self.pause_s, self.billed = outcome, why, pause_s, billed


class EndpointFailed(JudgeError):
    """The endpoint failed; the same call may succeed later."""


class RateLimited(JudgeError):
    """The endpoint wants fewer calls."""


class EndpointUnusable(JudgeError):
    """The endpoint takes no calls of ours until somebody mends something."""


class CallRejected(JudgeError):
    """The endpoint does not take this one call, and will not."""


class OptionUnsupported(JudgeError):
    """The endpoint does not know an option that the call used."""

    def __init__(self, option: str) -> None:
        super().__init__("rejected", f"the judge does not support a setting of its {option}")
        self.option = option


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """Which options of a chat completion an endpoint understands."""

    answers: Literal["json_schema", "json_object", "text"] = "json_schema"
    """How the answer is bound to its schema: by the endpoint, to JSON by the endpoint, or by the prompt alone."""
    length: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """What the longest answer is called."""
    temperature: bool = True
    """Whether a temperature may be set."""
    bounds: bool = True
    """True where the schema may bound the length of strings."""

    def without(self, option: str) -> ResponseFormat | None:
        """The next simpler one; None if there is none.

        >>> ResponseFormat().without("answers").without("answers")
        ResponseFormat(answers='text', length='max_tokens', temperature=True, bounds=True)
        """
        if option == "answers" and self.answers != "text":
            return replace(self, answers="json_object" if self.answers == "json_schema" else "text")
        if option == "length" and self.length == "max_tokens":
            return replace(self, length="max_completion_tokens")
        if option == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if option == "bounds" and self.bounds and self.answers == "json_schema":
            return replace(self, bounds=False)
        return None

    @classmethod
    def first(cls, settings: JudgeSettings) -> ResponseFormat:
        """What is tried first."""
        return cls(answers="json_schema" if settings.answers == "auto" else settings.answers)

    def simpler(self, option: str, settings: JudgeSettings) -> ResponseFormat | None:
        """What to try where an option is not supported; None if there is nothing, or the settings insist on it."""
        return None if option == "answers" and settings.answers != "auto" else self.without(option)


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """One request, before it is put in a dialect."""

    model: str
    path: str
    body: Callable[[ResponseFormat], dict[str, Any]]
    read: Callable[[Any], Completion | Vectors | Null]
    """Reads the decoded response. Raises some exception if it is none."""
    most_bytes: int
    """The most that the response may have, decompressed."""
    most_input: int
    """Tokens."""
    most_output: int
    """Tokens."""


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """The answer of a call, and the tokens that the endpoint reports, whatever it reports; None where it does not."""

    value: Completion | Vectors | Null
    input_tokens: object
    output_tokens: object
    model: str
    """Which answered, as the endpoint calls it: a name that was asked for may stand for another."""

    def bill(self, asked: EndpointRequest, price: Price) -> CallCost:
        """Return what it costs."""
        answered = bool(self.value.text) if isinstance(self.value, Completion) else not isinstance(self.value, Null)
        most, stated = (asked.most_input, asked.most_output), (self.input_tokens, self.output_tokens)
        return bill(price, most, stated, answered=answered)


def chat(call: ChatCall, settings: JudgeSettings) -> EndpointRequest:
    """A question as a chat completion."""
    schema = orjson.dumps(call.schema).decode()
    in_prompt = f"\n\nThe JSON schema of the answer:\n{schema}"

    def body(dialect: ResponseFormat) -> dict[str, Any]:
        by_endpoint = dialect.answers == "json_schema"
        system = call.framed.system + ("" if by_endpoint else in_prompt)
        data: dict[str, Any] = {
            "model": settings.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": call.framed.user}],
            dialect.length: settings.max_output_tokens,
        }
        if dialect.temperature:
            data["temperature"] = TEMPERATURE
        if by_endpoint:
            bound_to = call.schema if dialect.bounds else _unbounded(call.schema)
            form = {"name": call.name, "strict": True, "schema": bound_to}
            data["response_format"] = {"type": "json_schema", "json_schema": form}
        elif dialect.answers == "json_object":
            data["response_format"] = {"type": "json_object"}
        return data

    most_input = most_tokens(call.framed.system, call.framed.user, in_prompt) + _TEMPLATE_TOKENS
    return EndpointRequest(
        settings.model,
        "/chat/completions",
        body,
        _completion,
        MAX_RESPONSE_BYTES,
        most_input,
        settings.max_output_tokens,
    )


def _unbounded(schema: Any) -> Any:
    """A schema without bounds on the length of strings, which some endpoints refuse."""
    if isinstance(schema, Mapping):
        return {key: _unbounded(each) for key, each in schema.items() if key != "maxLength"}
    return [_unbounded(each) for each in schema] if isinstance(schema, list) else schema


def embedding(embed: Embed, model: str) -> EndpointRequest:
    """Texts whose vectors are wanted."""
    texts = [sendable(text) for text in embed.texts]

    def body(_: ResponseFormat) -> dict[str, Any]:
        return {"model": model, "input": texts, "encoding_format": "float"}

    def read(said: Any) -> Vectors:
        found = sorted(said["data"], key=lambda each: each["index"])
        if [each["index"] for each in found] != list(range(len(texts))):
            raise ValueError("not one vector per text")
        vectors = [_vector(each["embedding"]) for each in found]
        if len({vector.shape for vector in vectors}) != 1:
            raise ValueError("vectors of different lengths")
        return vectors

    most_bytes = max(MAX_RESPONSE_BYTES, MAX_VECTOR_BYTES * len(texts))
    most_input = most_tokens(*texts) + _TEMPLATE_TOKENS * len(texts)
    return EndpointRequest(model, "/embeddings", body, read, most_bytes, most_input, 0)


def _vector(given: Any) -> NDArray[np.float32]:
    """One vector.

    Raises:
        TypeError, ValueError: if it is not a list of numbers, is empty, or holds what 32 bits cannot.
    """
    if not isinstance(given, list) or not given or not set(map(type, given)) <= {int, float}:
        raise TypeError("not a list of numbers")
    with np.errstate(over="ignore"):
        vector = np.asarray(given, dtype=np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("a number is out of range")
    return vector


def named(given: object, asked: str) -> str:
    r"""The name of the model that answered, as it may be kept and shown: a short text without control characters.

    Args:
        given: what the endpoint calls it.
        asked: the name that was asked for, which takes its place where it is none.

    >>> named("gpt\x1b[2J", "asked"), named("a" * 1_000, "asked") == "a" * 100, named(["a"], "asked")
    ('gpt?[2J', True, 'asked')
    """
    if not isinstance(given, str) or not given.strip():
        return asked
    return "".join(each if each.isprintable() else "?" for each in given[:MAX_NAME_CHARACTERS])


def _completion(said: Any) -> Completion | Null:
    choice = said["choices"][0]
    message, finish = choice["message"], choice.get("finish_reason")
    if finish == "content_filter" or message.get("refusal"):
        return Null("the judge declined to answer")
    text = message.get("content")
    if text is None and finish == "length":
        text = ""
    if not isinstance(text, str):
        raise TypeError("not a completion")
    return Completion(text, cut=finish == "length")
