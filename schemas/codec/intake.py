"""Intake: makes parsed JSON an interaction. What is too long is cut, what cannot be read is repaired, and both flagged.

Only the id, the query, the response and a time of the event can cost it. Elements are counted before validation, which
costs time and memory for each, and much more for a wrong one; the repair then works on the errors of a bounded event.
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
    Context,
    Extraction,
    Feedback,
    Interaction,
    Message,
    RecordPart,
    Retrieval,
    Span,
    Usage,
)
from ragweir.schemas.times import FIRST_YEAR, LAST_YEAR, Unit, epoch_number, from_epoch, unit_of

MAX_ITEMS: Mapping[str, int] = MappingProxyType(
    {
        "contexts": 1_000,
        "spans": 1_000,
        "extractions": 1_000,
        "aggregation": 1_000,
        "retrieval.relevant_ids": 1_000,
        "history": 200,
        "labels": 64,
        "expected": 32,
    }
)
"""The lists of an interaction, with the number of elements that is read of each unless `limits.max_items` says
otherwise. A longer one is cut to so many, the first ones, and the event is flagged `cut:FIELD`."""

MOST_ITEMS = 100_000
"""The most elements of any list that can be asked for."""

REQUIRED = ("event_id", "query", "response", "started_at", "ended_at")
"""The fields that cost the event where they cannot be read; without the first three there is none."""

CUT = "cut:"
"""The prefix of the flag of a cut list."""
_UNREADABLE = "unreadable:"
_AS_TEXTS, _UNKNOWN_KIND = "contexts_as_text", "unknown_span_kind"
_MIXED, _IMPLAUSIBLE = "time_units_mixed", "time_implausible"

_PLACES = {path: path.rpartition(".")[::2] for path in MAX_ITEMS}
_LISTS = (list, dict)
_ROUNDS = 4
"""What stands in for an item that is nothing may itself lack something; two rounds of repair settle that."""

Location = Sequence[int | str]
Steps = tuple[int | str, ...]


def read(data: object, max_items: Mapping[str, int] = MAX_ITEMS) -> Interaction:
    """Make an interaction of parsed JSON, which is left as it is.

    >>> event = read({"event_id": "1", "query": "", "response": "", "contexts": ["Ada."], "expected": ["a"] * 33})
    >>> event.contexts[0].text, len(event.expected), event.flags
    ('Ada.', 32, ('contexts_as_text', 'cut:expected'))

    Args:
        data: what was parsed, or what a map made of it.
        max_items: how many elements are read of each list in `MAX_ITEMS`.

    Raises:
        pydantic.ValidationError: if it is no interaction. Its errors are of the fields that cost the event.
    """
    flags: set[str] = set()
    if isinstance(data, dict):
        data = _in_one_unit(_cut(data, max_items, flags), flags)
    event = _validated(data, flags)
    if not _plausible(event):
        flags.add(_IMPLAUSIBLE)
    return event.flagged(flags) if flags else event


def _cut(data: dict[str, Any], max_items: Mapping[str, int], flags: set[str]) -> dict[str, Any]:
    """The event with its lists cut."""
    for path, most in max_items.items():
        holder, name = _PLACES[path]
        part: Any = data.get(holder) if holder else data
        items = part.get(name) if part.__class__ is dict else None
        if items.__class__ in _LISTS and len(items) > most:
            kept = items[:most] if isinstance(items, list) else dict(islice(items.items(), most))
            data = {**data, holder: {**part, name: kept}} if holder else {**data, name: kept}
            flags.add(CUT + path)
    return data


# Times.


def _numbers(data: dict[str, Any]) -> list[int | float]:
    """The times of an event that are numbers; the first of them tells the unit of all."""
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


def _in_one_unit(data: dict[str, Any], flags: set[str]) -> dict[str, Any]:
    """The event with all its times in the unit of the first, where they are numbers whose magnitudes tell several.

    A time that this puts outside the years 1 to 9999 is null.

    >>> flags = set()
    >>> event = _in_one_unit({"ended_at": 1764000000250, "started_at": 1763999999}, flags)
    >>> event["started_at"].isoformat(), flags
    ('1970-01-21T09:59:59.999000+00:00', {'time_units_mixed'})
    """
    numbers = _numbers(data)
    if not numbers or ((least := min(numbers)) >= 0 and unit_of(least) == unit_of(max(numbers))):
        return data
    units = [unit for number in numbers if _in_unit(number, unit := unit_of(number))]
    if len(set(units)) < 2:
        return data
    flags.add(_MIXED)

    def moment(value: object, path: str) -> object:
        number = epoch_number(value)
        if number is None:
            return value
        time = _in_unit(number, units[0])
        if time is None:
            flags.add(_UNREADABLE + path)
        return time

    def moved(part: Any, path: str, *names: str) -> Any:
        if not isinstance(part, dict):
            return part
        return {**part, **{each: moment(part[each], path + each) for each in names if each in part}}

    data = moved(data, "", "ended_at", "started_at", "first_token_at")
    if isinstance(spans := data.get("spans"), list):
        data["spans"] = [moved(span, "spans[].", "started_at", "ended_at") for span in spans]
    return data


def _in_unit(number: float, unit: Unit) -> datetime | None:
    try:
        return from_epoch(number, unit)
    except ValueError:
        return None


def _plausible(event: Interaction) -> bool:
    """Return whether all times of an event can be true."""
    times = [event.ended_at, event.started_at, event.first_token_at]
    for span in event.spans or ():
        times += (span.started_at, span.ended_at)
    return all(time is None or FIRST_YEAR <= time.year <= LAST_YEAR for time in times)


# Repair.


@dataclass(frozen=True, slots=True)
class _Field:
    """The facts about a field of a model that a repair needs."""

    listed: bool
    part: type[RecordPart] | None
    """The model of its value, or of the elements of its list."""
    instead: object
    """The value that replaces one that cannot be read."""


def _field(info: FieldInfo) -> _Field:
    def within(annotation: object) -> Iterator[object]:
        yield from (get_origin(annotation), annotation)
        for argument in get_args(annotation):
            yield from within(argument)

    types = list(within(info.annotation))
    part = next((each for each in types if isinstance(each, type) and issubclass(each, RecordPart)), None)
    return _Field(tuple in types, part, "" if info.is_required() else None)


_FIELDS: dict[type[RecordPart], dict[str, _Field]] = {
    model: {name: _field(info) for name, info in model.model_fields.items()}
    for model in (Interaction, Message, Feedback, Context, Retrieval, Extraction, Aggregate, Span, Usage)
}


def _validated(data: object, flags: set[str]) -> Interaction:
    """The interaction, with what is optional repaired where need be."""
    for _ in range(_ROUNDS):
        try:
            return Interaction.model_validate(data)
        except ValidationError as invalid:
            if not isinstance(data, dict):
                raise
            repair = _Repair(data, flags)
            for error in invalid.errors(include_url=False, include_context=False, include_input=False):
                repair.take(error["loc"])
            if not repair.changed:
                raise
            data = repair.repaired()
    return Interaction.model_validate(data)


class _Repair:
    """One round: takes the errors of an event, and gives the event without what they are about."""

    def __init__(self, data: dict[str, Any], flags: set[str]) -> None:
        self.changed = False
        self._flags = flags
        self._copies: dict[Steps, Any] = {(): dict(data)}
        """The objects and lists that are changed, by the steps to them; what was given is left as it is."""
        self._dropped: dict[Steps, set[int]] = {}

    def take(self, location: Location) -> None:
        """Repair what an error is about, unless it costs the event."""
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
                holder[last] = field.instead
            elif field.part is not None:
                holder[last] = {}  # The places of the others are their ranks.
            else:
                self._dropped.setdefault(steps[:-1], set()).add(last)

    def _copy(self, steps: Steps) -> Any:
        if steps not in self._copies:
            holder = self._copy(steps[:-1])
            self._copies[steps] = holder[steps[-1]] = holder[steps[-1]].copy()
        return self._copies[steps]

    def repaired(self) -> dict[str, Any]:
        """The event without what the errors were about."""
        for steps, dropped in self._dropped.items():
            items = self._copies[steps]
            items[:] = [item for number, item in enumerate(items) if number not in dropped]
        return self._copies[()]  # type: ignore[no-any-return]


def _field_at(location: Location) -> tuple[Steps, str, _Field]:
    """The field or element that an error is about: the steps to it, its path without numbers, and what is known of it.

    What pydantic names beside, such as the branches of a union, is left out.

    >>> _field_at(("contexts", 2, "page", "int"))[:2], _field_at(("retrieval", "relevant_ids", 1))[:2]
    ((('contexts', 2, 'page'), 'contexts[].page'), (('retrieval', 'relevant_ids', 1), 'retrieval.relevant_ids[]'))
    """
    steps: list[int | str] = []
    path, fields = "", _FIELDS[Interaction]
    field = fields[str(location[0])]
    for step in location:
        if isinstance(step, int):
            if not field.listed or path.endswith("[]"):
                break
            path += "[]"
        elif step in fields:
            path += f".{step}" if path else step
            field = fields[step]
        else:
            break
        steps.append(step)
        inside = field.part is not None and (isinstance(step, int) or not field.listed)
        fields = _FIELDS[field.part] if inside and field.part else {}
    return tuple(steps), path, field


def _paths(model: type[RecordPart] = Interaction, before: str = "") -> Iterator[str]:
    for name, field in _FIELDS[model].items():
        path = before + name + ("[]" if field.listed else "")
        yield from {before + name, path}
        if field.part is not None:
            yield from _paths(field.part, f"{path}.")


REPAIRS = frozenset(
    {_MIXED, _IMPLAUSIBLE, _UNKNOWN_KIND, _AS_TEXTS}
    | {CUT + path for path in MAX_ITEMS}
    | {_UNREADABLE + path for path in _paths()}
    - {_UNREADABLE + path for path in ("event_id", "query", "response", "ended_at", "extra", "spans[].kind")}
)
"""Every flag that an event can have."""
