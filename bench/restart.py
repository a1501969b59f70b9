"""Time of a restart of join after an hour at 1,000 traces per second: an hour to remember, and seconds of open traces.

The topics are written as a worker would have left them, which took an hour; the worker that is started is the real one.
"""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from rich.table import Table

from bench.assemble import BEGAN_MS, PARTITIONS, PREFIX, SOURCE, requests, service, traced
from ragweir.schemas.assembly import HEADER_TIME, ClockMark, SourceMark
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.kafka.client import Identity, build, reader_properties
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.services.join.emitted import EmittedTrace
from ragweir.streams.services.join.join_clock import JoinClock, read_mark
from ragweir.streams.services.join.ledger import ClosedTrace, LedgerWriter, Position
from ragweir.streams.settings import Settings
from ragweir.streams.traces.wire import slices

_PER_SECOND, _REMEMBERED_S, _OPEN_S = 1_000, 3_600, 8
"""Traces per second over all partitions, and the seconds of them that are remembered and open."""
_DISTINCT = 100
"""Number of different traces, which the open ones repeat under ids of their own."""
_ENDED_MS = BEGAN_MS + 1_000 * _REMEMBERED_S
_WAIT_S = 300.0


def _mark(time_ms: int) -> bytes:
    mark = SourceMark(topic=SOURCE, partition=0, time_ms=time_ms, caught_up=True)
    return ClockMark(sources={SOURCE: 1}, marks=(mark,)).model_dump_json().encode()


def _trace_id(partition: int, second: int, number: int) -> bytes:
    return b"\1%3d%6d%6d" % (partition, second, number)


def _open_traces(partition: int) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of the spans of the open traces of a partition."""
    parts = [[part for request in trace for part in slices(request)] for trace in requests(_DISTINCT)]
    ids = [_trace_id(partition, _REMEMBERED_S, number) for number in range(_OPEN_S * _PER_SECOND // PARTITIONS)]
    return [
        (own.hex().encode(), part.value.replace(bytes.fromhex(part.trace_id), own))
        for number, own in enumerate(ids)
        for part in parts[number % _DISTINCT]
    ]


def _write(producer: Producer, partition: int) -> tuple[int, int]:
    """Write both topics of a partition; return the offset to commit, and the number of open traces."""
    spans, assembly = f"{PREFIX}spans", f"{PREFIX}assembly"
    producer.produce(spans, _mark(_ENDED_MS), partition=partition)
    opened = _open_traces(partition)
    for key, value in opened:
        headers: list[tuple[str, str | bytes | None]] = [(HEADER_TIME, b"%d" % _ENDED_MS)]
        producer.produce(spans, value, key, partition, headers=headers)
        producer.poll(0)
    producer.produce(spans, _mark(_ENDED_MS + 60_000), partition=partition)
    producer.flush(_WAIT_S)
    ledger, per_second = LedgerWriter(0), _PER_SECOND // PARTITIONS
    for second in range(_REMEMBERED_S):
        time_ms = BEGAN_MS + 1_000 * second
        packed = EmittedTrace(time_ms, (bytes(8),)).packed
        closings = [ClosedTrace(_trace_id(partition, second, number), 1, packed) for number in range(per_second)]
        clock = JoinClock().after(read_mark(_mark(time_ms)))
        following = 1 if second < _REMEMBERED_S - 1 else 1 + len(opened)
        position = Position(following, 1, BEGAN_MS, clock, (second + 1) * per_second, 0)
        producer.produce(assembly, ledger.entry(position, closings), str(partition).encode(), partition)
        ledger.commit()
        producer.poll(0)
    producer.flush(_WAIT_S)
    return 1, _OPEN_S * per_second


def table() -> Table:
    """Return the time of a restart, and the memory that it takes."""
    with local_kafka() as broker:
        settings = traced(broker.bootstrap)
        create_topics(settings)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20, "log_level": 0})
        written = {partition: _write(producer, partition) for partition in range(PARTITIONS)}
        group = Identity("join", 0, PREFIX).group
        consumer = build(Consumer, reader_properties(settings) | {"group.id": group})
        offsets = [TopicPartition(f"{PREFIX}spans", partition, at) for partition, (at, _) in written.items()]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
        first_s, last_s, peak_mb = _measured(settings, sum(traces for _, traces in written.values()))
    remembered, opened = _PER_SECOND * _REMEMBERED_S, _PER_SECOND * _OPEN_S
    result = Table(
        *("remembered traces", "open traces", "s to the first interaction", "s to the last", "peak MB"),
        title="Restart of one worker of join with all partitions, from the start of its process",
    )
    result.add_row(f"{remembered:,}", f"{opened:,}", f"{first_s:.1f}", f"{last_s:.1f}", f"{peak_mb:,.0f}")
    return result


def _measured(settings: Settings, count: int) -> tuple[float, float, float]:
    """Start join, and return the times of the first and the last interaction, and the worker's peak memory."""
    consumer = build(Consumer, reader_properties(settings))
    consumer.assign([TopicPartition(f"{PREFIX}interactions", partition, 0) for partition in range(PARTITIONS)])
    began, first_s, seen = time.monotonic(), 0.0, 0
    with closing(consumer), service(settings, "join") as worker:
        while seen < count:
            if time.monotonic() - began > _WAIT_S:
                raise SystemExit(f"{seen} of {count} interactions after {_WAIT_S:.0f} s")
            seen += sum(message.error() is None for message in consumer.consume(1_000, 0.2))
            first_s = first_s or (time.monotonic() - began if seen else 0.0)
        last_s = time.monotonic() - began
        status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
        peak_kb = next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]
    return first_s, last_s, int(peak_kb) / 1024
