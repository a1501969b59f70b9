"""Comparison of the routing rows of a run with those by which its events were selected live.

The topic `control` may have been deleted and created again since: a run then selects events by other rows.
"""

from __future__ import annotations

from collections.abc import Callable

from ragweir.schemas.evaluation_record import read_evaluation
from ragweir.schemas.run import LiveSelection, Run
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.runtime.kafka.reader import OffsetRange, OnProgress, offset_range, read, topics
from ragweir.streams.services.shared.routing_rows import SHIPPED, RoutingRows
from ragweir.streams.settings import Settings

_CLOCKS_MS = 60 * 60 * 1_000
"""The most by which the clock of a producer of interactions is ahead of the one of evaluate."""


def live_evaluations(settings: Settings, run: Run) -> OffsetRange | None:
    """Return the offsets of the live evaluations that may be those of a run's events; None if there is no such topic.

    Args:
        settings: settings of the live system.
        run: the run, which reads a topic.
    """
    topic = f"{settings.topics.prefix}evaluations"
    if topic not in topics(settings):
        return None
    first = (
        next(read(settings, OffsetRange(each.topic, {each.partition: each.start}, {each.partition: each.end})), None)
        for each in run.extents
    )
    times = [record.timestamp_ms for record in first if record is not None and record.timestamp_ms is not None]
    return offset_range(settings, topic, since_ms=max(0, min(times) - _CLOCKS_MS) if times else None)


def compare_selection(
    settings: Settings,
    run: Run,
    rows: RoutingRows,
    live: OffsetRange,
    moved: OnProgress,
    is_stopped: Callable[[], bool],
) -> LiveSelection | None:
    """Return how many of a run's events were selected live by other rows than those of the run; None if stopped.

    Args:
        settings: settings of the live system.
        run: the run.
        rows: its rows.
        live: the offsets of live evaluations.
        moved: is called with the number of offsets since its last call.
        is_stopped: returns true to end the comparison.
    """
    spans = {(each.topic, each.partition): range(each.start, each.end) for each in run.extents}
    most = max_record_bytes(settings.limits.max_event_bytes)
    compared, otherwise, first = 0, 0, None
    for record in read(settings, live, moved):
        if is_stopped():
            return None
        if record.value is None or b'"row":' not in record.value:  # Most need not be parsed where few have rows.
            continue
        found = read_evaluation(record.value, most)
        if found is None or found.stage != "scored" or found.source is None:
            continue
        if found.source.offset not in spans.get((found.source.topic, found.source.partition), ()):
            continue
        if (decided := next((suite for suite in found.decision.suites if suite.row is not None), None)) is None:
            continue
        compared += 1
        own, _ = rows.at(found.application, found.event_time)
        revision, digest = (SHIPPED, None) if own is None else (own.revision, own.digest)
        # Evaluations of 0.1.0 have no digest.
        if decided.row != revision or decided.row_digest not in (None, digest):
            otherwise += 1
            first = first or found.event_id
    return LiveSelection(compared=compared, otherwise=otherwise, first=first)
