"""The interaction: one answered question, as an application publishes it."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, Self

import orjson
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PlainValidator,
    PrivateAttr,
    WithJsonSchema,
    model_validator,
)

from ragweir.schemas.times import parse_time


def _as_text(value: object) -> object:
    """Return structured content as compact JSON, so that a table or an API's answer can be a context."""
    if isinstance(value, str):
        return value
    if value is None:  # Not the word "null".
        return ""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        raise ValueError("content is nested too deeply") from None


def _exact_id(value: object) -> object:
    """Reject a float: integers beyond 64 bits are parsed as rounded floats, and two events must not share an id."""
    if isinstance(value, float):
        raise ValueError("an id is text or a 64-bit integer")  # noqa: TRY004 - pydantic wants a ValueError
    return value


def _as_labels(value: object) -> object:
    """Return no labels for null, and booleans as `true` and `false`."""
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
            "description": "RFC 3339, or the time since 1970 as a number: of seconds where its magnitude is below "
            "1e11, of milliseconds below 1e14, of microseconds below 1e17, else of nanoseconds; all times of an event "
            "in one unit",
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


class RecordPart(BaseModel):
    """Base of records and their parts: frozen; ids and labels may be numbers; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    omitted_values: ClassVar[Mapping[str, object]] = {}
    """Values by field with which `ragweir.schemas.codec.json.encode` leaves the field out."""


class Message(RecordPart):
    """One earlier turn of the conversation."""

    role: str
    text: AnyText


class Feedback(RecordPart):
    """The user's rating of the answer."""

    score: FiniteFloat | None = None
    label: str | None = None
    comment: str | None = None


class Context(RecordPart):
    """One retrieved chunk. Its rank is `rank`, or its place in the list if that is absent."""

    text: AnyText = ""
    chunk_id: str | None = None
    document_id: str | None = None
    score: FiniteFloat | None = None
    rank: int | None = None
    page: int | str | None = None
    retrieval_method: str | None = None
    relevant: bool | Annotated[FiniteFloat, Field(ge=0)] | None = None


class Retrieval(RecordPart):
    """Settings of the retrieval, and the ids of the relevant chunks."""

    bm25_limit: NonNegativeInt | None = None
    knn_limit: NonNegativeInt | None = None
    retrieved_before_filter: NonNegativeInt | None = None
    relevant_ids: tuple[str, ...] | None = None


class Extraction(RecordPart):
    """One value that was extracted from one chunk (`chunk_number` counts from 1)."""

    field: str | None = None
    value: Any = None
    chunk_number: int | None = None
    confidence: Confidence | None = None
    evidence: AnyText | None = None


class Aggregate(RecordPart):
    """The final value of one field, aggregated from its extractions."""

    field: str | None = None
    value: Any = None
    confidence: Confidence | None = None


class Span(RecordPart):
    """One timed step, such as a model call, a tool, an API request or a retrieval."""

    kind: Literal["llm", "tool", "api", "retrieval", "embedding", "rerank", "other"]
    name: str | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    error: AnyText | None = None


class Usage(RecordPart):
    """Tokens and cost of the answer."""

    input_tokens: NonNegativeInt | None = None
    output_tokens: NonNegativeInt | None = None
    cost_usd: Annotated[FiniteFloat, Field(ge=0)] | None = None


class Interaction(RecordPart):
    """One answered question.

    Required are `event_id`, `query`, `response` and a time: `ended_at`, `started_at`, or the record's own timestamp.
    Metrics distinguish an absent field, which is None, from an empty one.
    Unknown fields are kept under `extra`.
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
    _flags: tuple[str, ...] = PrivateAttr(default=())

    @property
    def flags(self) -> tuple[str, ...]:
        """The repairs that were made in reading the event, sorted; see `ragweir.schemas.codec.intake`.

        They are not a field, so that producers cannot set them.

        >>> event = Interaction(event_id="1", query="", response="")
        >>> event.flags, event.with_flags({"cut:spans"}).flags
        ((), ('cut:spans',))
        """
        return self._flags

    def with_flags(self, flags: Iterable[str]) -> Self:
        """Return a copy of the event with these flags."""
        copy = self.model_copy()
        copy._flags = tuple(sorted(flags))
        return copy

    @model_validator(mode="before")
    @classmethod
    def _keep_unknown_fields(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        if _KNOWN.issuperset(data) and isinstance(data.get("extra", {}), Mapping):
            return data
        unknown = data.keys() - _KNOWN
        extra = data.get("extra", {})
        if not isinstance(extra, Mapping):  # The application's own field, which has this name by chance.
            unknown.add("extra")
            extra = {}
        known = {name: value for name, value in data.items() if name not in unknown}
        return known | {"extra": {**extra, **{name: data[name] for name in data if name in unknown}}}


_KNOWN = frozenset(Interaction.model_fields)
