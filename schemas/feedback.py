"""Feedback of the users of an answer: as an application writes it, as it waits for its answer, and joined to it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Literal

import orjson
from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StringConstraints, ValidationError

from ragweir.errors import ErrorClass, Rejected
from ragweir.schemas.evaluation import Source
from ragweir.schemas.interaction import RecordPart, Time

UnmatchedClass = ErrorClass | Literal["unknown", "crowded"]
"""Why feedback is joined to no answer: the class of an unusable record; `unknown` if no such answer was evaluated
within the horizon, `crowded` if too much feedback waits for its answer."""

_LONGEST_TEXT = 200


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("has control characters")
    return text


Id = Annotated[str, StringConstraints(min_length=1, max_length=_LONGEST_TEXT)]
FeedbackName = Annotated[str, StringConstraints(min_length=1, max_length=60), AfterValidator(_printable)]
Number = Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)] | Annotated[StrictFloat, Field(allow_inf_nan=False)]
FeedbackValue = (
    StrictBool
    | Number
    | Annotated[str, StringConstraints(strict=True, min_length=1, max_length=_LONGEST_TEXT), AfterValidator(_printable)]
    | None
)


class FeedbackTarget(RecordPart):
    """The answer that feedback is about, by exactly one of its event's id and its trace's id."""

    event_id: Id | None = None
    """Id of the event; null if the trace is named."""
    trace_id: Id | None = None
    """Id of the trace; null if the event is named."""
    span_id: Id | None = None
    """Id of a span of the trace, for a trace with several answers; null for the last one."""

    @property
    def target(self) -> str:
        """The id of the event, else of the trace: the key of records, so that those of one target are in order."""
        return self.event_id or self.trace_id or ""


class Feedback(FeedbackTarget):
    """One person's statement about one answer, as the application writes it to the topic `feedback`.

    A later one of the same answer, name and giver replaces it. Other fields, such as a comment, are not kept.
    """

    name: FeedbackName
    """Kind of the feedback, such as `thumbs`, `edited`, `copied` or `escalated`."""
    value: FeedbackValue
    """Number, label, true or false; null takes the feedback back."""
    giver: Annotated[str, StringConstraints(max_length=1000)] | None = None
    """Person who gives it, such as an id of the application's; null if all of an answer's feedback is of one person."""
    time: Time | None = None
    """Time at which it was given; null for the time of the record. A time after that of the record counts as it."""


class ReceivedFeedback(RecordPart):
    """Feedback as it is kept, whichever answer it is about."""

    name: FeedbackName
    """Kind of the feedback."""
    value: FeedbackValue
    """Number, label, true or false; null takes the feedback back."""
    giver: str | None = None
    """Keyed hash of the giver; null if the application names none."""
    time: Time
    """Time at which it was given, at most that of the record."""
    received: Time
    """Time of the record."""
    source: Source
    """Position of the record on the topic `feedback`."""

    @property
    def order(self) -> tuple[datetime, datetime, int, int]:
        """The order of feedback of one answer, name and giver: by time, then by the records' times and positions."""
        return self.time, self.received, self.source.partition, self.source.offset


class WaitingFeedback(ReceivedFeedback, FeedbackTarget):
    """Feedback whose answer is not evaluated yet."""


class KeyedFeedback(ReceivedFeedback):
    """Feedback with the event that it is about."""

    event_id: str
    """Id of the event."""
    event_time: Time
    """Time of the event."""
    dimensions: Mapping[str, str] = {}
    """The event's value of each dimension of the windows."""


class JoinedFeedback(KeyedFeedback):
    """The newest feedback of one answer, name and giver; its value is null if it was taken back."""


class UnmatchedFeedback(RecordPart):
    """Feedback that is joined to no answer, with the reason."""

    omitted_values: ClassVar[Mapping[str, object]] = {"feedback": None}

    error_class: UnmatchedClass
    """Class of the reason."""
    message: str
    """One sentence that quotes nothing of the record."""
    source: Source
    """Position of the record on the topic `feedback`."""
    received: Time
    """Time of the record."""
    length: int
    """Size of the record's value in bytes."""
    feedback: WaitingFeedback | None = None
    """The feedback; absent if it could not be read."""


def feedback_of(data: object) -> Feedback:
    """Return the feedback in parsed JSON.

    >>> feedback_of({"event_id": "1", "name": "thumbs", "value": True}).value
    True
    >>> feedback_of({"event_id": "1", "trace_id": "2", "name": "thumbs", "value": True})
    Traceback (most recent call last):
        ...
    ragweir.errors.Rejected: the feedback names an event and a trace; it needs exactly one of event_id and trace_id

    Raises:
        Rejected: if it is none; the message quotes nothing of it.
    """
    if not isinstance(data, dict):
        raise Rejected("invalid", "the feedback is no JSON object")
    if "value" not in data:
        raise Rejected("invalid", "value: missing; null takes feedback back")
    try:
        found = Feedback.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise Rejected("invalid", f"{first['loc'][0]}: {_wrong(str(first['loc'][0]))}") from None
    if found.event_id is not None and found.trace_id is not None:
        raise Rejected(
            "invalid", "the feedback names an event and a trace; it needs exactly one of event_id and trace_id"
        )
    if found.event_id is None and found.trace_id is None:
        raise Rejected("invalid", "the feedback names no answer; it needs event_id or trace_id")
    return found


def _wrong(field: str) -> str:
    """Return what a field has to be."""
    return {
        "name": "must be printable text of 1 to 60 characters",
        "value": "must be a finite number, true, false, null, or printable text of 1 to 200 characters",
        "giver": "must be text of at most 1000 characters",
        "time": "must be RFC 3339 or a number since 1970",
    }.get(field, "must be text of 1 to 200 characters")


def received_time(timestamp_ms: int | None) -> datetime:
    """Return the time of a record; that of 1970 if it has none.

    >>> received_time(1_000).isoformat()
    '1970-01-01T00:00:01+00:00'
    """
    # A timestamp can be any number; dates end with the year 9999.
    return datetime.fromtimestamp(max(0, min(timestamp_ms or 0, 2**47)) / 1000, UTC)


def waiting_key(topic_id: str, partition: int, offset: int) -> bytes:
    """Return the key of feedback that waits, by its position on the topic `feedback`.

    >>> waiting_key("a", 0, 7)
    b'["a",0,7]'
    """
    return orjson.dumps([topic_id, partition, offset])


def joined_key(event_id: str, name: str, giver: str | None) -> bytes:
    """Return the key of joined feedback.

    >>> joined_key("1", "thumbs", None)
    b'["1","thumbs",null]'
    """
    return orjson.dumps([event_id, name, giver])
