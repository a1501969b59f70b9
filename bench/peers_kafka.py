"""ragweir's loops on Kafka and other packages', on the same events, machine and run.

The output of each loop is read again and compared with ragweir's, record by record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from statistics import median

from rich.progress import Progress
from rich.table import Table

from bench.interactions import interactions
from bench.kafka_loops import (
    BATCH,
    INTERVAL_MS,
    PARTITIONS,
    RAGWEIR,
    Loop,
    LoopTask,
    measure,
    pinned_kafka,
    publish,
    topics,
)
from bench.peer_loops import LOOPS
from ragweir.streams.runtime.kafka.reader import offset_range, read

EVENTS = 60_000
EVALUATED_PART = 4
"""Events of null work for each event that is evaluated, since evaluating takes longer."""
ROUNDS = 3

Hashes = Mapping[bytes | None, int]
"""The hash of the value under each key."""


@dataclass(slots=True)
class _Rounds:
    """Measurements of one loop on one kind of work; a loop that failed is not run again."""

    rates: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    written: str = ""
    error: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return rate, ratio with its minimum and maximum, CPU time, and the state of the output."""
        if self.error:
            return ("", "", "", self.error)
        spread = f" ({min(self.ratios):.2f} to {max(self.ratios):.2f})" if len(self.ratios) > 1 else ""
        ratio = f"{median(self.ratios):.2f}{spread}" if self.ratios else ""
        return f"{median(self.rates):,.0f}", ratio, f"{median(self.cpu_us):,.1f}", self.written

    def run(self, loop: Loop, task: LoopTask, ours: tuple[Hashes, float]) -> tuple[Hashes, float]:
        """Measure the loop once; return the hashes of its output and its rate.

        Args:
            loop: the loop.
            task: its task.
            ours: the same of ragweir's loop in this round; empty and 0 for itself.
        """
        if self.error:
            return {}, 0.0
        with topics(task.bootstrap, *task.topics):
            try:
                measured = measure(loop, task)
            except ChildProcessError as error:
                self.error = f"could not be run: {error}"
                return {}, 0.0
            hashes = self._check(task, ours[0])
        self.rates.append(measured.rate)
        self.cpu_us.append(measured.cpu_us)
        reference = measured.rate if loop is RAGWEIR else ours[1]
        self.ratios += [measured.rate / reference] if reference else []
        return hashes, measured.rate

    def _check(self, task: LoopTask, ours: Hashes) -> Hashes:
        """Read the committed output, and note how it compares with ragweir's."""
        hashes, total = {}, 0
        for record in read(task.settings, offset_range(task.settings, task.output)):
            hashes[record.key] = hash(record.value)
            total += 1
        if len(hashes) < task.events:
            self.error = f"wrote {len(hashes):,} of {task.events:,} events"
        twice = f", {total - len(hashes):,} twice" if total > len(hashes) else ", each once"
        differ = sum(hashes.get(key) != value for key, value in ours.items())
        same = f", {differ:,} unlike ragweir's" if differ else ", as ragweir's" if ours else ""
        self.written = f"all {len(hashes):,}{twice}{same}"
        return hashes


_CAPTION = f"""\
One worker each on one core, {PARTITIONS} partitions, events of 4.5 KB, one broker on another core, lz4 and acks=all
for all; each loop commits after {INTERVAL_MS:,} ms under a backlog, where it is exactly once. All evaluate by ragweir's
agent. Loops that take batches take up to {BATCH:,} events; the others take one at a time. Null work writes the first
3,500 bytes again; evaluate decodes, scores by the whole catalogue and encodes. Time runs from the first event handled
until the last output is committed, or acknowledged where the loop is at least once. Ratios are of events/s within a
round; figures are medians. Guarantees are those that each package states: `make chaos` tests ragweir's."""


def table(events: int = EVENTS, rounds: int = ROUNDS, names: str = "") -> Table:
    """Return one row per work and loop; besides ragweir only loops whose name contains `names`."""
    loops = [loop for loop in LOOPS if loop is RAGWEIR or names in loop.name]
    counts = {"null": events, "evaluate": max(1, events // EVALUATED_PART)}
    found = {(work, loop.name): _Rounds() for work in counts for loop in loops}
    inputs = {work: f"input.{work}" for work in counts}
    with pinned_kafka() as (broker, core), topics(broker.bootstrap, *inputs.values()), Progress(transient=True) as bar:
        done = bar.add_task("Loops", total=rounds * len(found))
        for work, count in counts.items():
            publish(broker.bootstrap, inputs[work], interactions(count))
        for number in range(rounds):
            # ragweir first, for comparison. The order of the others alternates, as the machine may warm up.
            others = loops[1:] if number % 2 == 0 else loops[:0:-1]
            for work, count in counts.items():
                ours: tuple[Hashes, float] = {}, 0.0
                for loop in (RAGWEIR, *others):
                    bar.update(done, description=f"{work}: {loop.name}")
                    prefix = f"peers{number}.{work}.{loops.index(loop)}."
                    task = LoopTask(broker.bootstrap, prefix, inputs[work], work, count, core=core)
                    run = found[work, loop.name].run(loop, task, ours)
                    ours = run if loop is RAGWEIR else ours
                    bar.advance(done)
    numbers = " and ".join(f"{count:,} events ({work})" for work, count in counts.items())
    columns = ("loop", "version", "guarantee", "work", "events/s", "ratio to ragweir", "CPU µs per event", "written")
    result = Table(*columns, title=f"Loops on Kafka, {numbers}, {rounds} rounds", caption=_CAPTION)
    for work in counts:
        for loop in loops:
            result.add_row(loop.name, _version(loop.package), loop.guarantee, work, *found[work, loop.name].cells())
    return result


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
