"""Settings: `ragweir.toml`, overridden by RAGWEIR_ environment variables, overridden by flags."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)
from typing_extensions import override

from ragweir.errors import ConfigurationError
from ragweir.metrics.view import TextLimits
from ragweir.schemas.codec.intake import MAX_ITEMS, MOST_ITEMS
from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.schemas.window import duration_s
from ragweir.streams.permissions import open_to_all

DEFAULT_FILE = Path("ragweir.toml")
SHIPPED_KEY = "ragweir"
"""The default of `routing.key`, which everybody knows."""
SHIPPED_KEY_WARNING = (
    "routing.key is the shipped default: whoever knows it can choose ids that are judged; "
    "set RAGWEIR_ROUTING__KEY to `openssl rand -hex 16`"
)

GUARDED = frozenset(
    {
        "acks",
        "auto.offset.reset",
        "bootstrap.servers",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "isolation.level",
        "oauth.cb",
        "partition.assignment.strategy",
        "partitioner",
        "transactional.id",
    }
)
"""The librdkafka properties that carry the guarantees, or have a setting of their own."""

_BRANCHES = {"bool", "float", "int", "str"}
"""How pydantic names the branches of a union in a setting's path."""
_IN_TOML = {
    "extra_forbidden": "there is no such setting",
    "model_type": "must be a table",
    "dict_type": "must be a table",
}
"""The kinds of error that pydantic explains in words of Python."""


class SettingsGroup(BaseModel):
    """A group of settings: unknown names are errors, so that a typing mistake is not silently a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class KafkaSettings(SettingsGroup):
    """How to reach Kafka."""

    bootstrap_servers: str = "127.0.0.1:9092"
    """Kafka's address, or several separated by commas."""
    client: dict[str, str | int | float | bool] = {}
    """Any librdkafka property (TLS, SASL, buffers, timeouts) but the guarded ones.

    Environment variables have no dots in their names, so that RAGWEIR_KAFKA__CLIENT__SASL_PASSWORD is `sasl.password`.
    """
    oauth: str | None = None
    """`module:function` that gives (token, expiry in epoch seconds), for token sign-in."""

    @field_validator("client", mode="before")
    @classmethod
    def _take_names_from_the_environment(cls, client: object) -> object:
        if not isinstance(client, dict):
            return client
        dotted = {name: value for name, value in client.items() if "_" not in name}
        return dotted | {name.replace("_", "."): value for name, value in client.items() if "_" in name}

    @field_validator("client")
    @classmethod
    def _leave_the_guarantees(cls, client: dict[str, str | int | float | bool]) -> dict[str, str | int | float | bool]:
        if refused := sorted(GUARDED & client.keys()):
            raise ValueError(f"{', '.join(refused)} may not be set here: ragweir's guarantees rest on it")
        return client


class TopicSettings(SettingsGroup):
    """Our topics."""

    prefix: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{0,100}$")] = "rag."
    """What the names of our topics and groups begin with."""
    partitions: Annotated[int, Field(ge=1, le=10_000)] = 12
    """Of each topic; adding some later moves keys, so ask for enough at the start."""
    replication_factor: Annotated[int, Field(ge=-1)] = -1
    """-1 leaves it to the broker."""


class InputSettings(SettingsGroup):
    """Where interactions are read."""

    topic: str | None = None
    """Another topic than our interactions; it is only read."""
    map: Path | None = None
    """The map that reads it, if its shape is foreign."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a group without committed offsets starts, unless evaluations say how far their events were read."""
    duplicate_horizon: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    """An event whose id occurred within so many offsets before it, on the same partition, is not evaluated again."""


