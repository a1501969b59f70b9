"""Routing rows on a real broker: evaluate selects by the rows of control, in a replay of shuffled events as well."""

import random
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from subprocess import Popen
from typing import Any

import orjson
import pytest
from commands import COMMAND, ROOT, environment, evaluating, ragweir
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, produce, read_to_end
from services import QUICK_CLIENT, eventually

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.schemas.run import LiveSelection, Loaded, ReplayRequest, Run
from ragweir.streams.analysis.replay.request import check_resumable, create_run, replay_config
from ragweir.streams.analysis.replay.runs import StoredRun, find_run, run_settings
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.shared.routing_rows import revision_of
from ragweir.streams.settings import Settings

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


@pytest.mark.heavy
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
    told = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "explain", "docs-11-1", **judge)
    assert b"by the row of docs from 2026-11-01 10:00 UTC, shipped" in told.stdout
    assert b"so only the floor selects it: probability 0.5; floor 0.5" in told.stdout
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


@pytest.mark.heavy
def test_no_worker_decides_by_rows_of_a_topic_that_was_made_again(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """It selects by the rows of the new topic, though its offsets are those of the old one."""
    for name in ("interactions", "redrive", "evaluations", "dead-letter", "judge.requests"):
        create_topic(kafka.bootstrap, prefix + name, 1)
    control = create_topic(kafka.bootstrap, f"{prefix}control", 1, {"cleanup.policy": "compact"})
    append(kafka.bootstrap, control, [row("docs", 2, 1.0)])

    def send(name: str) -> None:
        time = BEGIN + timedelta(hours=3)
        event = {"application": "docs", "query": "Who?", "response": "Ada.", "ended_at": time}
        values = [orjson.dumps(event | {"event_id": f"{name}-{number}"}) for number in range(40)]
        produce(kafka.bootstrap, f"{prefix}interactions", values)

    judge = {"RAGWEIR_JUDGE__BASE_URL": "http://127.0.0.1:9/v1", "RAGWEIR_JUDGE__DAILY_BUDGET_USD": "none"}
    send("old")
    with evaluating(kafka.bootstrap, prefix, tmp_path, **judge):
        assert {each[1:] for each in decided(kafka, prefix, 40).values()} == {("selected", 1.0)}
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        admin.delete_topics([control])[control].result(30)
        eventually(lambda: control not in admin.list_topics(timeout=30).topics, "the topic is gone")
        create_topic(kafka.bootstrap, control, 1, {"cleanup.policy": "compact"})
        append(kafka.bootstrap, control, [row("docs", 2, 0.0), row("docs", 9, 0.5)])
        send("new")
        found = decided(kafka, prefix, 80)
    assert {value[1:] for name, value in found.items() if name.startswith("new")} == {("not_selected", 0.0)}

    # A replay has the new rows for all, and says so.
    flags = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    client = {
        "RAGWEIR_KAFKA__CLIENT": orjson.dumps(QUICK_CLIENT).decode(),
        "RAGWEIR_TOPICS__PARTITIONS": "1",
        "RAGWEIR_JUDGE__PRICES": orjson.dumps(JUDGE["prices"]).decode(),
    }
    done = ragweir(*flags, "replay", "--run-id", "again", "--judge", "budget", "--budget", "0", **judge, **client)
    assert done.returncode == 0, done.stderr
    assert b"40 of 80 events with live evaluations were selected there by routing rows that the replay" in done.stderr
    stored = find_run(Settings(kafka={"bootstrap_servers": kafka.bootstrap}, topics={"prefix": prefix}), "again")
    assert stored is not None
    assert stored.run.live_selection == LiveSelection(compared=80, otherwise=40, first="old-0")


JUDGE: dict[str, Any] = {
    "base_url": "http://127.0.0.1:9/v1",
    "prices": {"gpt-4o-mini": {"input_usd": 0.15, "output_usd": 0.6}},
}
WORDS = "the roof of tiles and bricks is red old new covers not pays for water damage".split()
Decided = dict[str, tuple[str, str, float]]


def risky_events(count: int) -> list[bytes]:
    """Events of twelve hours, up to two hours out of order, whose risks differ."""
    chance = random.Random(3)
    made = []
    for number in range(count):
        time = BEGIN + timedelta(hours=12 * number / count)
        event = {
            "event_id": f"e{number}",
            "application": chance.choice(("docs", "chat", "new")),
            "query": "What does the roof cover?",
            "response": " ".join(chance.choices(WORDS, k=8)) + ".",
            "contexts": [{"text": " ".join(chance.choices(WORDS, k=9)) + "."}],
            "ended_at": time.isoformat(),
        }
        made.append((time + timedelta(hours=chance.uniform(0, 2)), orjson.dumps(event)))
    return [value for _, value in sorted(made)]


def rubric(evaluations: Iterable[bytes | None]) -> Decided:
    """The row, the status and the probability of each event."""
    found = {}
    for value in evaluations:
        evaluation = orjson.loads(value or b"")
        if evaluation["stage"] == "scored":
            each = next(each for each in evaluation["decision"]["suites"] if each["suite"] == "rubric")
            found[evaluation["event_id"]] = each["row"], each["status"], each["probability"]
    return found


def decided_here(settings: Settings, run: Run, events: Sequence[bytes]) -> Decided:
    """The decisions of the agent of a run in this process."""
    agent = EvaluateAgent(replay_config(run_settings(settings, run), run))
    agent.preparation.start(lambda: False)
    outcome = agent.handle([Record(run.topic, 0, number, None, value, 0) for number, value in enumerate(events)])
    return rubric(each.value for each in outcome.emissions if each.topic == "evaluations")


def replayed(kafka: SharedBroker, prefix: str, run: str, number: int) -> Decided:
    """The decisions of a replay, once it has evaluated so many events; it need not judge them."""
    topic, found = f"{prefix}run.{run}.evaluations", Decided()

    def evaluated() -> bool:
        found.update(rubric(each.value() for each in read_to_end(kafka.bootstrap, topic)))
        return len(found) >= number

    eventually(evaluated, f"the run {run} has evaluated all events")
    return found


@pytest.mark.heavy
def test_replays_select_the_same_events_whatever_is_written_meanwhile(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """From a topic, a file and like another run; rows that are written after a run was created are not read."""
    events = risky_events(240)
    create_topic(kafka.bootstrap, f"{prefix}interactions", 3)
    for partition in range(3):
        produce(kafka.bootstrap, f"{prefix}interactions", events[partition::3], partition=partition)
    file = tmp_path / "archive.jsonl"
    file.write_bytes(b"\n".join(random.Random(4).sample(events, len(events))))
    control = create_topic(kafka.bootstrap, f"{prefix}control", 2, {"cleanup.policy": "compact"})
    rows = [
        row("docs", 2, 0.5).model_copy(update={"bin": 50}),
        row("docs", 8, 0.1).model_copy(update={"bin": 30}),
        row("chat", 4, 0.25),
    ]
    append(kafka.bootstrap, control, rows)
    settings = Settings(
        kafka={"bootstrap_servers": kafka.bootstrap},
        topics={"prefix": prefix, "partitions": 3},
        judge=JUDGE,  # type: ignore[arg-type]
    )
    request = ReplayRequest(judge="budget", budget_usd=0.0)
    before = create_run(settings, "before", request, ())
    expected = decided_here(settings, before, events)
    assert len(expected) == len(events)
    assert {revision for revision, _, _ in expected.values()} == {
        "shipped",
        *(revision_of(each.effective_at) for each in rows),
    }
    assert len({probability for _, _, probability in expected.values()}) >= 5

    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "replay", "--judge", "budget")
    given = environment(
        RAGWEIR_KAFKA__CLIENT=orjson.dumps(QUICK_CLIENT).decode(),
        RAGWEIR_TOPICS__PARTITIONS="3",
        RAGWEIR_JUDGE__BASE_URL=JUDGE["base_url"],
        RAGWEIR_JUDGE__PRICES=orjson.dumps(JUDGE["prices"]).decode(),
    )
    topic = ("--run-id", "topic", "--budget", "0", "--workers", "3")
    archive = ("--run-id", "archive", "--budget", "0", str(file))
    running = [Popen([*COMMAND, *shared, *each], cwd=ROOT, env=given) for each in (topic, archive)]
    try:
        eventually(lambda: all(find_run(settings, name) for name in ("topic", "archive")), "the runs are created")
        append(kafka.bootstrap, control, [row(name, hours, 1.0) for name in ("docs", "new") for hours in (1, 5, 9)])
        for name in ("topic", "archive"):
            assert replayed(kafka, prefix, name, len(events)) == expected
    finally:
        for each in running:
            each.terminate()
        for each in running:
            each.wait(30)

    like = create_run(settings, "like", request, (), before)
    assert like.control == before.control
    assert decided_here(settings, like, events) == expected
    now = create_run(settings, "now", request, ())
    assert decided_here(settings, now, events) != expected, "the later rows would select other events"

    # A run whose rows are not all there any more is neither resumed nor read again.
    assert before.control is not None
    beyond = tuple(each.model_copy(update={"end": 10**9}) for each in before.control.extents)
    lost = before.model_copy(update={"control": before.control.model_copy(update={"extents": beyond})})
    with pytest.raises(PermanentError, match="truncated or recreated since"):
        create_run(settings, "other", request, (), lost)
    with pytest.raises(PermanentError, match="truncated or recreated since"):
        check_resumable(settings, StoredRun(lost, Loaded()), request, ())


def test_a_run_knows_the_rows_of_a_topic_that_was_made_again(kafka: SharedBroker, prefix: str) -> None:
    """It is not resumed with other rows, though they have the same offsets."""
    create_topic(kafka.bootstrap, f"{prefix}interactions")
    control = create_topic(kafka.bootstrap, f"{prefix}control", 1, {"cleanup.policy": "compact"})
    append(kafka.bootstrap, control, [row("docs", 2, 1.0)])
    settings = Settings(
        kafka={"bootstrap_servers": kafka.bootstrap},
        topics={"prefix": prefix, "partitions": 1},
        judge=JUDGE,  # type: ignore[arg-type]
    )
    request = ReplayRequest(judge="budget", budget_usd=0.0)
    before = create_run(settings, "before", request, ())
    assert create_run(settings, "like", request, (), before).control == before.control
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    admin.delete_topics([control])[control].result(30)
    eventually(lambda: control not in admin.list_topics(timeout=30).topics, "the topic is gone")
    create_topic(kafka.bootstrap, control, 1, {"cleanup.policy": "compact"})
    append(kafka.bootstrap, control, [row("docs", 2, 0.0)])
    with pytest.raises(PermanentError, match="its rows are lost"):
        create_run(settings, "other", request, (), before)
    with pytest.raises(PermanentError, match="its rows are lost"):
        check_resumable(settings, StoredRun(before, Loaded()), request, ())
