"""Reports rejected events: the first ones as they come, and at the end all of them by reason, with a map that helps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from ragweir.errors import MapError, Rejected
from ragweir.schemas.codec.json import interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.cli.app import err
from ragweir.streams.schema_inference import REQUIRED, innermost, propose, written
from ragweir.streams.terminal import printable

_SHOWN = 3
"""Rejected events that are reported as they come."""
_MAX_REASONS, _SHOWN_REASONS = 1_000, 10
_SAMPLE_EVENTS, _SAMPLE_BYTES = 100, 4 * 1024 * 1024
_NUMBER = re.compile(r"[0-9]+")
_HINT = "; if the event has it elsewhere"

Mapped = Callable[[object], object]


@dataclass(slots=True)
class _Reason:
    message: str
    place: str
    """Place of the first event with this reason."""
    events: int = 0


@dataclass(slots=True)
class Rejections:
    """The rejected events of a command that reads files. Memory and output are bounded."""

    mapping: Mapped | None = None
    """The map through which the events are read."""
    count: int = 0
    _reasons: dict[str, _Reason] = field(default_factory=dict)
    """By message, without its numbers."""
    _others: int = 0
    """Events with reasons over the limit."""
    _sample: list[object] = field(default_factory=list)
    _sample_bytes: int = 0

    def add(self, place: str, message: str, value: bytes | None) -> None:
        """Add a rejected event, and report it if it is one of the first.

        Args:
            place: the place of the event, such as "line 3".
            message: the reason.
            value: the event as JSON; None if it is not known.
        """
        self.count += 1
        message = message.partition(_HINT)[0]
        if self.count <= _SHOWN:
            err.say(f"{printable(place, None)}: {printable(message, None)}")
        key = _NUMBER.sub("0", message)
        if key in self._reasons or len(self._reasons) < _MAX_REASONS:
            self._reasons.setdefault(key, _Reason(message, place)).events += 1
        else:
            self._others += 1
        if value is not None and len(self._sample) < _SAMPLE_EVENTS:
            self._add_sample(value)

    def _add_sample(self, value: bytes) -> None:
        if self._sample_bytes + len(value) <= _SAMPLE_BYTES:
            with suppress(Rejected):
                data = parse(value, _SAMPLE_BYTES)
                if isinstance(data, dict) and _missing(data, self.mapping):
                    self._sample.append(data)
                    self._sample_bytes += len(value)

    def report(self) -> None:
        """Report the events by reason, unless all have been reported, and the rules of a map that would read them."""
        if self.count > _SHOWN:
            err.say(f"{self.count:,} rejected, by reason:")
            for line in self._by_reason():
                err.say(f"  {line}")
        for line in advice(self._sample, self.mapping):
            err.say(line)

    def _by_reason(self) -> Iterator[str]:
        reasons = sorted(self._reasons.values(), key=lambda reason: -reason.events)
        for reason in reasons[:_SHOWN_REASONS]:
            message = printable(reason.message, None)
            yield f"{reason.events:>7,}  {message} (first: {printable(reason.place, None)})"
        if rest := sum(reason.events for reason in reasons[_SHOWN_REASONS:]) + self._others:
            yield f"{rest:>7,}  for other reasons"


def _missing(event: object, mapping: Mapped | None) -> set[str]:
    """Return the required fields that an event has not, as a map reads it."""
    ours: object = event
    if mapping is not None:
        try:
            ours = mapping(event)
        except Rejected:
            return set()
    return {name for name in REQUIRED if not isinstance(ours, Mapping) or ours.get(name) is None}


def advice(events: Sequence[object], mapping: Mapped | None = None) -> Iterator[str]:
    r"""Yield lines that propose rules of a map for events without required fields.

    >>> for line in advice([{"id": 1, "question": "Who?", "answer": "Ada."}]):
    ...     print(line)
    The events have other fields than ragweir's. This map reads 1 of 1 sampled ones; save it as map.toml, correct it,
    and add --map map.toml:
      event_id = "id"
      query = "question"
      response = "answer"

    Args:
        events: rejected events in JSON.
        mapping: the map through which they were read.
    """
    missing = set().union(*(_missing(event, mapping) for event in events)) if events else set()
    if not missing:
        return
    rules = propose(events)
    found = {name: rules[name] for name in REQUIRED if name in missing and name in rules}
    if mapping is None and (readable := _readable(rules, events)):
        yield (
            f"The events have other fields than ragweir's. This map reads {readable} of {len(events)} sampled ones; "
            "save it as map.toml, correct it, and add --map map.toml:"
        )
        yield from (f"  {line}" for line in written(rules).splitlines())
        return
    if found:
        yield "These lines of a map may read them:"
        yield from (f"  {line}" for line in written(found).splitlines() if not line.startswith("#"))
    if lacking := [name for name in REQUIRED if name in missing and name not in found]:
        paths = ", ".join(innermost(events)) or "none"
        yield f"No field looks like {' or '.join(lacking)}. Fields that a map (--map) can name: {paths}"


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
