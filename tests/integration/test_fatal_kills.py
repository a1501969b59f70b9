"""Kills, stalls and watchdogs while suspected records are tried: nothing healthy becomes a dead letter or is lost."""

import os
import signal
import time
from pathlib import Path

import pytest
from conftest import QUICK_BROKER, SharedBroker, read_to_end
from faults import Traffic, gone
from harm import CAUSES, Start, child, evaluations_to_sum, healthy, letters, metadata, publish, starting, works_in
from services import Services, eventually

from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.protection.delivery_attempts import MAX_ATTEMPTS


@pytest.fixture
def start(services: Services) -> Start:
    return starting(services)


@pytest.mark.heavy
def test_a_supervisor_finds_the_record_that_stops_workers(single: Traffic, start: Start) -> None:
    """A record whose evaluation never ends, and lets nothing else run: killed after the stall, then a dead letter."""
    publish(single, {7: "regex", 8: "abort", 30: "segv"})
    service = start(single, "--workers", "1")
    single.settled()
    assert [place for _, (_, place) in single.evaluations()] == [n for n in range(51) if n not in (7, 8, 30)]
    assert {letter.source_offset: (letter.error_class, letter.message) for letter in letters(single)} == {
        7: ("fatal", CAUSES["spin"]),
        8: ("fatal", CAUSES["abort"]),
        30: ("fatal", CAUSES["segv"]),
    }
    assert service.logged("is stalled", level="error")
    assert metadata(single).fatal == (7, 8, 30)
    assert service.stop() == 0


@pytest.mark.heavy
def test_kills_bury_nothing(single: Traffic, start: Start) -> None:
    """Workers, and the processes that try records for them, are killed again and again, and the records are healthy."""
    publish(single, dict.fromkeys(range(51), "nap"))
    for life in range(4):
        worker = start(single, "--slot", "0")
        eventually(lambda life=life: metadata(single).attempts == life + 1, "it begins on the records")
        for moment_s in (0.2, 2.0, 4.0) if life else ():
            trying = eventually(lambda worker=worker: child(worker.process.pid), "records are tried")
            time.sleep(moment_s)
            os.kill(trying, signal.SIGKILL)
            eventually(lambda trying=trying: gone(trying), "it is gone")
        worker.send(signal.SIGKILL)
        worker.ended()
    assert worker.logged("the process that tries records")
    start(single, "--slot", "0")
    healthy(single)


@pytest.mark.long
def test_a_record_whose_trials_are_killed_is_waited_for(single: Traffic, start: Start, tmp_path: Path) -> None:
    """As where the kernel kills, for want of memory: the worker leaves, without a dead letter or a gap."""
    publish(single, {20: "kill"})
    harmful = tmp_path / "harmful"
    harmful.touch()
    for status in (-signal.SIGKILL, 1):
        worker = start(single, "--slot", "0", variables={"HARMFUL": str(harmful)})
        assert worker.ended() == status
    assert worker.logged("ended from outside again and again", level="error")
    assert single.evaluations() == []
    harmful.unlink()
    start(single, "--slot", "0", variables={"HARMFUL": str(harmful)})
    healthy(single)


@pytest.mark.heavy
def test_a_watchdog_and_a_broker_that_stands_still_bury_nothing(prefix: str, start: Start, tmp_path: Path) -> None:
    """A worker leaves as calls to Kafka do not come back, with its first records in hand, more than once."""
    with local_kafka(folder=tmp_path / "kafka", properties=QUICK_BROKER) as broker:
        java = next(
            int(each.name)
            for each in Path("/proc").glob("[0-9]*")
            if works_in(each) == tmp_path / "kafka" and b"kafka.Kafka" in (each / "cmdline").read_bytes()
        )
        traffic = Traffic(broker.bootstrap, prefix, partitions=1)
        publish(traffic, dict.fromkeys(range(51), "nap"))
        hangs = tmp_path / "hangs"
        for life in range(2):
            worker = start(traffic, "--slot", "0", variables={"HANGS": str(hangs)})
            eventually(lambda life=life: metadata(traffic).attempts == life + 1, "it begins on the records")
            hangs.with_suffix(".new").write_text(str(java))
            hangs.with_suffix(".new").rename(hangs)
            assert worker.ended() == 1
            hangs.unlink()
            os.kill(java, signal.SIGCONT)
            traffic.reconnect()
            assert worker.logged("a call to Kafka does not come back")
        start(traffic, "--slot", "0")
        healthy(traffic)


@pytest.mark.long
def test_a_worker_that_was_stopped_for_a_while_is_replaced_and_writes_no_dead_letter(
    single: Traffic, start: Start
) -> None:
    """SIGSTOP with records in hand: the supervisor ends the worker after the stall, and the next one goes on."""
    publish(single, dict.fromkeys(range(51), "nap"))
    service = start(single, "--workers", "1")
    eventually(lambda: metadata(single).attempts == 1, "it begins on the records")
    first = service.pid(0)
    os.kill(first, signal.SIGSTOP)
    eventually(lambda: gone(first), "it is ended")
    healthy(single)
    assert service.logged("is stalled", level="error")


@pytest.mark.long
def test_kills_never_stop_aggregate_for_good(kafka: SharedBroker, prefix: str, start: Start) -> None:
    """However often it is killed with its first records handled and not committed, the next one goes on."""
    traffic = evaluations_to_sum(kafka, prefix, start, {})
    for _ in range(MAX_ATTEMPTS + 1):
        killed = start(traffic, "--slot", "0", service="aggregate", variables={"DIES": "1"})
        assert killed.ended() == -signal.SIGKILL
        assert metadata(traffic, "aggregate", "evaluations").attempts < 2
    start(traffic, "--slot", "0", service="aggregate")
    topic = f"{prefix}windows"
    eventually(
        lambda: any(b"progress" not in (each.key() or b"") for each in read_to_end(kafka.bootstrap, topic)),
        "windows are written",
    )
    assert metadata(traffic, "aggregate", "evaluations").attempts == 0
