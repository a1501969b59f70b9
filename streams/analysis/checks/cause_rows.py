"""The check of the topic `documents`: that its rows are new, and have the verdicts that the settings ask for."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec
from confluent_kafka import KafkaException

from ragweir.metrics.criterion import Criterion
from ragweir.streams.analysis.blame.rows_line import read_rows
from ragweir.streams.analysis.checks.context import CheckContext, CheckWarning
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.services.shared.row_writer import DOCUMENTS, row_criteria

_NEWEST = 40
"""Offsets of each partition that are read: some tens of records with up to a batch of rows each."""
_OLD = timedelta(days=1)


def causes(context: CheckContext) -> str:
    """Check the newest rows of answers, from which `ragweir blame` finds causes."""
    settings = context.settings
    if not settings.blame.enabled:
        return "not needed: blame.enabled is false"
    topic = settings.output_topic(DOCUMENTS)
    context.partitions(topic)
    wanted = row_criteria(settings, known_catalogue(settings).metrics)
    if not wanted:
        raise CheckWarning("rows have no verdicts: there is neither an [[slo]] nor a question of people's labels")
    try:
        records = list(read(settings, offset_range(settings, topic).newest(_NEWEST)))
    except KafkaException as error:
        raise CheckWarning(f"not checked: Kafka lets this user not read {topic}: {error.args[0].str()}") from None
    return summary(records, wanted, topic, machine.now())


def summary(records: Iterable[Record], wanted: Iterable[Criterion], topic: str, now: datetime) -> str:
    """Return the metrics on which rows have verdicts, and the time of the newest record.

    Args:
        records: the newest records of the topic.
        wanted: the criteria of the settings.
        topic: the name of the topic.
        now: the time.

    Raises:
        CheckWarning: if there are no rows, only old or unreadable ones, or they lack a verdict.
    """
    newest: dict[str, tuple[int, frozenset[tuple[str, float]]]] = {}
    unreadable = 0
    for record in records:
        try:
            found = read_rows(record.value or b"")
        except msgspec.MsgspecError:
            unreadable += 1
            continue
        criteria = frozenset((each.metric, each.threshold) for each in found.criteria)
        newest[found.stage] = max(newest.get(found.stage, (0, criteria)), (record.timestamp_ms or 0, criteria))
    if unreadable:
        raise CheckWarning(f"{unreadable:,} of the newest records of {topic} hold no rows")
    if not newest:
        raise CheckWarning(f"{topic} holds no rows: evaluate and judge write them if they start with blame.enabled")
    last = datetime.fromtimestamp(max(time_ms for time_ms, _ in newest.values()) / 1000, UTC)
    if now - last > _OLD:
        raise CheckWarning(f"the newest rows of {topic} are of {last:%Y-%m-%d %H:%M} UTC; is evaluate running?")
    stages = {each: "scored" if each.suite is None else "judged" for each in wanted}
    lacking = [
        f"{each.metric} at {each.threshold:g}"
        for each, stage in stages.items()
        if stage in newest and (each.metric, each.threshold) not in newest[stage][1]
    ]
    if lacking:
        raise CheckWarning(
            f"the newest rows of {topic} have no verdicts on {', '.join(lacking)}: start evaluate and judge again, "
            "so that they count by these settings"
        )
    said = ", ".join(sorted({metric for _, criteria in newest.values() for metric, _ in criteria}))
    return f"rows have verdicts on {said}; the newest are of {last:%Y-%m-%d %H:%M} UTC"
