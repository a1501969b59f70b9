"""What tests share: one real Kafka for the whole run, and the few things that most Kafka tests do with it."""

import gc
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
import stamina
import structlog
from confluent_kafka import (
    OFFSET_END,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from services import Services, end_all
from typing_extensions import override

from chaos.broker import QUICK as QUICK_BROKER
from ragweir.errors import LocalServerError, NotInstalled
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.playground.local.prometheus import Programs, programs
from ragweir.streams.runtime.kafka.client import is_transient

if TYPE_CHECKING:
    from fake_worker import World
    from faults import Traffic

# The same examples in every run, and no stopwatch: a test that fails, fails for everybody.
hypothesis.settings.register_profile("ragweir", derandomize=True, deadline=None)
hypothesis.settings.register_profile("fast", hypothesis.settings.get_profile("ragweir"), max_examples=20)
hypothesis.settings.load_profile("ragweir")

_SECONDS = 30
# The tests start hundreds of Python processes: what one has compiled, the others need not.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Collections took a third of the time in which ten thousand tests are collected.
gc.disable()
# By their length, so that no core is idle at the end; with `--no-loadscope-reorder`, as make test runs them.
_LONGEST_FIRST = (
    *("test_fatal_kills.py", "test_alert_rules.py", "test_fatal.py", "test_release.py", "test_cli_errors.py"),
    *("test_faults.py", "test_replay.py", "test_windows.py", "test_judge_service.py", "test_faust.py"),
    *("test_dead_letter.py", "test_chaos.py", "test_acls.py", "test_connection.py", "test_demo.py", "test_rehearse.py"),
    *("test_cli.py", "test_duplicates.py", "test_bad_input.py", "test_local_kafka.py"),
    *("test_explain.py", "test_three_ways.py", "test_tap.py", "test_memory.py", "test_alerting.py"),
    *("test_otlp_out_kafka.py", "test_key.py", "test_join_kafka.py", "test_traces_seen.py"),
    *("test_supervisor.py", "test_lifecycle.py", "test_projection.py", "test_topic_identity.py", "test_decoder.py"),
)
_QUIET: Mapping[str, str | int] = {"log_level": 0}
_count = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest."""
    rank = {name: number for number, name in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(item.path.name, len(rank)))


def pytest_collection_finish() -> None:
    """Collect garbage again, but not the tests, nor after each few hundred objects."""
    gc.set_threshold(20_000, 20, 50)
    gc.freeze()
    gc.enable()


def _no_process(event: str, _: tuple[object, ...]) -> None:
    if event in {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn"}:
        raise AssertionError("a test starts a process, and so has to be marked slow: make test-fast leaves it out")


@pytest.fixture(scope="session", autouse=True)
def _fast_runs_start_no_process(request: pytest.FixtureRequest) -> None:
    """A process takes as long as a hundred tests."""
    if "not slow" in request.config.option.markexpr:
        sys.addaudithook(_no_process)


@pytest.fixture(autouse=True)
def _logs_of_its_own() -> Iterator[None]:
    """A command that ran within this process set logging up for a standard error that is closed by now."""
    yield
    structlog.reset_defaults()


@dataclass(frozen=True)
class SharedBroker:
    """The broker of a whole run. A test that stops or kills a broker takes its own `local_kafka()`."""

    bootstrap: str


class _BrokerThread(threading.Thread):
    """Runs the broker in pytest's first process, from the first request of a worker to the end of the run.

    A broker that lives in a worker ends with it, and one for each worker takes a fifth of the run's CPU time.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.folder = Path(tempfile.mkdtemp(prefix="ragweir-broker-"))
        self.finished = threading.Event()

    @override
    def run(self) -> None:
        while not (self.folder / "request").exists():
            if self.finished.wait(0.1):
                return
        try:
            with local_kafka(properties=QUICK_BROKER) as broker:
                coordinated(broker.bootstrap)
                self._answer("address", broker.bootstrap)
                self.finished.wait()
        except Exception as error:  # a worker fails its tests with it
            self._answer("error", str(error))

    def _answer(self, name: str, text: str) -> None:
        (self.folder / "answer").write_text(text)
        (self.folder / "answer").rename(self.folder / name)


_broker_threads: list[_BrokerThread] = []


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist, in its first process
def pytest_configure_node(node: Any) -> None:
    """Name the place where workers ask for the broker."""
    if not _broker_threads:
        _broker_threads.append(_BrokerThread())
        _broker_threads[0].start()
    node.workerinput["broker"] = str(_broker_threads[0].folder)


def pytest_sessionfinish() -> None:
    """Stop the broker."""
    gc.unfreeze()  # At the end some packages report what was not collected.
    for thread in _broker_threads:
        thread.finished.set()
        thread.join()
        shutil.rmtree(thread.folder)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest) -> Iterator[SharedBroker]:
    """One broker for all tests, which ends sessions and transactions sooner than Kafka's own limits would."""
    if place := getattr(request.config, "workerinput", {}).get("broker"):
        folder = Path(place)
        (folder / "request").touch()
        while not (folder / "address").exists():
            if (folder / "error").exists():
                pytest.fail((folder / "error").read_text(), pytrace=False)
            time.sleep(0.1)
        yield SharedBroker((folder / "address").read_text())
        return
    try:
        with local_kafka(properties=QUICK_BROKER) as broker:
            coordinated(broker.bootstrap)
            yield SharedBroker(broker.bootstrap)
    except LocalServerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture(scope="session")
