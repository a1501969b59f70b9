"""The kernel against the reference: CPU time per event, and its growth with the text for hostile events.

    .venv/bin/python -m bench.kernel               # events of `bench.interactions` and of the labelled answers
    .venv/bin/python -m bench.kernel --growth      # each hostile shape at one size and at four times this size

Both ways run in turn in one process, so that the ratio holds on a busy machine as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence

from rich.console import Console
from rich.table import Table

from bench import hostile
from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.metrics import native
from ragweir.metrics.counts import NAMES
from ragweir.metrics.view import Counting, TextLimits, View, reference
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction
from tools.labelled_answers import DATA, SETS

_EVENTS = 200
_SIZE = 32 * 1024
_TIMES = 4
_LIMITS = TextLimits(max_tokens=10**9, max_event_tokens=10**9)


def _labelled(name: str) -> Iterator[Interaction]:
    path = DATA / f"{name}.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines()[:_EVENTS] if path.exists() else ():
        yield Interaction.model_validate({"event_id": name, **SETS[name](json.loads(line))[0]})


def _work(count: Counting, events: Sequence[Interaction], limits: TextLimits) -> Callable[[], None]:
    def work() -> None:
        for event in events:
            counts = count(View(event, limits))
            for name in NAMES:
                getattr(counts, name)

    return work


def speed(kernel: Counting) -> Table:
    """Return the table of the time per event, both ways."""
    table = Table("events", "number", "characters", "kernel us", "reference us", "ratio")
    sets: dict[str, Iterable[Interaction]] = {"bench": map(decode, interactions(_EVENTS))}
    for name, events in (sets | {name: _labelled(name) for name in SETS}).items():
        if not (found := list(events)):
            continue
        size = sum(len(event.query or "") + len(event.response or "") for event in found)
        size += sum(len(context.text or "") for event in found for context in event.contexts or ())
        fast, slow = (microseconds(_work(count, found, TextLimits()), len(found)) for count in (kernel, reference))
        figures = len(found), size // len(found), f"{fast:.1f}", f"{slow:.0f}", f"{slow / fast:.1f}"
        table.add_row(name, *map(str, figures))
    return table


def growth(kernel: Counting) -> Table:
    """Return the table of the time for one event of each hostile shape at two sizes, the fastest growth last."""
    rows = []
    for name, make in hostile.shapes():
        if "extractions" in name:
            continue
        events = [decode(hostile.sized(make, size)) for size in (_SIZE, _SIZE * _TIMES)]
        small, large = (microseconds(_work(kernel, [event], _LIMITS), 1) for event in events)
        rows.append((large / small, name, small, large))
    table = Table("shape", f"us at {_SIZE // 1024} KiB", f"us at {_SIZE * _TIMES // 1024} KiB", "growth")
    for ratio, name, small, large in sorted(rows):
        table.add_row(name, f"{small:.0f}", f"{large:.0f}", f"{ratio:.1f}")
    return table


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--growth", action="store_true", help="measure hostile events at two sizes")
    arguments = parser.parse_args()
    try:
        kernel = native.counting()
    except native.KernelUnavailable as error:
        print(f"The kernel cannot be measured: {error}.", file=sys.stderr)
        return 1
    Console().print(growth(kernel) if arguments.growth else speed(kernel))
    return 0


if __name__ == "__main__":
    sys.exit(main())
