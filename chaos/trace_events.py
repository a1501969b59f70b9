"""Generated traces: drawn from a seed, divided into export requests that arrive mixed, repeated, late or in part."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from chaos.truth import Sending, Truth, content, spans_of
from ragweir.schemas.interaction import Context, Interaction, Span, Usage
from ragweir.streams.playground.traces import merged, otlp_requests

_EPOCH = datetime(2026, 11, 23, tzinfo=UTC)
_TOGETHER_S = 0.1
"""Requests that are due within this time may travel in one record."""


@dataclass(frozen=True, slots=True)
class TraceMix:
    """Composition of the workload: shares of all traces, or of all requests."""

    keyed: float = 0.4
    """Traces that are written with the trace id as key, to a topic of their own."""
    two_services: float = 0.3
    """Traces of two processes."""
    late: float = 0.02
    """Traces of which a request arrives later than `settle_s`."""
    orphans: float = 0.01
    """Traces whose root never arrives."""
    repeated: float = 0.03
    """Requests that are sent twice."""
    together: float = 0.5
    """Requests without keys that travel with those of another trace."""


def interaction(number: int) -> Interaction:
    """Return the interaction of a trace, whose values follow from its number.

    >>> interaction(41).trace_id, interaction(41).query
    ('0000000000000000000000000000002a', 'Is 41 even?')
    """
    began, own = _EPOCH + timedelta(milliseconds=37 * number), content(number)

    def at(ms: int) -> datetime:
        return began + timedelta(milliseconds=ms)

    tools = [
        Span(kind="tool", name=f"tool-{each}", started_at=at(100 + each), ended_at=at(150 + each))
        for each in range(number % 3)
    ]
    return Interaction(
        event_id=f"e{number}",
        trace_id=own.trace_id,
        span_id=own.span_id,
        query=own.query,
        response=own.response,
        started_at=began,
        ended_at=at(500 + number % 887),
        application=f"app-{number % 3}",
        model="simulated",
        contexts=tuple(Context(text=text, chunk_id=f"c{number}-{rank}") for rank, text in enumerate(own.contexts)),
        spans=(
            Span(kind="embedding", name="embed", started_at=at(1), ended_at=at(20)),
            Span(kind="retrieval", name="search", started_at=at(20), ended_at=at(90)),
            *tools,
            Span(kind="llm", name="answer", started_at=at(200), ended_at=at(490)),
        ),
        usage=Usage(input_tokens=number % 997, output_tokens=number % 89),
    )


class TraceGenerator:
    """Yields the records of a number of spans at least, in the order in which they are due.

    Args:
        seed: the seed of all draws.
        mix: the composition.
        spans: the number of spans at which no further trace begins.
        spans_per_s: spans per second of the workload's time.
        settle_s: `assemble.settle_s` of the services.
        late_s: the least and the greatest time by which late requests are late.
        backlog: the number of the first spans, and the time over which they are spread.
    """

    def __init__(
        self,
        seed: int,
        mix: TraceMix,
        spans: int,
        spans_per_s: float,
        settle_s: float,
        late_s: tuple[float, float],
        backlog: tuple[int, float] = (0, 0.0),
    ) -> None:
        self._backlog = backlog
        self._random = random.Random(f"traces {seed}")  # noqa: S311 (the same traces for the same seed)
        self._seed, self._mix, self._spans, self._rate = seed, mix, spans, spans_per_s
        self._spread_s, self._late_s = 0.6 * settle_s, late_s
        self.truth = Truth()
        self.spans = 0
        """Number of spans of the traces that have begun."""

    def __iter__(self) -> Iterator[Sending]:
        heap: list[tuple[float, int, Sending]] = []
        count = 0
        while self.spans < self._spans:
            begins_s = self._begins_s()
            for sending in self._trace(begins_s):
                heapq.heappush(heap, (sending.at_s, count, sending))
                count += 1
            yield from self._due(heap, self._begins_s())
        yield from self._due(heap, float("inf"))

    def _begins_s(self) -> float:
        """Return the time at which the next trace begins."""
        spans, over_s = self._backlog
        if self.spans < spans:
            return over_s * self.spans / spans
        return over_s + (self.spans - spans) / self._rate

    def _trace(self, begins_s: float) -> Iterator[Sending]:
        """Begin a trace; yield its records."""
        rng, mix = self._random, self._mix
        asked = interaction(len(self.truth.spans))
        two = rng.random() < mix.two_services
        requests = otlp_requests(asked, seed=self._seed, flushes=rng.randrange(1, 4), two_services=two)
        number = self.truth.add(sum(len([*spans_of(request)]) for request in requests))
        self.spans += self.truth.spans[number]
        key = f"{number + 1:032x}".encode() if rng.random() < mix.keyed else None
        offsets = sorted(rng.uniform(0, self._spread_s) for _ in requests)
        if rng.random() < mix.orphans:
            self.truth.orphans.add(number)
            root = bytes.fromhex(f"{number + 1:016x}")
            rootless = [each for each in requests if all(span.span_id != root for span in spans_of(each))]
            offsets, requests = offsets[: len(rootless)], rootless
        elif rng.random() < mix.late:
            offsets[-1] += rng.uniform(*self._late_s)
        for offset, request in zip(offsets, requests, strict=True):
            for again in range(1 + (rng.random() < mix.repeated)):
                yield Sending(begins_s + offset + again * 0.01, key, request, (number,))

    def _due(self, heap: list[tuple[float, int, Sending]], before_s: float) -> Iterator[Sending]:
        """Yield the records that are due before a time, some of them together."""
        while heap and heap[0][0] < before_s:
            sending = heapq.heappop(heap)[2]
            joins = heap and heap[0][0] < min(before_s, sending.at_s + _TOGETHER_S)
            if joins and sending.key is None and heap[0][2].key is None and self._random.random() < self._mix.together:
                other = heapq.heappop(heap)[2]
                value, traces = merged([sending.value, other.value]), (*sending.traces, *other.traces)
                sending = Sending(sending.at_s, None, value, traces)
            yield sending
