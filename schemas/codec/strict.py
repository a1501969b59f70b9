"""Strict decoding: the fast way to an interaction whose fields have exactly their types.

It repairs, coerces and rejects nothing. An event that it does not accept is left to `ragweir.schemas.codec.intake`,
which defines the result for every event; an event that it does accept has the same interaction in both. msgspec checks
the types, which follow from the annotations of the models, and the models' instances are made without validation.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import reduce
from math import inf
from operator import or_
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import asdict
from pydantic.fields import FieldInfo

from ragweir.schemas.codec.intake import HOLDERS_AND_NAMES
from ragweir.schemas.interaction import (
    Aggregate,
    AnswerRating,
    Answers,
    Assembly,
    Context,
    Extraction,
    Interaction,
    Labels,
    Message,
    RecordPart,
    Retrieval,
    Span,
    Time,
    Usage,
    with_extra,
)
from ragweir.schemas.times import FIRST_YEAR, LAST_YEAR, parse_time

_RANGES: Mapping[object, Mapping[str, Any]] = {
    int: {"ge": -(2**63), "le": 2**63 - 1},
    float: {"ge": -sys.float_info.max, "le": sys.float_info.max},
}
"""The integers that every parser reads as integers, and the finite floats."""
_BOUNDS = ("ge", "le", "min_length", "max_length")
_TYPES: Mapping[object, Any] = {
    Time: Annotated[int, msgspec.Meta(**_RANGES[int])] | str,
    Labels: dict[str, str] | None,
    Answers: str | tuple[str, ...],
}
"""The strict types of annotations with validators that accept other types than their results have."""
_WITH_ANY_VALUE = frozenset({"extractions", "aggregation"})
"""The fields in which a value may have any type. Parsers differ in some of these, such as large integers."""

_FIRST_MS, _END_MS = (
    round(datetime(year, 1, 1, tzinfo=UTC).timestamp() * 1_000) for year in (FIRST_YEAR, LAST_YEAR + 1)
)


def _interaction_type(*, for_bytes: bool) -> type[msgspec.Struct]:
    """Return the type of an interaction, whose fields have the order of the model's, without `extra`.

    In bytes, unknown fields are forbidden, since msgspec skips them without a check of their validity.
    """

    def strict(hint: Any) -> Any:
        origin, arguments = get_origin(hint), get_args(hint)
        if hint in _TYPES:
            return _TYPES[hint]
        if isinstance(hint, type) and issubclass(hint, RecordPart):
            return struct(hint)
        if origin in (Union, UnionType):
            return reduce(or_, map(strict, arguments))
        if origin is tuple:
            return tuple[strict(arguments[0]), ...]  # type: ignore[misc]
        base, *metadata = arguments if origin is Annotated else [hint]
        every = [one for each in metadata for one in (each.metadata if isinstance(each, FieldInfo) else (each,))]
        own = {name: getattr(each, name) for each in every for name in _BOUNDS if hasattr(each, name)}
        bounds = {**_RANGES.get(base, {}), **own}
        return Annotated[base, msgspec.Meta(**bounds)] if bounds else base

    def struct(model: type[RecordPart]) -> type[msgspec.Struct]:
        hints = get_type_hints(model, include_extras=True)
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
        for name, info in model.model_fields.items():
            if name != "extra":
                own = name, None if for_bytes and name in _WITH_ANY_VALUE else strict(hints[name])
                fields.append(own if info.is_required() else (*own, info.get_default(call_default_factory=True)))
        return msgspec.defstruct(model.__name__, fields, kw_only=True, forbid_unknown_fields=for_bytes, gc=False)

    return struct(Interaction)


_EVENT = _interaction_type(for_bytes=False)
_BYTES = msgspec.json.Decoder(_interaction_type(for_bytes=True))


class _NotStrict(Exception):
    """A field needs the general way."""


def from_json(value: bytes, max_items: Mapping[str, int]) -> Interaction | None:
    """Return the interaction in JSON; None if the general way has to read it.

    >>> from_json(b'{"event_id": "1", "query": "Who?", "response": "Ada."}', {}).response
    'Ada.'
    >>> from_json(b'{"event_id": 1, "query": "Who?", "response": "Ada."}', {})
    """
    try:
        return _interaction(_BYTES.decode(value), {}, max_items)
    except (_NotStrict, msgspec.MsgspecError, ValueError):
        return None


def from_data(data: object, max_items: Mapping[str, int]) -> Interaction | None:
    """Return the interaction in parsed JSON; None if the general way has to read it.

    Other objects are not for it: msgspec takes any object with items for a dictionary, and keeps subclasses of str.

    >>> from_data({"event_id": "1", "query": "Who?", "response": "Ada.", "place": "here"}, {}).extra
    {'place': 'here'}
    """
    if not isinstance(data, dict):
        return None
    try:
        fields = with_extra(data)
        return _interaction(msgspec.convert(fields, _EVENT), fields.get("extra", {}), max_items)
    except (_NotStrict, msgspec.MsgspecError, ValueError):
        return None


def _time(value: int | str) -> datetime:
    """Return a time that needs no flag: a plausible number of milliseconds, or text that is no number."""
    if isinstance(value, str):
        if value[4:5] == "-" and FIRST_YEAR <= (time := parse_time(value)).year <= LAST_YEAR:
            return time
    elif _FIRST_MS <= value < _END_MS:
        return datetime.fromtimestamp(value / 1_000, UTC)  # Exact to the microsecond for seconds below 2**32.
    raise _NotStrict


_TIMES = ("started_at", "ended_at", "first_token_at")
_PARTS: Mapping[str, type[RecordPart]] = {
    "feedback": AnswerRating,
    "retrieval": Retrieval,
    "usage": Usage,
    "assembly": Assembly,
}
_LISTS: Mapping[str, type[RecordPart]] = {
    "history": Message,
    "contexts": Context,
    "extractions": Extraction,
    "aggregation": Aggregate,
}
_SIZED = tuple(name for holder, name in HOLDERS_AND_NAMES.values() if not holder)
_SIZED_WITHIN = tuple((holder, name) for holder, name in HOLDERS_AND_NAMES.values() if holder)


def _interaction(struct: msgspec.Struct, extra: dict[str, Any], max_items: Mapping[str, int]) -> Interaction:
    """Return the interaction of a struct.

    Raises:
        _NotStrict: if it needs a repair.
    """
    fields = asdict(struct)
    _check_sizes(fields, max_items)
    for name in _TIMES:
        if (time := fields[name]) is not None:
            fields[name] = _time(time)
    if fields["labels"] is None:
        fields["labels"] = {}
    if isinstance(expected := fields["expected"], str):
        fields["expected"] = (expected,)
    for name, model in _PARTS.items():
        if (part := fields[name]) is not None:
            fields[name] = model.trusted(asdict(part))
    for name, model in _LISTS.items():
        if parts := fields[name]:
            fields[name] = tuple([model.trusted(asdict(part)) for part in parts])
    if spans := fields["spans"]:
        fields["spans"] = tuple(map(_span, spans))
    fields["extra"] = extra
    flags = tuple(sorted(set(fields["assembly"].flags))) if fields["assembly"] is not None else ()
    return Interaction.trusted(fields, {"_flags": flags})


def _check_sizes(fields: Mapping[str, Any], max_items: Mapping[str, int]) -> None:
    """Raise `_NotStrict` if a list is too long."""
    for name in _SIZED:
        if (items := fields[name]) and items.__class__ is not str and len(items) > max_items.get(name, inf):
            raise _NotStrict
    for holder, name in _SIZED_WITHIN:
        if (part := fields[holder]) and len(getattr(part, name) or ()) > max_items.get(f"{holder}.{name}", inf):
            raise _NotStrict


def _span(struct: msgspec.Struct) -> Span:
    fields = asdict(struct)
    for name in ("started_at", "ended_at"):
        if (time := fields[name]) is not None:
            fields[name] = _time(time)
    return Span.trusted(fields)
