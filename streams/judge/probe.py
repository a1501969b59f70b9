"""Asks the endpoint one small question as the judge pool would, to see whether it can be used at all, and how."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from ragweir.metrics.judged.driver import ChatCall, Judged, judge
from ragweir.metrics.judged.rubric import RUBRIC
from ragweir.metrics.judged.suite import Case, Embed
from ragweir.streams.judge.pool import build_client
from ragweir.streams.judge.pricing import FREE
from ragweir.streams.judge.protocol import (
    CallRejected,
    EndpointRequest,
    EndpointResponse,
    JudgeError,
    OptionUnsupported,
    RateLimited,
    ResponseFormat,
    chat,
    embedding,
)
from ragweir.streams.masking import masked_url
from ragweir.streams.settings import JudgeSettings

if TYPE_CHECKING:
    from ragweir.streams.judge.client import Client

SIMULATED = "simulated-judge"
"""The model that every answer of the simulated judge names, whichever was asked for."""
_CASE = Case(query="What is two plus two?", response="Four.", contexts=("Two plus two is four.",))
_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """What an endpoint is like that can be used."""

    dialect: ResponseFormat
    cost: int
    """Of the check itself, in millionths of a dollar."""
    model: str
    """Which answered, as the endpoint calls it."""

    @property
    def simulated(self) -> bool:
        """Whether no model is behind it."""
        return self.model == SIMULATED


def probe(settings: JudgeSettings) -> ProbeResult:
    """Put one small question, by a prompt that ships, and ask for a vector where the endpoint is to give vectors.

    These few calls are not repeated when they fail, and the limits per minute are not looked at.

    Raises:
        JudgeError: if no usable answer came.
        ConfigurationError: if the key cannot be read, or a package is missing.
    """
    return asyncio.run(_checked(settings))


def told(settings: JudgeSettings, error: JudgeError) -> str:
    """What is wrong with an endpoint and what to look at, in one sentence."""
    hint = "" if isinstance(error, RateLimited) else "; are judge.base_url, judge.api_key and judge.model right?"
    return f"{masked_url(settings.base_url or '')}: {error.why}{hint}"


def unpriced(settings: JudgeSettings) -> list[str]:
    """The models that are asked and whose price nobody has set: what they cost is counted by nobody.

    >>> unpriced(JudgeSettings(model="one", embedding_model="other", prices={"one": FREE}))
    ['other']
    """
    asked = (settings.model, settings.embedding_model)
    return [model for model in dict.fromkeys(asked) if model is not None and model not in settings.prices]


async def _checked(settings: JudgeSettings) -> ProbeResult:
    client = build_client(settings)
    try:
        found, dialect, model, spent = await _judged(client, settings)
        if found.statuses[RUBRIC.name] == "failed":
            raise CallRejected("rejected", f"its answer is of no use: {next(iter(found.reasons.values()))}")
        if settings.embedding_model is not None:
            asked = embedding(Embed((_CASE.response,)), settings.embedding_model)
            answered = await client.send(asked, dialect)
            spent += answered.bill(asked, settings.prices.get(asked.model, FREE)).amount
    finally:
        await client.aclose()
    return ProbeResult(dialect, spent, model)


async def _judged(client: Client, settings: JudgeSettings) -> tuple[Judged, ResponseFormat, str, int]:
    """What the endpoint says of an event of ours, in which dialect, by which model, and what that cost."""
    dialect = ResponseFormat.first(settings)
    conversation = judge(_CASE, (RUBRIC,), partial(secrets.token_hex, _WORD_BYTES))
    said, spent = next(conversation), 0
    while isinstance(said, ChatCall):
        asked = chat(said, settings)
        answered, dialect = await _answered(client, settings, asked, dialect)
        spent += answered.bill(asked, settings.prices.get(asked.model, FREE)).amount
        try:
            said = conversation.send(answered.value)
        except StopIteration as end:
            return end.value, dialect, answered.model, spent
    raise AssertionError("this suite only asks")


async def _answered(
    client: Client, settings: JudgeSettings, asked: EndpointRequest, dialect: ResponseFormat
) -> tuple[EndpointResponse, ResponseFormat]:
    """An answer, and the dialect that the endpoint understood."""
    while True:
        try:
            return await client.send(asked, dialect), dialect
        except OptionUnsupported as error:
            simpler = dialect.simpler(error.option, settings)
            if simpler is None:
                raise
            dialect = simpler
