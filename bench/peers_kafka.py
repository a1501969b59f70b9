"""ragweir's loops on Kafka beside other packages', on the same events, machine and run, each in a process of its own.

What each has written is read again and compared with what ragweir wrote, record by record.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

import structlog
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.progress import Progress
from rich.table import Table

from bench.interactions import interactions
from bench.kafka_to_kafka import PARTITIONS
from bench.peer_loops import BATCH, LOOPS, OURS, Loop, Measured, Meter, Task
from ragweir.streams.kafka.reader import offset_range, read
from ragweir.streams.playground.local.kafka import local_kafka

EVENTS = 60_000
EVALUATED_PART = 4
"""Of the events of the null work, one in so many is evaluated: it takes that much longer."""
ROUNDS = 3
_PATIENCE_S = 900.0
_STOP_S = 3.0


def _work(loop: Loop, task: Task, pipe: Any) -> None:
    """A process of its own: runs one loop until it is done or ended."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    logging.disable(logging.WARNING)
    try:
        loop.run(task, Meter(task.agent(), task.events, pipe.send))
    except BaseException as error:  # noqa: BLE001, RUF100 (a peer that cannot run is a row of the table)
        with suppress(OSError):
            pipe.send(Measured(why=" ".join(f"{type(error).__name__}: {error}".split())[:200]))


