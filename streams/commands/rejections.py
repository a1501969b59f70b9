"""Reports rejected events: the first ones as they come, and at the end all of them by reason, with a map that helps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.commands.app import err
from ragweir.streams.commands.map_advice import EventSample, missing_field_advice, unmatched_advice
from ragweir.streams.runtime.text.terminal import printable

_SHOWN = 3
"""Rejected events that are reported as they come."""
_MAX_REASONS, _SHOWN_REASONS = 1_000, 10
_SAMPLED_REJECTED, _SAMPLED_READ = 100, 1_000
_NUMBER = re.compile(r"[0-9]+")
_HINT = "; if the event has it elsewhere"


@dataclass(slots=True)
class _Reason:
    message: str
    place: str
    """Place of the first event with this reason."""
    events: int = 0


@dataclass(slots=True)
class Rejections:
    """The rejected events of a command that reads files. Memory and output are bounded."""

    mapping: FieldMap | None = None
    """The map through which the events are read."""
    is_ready: bool = False
    """True for a ready map, in which most paths are those of other formats of the export."""
    count: int = 0
    _reasons: dict[str, _Reason] = field(default_factory=dict)
    """By message, without its numbers."""
    _others: int = 0
    """Events with reasons over the limit."""
    _read: EventSample = field(default_factory=lambda: EventSample(_SAMPLED_READ))
    _rejected: EventSample = field(default_factory=lambda: EventSample(_SAMPLED_REJECTED))

    def on_event(self, value: bytes | None) -> None:
        """Add an event in JSON, whatever becomes of it, to the sample that tells which fields all events lack."""
        self._read.add(value)

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
        self._rejected.add(value)

    def report(self) -> None:
        """Report the events by reason, unless all have been reported, and what is to be changed in the map."""
        if self.count > _SHOWN:
            err.say(f"{self.count:,} rejected, by reason:")
            for line in self._by_reason():
                err.say(f"  {line}")
        for line in missing_field_advice(self._rejected.events, self._read.events, self.mapping):
            err.say(line)
        if self.mapping is not None and not self.is_ready:
            for line in unmatched_advice(self._read.events, self.mapping):
                err.say(line)

    def _by_reason(self) -> Iterator[str]:
        reasons = sorted(self._reasons.values(), key=lambda reason: -reason.events)
        for reason in reasons[:_SHOWN_REASONS]:
            yield f"{reason.events:>7,}  {printable(reason.message, None)} (first: {printable(reason.place, None)})"
        if rest := sum(reason.events for reason in reasons[_SHOWN_REASONS:]) + self._others:
            yield f"{rest:>7,}  for other reasons"
