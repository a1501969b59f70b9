"""Settings of the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ragweir.streams.settings.group import SettingsGroup
from ragweir.streams.settings.routing import Weight


class Price(SettingsGroup):
    """Price of one model."""

    input_usd: Annotated[float, Field(ge=0)]
    """Price of a million input tokens, in dollars."""
    output_usd: Annotated[float, Field(ge=0)]
    """Price of a million output tokens, in dollars."""


class JudgeSettings(SettingsGroup):
    """The judge: an OpenAI-compatible endpoint, its budgets, limits, retries and cache. Off until `base_url` is set."""

    base_url: str | None = None
    """Base URL of the judge's OpenAI-compatible endpoint, such as https://api.openai.com/v1. Unset: nothing is
    judged."""
    api_key: str | None = None
    """API key of the judge's endpoint; set it in the environment, as RAGWEIR_JUDGE__API_KEY, rather than in a file of
    settings. Unset: calls carry no key."""
    api_key_file: Path | None = None
    """File that contains the API key of the judge's endpoint, in place of `judge.api_key`."""
    model: str = "gpt-4o-mini"
    """Name of the model that judges, at temperature 0."""
    embedding_model: str | None = None
    """Name of the endpoint's model for embeddings, which `ragas_answer_relevance` and `semantic_similarity_percentage`
    compare. Unset: a local model makes the embeddings (extra `semantic`)."""
    answers: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    """The way in which an answer of the judge is bound to its schema: "json_schema" by the endpoint, "json_object" to
    JSON by the endpoint and to the schema by the prompt, "text" by the prompt alone; "auto" takes the first that the
    endpoint accepts."""
    prices: dict[str, Price] = {}
    """Price of each model by its name: `input_usd` and `output_usd`, in dollars per million tokens. While
    `judge.daily_budget_usd` is set, a model without a price is an error."""
    daily_budget_usd: Annotated[float, Field(ge=0)] | None = 5.0
    """Maximum cost of judging in one day (UTC), in dollars; requests beyond it wait for the next day. 0 judges nothing
    that costs money, "none" sets no limit."""
    budgets_by_application: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Maximum cost of judging in one day (UTC) by application, in dollars, within `judge.daily_budget_usd`.
    Applications that are not named have no limit of their own."""
    budgets_by_tenant: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Maximum cost of judging in one day (UTC) by tenant, in dollars, within `judge.daily_budget_usd`. Tenants that are
    not named share `judge.other_tenants_share`."""
    other_tenants_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of `judge.daily_budget_usd`, from 0 to 1, that events without a tenant and tenants without a budget in
    `judge.budgets_by_tenant` may spend together. The rest is reserved for the tenants that have one; 1 reserves
    nothing."""
    concurrency: Annotated[int, Field(ge=1, le=2_000)] = 16
    """Maximum number of events that one slot judges at the same time. A larger number raises throughput and the load on
    the endpoint."""
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of calls in any 60 s, over all slots. Each slot has an equal share of it. Calls before a
    restart count too: a slot goes on with what the ledger has of them, and makes no call in the first minute of a new
    host, a replay or `ragweir score`. Unset: no limit."""
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Maximum number of input and output tokens in any 60 s, over all slots. Each slot has an equal share of it.
    Calls before a restart count too, as for `judge.requests_per_minute`. Unset: no limit."""
    slots: Annotated[int, Field(ge=1)] = 1
    """Number of `judge` workers in total, on all machines. `judge.requests_per_minute` and `judge.tokens_per_minute`
    are divided by it."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 30
    """Timeout of one judge call, in seconds."""
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """Maximum number of calls for one question. If all of them fail, the event goes to the topic `judge.retry`."""
    retry_delay_s: Annotated[int, Field(ge=1)] = 300
    """Time that an event waits in the topic `judge.retry` before it is judged again, in seconds."""
    retries: Annotated[int, Field(ge=0)] = 5
    """Maximum number of times that an event waits in the topic `judge.retry`; after that its status becomes `failed`.
    0 fails it at once."""
    expire_h: Annotated[float, Field(gt=0)] = 72
    """Age of a request, in hours since it was first written, at which its status becomes `expired` without a call."""
    max_input_chars: Annotated[int, Field(ge=1_000)] = 60_000
    """Maximum length of an event's texts in one judge request, in characters. Longer texts are cut and the evaluation
    is flagged."""
    max_output_tokens: Annotated[int, Field(ge=64)] = 1_500
    """Maximum length of one answer of the judge, in tokens. The cost of a call is reserved in the budget with this
    length."""
    anchor_file: Path | None = None
    """File of answers that people have labelled, by which a drift of the judge is seen: interactions with a field `bad`
    (true or false), or lines of `ragweir dataset`, at least 100 bad and 50 good ones. The judge judges them again and
    again, within the budget and without the cache: 10 times in five days as a baseline, then 3 times a day. Their
    verdicts are on the first question of `labels.questions`. Unset: no anchors."""
    cached_only: bool = False
    """If true, answers come from the cache alone and no call is made; a question without a cached answer fails."""
    cache_entries: Annotated[int, Field(ge=0)] = 10_000
    """Maximum number of answers in the cache; the oldest are deleted first. 0 turns the cache off."""
    cache_file: Path | None = None
    """SQLite file of the cache, which outlasts restarts and which several processes may share. Unset: the cache is in
    memory."""
    redaction: Literal["off", "on", "refuse"] = "off"
    """Redaction of personal data in the texts that are sent to the judge: "off" sends them as they are, "on" replaces
    every match by a placeholder, "refuse" does not judge an event that has a match."""
    redact_patterns: dict[str, str] = {}
    """Regular expressions to redact, by name, in addition to those for e-mail addresses, telephone and card numbers,
    IBANs and keys. They are searched for in the text, and then with every space, dash and digit as in ASCII and without
    characters that have no width."""
    redact_hook: str | None = None
    """Function from text to text that redacts texts after the patterns, named as `module:function` or by an entry point
    of the group `ragweir.redaction`. Unset: only the patterns do."""
    redact_timeout_s: Annotated[float, Field(gt=0, le=30)] = 5
    """Time limit, in seconds, of `judge.redact_patterns` and `judge.redact_hook` on the texts of one event. They run in
    a child process; an event on which they take longer is not sent to the judge and its status becomes `failed`."""
    ragas_weights: tuple[Weight, Weight, Weight, Weight] = (0.30, 0.20, 0.20, 0.30)
    """Weights of faithfulness, context precision, context recall and answer relevance, in this order, in the mean
    `ragas_score`. 0 leaves a part out."""
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    """Number of consecutive failed calls that opens the circuit breaker, which stops all calls for a time."""
    breaker_wait_s: Annotated[float, Field(gt=0)] = 5
    """Time that the circuit breaker stays open at first, in seconds. It doubles with each failed probe, up to two
    minutes; if the endpoint asks for a time, that time is kept."""

    @field_validator("daily_budget_usd", mode="before")
    @classmethod
    def _parse_none(cls, value: object) -> object:
        return None if value == "none" else value
