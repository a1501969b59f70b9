"""`ragweir dead-letter` on a real broker: rejected records looked at safely, and sent again once after a fix."""

import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import conftest
import orjson
import pytest
from commands import begun, evaluating, ragweir, settled, told
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, read_to_end
from hypothesis import given
from hypothesis import strategies as st
from poison import event
from services import eventually

from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.analysis.dead_letters import redrive as redriving
from ragweir.streams.analysis.dead_letters.redrive import Redrive, RedriveOptions
from ragweir.streams.analysis.dead_letters.redrive_progress import RedriveProgress
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.settings import load

PARTITIONS = 3
MAP = 'event_id = "event_id"\nquery = "query"\nresponse = "answer"\nended_at = "ended_at"\n'
SENT_MS = int(time.time() - 3600) * 1000
"""When the records were written: a while ago, but not so long that retention takes them."""

Header = tuple[str, str | bytes | None]


def topics(kafka: SharedBroker, prefix: str) -> None:
    ours = {"max.message.bytes": str(max_record_bytes())}
    for name, partitions in (("interactions", 2), ("redrive", 2), ("evaluations", 2), ("dead-letter", PARTITIONS)):
        create_topic(kafka.bootstrap, prefix + name, partitions, ours)


def foreign(number: int, **fields: Any) -> bytes:
    """An event whose answer has another name than ours, so that it lacks a response."""
    return orjson.dumps({"event_id": f"e{number}", "query": "Is it?", "answer": f"It is {number}.", **fields})


def put(kafka: SharedBroker, topic: str, records: Iterable[tuple[bytes | None, bytes | None, list[Header]]]) -> None:
    """Append (key, value, headers) where Java's client would."""
    producer = Producer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "partitioner": "murmur2_random",
            "message.max.bytes": 10_000_000,
            "log_level": 0,
        }
    )
    for key, value, headers in records:
        producer.produce(topic, value, key, headers=headers, timestamp=SENT_MS)
    assert producer.flush(30) == 0


def write_letters_of(kafka: SharedBroker, prefix: str, values: Iterable[tuple[bytes, bytes | None]]) -> None:
    """Have the evaluate agent reject these (key, value), without a service, and write its dead letters."""
    agent = EvaluateAgent(EvaluateConfig(Catalogue([])))
    records = [
        Record(f"{prefix}interactions", 0, offset, key, value, SENT_MS + offset)
        for offset, (key, value) in enumerate(values)
    ]
    emissions = agent.handle(records).emissions
    assert {emission.topic for emission in emissions} == {"dead-letter"}
    put(kafka, f"{prefix}dead-letter", [(each.key, each.value, [*each.headers]) for each in emissions])


def dead_letter(kafka: SharedBroker, prefix: str, *words: str | Path, columns: str = "200", **variables: str) -> str:
    """What `ragweir dead-letter` prints; nothing may go wrong."""
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "dead-letter")
    done = ragweir(*shared, *words, COLUMNS=columns, **variables)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def redriven(kafka: SharedBroker, prefix: str) -> list[Message]:
    return read_to_end(kafka.bootstrap, f"{prefix}redrive")


def mapped(folder: Path) -> Path:
    file = folder / "map.toml"
    file.write_text(MAP)
    return file


def committed(kafka: SharedBroker, prefix: str) -> dict[int, tuple[int, str | None]]:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    found = conftest.committed(admin, f"{prefix}redrive").values()
    return {at.partition: (at.offset, at.metadata) for at in found}


