"""Makes single calls to an OpenAI-compatible endpoint, and finds the cause when one fails.

Waiting and retrying are left to `caller`. No error or log line quotes the endpoint, which may have quoted the event.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.driver import Completion
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.judge.credentials import CredentialSource
from ragweir.streams.services.judge.pricing import billed
from ragweir.streams.services.judge.protocol import (
    CHAT_PATH,
    CallRejected,
    EndpointFailed,
    EndpointRequest,
    EndpointResponse,
    EndpointUnusable,
    JudgeError,
    KeyRejected,
    KeyReplaced,
    OptionUnsupported,
    RateLimited,
    ResponseFormat,
    named,
)
from ragweir.streams.services.judge.transport import Response, Transport, unusable
from ragweir.streams.services.judge.usage import StatedUsage
from ragweir.streams.settings import JudgeSettings

_LONGEST_PAUSE_S = 900.0
"""The longest pause that an endpoint can ask for."""
_UNUSABLE_PAUSE_S = 60.0
_SEARCHED_CHARACTERS = 600
"""The part of an error response that is searched for words: quotations of the request come later."""


class Client:
    """A client of the judge's endpoint.

    Raises:
        ConfigurationError: if there is none, or its URL or key cannot be read.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        if settings.base_url is None:
            raise ConfigurationError("there is no judge: set judge.base_url")
        self._transport = Transport(settings)
        self._credentials = CredentialSource(settings, self._transport.basic)

    async def send(self, request: EndpointRequest, response_format: ResponseFormat) -> EndpointResponse:
        """Make one call.

        Raises:
            JudgeError: if it failed; no other exception is raised but that of a cancelled task.
        """
        body = orjson.dumps(request.body(response_format))
        sent = await self._credentials.current()
        response = await self._transport.post(request.path, body, request.most_bytes, sent.headers, sent.query)
        try:
            return _read(response, request, response_format)
        except KeyRejected:
            if await self._credentials.renew(sent):
                raise KeyReplaced from None
            raise
        except JudgeError:
            raise
        except Exception:  # The endpoint may send any type at any place.
            raise unusable() from None

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def _read(response: Response, request: EndpointRequest, response_format: ResponseFormat) -> EndpointResponse:
    """Read a response; raises JudgeError for an error, and any other exception if it is malformed."""
    if response.status >= 300:
        error = _Error.read(response)
        # Groq's code for an answer that is not JSON.
        if error.code == "json_validate_failed" and request.path == CHAT_PATH:
            return EndpointResponse(Completion(""), StatedUsage(), request.model)
        raise judge_error(error, request.model, response_format)
    data = orjson.loads(response.body)
    value = request.read(data)
    return EndpointResponse(value, request.usage_of(data.get("usage")), named(data.get("model"), request.model))


_ANY = range(300, 600)
_REDIRECTS = range(300, 400)
_TIMEOUTS = frozenset({408, 504, 524})
_FILTER = "content.?(filter|policy|management)|moderat|flagged|safety"
_NO_KEY = r'(?<!\\)"message"\s*:\s*"(authentication error[,:.]? )?(no connected db|api key not valid|invalid api key)'
_BOUND_OF_STRINGS = (
    r"maxlength|propert(y|ies)\W[^.]*\bpattern\b|[\"'`]pattern\b[^.]{0,40}not (permitted|supported|allowed)"
)
_BOUND = (
    r"propert(y|ies)\W[^.]*\b(minimum|maximum|(min|max)items)\b|[\"'`](minimum|maximum|(min|max)items)\b[^.]{0,40}"
    r"not (permitted|supported|allowed)|features not supported by xgrammar"
)
_NO_MODEL = r"model_not_found|(invalid|unknown) model|not a valid model|model\b.{0,200}\bnot (found|exist)"
_LENGTH = "context.?(length|window)|maximum context|too long|too large|too many tokens|reduce the length"

