"""Measures the cost of the dearest events: CPU time and memory of each shape of `hostile`, from bytes to evaluation.

`python bench/worst.py` prints a table, the dearest shape last, and ends with status 1 when one is over the limits: a
second of CPU time and 200 MB for each MiB of the event, and at most half of the time for which a worker may stand
still. Each shape runs in a process of its own, a fork of one that has scored ordinary events, so that its peak of
memory is its own.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from rich.console import Console
from rich.table import Table

from bench import hostile
from bench.interactions import interactions
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.records import Record
from ragweir.streams.settings import RoutingSettings

MIB = 1024 * 1024
CPU_S = 1.0
"""Per MiB of the event, of which a smaller one counts as a whole."""
MEMORY_MB = 200
"""As `CPU_S`."""
MOST_CPU_S = 30.0
"""Half of the time for which a worker may stand still: CPU time is not all of the time that passes."""
_ROUNDS = 3
"""A shape over the limit is tried again, since a busy machine makes CPU time longer and never shorter."""
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one event."""

    shape: str
    size: int
    cpu_s: float
    memory_mb: float
    raised: int
    """The number of metrics that raised."""

    @property
    def fine(self) -> bool:
        """Return whether it is within the limits."""
        share = max(self.size / MIB, 1)
        return self.cpu_s <= min(share * CPU_S, MOST_CPU_S) and self.memory_mb <= share * MEMORY_MB and not self.raised


def _peak_mb() -> float:
    """The most memory that this process has taken since it was last forgotten."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _forget_peak() -> None:
    if _STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _agent(size: int) -> EvaluateAgent:
    """An agent as `ragweir evaluate` has it with a judge, warmed by ordinary events and by every kind of character."""
    catalogue = Catalogue(everything())
    router = Router(RoutingSettings(), catalogue, tuple(suites()))
    agent = EvaluateAgent(EvaluateConfig(catalogue, max_event_bytes=max(size, MIB), router=router))
    strange = hostile.event({"response": "\U00020000 保 e\u0301\u0378" + "\u0323\u0301" * 20})
    agent.handle([_record(value) for value in (*interactions(200), strange)])
    return agent


def _record(value: bytes) -> Record:
    return Record("interactions", 0, 0, None, value, None)


def _cost(agent: EvaluateAgent, shape: str, make: Callable[[int], hostile.Fields], size: int) -> Cost:
    """Measure the cost of the event of a shape in this process."""
    record = _record(hostile.sized(make, size))
    _forget_peak()
    before, began = _peak_mb(), process_time()
    outcome = agent.handle([record])
    spent = process_time() - began
    raised = sum(count for (name, *_), count in outcome.counts.items() if name == "ragweir_metric_errors_total")
    return Cost(shape, len(record.value or b""), spent, _peak_mb() - before, raised)


def measured(agent: EvaluateAgent, shape: str, make: Callable[[int], hostile.Fields], size: int) -> Cost:
    """Measure the cost in a process of its own: the least of some rounds, where the first is too much.

    Raises:
        ChildProcessError: if the process dies of it.
    """
    found: list[Cost] = []
    while not found or (not found[-1].fine and len(found) < _ROUNDS):
        reading, writing = os.pipe()
        if not (child := os.fork()):
            cost = _cost(agent, shape, make, size)
            os.write(writing, f"{cost.size} {cost.cpu_s} {cost.memory_mb} {cost.raised}".encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read().split()
        if os.waitpid(child, 0)[1]:
            raise ChildProcessError(f"the process died of {shape}")
        found.append(Cost(shape, int(told[0]), float(told[1]), float(told[2]), int(told[3])))
    return min(found, key=lambda cost: cost.cpu_s)


def costs(size: int, wanted: Sequence[str]) -> Iterator[Cost]:
    """The costs of every shape whose name has one of these words in it, or of all."""
    agent = _agent(size)
    for shape, make in hostile.shapes():
        if not wanted or any(word in shape for word in wanted):
            yield measured(agent, shape, make, size)


def table(whole: Iterable[Cost], half: Iterable[Cost]) -> Table:
    """One row per shape, the dearest last."""
    title = "The dearest events, one process each; a ratio of 2 is linear"
    result = Table("shape", "bytes", "CPU s", "MB", "CPU s of half the bytes", "ratio", title=title)
    halves = {cost.shape: cost.cpu_s for cost in half}
    for cost in sorted(whole, key=lambda cost: cost.cpu_s):
        of_half = halves[cost.shape]
        figures = f"{cost.size:,}", f"{cost.cpu_s:.3f}", f"{cost.memory_mb:.0f}", f"{of_half:.3f}"
        result.add_row(cost.shape, *figures, f"{cost.cpu_s / of_half:.1f}", style=None if cost.fine else "red")
    return result


def main() -> None:
    """Print the table and what is over the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=MIB, help="bytes of each event")
    parser.add_argument("--rows", type=int, default=40, help="rows of the table: the dearest shapes")
    parser.add_argument("shapes", nargs="*", help="only shapes with one of these words in their name")
    asked = parser.parse_args()
    whole = sorted(costs(asked.bytes, asked.shapes), key=lambda cost: cost.cpu_s)
    over = [cost for cost in whole if not cost.fine]
    shown = whole[-asked.rows :]
    half = list(costs(asked.bytes // 2, [cost.shape for cost in shown]))
    console = Console(width=150)
    console.print(table(shown, half))
    for cost in over:
        print(f"over the limits: {cost.shape}: {cost.cpu_s:.2f} s, {cost.memory_mb:.0f} MB, {cost.raised} raised")
    sys.exit(bool(over))


if __name__ == "__main__":
    main()
