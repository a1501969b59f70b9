"""`ragweir aggregate` on a real broker: its windows are those that plain code makes of the same evaluations."""

import json
import math
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, read_to_end, transaction, trim
from faults import forget, set_offset
from services import CLI, QUICK_CLIENT, Service, Services, eventually, quick

from chaos.reading import ends, partitions_of
from ragweir.errors import DO_NOT_RESTART
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.selection import Chance, Weights
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.window_record import parse_window

PARTITIONS = 4
BASE = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=6)
READING = Aggregator(Catalogue(everything())).decoder()
RATIOS = ("context_support", "bigram_support", "unsupported_risk", "llm_latency_share")
TIMES = ("total_latency_ms", "llm_latency_ms", "input_tokens")
JUDGED, SUITE = "judge_relevance", "rubric"
SETTINGS = {
    "windows": {
        "commit_ms": 50,
        "hold_h": 0.5,
        "grace_s": 30,
        "disorder_s": 10,
        "idle_s": 2,
        "dimensions": ["application", "labels.region"],
    },
    "kafka__client": QUICK_CLIENT | {"session.timeout.ms": 1_500, "heartbeat.interval.ms": 300},
}
Start = Callable[..., Service]
OLDER_AT_FIRST = """
from ragweir.streams.commands import main
from ragweir.streams.runtime.recovery import offsets

asked, older = offsets.ask_until_answered, [30, 10]

def wrong(ask, stopped):
    answers = asked(ask, stopped)
    by = older.pop(0) if isinstance(answers, list) and answers and older else 0
    for answer in answers if by else ():
        answer.offset -= by
    return answers

offsets.ask_until_answered = wrong
main()
"""
"""A service whose first two questions for committed offsets are answered wrongly."""


class Evaluations:
    """Evaluations under a prefix of their own, and the windows that become of them."""

    def __init__(self, bootstrap: str, prefix: str, windows: int = PARTITIONS) -> None:
        self.bootstrap, self.prefix = bootstrap, prefix
        self.topic, self.windows, self.group = f"{prefix}evaluations", f"{prefix}windows", f"{prefix}aggregate"
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self.published: Counter[int] = Counter()
        create_topic(bootstrap, self.topic, PARTITIONS)
        create_topic(bootstrap, self.windows, windows, {"cleanup.policy": "compact,delete"})
        create_topic(bootstrap, f"{prefix}dead-letter")
        self.producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})

    def publish(self, values: list[tuple[int, bytes]]) -> None:
        """Append these values to these partitions."""
        for number, (partition, value) in enumerate(values):
            self.producer.produce(self.topic, value, partition=partition)
            self.published[partition] += 1
            if number % 1000 == 0:
                self.producer.poll(0)
        assert self.producer.flush(30) == 0

    def settled(self) -> None:
        """Wait until all is committed, and can be read: a commit's offsets may be seen before its records."""
        # Not the admin client: asked for a group before a new broker has a coordinator, it crashes (librdkafka #5040).
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": self.group, "log_level": 0})
        places = [TopicPartition(self.topic, partition) for partition in self.published]

        def committed() -> bool:
            return all(at.offset >= self.published[at.partition] for at in consumer.committed(places, timeout=5))

        eventually(committed, "all is committed")
        consumer.close()

        def told() -> bool:
            progress = self.progress()
            return all(progress[partition]["next_offset"] >= end for partition, end in self.published.items())

        eventually(told, "the windows of all can be read")

    def commit(self, partition: int, offset: int) -> None:
        """Set the offset of the group, which must not be at work."""
        set_offset(self.bootstrap, self.group, self.topic, partition, offset)

    def held(self) -> dict[str, int]:
        """How many partitions each slot holds, by the broker's account."""
        members = self.admin.describe_consumer_groups([self.group])[self.group].result(30).members
        return {each.group_instance_id.rpartition("-")[2]: len(each.assignment.topic_partitions) for each in members}

    def latest(self) -> dict[bytes, dict[str, Any]]:
        """The last record of each key."""
        found: dict[bytes, dict[str, Any]] = {}
        for message in read_to_end(self.bootstrap, self.windows):
            data = json.loads(message.value(), parse_float=Decimal)
            assert data["partition"] == message.partition()
            found[message.key()] = data
        return found

    def progress(self) -> dict[int, dict[str, Any]]:
        """How far each partition is."""
        return {data["partition"]: data for key, data in self.latest().items() if key.startswith(b'["progress"')}

    def ends(self) -> list[int]:
        """The ends of the windows' partitions."""
        return [*ends(self.bootstrap, "read_uncommitted", partitions_of(self.windows, range(PARTITIONS)), 30).values()]


