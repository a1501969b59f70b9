"""The planner on a real Kafka: rows once each, whatever happens between reading and writing."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ragweir, told
from confluent_kafka import Producer
from conftest import SharedBroker, read_to_end
from services import Services, eventually, quick

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.summary import Scheme, Summary, to_record
from ragweir.schemas.codec.json import encode
from ragweir.schemas.judging import LedgerEntry, ledger_key
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.schemas.topics import TOPICS
from ragweir.schemas.window_key import WindowKey, encode_window_key
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.kafka.transactional_sender import TransactionalSender
from ragweir.streams.services.planner import service
from ragweir.streams.services.planner.control import NAME, effective_rows
from ragweir.streams.services.planner.service import Round, now, plan_once
from ragweir.streams.settings import Settings, load

RISKS = Scheme(0.0, 1.0, 1_000_000, 1_000_000)
DAY = timedelta(days=1)


def watch(_doing: str, _total: int) -> Callable[[int], None]:
    return lambda _: None


def history(settings: Settings) -> None:
    """Windows of two applications on a day that is closed even if the clock is two hours behind; and a ledger."""
    day = (datetime.now(UTC) - timedelta(hours=2)).replace(hour=0, minute=0, second=0, microsecond=0)
    start = day - timedelta(hours=5)
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    for application, risks in (("shop", [0.1] * 3), ("shop", [0.1] * 500 + [0.8] * 100), ("tiny", [0.5] * 20)):
        dimensions = {"application": application, "model": "m", "pipeline_version": ""}
        window = {
            "window": "1m",
            "start": start,
            "end": start + timedelta(minutes=1),
            "dimensions": dimensions,
            "partition": 0,
            "part": 0,
            "events": len(risks),
            "metrics": {"unsupported_risk": to_record(Summary.of(risks, RISKS))},
        }
        key = encode_window_key(WindowKey(start, dimensions, 0, 0))
        value = orjson.dumps(window, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS)
        producer.produce(f"{settings.topics.prefix}windows", value, key)
    entry = LedgerEntry(day=start.date().isoformat(), application="", tenant="", partition=0, spent=5_000, events=10)
    producer.produce(f"{settings.topics.prefix}judge.ledger", encode(entry), ledger_key(entry))
    assert not producer.flush(30)


@pytest.fixture
def settings(kafka: SharedBroker, prefix: str) -> Settings:
    """Settings with the topics that the planner reads, and history in them."""
    overrides = {"kafka": {"bootstrap_servers": kafka.bootstrap}, "topics": {"prefix": prefix}}
    effective = load(None, overrides)
    create_topics(effective, [TOPICS[name] for name in service.TOPICS])
    history(effective)
    return effective


def rows(settings: Settings) -> list[dict[str, Any]]:
    messages = read_to_end(settings.kafka.bootstrap_servers, f"{settings.topics.prefix}control")
    for message in messages:
        row = RoutingRow.model_validate_json(message.value() or b"")
        assert message.key() == encode_row_key(row.application, row.effective_at)
    return [orjson.loads(message.value() or b"") for message in messages]


def applied(settings: Settings) -> Round:
    return plan_once(settings, DAY, now, watch, applied=True)


@pytest.mark.heavy
def test_applying_twice_appends_one_row(settings: Settings, tmp_path: Path) -> None:
    flags = ["--bootstrap-servers", settings.kafka.bootstrap_servers, "--prefix", settings.topics.prefix]
    report = tmp_path / "report.json"
    shown = ragweir(*flags, "routing", "plan", "--json", report)
    assert shown.returncode == 0, shown.stderr
    assert rows(settings) == [], "only --apply writes"
    found = orjson.loads(report.read_bytes())
    assert found["cost_usd"] == 0.0005
    assert [(each["application"], each["events"], each["state"]) for each in found["applications"]] == [
        ("shop", 600, "new"),
        ("tiny", 20, "few_events"),
    ]
    finds = [each["finds"] for each in found["applications"][0]["outlook"]]
    assert finds == sorted(finds)
    exported = tmp_path / "rows.jsonl"
    first = ragweir(*flags, "routing", "plan", "--apply", "--export", exported)
    assert (first.returncode, b"Appended: shop" in first.stdout) == (0, True), first.stderr
    again = ragweir(*flags, "routing", "plan", "--apply")
    assert (again.returncode, b"Appended" in again.stdout) == (0, False), again.stderr
    (row,) = rows(settings)
    assert exported.read_bytes() == orjson.dumps(row) + b"\n"
    assert (row["application"], row["events"]) == ("shop", 600)
    assert datetime.fromisoformat(row["effective_at"]) - datetime.now(UTC) > timedelta(hours=1)


def test_of_two_planners_the_first_is_fenced_and_no_row_is_doubled(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second plans as a whole while the first, which has read no row, is about to write the same one."""
    real, inside = service.apply, []

    def overtaken(*arguments: Any) -> Any:
        # The clock is read once between the reading of control and the transaction.
        *given, _ = arguments

        def late() -> datetime:
            if not inside:
                inside.append(1)
                monkeypatch.setattr(service, "apply", real)
                assert [each.state for each in applied(settings).planned] == ["new", "few_events"]
            return now()

        return real(*given, late)

    monkeypatch.setattr(service, "apply", overtaken)
    with pytest.raises(PermanentError, match="routing rows"):
        applied(settings)
    assert inside
    assert [row["application"] for row in rows(settings)] == ["shop"]
    assert [each.state for each in applied(settings).planned] == ["unchanged", "few_events"]


