"""The protocol of an OpenAI-compatible endpoint: requests, responses and errors, without I/O.

Errors, by cause:
    JudgeError
    ├── EndpointFailed     the endpoint failed; the same call may succeed later
    │   └── EndpointUntrusted  its certificate is not accepted
    ├── RateLimited        the endpoint is called too often
    ├── EndpointUnusable   the endpoint rejects all calls until its account or the settings are changed
    │   └── KeyRejected        it rejects the key
    ├── KeyReplaced        the key was rejected, and another one has been read since
    ├── CallRejected       the endpoint rejects this call, also later
    └── OptionUnsupported  the endpoint does not support an option of the call
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import orjson

from ragweir.metrics.judged.answer_parsing import without_reasoning
from ragweir.metrics.judged.driver import ChatCall, Completion, DecisionReply
from ragweir.metrics.judged.framing import sendable
from ragweir.metrics.judged.suite import Embed, Vectors
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.pricing import CallCost, bill, most_tokens
from ragweir.streams.services.judge.usage import StatedUsage, chat_usage, embedding_usage
from ragweir.streams.settings import JudgeSettings, Price

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_RESPONSE_BYTES = 1024 * 1024
"""The largest chat completion, and the least limit of any response."""
MAX_VECTOR_BYTES = 64 * 1024
"""The limit of a response with vectors for each text, where that is more."""
CHAT_PATH = "/chat/completions"
MAX_NAME_CHARACTERS = 100
"""The longest name of a model; longer ones are cut."""
_TEMPLATE_TOKENS = 64
"""The most tokens that a chat template adds to two messages, and the form of the check word to a schema."""
_HEX = re.compile("[0-9a-f]+")


class JudgeError(Exception):
    """A call without an answer.

    Args:
        outcome: the label in telemetry.
        why: fixed words for people.
        pause_s: the wait that the endpoint asks for, if any.
        billed: true if the endpoint may charge for the call.
    """

    def __init__(self, outcome: str, why: str, *, pause_s: float | None = None, billed: bool = False) -> None:
        super().__init__(why)
        self.outcome, self.why, self.pause_s, self.billed = outcome, why, pause_s, billed


class EndpointFailed(JudgeError):
    """The endpoint failed; the same call may succeed later."""


class EndpointUntrusted(EndpointFailed):
    """The endpoint's certificate is not accepted."""


class RateLimited(JudgeError):
    """The endpoint is called too often."""


class EndpointUnusable(JudgeError):
    """The endpoint rejects all calls until its account or the settings are changed."""


class KeyRejected(EndpointUnusable):
    """The endpoint rejects the key."""


class KeyReplaced(JudgeError):
    """The endpoint rejected the key, and another one has been read since."""

    def __init__(self) -> None:
        super().__init__("refused", "the judge's key was replaced")


class CallRejected(JudgeError):
    """The endpoint rejects this call, also later."""


class OptionUnsupported(JudgeError):
    """The endpoint does not support an option of the call."""

    def __init__(self, option: str) -> None:
        super().__init__("rejected", f"the judge does not support a setting of its {option}")
        self.option = option


