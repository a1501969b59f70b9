"""Cost of `ragweir labels draw`, `labels report` and `dataset` on files, beside a loop that only reads them as JSON."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import orjson
from rich.table import Table

from bench.interactions import interactions
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.supervisor import own_command

JUDGED = 0.1
"""Share of the events that are judged; a quarter of them is chosen at random."""
_LABELS = 1_000
_BEGAN_MS = 1_800_000_000_000
_WORST, _RISK = 50, 0.99
"""The number of worst answers that a dataset takes, besides those whose risk is higher: one in 300."""
_READ = "import sys, orjson; [orjson.loads(line) and None for line in open(sys.argv[1], 'rb', 262144)]"


class CommandCost(NamedTuple):
    """The cost of one process."""

    wall_s: float
    cpu_s: float
    memory_mb: float
    """Peak resident memory."""


def cost(command: list[str]) -> CommandCost:
    """Return the cost of a command, which has to succeed."""
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(error.decode(errors="replace"))
    return CommandCost(time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def cost_table(title: str) -> Table:
    """Return an empty table of the costs of commands."""
    return Table(
        *("events", "lines, GB", "command", "wall s", "CPU s", "x reading", "MB"),
        title=title,
        caption="`reading` is a loop that reads the evaluations as JSON with orjson and forgets them. `MB` is the peak "
        "of resident memory.",
    )


def add_costs(table: Table, events: int, lines: int, file: Path, commands: Mapping[str, CommandCost]) -> None:
    """Add a row of a loop that only reads a file of so many lines, and rows of the commands that were run on it."""
    reading = cost(python_command("-c", _READ, str(file)))
    for name, found in {"reading": reading, **commands}.items():
        table.add_row(
            *(f"{events:,}", f"{lines:,}, {file.stat().st_size / 1e9:.1f}", name),
            *(f"{found.wall_s:.1f}", f"{found.cpu_s:.1f}", f"{found.cpu_s / reading.cpu_s:.1f}"),
            f"{found.memory_mb:.0f}",
        )


def evaluations(events: int, seed: int = 33) -> Iterator[bytes]:
    """Yield the lines of `ragweir score --judge --out`: all events scored, and some of them judged after that."""
    catalogue, chance = Catalogue(everything()), Random(seed)
    samples = []
    for value in interactions(50):
        event = decode(value)
        scored = catalogue.score(View(event))
        samples.append((event, dict(scored.scores), dict(scored.categories), dict(scored.reasons)))
    for number in range(events):
        event, scores, categories, reasons = samples[number % len(samples)]
        certain = chance.random() < JUDGED * 0.75
        probability = 1.0 if certain else JUDGED * 0.25
        selected = certain or chance.random() < probability
        line: dict[str, Any] = {
            "event_id": f"{chance.getrandbits(128):032x}",
            "event_time": f"2027-01-{15 + number * 7 // events}T{number % 24:02}:{number % 60:02}:07.250000Z",
            "application": event.application,
            "tenant": event.tenant,
            "environment": None,
            "pipeline_version": "v1",
            "model": "m",
            "labels": {},
            "stage": "scored",
            "scores": scores | {"unsupported_risk": round(chance.random() ** 3, 6)},
            "categories": categories,
            "reasons": reasons,
            "flags": [],
            "decision": {"suites": [_suite(selected, probability, "selected")]},
            "document_ids": ["d165", "d286", "d477", "d378", "d189"],
            "judge": None,
            "catalogue_version": "3",
            "source": {"topic": "interactions", "partition": number % 8, "offset": number},
            "run_id": None,
        }
        yield orjson.dumps(line)
        if selected:
            yield orjson.dumps(line | _judged(line, probability, chance.random() < 0.85))


def _suite(selected: bool, probability: float, status: str) -> Mapping[str, Any]:  # noqa: FBT001
    return {
        "suite": "rubric",
        "status": status if selected else "not_selected",
        "probability": probability,
        "because": ["risk" if probability == 1 else "floor"],
    }


def _judged(line: dict[str, Any], probability: float, good: bool) -> dict[str, Any]:  # noqa: FBT001
    return {
        "stage": "judged",
        "scores": line["scores"] | {"judge_faithfulness": 0.9 if good else 0.2},
        "explanations": {"judge_faithfulness": "Two of the claims are not in the passages. " * 4},
        "decision": {"suites": [_suite(True, probability, "judged")]},  # noqa: FBT003
        "judge": {
            "model": "judge-1",
            "prompt_version": "rubric:4",
            "input_tokens": 812,
            "output_tokens": 96,
            "cost_usd": 0.0004,
            "cached": False,
        },
    }


def labels(events: int = 1_000_000, folder: str = "") -> Table:
    """Return the cost of a draw and of reports, for a tenth of the events and for all."""
    shown = cost_table(f"Draw of {_LABELS:,} answers by a judged metric, and reports on their labels")
    with TemporaryDirectory(dir=folder or None) as place:
        for number in (events // 10, events):
            file = Path(place, "evaluations.jsonl")
            lines = 0
            with file.open("wb") as stream:
                for line in evaluations(number):
                    stream.write(line + b"\n")
                    lines += 1
            add_costs(shown, number, lines, file, _commands(file))
    return shown


def _commands(file: Path) -> Mapping[str, CommandCost]:
    queue, labelled = file.with_name("queue.jsonl"), file.with_name("labels.jsonl")
    ragweir = own_command("labels")
    options = ["--metric", "judge_faithfulness"]
    drawing = cost([*ragweir, "draw", str(file), "--out", str(queue), "--count", str(_LABELS), *options])
    draw, *answers = queue.read_bytes().splitlines()
    with labelled.open("wb") as stream:
        stream.write(draw + b"\n")
        for number, line in enumerate(answers):
            answer = orjson.loads(line)
            answer.pop("raters", None)
            given = {"value": number % 7 > 0, "rater": "r", "kind": "expert", "blind": True, "time": _BEGAN_MS}
            stream.write(orjson.dumps(answer | given) + b"\n")
    reports = {
        f"labels report, {len(answers):,} labels": [],
        f"labels report --evaluations, {len(answers):,} labels": ["--evaluations", str(file)],
    }
    report = [*ragweir, "report", str(labelled), "--question", "supported", "--json", *options]
    return {"labels draw": drawing, **{name: cost([*report, *more]) for name, more in reports.items()}}


def _write(evaluated: Path, events: Path, number: int) -> int:
    """Write the evaluations of a number of events, and the events; return the number of lines of evaluations."""
    lines, before = 0, ""
    with evaluated.open("wb") as evaluation_lines, events.open("wb") as event_lines:
        for line in evaluations(number):
            evaluation_lines.write(line + b"\n")
            lines += 1
            event_id = orjson.loads(line)["event_id"]
            if event_id != before:
                event = {
                    "event_id": event_id,
                    "ended_at": "2027-01-15T10:00:00Z",
                    "query": f"What about {event_id}?",
                    "response": "Thirty days.",
                    "contexts": [{"text": "Goods may be returned within thirty days of delivery."}],
                }
                event_lines.write(orjson.dumps(event) + b"\n")
                before = event_id
    return lines


def dataset(events: int = 1_000_000, folder: str = "") -> Table:
    """Return the cost of a dataset, for a tenth of the events and for all."""
    shown = cost_table(f"Regression set of the answers with a risk above {_RISK}, and of the {_WORST} worst others")
    with TemporaryDirectory(dir=folder or None) as place:
        evaluated, of_events = Path(place, "evaluations.jsonl"), Path(place, "events.jsonl")
        options = ("--events", str(of_events), "--where", f"unsupported_risk > {_RISK}", "--worst", str(_WORST))
        for number in (events // 10, events):
            lines = _write(evaluated, of_events, number)
            made = cost([*own_command("dataset", str(evaluated)), *options, "--out", str(Path(place, "set"))])
            add_costs(shown, number, lines, evaluated, {"dataset": made})
    return shown
