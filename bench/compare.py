"""Cost of `ragweir compare` by the size of its files."""

from __future__ import annotations

import random
import resource
import subprocess
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import duckdb
import orjson
from rich.table import Table

from bench.interactions import interactions
from ragweir.metrics.catalogue import everything
from ragweir.streams.analysis.compare.compare import compare
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.supervisor import own_command

_DISTINCT = 1_000
_DIMENSIONS = ("application", "model", "pipeline_version")
_VARIED = ("context_support", "rouge_l", "token_f1", "context_relevance", "unsupported_risk")


def _templates(folder: Path) -> list[dict[str, dict[str, float]]]:
    """Return the evaluations that `ragweir score` makes of a thousand interactions."""
    (folder / "interactions.jsonl").write_bytes(b"".join(each + b"\n" for each in interactions(_DISTINCT)))
    command = own_command("score", "interactions.jsonl", "--out", "evaluations.jsonl")
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return [orjson.loads(line) for line in (folder / "evaluations.jsonl").read_bytes().splitlines()]


def _generate(file: Path, templates: list[dict[str, dict[str, float]]], events: int, seed: int) -> None:
    """Write evaluations in which some metrics vary by the seed."""
    rng = random.Random(seed)
    with file.open("wb") as out:
        for number, template in enumerate(islice(cycle(templates), events)):
            scores = template["scores"] | {name: round(rng.random(), 6) for name in _VARIED}
            fields = {"event_id": f"bench-{number}", "application": f"app-{number % 5}", "scores": scores}
            out.write(orjson.dumps(template | fields) + b"\n")


def measure(a: str, b: str) -> None:
    """Compare in this process, and print seconds, CPU seconds and the peak of memory in MiB, with the other process."""
    began = time.monotonic()
    compare((Path(a), Path(b)), ("a", "b"), _DIMENSIONS, {metric.name: metric for metric in everything()})
    seconds = time.monotonic() - began
    used = [resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    # The peak of this process as the kernel's resource usage has it begins with that of the process that started it.
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    own = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(seconds, sum(each.ru_utime + each.ru_stime for each in used), (own + used[1].ru_maxrss) / 1024)


def _as_parquet(file: Path) -> Path:
    """Return a copy of JSON lines in Parquet, in place of the file."""
    copy = file.with_suffix(".parquet")
    with duckdb.connect(config={"memory_limit": "4GB"}) as db:
        db.execute(
            f"copy (select * from read_json('{file}', maximum_object_size = 16000000)) to '{copy}' (format parquet)"
        )
    file.unlink()
    return copy


def table(events: int = 100_000) -> Table:
    """Return rows for so many events on each side and for a tenth; a million are 6.4 GB of temporary files."""
    columns = ("events a side", "format", "MB a side", "s", "CPU s", "peak MiB")
    result = Table(*columns, title=f"ragweir compare: {len(_DIMENSIONS)} dimensions")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        templates = _templates(folder)
        for size in (events // 10, events):
            files = [folder / "a.jsonl", folder / "b.jsonl"]
            for seed, file in enumerate(files):
                _generate(file, templates, size, seed)
            for form in ("JSON lines", "Parquet"):
                if form == "Parquet":
                    files = [_as_parquet(file) for file in files]
                command = python_command("-c", f"from {__name__} import measure; measure(*{[*map(str, files)]})")
                measured = subprocess.run(command, check=True, capture_output=True, text=True)
                seconds, cpu_s, peak = map(float, measured.stdout.split())
                megabytes = files[0].stat().st_size / 1e6
                result.add_row(f"{size:,}", form, f"{megabytes:,.0f}", f"{seconds:.1f}", f"{cpu_s:.1f}", f"{peak:,.0f}")
    return result
