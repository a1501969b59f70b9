"""Makes single calls to an OpenAI-compatible endpoint, and tells whose fault it is when one comes to nothing.

One call is one request; waiting and repeating are the caller's. Nothing that is raised or logged here quotes the
endpoint, which may have quoted the event.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Container, Mapping
from contextlib import suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.driver import Completion
from ragweir.streams.judge.pricing import billed
from ragweir.streams.judge.protocol import (
    CallRejected,
    EndpointFailed,
    EndpointRequest,
    EndpointResponse,
    EndpointUnusable,
    JudgeError,
    OptionUnsupported,
    RateLimited,
    ResponseFormat,
    named,
)
from ragweir.streams.judge.transport import Response, Transport, unusable
from ragweir.streams.settings import JudgeSettings

_LONGEST_PAUSE_S = 900.0
"""After so long one call tries, whatever the endpoint asked for."""
_REFUSED_PAUSE_S = 60.0
_HEARD_CHARACTERS = 600
"""How much of an error is searched for words: what quotes a request does so further behind."""


class Client:
    """The one endpoint.

    Raises:
        ConfigurationError: if there is none, its URL cannot be read, or its key.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        if settings.base_url is None:
            raise ConfigurationError("there is no judge: set judge.base_url")
        self._transport = Transport(settings.base_url, key(settings), settings.timeout_s, settings.concurrency)

    async def send(self, asked: EndpointRequest, dialect: ResponseFormat) -> EndpointResponse:
        """Make one call.

        Raises:
            JudgeError: if it came to nothing; no other exception is raised but that of a cancelled task.
        """
        response = await self._transport.post(asked.path, orjson.dumps(asked.body(dialect)), asked.most_bytes)
        try:
            return _answered(response, asked, dialect)
        except JudgeError:
            raise
        except Exception:  # Whatever the endpoint sends, of any type at any place, is the endpoint's fault.
            raise unusable() from None

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()


def _answered(response: Response, asked: EndpointRequest, dialect: ResponseFormat) -> EndpointResponse:
    """Read a response.

    Raises:
        JudgeError: if it is an error.
        Exception: of any type, if it is no answer.
    """
    if response.status >= 300:
        error = _Error.read(response)
        if error.code == "json_validate_failed":  # Groq's word for an answer that is not JSON.
            return EndpointResponse(Completion(""), None, None, asked.model)
        raise of_error(error, asked.model, dialect)
    said = orjson.loads(response.body)
    value = asked.read(said)
    took = tokens(said.get("usage"), chat=asked.most_output > 0)
    return EndpointResponse(value, *took, named(said.get("model"), asked.model))


def key(settings: JudgeSettings) -> str:
    """The endpoint's key; where none is set a word without meaning, since some endpoints need none.

    Raises:
        ConfigurationError: if its file cannot be read.
    """
    if settings.api_key_file is None:
        return settings.api_key or "none"
    try:
        return settings.api_key_file.read_text(encoding="utf-8").strip() or "none"
    except (OSError, ValueError):
        raise ConfigurationError("judge.api_key_file cannot be read") from None


def tokens(usage: object, *, chat: bool) -> tuple[object, object]:
    """The tokens that an answer says it took, in and out, whatever it says; None for each that it does not say.

    >>> tokens({"prompt_tokens": 12, "completion_tokens": -3}, chat=True), tokens(None, chat=True)
    ((12, -3), (None, None))
    >>> tokens({"prompt_tokens": 4}, chat=False), tokens([], chat=False)
    ((4, 0), (None, None))
    """
    stated: Mapping[str, object] = usage if isinstance(usage, dict) else {}
    taken = stated.get("prompt_tokens")
    given = stated.get("completion_tokens") if chat else (None if taken is None else 0)
    return taken, given


_ANY = range(300, 600)
_REDIRECTS = range(300, 400)
_TIMEOUTS = frozenset({408, 504, 524})
_FILTER = "content.?(filter|policy|management)|moderat|flagged|safety"
_NO_MODEL = r"model_not_found|(invalid|unknown) model|not a valid model|model\b.{0,200}\bnot (found|exist)"
_LENGTH = "context.?(length|window)|maximum context|too long|too large|too many tokens|reduce the length"

