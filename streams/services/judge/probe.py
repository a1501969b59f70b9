"""A probe of the endpoint: one small question, sent as the judge pool sends it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from ragweir.metrics.judged.answer_parsing import CUT
from ragweir.metrics.judged.driver import ChatCall, DecisionCall, Judged, judge
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.suite import Case, Embed
from ragweir.metrics.judged.suites import suites
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.masking import masked_url
from ragweir.streams.services.judge.decisions import decisions
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
from ragweir.streams.services.judge.usage import StatedUsage
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
    calls: int = 1
    """The number of calls until an answer could be used."""
    latency_s: float = 0.0
    """Duration of the last of them, in seconds."""
    usage: StatedUsage = field(default_factory=StatedUsage)
    """Tokens of the last of them."""


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
    found = ProbeResult(ResponseFormat.first(settings), 0, "", calls=0)
    suite = suites(decides=settings.decides)[RUBRIC.name]
    conversation = judge(_CASE, (suite,), partial(machine.token_hex, _WORD_BYTES))
    question = next(conversation)
    while isinstance(question, ChatCall | DecisionCall):
        request = decisions(question, settings) if isinstance(question, DecisionCall) else chat(question, settings)
        is_unbound = isinstance(question, ChatCall) and question.is_after_unbound
        if is_unbound and found.response_format.answers == "json_schema":
            simpler = found.response_format.simpler("answers", settings)
            ignores = simpler is not None
            found = replace(found, response_format=simpler or found.response_format, ignores_schemas=ignores)
        response, found = await _send(client, settings, request, found)
        spent = response.bill(request, price_of(settings, request.model)).amount
        found = replace(found, cost=found.cost + spent, model=response.model, usage=response.usage)
        try:
            question = conversation.send(response.value)
        except StopIteration as end:
            return end.value, found
    raise AssertionError("this suite only asks")


async def _send(
    client: Client, settings: JudgeSettings, request: EndpointRequest, found: ProbeResult
) -> tuple[EndpointResponse, ProbeResult]:
    """Return a response, and the first response format that the endpoint supports."""
    while True:
        began, found = machine.monotonic(), replace(found, calls=found.calls + 1)
        try:
            response = await client.send(request, found.response_format)
            return response, replace(found, latency_s=machine.monotonic() - began)
        except OptionUnsupported as error:
            simpler = found.response_format.simpler(error.option, settings)
            if simpler is None:
                raise
            found = replace(found, response_format=simpler)
        except KeyReplaced:
            pass
