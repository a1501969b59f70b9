"""Routing rows on a real broker: evaluate selects by the rows of control, in a replay of shuffled events as well."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
from commands import evaluating
from confluent_kafka import Producer
from conftest import SharedBroker, create_topic, produce, read_to_end
from faults import eventually

from ragweir.schemas.codec.json import encode
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.streams.evaluate.rows import revision_of

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


def append(bootstrap: str, topic: str, rows: Sequence[RoutingRow]) -> None:
    """Append rows an hour before they are effective, with records that are none between them."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for row in rows:
        written_ms = int((row.effective_at - timedelta(hours=1)).timestamp() * 1_000)
        key = encode_row_key(row.application, row.effective_at)
        producer.produce(topic, encode(row), key, timestamp=written_ms)
        producer.produce(topic, b"garbage", key, timestamp=written_ms)
    producer.flush()


def row(application: str, hours: int, floor: float) -> RoutingRow:
    """A row by which a share of the events is drawn at random, and none because of its risk."""
    return RoutingRow(
        application=application,
        effective_at=BEGIN + timedelta(hours=hours),
        share=floor,
        floor_share=1,
        bin=99,
        at_bin=0,
        floor=floor,
    )


def decided(kafka: SharedBroker, prefix: str, number: int) -> dict[str, tuple[str, str, float]]:
    """The row, the status and the probability of each event, once there are so many."""
    topic = f"{prefix}evaluations"
    eventually(lambda: len(read_to_end(kafka.bootstrap, topic)) >= number, "the events are evaluated")
    found = {}
    for message in read_to_end(kafka.bootstrap, topic):
        evaluation = orjson.loads(message.value())
        rubric = next(each for each in evaluation["decision"]["suites"] if each["suite"] == "rubric")
        assert evaluation["flags"] == []
        found[evaluation["event_id"]] = rubric["row"], rubric["status"], rubric["probability"]
    return found


def test_events_are_selected_by_the_rows_of_their_times(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    for name in ("interactions", "redrive", "evaluations", "dead-letter", "judge.requests"):
        create_topic(kafka.bootstrap, prefix + name, 2)
    control = create_topic(kafka.bootstrap, f"{prefix}control", 2, {"cleanup.policy": "compact"})
    append(kafka.bootstrap, control, [row("docs", 10, 0.5), row("docs", 2, 1.0), row("chat", 2, 0.0)])
    events = [
        orjson.dumps(
            {
                "event_id": f"{application}-{hour}-{number}",
                "application": application,
                "query": "Who?",
                "response": "Ada.",
                "ended_at": BEGIN + timedelta(hours=hour),
            }
        )
        for application in ("docs", "chat", "new")
        for hour in (0, 2, 5, 10, 11)
        for number in range(20)
    ]
    judge = {"RAGWEIR_JUDGE__BASE_URL": "http://127.0.0.1:9/v1", "RAGWEIR_JUDGE__DAILY_BUDGET_USD": "none"}
    random.Random(1).shuffle(events)
    for partition in (0, 1):
        produce(kafka.bootstrap, f"{prefix}interactions", events[partition::2], partition=partition)
    with evaluating(kafka.bootstrap, prefix, tmp_path, workers=2, **judge):
        live = decided(kafka, prefix, len(events))
    assert len(live) == len(events)
    for name, (revision, status, probability) in live.items():
        application, hour, _ = name.split("-")
        if application == "new" or int(hour) < 2:
            assert revision == "shipped"
        elif application == "chat":
            assert (revision, status, probability) == (revision_of(BEGIN + timedelta(hours=2)), "not_selected", 0.0)
        elif int(hour) < 10:
            assert (revision, status, probability) == (revision_of(BEGIN + timedelta(hours=2)), "selected", 1.0)
        else:
            assert (revision, probability) == (revision_of(BEGIN + timedelta(hours=10)), 0.5)
    drawn = [status for name, (_, status, probability) in live.items() if probability == 0.5]
    assert {"selected", "not_selected"} == set(drawn)
    # The same events in another order, with one worker, under another prefix with the same rows.
    again = f"again.{prefix}"
    for name in ("interactions", "redrive", "evaluations", "dead-letter", "judge.requests"):
        create_topic(kafka.bootstrap, again + name, 1)
    other = create_topic(kafka.bootstrap, f"{again}control", 1, {"cleanup.policy": "compact"})
    append(kafka.bootstrap, other, [row("chat", 2, 0.0), row("docs", 2, 1.0), row("docs", 10, 0.5)])
    random.Random(2).shuffle(events)
    produce(kafka.bootstrap, f"{again}interactions", events)
    with evaluating(kafka.bootstrap, again, tmp_path, **judge):
        assert decided(kafka, again, len(events)) == live
