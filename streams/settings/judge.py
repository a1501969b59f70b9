"""Settings of the judge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from ragweir.streams.settings.group import SettingsGroup
from ragweir.streams.settings.routing import Weight

_OWN_HEADERS = frozenset(
    {"accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
)
_OWN_FIELDS = {
    "model": "judge.model",
    "messages": "the suites",
    "response_format": "judge.answers",
    "max_tokens": "judge.max_output_tokens",
    "max_completion_tokens": "judge.max_output_tokens",
    "temperature": "judge.temperature",
    "n": "the budget, which reserves for one answer",
    "stream": "the judge, which reads whole answers",
}
"""Fields of a chat completion that `judge.extra_body` may not have, and what sets them."""
_MOST_QUESTIONS = {"openai": 400, "systemone": 64, "sglang": 64}
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_PRINTABLE = re.compile(r"[\x20-\x7e]*")


def header_value(value: object) -> str:
    """Return the value of a header as it is sent; raises ValueError if it is not of printable ASCII characters."""
    text = str(value)
    if not _PRINTABLE.fullmatch(text):
        raise ValueError("a value is of printable ASCII characters")
    return text


class SecretSource(SettingsGroup):
    """A place outside the settings that has the value of a header or of a parameter of the query."""

    file: Path | None = None
    """File that contains the value. It is read again when the endpoint rejects the value."""
    variable: str | None = None
    """Environment variable that contains the value."""

    @model_validator(mode="after")
    def _is_one(self) -> SecretSource:
        if (self.file is None) == (self.variable is None):
            raise ValueError("a value has either a file or a variable")
        return self


class Price(SettingsGroup):
    """Price of one model."""

    input_usd: Annotated[float, Field(ge=0)]
    """Price of a million input tokens, in dollars."""
    output_usd: Annotated[float, Field(ge=0)]
    """Price of a million output tokens, in dollars."""
    cached_usd: Annotated[float, Field(ge=0)] | None = None
    """Price of a million input tokens that the endpoint had in its own cache, in dollars. Unset: that of all input
    tokens."""
    reasoning_usd: Annotated[float, Field(ge=0)] | None = None
    """Price of a million output tokens of reasoning, in dollars. Unset: that of all output tokens."""

    @model_validator(mode="after")
    def _is_no_more_if_cached(self) -> Price:
        if self.cached_usd is not None and self.cached_usd > self.input_usd:
            raise ValueError("cached_usd is above input_usd, with which calls are reserved")
        return self


class JudgeSettings(SettingsGroup):
    """The judge: an OpenAI-compatible endpoint, its budgets, limits, retries and cache. Off until `base_url` is set."""

    base_url: str | None = None
    """Base URL of the judge's OpenAI-compatible endpoint, such as https://api.openai.com/v1. Unset: nothing is
    judged."""
    api_key: str | None = None
    """API key of the judge's endpoint; set it in the environment, as RAGWEIR_JUDGE__API_KEY, rather than in a file of
    settings. Unset: calls carry no key."""
    api_key_file: Path | None = None
    """File that contains the API key of the judge's endpoint, in place of `judge.api_key`. It is read again when the
    endpoint rejects the key."""
    headers: dict[str, str | SecretSource] = {}
    """Headers of each call, in addition to those of the judge or in their place, such as `api-key`. A secret value is
    `{ file = "..." }` or `{ variable = "..." }`. In the environment, underscores stand for hyphens:
    RAGWEIR_JUDGE__HEADERS__API_KEY sets `api-key`."""
    query: dict[str, str | SecretSource] = {}
    """Parameters of each call's URL, such as `api-version`; secret values as in `judge.headers`."""
    extra_body: dict[str, Any] = {}
    """Fields of each chat completion, in addition to those of the judge, such as `reasoning_effort`. Answers with
    another `extra_body` are not taken from the cache."""
    auth: str | None = None
    """Function, named as `module:function`, that returns headers and the time in epoch seconds until which they hold.
    It is called before they expire, and when the endpoint rejects them. Unset: no headers but those of the settings."""
    ca_file: Path | None = None
    """File of the certificates (PEM) that the endpoint's is checked with. Unset: those of the system."""
    certificate_file: Path | None = None
    """File of the client certificate (PEM) that is shown to the endpoint. Unset: none is shown."""
    certificate_key_file: Path | None = None
    """File of the private key of `judge.certificate_file`. Unset: the file of the certificate contains it."""
    certificate_key_password: str | None = None
    """Password of the private key of `judge.certificate_file`; set it in the environment."""
    proxy: str | None = None
    """URL of the proxy of all calls, which may contain a user and password. Unset: the environment's HTTPS_PROXY,
    HTTP_PROXY, ALL_PROXY and NO_PROXY."""
    protocol: Literal["chat", "decisions"] = "chat"
    """Protocol of the judge's questions: "chat" asks for chat completions; "decisions" asks a decision model, which
    answers with probabilities, and asks for chat completions where the answer is a text, such as a list of claims. The
    likeliest option takes the place of a reason."""
    dialect: Literal["openai", "systemone", "sglang"] = "openai"
    """Form of the calls to a decision model: "openai" is that of OpenAI's path `/decisions`, "systemone" that of
    vLLM's path `/systemone`, "sglang" that of SGLang's path `/decisions`."""
    model: str = "gpt-4o-mini"
    """Name of the model that judges."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0
    """Temperature of the model that judges. "none" sends none, for models that reject it."""
    output_limit: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto"
    """Field of a call that has `judge.max_output_tokens`; "auto" tries `max_tokens` first at each start, and then the
    other."""
    embedding_model: str | None = None
    """Name of the endpoint's model for embeddings, which `ragas_answer_relevance` and `semantic_similarity_percentage`
    compare. Unset: a local model makes the embeddings (extra `semantic`)."""
    answers: Literal["auto", "json_schema", "json_object", "text"] = "auto"
    """The way in which an answer of the judge is bound to its schema: "json_schema" by the endpoint, "json_object" to
    JSON by the endpoint and to the schema by the prompt, "text" by the prompt alone; "auto" takes the first that the
    endpoint accepts."""
    prices: dict[str, Price] = {}
    """Price of each model by its name: `input_usd` and `output_usd`, and where they differ `cached_usd` and
    `reasoning_usd`, in dollars per million tokens. While `judge.daily_budget_usd` is set, a model without a price is an
    error."""
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

    @field_validator("daily_budget_usd", "temperature", mode="before")
    @classmethod
    def _parse_none(cls, value: object) -> object:
        return None if value == "none" else value

    @field_validator("headers", mode="before")
    @classmethod
    def _with_hyphens(cls, headers: object) -> object:
        if not isinstance(headers, dict):
            return headers
        return {str(name).lower().replace("_", "-"): value for name, value in headers.items()}

    @field_validator("headers")
    @classmethod
    def _are_headers(cls, headers: dict[str, str | SecretSource]) -> dict[str, str | SecretSource]:
        for name, value in headers.items():
            if name in _OWN_HEADERS:
                raise ValueError(f"{name} is set by the judge")
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError("a name is of letters, digits and hyphens")
            if isinstance(value, str):
                header_value(value)
        return headers

    @field_validator("extra_body")
    @classmethod
    def _leaves_own_fields(cls, body: dict[str, Any]) -> dict[str, Any]:
        if own := sorted(_OWN_FIELDS.keys() & body.keys()):
            raise ValueError(f"{own[0]} is set by {_OWN_FIELDS[own[0]]}")
        return body

    @property
    def decides(self) -> int:
        """Maximum number of questions in one call of a decision model; 0 if none is asked."""
        return _MOST_QUESTIONS[self.dialect] if self.protocol == "decisions" else 0

    @property
    def reads_apart(self) -> bool:
        """True if the input is read, and counted, once for each question to a decision model."""
        return self.protocol == "decisions" and self.dialect != "openai"

    def changed(self, *names: str) -> dict[str, Any]:
        """Return those of some settings that do not have their defaults.

        >>> JudgeSettings(temperature=0.5).changed("extra_body", "temperature")
        {'temperature': 0.5}
        """
        fields = type(self).model_fields
        return {name: value for name in names if (value := getattr(self, name)) != fields[name].default}

    @property
    def secret_files(self) -> Mapping[str, Path]:
        """The files with secrets, by the settings that name them."""
        sources = {"headers": self.headers, "query": self.query}
        named = {
            f"judge.{group}.{name}": value.file
            for group, values in sources.items()
            for name, value in values.items()
            if isinstance(value, SecretSource) and value.file
        }
        key = self.certificate_key_file or self.certificate_file
        single = {"judge.api_key_file": self.api_key_file, "judge.certificate_key_file": key}
        return {name: file for name, file in {**single, **named}.items() if file is not None}