def measure(loop: Loop, task: Task) -> Measured:
    """Run one loop on one task."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe(duplex=False)
    process = spawn.Process(target=_work, args=(loop, task, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_PATIENCE_S):
            return Measured(why=f"not done after {_PATIENCE_S:.0f} s")
        measured: Measured = ours.recv()
    except EOFError:
        process.join(_STOP_S)
        return Measured(why=f"its process ended with {process.exitcode}")
    else:
        return measured
    finally:
        process.join(_STOP_S)
        process.kill()
        process.join()


@dataclass(slots=True)
class Standing:
    """What the rounds of one loop and work have come to."""

    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    written: str = ""
    why: str = ""

    def cells(self) -> tuple[str, ...]:
        """Rate, ratio with its least and most, CPU, and what was written."""
        if self.why:
            return ("", "", "", self.why)
        spread = f" ({min(self.ratios):.2f} to {max(self.ratios):.2f})" if len(self.ratios) > 1 else ""
        ratio = f"{median(self.ratios):.2f}{spread}" if self.ratios else ""
        return f"{median(self.rates):,.0f}", ratio, f"{median(self.cpu):,.1f}", self.written


Written = Mapping[bytes | None, int]
"""What was written under each key, by its hash."""


def written(task: Task) -> tuple[Written, int]:
    """What stands in the output for a reader of committed records, and how many records there are."""
    found, total = {}, 0
    for record in read(task.settings, offset_range(task.settings, task.output)):
        found[record.key] = hash(record.value)
        total += 1
    return found, total


def _checked(task: Task, ours: Written | None) -> tuple[Written, str, str]:
    """What was written, that in words, and what is wrong with it."""
    found, total = written(task)
    if len(found) < task.events:
        return found, "", f"wrote {len(found):,} of {task.events:,} events"
    twice = f", {total - len(found):,} twice" if total > len(found) else ", each once"
    differ = sum(found.get(key) != value for key, value in (ours or {}).items())
    same = f", {differ:,} unlike ragweir's" if differ else ", as ragweir's" if ours else ""
    return found, f"all {len(found):,}{twice}{same}", ""


def table(events: int = EVENTS, rounds: int = ROUNDS, names: str = "") -> Table:
    """One row per work and loop; beside ours only those whose name has this in it."""
    loops = [loop for loop in LOOPS if loop is OURS or names in loop.name]
    counts = {"null": events, "evaluate": max(1, events // EVALUATED_PART)}
    standings = {(work, loop.name): Standing() for work in counts for loop in loops}
    with local_kafka() as broker, Progress(transient=True) as bar:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        done = bar.add_task("Loops", total=rounds * len(standings))
        for work, count in counts.items():
            _publish(admin, broker.bootstrap, f"input.{work}", count)
        for number in range(rounds):
            for work, count in counts.items():
                # Ours first: the others are compared with it. The others in turn from either end, should one warm up.
                order = [OURS, *(loops[1:] if number % 2 == 0 else reversed(loops[1:]))]
                ours: tuple[Written | None, float] = None, 0.0
                for loop in order:
                    bar.update(done, description=f"{work}: {loop.name}")
                    standing = standings[work, loop.name]
                    prefix = f"peers{number}.{work}.{loops.index(loop)}."
                    task = Task(broker.bootstrap, prefix, f"input.{work}", work, count)
                    found, rate = _round(admin, loop, task, standing, ours)
                    if loop is OURS:
                        ours = found, rate
                    bar.advance(done)
    return _told(loops, standings, counts, rounds)


def _round(
    admin: AdminClient, loop: Loop, task: Task, standing: Standing, ours: tuple[Written | None, float]
) -> tuple[Written | None, float]:
    """Measure once and add it to the standing; gives what was written, and events a second."""
    if standing.why:
        return None, 0.0
    topics = [NewTopic(f"{task.prefix}{name}", PARTITIONS) for name in ("evaluations", "dead-letter", "redrive")]
    for future in admin.create_topics(topics).values():
        future.result(30)
    time.sleep(1)
    try:
        measured = measure(loop, task)
        if measured.why:
            standing.why = f"could not be run: {measured.why}"
            return None, 0.0
        found, standing.written, standing.why = _checked(task, ours[0])
        rate = measured.events / measured.seconds
        standing.rates.append(rate)
        standing.cpu.append(measured.cpu_s / measured.events * 1e6)
        reference = rate if loop is OURS else ours[1]
        standing.ratios += [rate / reference] if reference else []
        return found, rate
    finally:
        admin.delete_topics([topic.topic for topic in topics])


def _publish(admin: AdminClient, bootstrap: str, topic: str, count: int) -> None:
    admin.create_topics([NewTopic(topic, PARTITIONS)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "compression.type": "lz4", "log_level": 0})
    for number, value in enumerate(interactions(count)):
        producer.produce(topic, value, f"bench-{number}".encode())
        if number % 1_000 == 0:
            producer.poll(0.01)
    if producer.flush(60):
        raise RuntimeError("the broker did not take the events")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


_CAPTION = f"""\
One worker each, {PARTITIONS} partitions, events of 4.5 KB, one broker on the same cores, lz4 and acks=all for all.
Loops that take batches take up to {BATCH:,} events; the others take one at a time. Null work writes the first 3,500
bytes again; evaluate decodes, scores by the whole catalogue and encodes. Time runs from the first event handled until
the last output is committed, or acknowledged where the loop is at least once. Ratios are of events/s within a round;
figures are medians. Guarantees are what each package says of itself: `make chaos` puts ragweir's to the test."""


def _told(
    loops: Sequence[Loop], standings: Mapping[tuple[str, str], Standing], counts: Mapping[str, int], rounds: int
) -> Table:
    numbers = " and ".join(f"{count:,} events ({work})" for work, count in counts.items())
    result = Table(title=f"Loops on Kafka, {numbers}, {rounds} rounds", caption=_CAPTION)
    result.title_justify = result.caption_justify = "left"
    for name in ("loop", "version", "guarantee", "work", "events/s", "ratio to ragweir", "CPU µs per event", "written"):
        result.add_column(
            name, justify="right" if name in ("events/s", "ratio to ragweir", "CPU µs per event") else "left"
        )
    for work in counts:
        for loop in loops:
            cells = standings[work, loop.name].cells()
            result.add_row(loop.name, _version(loop.package), loop.guarantee, work, *cells)
    return result