class BatchSettings(SettingsGroup):
    """How much goes into one transaction. Batches grow to the limits under load and are cut at `max_wait_ms`."""

    max_events: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Events in one transaction, at most."""
    max_bytes: Annotated[int, Field(ge=1)] = 8 * 1024 * 1024
    """Bytes of events in one transaction, but for the last event."""
    max_wait_ms: Annotated[int, Field(ge=1, le=5_000)] = 100
    """How long a batch waits for more events."""


def _all_lists(given: dict[str, int]) -> dict[str, int]:
    if unknown := sorted(given.keys() - MAX_ITEMS.keys()):
        raise ValueError(f"{', '.join(unknown)}: a list of an event is one of {', '.join(sorted(MAX_ITEMS))}")
    return {**MAX_ITEMS, **given}


class LimitSettings(SettingsGroup):
    """What bounds the work and memory of one event."""

    max_event_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = MAX_EVENT_BYTES
    """A larger event becomes a dead letter with its head, length and SHA-256."""
    max_contexts: Annotated[int, Field(ge=1)] = TextLimits().max_contexts
    """Contexts beyond this many are left out, and the evaluation flagged."""
    max_tokens: Annotated[int, Field(ge=1)] = TextLimits().max_tokens
    """Longer texts are cut at this many tokens, or at sixteen times as many characters, and the evaluation flagged."""
    max_event_tokens: Annotated[int, Field(ge=1)] = TextLimits().max_event_tokens
    """Tokens that are read of one event in all: of the query and the response, then of the expected answers, the
    contexts and the extractions. Answers and contexts beyond it are cut and the evaluation is flagged; metrics on
    extractions beyond it are null. It bounds the CPU time of one event; raise it together with `max_tokens`."""
    max_items: Annotated[dict[str, Annotated[int, Field(ge=1, le=MOST_ITEMS)]], AfterValidator(_all_lists)] = Field(
        default_factory=lambda: dict(MAX_ITEMS)
    )
    """The number of elements that are read of each list of an event; lists that are not named keep their defaults. The
    rest of a longer list is left out, the evaluation flagged cut:FIELD, and every metric that reads the list null with
    the reason list_cut."""
    span_tolerance_ms: Annotated[int, Field(ge=0)] = TextLimits().span_tolerance_ms
    """How far a span may lie outside its interaction before its latency is null."""

    @property
    def view(self) -> TextLimits:
        """What of it concerns the metrics."""
        return TextLimits(self.max_tokens, self.max_contexts, self.span_tolerance_ms, self.max_event_tokens)


class MetricSettings(SettingsGroup):
    """Which metrics are computed."""

    off: tuple[str, ...] = ()
    """Names of metrics or of whole groups that are switched off; they cost nothing."""
    packs: Path | None = None
    """A folder of question packs beside those that ship."""


class OutputSettings(SettingsGroup):
    """What evaluations carry."""

    include_text: bool = False
    """Whether the texts of the interaction stand on its evaluation."""


def _must_be_dimensions(names: Iterable[str]) -> None:
    plain = {"application", "tenant", "environment", "pipeline_version", "model", "question_id"}
    if unknown := [name for name in names if name not in plain and not re.fullmatch(r"labels\.\w{1,60}", name)]:
        raise ValueError(f"{', '.join(unknown)}: a dimension is one of {', '.join(sorted(plain))}, or labels.NAME")


class WindowSettings(SettingsGroup):
    """Windows of event time."""

    sizes: tuple[str, ...] = ("1m", "5m", "1h")
    """Each a multiple of the first, which is the one that is kept; readers merge the larger ones."""
    dimensions: tuple[str, ...] = ("application", "model", "pipeline_version")
    """Fields of the evaluation, or `labels.NAME`, that windows are split by."""
    values: dict[str, tuple[str, ...]] = {}
    """Per dimension the admitted values; others count under __overflow__. All are admitted where none are listed."""
    max_series: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Label sets that the windows of a partition keep apart within `hold_h`; a new one beyond them counts under
    __overflow__. `export` keeps as many apart over all partitions."""
    new_series_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Label sets that may be new within an hour of event time, per partition, beside those of the first window held;
    further new ones count under __overflow__. A label set that any held window has is not new."""
    max_bytes: Annotated[int, Field(ge=1024 * 1024)] = 512 * 1024 * 1024
    """Memory of one `aggregate` worker for the windows that it holds, in bytes, shared equally by its partitions. A
    further label set of a window that has no room counts under __overflow__. The process takes some 300 MB beside it:
    give it a memory limit of twice as much, and of at least 512 MB."""
    grace_s: Annotated[int, Field(ge=0)] = 30
    """How long after its end a window waits for events that are late."""
    disorder_s: Annotated[int, Field(ge=0)] = 10
    """How far events may come out of order before they count as late."""
    idle_s: Annotated[int, Field(ge=1)] = 60
    """A partition without new events for this long holds no window open."""
    hold_h: Annotated[float, Field(gt=0)] = 2
    """How long, in event time, a window stays in memory; an older one is continued as a new part."""
    retention_h: Annotated[int, Field(ge=1)] = 720
    """How long the windows topic keeps them."""
    commit_ms: Annotated[int, Field(ge=50, le=10_000)] = 1_000
    """How often windows are written."""

    @field_validator("sizes")
    @classmethod
    def _are_multiples(cls, sizes: tuple[str, ...]) -> tuple[str, ...]:
        seconds = [duration_s(size) for size in sizes]
        if not seconds or any(each % seconds[0] for each in seconds) or seconds != sorted(set(seconds)):
            raise ValueError("sizes grow, and each is a multiple of the first")
        if 86_400 % seconds[0]:
            raise ValueError("the first size divides a day")
        return sizes

    @field_validator("dimensions")
    @classmethod
    def _are_fields(cls, dimensions: tuple[str, ...]) -> tuple[str, ...]:
        _must_be_dimensions(dimensions)
        return dimensions


class Slo(SettingsGroup):
    """A service level objective on a metric: the share of events that must be good."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,60}$")]
    metric: str
    """A metric of the catalogue."""
    at_least: float | None = None
    """An event is good when the metric is at least this."""
    at_most: float | None = None
    """An event is good when the metric is at most this."""
    objective: Annotated[float, Field(gt=0, lt=1)]
    """The share of good events, such as 0.95."""
    dimensions: dict[str, str] = {}
    """Only events with these values of these dimensions count."""

    @field_validator("dimensions")
    @classmethod
    def _are_fields(cls, dimensions: dict[str, str]) -> dict[str, str]:
        _must_be_dimensions(dimensions)
        return dimensions

    @model_validator(mode="after")
    def _has_one_bound(self) -> Slo:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"SLO {self.name} needs either at_least or at_most")
        return self

    def good(self, value: float) -> bool:
        """Whether a value meets the objective's bound."""
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)