def test_a_planner_that_is_killed_before_its_commit_leaves_no_row(settings: Settings) -> None:
    killed = TransactionalSender(settings, NAME, "rows")
    killed._producer.begin_transaction()
    killed.produce(f"{settings.topics.prefix}control", b"{}", b"[]")
    killed._producer.flush(30)
    assert [each.state for each in applied(settings).planned] == ["new", "few_events"]
    (row,) = rows(settings)
    assert row["application"] == "shop"


def test_rows_that_are_late_by_the_brokers_time_are_not_committed(settings: Settings) -> None:
    """A planner whose clock is two hours behind writes nothing and says why; rows that were written so do not count."""
    with pytest.raises(PermanentError, match=r"at the brokers and .* UTC here; set the clock that is wrong"):
        plan_once(settings, DAY, lambda: now() - timedelta(hours=2), watch, applied=True)
    assert rows(settings) == []

    (planned, _) = plan_once(settings, DAY, now, watch, applied=False).planned
    assert planned.row is not None
    late = planned.row.model_copy(update={"effective_at": planned.row.effective_at - timedelta(hours=2)})
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    producer.produce(f"{settings.topics.prefix}control", encode(late), encode_row_key("shop", late.effective_at))
    assert not producer.flush(30)
    assert effective_rows(settings) == []
    assert [each.state for each in applied(settings).planned] == ["new", "few_events"]
    assert len(effective_rows(settings)) == 1


@pytest.mark.heavy
def test_up_plans_at_its_start_if_there_is_a_judge(settings: Settings, services: Services) -> None:
    create_topics(settings)
    judge = {"judge__base_url": "http://127.0.0.1:9/v1", "judge__daily_budget_usd": "none"}
    variables = quick(settings.kafka.bootstrap_servers, settings.topics.prefix, **judge)
    up = services.start("up", "--plan-every", "1d", variables=variables)
    line = eventually(lambda: up.logged("rows planned", service="planner"), "the planner has planned")[0]
    assert (line["new"], line["few_events"]) == (1, 1)
    assert up.stop() == 0
    assert [row["application"] for row in rows(settings)] == ["shop"]


@pytest.mark.heavy
def test_windows_without_applications_are_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    flags = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    done = ragweir(*flags, "routing", "plan", RAGWEIR_WINDOWS__DIMENSIONS='["model"]')
    assert "windows.dimensions" in told(done)
    missing = ragweir(*flags, "routing", "plan")
    assert "ragweir topics create" in told(missing)


@pytest.mark.parametrize(("behind_s", "effective"), [(0, 1), (300, 1), (7_200, 0)])
def test_rows_are_judged_by_the_brokers_stamp(settings: Settings, behind_s: int, effective: int) -> None:
    """A planner whose clock is two hours behind writes a row of the past; one that is 300 s behind is early enough."""
    own = now() - timedelta(seconds=behind_s)
    row = RoutingRow(
        application="shop", effective_at=own + timedelta(hours=1), share=1, floor_share=1, bin=99, at_bin=0, floor=1
    )
    producer = Producer({"bootstrap.servers": settings.kafka.bootstrap_servers})
    key, stamp_ms = encode_row_key("shop", row.effective_at), round(own.timestamp() * 1_000)
    producer.produce(f"{settings.topics.prefix}control", encode(row), key, timestamp=stamp_ms)
    assert not producer.flush(30)
    assert len(effective_rows(settings)) == effective
