"""Settings of the judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ragweir.streams.settings.group import SettingsGroup
from ragweir.streams.settings.routing import Weight


class Price(SettingsGroup):
    """What a model costs."""

    input_usd: Annotated[float, Field(ge=0)]
    """Dollars per million input tokens."""
    output_usd: Annotated[float, Field(ge=0)]
    """Dollars per million output tokens."""


class JudgeSettings(SettingsGroup):
    """The judge: an OpenAI-compatible endpoint, and what bounds its use. Off until `base_url` is set."""

    base_url: str | None = None
    """Of the endpoint, such as https://api.openai.com/v1."""
    api_key: str | None = None
    """Best given by the environment, RAGWEIR_JUDGE__API_KEY."""
    api_key_file: Path | None = None
    """A file that holds the key instead."""
    model: str = "gpt-4o-mini"
    """Asked at temperature 0."""
    embedding_model: str | None = None
    """Of the same endpoint, for `ragas_answer_relevance` and `semantic_similarity_percentage`; without one a local
    model (extra `semantic`) gives embeddings."""
    answers: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    """The way in which an answer of the judge is bound to its schema: "json_schema" by the endpoint, "json_object" to
    JSON by the endpoint and to the schema by the prompt, "text" by the prompt alone; "auto" takes the first that the
    endpoint accepts."""
    prices: dict[str, Price] = {}
    """Per model. A model without a price is refused while there is a budget."""
    daily_budget_usd: Annotated[float, Field(ge=0)] | None = 5.0
    """The most that judging costs in a day (UTC); what does not fit waits for the next day. "none" has no bound."""
    budgets_by_application: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Dollars a day of single applications, within the whole."""
    budgets_by_tenant: dict[str, Annotated[float, Field(ge=0)]] = {}
    """Dollars a day of single tenants, within the whole."""
    other_tenants_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of `judge.daily_budget_usd` that all tenants without a budget of their own may spend together, events
    without a tenant among them. What is left is only for the tenants in `judge.budgets_by_tenant`."""
    concurrency: Annotated[int, Field(ge=1, le=2_000)] = 16
    """Events in flight in one slot."""
    requests_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Over all slots, in any 60 s; each slot has its share, and none of it in its first minute."""
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Likewise."""
    slots: Annotated[int, Field(ge=1)] = 1
    """How many slots there are in all, wherever they run: each takes this share of the limits."""
    timeout_s: Annotated[float, Field(gt=0, le=600)] = 30
    """Of one call."""
    attempts: Annotated[int, Field(ge=1, le=20)] = 4
    """Calls for one question before the event goes to judge.retry."""
    retry_delay_s: Annotated[int, Field(ge=1)] = 300
    """How long an event waits in judge.retry."""
    retries: Annotated[int, Field(ge=0)] = 5
    """How often it waits there before its status is `failed`."""
    expire_h: Annotated[float, Field(gt=0)] = 72
    """The age, since it was first asked for, at which a request's status becomes `expired`."""
    max_input_chars: Annotated[int, Field(ge=1_000)] = 60_000
    """Of an event's texts that go to the judge; longer ones are cut, and the evaluation flagged."""
    max_output_tokens: Annotated[int, Field(ge=64)] = 1_500
    """Of one answer."""
    cached_only: bool = False
    """Answer from the cache alone and call nobody; what is not there fails."""
    cache_entries: Annotated[int, Field(ge=0)] = 10_000
    """Answers that are kept."""
    cache_file: Path | None = None
    """An SQLite file that keeps them over restarts."""
    redaction: Literal["off", "on", "refuse"] = "off"
    """Whether texts are redacted before they leave; `refuse` judges no event in which there is something to redact."""
    redact_patterns: dict[str, str] = {}
    """Regular expressions by name, beside those for e-mail addresses, telephone and card numbers, IBANs and keys."""
    redact_hook: str | None = None
    """`module:function` from text to text, after the patterns."""
    redact_timeout_s: Annotated[float, Field(gt=0, le=30)] = 5
    """Time limit in seconds for `redact_patterns` and `redact_hook` on the texts of one event; they run in a child
    process, and an event on which they take longer is not sent to the judge and its status becomes `failed`."""
    ragas_weights: tuple[Weight, Weight, Weight, Weight] = (0.30, 0.20, 0.20, 0.30)
    """Of faithfulness, context precision, context recall and answer relevance in `ragas_score`."""
    breaker_failures: Annotated[int, Field(ge=1)] = 5
    """Calls that fail one after the other before the judge is left alone for a while."""
    breaker_wait_s: Annotated[float, Field(gt=0)] = 5
    """How long at first; twice as long each time after, up to two minutes, or as long as the endpoint says."""

    @field_validator("daily_budget_usd", mode="before")
    @classmethod
    def _none_is_a_word(cls, value: object) -> object:
        return None if value == "none" else value
