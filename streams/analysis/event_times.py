"""Distances from event times to the timestamps of their records in a sample, and the probable cause of large ones.

A distance is the sum of the delay of publishing, any backlog, the difference of two clocks, and a wrong unit of times,
which one event alone does not reveal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent

_AHEAD_SECONDS = 300
"""Distance after its record beyond which an event has a wrong clock."""
_DAY_SECONDS = 86_400
_SIZES = ((_DAY_SECONDS, "days"), (3_600, "hours"), (60, "minutes"), (1, "s"))


@dataclass(frozen=True, slots=True)
class EventTimeDistances:
    """The distances of a sample, in seconds; below 0 for events after their records."""

    seconds: tuple[float, ...]
    """Those of the events with a time, in records with a timestamp."""
    implausible: int
    """The number of events that are flagged time_implausible."""

    @override
    def __str__(self) -> str:
        """Return the distances as a sentence.

        >>> print(EventTimeDistances((1.0, 2.0, 90.0), 0))
        event times are 2 s before their records (median; 1 s before to 90 s before)
        >>> print(EventTimeDistances((), 0))
        no event has a time
        """
        if not self.seconds:
            return "no event has a time"
        middle, least, most = map(_readable, (median(self.seconds), min(self.seconds), max(self.seconds)))
        return f"event times are {middle} their records (median; {least} to {most})"

    @property
    def complaint(self) -> str:
        """Return the probable cause of implausible distances; empty if there are none.

        >>> EventTimeDistances((2.0, 3.0, 86400.0), 0).complaint
        ''
        >>> EventTimeDistances((2.0e6, 2.1e6, 3.0), 0).complaint[:52]
        'event times are 23 days before their records: is the'
        """
        ahead = sum(each < -_AHEAD_SECONDS for each in self.seconds)
        if self.implausible:
            return (
                f"{self.implausible} events have times before 2000 or after 2099: is the unit wrong? It can be named "
                'in the map, as in ended_at = { path = "PATH", unit = "ms" }'
            )
        if ahead:
            return (
                f"{ahead} events happened more than {_AHEAD_SECONDS // 60} minutes after their records were written, "
                f"up to {_readable(min(self.seconds))} them: is a clock wrong, or the unit of times?"
            )
        if self.seconds and (middle := median(self.seconds)) > _DAY_SECONDS:
            return (
                f"event times are {_readable(middle)} their records: is the unit or a clock wrong? "
                "A backlog or a file of past events is no error"
            )
        return ""


def _readable(seconds: float) -> str:
    size, name = next((each for each in _SIZES if abs(seconds) >= 2 * each[0]), _SIZES[-1])
    return f"{abs(seconds) / size:,.0f} {name} {'after' if seconds < 0 else 'before'}"


def distances(agent: EvaluateAgent, records: Iterable[Record]) -> EventTimeDistances:
    """Return the distances of the events in records; unreadable ones have none."""
    seconds, implausible = [], 0
    for record in records:
        for found in agent.read(record):
            if isinstance(found, Rejected):
                continue
            event, time = found
            implausible += "time_implausible" in event.flags
            if record.timestamp_ms is not None and (event.ended_at or event.started_at):
                seconds.append(record.timestamp_ms / 1_000 - time.timestamp())
    return EventTimeDistances(tuple(seconds), implausible)
