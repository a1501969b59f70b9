"""Advice about maps, from a sample of the events that a command reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.json import interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.mapping.unmatched import PathMap, unmatched_paths
from ragweir.streams.files.map_choice import choose
from ragweir.streams.files.schema_inference import REQUIRED, innermost, propose, written
from ragweir.streams.runtime.text.terminal import printable

_MAX_BYTES = 4 * 1024 * 1024
_SHOWN_PATHS = 10


@dataclass(slots=True)
class EventSample:
    """The first events that are JSON objects, within limits of their number and bytes."""

    most: int
    events: list[object] = field(default_factory=list)
    _bytes: int = 0

    def add(self, value: bytes | None) -> None:
        """Add an event in JSON, unless the sample is full or it is no object."""
        if value is None or len(self.events) >= self.most or self._bytes + len(value) > _MAX_BYTES:
            return
        with suppress(Rejected):
            data = parse(value, _MAX_BYTES)
            if isinstance(data, dict):
                self.events.append(data)
                self._bytes += len(value)


def _missing_fields(event: object, mapping: FieldMap | None) -> set[str]:
    """Return the required fields that an event has not, as a map reads it."""
    ours = event
    if mapping is not None:
        try:
            ours = mapping(event, 1)
        except Rejected:
            return set()
    return {name for name in REQUIRED if ours.get(name) is None} if isinstance(ours, Mapping) else set()


def missing_field_advice(
    rejected: Sequence[object], events: Sequence[object], mapping: FieldMap | None = None
) -> Iterator[str]:
    r"""Yield lines that propose rules of a map for events without required fields.

    >>> events = [{"id": 1, "question": "Who?", "answer": "Ada."}]
    >>> for line in missing_field_advice(events, events):
    ...     print(line)
    The events have other fields than ragweir's. This map reads 1 of 1 sampled ones; save it as map.toml, correct it,
    and add --map map.toml:
      event_id = "id"
      query = "question"
      response = "answer"

    Args:
        rejected: a sample of rejected events, in JSON.
        events: a sample of all events.
        mapping: the map through which they were read.
    """
    lacking = [(event, fields) for event in rejected if (fields := _missing_fields(event, mapping))]
    # A field that other events have is only empty in these.
    nowhere = set(REQUIRED).intersection(*(_missing_fields(event, mapping) for event in events))
    missing = {name for _, fields in lacking for name in fields if mapping is None or name in nowhere}
    if not missing:
        return
    sample = [event for event, _ in lacking]
    if mapping is None and (ready := choose(sample)).ready:
        yield f"This is an export of {ready.product}: add --map {ready.ready}"
        return
    rules = propose(sample)
    found = {name: rules[name] for name in REQUIRED if name in missing and name in rules}
    if mapping is None and (readable := _readable(rules, sample)):
        yield (
            f"The events have other fields than ragweir's. This map reads {readable} of {len(sample)} sampled ones; "
            "save it as map.toml, correct it, and add --map map.toml:"
        )
        yield from (f"  {line}" for line in written(rules).splitlines())
        return
    if found:
        yield "These lines of a map may read them:"
        yield from (f"  {line}" for line in written(found).splitlines() if not line.startswith("#"))
    if unknown := [name for name in REQUIRED if name in missing & nowhere and name not in found]:
        paths = ", ".join(innermost(sample)) or "none"
        yield f"No field looks like {' or '.join(unknown)}. Fields that a map (--map) can name: {paths}"


def _readable(rules: Mapping[str, object], events: Sequence[object]) -> int:
    """Return the number of events that a map with these rules reads."""
    try:
        proposed = FieldMap(rules)
    except MapError:
        return 0
    readable = 0
    for event in events:
        with suppress(Rejected):
            interaction(proposed(event))
            readable += 1
    return readable


def unmatched_advice(events: Sequence[object], mapping: PathMap) -> Iterator[str]:
    """Yield a line for each path of a map that matched nothing in a sample.

    Args:
        events: events in JSON, before the map.
        mapping: the map.
    """
    found = unmatched_paths(mapping, events) if events else []
    for each in found[:_SHOWN_PATHS]:
        yield f"the map, {printable(str(each), None)}"
    if len(found) > _SHOWN_PATHS:
        yield f"the map: nothing is at {len(found) - _SHOWN_PATHS} more paths"
