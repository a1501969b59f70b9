"""Cost of `ragweir dataset` on files, beside a loop that only reads the evaluations as JSON."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from rich.table import Table

from bench.people_cost import cost, evaluations
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.supervisor import own_command

_READ = "import sys, orjson; [orjson.loads(line) and None for line in open(sys.argv[1], 'rb', 262144)]"
_WORST, _RISK = 50, 0.99
"""The number of worst answers that are taken, besides those whose risk is higher: one in 300."""


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


def table(events: int = 1_000_000, folder: str = "") -> Table:
    """Return the cost of a dataset, for a tenth of the events and for all."""
    shown = Table(
        *("events", "lines, GB", "command", "wall s", "CPU s", "x reading", "MB"),
        title=f"Regression set of the answers with a risk above {_RISK}, and of the {_WORST} worst others",
        caption="`reading` is a loop that reads the evaluations as JSON with orjson and forgets them. `MB` is the peak "
        "of resident memory.",
    )
    for column in shown.columns[:2] + shown.columns[3:]:
        column.justify = "right"
    with TemporaryDirectory(dir=folder or None) as place:
        evaluated, of_events = Path(place, "evaluations.jsonl"), Path(place, "events.jsonl")
        options = ("--events", str(of_events), "--where", f"unsupported_risk > {_RISK}", "--worst", str(_WORST))
        for number in (events // 10, events):
            lines = _write(evaluated, of_events, number)
            size = f"{lines:,}, {evaluated.stat().st_size / 1e9:.1f}"
            reading = cost(python_command("-c", _READ, str(evaluated)))
            made = cost([*own_command("dataset", str(evaluated)), *options, "--out", str(Path(place, "set"))])
            for name, found in {"reading": reading, "dataset": made}.items():
                shown.add_row(
                    f"{number:,}",
                    size,
                    name,
                    f"{found.wall_s:.1f}",
                    f"{found.cpu_s:.1f}",
                    f"{found.cpu_s / reading.cpu_s:.1f}",
                    f"{found.memory_mb:.0f}",
                )
    return shown
