"""The truth about generated traces: their content, and when it came. It uses nothing of the product."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_IS_REMOTE = 0x200
"""Flag of a span whose parent is in another process."""


class Content(NamedTuple):
    """The content of a trace."""

    trace_id: str
    span_id: str
    """The id of its root."""
    query: str
    response: str
    contexts: list[str]


def content(number: int) -> Content:
    """Return the content of a trace, which follows from its number."""
    answer = f"{number} is {'odd' if number % 2 else 'even'}."
    ids = f"{number + 1:032x}", f"{number + 1:016x}"
    return Content(*ids, f"Is {number} even?", answer, [f"{number} is a number."] * 2)


class Head(NamedTuple):
    """The part of a span that tells whether its trace is complete."""

    span_id: str
    parent_id: str | None
    remote_parent: bool


def spans_of(request: bytes) -> Iterator[Span]:
    """Yield the spans of an export request in protobuf."""
    for resource in ExportTraceServiceRequest.FromString(request).resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def heads(request: bytes) -> Iterator[Head]:
    """Yield the heads of the spans of an export request in protobuf."""
    for span in spans_of(request):
        yield Head(span.span_id.hex(), span.parent_span_id.hex() or None, bool(span.flags & _IS_REMOTE))


@dataclass(frozen=True, slots=True)
class Sending:
    """One record to send."""

    at_s: float
    """Time since the beginning of the workload."""
    key: bytes | None
    value: bytes
    traces: tuple[int, ...]
    """Numbers of the traces that it belongs to."""


@dataclass(slots=True)
class Truth:
    """The content of all traces, and the times at which their requests came."""

    spans: array[int] = field(default_factory=lambda: array("i"))
    """Number of spans of each trace."""
    orphans: set[int] = field(default_factory=set)
    first_s: array[float] = field(default_factory=lambda: array("d"))
    """Time before which nothing of a trace was sent."""
    last_s: array[float] = field(default_factory=lambda: array("d"))
    """Time at which all that was sent of a trace had arrived."""

    def add(self, spans: int) -> int:
        """Add a trace; return its number."""
        self.spans.append(spans)
        self.first_s.append(float("inf"))
        self.last_s.append(float("-inf"))
        return len(self.spans) - 1

    def sent(self, sending: Sending, at_s: float) -> None:
        """Record that a record is about to be sent."""
        for number in sending.traces:
            self.first_s[number] = min(at_s, self.first_s[number])

    def arrived(self, sending: Sending, at_s: float) -> None:
        """Record that a record has arrived."""
        for number in sending.traces:
            self.last_s[number] = max(at_s, self.last_s[number])

    def in_time(self, number: int, settle_s: float) -> bool:
        """Return true if all spans of a trace came within this time."""
        return number not in self.orphans and self.last_s[number] - self.first_s[number] < settle_s