@pytest.mark.heavy
def test_redrive_through_a_map_makes_evaluations_of_dead_letters(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """What lacked a field is evaluated once a map gives it; the second redrive changes nothing."""
    topics(kafka, prefix)
    whole = {f"e{number}" for number in range(40)}
    values: list[tuple[bytes | None, bytes | None, list[Header]]] = [
        (f"e{number}".encode(), foreign(number), []) for number in range(40)
    ]
    values += [(b"torn", b"{", []), (b"gone", None, []), (b"huge", event(query="x" * 1_100_000), [])]
    values += [(b"early", foreign(0, event_id="early", ended_at="2026-01-02T03:04:05Z"), [])]
    put(kafka, f"{prefix}interactions", values)
    with evaluating(kafka.bootstrap, prefix, tmp_path):
        eventually(lambda: len(read_to_end(kafka.bootstrap, f"{prefix}dead-letter")) == 44, "all are refused")
        listed = dead_letter(kafka, prefix, "list")
        assert re.search(r"41 invalid of evaluate: response: missing; .*\n    41 waiting; from ", listed)
        assert "1 too_large of evaluate: the event is over the limit of 1048576 bytes\n    0 waiting;" in listed

        dry = dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path), "--dry-run")
        assert dry.startswith(f"41 would be sent to {prefix}redrive\n1 would still be rejected")
        assert "1  not JSON" in dry
        assert "2 hold no whole event" in dry
        assert redriven(kafka, prefix) == []
        assert committed(kafka, prefix) == {}

        done = dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path))
        assert done == dry.replace("would be sent", "sent")
        sent = redriven(kafka, prefix)
        assert Counter(message.key() for message in sent) == Counter([*map(str.encode, whole), b"early"])
        ends = {(f"{prefix}redrive", each.partition()): each.offset() + 1 for each in sent}
        settled(kafka.bootstrap, f"{prefix}evaluate", ends)
        before = committed(kafka, prefix)
        again = dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path))
        assert again.startswith(f"0 sent to {prefix}redrive\n1 would still be rejected")
        assert len(redriven(kafka, prefix)) == 41
        assert committed(kafka, prefix) == before
    evaluations = conftest.values(kafka.bootstrap, f"{prefix}evaluations")
    assert sorted(each["event_id"] for each in evaluations) == sorted(whole | {"early"})
    times = {each["event_id"]: datetime.fromisoformat(each["event_time"]) for each in evaluations}
    assert times.pop("early") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert set(times.values()) == {datetime.fromtimestamp(SENT_MS / 1000, UTC)}, "a redrive must not move an event"
    assert len(read_to_end(kafka.bootstrap, f"{prefix}dead-letter")) == 44
    settled_now = dead_letter(kafka, prefix, "list")
    assert re.search(r"41 invalid of evaluate: response: missing; .*\n    0 waiting", settled_now)


@pytest.mark.heavy
def test_without_a_map_the_bytes_are_sent_as_they_were(kafka: SharedBroker, prefix: str) -> None:
    """An event that would now be accepted keeps its key and every byte, even those that we would write otherwise."""
    topics(kafka, prefix)
    value = b' {"event_id":"a",  "query":"q", "response":"r", "ended_at":"2026-11-21T10:00:00Z", "x": [1.0, 1e2]}\n'
    timeless = b' {"event_id":"b",  "query":"q", "response":"r", "ended_at":null, "x": [1.0, 1e2]}\n'
    headers = [("ragweir-error-class", b"unreadable"), ("ragweir-message", b"m"), ("ragweir-source-topic", b"t")]
    place: list[Header] = [("ragweir-source-partition", b"1"), ("ragweir-source-offset", b"7")]
    stamp: list[Header] = [("ragweir-source-timestamp", b"1790000000123"), ("ce_source", b"ragweir/evaluate")]
    said = [*headers, *place, *stamp]
    put(kafka, f"{prefix}dead-letter", [(b"\xff\x00key", value, said), (None, timeless, said)])
    dead_letter(kafka, prefix, "redrive")
    first, second = sorted(redriven(kafka, prefix), key=lambda message: message.key() or b"")[::-1]
    assert (first.key(), first.value()) == (b"\xff\x00key", value)
    assert second.key() is None
    assert second.value() == timeless.rstrip()[:-1] + b',"ended_at":"2026-09-21T14:13:20.123000Z"}'
    assert dict(first.headers()).items() >= dict([*headers, *place]).items(), "it tells where it came from"


