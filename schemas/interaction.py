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


class _Names(dict[type[BaseModel], set[str]]):
    """The names of the fields by model, of which all count as set in a trusted instance.

    The instances of a model share the set, which pydantic copies before it changes it.
    """

    def __missing__(self, model: type[BaseModel]) -> set[str]:
        names = self[model] = set(model.model_fields)
        return names


_NAMES = _Names()
_new = object.__new__
_set_fields, _set_names, _set_extra, _set_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class RecordPart(BaseModel):
    """Base of records and their parts: frozen; ids and labels may be numbers; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", coerce_numbers_to_str=True)

    omitted_values: ClassVar[Mapping[str, object]] = {}
    """Values by field with which `ragweir.schemas.codec.json.encode` leaves the field out."""

    @classmethod
    def trusted(cls, fields: dict[str, Any], private: dict[str, Any] | None = None) -> Self:
        """Return an instance without validation, as `model_construct` does in several times the time.

        >>> Message.trusted({"role": "user", "text": "Hello"}) == Message(role="user", text="Hello")
        True

        Args:
            fields: all fields in their order, each with a value that validation would leave as it is. The instance
                keeps the dictionary.
            private: the private attributes, if the model has any.
        """
        part: Self = _new(cls)
        _set_fields(part, fields)
        _set_names(part, _NAMES[cls])
        _set_extra(part, None)
        _set_private(part, private)
        return part


class Message(RecordPart):
    """One earlier turn of the conversation."""

    role: str
    """Speaker, such as `user` or `assistant`."""
    text: AnyText
    """Words of the speaker: text, or any JSON value."""


class AnswerRating(RecordPart):
    """The user's rating of the answer."""

    score: FiniteFloat | None = None
    """Rating; a higher one is better."""
    label: str | None = None
    """Kind of the rating, such as `thumbs_up`."""
    comment: str | None = None
    """The user's own words."""


class Context(RecordPart):
    """One retrieved chunk. Its rank is `rank`, or its place in the list if that is absent."""

    text: AnyText | None = None
    """Text of the chunk, or any JSON value, such as a table; absent or null if its content was not captured."""
    chunk_id: str | None = None
    """Id of the chunk; `retrieval.relevant_ids` refers to it."""
    document_id: str | None = None
    """Id of the document that the chunk is from."""
    score: FiniteFloat | None = None
    """Score that the retriever gave the chunk."""
    rank: int | None = None
    """Rank in the results, from 1."""
    page: int | str | None = None
    """Page of the document."""
    retrieval_method: str | None = None
    """Method that found the chunk: `bm25`, `knn`, `hybrid` or another text."""
    relevant: bool | Annotated[FiniteFloat, Field(ge=0)] | None = None
    """True if the chunk is known to be relevant, or its grade of relevance."""


class Retrieval(RecordPart):
    """Settings of the retrieval, and the ids of the relevant chunks."""

    bm25_limit: NonNegativeInt | None = None
    """Maximum number of chunks that BM25 returns."""
    knn_limit: NonNegativeInt | None = None
    """Maximum number of chunks that the vector search returns."""
    retrieved_before_filter: NonNegativeInt | None = None
    """Number of chunks before the retriever left out some."""
    relevant_ids: tuple[str, ...] | None = None
    """Ids of the chunks that are known to be relevant."""


class Extraction(RecordPart):
    """One value that was extracted from one chunk (`chunk_number` counts from 1)."""

    field: str | None = None
    """Name of the field."""
    value: Any = None
    """Extracted value."""
    chunk_number: int | None = None
    """Number of the chunk, from 1."""
    confidence: Confidence | None = None
    """Confidence of the application: `HIGH`, `MEDIUM`, `LOW` or a number from 0 to 1."""
    evidence: AnyText | None = None
    """Passage of the chunk that the value is from."""


class Aggregate(RecordPart):
    """The final value of one field, aggregated from its extractions."""

    field: str | None = None
    """Name of the field."""
    value: Any = None
    """Final value."""
    confidence: Confidence | None = None
    """Confidence of the application: `HIGH`, `MEDIUM`, `LOW` or a number from 0 to 1."""


class Span(RecordPart):
    """One timed step, such as a model call, a tool, an API request or a retrieval."""

    kind: Literal["llm", "tool", "api", "retrieval", "embedding", "rerank", "other"]
    """Kind of the step."""
    name: str | None = None
    """Name of the tool, model or API."""
    started_at: Time | None = None
    """Time at which the step began."""
    ended_at: Time | None = None
    """Time at which the step ended."""
    error: AnyText | None = None
    """Error of the step; absent if it succeeded."""
    id: str | None = None
    """Id of the step, unique in the interaction; that of its OpenTelemetry span."""
    parent_id: str | None = None
    """Id of the step that it is a part of."""
    input_digest: str | None = None
    """Digest of the step's input: equal inputs have equal digests."""
    output_digest: str | None = None
    """Digest of the step's output: equal outputs have equal digests."""


class Usage(RecordPart):
    """Tokens and cost of the answer."""

    input_tokens: NonNegativeInt | None = None
    """Number of tokens that the model read."""
    output_tokens: NonNegativeInt | None = None
    """Number of tokens that the model generated."""
    cost_usd: Annotated[FiniteFloat, Field(ge=0)] | None = None
    """Cost of the answer, in dollars."""


AssemblyFlag = Literal["attributes_cut", "spans_missed", "spans_missing", "incomplete", "several_roots"]