@pytest.fixture
def of(kafka: SharedBroker, prefix: str) -> Evaluations:
    return Evaluations(kafka.bootstrap, prefix)


@pytest.fixture
def start(services: Services) -> Start:
    """Start aggregate."""

    def start(of: Evaluations, *arguments: str, before: tuple[str, ...] = CLI, **settings: Any) -> Service:
        variables = quick(of.bootstrap, of.prefix, **{**SETTINGS, **settings})
        return services.start("aggregate", *arguments, before=before, variables=variables)

    return start


def evaluation(chance: random.Random, number: int, at_s: float, judged: float = 0.05) -> bytes:
    """An evaluation around a time after BASE: out of order, sometimes on an edge, late, or by a wrong clock."""
    kind = chance.random()
    moment = BASE + timedelta(seconds=round(at_s + chance.uniform(-15, 5), 3))
    if kind < 0.01:
        moment -= timedelta(seconds=chance.randrange(120, 4 * 3600))
    elif kind < 0.02:
        moment += timedelta(days=3650 * chance.choice((-1, 1)))
    elif kind < 0.12:
        moment = BASE + timedelta(minutes=int(at_s / 60), milliseconds=chance.choice((-1, 0, 0, 0, 1)))
    # Three decimals: their squares have six, so that exact sums of both are those of the written decimals.
    scores: dict[str, float | None] = {name: round(chance.betavariate(4, 2), 3) for name in RATIOS}
    scores |= {name: float(int(chance.lognormvariate(6, 1.5))) for name in TIMES}
    for name in chance.sample(list(scores), 2):
        scores[name] = None
    data: dict[str, Any] = {
        "event_id": str(number),
        "event_time": moment.isoformat(),
        "application": chance.choice(("claims", "search", None)),
        "labels": {"region": chance.choice(("eu", "us", "ü\n\"'"))} if chance.random() < 0.9 else {},
        "scores": scores,
        "categories": {"recall_warning": chance.choice(("LOW", "HIGH", None))},
        "decision": {"suites": [routed := {"suite": SUITE, "status": chance.choice(("selected", "not_selected"))}]},
        "catalogue_version": chance.choice(("1", "2")),
    }
    routed["probability"] = chance.choice((1, 0.5, 0.02, 0))
    if chance.random() < judged:
        routed |= {
            "status": chance.choice(("judged", "expired", "not_selected")),
            "probability": chance.choice((1, 0.02)),
        }
        data |= {"stage": "judged", "scores": {**scores, JUDGED: round(chance.random(), 3)}}
    return json.dumps(data).encode()


def traffic(count: int, seed: int) -> Iterator[list[tuple[int, bytes]]]:
    """Slices of evaluations of about an hour, poison among them; the last partition soon falls idle."""
    chance = random.Random(seed)
    values: list[tuple[int, bytes]] = []
    for number in range(count):
        partition = chance.randrange(PARTITIONS if number < count / 10 else PARTITIONS - 1)
        poison = chance.random() < 0.003
        value = chance.choice((b"", b"{", b'{"event_id": 1}', b"[1]")) if poison else None
        values.append((partition, value if value is not None else evaluation(chance, number, 3600 * number / count)))
        if len(values) >= max(500, count / 20):
            yield values
            values = []
    yield values


class Plain:
    """What one window should hold, by the plainest code there is."""

    def __init__(self) -> None:
        self.events = self.late = 0
        self.values: defaultdict[str, list[Decimal]] = defaultdict(list)
        self.labels: Counter[tuple[str, str]] = Counter()
        self.decisions: Counter[tuple[str, str]] = Counter()
        self.chances: list[Decimal] = []
        self.selected: list[Decimal] = []
        """Probabilities of the events that were selected."""
        self.estimated: list[tuple[Decimal, Decimal]] = []
        """Weights and scores."""
        self.versions: set[str] = set()

    def decide(self, data: dict[str, Any], *, judged: bool) -> None:
        """Take in what was decided about judging, and what became of it."""
        (suite,) = data["decision"]["suites"]
        probability = Decimal(suite["probability"])
        if judged != (suite["status"] in ("selected", "not_selected")):
            self.decisions[suite["suite"], suite["status"]] += 1
            self.chances.append(probability)
            if suite["status"] == "selected":
                self.selected.append(probability)
        if suite["status"] == "judged":
            self.estimated.append((1 / probability, Decimal(data["scores"][JUDGED])))