@pytest.mark.heavy
def test_an_input_topics_own_map_is_used_without_being_asked_for(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """The redrive topic is read as ours, so what came from a foreign topic goes through the map in the settings."""
    topics(kafka, prefix)
    write_letters_of(kafka, prefix, [(b"1", foreign(1))])
    assert dead_letter(kafka, prefix, "redrive").startswith("0 sent")
    other = {"RAGWEIR_INPUT__MAP": str(mapped(tmp_path)), "RAGWEIR_INPUT__TOPIC": "another"}
    assert dead_letter(kafka, prefix, "redrive", **other).startswith("0 sent")
    own = other | {"RAGWEIR_INPUT__TOPIC": f"{prefix}interactions"}
    assert dead_letter(kafka, prefix, "redrive", **own).startswith("1 sent")
    assert orjson.loads(redriven(kafka, prefix)[0].value()).keys() == {"event_id", "query", "response", "ended_at"}


@pytest.mark.heavy
def test_what_is_left_is_sent_later_and_nothing_twice(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Letters of other classes, and those still rejected, stay for a later redrive, in whatever order they stand."""
    topics(kafka, prefix)
    values = [
        (
            f"{number}".encode(),
            foreign(number) if number % 3 else b"{}" if number % 2 else b"{",
        )
        for number in range(300)
    ]
    write_letters_of(kafka, prefix, values)
    waiting = {key for key, value in values if b"answer" in (value or b"")}
    assert dead_letter(kafka, prefix, "redrive", "--class", "invalid").startswith("0 sent")
    wrong = dead_letter(kafka, prefix, "redrive", "--class", "not_json", "--map", mapped(tmp_path))
    assert wrong.startswith("0 sent")
    done = dead_letter(kafka, prefix, "redrive", "--class", "invalid", "--map", mapped(tmp_path))
    assert done.startswith("200 sent")
    assert Counter(message.key() for message in redriven(kafka, prefix)) == Counter(waiting)
    assert dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path)).startswith("0 sent")
    write_letters_of(kafka, prefix, [(b"new", foreign(1_000))])
    assert dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path)).startswith("1 sent")
    assert Counter(message.key() for message in redriven(kafka, prefix)) == Counter(waiting | {b"new"})


@pytest.mark.heavy
def test_what_cannot_be_noted_is_not_passed(
    kafka: SharedBroker, prefix: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where no more letters can be noted as left, a partition is read no further, and nothing of it is lost."""
    topics(kafka, prefix)
    values = [(f"{number}".encode(), b"{" if number * number % 7 < 3 else foreign(number)) for number in range(300)]
    write_letters_of(kafka, prefix, values)
    monkeypatch.setattr(redriving, "_METADATA_CHARACTERS", 30)
    monkeypatch.setattr(redriving, "_BATCH_LETTERS", 10)
    redrive = Redrive(load(None, {"kafka": {"bootstrap_servers": kafka.bootstrap}, "topics": {"prefix": prefix}}))
    only = RedriveOptions("invalid", lambda _: FieldMap.parse(MAP), lambda each: each.record.value or b"", 2**20)
    report = redrive(only, dry_run=False, watch=lambda _: lambda _: None)
    assert report.full == {0, 1, 2}
    assert 0 < report.results.total() < 300
    assert all(len(metadata or "") <= 30 for _, metadata in committed(kafka, prefix).values())
    monkeypatch.undo()
    dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path))
    wanted = Counter(key for key, value in values if value != b"{")
    assert Counter(message.key() for message in redriven(kafka, prefix)) == wanted


@given(st.integers(0, 2**62), st.frozensets(st.integers(0, 2**62)))
def test_what_is_left_survives_being_written(offset: int, left: frozenset[int]) -> None:
    """Progress is read back from its offset and metadata as it was."""
    progress = RedriveProgress(offset, left)
    assert RedriveProgress.committed(offset, progress.metadata()) == progress