class Assembly(RecordPart):
    """The origin of an interaction that was assembled from an OpenTelemetry trace."""

    dialect: str | None = None
    """Convention of the spans, such as `openinference`."""
    spans: NonNegativeInt | None = None
    """Number of its spans."""
    flags: tuple[AssemblyFlag, ...] = ()
    """Defects of the trace: `attributes_cut`, the SDK left out attributes of a span; `spans_missed`, retention deleted
    spans unread; `spans_missing`, a span's parent never came; `incomplete`, a limit or the deadline closed the trace;
    `several_roots`, the interaction was chosen among several spans without a parent. Each is a flag of the evaluation.
    """


class Interaction(RecordPart):
    """One answered question.

    Required are `event_id`, `query`, `response` and a time: `ended_at`, `started_at`, or the record's own timestamp.
    Metrics distinguish an absent field, which is None, from an empty one.
    Unknown fields are kept under `extra`.
    """

    event_id: Annotated[str, BeforeValidator(_exact_id), Field(min_length=1, max_length=200)]
    """Id of the event, unique in the topic. It is the key of the record and of its evaluation."""
    query: str | None
    """The user's question; null if its content was not captured."""
    response: str | None
    """The answer that the user got; null if its content was not captured."""
    started_at: Time | None = None
    """Time at which the question arrived."""
    ended_at: Time | None = None
    """Time at which the answer was complete. It is the event time; without it `started_at` is, and without both the
    timestamp of the Kafka record."""
    first_token_at: Time | None = None
    """Time of the answer's first token."""
    application: str | None = None
    """Name of the application; windows are split by it."""
    tenant: str | None = None
    """Name of the customer or team; budgets of the judge can depend on it."""
    environment: str | None = None
    """Name of the environment, such as `prod`."""
    pipeline_version: str | None = None
    """Version of the retrieval and generation pipeline; windows are split by it."""
    model: str | None = None
    """Name of the model that generated the answer; windows are split by it."""
    session_id: str | None = None
    """Id of the conversation."""
    trace_id: str | None = None
    """Id of the OpenTelemetry trace."""
    span_id: str | None = None
    """Id of the OpenTelemetry span."""
    labels: Labels = Field(default_factory=dict)
    """Further names and values by which windows and rules can select."""
    question_id: str | None = None
    """Id of a known question, such as that of a question pack."""
    expected: Answers | None = None
    """Expected answer, or several of which any is right."""
    answerable: bool | None = None
    """True if the documents can answer the question."""
    finish_reason: str | None = None
    """Reason why the model stopped, such as `stop` or `length`."""
    error: AnyText | None = None
    """Error of the request; absent if it succeeded."""
    history: tuple[Message, ...] | None = None
    """Earlier turns of the conversation."""
    feedback: AnswerRating | None = None
    """The user's rating."""
    contexts: tuple[Context, ...] | None = None
    """Retrieved chunks that the model was given, best first."""
    retrieval: Retrieval | None = None
    """Settings and results of the retrieval."""
    extractions: tuple[Extraction, ...] | None = None
    """Values that were extracted from chunks."""
    aggregation: tuple[Aggregate, ...] | None = None
    """Final values of extracted fields."""
    spans: tuple[Span, ...] | None = None
    """Timed steps, such as model calls and tools."""
    usage: Usage | None = None
    """Tokens and cost."""
    expected_tools: tuple[str, ...] | None = None
    """Names of the tools that a right answer needs."""
    assembly: Assembly | None = None
    """Origin of an interaction that was assembled from an OpenTelemetry trace."""
    extra: dict[str, Any] = Field(default_factory=dict)
    """Unknown fields, as they were received."""
    _flags: tuple[str, ...] = PrivateAttr(default=())

    @property
    def flags(self) -> tuple[str, ...]:
        """The repairs that were made in reading the event, sorted; see `ragweir.schemas.codec.intake`.

        They are not a field, so that producers cannot set them.

        >>> event = Interaction(event_id="1", query="", response="")
        >>> event.flags, event.with_flags({"cut:spans"}).flags
        ((), ('cut:spans',))
        """
        # The attribute itself is found by a function of pydantic's that takes a microsecond.
        flags: tuple[str, ...] = (self.__pydantic_private__ or {})["_flags"]
        return flags

    def with_flags(self, flags: Iterable[str], changed: Mapping[str, Any] | None = None) -> Self:
        """Return a copy of the event with these flags, and with changed fields, which are not validated."""
        copy = self.model_copy(update=changed)
        copy._flags = tuple(sorted(flags))
        return copy

    @model_validator(mode="before")
    @classmethod
    def _keep_unknown_fields(cls, data: object) -> object:
        return with_extra(data) if isinstance(data, Mapping) else data


_FIELDS = frozenset(Interaction.model_fields)


def with_extra(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an interaction with the unknown ones in `extra`.

    An `extra` that is no object is an unknown field, which has this name by chance.

    >>> with_extra({"query": "q", "extra": {"a": 1}, "b": 2})
    {'query': 'q', 'extra': {'a': 1, 'b': 2}}
    """
    if _FIELDS.issuperset(data) and isinstance(data.get("extra", {}), Mapping):
        return data
    unknown = data.keys() - _FIELDS
    extra = data.get("extra", {})
    if not isinstance(extra, Mapping):
        unknown.add("extra")
        extra = {}
    known = {name: value for name, value in data.items() if name not in unknown}
    return known | {"extra": {**extra, **{name: data[name] for name in data if name in unknown}}}
