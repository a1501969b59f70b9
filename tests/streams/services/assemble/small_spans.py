"""Spans in a small form of their own, so that what join does with them can be checked without any convention."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from chaos import reference
from chaos.product_spans import encoded
from ragweir.errors import Rejected
from ragweir.schemas.assembly import HEADER_TIME, ClockMark, SourceMark
from ragweir.schemas.interaction import Assembly, Interaction
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.join.closing import TraceReader
from ragweir.streams.traces.interactions import Assembled, Made
from ragweir.streams.traces.span import TraceLog, TraceSpan
from ragweir.streams.traces.wire import SpanHead

START_MS = 1_700_000_000_000
TOPIC = "rag.spans"


def span_id(number: int) -> str:
    return f"{number:016x}"


def trace_id(number: int) -> str:
    return f"{number:032x}"


def span(number: int, parent: int | None = None, kind: str = "step", *, remote: bool = False, text: str = "") -> Any:
    """A span: `ask` begins an interaction, `llm` is loose without one, `http` is of no convention."""
    return {"id": number, "parent": parent, "remote": remote, "kind": kind, "text": text, "ended": 1}


def log(number: int) -> Any:
    """A log record of a span."""
    return {"log": number}


def spans_record(
    offset: int, trace: int, time_s: float, items: Sequence[Any], partition: int = 0, raw: bytes | None = None
) -> Record:
    """A record of spans, at so many seconds after the start."""
    value = json.dumps(items).encode() if raw is None else raw
    time_ms = START_MS + round(1000 * time_s)
    headers = ((HEADER_TIME, str(time_ms).encode()),)
    return Record(TOPIC, partition, offset, trace_id(trace).encode(), value, time_ms, headers)


def mark_record(offset: int, times_s: Sequence[float | None], partition: int = 0) -> Record:
    """A mark of all source partitions, without those that have none."""
    marks = tuple(
        SourceMark(topic="otlp", partition=number, time_ms=START_MS + round(1000 * time_s), caught_up=True)
        for number, time_s in enumerate(times_s)
        if time_s is not None
    )
    value = ClockMark(sources={"otlp": len(times_s)}, marks=marks).model_dump_json().encode()
    return Record(TOPIC, partition, offset, None, value, START_MS)


def _items(value: bytes) -> list[dict[str, Any]]:
    try:
        items: list[dict[str, Any]] = json.loads(value)
    except ValueError:
        raise Rejected("invalid", "no export request") from None
    return items


def heads(value: bytes) -> Iterable[SpanHead]:
    for item in _items(value):
        if "id" in item:
            parent = None if item["parent"] is None else span_id(item["parent"])
            yield SpanHead(span_id(item["id"]), parent, item["remote"], 0, item["ended"])


def read(value: bytes) -> tuple[list[TraceSpan], list[TraceLog]]:
    spans, logs = [], []
    for item in _items(value):
        if "log" in item:
            logs.append(TraceLog("", span_id(item["log"]), 0, "event", None, {}, {}, ""))
            continue
        parent = None if item["parent"] is None else span_id(item["parent"])
        attributes = {"kind": item["kind"], "text": item["text"]}
        numbers = item["remote"], item["kind"], 0, 0, item["ended"]
        spans.append(TraceSpan("", span_id(item["id"]), parent, *numbers, attributes, {}, "", ""))
    return spans, logs


def assemble(spans: Sequence[TraceSpan], logs: Sequence[TraceLog], /, *, max_interactions: int) -> Assembled:
    """An interaction for each topmost `ask`, whose response names all spans and logs below it, so that none is torn."""
    by_id = {each.span_id: each for each in sorted(spans, key=lambda each: (each.ended_ns, repr(each)))}

    def above(each: TraceSpan) -> list[TraceSpan]:
        path = [each]
        while path[-1].parent_id in by_id and by_id[path[-1].parent_id] not in path:
            path.append(by_id[path[-1].parent_id])
        return path

    asks: dict[str, list[str]] = {}
    for each in by_id.values():
        roots = [at.span_id for at in above(each) if at.attributes["kind"] == "ask"]
        if roots:
            own_logs = sum(log.span_id == each.span_id for log in logs)
            asks.setdefault(roots[-1], []).append(f"{each.span_id}:{each.attributes['text']}:{own_logs > 0}")
    made = tuple(
        Made(
            Interaction(
                event_id=f"trace:{root}",
                query=by_id[root].attributes["text"],
                response=" ".join(sorted(parts)),
                assembly=Assembly(spans=len(parts)),
            ),
            root,
        )
        for root, parts in sorted(asks.items())
    )
    if made:
        return Assembled(made[:max_interactions])
    is_genai = any(each.attributes["kind"] != "http" for each in by_id.values())
    return Assembled((), ("no_root",) if is_genai else ("no_genai",))


READER = TraceReader(heads, read, assemble)
joined = partial(reference.joined, reading=reference.Reading(heads, read, assemble, encoded))