# A redrive that sends itself a signal at one of its commits: with all on the broker and only the commit missing, or
# right after it.
HURT = """
import os, signal, sys
from ragweir.streams.commands import main
from ragweir.streams.analysis.dead_letters import redrive
from ragweir.streams.runtime.kafka import transactional_producer as sending

moment, turn, how = sys.argv.pop(1), int(sys.argv.pop(1)), signal.Signals[sys.argv.pop(1)]
redrive._BATCH_LETTERS = 25

class Hurt:
    def __init__(self, producer):
        self.producer, self.commits = producer, 0
    def __getattr__(self, name):
        return getattr(self.producer, name)
    def commit_transaction(self, timeout):
        self.commits += 1
        if (self.commits, moment) == (turn, "before"):
            self.producer.flush(10)
            os.kill(os.getpid(), how)
        self.producer.commit_transaction(timeout)
        if (self.commits, moment) == (turn, "after"):
            os.kill(os.getpid(), how)

plain = sending.build
sending.build = lambda *given: Hurt(plain(*given))
main()
"""


def hurt(
    kafka: SharedBroker, prefix: str, moment: str, turn: int, how: str, *words: str | Path
) -> subprocess.Popen[bytes]:
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    program = (sys.executable, "-c", HURT, moment, str(turn), how)
    return begun(*shared, "dead-letter", "redrive", *words, before=program)


def test_kills_neither_lose_nor_double(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """SIGKILL before and after commits, time and again: in the end each letter was sent once."""
    topics(kafka, prefix)
    write_letters_of(kafka, prefix, [(f"{number}".encode(), foreign(number)) for number in range(400)])
    for moment, turn in (("before", 1), ("before", 3), ("after", 2), ("after", 1), ("before", 2)):
        process = hurt(kafka, prefix, moment, turn, "SIGKILL", "--map", mapped(tmp_path))
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
    already = len(read_to_end(kafka.bootstrap, f"{prefix}redrive", "read_uncommitted"))
    assert already > 150, "the kills were in the middle"
    dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path))
    assert Counter(each.key() for each in redriven(kafka, prefix)) == Counter(
        f"{number}".encode() for number in range(400)
    )
    assert dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path)).startswith("0 sent")


@pytest.mark.heavy
def test_two_redrives_at_once_send_nothing_twice(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """One that is overtaken by another commits nothing more, and says so in a sentence."""
    topics(kafka, prefix)
    write_letters_of(kafka, prefix, [(f"{number}".encode(), foreign(number)) for number in range(100)])
    first = hurt(kafka, prefix, "before", 2, "SIGSTOP", "--map", mapped(tmp_path))
    try:
        eventually(
            lambda: len(read_to_end(kafka.bootstrap, f"{prefix}redrive", "read_uncommitted")) >= 50, "it is at work"
        )
        eventually(lambda: Path(f"/proc/{first.pid}/stat").read_text().split()[2] == "T", "it stands still")
        assert dead_letter(kafka, prefix, "redrive", "--map", mapped(tmp_path)).startswith("75 sent")
    finally:
        first.send_signal(signal.SIGCONT)
    out, error = first.communicate(timeout=120)
    assert "the same command goes on" in told(subprocess.CompletedProcess([], first.returncode, out, error))
    assert Counter(each.key() for each in redriven(kafka, prefix)) == Counter(
        f"{number}".encode() for number in range(100)
    )


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe \u2028 [red]:smile:[/red] [/] \\x1b C:\\n \x00\x08\r"


@pytest.mark.heavy
def test_hostile_bytes_are_shown_safely(kafka: SharedBroker, prefix: str) -> None:
    """Whatever values, keys and headers hold, a terminal gets printable characters, and can tell what they were."""
    topics(kafka, prefix)
    said: list[Header] = [
        ("ragweir-error-class", b"invalid"),
        ("ragweir-message", HOSTILE.encode()),
        ("ragweir-source-topic", HOSTILE.encode()),
        ("ragweir-source-partition", b"0"),
        ("ragweir-source-offset", b"0"),
        ("ragweir-source-timestamp", b"9" * 30),
        ("ragweir-sha256", HOSTILE.encode()),
        ("ragweir-length", b"5"),
        ("ce_source", b"\xff" + HOSTILE.encode()),
        (f"x{HOSTILE}", HOSTILE.encode() + b"\xff"),
    ]
    value = HOSTILE.encode() + b"\xff\xfe\xc0\xaf" + "\U000e0041".encode()
    letters = [(HOSTILE.encode() + b"\xff", value, said), (None, None, said), (b"", b"x" * 5_000, said)]
    put(kafka, f"{prefix}dead-letter", [*letters, (b"k", b"v", [("ragweir-error-class", b"\xff")])])
    for words in (("list",), ("show",), ("redrive", "--dry-run"), ("show", "--class", "invalid", "--limit", "2")):
        printed = dead_letter(kafka, prefix, *words, columns="40")
        assert all(character.isprintable() for character in printed.replace("\n", "")), words
    printed = dead_letter(kafka, prefix, "show", columns="2000")
    for seen in (r"\x1b[2J\x1b]0;owned\x07", r"\x9b31m \u202egnp.exe \u2028", "[red]:smile:[/red] [/]"):
        assert len(re.findall(re.escape(seen), printed)) >= 5
    assert r"\\x1b C:\\n \x00\x08\r\xff\xfe\xc0\xaf\U000e0041" in printed
    assert "… (3,000 more)" in printed
    assert "1 records there are no dead letters" in dead_letter(kafka, prefix, "list")


@pytest.mark.heavy
def test_show_bounds_what_is_shown(kafka: SharedBroker, prefix: str) -> None:
    """It shows the newest letters, as many as asked for, of one class."""
    topics(kafka, prefix)
    write_letters_of(kafka, prefix, [(f"{number}".encode(), b"{" if number % 2 else b"{}") for number in range(50)])
    printed = dead_letter(kafka, prefix, "show", "--limit", "3", "--class", "not_json")
    assert re.findall(rf"read at +{re.escape(prefix)}interactions/0/(\d+), ", printed) == sorted(
        re.findall(r"key +(\d+)", printed), key=int
    )
    assert printed.count("as not_json: not JSON") == 3
    assert "as invalid" not in printed


def test_wrong_use_is_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    """An unknown class and topics that are not there are told in one line."""
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "dead-letter")
    unknown = ragweir(*shared, "redrive", "--class", "bad")
    assert unknown.returncode == 2
    assert "there is no error class 'bad'; there are too_large, tombstone" in told(unknown)
    for words in (("list",), ("show",), ("redrive",)):
        missing = ragweir(*shared, *words)
        assert missing.returncode == 1
        assert "`ragweir topics create` makes ours" in told(missing)


