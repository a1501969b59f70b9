"""Settings of the events that are read, their limits and their metrics."""

from __future__ import annotations

import json
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints
from pydantic_settings import NoDecode

from ragweir.metrics.view import TextLimits
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS, MAX_ITEMS_LIMIT
from ragweir.schemas.nearest import nearest_hint
from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.streams.settings.group import SettingsGroup

JSON = "json"
"""The format of records that are one interaction in JSON, or one that `input.map` reads."""
OTLP = "otlp"
"""The format of records that are export requests of OpenTelemetry, from which `assemble` makes interactions."""


class InputSettings(SettingsGroup):
    """The topic of interactions, and its format."""

    topic: str | None = None
    """Topic of interactions, in place of `interactions` with `topics.prefix`. It is only read: never created, never
    written, its offsets committed by ragweir's own group alone. Unset: ragweir's own topic."""
    map: Path | None = None
    """Map of the events of `input.topic` to the fields of an interaction: a TOML file, or the name of a ready map, such
    as `langfuse`. Unset: the events have ragweir's own fields."""
    format: str = JSON
    """Format of the events of `input.topic`: `json`; `avro`, `protobuf` or `jsonschema` for records that name a schema
    of the registry at `registry.url`; `otlp` for OpenTelemetry traces, which `ragweir assemble` reads
    from `input.topic` (unset: `otlp_spans`) and `assemble.topics`; or the decoder of another package, named as
    `module:attribute` or by an entry point of the group `ragweir.decoders`."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Position at which a partition without a committed offset is first read: its earliest or its latest record.
    A partition whose evaluations show how far it was read continues there instead."""
    duplicate_horizon: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    """Number of offsets within which a repeated event id is a duplicate: an event is not evaluated if its id occurred
    at most this many offsets before it on the same partition. A larger horizon takes more memory and a longer start;
    0 evaluates every event."""


class BatchSettings(SettingsGroup):
    """Size of one batch, which is handled at once. A batch ends at the first of the three limits that it reaches."""

    max_events: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Maximum number of events in one batch. Larger batches raise memory."""
    max_bytes: Annotated[int, Field(ge=1)] = 8 * 1024 * 1024
    """Size of the events in one batch, in bytes, at which it takes no further event; the last one may exceed it."""
    max_wait_ms: Annotated[int, Field(ge=1, le=5_000)] = 100
    """Maximum time that a batch waits for more events, in milliseconds. A shorter wait lowers latency where there is
    little traffic, and costs more transactions."""


class CommitSettings(SettingsGroup):
    """Size of one transaction under a backlog. Without a backlog each batch is one transaction."""

    interval_ms: Annotated[int, Field(ge=0, le=2_500)] = 1_000
    """Maximum time for which a transaction takes further batches, in milliseconds, and at most a quarter of
    `transaction.timeout.ms`. As long as more events wait than a batch has, `evaluate`, `key` and `aggregate` commit at
    this interval, not after each batch: fewer commits raise throughput, and readers see outputs later. An aborted
    transaction is repeated as a whole. 0 commits each batch."""
    max_bytes: Annotated[int, Field(ge=1)] = 64 * 1024 * 1024
    """Size of the outputs of one transaction, in bytes, at which it takes no further batch. It bounds what is repeated
    after an abort."""


def _with_defaults(given: dict[str, int]) -> dict[str, int]:
    if unknown := sorted(given.keys() - DEFAULT_MAX_ITEMS.keys()):
        near = nearest_hint(unknown[0], DEFAULT_MAX_ITEMS)
        known = ", ".join(sorted(DEFAULT_MAX_ITEMS))
        raise ValueError(f"{', '.join(unknown)}: a list of an event is one of {known}{near}")
    return {**DEFAULT_MAX_ITEMS, **given}


class LimitSettings(SettingsGroup):
    """Limits on the CPU time and memory that one event takes."""

    max_event_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = MAX_EVENT_BYTES
    """Maximum size of an event, in bytes. A larger one becomes a dead letter with its first 64 KiB, its length and its
    SHA-256."""
    max_contexts: Annotated[int, Field(ge=1)] = TextLimits().max_contexts
    """Maximum number of contexts of one event that metrics read. The contexts after them are left out, and the
    evaluation is flagged."""
    max_tokens: Annotated[int, Field(ge=1)] = TextLimits().max_tokens
    """Maximum length of one text, in tokens. A longer text is cut there, or at sixteen times as many characters, and
    the evaluation is flagged."""
    max_event_tokens: Annotated[int, Field(ge=1)] = TextLimits().max_event_tokens
    """Maximum number of tokens that metrics read of one event: of the query and the response first, then of the
    expected answers, the contexts and the extractions. Answers and contexts beyond it are cut and the evaluation is
    flagged; metrics on extractions beyond it are null. It bounds the CPU time of one event; raise it together with
    `limits.max_tokens`."""
    max_items: Annotated[dict[str, Annotated[int, Field(ge=1, le=MAX_ITEMS_LIMIT)]], AfterValidator(_with_defaults)] = (
        Field(default_factory=lambda: dict(DEFAULT_MAX_ITEMS))
    )
    """Maximum number of elements that are read of each list of an event, by the list's name; lists that are not named
    keep their defaults. The rest of a longer list is left out, the evaluation is flagged `cut:FIELD`, and every metric
    that reads the list is null with the reason `list_cut`."""
    span_tolerance_ms: Annotated[int, Field(ge=0)] = TextLimits().span_tolerance_ms
    """Time by which a span may lie outside its interaction before its latency is null, in milliseconds. It allows for
    clocks that differ."""

    @property
    def view(self) -> TextLimits:
        """The limits on the texts that metrics read."""
        return TextLimits(self.max_tokens, self.max_contexts, self.span_tolerance_ms, self.max_event_tokens)


def _names(given: object) -> object:
    """Return a list of names; a single name is a list of one. An environment variable has a name or a JSON list."""
    if isinstance(given, str) and given.lstrip().startswith("["):
        return json.loads(given)
    if isinstance(given, str | PathLike):
        return (fspath(given),)
    return (
        tuple(fspath(each) if isinstance(each, PathLike) else each for each in given)
        if (isinstance(given, list | tuple))
        else given
    )


class MetricSettings(SettingsGroup):
    """Selection of the metrics that are computed."""

    off: tuple[str, ...] = ()
    """Names of metrics, or of whole groups of metrics, that are not computed. Empty: all are."""
    packs: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = ()
    """Question packs that are loaded: the name of a pack that ships with ragweir (`EF_1`, `EF_2`, `EF_3`), of an entry
    point of the group `ragweir.packs`, or a folder of TOML files; one, or a list of them. Empty: none."""
    modules: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = ()
    """Own metrics that are loaded: the name of an entry point of the group `ragweir.metrics`, `module:attribute`, or a
    module whose attribute `METRICS` has them; one, or a list of them. Nothing else is imported. Empty: none."""


DEFAULT_OTLP_METRICS = (
    "unsupported_risk",
    "context_support",
    "query_context_coverage",
    "refusal",
    "judge_faithfulness",
)
"""One metric for each question that a trace cannot answer: made-up statements, support, retrieval and refusal, and the
judge's word on the events that the first one selects. Times, tokens and errors are in the trace already."""


