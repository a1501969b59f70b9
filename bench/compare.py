"""What `ragweir compare` costs by the size of its files, and what the same costs in plain Python.

    .venv/bin/python -m bench.compare --events 10000 100000 1000000

A million events on each side are 6.4 GB of files, in the folder for temporary ones, and some minutes to make.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import cycle, islice
from math import sqrt
from pathlib import Path

import orjson
from rich.console import Console
from rich.table import Table

from bench.interactions import interactions
from ragweir.metrics.catalogue import everything
from ragweir.streams.compare.compare import compare

_DISTINCT = 1_000
_DIMENSIONS = ("application", "model", "pipeline_version")
_PLAIN_EVENTS = 10_000


def evaluations(folder: Path) -> list[bytes]:
    """A thousand evaluations, as `ragweir score` makes them of the benchmarks' interactions."""
    (folder / "interactions.jsonl").write_bytes(b"".join(each + b"\n" for each in interactions(_DISTINCT)))
    command = [sys.executable, "-m", "ragweir.streams.cli", "score", "interactions.jsonl", "--out", "evaluations.jsonl"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (folder / "evaluations.jsonl").read_bytes().splitlines()


def make(file: Path, models: list[bytes], events: int, seed: int) -> None:
    """So many evaluations, five of whose metrics vary by the seed."""
    chance = random.Random(seed)
    parsed = [orjson.loads(model) for model in models]
    with file.open("wb") as out:
        for number, model in enumerate(islice(cycle(parsed), events)):
            model["event_id"] = f"bench-{number}"
            model["application"] = f"app-{number % 5}"
            for name in ("context_support", "rouge_l", "token_f1", "context_relevance", "unsupported_risk"):
                model["scores"][name] = round(chance.random(), 6)
            out.write(orjson.dumps(model) + b"\n")


def plainly(a: Path, b: Path) -> int:
    """Means, standard errors and effects of all metrics and slices, by dictionaries; nothing of order or size kept."""
    sides = [{each["event_id"]: each for each in map(orjson.loads, file.open("rb"))} for file in (a, b)]
    changes: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for event_id in sorted(sides[0].keys() & sides[1].keys()):
        before, after = sides[0][event_id], sides[1][event_id]
        for name, value in before["scores"].items():
            other = after["scores"].get(name)
            if value is not None and other is not None:
                for dimension in ("", *_DIMENSIONS):
                    changes[name, dimension, before.get(dimension) or ""].append(other - value)
    results = {}
    for place, values in changes.items():
        mean = sum(values) / len(values)
        deviation = sqrt(sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1))
        error = 1.96 * deviation / sqrt(len(values))
        results[place] = mean, mean - error, mean + error, mean / deviation if deviation else None
    return len(results)


def measure(way: str, a: Path, b: Path) -> None:
    """Compare in this process, and print seconds, CPU seconds and the peak in MiB."""
    began = time.monotonic()
    if way == "plain":
        plainly(a, b)
    else:
        compare((a, b), ("a", "b"), _DIMENSIONS, {metric.name: metric for metric in everything()})
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(time.monotonic() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def table(sizes: list[int]) -> Table:
    """One row per size and way."""
    found = Table(title="ragweir compare: 73 metrics, 3 dimensions", title_justify="left")
    for column in ("way", "events a side", "MB a side", "s", "CPU s", "peak MiB"):
        found.add_column(column, justify="right")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = evaluations(folder)
        for events in sizes:
            files = folder / "a.jsonl", folder / "b.jsonl"
            for seed, file in enumerate(files):
                make(file, models, events, seed)
            for way in ("ragweir", "plain") if events <= _PLAIN_EVENTS else ("ragweir",):
                command = [sys.executable, __file__, "--measure", way, *map(str, files)]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                took, cpu, peak = map(float, done.stdout.split())
                size = files[0].stat().st_size / 1e6
                found.add_row(way, f"{events:,}", f"{size:,.0f}", f"{took:.1f}", f"{cpu:.1f}", f"{peak:,.0f}")
    return found


def main() -> None:
    """Print the table; or, as its own child, measure once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--measure", nargs=3, metavar=("WAY", "A", "B"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        way, a, b = arguments.measure
        measure(way, Path(a), Path(b))
    else:
        Console(width=120).print(table(arguments.events))


if __name__ == "__main__":
    main()
