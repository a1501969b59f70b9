"""Intake: makes an interaction of parsed JSON. It cuts long lists and repairs invalid fields, and flags the event.

An event is rejected only for its id, query, response or time. Lists are cut before validation, whose cost grows with
the number of elements and of errors; the repair follows the errors of validation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ragweir.schemas.interaction import (
    Aggregate,
    AnswerRating,
    Assembly,
    AssemblyFlag,
    Context,
    Extraction,
    Interaction,
    Message,
    RecordPart,
    Retrieval,
    Span,
    Usage,
)
from ragweir.schemas.times import FIRST_YEAR, LAST_YEAR, Unit, epoch_number, from_epoch, unit_of

DEFAULT_MAX_ITEMS: Mapping[str, int] = MappingProxyType(
    {
        "contexts": 1_000,
        "spans": 1_000,
        "extractions": 1_000,
        "aggregation": 1_000,
        "retrieval.relevant_ids": 1_000,
        "history": 200,
        "labels": 64,
        "expected": 32,
        "expected_tools": 64,
        "assembly.flags": 16,
    }
)
"""Default of `limits.max_items`: the maximum number of elements of each list of an interaction. A longer list is cut to
its first elements, and the event is flagged `cut:FIELD`."""

MAX_ITEMS_LIMIT = 100_000
"""Upper limit of each value of `limits.max_items`."""

REQUIRED = ("event_id", "query", "response", "started_at", "ended_at")
"""The fields for which an event is rejected if they are invalid. The first three must be present."""

CUT = "cut:"
"""Prefix of the flag of a cut list."""
_UNREADABLE = "unreadable:"
_AS_TEXTS, _UNKNOWN_KIND = "contexts_as_text", "unknown_span_kind"
_MIXED, _IMPLAUSIBLE = "time_units_mixed", "time_implausible"
TIME_DEFAULTED = "time_defaulted"
"""Flag of an event without a time, which was given that of its file or of an option."""
HEADERS_CUT = "headers_cut"
"""Flag of an event whose record has more headers than are kept."""
TRACEPARENT_INVALID = "traceparent_invalid"
"""Flag of an event whose record has a header `traceparent` that is not valid."""

HOLDERS_AND_NAMES = {path: path.rpartition(".")[::2] for path in DEFAULT_MAX_ITEMS}
"""The object, if any, and the name of each list."""
_MAX_REPAIRS = 4
"""Maximum number of rounds of repair: the replacement of an element may itself lack a field, and needs a second."""

Location = Sequence[int | str]
Steps = tuple[int | str, ...]


def read(data: object, max_items: Mapping[str, int] = DEFAULT_MAX_ITEMS) -> Interaction:
    """Make an interaction of parsed JSON, which is not changed.

    >>> event = read({"event_id": "1", "query": "", "response": "", "contexts": ["Ada."], "expected": ["a"] * 33})
    >>> event.contexts[0].text, len(event.expected), event.flags
    ('Ada.', 32, ('contexts_as_text', 'cut:expected'))

    Args:
        data: parsed JSON, or the fields that a map made of it.
        max_items: maximum number of elements by list, for some of `DEFAULT_MAX_ITEMS`.

    Raises:
        pydantic.ValidationError: if it is not an interaction. Its errors are those of `REQUIRED` fields.
    """
    flags: set[str] = set()
    if isinstance(data, dict):
        data = _unify_units(_cut_lists(data, max_items, flags), flags)
    event = _validate(data, flags)
    if not _has_plausible_times(event):
        flags.add(_IMPLAUSIBLE)
    if event.assembly is not None:
        flags.update(event.assembly.flags)
    return event.with_flags(flags) if flags else event


def _cut_lists(data: dict[str, Any], max_items: Mapping[str, int], flags: set[str]) -> dict[str, Any]:
    """Return the event with long lists cut."""
    for path, limit in max_items.items():
        holder, name = HOLDERS_AND_NAMES[path]
        part: Any = data.get(holder) if holder else data
        items = part.get(name) if part.__class__ is dict else None
        if items.__class__ in (list, dict) and len(items) > limit:
            kept = items[:limit] if isinstance(items, list) else dict(islice(items.items(), limit))
            data = {**data, holder: {**part, name: kept}} if holder else {**data, name: kept}
            flags.add(CUT + path)
    return data


# Times.


def _numeric_times(data: dict[str, Any]) -> list[int | float]:
    """Return the times of an event that are numbers; the magnitude of the first defines the unit of all."""
    times = [data.get("ended_at"), data.get("started_at"), data.get("first_token_at")]
    spans = data.get("spans")
    if spans.__class__ is list:
        for span in spans:
            if span.__class__ is dict:
                times += (span.get("started_at"), span.get("ended_at"))
    return [
        number
        for time in times
        if time is not None and (number := time if time.__class__ is int else epoch_number(time)) is not None
    ]


def _unify_units(data: dict[str, Any], flags: set[str]) -> dict[str, Any]:
    """Return the event with numeric times of different units read in the unit of the first one.

    A time that is then outside the years 1 to 9999 is null.

    >>> flags = set()
    >>> event = _unify_units({"ended_at": 1764000000250, "started_at": 1763999999}, flags)
    >>> event["started_at"].isoformat(), flags
    ('1970-01-21T09:59:59.999000+00:00', {'time_units_mixed'})
    """
    numbers = _numeric_times(data)
    if not numbers or ((least := min(numbers)) >= 0 and unit_of(least) == unit_of(max(numbers))):
        return data
    units = [unit for number in numbers if _time_in_unit(number, unit := unit_of(number))]
    if len(set(units)) < 2:
        return data
    flags.add(_MIXED)

    def convert(value: object, path: str) -> object:
        number = epoch_number(value)
        if number is None:
            return value
        time = _time_in_unit(number, units[0])
        if time is None:
            flags.add(_UNREADABLE + path)
        return time

    def converted(part: Any, path: str, *names: str) -> Any:
        if not isinstance(part, dict):
            return part
        return {**part, **{each: convert(part[each], path + each) for each in names if each in part}}

    data = converted(data, "", "ended_at", "started_at", "first_token_at")
    if isinstance(spans := data.get("spans"), list):
        data["spans"] = [converted(span, "spans[].", "started_at", "ended_at") for span in spans]
    return data


def _time_in_unit(number: float, unit: Unit) -> datetime | None:
    try:
        return from_epoch(number, unit)
    except ValueError:
        return None


def _has_plausible_times(event: Interaction) -> bool:
    times = [event.ended_at, event.started_at, event.first_token_at]
    for span in event.spans or ():
        times += (span.started_at, span.ended_at)
    return all(time is None or FIRST_YEAR <= time.year <= LAST_YEAR for time in times)


# Repair.


@dataclass(frozen=True, slots=True)
class _FieldType:
    """Type of a model's field, for its repair."""

    is_list: bool
    part: type[RecordPart] | None
    """Model of its value, or of its list's elements."""
    replacement: object
    """The value that replaces an invalid one."""


