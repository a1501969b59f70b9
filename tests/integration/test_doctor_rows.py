"""`ragweir doctor` on the topic `control`, and on a broker whose coordinators are not there yet."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from conftest import SharedBroker, create_topic, produce

from ragweir.schemas.codec.json import encode
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.streams.analysis.checks import context as checks
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.analysis.checks.rows import rows, summary
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import Settings

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)


def record(application: str, hours: int, lead_min: int = 60) -> Record:
    """A row that holds some hours from now, and was written some minutes before that."""
    at = NOW + timedelta(hours=hours)
    row = RoutingRow(application=application, effective_at=at, share=0.1, floor_share=1, bin=99, at_bin=0, floor=0.1)
    stamp_ms = round((at - timedelta(minutes=lead_min)).timestamp() * 1_000)
    return Record("control", 0, 7, encode_row_key(application, at), encode(row), stamp_ms)


def test_rows_are_counted_by_application() -> None:
    found = summary([record("a", -30), record("a", 1), record("b", -90)], NOW, "control")
    assert found == "3 rows of 2 applications; the newest holds from 2026-11-24T13:00:00Z"
    assert "the shipped row holds" in summary([], NOW, "control")


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([record("a", 1), record("a", 2, lead_min=40)], "1 of 2 records have no effect; control/0/7 is late"),
        ([record("a", 1)._replace(key=b"x")], "1 of 1 records have no effect; control/0/7 is unreadable"),
        ([record("a", -47), record("b", -50)], "none was written since 2026-11-22T12:00Z"),
    ],
)
def test_rows_without_effect_and_planners_that_do_not_run_are_named(records: list[Record], words: str) -> None:
    with pytest.raises(CheckWarning) as warned:
        summary(records, NOW + timedelta(minutes=1), "control")
    assert words in str(warned.value)


def test_a_topic_that_loses_rows_is_wrong(kafka: SharedBroker, prefix: str) -> None:
    own = Settings(
        kafka={"bootstrap_servers": kafka.bootstrap},
        topics={"prefix": prefix},
        judge={"base_url": "http://127.0.0.1:9/v1", "daily_budget_usd": "none"},
    )
    for name, config in (("lossy", "compact,delete"), ("kept", "compact"), ("forever", "delete")):
        more = {"retention.ms": "-1"} if name == "forever" else {}
        topic = f"{prefix}{name}.control"
        create_topic(kafka.bootstrap, topic, 1, {"cleanup.policy": config, **more})
        produce(kafka.bootstrap, topic, [b"no row"], key=b"x")
        named = own.model_copy(update={"topics": own.topics.model_copy(update={"prefix": f"{prefix}{name}."})})
        kind, words = (CheckFailed, "cleanup.policy=compact") if name == "lossy" else (CheckWarning, "is unreadable")
        with pytest.raises(kind, match=words):
            rows(CheckContext(named, {topic: 1}))
    with pytest.raises(CheckFailed, match="there is no topic"):
        rows(CheckContext(own, {}))
    assert rows(CheckContext(Settings())).startswith("not needed")


def test_a_coordinator_is_waited_for() -> None:
    class Fresh:
        asked = 0

        def committed(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
            assert timeout
            self.asked += 1
            if self.asked < 3:
                raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
            return list(partitions)

    fresh, wanted = Fresh(), [TopicPartition("t", 0)]
    assert checks._committed(cast(Consumer, fresh), wanted) == wanted
    assert fresh.asked == 3