# The option that an error is about, by its status and words; the first row that fits. Some servers answer 500 to a
# request that they cannot read (llama-cpp-python): there only a field's name counts.
_WRONG = frozenset({400, 404, 415, 422, 501})
_BROKEN = frozenset({500, 502, 503, *_WRONG})
_OPTIONS: tuple[tuple[Container[int], str, str], ...] = (
    (_BROKEN, "max_completion_tokens", "length"),
    (_BROKEN, _BOUND_OF_STRINGS, "bounds of strings"),
    # Anthropic's, OpenAI's and xgrammar's (vLLM, SGLang) words; "maximum context length" is another error.
    (_BROKEN, _BOUND, "bounds"),
    (_BROKEN, "response_format|json_schema|json_object", "answers"),
    (_WRONG, "structured.?output|guided|grammar", "answers"),
    (_WRONG, "temperature", "temperature"),
)
_WITHIN_SCHEMA = {"bounds of strings", "bounds"}
# The meaning of an error, by the same; the first row that fits.
_MEANINGS: tuple[tuple[Container[int], str, type[JudgeError], str, str], ...] = (
    ({429}, "insufficient_quota", EndpointUnusable, "refused", "the judge's account has no credit left ({status})"),
    ({429}, "", RateLimited, "rate_limited", "the judge wants fewer calls ({status})"),
    (_TIMEOUTS, "", EndpointFailed, "timeout", "the judge's endpoint timed out ({status})"),
    ({409, 425, *range(500, 600)}, "", EndpointFailed, "server_error", "the judge's endpoint fails ({status})"),
    ({402}, "", EndpointUnusable, "refused", "the judge's account has no credit left ({status})"),
    ({403}, _FILTER, CallRejected, "rejected", "the judge's content filter refused the texts"),
    ({401, 403}, "", KeyRejected, "refused", "the judge rejects the key ({status})"),
    ({400}, _NO_KEY, KeyRejected, "refused", "the judge rejects the key ({status})"),
    ({400, 404, 422}, _NO_MODEL, EndpointUnusable, "refused", "the judge does not know the model {model} ({status})"),
    (_REDIRECTS, "", EndpointUnusable, "refused", "judge.base_url redirects, which is not followed ({status})"),
    ({404, 405, 410}, "", EndpointUnusable, "refused", "nothing answers at judge.base_url ({status})"),
    (_ANY, _FILTER, CallRejected, "rejected", "the judge's content filter refused the texts"),
    ({413}, "", CallRejected, "rejected", "the texts are too long for the judge"),
    (_ANY, _LENGTH, CallRejected, "rejected", "the texts are too long for the judge"),
    (_ANY, "", CallRejected, "rejected", "the judge rejected the request ({status})"),
)


@dataclass(frozen=True, slots=True)
class _Error:
    """The parts of an error response that give its meaning."""

    status: int
    headers: Mapping[str, str]
    code: str
    text: str
    """Its code, its parameter and the beginning of its body, in lower case."""

    @classmethod
    def read(cls, response: Response) -> _Error:
        """Read an error in OpenAI's form, or in any other."""
        try:
            body = orjson.loads(response.body)
        except orjson.JSONDecodeError:
            body = None
        error: Any = body.get("error") if isinstance(body, dict) else None
        error = error if isinstance(error, dict) else {}
        code, param = (each if isinstance(each := error.get(name), str) else "" for name in ("code", "param"))
        text = response.body[:_SEARCHED_CHARACTERS].decode(errors="replace")
        return cls(response.status, response.headers, code, f"{code} {param} {text}"[:_SEARCHED_CHARACTERS].lower())


def judge_error(error: _Error, model: str, response_format: ResponseFormat) -> JudgeError:
    """Return the meaning of an HTTP error for a call of a model in a response format."""
    status, text = error.status, error.text
    for statuses, words, option in _OPTIONS:
        if status in statuses and re.search(words, text) and not re.search(_NO_MODEL, text):
            if option in _WITHIN_SCHEMA and not response_format.without(option):
                continue
            if status in _WRONG or response_format.without(option):
                return OptionUnsupported(option)
    found = next((row for row in _MEANINGS if status in row[0] and re.search(row[1], text)), None)
    if found is None:
        return unusable()
    _, _, kind, outcome, why = found
    pause_s = _UNUSABLE_PAUSE_S if issubclass(kind, EndpointUnusable) else retry_after_s(error.headers, machine.time())
    return kind(outcome, why.format(status=status, model=model), pause_s=pause_s, billed=billed(status))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a response asks to wait, at most 900; None without such a header, or if it has passed.

    Args:
        headers: the response's, with names in lower case if they are case-sensitive.
        now: epoch seconds, which dates are compared with if the response has no date.

    >>> retry_after_s({"retry-after": "300"}, 0), retry_after_s({"retry-after": "soon"}, 0)
    (300.0, None)
    >>> retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:10:00 GMT"}, 60)
    540.0
    >>> dates = {"retry-after": "Thu, 01 Jan 1970 00:10:00 GMT", "date": "Thu, 01 Jan 1970 00:09:30 GMT"}
    >>> retry_after_s(dates, now=1e9)
    30.0
    """
    with suppress(ValueError, OverflowError):
        now = parsedate_to_datetime(headers.get("date", "")).timestamp()
    for name, unit_s in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        wait_s = _seconds(headers.get(name, ""), unit_s, now)
        if math.isfinite(wait_s) and wait_s > 0:
            return min(wait_s, _LONGEST_PAUSE_S)
    return None


def _seconds(value: str, unit_s: float, now: float) -> float:
    with suppress(ValueError):
        return float(value) * unit_s
    with suppress(ValueError, OverflowError):
        return parsedate_to_datetime(value).timestamp() - now
    return math.nan