def recomputed(of: Evaluations) -> tuple[dict[tuple[Any, ...], Plain], int]:
    """The windows by start and dimensions, and how many records are no evaluations."""
    windows: defaultdict[tuple[Any, ...], Plain] = defaultdict(Plain)
    newest: dict[int, datetime] = {}
    refused = 0
    for message in read_to_end(of.bootstrap, of.topic):
        try:
            data = json.loads(message.value(), parse_float=Decimal)
            moment = datetime.fromisoformat(data["event_time"])
        except (ValueError, TypeError, KeyError):
            refused += 1
            continue
        begin = moment.replace(second=0, microsecond=0)
        window = windows[begin, data["application"] or "", data["labels"].get("region", "")]
        judged = data.get("stage") == "judged"
        window.events += not judged
        partition = message.partition()
        if partition in newest and begin + timedelta(seconds=60 + 30) <= newest[partition] - timedelta(seconds=10):
            window.late += not judged
        stamp = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
        reached = min(moment, stamp)
        newest[partition] = max(reached, newest.get(partition, reached))
        for name, value in data["scores"].items():
            if value is not None and (name == JUDGED or not judged):
                window.values[name].append(Decimal(value))
        for name, label in data["categories"].items():
            if label is not None and not judged:
                window.labels[name, label] += 1
        window.decide(data, judged=judged)
        window.versions.add(data["catalogue_version"])
    return windows, refused


def must_agree(of: Evaluations) -> Counter[str]:
    """Compare what was recomputed with the parts of all partitions together; gives what there was."""
    expected, refused = recomputed(of)
    parts: defaultdict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for key, data in of.latest().items():
        if not key.startswith(b'["progress"'):
            begin = datetime.fromisoformat(data["start"])
            assert datetime.fromisoformat(data["end"]) == begin + timedelta(minutes=1)
            parts[begin, *data["dimensions"].values()].append(data)
    assert parts.keys() == expected.keys()
    for key, plain in expected.items():
        own = parts[key]
        assert sum(each["events"] for each in own) == plain.events, key
        assert sum(each["late"] for each in own) == plain.late, key
        assert {version for each in own for version in each["catalogue_versions"]} == plain.versions
        assert _counted(own, "categories") == plain.labels
        assert _counted(own, "decisions") == plain.decisions
        assert {name for each in own for name in each["metrics"]} == plain.values.keys()
        estimates = [estimate for each in own if (estimate := each["estimates"].get(JUDGED))]
        assert sum(each["count"] for each in estimates) == len(plain.estimated)
        assert sum(Decimal(each["weight"]) for each in estimates) == sum(weight for weight, _ in plain.estimated)
        weighted = sum(weight * score for weight, score in plain.estimated)
        assert sum(Decimal(each["weighted_sum"]) for each in estimates) == weighted
        whole = WindowAggregate()
        for each in own:
            whole.merge(READING.decode(parse_window(json.dumps(each, default=float).encode())))
        if plain.chances:
            least = min((float(each) for each in plain.chances if each), default=1.0)
            weights = [round(1_000_000 / p) for p in plain.selected if p]
            selected = Weights(
                len(weights),
                sum(0 < probability < 1 for probability in plain.selected),
                sum(weights),
                sum(round(weight * (weight - 1_000_000) / Decimal(1_000_000)) for weight in weights),
            )
            assert whole.chances == {SUITE: Chance(least, plain.chances.count(Decimal(0)), selected)}
        for name, values in plain.values.items():
            summaries = [each["metrics"][name] for each in own if name in each["metrics"]]
            assert sum(each["count"] for each in summaries) == len(values)
            assert sum(Decimal(each["sum"]) for each in summaries) == sum(values), (key, name)
            assert sum(Decimal(each["sum_squares"]) for each in summaries) == sum(value * value for value in values)
            assert min(each["min"] for each in summaries) == min(values)
            assert max(each["max"] for each in summaries) == max(values)
            for share in (0.5, 0.9, 0.99):
                found, exact = (
                    whole.metrics[name].quantile(share),
                    float(sorted(values)[math.floor(share * (len(values) - 1))]),
                )
                assert found is not None
                assert abs(found - exact) <= (0.01 * exact if name in TIMES else 0.01) * 1.000001, (key, name, share)
    assert len(read_to_end(of.bootstrap, f"{of.prefix}dead-letter")) == refused
    return Counter(
        windows=len(expected),
        parts=sum(map(len, parts.values())),
        late=sum(plain.late for plain in expected.values()),
        refused=refused,
        events=sum(plain.events for plain in expected.values()),
    )