def tools() -> Programs:
    """Prometheus' programs. A test that runs one asks for this fixture, and is skipped where there are none."""
    try:
        return programs()
    except NotInstalled as error:
        pytest.skip(str(error))
    except LocalServerError as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> "Iterator[World]":
    """A cluster in memory for this test, which the runtimes of this process use."""
    from fake_worker import in_memory  # noqa: PLC0415 - not for most tests

    with stamina.set_testing(True, attempts=6):  # It waits in real time.
        yield in_memory(monkeypatch)


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """Start services; all have ended when the test has."""
    started = Services(tmp_path)
    yield started
    end_all(started)


@pytest.fixture
def traffic(kafka: SharedBroker, prefix: str) -> "Traffic":
    """Traffic under the test's own prefix."""
    from faults import Traffic  # noqa: PLC0415 - it imports this module

    return Traffic(kafka.bootstrap, prefix)


@pytest.fixture
def single(kafka: SharedBroker, prefix: str) -> "Traffic":
    """Traffic on one partition."""
    from faults import Traffic  # noqa: PLC0415 - as above

    return Traffic(kafka.bootstrap, prefix, partitions=1)


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    """A beginning for topic, group and transaction names that no other test has: the test's own name and a number."""
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    return f"{name[:60]}-{worker}{next(_count)}."


@stamina.retry(on=is_transient, attempts=None, timeout=_SECONDS, wait_initial=0.1, wait_max=0.5)
def coordinated(bootstrap: str, group: str = "first") -> None:
    """Wait until a broker coordinates a group: asked for its offsets before, the admin client ends the process.

    (librdkafka issue 5040.) A broker that has come back reads the groups' offsets first, partition by partition.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **_QUIET})
    try:
        consumer.committed([TopicPartition("none", 0)], timeout=_SECONDS)
    finally:
        consumer.close()


def create_topic(bootstrap: str, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
    """Create a topic, wait until it is there, and return its name."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    created = admin.create_topics([NewTopic(name, partitions, 1, config=dict(config or {}))])
    created[name].result(_SECONDS)
    # The controller answers before the broker's own metadata has the topic.
    end = time.monotonic() + _SECONDS
    while name not in admin.list_topics(timeout=_SECONDS).topics:
        assert time.monotonic() < end, f"{name} was created and is not listed"
        time.sleep(0.02)
    return name


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    key: bytes | None = None,
    partition: int = -1,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> None:
    """Append values (None is a tombstone) and return when the broker has them all; raise if it rejects one."""
    refused: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "message.max.bytes": 100_000_000, **_QUIET})
    for value in values:
        while True:
            try:
                producer.produce(topic, value, key, partition, on_delivery=delivered, headers=list(headers))
                break
            except BufferError:
                producer.poll(1)
    if producer.flush(_SECONDS):
        raise TimeoutError(f"{topic} did not take everything in {_SECONDS} s")
    if refused:
        raise KafkaException(refused[0])


def read_to_end(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[Message]:
    """Read a topic from its beginning to the end that it has now, ordered by partition and offset.

    With "read_committed" that is the last stable offset: records of a transaction still open are not waited for.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "never-committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 20,  # the end is told after a fetch that found nothing
            "isolation.level": isolation,
            **_QUIET,
        }
    )
    messages: list[Message] = []
    try:
        partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        unfinished = set(partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        while unfinished:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise TimeoutError(f"{topic} did not come to its end: nothing for {_SECONDS} s")
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                unfinished.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def values(bootstrap: str, topic: str) -> list[Any]:
    """The JSON values of a topic, without tombstones."""
    return [json.loads(each.value()) for each in read_to_end(bootstrap, topic) if each.value()]


def committed(admin: AdminClient, group: str, within_s: float = _SECONDS) -> dict[tuple[str, int], TopicPartition]:
    """Return the offset that a group has committed, by partition."""
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=within_s)[group]
    return {(at.topic, at.partition): at for at in asked.result().topic_partitions or ()}


def transaction(bootstrap: str, name: str) -> Producer:
    """A producer that has begun a transaction under this name."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, **_QUIET})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    return producer


def trim(bootstrap: str, topic: str, partitions: Iterable[int], offset: int = OFFSET_END) -> None:
    """Delete records before an offset as retention does; all of them by default."""
    admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})
    for future in admin.delete_records([TopicPartition(topic, each, offset) for each in partitions]).values():
        future.result(_SECONDS)
