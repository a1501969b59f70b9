"""JSON codec: decodes interactions, with a rejection for any bytes that are none, and encodes records."""

from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import orjson
from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.schemas.codec import intake, strict
from ragweir.schemas.interaction import Interaction, RecordPart
from ragweir.schemas.topics import MAX_EVENT_BYTES

_REGISTRY_BYTES = 5
"""Size of the Schema Registry's header: a zero, and the schema's id in four bytes."""
_OPTIONS = orjson.OPT_UTC_Z
_MESSAGES = {
    "missing": "missing",
    "string_type": "not text",
    "too_short": "empty",
    "too_long": "longer than {max_length} characters; a map makes a short id with {{ hash = [...] }}",
    "value_error": "{error}",
}
"""Messages by pydantic's type of error."""
_NO_MAP: Mapping[str, str] = MappingProxyType({})


def _explain(invalid: ValidationError, origins: Mapping[str, str]) -> str:
    """Return a message with the invalid fields, which are required ones, and their paths or lines for a map."""
    messages = {
        str(error["loc"][0]): _MESSAGES.get(error["type"], "not valid").format(**error.get("ctx", {}))
        for error in invalid.errors(include_url=False, include_input=False)
        if error["loc"]
    }
    if not messages:
        return "the event: must be an object"
    named = {field: f"{field} (from {origins[field]})" if origins.get(field) else field for field in messages}
    wrong = "; ".join(f"{named[field]}: {message}" for field, message in messages.items())
    if origins:
        return wrong
    rules = ", ".join(f'{field} = "PATH"' for field in messages)
    return f"{wrong}; if the event has it elsewhere, say where in the map of input.map: {rules}"


def parse(value: bytes | None, max_bytes: int = MAX_EVENT_BYTES) -> object:
    """Parse a record's value as strict JSON: UTF-8, no NaN or infinity, no lone surrogates, bounded depth and size.

    Raises:
        Rejected: with the reason.
    """
    if value is None:
        raise Rejected("tombstone", "the record has no value")
    if len(value) > max_bytes:
        raise Rejected("too_large", f"the event is over the limit of {max_bytes} bytes")
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError as error:
        if value[:1] == b"\0" and len(value) >= _REGISTRY_BYTES:
            schema = int.from_bytes(value[1:_REGISTRY_BYTES], "big")
            raise Rejected(
                "not_json",
                "not JSON: it begins like a record of Confluent's Schema Registry (magic byte 0, schema id "
                f"{schema}), such as Avro or Protobuf; only JSON is read",
            ) from None
        raise Rejected("not_json", f"not JSON: {error.msg} at character {error.pos}") from None
    except MemoryError:  # It may not be the record's fault.
        raise
    except Exception as error:  # One record must not stop the stream.
        raise Rejected("unreadable", f"parsing raised {type(error).__name__}") from None


def interaction(
    data: object, max_items: Mapping[str, int] = intake.DEFAULT_MAX_ITEMS, origins: Mapping[str, str] = _NO_MAP
) -> Interaction:
    """Make an interaction of parsed JSON; see `ragweir.schemas.codec.intake`.

    >>> interaction({"event_id": "1", "query": "q"})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ragweir.errors.Rejected: response: missing; if the event has it elsewhere, ...

    Args:
        data: parsed JSON, or the fields that a map made of it.
        max_items: maximum number of elements by list.
        origins: the paths of the map by field, which the reason names.

    Raises:
        Rejected: with the reason.
    """
    try:
        return intake.read(data, max_items)
    except ValidationError as error:
        raise Rejected("invalid", _explain(error, origins)) from None
    except MemoryError:
        raise
    except Exception as error:  # As above.
        raise Rejected("unreadable", f"validation raised {type(error).__name__}") from None


def decode(
    value: bytes | None,
    max_bytes: int = MAX_EVENT_BYTES,
    max_items: Mapping[str, int] = intake.DEFAULT_MAX_ITEMS,
) -> Interaction:
    """Decode an interaction from a record's value.

    >>> decode(b'{"event_id": "1", "query": "Who?", "response": "Ada."}').response
    'Ada.'
    >>> decode(b'{"event_id": NaN}')
    Traceback (most recent call last):
        ...
    ragweir.errors.Rejected: not JSON: unexpected character, expected a JSON value at character 13

    Raises:
        Rejected: with a reason that quotes nothing of the value. No other exception but MemoryError is raised.
    """
    if value and len(value) <= max_bytes and (event := strict.from_json(value, max_items)) is not None:
        return event
    data = parse(value, max_bytes)
    return strict.from_data(data, max_items) or interaction(data, max_items)


def event_time(event: Interaction, record_ms: int | None) -> datetime:
    """Return the time of an event: its end, else its start, else its record's timestamp (epoch milliseconds).

    Raises:
        Rejected: if there is none of the three.
    """
    time = event.ended_at or event.started_at
    if time is None and record_ms is not None and record_ms >= 0:
        try:
            time = datetime.fromtimestamp(record_ms / 1000, UTC)
        except (ValueError, OverflowError, OSError):
            raise Rejected("no_time", "the event has no time and its record's timestamp is out of range") from None
    if time is None:
        raise Rejected("no_time", "the event has neither ended_at nor started_at, and its record no timestamp")
    return time


def encode(model: RecordPart) -> bytes:
    """Encode a record as compact JSON, with its fields in their order and times in UTC.

    >>> from ragweir.schemas.evaluation import Source
    >>> encode(Source(topic="t", partition=0, offset=7))
    b'{"topic":"t","partition":0,"offset":7}'
    """
    # No record has custom serializers, and `model_dump` would double the time.
    return encode_fields(_fields(model))


def encode_fields(fields: Mapping[str, Any]) -> bytes:
    """Encode the fields of a record, which may have records as values, as `encode` does."""
    return orjson.dumps(fields, _fields, _OPTIONS)


def _fields(part: object) -> dict[str, Any]:
    if not isinstance(part, RecordPart):
        raise TypeError  # orjson adds the type's name.
    fields = part.__dict__
    for name, value in part.omitted_values.items():
        if fields[name] == value:
            fields = {**fields}
            del fields[name]
    return fields


def encode_json(data: Any) -> bytes:
    """Encode plain data as compact JSON, as `encode` does.

    Raises:
        Rejected: if it is nested too deeply.
    """
    try:
        return orjson.dumps(data, option=_OPTIONS)
    except TypeError:
        raise Rejected("invalid", "the event is nested too deeply to be written") from None