_BOUNDS = {
    "all": (),
    "numbers": ("maxLength", "pattern"),
    "none": ("maxLength", "pattern", "maximum", "minimum", "maxItems", "minItems"),
}
"""Keywords that are left out of schemas, by the bounds that these may have."""


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The options of a chat completion that an endpoint supports."""

    answers: Literal["json_schema", "json_object", "text"] = "json_schema"
    """The way an answer is bound to its schema: by the endpoint, to JSON by the endpoint, or by the prompt alone."""
    length: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The option for the longest answer."""
    temperature: bool = True
    """True if a temperature may be set."""
    bounds: Literal["all", "numbers", "none"] = "all"
    """The bounds that the schema may have: all, those of numbers and lists but not of strings, or none."""

    def without(self, option: str) -> ResponseFormat | None:
        """Return the format without an option; None if it cannot be left out.

        >>> ResponseFormat().without("answers").without("answers")
        ResponseFormat(answers='text', length='max_tokens', temperature=True, bounds='all')
        """
        has_schema = self.answers == "json_schema"
        if option == "answers" and self.answers != "text":
            return replace(self, answers="json_object" if has_schema else "text")
        if option == "length" and self.length == "max_tokens":
            return replace(self, length="max_completion_tokens")
        if option == "temperature" and self.temperature:
            return replace(self, temperature=False)
        if option == "bounds of strings" and self.bounds == "all" and has_schema:
            return replace(self, bounds="numbers")
        if option == "bounds" and self.bounds != "none" and has_schema:
            return replace(self, bounds="none")
        return None

    @classmethod
    def first(cls, settings: JudgeSettings) -> ResponseFormat:
        """Return the format to try first."""
        return cls(
            answers="json_schema" if settings.answers == "auto" else settings.answers,
            length="max_tokens" if settings.output_limit == "auto" else settings.output_limit,
            temperature=settings.temperature is not None,
        )

    def simpler(self, option: str, settings: JudgeSettings) -> ResponseFormat | None:
        """Return the format to try without an unsupported option; None if there is none, or the settings require it."""
        required = {"answers": settings.answers != "auto", "length": settings.output_limit != "auto"}
        return None if required.get(option, False) else self.without(option)


JudgeValue = Completion | DecisionReply | Vectors | Null
"""The value of an answer; Null if the endpoint declines to answer."""


@dataclass(frozen=True, slots=True)
class EndpointRequest:
    """One request, before it is written in a response format."""

    model: str
    path: str
    body: Callable[[ResponseFormat], dict[str, Any]]
    read: Callable[[Any], JudgeValue]
    """Reads the decoded response; raises any exception if it is malformed."""
    most_bytes: int
    """The largest response, decompressed."""
    most_input: int
    """The most input tokens."""
    most_output: int
    """The most output tokens; 0 for embeddings."""
    usage_of: Callable[[object], StatedUsage] = chat_usage
    """Reads the usage of the decoded response, of any type."""


@dataclass(frozen=True, slots=True)
class EndpointResponse:
    """The answer of a call, and its usage as the endpoint reports it."""

    value: JudgeValue
    usage: StatedUsage
    model: str
    """The model that answered, by the endpoint's name for it: the requested name may be an alias."""

    def bill(self, request: EndpointRequest, price: Price) -> CallCost:
        """Return the cost of the call."""
        value = self.value
        if isinstance(value, Completion):
            least = (int(bool(value.text)), int(bool(value.text)))
        else:  # Neither vectors nor decisions need output tokens.
            least = (int(not isinstance(value, Null)), 0)
        return bill(price, (request.most_input, request.most_output), least, self.usage)


def chat(call: ChatCall, settings: JudgeSettings) -> EndpointRequest:
    """Return the request for a chat completion."""
    schema = orjson.dumps(call.schema).decode()
    in_prompt = f"\n\nThe JSON schema of the answer:\n{schema}"

    def body(response_format: ResponseFormat) -> dict[str, Any]:
        by_endpoint = response_format.answers == "json_schema"
        system = call.framed.system + ("" if by_endpoint else in_prompt)
        data: dict[str, Any] = {
            **settings.extra_body,
            "model": settings.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": call.framed.user}],
            response_format.length: settings.max_output_tokens,
        }
        if response_format.temperature:
            data["temperature"] = settings.temperature
        if by_endpoint:
            bound_to = _without(_with_check(call), _BOUNDS[response_format.bounds])
            form = {"name": call.name, "strict": True, "schema": bound_to}
            data["response_format"] = {"type": "json_schema", "json_schema": form}
        elif response_format.answers == "json_object":
            data["response_format"] = {"type": "json_object"}
        return data

    most_input = most_tokens(call.framed.system, call.framed.user, in_prompt) + _TEMPLATE_TOKENS
    return EndpointRequest(
        settings.model,
        CHAT_PATH,
        body,
        _completion,
        MAX_RESPONSE_BYTES,
        most_input,
        settings.max_output_tokens,
    )


