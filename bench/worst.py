"""Measure CPU time and memory of each shape of `hostile`, from bytes to evaluation.

`python -m bench.worst` prints a table, the costliest shape last. The exit status is 1 if a shape exceeds the limits: a
second of CPU time and 200 MB for each MiB of the event, and at most half of the time after which a worker without
progress is restarted. Each shape is measured in a fork of a process that has scored ordinary events, to get its own
peak of memory.
"""

from __future__ import annotations

import argparse
import multiprocessing
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
from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.laws.corpus import Fields
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.settings import KernelSettings, RoutingSettings

MIB = 1024 * 1024
CPU_S = 1.0
"""Limit of the CPU time per MiB of the event; a smaller event counts as one MiB."""
MEMORY_MB = 200
"""Limit of the memory, as `CPU_S`."""
MOST_CPU_S = 30.0
"""Limit of the CPU time of any event: half of the time after which a worker without progress is restarted."""
_ROUNDS = 3
"""Attempts for a shape over the limit, since a busy machine makes CPU time longer and never shorter."""
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class EventCost:
    """The cost of one event."""

    shape: str
    size: int
    cpu_s: float
    memory_mb: float
    raised: int
    """The number of metrics that raised."""

    @property
    def within_limits(self) -> bool:
        """True if it is within the limits."""
        share = max(self.size / MIB, 1)
        return self.cpu_s <= min(share * CPU_S, MOST_CPU_S) and self.memory_mb <= share * MEMORY_MB and not self.raised


def _peak_mb() -> float:
    """Return the peak of this process's memory since the last reset."""
    if _STATUS.exists():
        line = next(line for line in _STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _reset_peak() -> None:
    if _STATUS.exists():
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def _agent(size: int, kernel: KernelSettings) -> EvaluateAgent:
    """Return the agent of `ragweir evaluate` with a judge, warmed up by ordinary events and every kind of character."""
    catalogue = Catalogue(everything(packs.SHIPPED))
    router = Router(RoutingSettings(), catalogue, tuple(suites()))
    counting = kernel_choice(kernel).counting
    agent = EvaluateAgent(EvaluateConfig(catalogue, counting=counting, max_event_bytes=max(size, MIB), router=router))
    strange = hostile.event({"response": "\U00020000 保 e\u0301\u0378" + "\u0323\u0301" * 20})
    agent.handle([_record(value) for value in (*interactions(200), strange)])
    return agent


def _record(value: bytes) -> Record:
    return Record("interactions", 0, 0, None, value, None)


def _cost(agent: EvaluateAgent, shape: str, make: Callable[[int], Fields], size: int) -> EventCost:
    """Measure the cost of the event of a shape in this process."""
    record = _record(hostile.sized(make, size))
    _reset_peak()
    before, began = _peak_mb(), process_time()
    outcome = agent.handle([record])
    spent = process_time() - began
    raised = sum(count for (name, *_), count in outcome.counts.items() if name == "ragweir_metric_errors_total")
    return EventCost(shape, len(record.value or b""), spent, _peak_mb() - before, raised)


def measured(agent: EvaluateAgent, shape: str, make: Callable[[int], Fields], size: int) -> EventCost:
    """Measure the cost in a new process; over the limits the minimum of some rounds.

    Raises:
        ChildProcessError: if the process ends on the event.
    """
    fork, found = multiprocessing.get_context("fork"), list[EventCost]()
    while not found or (not found[-1].within_limits and len(found) < _ROUNDS):
        receiver, sender = fork.Pipe(duplex=False)
        process = fork.Process(target=lambda to=sender: to.send(_cost(agent, shape, make, size)))
        process.start()
        sender.close()
        try:
            found.append(receiver.recv())
        except EOFError:
            raise ChildProcessError(f"the process ended on {shape}") from None
        process.join()
    return min(found, key=lambda cost: cost.cpu_s)


def costs(size: int, wanted: Sequence[str], kernel: KernelSettings) -> Iterator[EventCost]:
    """Yield the costs of the shapes whose names contain one of these words, or of all."""
    agent = _agent(size, kernel)
    for shape, make in hostile.shapes():
        if not wanted or any(word in shape for word in wanted):
            yield measured(agent, shape, make, size)


def table(whole: Iterable[EventCost], half: Iterable[EventCost], kernel: KernelSettings) -> Table:
    """Return one row per shape, the costliest last."""
    title = f"The costliest events, one process each; a ratio of 2 is linear; kernel: {kernel_choice(kernel)}"
    result = Table("shape", "bytes", "CPU s", "MB", "CPU s of half the bytes", "ratio", title=title)
    halves = {cost.shape: cost.cpu_s for cost in half}
    for cost in sorted(whole, key=lambda cost: cost.cpu_s):
        of_half = halves[cost.shape]
        figures = f"{cost.size:,}", f"{cost.cpu_s:.3f}", f"{cost.memory_mb:.0f}", f"{of_half:.3f}"
        result.add_row(cost.shape, *figures, f"{cost.cpu_s / of_half:.1f}", style=None if cost.within_limits else "red")
    return result


def main() -> None:
    """Print the table and the shapes over the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=MIB, help="bytes of each event")
    parser.add_argument("--rows", type=int, default=40, help="rows of the table: the costliest shapes")
    parser.add_argument("--kernel", choices=("auto", "never", "always"), default="auto", help="use of the kernel")
    parser.add_argument("shapes", nargs="*", help="only shapes with one of these words in their name")
    asked = parser.parse_args()
    if asked.bytes < MIB // 16:
        parser.error("--bytes is at least 65536")
    kernel = KernelSettings(use=asked.kernel)
    whole = sorted(costs(asked.bytes, asked.shapes, kernel), key=lambda cost: cost.cpu_s)
    over = [cost for cost in whole if not cost.within_limits]
    shown = whole[-asked.rows :]
    half = list(costs(asked.bytes // 2, [cost.shape for cost in shown], kernel))
    Console(width=150).print(table(shown, half, kernel))
    for cost in over:
        print(f"over the limits: {cost.shape}: {cost.cpu_s:.2f} s, {cost.memory_mb:.0f} MB, {cost.raised} raised")
    sys.exit(bool(over))


if __name__ == "__main__":
    main()