def _field(info: FieldInfo) -> _FieldType:
    def within(annotation: object) -> Iterator[object]:
        yield from (get_origin(annotation), annotation)
        for argument in get_args(annotation):
            yield from within(argument)

    types = list(within(info.annotation))
    part = next((each for each in types if isinstance(each, type) and issubclass(each, RecordPart)), None)
    return _FieldType(tuple in types, part, "" if info.is_required() else info.get_default(call_default_factory=True))


_FIELDS: dict[type[RecordPart], dict[str, _FieldType]] = {
    model: {name: _field(info) for name, info in model.model_fields.items()}
    for model in (Interaction, Message, AnswerRating, Context, Retrieval, Extraction, Aggregate, Span, Usage, Assembly)
}


def _validate(data: object, flags: set[str]) -> Interaction:
    """Validate an interaction; repair its invalid optional fields."""
    for _ in range(_MAX_REPAIRS):
        try:
            return Interaction.model_validate(data)
        except ValidationError as invalid:
            if not isinstance(data, dict):
                raise
            repair = _Repair(data, flags)
            for error in invalid.errors(include_url=False, include_context=False, include_input=False):
                repair.fix(error["loc"])
            if not repair.changed:
                raise
            data = repair.repaired()
    return Interaction.model_validate(data)


