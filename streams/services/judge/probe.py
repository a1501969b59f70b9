"""A probe of the endpoint: one small question, sent as the judge pool sends it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from ragweir.metrics.judged.answer_parsing import CUT
from ragweir.metrics.judged.driver import ChatCall, Judged, judge
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.suite import Case, Embed
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.masking import masked_url
from ragweir.streams.services.judge.pool import build_client
from ragweir.streams.services.judge.pricing import price_of
from ragweir.streams.services.judge.protocol import (
    CallRejected,
    EndpointRequest,
    EndpointResponse,
    EndpointUntrusted,
    JudgeError,
    KeyReplaced,
    OptionUnsupported,
    RateLimited,
    ResponseFormat,
    chat,
    embedding,
)
from ragweir.streams.settings import JudgeSettings

if TYPE_CHECKING:
    from ragweir.streams.services.judge.client import Client

SIMULATED = "simulated-judge"
"""The model in every answer of the simulated judge."""
_CASE = Case(query="What is two plus two?", response="Four.", contexts=("Two plus two is four.",))
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The properties of a usable endpoint."""

    response_format: ResponseFormat
    cost: int
    """The cost of the probe, in millionths of a dollar."""
    model: str
    """The model that answered, by the endpoint's name for it."""
    ignores_schemas: bool = False
    """True if the endpoint takes JSON schemas and does not bind its answers to them."""


class _AnswerUseless(CallRejected):
    """The endpoint answers, and no score can be read from the answer."""

    def __init__(self, reason: str) -> None:
        hint = "" if reason == CUT.reason else "; does judge.model follow a schema?"
        super().__init__("rejected", f"its answer is of no use: {reason}{hint}")


def probe(settings: JudgeSettings) -> ProbeResult:
    """Ask the endpoint one small question, and for a vector if it is configured to give vectors.

    The calls are not retried, and not counted in the rate limits.

    Raises:
        JudgeError: if there is no usable answer.
        ConfigurationError: if the key cannot be read, or a package is missing.
    """
    return asyncio.run(_probe(settings))


def error_message(settings: JudgeSettings, error: JudgeError) -> str:
    """Return an endpoint's error with the settings to check, in one sentence."""
    own = isinstance(error, RateLimited | EndpointUntrusted | _AnswerUseless)
    hint = "" if own else "; are judge.base_url, judge.api_key and judge.model right?"
    return f"{masked_url(settings.base_url or '')}: {error.why}{hint}"


def unpriced(settings: JudgeSettings) -> list[str]:
    """Return the models without a price: their costs are not counted.

    >>> unpriced(JudgeSettings(model="one", embedding_model="other", prices={"one": {"input_usd": 1, "output_usd": 1}}))
    ['other']
    """
    asked = (settings.model, settings.embedding_model)
    return [model for model in dict.fromkeys(asked) if model is not None and model not in settings.prices]


async def _probe(settings: JudgeSettings) -> ProbeResult:
    client = build_client(settings)
    try:
        judged, result = await _judged(client, settings)
        if judged.statuses[RUBRIC.name] == "failed":
            raise _AnswerUseless(next(iter(judged.reasons.values())))
        if settings.embedding_model is not None:
            request = embedding(Embed((_CASE.response,)), settings.embedding_model)
            response = await client.send(request, result.response_format)
            bill = response.bill(request, price_of(settings, request.model))
            result = replace(result, cost=result.cost + bill.amount)
    finally:
        await client.aclose()
    return result


async def _judged(client: Client, settings: JudgeSettings) -> tuple[Judged, ProbeResult]:
    response_format, ignores = ResponseFormat.first(settings), False
    conversation = judge(_CASE, (RUBRIC,), partial(machine.token_hex, _WORD_BYTES))
    question, spent = next(conversation), 0
    while isinstance(question, ChatCall):
        request = chat(question, settings)
        if question.is_after_unbound and response_format.answers == "json_schema":
            simpler = response_format.simpler("answers", settings)
            response_format, ignores = simpler or response_format, simpler is not None
        response, response_format = await _send(client, settings, request, response_format)
        spent += response.bill(request, price_of(settings, request.model)).amount
        try:
            question = conversation.send(response.value)
        except StopIteration as end:
            return end.value, ProbeResult(response_format, spent, response.model, ignores)
    raise AssertionError("this suite only asks")


async def _send(
    client: Client, settings: JudgeSettings, request: EndpointRequest, response_format: ResponseFormat
) -> tuple[EndpointResponse, ResponseFormat]:
    """Return a response, and the first response format that the endpoint supports."""
    while True:
        try:
            return await client.send(request, response_format), response_format
        except OptionUnsupported as error:
            simpler = response_format.simpler(error.option, settings)
            if simpler is None:
                raise
            response_format = simpler
        except KeyReplaced:
            pass
