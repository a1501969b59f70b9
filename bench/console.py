"""Cost of the console's store: CPU per evaluation, bytes on disk, memory, and the time of each kind of query."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import orjson
from rich.table import Table

from bench.interactions import interactions
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode
from ragweir.streams.console.store.answer_query import AnswerQuery, MetricRange
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.stored_answers import AnswerPage
from ragweir.streams.console.store.topic_projection import FILE, ConsoleProjection
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.settings import Settings, Slo

_APPLICATIONS = 200
_TEMPLATES = 2_000
_BATCH = 1_000
"""Records of a batch, as the runtime reads them."""
_JUDGED_EVERY = 20
_JUDGED_WITHIN = 3_000
"""Records after which a judged evaluation follows at most."""
_RUNS = 20
_BEGIN = datetime(2027, 1, 15, tzinfo=UTC)
_SPACING = timedelta(milliseconds=86)
_SLO = Slo(name="matching", metric="token_f1", at_least=0.3, objective=0.95)


def evaluations(events: int, seed: int = 34) -> Iterator[bytes]:
    """Yield evaluations: numbers as those of real ones, 200 applications whose sizes follow Zipf, 5 % judged later."""
    catalogue, chance = Catalogue(everything()), Random(seed)
    weights = list(accumulate(1 / (rank + 1) for rank in range(_APPLICATIONS)))
    names = [f"app-{rank}" for rank in range(_APPLICATIONS)]
    samples = [_sample(catalogue, value) for value in interactions(_TEMPLATES)]
    recent: list[dict[str, Any]] = []
    for number in range(events):
        if number % _JUDGED_EVERY == _JUDGED_EVERY - 1:
            yield orjson.dumps(_judged(chance.choice(recent), chance), option=orjson.OPT_UTC_Z)
            continue
        scores, categories, reasons = samples[number % len(samples)]
        line = {
            "event_id": blake2b(f"{number}".encode(), digest_size=16).hexdigest(),
            "event_time": _BEGIN + number * _SPACING,
            "application": chance.choices(names, cum_weights=weights)[0],
            "tenant": "acme",
            "environment": "prod",
            "pipeline_version": f"v{40 + number // 250_000}",
            "model": "m",
            "labels": {"region": chance.choice(("eu", "us"))},
            "session_id": f"s-{number // 4}",
            "trace_id": blake2b(f"t{number}".encode(), digest_size=16).hexdigest(),
            "stage": "scored",
            "scores": {name: _varied(value, chance) for name, value in scores.items()},
            "categories": categories,
            "reasons": reasons,
            "decision": {"suites": [{"suite": "rubric", "status": "selected", "probability": 0.05, "because": []}]},
            "document_ids": [f"doc-{int(chance.random() ** 3 * 100_000)}" for _ in range(6)],
            "catalogue_version": "3",
            "source": {"topic": "rag.interactions", "partition": number % 12, "offset": number // 12},
        }
        recent.append(line)
        if len(recent) > _JUDGED_WITHIN:
            recent.pop(0)
        yield orjson.dumps(line, option=orjson.OPT_UTC_Z)


def _sample(catalogue: Catalogue, value: bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    scored = catalogue.score(View(decode(value)))
    return dict(scored.scores), dict(scored.categories), dict(scored.reasons)


def _varied(value: float | None, chance: Random) -> float | None:
    """Return a value near another one, unless it is whole: two events share hardly a fraction."""
    if value is None or value == int(value):
        return value
    return round(value * (0.7 + 0.6 * chance.random()), 6)


def _judged(line: dict[str, Any], chance: Random) -> dict[str, Any]:
    suite = {"suite": "rubric", "status": "judged", "probability": 0.05, "because": []}
    return line | {
        "stage": "judged",
        "scores": line["scores"] | {"judge_faithfulness": round(chance.random(), 2)},
        "explanations": {"judge_faithfulness": "Two of the claims are not in the passages."},
        "decision": {"suites": [suite]},
    }


def tables(events: int = 1_000_000, folder: str = "") -> list[Table]:
    """Return the cost of taking evaluations in, and of queries on them."""
    with TemporaryDirectory(dir=folder or None) as place:
        ingest = _ingest(Path(place), events)
        queries = _queries(Path(place, FILE), events)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    ingest.add_row("peak of resident memory, MB, with the generator and the queries", f"{memory:.0f}", "300")
    return [ingest, queries]


def _ingest(folder: Path, events: int) -> Table:
    projection = ConsoleProjection(Settings(console={"folder": folder, "max_bytes": 2**40, "retention_h": 10**6}))
    projection.open()
    projection.resume("rag.evaluations", "id")
    cpu: list[float] = []
    batch: list[Record] = []
    before = os.getloadavg()[0]
    for number, value in enumerate(evaluations(events), 1):
        batch.append(Record("rag.evaluations", number % 12, number // 12, None, value, 1_800_000_000_000 + number))
        if len(batch) == _BATCH or number == events:
            began = process_time()
            for record in batch:
                projection.take(record)
            projection.flush(1_900_000_000, caught_up=True)
            projection.drain_metrics()
            cpu.append((process_time() - began) / len(batch) * 1e6)
            batch.clear()
    size = projection._own.size()
    projection.close()
    shown = Table("figure", "measured", "at most", title=f"The console's store of {events:,} evaluations")
    shown.add_row("CPU per evaluation, us, mean", f"{sum(cpu) / len(cpu):.1f}", "60")
    shown.add_row(f"CPU per evaluation, us, median of batches of {_BATCH:,}", f"{median(cpu):.1f}", "60")
    shown.add_row("bytes on disk per evaluation", f"{size / events:.0f}", "1,200")
    shown.add_row("load of the machine before and after", f"{before:.1f}, {os.getloadavg()[0]:.1f}", "")
    return shown


def _queries(file: Path, events: int) -> Table:
    store = AnswerStore(file, [Objective.of(_SLO, Aggregator(Catalogue(everything())))], read_s=60)
    store.search(AnswerQuery())
    end = _BEGIN + events * _SPACING
    span = (end - _BEGIN) / 24
    large, small = (("application", "app-0"),), (("application", "app-100"),)
    two = (MetricRange("context_tokens", 300, 420), MetricRange("unsupported_risk", 0.002, None))
    four = (*two, MetricRange("rouge_l", 0, 0.4), MetricRange("token_f1", 0.1, 0.6))
    hour = AnswerQuery(since=_BEGIN + 12 * span, until=_BEGIN + 13 * span, ranges=two, sort="bm25_mean")
    newest = store.search(AnswerQuery(sort="bm25_mean")).answers
    event_id = newest[0].event_id
    deep = store.search(AnswerQuery(sort="bm25_mean", limit=1_000)).next
    kinds: Mapping[str, Callable[[], object]] = {
        "newest": lambda: store.search(AnswerQuery()),
        "sorted by a metric": lambda: store.search(AnswerQuery(sort="bm25_mean")),
        "the same, page 21": lambda: store.search(AnswerQuery(sort="bm25_mean", after=deep)),
        "largest application, sorted": lambda: store.search(AnswerQuery(where=large, sort="bm25_mean")),
        "small application, sorted": lambda: store.search(AnswerQuery(where=small, sort="bm25_mean")),
        "two ranges, sorted by a third metric": lambda: store.search(AnswerQuery(ranges=two, sort="bm25_mean")),
        "application, four ranges, sorted": lambda: store.search(
            AnswerQuery(where=large, ranges=four, sort="bm25_mean")
        ),
        "an hour of a day, two ranges, sorted": lambda: store.search(hour),
        "bad by an SLO, sorted": lambda: store.search(AnswerQuery(slo="matching", sort="token_f1")),
        "judged": lambda: store.search(AnswerQuery(judged=True)),
        "label": lambda: store.search(AnswerQuery(where=(("labels.region", "eu"),))),
        "part of an id": lambda: store.search(AnswerQuery(id_part="abc1")),
        "document": lambda: store.search(AnswerQuery(document="doc-5")),
        "session": lambda: store.search(AnswerQuery(session="s-4000")),
        "one answer by its id": lambda: store.found(event_id),
        "answers before and after it": lambda: store.neighbours(AnswerQuery(sort="bm25_mean"), event_id),
        "applications of the last day": lambda: store.applications(end - timedelta(days=1), end),
    }
    shown = Table("query", "answers", "p50, ms", "p95, ms", title=f"CPU of queries on {events:,} evaluations")
    for name, run in kinds.items():
        times, number = [], ""
        for _ in range(_RUNS):
            began = process_time()
            found = run()
            times.append((process_time() - began) * 1e3)
            number = f"{found.total:,}" if isinstance(found, AnswerPage) else ""
        p95 = quantiles(times, n=20)[18]
        shown.add_row(name, number, f"{median(times):.0f}", f"{p95:.0f}")
    store.close()
    return shown
