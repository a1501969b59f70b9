"""Upgrading from the release before: its records are read, and its workers run beside ours."""

import io
import json
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, committed, coordinated, produce, read_to_end, values
from services import Service, Services, end_all, eventually, quick

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.playground.simulated.server import SimulatedJudge, simulated_judge
from ragweir.streams.services.aggregate.windowing import Windowing
from ragweir.streams.settings import WindowSettings

BEFORE = "d967030540379767959fcabaecdacec1447ffa2f"
"""The last commit of the release before, 0.1.0."""
PARTITIONS = 2
SERVICES = ("evaluate", "aggregate", "judge")
PRICE = {"input_usd": 1.0, "output_usd": 4.0}
BUDGET_USD = 5


@pytest.fixture(scope="session")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packages of the release before."""
    packed = subprocess.run(
        ["git", "archive", BEFORE, "schemas", "metrics", "streams"], cwd=ROOT, capture_output=True, check=False
    )
    if packed.returncode:
        pytest.skip("this checkout does not hold the history of the release before")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


class Deployment:
    """A whole pipeline on topics of its own, each of whose slots runs either release."""

    def __init__(
        self, kafka: SharedBroker, prefix: str, before: Path, judge: SimulatedJudge, services: Services
    ) -> None:
        self.bootstrap, self.prefix, self.services = kafka.bootstrap, prefix, services
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        self.judge = judge
        self.published = 0
        self.folders = {"before": (before, "streams.cli"), "ours": (ROOT, "ragweir.streams.commands")}
        self.environment = quick(
            kafka.bootstrap,
            prefix,
            topics__partitions=PARTITIONS,
            topics__replication_factor=1,
            batch__max_events=20,
            windows__commit_ms=100,
            judge__base_url=judge.base_url,
            judge__model="simulated-judge",
            judge__daily_budget_usd=BUDGET_USD,
            judge__prices={"simulated-judge": PRICE},
            routing__floors={"rubric": 0.3},
            routing__key="upgrade",
            routing__rules=[],
        )

    def run(self, release: str, *arguments: str) -> Service:
        """Run a command of a release; the processes that it starts are of that release too."""
        folder, module = self.folders[release]
        variables = self.environment | {"PYTHONPATH": str(folder)}
        return self.services.start(*arguments, before=("-P", "-m", module), variables=variables)

    def start(self, release: str, service: str, slot: int) -> Service:
        """Run one slot of a service."""
        return self.run(release, service, "--slot", str(slot))

    def publish(self, number: int) -> None:
        """Append so many events, spread over the partitions."""
        for partition in range(PARTITIONS):
            mine = [n for n in range(self.published, self.published + number) if n % PARTITIONS == partition]
            values = [
                json.dumps(
                    {
                        "event_id": f"event-{n}",
                        "ended_at": f"2026-11-21T10:{n // 60 % 60:02}:{n % 60:02}Z",
                        "application": f"bot-{n % 3}",
                        "query": f"How far is town {n} from the sea?",
                        "response": f"Town {n} is {n % 97} miles from the sea.",
                        "contexts": [{"text": f"Town {n} lies {n % 97} miles from the sea."}],
                    }
                ).encode()
                for n in mine
            ]
            produce(self.bootstrap, f"{self.prefix}interactions", values, partition=partition)
        self.published += number

    def lag(self) -> int:
        """The records of all inputs that are not yet committed."""
        left = 0
        for service, topic in zip(SERVICES, ("interactions", "evaluations", "judge.requests"), strict=True):
            reached = committed(self.admin, f"{self.prefix}{service}")
            for message in read_to_end(self.bootstrap, self.prefix + topic):
                at = reached.get((self.prefix + topic, message.partition()))
                left += at is None or message.offset() >= at.offset
        return left

    def values(self, topic: str) -> list[dict[str, object]]:
        """The committed records of a topic."""
        return values(self.bootstrap, self.prefix + topic)


@pytest.fixture
def deployment(kafka: SharedBroker, prefix: str, before: Path, services: Services) -> Iterator[Deployment]:
    coordinated(kafka.bootstrap)
    with simulated_judge() as judge:
        deployed = Deployment(kafka, prefix, before, judge, services)
        made = deployed.run("before", "topics", "create")
        assert made.ended() == 0, made.log.read_text()
        yield deployed
        end_all(services)


def must_be_whole(deployment: Deployment) -> Counter[object]:
    """Every event is evaluated, selected, judged, booked and counted once; gives the catalogue versions that did."""
    eventually(lambda: deployment.lag() == 0, "everything is settled")
    found = deployment.values("evaluations")
    wanted = {f"event-{n}" for n in range(deployment.published)}
    by_stage = {stage: [each for each in found if each["stage"] == stage] for stage in ("scored", "judged")}
    assert Counter(each["event_id"] for each in by_stage["scored"]) == Counter(wanted)
    selected = [
        each["event_id"] for each in by_stage["scored"] if each["decision"]["suites"][0]["status"] == "selected"
    ]
    assert Counter(each["event_id"] for each in by_stage["judged"]) == Counter(selected)
    assert deployment.values("dead-letter") == []
    booked = {(each["day"], each["partition"]): each for each in deployment.values("judge.ledger")}
    settled = round(sum(each["judge"]["cost_usd"] for each in by_stage["judged"]) * 1_000_000)
    calls = deployment.judge.calls()
    bill = calls["prompt_tokens"] * PRICE["input_usd"] + calls["completion_tokens"] * PRICE["output_usd"]
    # A judge that is stopped gives up what has not come back; it was paid for, and its reservation counts as spent.
    rounding = calls["count"]
    assert settled <= bill + rounding
    taken = sum(each["spent"] + each["reserved"] for each in booked.values())
    assert bill <= taken + rounding
    assert taken <= BUDGET_USD * 1_000_000

    def counted() -> int:
        parts = {
            (each["start"], json.dumps(each["dimensions"]), each["partition"], each["part"]): each["events"]
            for each in deployment.values("windows")
            if "window" in each
        }
        return sum(parts.values())

    eventually(lambda: counted() == deployment.published, "windows hold every event once")
    return Counter(each["catalogue_version"] for each in by_stage["scored"])


@pytest.mark.heavy
def test_slot_after_slot_is_upgraded_and_nothing_is_lost_doubled_or_unbooked(deployment: Deployment) -> None:
    """Both releases work side by side under traffic; a worker of ours goes on where one of the release before stood."""
    running = {(service, slot): deployment.start("before", service, slot) for service in SERVICES for slot in (0, 1)}
    deployment.publish(120)
    eventually(lambda: len(deployment.values("evaluations")) > 60, "the release before works")
    for (service, slot), old in running.items():
        assert old.stop() == 0
        new = deployment.start("ours", service, slot)
        deployment.publish(40)
        eventually(lambda new=new: new.logged("partitions assigned"), f"{service} {slot} works")
    versions = must_be_whole(deployment)
    assert len(versions) == 2, versions
    windowing = Windowing(WindowSettings(sizes=("1h", "1d")), Aggregator(Catalogue(everything())))
    for each in deployment.values("evaluations"):
        windowing.add(Evaluation.model_validate(each))
    days = [window for window in windowing.windows() if window.size == "1d"]
    assert any(window.aggregate.versions == versions.keys() for window in days), "no window says that it is mixed"


@pytest.mark.long
def test_an_upgrade_that_is_taken_back_loses_and_doubles_nothing(deployment: Deployment) -> None:
    """What ours has committed, written and booked, the release before reads."""
    for release in ("ours", "before", "ours"):
        started = [deployment.start(release, service, 0) for service in SERVICES]
        deployment.publish(100)
        eventually(lambda: deployment.lag() == 0, f"{release} settles everything")
        assert [each.stop() for each in started] == [0, 0, 0]
    must_be_whole(deployment)


@pytest.mark.heavy
def test_a_replay_that_was_begun_before_is_rejected_with_that_reason(deployment: Deployment) -> None:
    """Half of its evaluations would be of another catalogue version."""
    deployment.publish(20)
    replay = ("replay", "--run-id", "begun-before")
    begun = deployment.run("before", *replay)
    assert begun.ended() == 0, begun.log.read_text()
    again = deployment.run("ours", *replay)
    assert again.ended() == 1
    said = again.log.read_text()
    assert "catalogue version 1, and this is" in said
    assert "another --run-id" in said
    assert "Traceback" not in said