@pytest.mark.heavy
def test_letters_on_which_processes_ended_are_sent_by_force_only(kafka: SharedBroker, prefix: str) -> None:
    """They are listed, left without a look at what they hold, and noted as left; `--force` sends them, once."""
    topics(kafka, prefix)
    value = orjson.dumps({"event_id": "a", "query": "q", "response": "r"})
    place: list[Header] = [("ragweir-source-partition", b"1"), ("ragweir-source-offset", b"7")]
    said: list[Header] = [
        ("ragweir-message", b"m"),
        ("ragweir-source-topic", b"t"),
        *place,
        ("ragweir-source-timestamp", b"1790000000123"),
        ("ce_source", b"ragweir/evaluate"),
    ]
    fatal: list[Header] = [("ragweir-error-class", b"fatal"), *said]
    put(
        kafka,
        f"{prefix}dead-letter",
        [
            (b"1", value, fatal),
            (b"2", b"{", fatal),
            (b"3", value, [("ragweir-error-class", b"unreadable"), *said]),
        ],
    )
    assert "2 fatal of evaluate: m\n    2 waiting" in dead_letter(kafka, prefix, "list")
    for words in (("--dry-run",), (), ("--class", "fatal")):
        done = dead_letter(kafka, prefix, "redrive", *words)
        assert "2 are of class fatal and were left for later" in done
        assert "still be rejected" not in done, "nobody looks at what they hold"
        assert "--force" in done
    assert [message.key() for message in redriven(kafka, prefix)] == [b"3"]
    forced = dead_letter(kafka, prefix, "redrive", "--force")
    assert forced.startswith(f"1 sent to {prefix}redrive\n1 would still be rejected")
    assert sorted(message.key() or b"" for message in redriven(kafka, prefix)) == [b"1", b"3"]
    assert dead_letter(kafka, prefix, "redrive", "--force").startswith("0 sent")
