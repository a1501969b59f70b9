"""Carries single calls to an OpenAI-compatible endpoint, and tells whose fault it is when one comes to nothing.

One call is one request; waiting and repeating are the caller's. The transport is aiohttp, at half the CPU of openai's
default. Nothing that is raised or logged here quotes the endpoint, which may have quoted the event.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Container, Mapping
from email.utils import parsedate_to_datetime

import aiohttp
import httpx2
import openai
import orjson

from metrics.judged.driver import Completion
from streams.judging.asking import (
    Answered,
    Asked,
    Dialect,
    Limited,
    Refused,
    Rejected,
    Transient,
    Trouble,
    Unsupported,
)
from streams.settings import JudgeSettings, WrongSettings

_LONGEST_PAUSE_S = 86_400.0
_REFUSED_PAUSE_S = 60.0
_LATE = "the judge did not answer in time"
_HEARD_CHARACTERS = 600
"""How much of an error is searched for words: what quotes a request does so further behind."""


class Client:
    """The one endpoint.

    Raises:
        WrongSettings: if the key cannot be read.
    """

    def __init__(self, settings: JudgeSettings) -> None:
        # What they log at lower levels quotes requests.
        for name in ("openai", "httpx2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        self._timeout_s, half_s = settings.timeout_s, settings.timeout_s / 2
        self._openai = openai.AsyncOpenAI(
            api_key=key(settings),
            base_url=settings.base_url,
            max_retries=0,
            # A connection that cannot be made is given up first, and so told apart from an answer that does not come.
            timeout=httpx2.Timeout(settings.timeout_s, connect=half_s, pool=half_s),
            http_client=openai.DefaultAioHttpClient(limits=httpx2.Limits(max_connections=settings.concurrency)),
        )

    async def send(self, asked: Asked, dialect: Dialect) -> Answered:
        """Make one call.

        Raises:
            Trouble: if it came to nothing.
        """
        try:
            # The client's own bounds are between two packets.
            async with asyncio.timeout(self._timeout_s):
                response = await self._openai.post(asked.path, cast_to=httpx2.Response, body=asked.body(dialect))
        except TimeoutError:
            raise Transient("timeout", _LATE, billed=True) from None
        except openai.APIStatusError as error:
            if error.code == "json_validate_failed":  # Groq's word for an answer that is not JSON.
                return Answered(Completion(""), None, None, asked.model)
            raise of_status(error, asked.model) from None
        except openai.APIConnectionError as error:
            raise of_connection(error) from None
        try:
            said = orjson.loads(response.content)
            value = asked.read(said)
            usage = said.get("usage") or {}
            took = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens", 0))
            return Answered(value, *took, str(said.get("model") or asked.model))
        except (LookupError, TypeError, ValueError, AttributeError):
            raise Transient("unusable", "the judge's endpoint sent what is no answer", billed=True) from None

    async def aclose(self) -> None:
        """Close all connections."""
        await self._openai.close()


def key(settings: JudgeSettings) -> str:
    """The endpoint's key; where none is set a word without meaning, since some endpoints need none.

    Raises:
        WrongSettings: if its file cannot be read.
    """
    if settings.api_key_file is None:
        return settings.api_key or "none"
    try:
        return settings.api_key_file.read_text(encoding="utf-8").strip() or "none"
    except (OSError, ValueError):
        raise WrongSettings("judge.api_key_file cannot be read") from None


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


_ANY = range(300, 600)
_TIMEOUTS = frozenset({408, 504, 524})
_FILTER = "content.?(filter|policy|management)|moderat|flagged|safety"
_NO_MODEL = r"model_not_found|(invalid|unknown) model|not a valid model|model\b.{0,200}\bnot (found|exist)"
_LENGTH = "context.?(length|window)|maximum context|too long|too large|too many tokens|reduce the length"

# What an error says, by its status and the words that stand in it, and what that means; the first row that fits.
_OPTIONS = (
    ("max_completion_tokens", "length"),
    ("response_format|json_schema|json_object|structured.?output|guided|grammar", "answers"),
    ("temperature", "temperature"),
)
_MEANINGS: tuple[tuple[Container[int], str, type[Trouble], str, str], ...] = (
    ({429}, "insufficient_quota", Refused, "refused", "the judge's account has no credit left ({status})"),
    ({429}, "", Limited, "rate_limited", "the judge wants fewer calls ({status})"),
    (_TIMEOUTS, "", Transient, "timeout", "the judge's endpoint timed out ({status})"),
    ({409, 425, *range(500, 600)}, "", Transient, "server_error", "the judge's endpoint fails ({status})"),
    ({402}, "", Refused, "refused", "the judge's account has no credit left ({status})"),
    ({403}, _FILTER, Rejected, "rejected", "the judge's content filter refused the texts"),
    ({401, 403}, "", Refused, "refused", "the judge refuses the key ({status})"),
    ({400, 404, 422}, _NO_MODEL, Refused, "refused", "the judge does not know the model {model} ({status})"),
    ({404, 405, 410, *range(300, 400)}, "", Refused, "refused", "nothing answers at judge.base_url ({status})"),
    (_ANY, _FILTER, Rejected, "rejected", "the judge's content filter refused the texts"),
    ({413}, "", Rejected, "rejected", "the texts are too long for the judge"),
    (_ANY, _LENGTH, Rejected, "rejected", "the texts are too long for the judge"),
    (_ANY, "", Rejected, "rejected", "the judge refused the request ({status})"),
)


def of_status(error: openai.APIStatusError, model: str) -> Trouble:
    """What an HTTP error means."""
    status = error.status_code
    said = f"{error.code} {error.param} {error.message}"[:_HEARD_CHARACTERS].lower()
    for words, option in _OPTIONS:
        if status in {400, 422} and re.search(words, said) and not re.search(_NO_MODEL, said):
            return Unsupported(option)
    _, _, kind, outcome, why = next(row for row in _MEANINGS if status in row[0] and re.search(row[1], said))
    pause_s = _REFUSED_PAUSE_S if kind is Refused else retry_after_s(error.response.headers, time.time())
    return kind(outcome, why.format(status=status, model=model), pause_s=pause_s, billed=status in _TIMEOUTS)


def of_connection(error: openai.APIConnectionError) -> Transient:
    """What it means that no response came."""
    # The layers between call a cut connection a timeout; the lowest one knows better.
    cause: BaseException = error
    while cause.__cause__ is not None and not isinstance(cause, aiohttp.ClientError):
        cause = cause.__cause__
    if isinstance(cause, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError | aiohttp.InvalidURL):
        return Transient("unreachable", "the judge's endpoint cannot be reached")
    if isinstance(cause, TimeoutError):
        return Transient("timeout", _LATE, billed=True)
    return Transient("cut", "the connection to the judge broke", billed=True)


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """How long a response asks to wait, at most a day; None if it does not say, or says what is past.

    Args:
        headers: of the response, their names in lower case if they are case-sensitive.
        now: epoch seconds, against which dates are read.

    >>> retry_after_s({"retry-after": "300"}, 0), retry_after_s({"retry-after": "soon"}, 0)
    (300.0, None)
    >>> retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:10:00 GMT"}, 60)
    540.0
    """
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
