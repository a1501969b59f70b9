"""Cost of `ragweir dataset` on files, beside a loop that only reads the evaluations as JSON."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
from rich.table import Table

from bench.people_cost import add_costs, cost, cost_table, evaluations
from ragweir.streams.runtime.processes.supervisor import own_command

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
    shown = cost_table(f"Regression set of the answers with a risk above {_RISK}, and of the {_WORST} worst others")
    with TemporaryDirectory(dir=folder or None) as place:
        evaluated, of_events = Path(place, "evaluations.jsonl"), Path(place, "events.jsonl")
        options = ("--events", str(of_events), "--where", f"unsupported_risk > {_RISK}", "--worst", str(_WORST))
        for number in (events // 10, events):
            lines = _write(evaluated, of_events, number)
            made = cost([*own_command("dataset", str(evaluated)), *options, "--out", str(Path(place, "set"))])
            add_costs(shown, number, lines, evaluated, {"dataset": made})
    return shown
