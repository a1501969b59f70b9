"""A replay through Kafka of events that all differ: wall time, CPU and memory by phase, beside a bare loop.

The texts of each event are drawn anew, since repeated ones would be compressed away. Three million events need about
30 GB of disk and some hours of one core; the topics are deleted at the end, and the free space is checked before.
"""

from __future__ import annotations

import random
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import psutil
from rich.table import Table

from bench.interactions import interactions
from bench.kafka_loops import BARE, PARTITIONS, LoopTask, measure, publish, topics
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.processes.supervisor import own_command

EVENTS = 20_000
_SOURCE = "bench.input"
_RUN = "backfill"
_BYTES_PER_EVENT = 10_000
"""Bytes of disk that an event takes in all topics at most, compressed by half or not at all."""
_TEMPLATES = 1_000
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_SAMPLE_SECONDS = 1.0


def different(events: int, seed: int = 7) -> Iterator[bytes]:
    """Yield encoded events over a day, whose texts are words in orders of their own."""
    rng = random.Random(seed)
    templates = [orjson.loads(each) for each in interactions(_TEMPLATES)]
    for number in range(events):
        event = dict(templates[number % _TEMPLATES])
        began = _BEGIN + timedelta(seconds=86_400 * number / events)
        event |= {"event_id": f"backfill-{number}", "started_at": began, "ended_at": began + timedelta(seconds=2)}
        event["response"] = _shuffled(rng, event["response"])
        event["contexts"] = [each | {"text": _shuffled(rng, each["text"])} for each in event["contexts"]]
        yield orjson.dumps(event)


def _shuffled(rng: random.Random, text: str) -> str:
    """Return the words of a text in another order; one in eight is a number."""
    words = [str(rng.randrange(10**9)) if rng.random() < 1 / 8 else word for word in text.split(" ")]
    rng.shuffle(words)
    return " ".join(words)


class _Memory:
    """The largest memory of this process's descendants together, sampled every second, in MiB."""

    def __init__(self, root: int) -> None:
        self._root, self._stopped = psutil.Process(root), threading.Event()
        self.most = 0.0
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stopped.wait(_SAMPLE_SECONDS):
            with suppress(psutil.NoSuchProcess):  # One has ended meanwhile.
                processes = [self._root, *self._root.children(recursive=True)]
                self.most = max(self.most, sum(each.memory_info().rss for each in processes) / 2**20)

    def stop(self) -> float:
        """Stop sampling and return the maximum."""
        self._stopped.set()
        self._thread.join()
        return self.most


def _replay(bootstrap: str, folder: Path, workers: int) -> tuple[float, float, float]:
    """Replay all events; return the seconds, the CPU seconds of all processes, and the MiB of memory."""
    command = own_command("--bootstrap-servers", bootstrap, "replay")
    command += ["--run-id", _RUN, "--topic", _SOURCE, "--workers", str(workers), "--windows", str(folder / "windows")]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        memory = _Memory(running.pid)
        _, error = running.communicate()
        peak = memory.stop()
    if running.returncode:
        raise RuntimeError(error.decode()[-2_000:])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, cpu_s, peak


def table(events: int = EVENTS, workers: int = 1) -> Table:
    """Return one row for the bare loop, which only evaluates, and one for the whole replay with its windows.

    Raises:
        RuntimeError: if the disk has not enough room, or a loop fails.
    """
    with tempfile.TemporaryDirectory(prefix="ragweir-backfill-") as name:
        free = shutil.disk_usage(name).free
        if free < 2 * events * _BYTES_PER_EVENT:
            raise RuntimeError(
                f"{events:,} events need {2 * events * _BYTES_PER_EVENT:,} bytes of disk, and {free:,} are free"
            )
        title = f"Backfill of {events:,} different events, {PARTITIONS} partitions, the broker on the same cores"
        columns = ("way", "workers", "s", "events/s", "CPU µs per event", "peak MiB", "ratio")
        result = Table(*columns, title=title)
        with local_kafka() as broker, topics(broker.bootstrap, _SOURCE):
            publish(broker.bootstrap, _SOURCE, different(events))
            task = LoopTask(broker.bootstrap, "bare.", _SOURCE, "evaluate", events)
            with topics(broker.bootstrap, *task.topics):
                bare = measure(BARE, task)
            row = f"{bare.seconds:.0f}", f"{bare.rate:,.0f}", f"{bare.cpu_us:.0f}"
            result.add_row("bare loop, evaluates only", "1", *row, "", "1.00")
            seconds, cpu_s, peak = _replay(broker.bootstrap, Path(name), workers)
            rate = events / seconds
            row = f"{seconds:.0f}", f"{rate:,.0f}", f"{1e6 * cpu_s / events:.0f}"
            result.add_row(
                "ragweir replay, to its windows", str(workers), *row, f"{peak:,.0f}", f"{rate / bare.rate:.2f}"
            )
    return result
