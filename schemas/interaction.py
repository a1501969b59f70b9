"""The interaction: one answered question, as an application publishes it."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _in_utc(time: datetime) -> datetime:
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def parse_time(value: object) -> datetime:
    """Read RFC 3339 text or epoch milliseconds as a time in UTC; a time without an offset is taken as UTC.

    A leap second is read as the second after it, as Unix time does.

    >>> parse_time("2026-11-21T12:00:00.250+02:00")
    datetime.datetime(2026, 11, 21, 10, 0, 0, 250000, tzinfo=datetime.timezone.utc)
    >>> parse_time(1764000000250) == parse_time("2025-11-24T16:00:00.250Z")
    True

    Raises:
        ValueError: if it is neither, or lies outside the years 1 to 9999.
    """
    if isinstance(value, str):
        try:
            if value[14:19] == "59:60":
                return parse_time(f"{value[:17]}59{value[19:]}") + timedelta(seconds=1)
            return _in_utc(datetime.fromisoformat(value.upper()))
        except (ValueError, OverflowError):
            raise ValueError("not an RFC 3339 time") from None
    if isinstance(value, datetime):
        return _in_utc(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return _EPOCH + timedelta(milliseconds=value)
        except (ValueError, OverflowError):
            raise ValueError("epoch milliseconds out of range") from None
    raise ValueError("a time is RFC 3339 text or epoch milliseconds")


def _as_text(value: object) -> object:
    """Structured content is read as its compact JSON, so that a table or an API's answer can be a context."""
    if isinstance(value, str):
        return value
    if value is None:  # No text is no text, and not the word "null".
        return ""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        raise ValueError("content is nested too deeply") from None


def _exact_id(value: object) -> object:
    """JSON integers beyond 64 bits arrive as rounded floats, and two events must not come to share an id."""
    if isinstance(value, float):
        raise ValueError("an id is text or a 64-bit integer")  # noqa: TRY004 - pydantic wants a ValueError
    return value


def _as_labels(value: object) -> object:
    """Absent labels are none; a boolean is the word that JSON has for it."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {name: str(label).lower() if isinstance(label, bool) else label for name, label in value.items()}
    return value


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


Time = Annotated[
    datetime,
    PlainValidator(parse_time),
    WithJsonSchema(
        {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}],
            "description": "RFC 3339, or epoch milliseconds",
        },
        mode="validation",
    ),
]
Labels = Annotated[dict[str, str], BeforeValidator(_as_labels)]
AnyText = Annotated[str, BeforeValidator(_as_text), WithJsonSchema({"description": "text, or any JSON value"})]
Answers = Annotated[
    tuple[str, ...],
    BeforeValidator(_as_tuple),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]
Confidence = Annotated[FiniteFloat, Field(ge=0, le=1)] | Annotated[str, Field(strict=True, max_length=64)]


class Part(BaseModel):
    """A frozen part of a record. Ids and labels may be sent as numbers; fields we do not know are no error."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)


class Message(Part):
    """One earlier turn of the conversation."""

    role: str
    text: AnyText


class Feedback(Part):
    """What the user thought of the answer."""

    score: FiniteFloat | None = None
    label: str | None = None
    comment: str | None = None


class Context(Part):
    """One retrieved chunk. Its place in the list is its rank unless `rank` says otherwise."""

    text: AnyText = ""
    chunk_id: str | None = None
    document_id: str | None = None
    score: FiniteFloat | None = None
    rank: int | None = None
    page: int | str | None = None
    retrieval_method: str | None = None
    relevant: bool | Annotated[FiniteFloat, Field(ge=0)] | None = None


class Retrieval(Part):
    """How retrieval was configured, and what it should have found."""

    bm25_limit: NonNegativeInt | None = None
    knn_limit: NonNegativeInt | None = None
    retrieved_before_filter: NonNegativeInt | None = None
    relevant_ids: tuple[str, ...] | None = None


class Extraction(Part):
    """One value that was read out of one chunk (`chunk_number` counts from 1)."""

    field: str | None = None
    value: Any = None
    chunk_number: int | None = None
    confidence: Confidence | None = None
    evidence: AnyText | None = None


class Aggregate(Part):
    """The value that the application settled on for one field."""

    field: str | None = None
    value: Any = None
    confidence: Confidence | None = None


class Span(Part):
    """One timed step: a model call, a tool, an API request, a retrieval."""

    kind: Literal["llm", "tool", "api", "retrieval", "embedding", "rerank", "other"]
    name: str | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    error: AnyText | None = None


class Usage(Part):
    """What the answer took."""

    input_tokens: NonNegativeInt | None = None
    output_tokens: NonNegativeInt | None = None
    cost_usd: Annotated[FiniteFloat, Field(ge=0)] | None = None


class Interaction(Part):
    """One answered question.

    Required are `event_id`, `query`, `response` and a time: `ended_at`, `started_at`, or the record's own timestamp.
    An absent field is None and an empty one is empty: metrics tell the two apart.
    Fields we do not know are kept under `extra`.
    """

    event_id: Annotated[str, BeforeValidator(_exact_id), Field(min_length=1, max_length=200)]
    query: str
    response: str
    started_at: Time | None = None
    ended_at: Time | None = None
    first_token_at: Time | None = None
    application: str | None = None
    tenant: str | None = None
    environment: str | None = None
    pipeline_version: str | None = None
    model: str | None = None
    session_id: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    labels: Labels = Field(default_factory=dict)
    question_id: str | None = None
    expected: Answers | None = None
    answerable: bool | None = None
    finish_reason: str | None = None
    error: AnyText | None = None
    history: tuple[Message, ...] | None = None
    feedback: Feedback | None = None
    contexts: tuple[Context, ...] | None = None
    retrieval: Retrieval | None = None
    extractions: tuple[Extraction, ...] | None = None
    aggregation: tuple[Aggregate, ...] | None = None
    spans: tuple[Span, ...] | None = None
    usage: Usage | None = None
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _keep_unknown_fields(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        unknown = data.keys() - cls.model_fields.keys()
        extra = data.get("extra", {})
        if not isinstance(extra, Mapping):  # A field of the application's own that happens to have this name.
            unknown.add("extra")
            extra = {}
        if not unknown:
            return data
        known = {name: value for name, value in data.items() if name not in unknown}
        return known | {"extra": {**extra, **{name: data[name] for name in data if name in unknown}}}
