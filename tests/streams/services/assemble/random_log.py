"""Logs of spans as bad as they come: shuffled, repeated, late, cut, endless, orphaned and hostile."""

import random
from typing import Any

from small_spans import log, mark_record, span, spans_record

from ragweir.streams.runtime.records import Record


def interaction(rng: random.Random, base: int, parent: int | None, *, remote: bool = False) -> list[Any]:
    """The spans of one question: those below it are of its own process or of another one."""
    spans = [span(base, parent, rng.choice(("ask", "ask", "ask", "llm", "http")), remote=remote, text="q")]
    for number in range(rng.randint(0, 4)):
        above = rng.choice(spans)["id"]
        spans.append(span(base + 1 + number, above, "step", remote=rng.random() < 0.2, text="x" * rng.randint(0, 30)))
    return spans


def exports(  # noqa: C901 - one branch for each kind of trace
    rng: random.Random, trace: int, begin_s: float
) -> list[tuple[float, int, list[Any]]]:
    """The export requests of one trace: times, trace and spans."""
    kind = rng.choice(("plain", "plain", "plain", "remote", "session", "batch", "orphans", "endless", "logs", "web"))
    spans: list[tuple[float, Any]] = []
    if kind == "session":
        for number in range(rng.randint(1, 6)):
            at = begin_s + number * rng.choice((1.0, 20.0, 90.0, 700.0))
            spans += [(at, each) for each in interaction(rng, 100 * (number + 1), 1)]
        if rng.random() < 0.5:
            spans.append((spans[-1][0] + rng.choice((1.0, 70.0)), span(1, None)))
    elif kind == "batch":
        spans = [(begin_s, span(1, None))]
        spans += [(begin_s, each) for number in range(3) for each in interaction(rng, 100 * (number + 1), 1)]
    elif kind == "endless":
        count = rng.randint(5, 25)
        spans = [(begin_s + 30 * number, span(10 + number, 10 if number else None, "ask")) for number in range(count)]
    elif kind == "logs":
        spans = [(begin_s, log(5)), (begin_s + 3, log(6))]
    elif kind == "web":
        spans = [(begin_s, span(1, 999, "http", remote=True))]
        spans += [(begin_s, each) for each in interaction(rng, 100, 1)]
    else:
        parent = {"plain": None, "remote": 77, "orphans": 78}[kind]
        spans = [(begin_s, each) for each in interaction(rng, 1, parent, remote=kind == "remote")]
        if kind == "orphans":
            spans = rng.sample(spans, max(1, len(spans) - 1))
    requests: list[tuple[float, int, list[Any]]] = []
    for at, each in spans:
        # SDKs batch for five seconds, and some processes export much later.
        delay = rng.choice((0.0, rng.uniform(0, 5), rng.uniform(0, 5), rng.uniform(0, 100)))
        requests.append((at + delay, trace, [each]))
        if rng.random() < 0.1:
            requests.append((at + delay + rng.choice((0.5, 40.0, 500.0, 4000.0)), trace, [each]))
        if rng.random() < 0.1 and "id" in each:
            requests.append((at + delay + 1, trace, [{**each, "ended": rng.randint(0, 3), "text": "again"}]))
    return requests


def random_log(rng: random.Random, traces: int, *, partition: int = 0, hours: float = 0.3) -> list[Record]:
    """A log of so many traces, with the marks of two source partitions, the second of which is behind for a while."""
    numbers = [1000 * partition + number for number in range(traces)]
    requests = [each for number in numbers for each in exports(rng, number, rng.uniform(0, hours * 3600))]
    requests.sort(key=lambda each: each[0] + rng.uniform(0, 2))
    log: list[Record] = []
    offset, clock = rng.randint(0, 50), 0.0
    stalls = [rng.uniform(0, hours * 3600) for _ in range(2)]
    for at, trace, spans in requests:
        offset += rng.choice((1, 1, 1, 2, 3))
        while clock + 2 < at - 2:
            clock += rng.choice((0.5, 2.0, 2.0, 10.0))
            clock = min(clock, at - 2)
            other = min([clock, *(stall for stall in stalls if stall < clock < stall + 300)])
            first_marks = [clock] if clock < 5 else [clock, other]
            log.append(mark_record(offset, first_marks if clock > 5 else [clock, None], partition))
            offset += 1
        log.append(spans_record(offset, trace, max(at, clock), spans, partition))
        if rng.random() < 0.02:
            offset += 1
            log.append(hostile(rng, offset, at, partition))
    for number in range(60):
        offset += 1
        log.append(mark_record(offset, [clock + 20 * number] * 2, partition))
    return log


def hostile(rng: random.Random, offset: int, at: float, partition: int) -> Record:
    good = spans_record(offset, 5, at, [span(1)], partition)
    topic, value, ms = good.topic, good.value, good.timestamp_ms
    return rng.choice(
        (
            spans_record(offset, 5, at, [], partition, raw=b"\xff\x00"),
            Record(topic, partition, offset, b"no trace id", value, ms, good.headers),
            Record(topic, partition, offset, b"z" * 32, value, ms, good.headers),
            Record(topic, partition, offset, b" " * 32, value, ms, good.headers),
            Record(topic, partition, offset, good.key, value, ms, ()),
            Record(topic, partition, offset, good.key, value, ms, (("ragweir-time", b"9" * 400),)),
            Record(topic, partition, offset, good.key, value, ms, (("ragweir-time", b"-5"),)),
            Record(topic, partition, offset, None, b'{"sources": 3}', ms),
        )
    )