def _counted(parts: list[dict[str, Any]], field: str) -> Counter[tuple[str, str]]:
    counts: Counter[tuple[str, str]] = Counter()
    for part in parts:
        for name, labels in part[field].items():
            for label, count in labels.items():
                counts[name, label] += count
    return counts


SIZES = [pytest.param(8_000, 4, id="8k"), pytest.param(200_000, 30, id="200k", marks=pytest.mark.long)]


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize(("count", "_"), SIZES)
def test_windows_are_those_that_plain_code_makes(
    of: Evaluations, start: Start, count: int, workers: int, _: int
) -> None:
    """The same totals whatever the number of workers, under disorder, late events, wrong clocks and poison."""
    start(of, "--workers", str(workers))
    for values in traffic(count, seed=5):
        of.publish(values)
    of.settled()
    found = must_agree(of)
    print(found)
    assert found["late"] > count / 200, "some were late"
    assert found["refused"] > 0
    if workers == 1:
        assert found["parts"] > found["windows"] * 1.5


@pytest.mark.parametrize(("count", "kills"), SIZES)
def test_kills_and_moving_partitions_change_no_window(of: Evaluations, start: Start, count: int, kills: int) -> None:
    """Two instances that are killed again and again, and take each other's partitions over, lose and double nothing."""
    chance = random.Random(11)
    slots = {"0": start(of, "--slot", "0")}
    eventually(lambda: of.held().get("0") == PARTITIONS, "the first has everything")
    slices = traffic(count, seed=6)
    of.publish(next(slices))
    slots["1"] = start(of, "--slot", "1")
    eventually(lambda: of.held() == {"0": 2, "1": 2}, "they share")
    for kill in range(kills):
        of.publish(next(slices, []))
        time.sleep(chance.uniform(0.0, 0.4))
        slot = chance.choice("01")
        slots[slot].process.kill()
        assert slots[slot].ended() == -signal.SIGKILL
        of.publish(next(slices, []))
        if kill == 1:
            other = "1" if slot == "0" else "0"
            eventually(lambda other=other: of.held().get(other) == PARTITIONS, "the other has everything")
        slots[slot] = start(of, "--slot", slot)
    for values in slices:
        of.publish(values)
    of.settled()
    print(must_agree(of))


def publish_minute(of: Evaluations, number: int, partition: int = 0, minute: int = 0) -> None:
    """So many events in one minute of one partition, none of them judged."""
    chance = random.Random(minute)
    at_s = 60.0 * minute + 30
    of.publish([(partition, evaluation(chance, each, at_s, judged=0)) for each in range(number)])


@pytest.mark.heavy
def test_a_restore_waits_for_what_is_written_and_not_yet_stable(prefix: str, of: Evaluations, start: Start) -> None:
    """While another's transaction holds the windows' stable end back, a worker that takes over does not begin."""
    publish_minute(of, 200)
    first = start(of, "--slot", "0")
    of.settled()
    assert first.stop() == 0
    other = transaction(of.bootstrap, f"{prefix}other")
    other.produce(of.windows, b"{}", b'["2026-01-01T00:00:00Z",{},0,0]', partition=0)
    assert other.flush(10) == 0
    publish_minute(of, 200, minute=1)
    second = start(of, "--slot", "0")
    eventually(lambda: second.logged("waiting for an open transaction", partition=0), "it waits")
    assert not second.logged("partitions assigned")
    other.abort_transaction()
    of.settled()
    must_agree(of)