Probability = Annotated[float, Field(ge=0, le=1)]
Weight = Annotated[float, Field(ge=0)]


class Rule(SettingsGroup):
    """A reason to judge an event: one condition on a metric or a field. What is null or absent fulfils none."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,60}$")]
    on: str
    """A metric, a category, or a field of the interaction (`application`, `labels.region`, `expected`, ...)."""
    above: FiniteFloat | None = None
    """Fulfilled by what is greater; what is equal is not."""
    below: FiniteFloat | None = None
    """Fulfilled by what is less; what is equal is not."""
    is_: Annotated[str | bool | FiniteFloat | None, Field(alias="is")] = None
    """Text, a label, a number; true and false of a metric are 1 and 0."""
    in_: Annotated[tuple[str, ...] | None, Field(alias="in", min_length=1)] = None
    """Texts or labels."""
    present: Literal[True] | None = None
    """Whatever its value is, as long as there is one."""
    unless: str | None = None
    """A boolean metric that, when true, keeps the rule from firing."""
    suites: Annotated[tuple[str, ...], Field(min_length=1)]
    probability: Probability = 1.0
    """With which an event that fulfils the condition is selected."""

    @model_validator(mode="after")
    def _has_one_condition(self) -> Rule:
        if len(self._conditions) != 1:
            raise ValueError(f"rule {self.name} needs one of above, below, is, in, present")
        return self

    @property
    def condition(self) -> tuple[str, Any]:
        """Its operator and what that compares with.

        >>> Rule(name="risk", on="unsupported_risk", above=0.7, suites=("rubric",)).condition
        ('above', 0.7)
        """
        return self._conditions[0]

    @property
    def _conditions(self) -> list[tuple[str, Any]]:
        given = (("above", self.above), ("below", self.below), ("is", self.is_), ("in", self.in_))
        return [each for each in (*given, ("present", self.present)) if each[1] is not None]


_RULES = (
    Rule(name="risk", on="unsupported_risk", above=0.7, unless="refusal", suites=("rubric",)),
    # It fires on some two fifths of real answers, most of them good: enough is a part of them.
    Rule(name="hallucination", on="lexical_hallucination", above=0.7, suites=("rubric",), probability=0.2),
    Rule.model_validate({"name": "no-context", "on": "answered_without_context", "is": True, "suites": ("rubric",)}),
    Rule(name="recall", on="context_recall_heuristic", below=0.7, suites=("context_recall",)),
    Rule.model_validate({"name": "limit", "on": "hit_limit_warning", "is": True, "suites": ("context_recall",)}),
    Rule(
        name="reference",
        on="expected",
        present=True,
        suites=("ragas", "factual", "classification", "semantic"),
        probability=0.02,
    ),
)


class RoutingSettings(SettingsGroup):
    """Which events the judge gets. A replay selects the same ones."""

    rules: tuple[Rule, ...] = _RULES
    """Reasons to judge an event; an event is selected with the largest probability of those that fire.

    Rules set here take the place of those that ship. Of these, the ones on metrics that are switched off are left out;
    a rule set here on such a metric is an error.
    """
    floors: dict[str, Probability] = {"rubric": 0.02, "context_recall": 0.02}
    """Per suite, the probability with which any event is selected at random, so that estimates speak of all events."""
    key: str = SHIPPED_KEY
    """The secret of the hash that selects events at random, 1 to 64 bytes, best given by the environment as
    RAGWEIR_ROUTING__KEY. Another key selects other events; a producer who knows the key, such as this default, can
    choose event ids that are judged."""

    @field_validator("rules")
    @classmethod
    def _names_differ(cls, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
        if len({rule.name for rule in rules}) < len(rules):
            raise ValueError("two rules have the same name")
        if any(rule.name == "floor" for rule in rules):
            raise ValueError("floor is the name of the random floor")
        return rules

    @field_validator("key")
    @classmethod
    def _fits_the_hash(cls, key: str) -> str:
        if not 0 < len(key.encode()) <= 64:
            raise ValueError("the key has 1 to 64 bytes")
        return key


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


class TelemetrySettings(SettingsGroup):
    """Where each service shows its state; a worker's port is the base plus its slot."""

    host: str = "127.0.0.1"
    """The address to listen on; loopback unless set."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 9_464
    """The base port; 0 lets the system choose."""


class Settings(BaseSettings):
    """All settings, each with a default that suits a local broker."""

    model_config = SettingsConfigDict(
        env_prefix="RAGWEIR_", env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    input: InputSettings = InputSettings()
    batch: BatchSettings = BatchSettings()
    limits: LimitSettings = LimitSettings()
    metrics: MetricSettings = MetricSettings()
    output: OutputSettings = OutputSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    windows: WindowSettings = WindowSettings()
    routing: RoutingSettings = RoutingSettings()
    judge: JudgeSettings = JudgeSettings()
    slo: tuple[Slo, ...] = ()

    @field_validator("slo")
    @classmethod
    def _names_differ(cls, slo: tuple[Slo, ...]) -> tuple[Slo, ...]:
        if len({each.name for each in slo}) < len(slo):
            raise ValueError("two SLOs have the same name")
        return slo

    @property
    def selects_by_shipped_key(self) -> bool:
        """Return whether events are selected for a judge by the key that everybody knows."""
        return self.judge.base_url is not None and self.routing.key == SHIPPED_KEY

    @property
    def input_topic(self) -> str:
        """The topic that interactions are read from."""
        return self.input.topic or f"{self.topics.prefix}interactions"


def load(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings from a file (`ragweir.toml` of this folder by default), the environment and flags.

    Args:
        file: the settings file; one that is named must exist.
        overrides: what flags set, as nested mappings; None values are left out.

    Raises:
        ConfigurationError: in one sentence, without any value that might be secret; also where a file that the settings
            come from or name can be changed by every user of the machine.
    """
    if file is not None and not file.is_file():
        raise ConfigurationError(f"there is no settings file {file}")
    chosen = file or DEFAULT_FILE
    if chosen.is_file():
        must_be_closed(chosen)
    # pydantic-settings passes over variables of groups that it does not know, and a default would stand silently.
    for variable in os.environ:
        group, nested, _ = variable.lower().removeprefix("ragweir_").partition("__")
        if variable.lower().startswith("ragweir_") and nested and group not in Settings.model_fields:
            raise ConfigurationError(f"the environment sets {variable}, and there is no group {group!r} of settings")

    class Layered(Settings):
        @classmethod
        @override
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=chosen)

    given: dict[str, Any] = {
        group: {name: value for name, value in values.items() if value is not None}
        for group, values in (overrides or {}).items()
    }
    try:
        settings = Layered(**given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        name = ".".join(str(step) for step in first["loc"] if step not in _BRANCHES)
        told = _IN_TOML.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise ConfigurationError(f"setting {name}: {told}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"the settings file {chosen} is not TOML: {error}") from None
    except (SettingsError, ValueError, OSError) as error:
        raise ConfigurationError(f"the settings cannot be read: {error}") from None
    _must_name_closed_files(settings)
    return settings


def _must_name_closed_files(settings: Settings) -> None:
    packs = settings.metrics.packs
    for named in (settings.judge.api_key_file, packs, *(packs.glob("*.toml") if packs else ())):
        if named is not None:
            must_be_closed(named)


def must_be_closed(path: Path) -> None:
    """Refuse a file or folder that decides what ragweir does and that every user of the machine may change.

    Raises:
        ConfigurationError: if it, or its folder, is writable by all; on Windows never.
    """
    if (place := open_to_all(path)) is not None:
        of = "" if place == path.absolute() else f", where {path} lies"
        raise ConfigurationError(
            f"every user of this machine may change {place}{of}, so it is not used: chmod o-w {place}"
        )


def imported(place: str) -> Callable[..., Any]:
    """The function that `module:function` names; the module may lie in the working folder, and is run.

    >>> imported("json:dumps")(1)
    '1'

    Raises:
        ConfigurationError: if there is none, or every user of the machine may change its module.
    """
    module, _, name = place.partition(":")
    folder = str(Path.cwd())
    if folder not in sys.path:  # At the end: nothing there may stand in for a module of ours.
        sys.path.append(folder)
    steps = module.split(".")
    try:
        for depth in range(1, len(steps) + 1):  # Finding a module runs the packages around it: they are checked first.
            _must_be_closed_module(".".join(steps[:depth]))
        function = getattr(importlib.import_module(module), name)
    except ConfigurationError:
        raise
    except Exception as error:
        raise ConfigurationError(f"{place!r} cannot be imported as module:function ({type(error).__name__})") from None
    if not callable(function):
        raise ConfigurationError(f"{place!r} is not a function")
    return function  # type: ignore[no-any-return]


def _must_be_closed_module(name: str) -> None:
    """Refuse a module whose source, compiled form or package folder every user of the machine may change."""
    found = importlib.util.find_spec(name)
    if found is None:
        return
    places = [Path(place) for place in found.submodule_search_locations or ()]
    if found.has_location and found.origin:
        places.append(Path(found.origin))
    if found.cached:
        places += [Path(found.cached), Path(found.cached).parent]
    for place in places:
        if place.exists():
            must_be_closed(place)
