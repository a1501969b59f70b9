"""The events of labels that name a trace or a span, found in a file of evaluations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from ragweir.schemas.codec.mapping.label_map import TARGETS
from ragweir.streams.analysis.labels.evaluated import EvaluationLine, read_evaluations
from ragweir.streams.runtime.text.terminal import printable

Ids = Mapping[str, str]
"""Ids by the fields of `TARGETS`."""
_SHOWN = 3
_SHOWN_CHARACTERS = 60


class _TargetLine(EvaluationLine, gc=False):
    trace_id: str | None = None
    span_id: str | None = None


class LabelledEvent(NamedTuple):
    """An event that labels name."""

    event_id: str
    time: datetime
    dimensions: dict[str, str]


class Targets:
    """The events of a file of evaluations that labels name.

    Args:
        wanted: the ids that labels name.
        dimensions: the dimensions that labels carry.
    """

    def __init__(self, wanted: Iterable[Ids], dimensions: Sequence[str]) -> None:
        self._dimensions = dimensions
        self._wanted: dict[str, set[str]] = {name: set() for name in TARGETS}
        for ids in wanted:
            for name, own in ids.items():
                self._wanted[name].add(own)
        self._events: dict[tuple[str, str], LabelledEvent] = {}
        self._examples: dict[str, list[str]] = defaultdict(list)
        self._decode = msgspec.json.Decoder(_TargetLine, strict=False).decode

    def add(self, value: bytes) -> None:
        """Add an evaluation.

        Raises:
            ValueError: if it is none.
        """
        line = self._decode(value)
        for name in TARGETS:
            own = getattr(line, name)
            if own is None:
                continue
            if len(self._examples[name]) < _SHOWN:
                self._examples[name].append(str(own))
            if str(own) in self._wanted[name]:
                key, time = (name, str(own)), line.time
                before = self._events.get(key)
                # The last event of a trace is the one that the user was left with.
                if before is None or before.time <= time:
                    self._events[key] = LabelledEvent(str(line.event_id), time, dict(line.dimensions(self._dimensions)))

    def find(self, ids: Ids) -> LabelledEvent | None:
        """Return the event that ids name: the event, else that of the span, else the last one of the trace."""
        return next((self._events[each] for each in ids.items() if each in self._events), None)

    @property
    def examples(self) -> str:
        """The first ids of the evaluations, for messages."""
        return shown_ids(self._examples)


def find_targets(
    file: Path, wanted: Iterable[Ids], dimensions: Sequence[str], on_bytes: Callable[[int], None]
) -> Targets:
    """Find the events that labels name in a file of evaluations, as `ragweir score --out` writes it.

    Raises:
        PermanentError: if it cannot be read, or does not hold evaluations.
    """
    found = Targets(wanted, dimensions)
    read_evaluations(file, found.add, on_bytes)
    return found


def shown_ids(examples: Mapping[str, Sequence[str]]) -> str:
    """Return ids for a message.

    >>> shown_ids({"event_id": ["a", "b"], "trace_id": ["t"]})
    'event_id a, b; trace_id t'
    """
    return "; ".join(
        f"{name} {', '.join(printable(each, _SHOWN_CHARACTERS) for each in examples[name][:_SHOWN])}"
        for name in TARGETS
        if examples.get(name)
    )