class OtlpOutputSettings(SettingsGroup):
    """Evaluations as OpenTelemetry log records, which a Collector reads from Kafka.

    Without this table none are written. An empty one, `output.otlp = {}`, writes them with the defaults.
    """

    topic: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,249}$")] | None = None
    """Full name of the topic to write to, which has to exist. Unset: ragweir's own topic `otlp.evaluations`, with
    `topics.prefix`. Replays write to topics of their own in any case."""
    metrics: Annotated[tuple[str, ...], Field(min_length=1)] = DEFAULT_OTLP_METRICS
    """Names of metrics, or of whole groups of metrics, of which each has a log record. Scored evaluations have those
    that are computed for every event, judged evaluations those of the judge."""
    explanations: bool = False
    """If true, log records contain the judge's explanations, which quote users and documents."""
    evaluator: bool = False
    """If true, log records name their evaluator: `gen_ai.evaluation.evaluator.id`, `.version` and `.type`. These are
    the names of an open proposal, which may change: pull request 359 of `open-telemetry/semantic-conventions-genai`."""
    replays: bool = False
    """If true, replays write log records too, with `ragweir.run_id`."""


class OutputSettings(SettingsGroup):
    """Content of evaluations, and further forms of them."""

    include_text: bool = False
    """If true, evaluations contain the query, the response and the texts of the contexts. If false, they contain no
    text of users or documents, except for the judge's explanations and quoted evidence."""
    format: Literal["json", "avro", "protobuf", "jsonschema"] = "json"
    """Further format of evaluations and windows, with schemas in the registry at `registry.url`: evaluate and judge
    write `evaluations.FORMAT`, and aggregate `windows.FORMAT`, each record in the transaction of the one in JSON.
    `ragweir topics create` creates the topics and registers the schemas. `json`: there is none. Replays write none."""
    otlp: OtlpOutputSettings | None = None
    """Evaluations as OpenTelemetry log records: the table `output.otlp`. Unset: none are written."""

    @property
    def registry_format(self) -> str | None:
        """The format whose schemas are in the registry; None if there is JSON alone."""
        return None if self.format == "json" else self.format