class _Repair:
    """A round of repair of an event by its validation errors."""

    def __init__(self, data: dict[str, Any], flags: set[str]) -> None:
        self.changed = False
        self._flags = flags
        self._copies: dict[Steps, Any] = {(): dict(data)}
        """Copies of the objects and lists that are changed, by the steps to them."""
        self._dropped: dict[Steps, set[int]] = {}

    def fix(self, location: Location) -> None:
        """Repair the field or element of an error, unless it is required."""
        if not location or location[0] in REQUIRED:
            return
        self.changed = True
        steps, path, field = _field_at(location)
        if path == "labels" and len(location) > 1:
            self._copy(steps).pop(location[1], None)
            self._flags.add(_UNREADABLE + path)
            return
        holder, last = self._copy(steps[:-1]), steps[-1]
        value = holder[last] if isinstance(last, int) else holder.get(last)
        if path == "spans[].kind":
            holder[last] = "other"
            self._flags.add(_UNKNOWN_KIND)
        elif path in ("contexts", "contexts[]") and isinstance(value, str):
            holder[last] = {"text": value} if path == "contexts[]" else [{"text": value}]
            self._flags.add(_AS_TEXTS)
        else:
            self._flags.add(_UNREADABLE + path)
            if not isinstance(last, int):
                holder[last] = field.replacement
            elif field.part is not None:
                holder[last] = {}  # Not dropped: the ranks of the others are their places.
            else:
                self._dropped.setdefault(steps[:-1], set()).add(last)

    def _copy(self, steps: Steps) -> Any:
        if steps not in self._copies:
            holder = self._copy(steps[:-1])
            self._copies[steps] = holder[steps[-1]] = holder[steps[-1]].copy()
        return self._copies[steps]

    def repaired(self) -> dict[str, Any]:
        """Return the repaired event."""
        for steps, dropped in self._dropped.items():
            items = self._copies[steps]
            items[:] = [item for number, item in enumerate(items) if number not in dropped]
        return self._copies[()]  # type: ignore[no-any-return]


def _field_at(location: Location) -> tuple[Steps, str, _FieldType]:
    """Return the steps to the field or element of an error, its path without numbers, and its type.

    Further steps of pydantic's, such as the branches of a union, are left out.

    >>> _field_at(("contexts", 2, "page", "int"))[:2], _field_at(("retrieval", "relevant_ids", 1))[:2]
    ((('contexts', 2, 'page'), 'contexts[].page'), (('retrieval', 'relevant_ids', 1), 'retrieval.relevant_ids[]'))
    """
    steps: list[int | str] = []
    path, fields = "", _FIELDS[Interaction]
    field = fields[str(location[0])]
    for step in location:
        if isinstance(step, int):
            if not field.is_list or path.endswith("[]"):
                break
            path += "[]"
        elif step in fields:
            path += f".{step}" if path else step
            field = fields[step]
        else:
            break
        steps.append(step)
        inside = field.part is not None and (isinstance(step, int) or not field.is_list)
        fields = _FIELDS[field.part] if inside and field.part else {}
    return tuple(steps), path, field


def _paths(model: type[RecordPart] = Interaction, before: str = "") -> Iterator[str]:
    for name, field in _FIELDS[model].items():
        path = before + name + ("[]" if field.is_list else "")
        yield from {before + name, path}
        if field.part is not None:
            yield from _paths(field.part, f"{path}.")


REPAIRS = frozenset(
    {_MIXED, _IMPLAUSIBLE, TIME_DEFAULTED, _UNKNOWN_KIND, _AS_TEXTS, HEADERS_CUT, TRACEPARENT_INVALID}
    | set(get_args(AssemblyFlag))
    | {CUT + path for path in DEFAULT_MAX_ITEMS}
    | {_UNREADABLE + path for path in _paths()}
    - {_UNREADABLE + path for path in ("event_id", "query", "response", "ended_at", "extra", "spans[].kind")}
)
"""All flags that an event can have."""