def _with_check(call: ChatCall) -> dict[str, Any]:
    """Return the schema of a call with the form of its check word, without which weak models do not copy it."""
    properties = call.schema["properties"]
    if not _HEX.fullmatch(call.check):
        return {**call.schema}
    check = {**properties["check"], "pattern": f"^[0-9a-f]{{{len(call.check)}}}$"}
    return {**call.schema, "properties": {**properties, "check": check}}


def _without(schema: Any, keywords: Container[str]) -> Any:
    """Return a schema without some keywords, which an endpoint does not support."""
    if isinstance(schema, Mapping):
        return {
            # The names of properties are no keywords.
            key: {name: _without(each, keywords) for name, each in value.items()}
            if key == "properties"
            else _without(value, keywords)
            for key, value in schema.items()
            if key not in keywords
        }
    return [_without(each, keywords) for each in schema] if isinstance(schema, list) else schema


def embedding(embed: Embed, model: str) -> EndpointRequest:
    """Return the request for vectors of texts."""
    texts = [sendable(text) for text in embed.texts]

    def body(_: ResponseFormat) -> dict[str, Any]:
        return {"model": model, "input": texts, "encoding_format": "float"}

    def read(data: Any) -> Vectors:
        found = sorted(data["data"], key=lambda each: each["index"])
        if [each["index"] for each in found] != list(range(len(texts))):
            raise ValueError("not one vector per text")
        vectors = [_vector(each["embedding"]) for each in found]
        if len({vector.shape for vector in vectors}) != 1:
            raise ValueError("vectors of different lengths")
        return vectors

    most_bytes = max(MAX_RESPONSE_BYTES, MAX_VECTOR_BYTES * len(texts))
    most_input = most_tokens(*texts) + _TEMPLATE_TOKENS * len(texts)
    return EndpointRequest(model, "/embeddings", body, read, most_bytes, most_input, 0, embedding_usage)


def _vector(given: Any) -> NDArray[np.float32]:
    import numpy as np  # noqa: PLC0415 - importing it takes a fifth of a second

    if not isinstance(given, list) or not given or not set(map(type, given)) <= {int, float}:
        raise TypeError("not a list of numbers")
    with np.errstate(over="ignore"):
        vector = np.asarray(given, dtype=np.float64).astype(np.float32)
    if not np.isfinite(vector).all():
        raise ValueError("a number is out of range")
    return vector


def named(given: object, asked: str) -> str:
    r"""Return the name of the model that answered, short and without control characters.

    Args:
        given: the name in the response.
        asked: the requested name, which replaces a name that is missing or no text.

    >>> named("gpt\x1b[2J", "asked"), named("a" * 1_000, "asked") == "a" * 100, named(["a"], "asked")
    ('gpt?[2J', True, 'asked')
    """
    if not isinstance(given, str) or not given.strip():
        return asked
    return "".join(each if each.isprintable() else "?" for each in given[:MAX_NAME_CHARACTERS])


def _completion(data: Any) -> Completion | Null:
    choice = data["choices"][0]
    message, finish = choice["message"], choice.get("finish_reason")
    if finish == "content_filter" or message.get("refusal"):
        return Null("the judge declined to answer")
    text, is_cut = message.get("content"), finish == "length"
    if text is None and is_cut:
        text = ""
    if not isinstance(text, str):
        raise TypeError("not a completion")
    return Completion(text, cut=is_cut, reasoned=_has_reasoned(text, message, data.get("usage"), is_cut=is_cut))


def _has_reasoned(text: str, message: Mapping[str, object], usage: Any, *, is_cut: bool) -> bool:
    """Return whether the model reasoned before its answer, as far as servers tell."""
    answer = without_reasoning(text)
    if answer != text.strip() or any(message.get(name) for name in ("reasoning", "reasoning_content")):
        return True
    # An answer that was cut before it began is reasoning that is not shown.
    return (is_cut and not answer) or chat_usage(usage).reasoning not in (None, 0)
