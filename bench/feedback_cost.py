"""Cost of feedback without Kafka: of one evaluation in the store of answers, and of one feedback in each service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import orjson
from rich.table import Table

from bench.people_cost import evaluations
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.records import Emission, Record
from ragweir.streams.services.match.agent import MatchAgent, MatchConfig, TargetSource
from ragweir.streams.services.match.target_reader import TargetProjection
from ragweir.streams.services.match.target_store import EvaluatedAnswer, TargetStore
from ragweir.streams.services.tally.agent import TallyAgent
from ragweir.streams.settings import Settings

_PER_COMMIT = 5_000
"""Evaluations of one commit of the store, which is once a second."""
_MEASURED = 20_000
_FEEDBACK = 5_000
_BATCH = 500
_ROUNDS = 7
"""Rounds of the services, of which the fastest counts."""
_HORIZON_S = 90 * 86_400
_BEGAN_MS = 1_800_000_000_000
_ID = "0" * 32


def _records(first: int, count: int) -> Iterator[Record]:
    """Yield records of `evaluations`, of 3 KB, one a second."""
    samples = [line.replace(line[12:46], b'"%s"' % _ID.encode()) for line in islice(evaluations(50), 50)]
    samples = [line[:-1] + b',"trace_id":"t%s","span_id":"b7ad6b7169203331"}' % _ID.encode() for line in samples]
    for number in range(first, first + count):
        value = samples[number % len(samples)].replace(_ID.encode(), b"%032x" % (number * 2_654_435_761))
        yield Record("rag.evaluations", 0, number, None, value, _BEGAN_MS + number * 1_000)


def _cpu(work: Callable[[], object], events: int) -> float:
    """Return CPU time in microseconds per event."""
    began = process_time()
    work()
    return (process_time() - began) / events * 1e6


def _read(projection: TargetProjection, records: list[Record]) -> None:
    for first in range(0, len(records), _PER_COMMIT):
        for record in records[first : first + _PER_COMMIT]:
            projection.take(record)
        projection.flush(records[first].offset * 10.0, caught_up=True)


def _fill(store: TargetStore, first: int, end: int) -> None:
    """Add answers as they come of the records, without reading these."""
    for number in range(first, end):
        identity, at_ms = f"{number * 2_654_435_761:032x}", _BEGAN_MS + number * 1_000
        store.add(
            EvaluatedAnswer(identity, at_ms * 1_000, ("bot", "m", "v1")), f"t{identity}", "b7ad6b7169203331", at_ms
        )
    store.commit({}, caught_up=True)


def _feedback(first: int, target: Callable[[int], dict[str, str]], answers: int) -> list[Record]:
    """Return feedback on answers all over the store."""
    at = datetime(2027, 1, 20, tzinfo=UTC)
    return [
        Record(
            "rag.feedback",
            0,
            number,
            None,
            orjson.dumps(
                {
                    **target((number * 7_919) % answers),
                    "name": "thumbs",
                    "value": ("up", "down")[number % 2],
                    "giver": f"user {number % 997}",
                    "time": at + timedelta(seconds=number),
                    "comment": "no page 3",
                }
            ),
            _BEGAN_MS + number,
        )
        for number in range(first, first + _FEEDBACK)
    ]


def _handle(agent: Agent, records: list[Record]) -> list[Emission]:
    written: list[Emission] = []
    for first in range(0, len(records), _BATCH):
        outcome = agent.handle(records[first : first + _BATCH])
        outcome.extend(agent.tick(_BEGAN_MS / 1000, (), _BATCH))
        agent.on_commit()
        written += outcome.emissions
    return written


def _event(number: int) -> dict[str, str]:
    return {"event_id": f"{number * 2_654_435_761:032x}"}


def _trace(number: int) -> dict[str, str]:
    return {"trace_id": f"t{number * 2_654_435_761:032x}"}


def _unknown(number: int) -> dict[str, str]:
    return {"event_id": f"unknown {number}"}


def _costs(projection: TargetProjection, store: TargetStore, answers: int) -> list[float]:
    """Return the costs in microseconds with so many answers in the store."""
    records = list(_records(answers, _MEASURED))
    parts = [records[first : first + _PER_COMMIT] for first in range(0, _MEASURED, _PER_COMMIT)]
    reading = min(_cpu(partial(_read, projection, part), len(part)) for part in parts)
    config = MatchConfig("secret", 7 * 86_400, tuple(Settings().windows.dimensions), 1024 * 1024)
    matching: list[float] = []
    keyed: list[Emission] = []
    for place, target in enumerate((_event, _trace, _unknown)):
        given = _feedback(place * _FEEDBACK, target, answers)
        rounds = [_matched(MatchAgent(config, store, TargetSource()), given) for _ in range(_ROUNDS)]
        matching.append(min(cost for cost, _ in rounds))
        keyed += [each for each in rounds[0][1] if each.topic == "feedback.keyed"]
    found = [
        Record("rag.feedback.keyed", 0, offset, each.key, each.value, _BEGAN_MS) for offset, each in enumerate(keyed)
    ]
    return [reading, *matching, min(_tallied(found) for _ in range(_ROUNDS))]


def _matched(match: MatchAgent, given: list[Record]) -> tuple[float, list[Emission]]:
    match.on_assigned(Assignment(("rag.feedback", 0), None, 0))
    written: list[Emission] = []
    cost = _cpu(lambda: written.extend(_handle(match, given)), len(given))
    match.on_revoked([("rag.feedback", 0)])
    return cost, written


def _tallied(found: list[Record]) -> float:
    tally = TallyAgent(7 * 86_400)
    tally.on_assigned(Assignment(("rag.feedback.keyed", 0), None, 0))
    return _cpu(partial(_handle, tally, found), len(found))


def table(millions: int = 3) -> Table:
    """Return one row per size of the store.

    Args:
        millions: the largest size, in millions of answers.
    """
    columns = ("answers", "evaluation", "match by event", "by trace", "unknown", "tally", "bytes on disk per answer")
    result = Table(*columns, title="Feedback without Kafka: CPU µs per record")
    with TemporaryDirectory() as folder:
        settings, path = Settings(), Path(folder) / "answers.sqlite"
        store = TargetStore(_HORIZON_S, tuple(settings.windows.dimensions))
        projection = TargetProjection(settings, store, path)
        projection.open()
        projection.resume("rag.evaluations", "a")
        held = 0
        for answers in (10_000, *(each * 1_000_000 for each in range(1, millions + 1))):
            _fill(store, held, answers)
            costs = _costs(projection, store, answers)
            held = answers + _MEASURED
            size = sum(each.stat().st_size for each in Path(folder).iterdir())
            result.add_row(f"{answers:,}", *(f"{cost:.1f}" for cost in costs), f"{size / held:.0f}")
        projection.close()
    return result