# Which option an error is about, by its status and the words that stand in it; the first row that fits. Some servers
# answer 500 to a request that they cannot read (llama-cpp-python): there only a field's own name counts.
_WRONG = frozenset({400, 404, 415, 422, 501})
_BROKEN = frozenset({500, 502, 503, *_WRONG})
_OPTIONS: tuple[tuple[Container[int], str, str], ...] = (
    (_BROKEN, "max_completion_tokens", "length"),
    (_BROKEN, "maxlength", "bounds"),
    (_BROKEN, "response_format|json_schema|json_object", "answers"),
    (_WRONG, "structured.?output|guided|grammar", "answers"),
    (_WRONG, "temperature", "temperature"),
)
# What an error means, by the same; the first row that fits.
_MEANINGS: tuple[tuple[Container[int], str, type[JudgeError], str, str], ...] = (
    ({429}, "insufficient_quota", EndpointUnusable, "refused", "the judge's account has no credit left ({status})"),
    ({429}, "", RateLimited, "rate_limited", "the judge wants fewer calls ({status})"),
    (_TIMEOUTS, "", EndpointFailed, "timeout", "the judge's endpoint timed out ({status})"),
    ({409, 425, *range(500, 600)}, "", EndpointFailed, "server_error", "the judge's endpoint fails ({status})"),
    ({402}, "", EndpointUnusable, "refused", "the judge's account has no credit left ({status})"),
    ({403}, _FILTER, CallRejected, "rejected", "the judge's content filter refused the texts"),
    ({401, 403}, "", EndpointUnusable, "refused", "the judge refuses the key ({status})"),
    ({400, 404, 422}, _NO_MODEL, EndpointUnusable, "refused", "the judge does not know the model {model} ({status})"),
    (_REDIRECTS, "", EndpointUnusable, "refused", "judge.base_url redirects, which is not followed ({status})"),
    ({404, 405, 410}, "", EndpointUnusable, "refused", "nothing answers at judge.base_url ({status})"),
    (_ANY, _FILTER, CallRejected, "rejected", "the judge's content filter refused the texts"),
    ({413}, "", CallRejected, "rejected", "the texts are too long for the judge"),
    (_ANY, _LENGTH, CallRejected, "rejected", "the texts are too long for the judge"),
    (_ANY, "", CallRejected, "rejected", "the judge refused the request ({status})"),
)


@dataclass(frozen=True, slots=True)
class _Error:
    """The parts of an error response that its meaning is told by."""

    status: int
    headers: Mapping[str, str]
    code: str
    said: str
    """The beginning of what it says, in lower case."""

    @classmethod
    def read(cls, response: Response) -> _Error:
        """An error in OpenAI's form, or in any other."""
        try:
            body = orjson.loads(response.body)
        except orjson.JSONDecodeError:
            body = None
        error: Any = body.get("error") if isinstance(body, dict) else None
        error = error if isinstance(error, dict) else {}
        code, param = (each if isinstance(each := error.get(name), str) else "" for name in ("code", "param"))
        text = response.body[:_HEARD_CHARACTERS].decode(errors="replace")
        return cls(response.status, response.headers, code, f"{code} {param} {text}"[:_HEARD_CHARACTERS].lower())


def of_error(error: _Error, model: str, dialect: ResponseFormat) -> JudgeError:
    """The trouble that an HTTP error means, to a call of a model in a dialect."""
    status, said = error.status, error.said
    for statuses, words, option in _OPTIONS:
        if status in statuses and re.search(words, said) and not re.search(_NO_MODEL, said):
            if option == "bounds" and not dialect.bounds:
                continue
            if status in _WRONG or dialect.without(option):
                return OptionUnsupported(option)
    found = next((row for row in _MEANINGS if status in row[0] and re.search(row[1], said)), None)
    if found is None:
        return unusable()
    _, _, kind, outcome, why = found
    pause_s = _REFUSED_PAUSE_S if kind is EndpointUnusable else retry_after_s(error.headers, time.time())
    return kind(outcome, why.format(status=status, model=model), pause_s=pause_s, billed=billed(status))


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a response asks to wait, at most 900; None if it does not say, or says what is past.

    Args:
        headers: of the response, their names in lower case if they are case-sensitive.
        now: epoch seconds, against which dates are read where the response has no date of its own.

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


def _seconds(said: str, unit_s: float, now: float) -> float:
    try:
        return float(said) * unit_s
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(said).timestamp() - now
    except (ValueError, OverflowError):
        return math.nan
