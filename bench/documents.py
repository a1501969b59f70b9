"""Costs of the topic `documents`: CPU of facets and rows in evaluate, and time and memory of blame over many rows."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
from rich.table import Table

from bench.interactions import interactions
from bench.timing import side_by_side
from ragweir.errors import Rejected
from ragweir.metrics import native
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.cause.coded_facets import facets
from ragweir.metrics.criterion import BAD, GOOD, Criterion
from ragweir.metrics.view import Counting, View, reference
from ragweir.schemas.codec.json import encode
from ragweir.schemas.document_rows import COLUMNS, FIELDS, DocumentRows, RowCriterion
from ragweir.streams.analysis.blame.answer_scope import BlameScope
from ragweir.streams.analysis.blame.blaming import blame_rows, new_codes
from ragweir.streams.analysis.blame.topic_rows import TopicRows, with_codes
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.shared.row_hashes import RowHashes
from ragweir.streams.services.shared.row_writer import EventRow, RowConfig, RowWriter, packed, row_criteria
from ragweir.streams.settings import Settings

_EVENTS = 500
_RISK = Criterion("unsupported_risk", 0.5, higher_is_better=False, suite=None)
_NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
_US, _HALF_DAY_S = 1_000_000, 12 * 3600
_BATCH = 500


def cost(events: int = _EVENTS) -> Table:
    """Return the CPU time of facets and rows per event, the least of many repetitions over the same events.

    Some 50 events stay in the caches between their parts, as those of a batch of evaluate mostly do, and 500 do not.
    """
    catalogue = Catalogue(everything())
    counting: Counting
    try:
        counting = native.counting()
    except native.KernelUnavailable:
        counting = reference
    agent = EvaluateAgent(EvaluateConfig(catalogue, counting=counting))
    writer = RowWriter("evaluate", "scored", RowConfig(row_criteria(Settings(), catalogue.metrics), "key"))
    made_events = []
    for number, value in enumerate(interactions(events)):
        record = Record("t", 0, number, None, value, 1_764_000_000_000)
        [read], [made] = agent.read(record), agent.evaluate(record)
        if isinstance(read, Rejected) or isinstance(made, Rejected):
            raise TypeError("the events of the benchmark can be read")
        (event, _), (evaluation, _) = read, made
        view = View(event, counting=counting)
        _ = view.counts
        made_events.append((event, view, evaluation))
    rows = [EventRow(each, *writer.hashed(each, event.contexts)) for event, _, each in made_events]
    parts: dict[str, Callable[[], object]] = {
        "facets": lambda: [facets(event, view) for event, view, _ in made_events],
        "hashes": lambda: [EventRow(each, *writer.hashed(each, event.contexts)) for event, _, each in made_events],
        "rows": lambda: writer.emissions(rows),
    }
    table = Table("part", "us of CPU per event")
    least = side_by_side(parts, events)
    for name, own in {**least, "together": sum(least.values())}.items():
        table.add_row(name, f"{own:.2f}")
    size = sum(len(each.value or b"") for each in writer.emissions(rows))
    table.add_row("bytes per row", f"{size / events:.0f}")
    return table


def records(events: int, documents: int, per_event: int = 5) -> Iterator[bytes]:
    """Yield records of rows: documents and chunks of a Zipf law, sessions of four, and one bad document."""
    chance = np.random.default_rng(1)
    names = ["bot", "v1", "v2", "model", *(f"tenant {n}" for n in range(20))]
    values = tuple((0 if n == 0 else 1 if n < 3 else 2 if n == 3 else 3, name) for n, name in enumerate(names))
    for start in range(0, events, _BATCH):
        size = min(_BATCH, events - start)
        served = (chance.zipf(1.2, (size, per_event)) % documents).astype(np.uint64)
        hashed = (served + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        bad = chance.random(size) < np.where((served == 7).any(axis=1), 0.35, 0.05)
        field = np.stack(
            [
                np.ones(size),
                2 + chance.integers(0, 2, size),
                np.full(size, 4),
                5 + chance.integers(0, 20, size),
                np.zeros(size),
            ],
            axis=1,
        )
        columns = {
            "offset": np.arange(start, start + size),
            "index": np.zeros(size),
            "time": int(_NOON.timestamp()) * _US + chance.integers(-_HALF_DAY_S, _HALF_DAY_S, size) * _US,
            "session": (np.arange(start, start + size) // 4 + 1).astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9),
            "question": np.zeros(size),
            "field": field,
            "verdict": np.where(bad, BAD, GOOD),
            "chance": [],
            "value": [],
            "value_count": np.zeros(size),
            "document": hashed.ravel(),
            "document_count": np.full(size, per_event),
            "chunk": (hashed ^ np.uint64(5)).ravel(),
            "chunk_count": np.full(size, per_event),
            "label_count": np.zeros(size),
        }
        yield encode(
            DocumentRows(
                topic="t",
                partition=0,
                stage="scored",
                catalogue_version="3",
                rows=size,
                criteria=(RowCriterion(metric=_RISK.metric, threshold=0.5, higher_is_better=False),),
                facets=FIELDS[:4],
                values=values,
                columns={name: packed(column, COLUMNS[name]) for name, column in columns.items()},
            )
        )


def day(events: int = 1_000_000, documents: int = 1_000_000) -> Table:
    """Return time and memory of blame over so many events with ten documents and chunks each, without Kafka."""
    codes, hashes = new_codes(Settings()), RowHashes("key")
    scope = BlameScope({}, _NOON - timedelta(days=1), _NOON + timedelta(days=1))
    rows = TopicRows(_RISK, codes, scope, hashes, Settings().blame.max_documents)
    reading = 0.0
    for each in records(events, documents):
        began = time.thread_time()
        rows.add(each)
        reading += time.thread_time() - began
    began = time.thread_time()
    with_codes(codes, rows, None)
    counted = time.thread_time() - began
    began = time.thread_time()
    report = blame_rows(_RISK, rows, codes)
    finding = time.thread_time() - began
    heads = "events", "servings of documents and chunks", "reading s", "counting s", "finding s", "peak MB", "causes"
    table = Table(*heads)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    found = ", ".join(str(dict(each.facets)) for each in report.causes)
    table.add_row(
        f"{events:,}", f"{events * 10:,}", f"{reading:.1f}", f"{counted:.1f}", f"{finding:.1f}", f"{peak}", found
    )
    return table