@pytest.mark.heavy
@pytest.mark.parametrize("what", ["offset", "group", "windows"])
def test_state_that_does_not_fit_the_offsets_is_rejected(of: Evaluations, start: Start, what: str) -> None:
    """Offsets that were set, a group that was deleted, windows that were emptied: exit status and one sentence."""
    publish_minute(of, 100)
    first = start(of, "--slot", "0")
    of.settled()
    assert first.stop() == 0
    if what == "offset":
        of.commit(0, 50)
    elif what == "windows":
        trim(of.bootstrap, of.windows, [0])
    else:
        forget(of.admin, of.group)
    before = of.ends()
    again = start(of, "--slot", "0")
    assert again.ended() == DO_NOT_RESTART
    (error,) = again.logged(level="error")
    assert {"offset": "to 100", "group": "gone", "windows": "emptied"}[what] in error["event"]
    assert of.ends() == before, "nothing was written"
    if what == "windows":
        assert start(of, "--workers", "1").ended() == 1, "a restart would not help, so the supervisor makes none"
    if what != "group":
        return
    for partition in range(PARTITIONS):  # What the message says mends it.
        of.commit(partition, of.progress()[partition]["next_offset"])
    start(of, "--slot", "0")
    publish_minute(of, 100)
    of.settled()
    must_agree(of)


@pytest.mark.heavy
def test_an_older_offset_is_asked_for_again(of: Evaluations, start: Start) -> None:
    """A coordinator that is still loading can answer one; the windows say which is right."""
    publish_minute(of, 100)
    first = start(of, "--slot", "0")
    of.settled()
    assert first.stop() == 0
    again = start(of, "--slot", "0", before=("-c", OLDER_AT_FIRST))
    publish_minute(of, 100)
    of.settled()
    must_agree(of)
    assert len(again.logged("does not fit the state", partition=0)) == 2


def test_fewer_partitions_of_windows_than_of_evaluations_are_rejected(
    kafka: SharedBroker, prefix: str, start: Start
) -> None:
    """Each partition of the evaluations needs its own of the windows."""
    service = start(Evaluations(kafka.bootstrap, prefix, windows=PARTITIONS - 1), "--slot", "0")
    assert service.ended() == DO_NOT_RESTART
    assert service.logged("fewer partitions", level="error")


@pytest.mark.heavy
@pytest.mark.parametrize("running", [False, True], ids=["between runs", "while it works"])
def test_a_gap_left_by_retention_is_gone_over(of: Evaluations, start: Start, running: bool) -> None:
    """What was deleted unread is missing and nothing else: windows from before it are gone on with."""
    publish_minute(of, 100)
    service = start(of, "--workers", "1")
    of.settled()
    if running:
        os.kill(pid := service.pid(0), signal.SIGSTOP)
        publish_minute(of, 1)  # The answer to the request that it has already sent; what follows it has to ask for.
        time.sleep(0.5)  # The answer holds all that is there when the broker sends it.
    else:
        assert service.stop() == 0
    publish_minute(of, 50 - running)
    trim(of.bootstrap, of.topic, [0], 130)
    if running:
        os.kill(pid, signal.SIGCONT)
    else:
        service = start(of, "--workers", "1")
    of.settled()
    publish_minute(of, 10)
    of.settled()
    found = [data["events"] for key, data in of.latest().items() if not key.startswith(b'["progress"')]
    assert sum(found) in (130, 130 + running)
    assert of.progress()[0]["next_offset"] == 160
    assert service.stop() == 0
    again = start(of, "--slot", "0")
    eventually(lambda: again.logged("partitions assigned"), "its state fits its offsets")


@pytest.mark.heavy
def test_an_idle_worker_is_silent_and_slos_are_counted_once(of: Evaluations, start: Start) -> None:
    """Progress is told until every partition is idle, and then nothing; SLO counters start at 0."""
    slos = [{"name": "grounded", "metric": "context_support", "at_least": 0.5, "objective": 0.9}]
    service = start(of, "--slot", "0", slo=slos)
    series = 'ragweir_slo_events_total{{outcome="{}",slo="grounded"}}'
    eventually(
        lambda: series.format("bad") + " 0.0" in service.asked("/metrics")[1], "counters are there from the start"
    )
    publish_minute(of, 300)
    of.settled()
    eventually(lambda: all(each["idle"] for each in of.progress().values()), "all are idle")
    assert of.progress().keys() == set(range(PARTITIONS))
    before = of.ends()
    values = [value for plain in recomputed(of)[0].values() for value in plain.values["context_support"]]
    good = sum(value >= Decimal("0.5") for value in values)
    assert service.sample(series.format("good")) == good
    assert service.sample(series.format("bad")) == len(values) - good
    time.sleep(1.0)
    assert of.ends() == before
