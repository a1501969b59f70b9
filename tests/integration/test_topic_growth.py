"""`ragweir topics grow`: all topics get more partitions, and nothing is lost, doubled or out of its order."""

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import COMMAND, ROOT, environment, ragweir, settled, told
from confluent_kafka import Producer
from conftest import SharedBroker, read_to_end, values
from services import Service, Services, end_all, eventually, quick

from chaos.reading import ends, partitions_of
from ragweir.schemas.registry.schema import FORMATS
from ragweir.schemas.topics import TOPICS, topic_table
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.runtime.kafka.reader import topics
from ragweir.streams.runtime.kafka.topic_growth import ORDER, TopicGrowth
from ragweir.streams.settings import Settings

Start = Callable[[str], Service]
BEFORE, AFTER = 2, 5


class Deployment:
    """Services under a prefix of their own, all of whose events are judged."""

    def __init__(self, bootstrap: str, prefix: str, services: Services, judge: SimulatedJudge) -> None:
        self.bootstrap, self.prefix, self.services = bootstrap, prefix, services
        self.settings = Settings.model_validate(
            {"kafka": {"bootstrap_servers": bootstrap}, "topics": {"prefix": prefix}, "judge": {"base_url": "http://j"}}
        )
        self.variables = quick(
            bootstrap,
            prefix,
            topics__partitions=BEFORE,
            judge__base_url=judge.base_url,
            judge__api_key="sk-test",
            judge__daily_budget_usd="none",
            routing__floors={"rubric": 1.0},
            routing__rules=[],
            routing__key="hunter2-Xq7",
        )
        self.published = 0
        assert self.run("topics", "create").returncode == 0

    def run(self, *arguments: str) -> subprocess.CompletedProcess[bytes]:
        return ragweir(*arguments, **self.variables)

    def start(self, *names: str) -> list[Service]:
        """Start services with one slot each."""
        return [self.services.start(name, "--slot", "0", variables=self.variables) for name in names]

    def publish(self, number: int) -> None:
        """Publish so many events, keyed by their ids as `ragweir publish` does."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
        for each in range(self.published, self.published + number):
            event = {"event_id": f"e{each}", "query": "Is it?", "response": "It is.", "application": "bot"}
            value = json.dumps({**event, "ended_at": _minute(each)})
            producer.produce(f"{self.prefix}interactions", value, f"e{each}")
        assert producer.flush(30) == 0
        self.published += number

    def evaluations(self, stage: str) -> Counter[str]:
        """The ids of the events that have an evaluation of this stage."""
        found = values(self.bootstrap, f"{self.prefix}evaluations")
        return Counter(each["event_id"] for each in found if each["stage"] == stage)

    def must_be_complete(self) -> None:
        """Wait until everything is settled; then every event is scored, judged and counted once."""
        every = Counter(f"e{each}" for each in range(self.published))
        eventually(lambda: self.evaluations("judged") >= every, "all are judged")
        assert self.evaluations("scored") == self.evaluations("judged") == every
        minutes = Counter(_minute(each) for each in range(self.published))
        eventually(lambda: self.counted() == minutes, "the windows are those of all events")

    def counted(self) -> Counter[str]:
        """The events of each window over all partitions, each part by its newest record."""
        messages = read_to_end(self.bootstrap, f"{self.prefix}windows")
        newest = {message.key(): json.loads(message.value() or b"{}") for message in messages}
        counted: Counter[str] = Counter()
        for window in newest.values():
            counted[window.get("start", "")] += window.get("events", 0)
        return +counted

    def sizes(self) -> dict[str, int]:
        """The number of partitions of each of our topics."""
        present = topics(self.settings)
        return {name: present[self.prefix + name] for name in TOPICS}


def _minute(event: int) -> str:
    """The time of an event, which is the start of a window."""
    return f"2026-01-02T12:{event % 50:02}:00Z"


@pytest.fixture
def deployed(kafka: SharedBroker, prefix: str, services: Services) -> Iterator[Deployment]:
    with simulated_judge() as judge:
        yield Deployment(kafka.bootstrap, prefix, services, judge)
        end_all(services)


def test_every_topic_has_its_place_in_the_order() -> None:
    tables = [topic_table(form) for form in (None, *FORMATS)]
    assert set(ORDER) == {topic.name for table in tables for topic in table.values() if topic.grows}
    assert len(set(ORDER)) == len(ORDER)
    assert ORDER.index("windows") < ORDER.index("evaluations") < ORDER.index("interactions")
    assert ORDER.index("judge.ledger") < ORDER.index("judge.requests")
    assert ORDER.index("interactions") < ORDER.index("assembly") < ORDER.index("spans")


@pytest.mark.heavy
def test_topics_grow_between_two_halves_of_the_traffic(deployed: Deployment, tmp_path: Path) -> None:
    """As documented: evaluate is stopped, judge ends its work, all are stopped; publishers go on all the while."""
    evaluate, aggregate = deployed.start("evaluate", "aggregate")
    deployed.publish(60)
    eventually(lambda: deployed.evaluations("scored").total() >= 30, "half of them are scored")
    log = tmp_path / "grow.log"
    with log.open("wb") as errors:
        command = [*COMMAND, "topics", "grow", "--partitions", str(AFTER), "--yes", "--timeout", "60"]
        growing = subprocess.Popen(command, stderr=errors, cwd=ROOT, env=environment(**deployed.variables))
    assert eventually(lambda: growing.poll() or "stop evaluate" in log.read_text(), "it says what comes first") is True
    assert evaluate.stop() == 0
    scored = deployed.evaluations("scored")
    (judge,) = deployed.start("judge")
    said = eventually(lambda: growing.poll() or "stop judge and aggregate" in log.read_text(), "judge has judged all")
    assert said is True, log.read_text()
    assert deployed.evaluations("judged") == scored
    deployed.publish(20)
    assert set(deployed.sizes().values()) == {BEFORE}
    assert (judge.stop(), aggregate.stop()) == (0, 0)
    assert growing.wait(60) == 0, log.read_text()
    assert deployed.sizes() == {name: AFTER if topic.grows else BEFORE for name, topic in TOPICS.items()}
    assert f"topics.partitions = {AFTER}" in log.read_text()
    deployed.publish(40)
    deployed.start("evaluate", "judge", "aggregate")
    deployed.must_be_complete()
    of_event: dict[str, set[int]] = {}
    for message in read_to_end(deployed.bootstrap, f"{deployed.prefix}evaluations"):
        of_event.setdefault((message.key() or b"").decode(), set()).add(message.partition() or 0)
    assert {len(partitions) for partitions in of_event.values()} == {1}, "a judgement stands behind its evaluation"
    assert {partition for partitions in of_event.values() for partition in partitions} == set(range(AFTER))


@pytest.mark.heavy
def test_growing_goes_on_where_it_was_interrupted(deployed: Deployment) -> None:
    """Meanwhile judge does not run: two of its workers would have the ledger of the same partition."""
    growth = TopicGrowth(deployed.settings, AFTER)
    planned = list(growth.plan())
    half = planned[: planned.index(f"{deployed.prefix}judge.requests")]
    for name in half:
        growth.grow(name)
    (judge,) = deployed.start("judge")
    assert judge.ended() == 2
    assert judge.logged("must have the same number of partitions", level="error")
    left = list(growth.plan())
    assert not set(left) & set(half)
    done = deployed.run("topics", "grow", "--partitions", str(AFTER), "--yes")
    assert done.returncode == 0, done.stderr
    assert deployed.sizes() == {name: AFTER if topic.grows else BEFORE for name, topic in TOPICS.items()}
    assert done.stdout.count(b"partitions now") == len(left)
    again = deployed.run("topics", "grow", "--partitions", str(AFTER), "--yes")
    assert (again.returncode, again.stdout) == (0, b"")


@pytest.mark.heavy
def test_what_keeps_topics_from_growing_is_said_and_nothing_is_changed(deployed: Deployment) -> None:
    few = deployed.run("topics", "grow", "--partitions", "1", "--yes")
    assert "Kafka takes none away" in told(few)
    assert "--yes is required" in ragweir("topics", "grow", "--partitions", "9", **deployed.variables).stderr.decode()
    (evaluate,) = deployed.start("evaluate")
    deployed.publish(10)
    group = f"{deployed.prefix}evaluate"
    settled(deployed.bootstrap, group, ends_of(deployed))
    busy = deployed.run("topics", "grow", "--partitions", str(AFTER), "--yes", "--timeout", "2")
    assert busy.returncode == 1
    assert "nothing was changed" in busy.stderr.decode()
    assert "stop evaluate; start judge, which has about" in " ".join(busy.stderr.decode().split())
    assert set(deployed.sizes().values()) == {BEFORE}
    assert evaluate.stop() == 0


def ends_of(deployed: Deployment) -> dict[tuple[str, int], int]:
    """The ends of the interactions' partitions."""
    places = partitions_of(f"{deployed.prefix}interactions", range(BEFORE))
    return ends(deployed.bootstrap, "read_uncommitted", places, 30)
