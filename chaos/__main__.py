"""`python -m chaos`: inject faults into all services from a seed, and report what is wrong."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from chaos import report
from chaos.events import Mix
from chaos.mutants import FEEDBACK_MUTANTS, MUTANTS, ROW_MUTANTS, TRACE_MUTANTS
from chaos.options import Options, Traces, over_traces
from chaos.process import ROOT
from chaos.run import run
from chaos.schedule import KINDS
from chaos.target import Lengths
from ragweir.errors import LocalServerError
from tools.tables import machine

_ON_ONE_BROKER = "kills zombies broker_kills rolling_restarts joins_and_leaves delays partitions resets judge_outages"
_TWICE = (
    "rolling_restarts broker_partitions rolling_brokers full_disks recreations growths clock_shifts offset_resets twins"
)


_ON_FEEDBACK = {"feedback_growths": 1, "store_losses": 2, "evaluate_outages": 2}
_ON_TRACES = (
    "kills zombies broker_kills rolling_restarts delays partitions resets outages starvations clock_shifts"
    " source_deletions"
)


def _numbers(*numbers: int, kinds: str = _ON_ONE_BROKER) -> dict[str, int]:
    return dict(zip(kinds.split(), numbers, strict=True))


PRESETS = {
    "smoke": Options(
        events=3_000,
        rate=400,
        seed=1,
        numbers=_numbers(4, 1, 1, 0, 1, 1, 1, 1, 1),
        lengths=Lengths(zombie=5, broker=0.2, frozen=4, network=1, outage=2, delay=0.05, idle=10, twin=5, clock=5),
        quick=True,
        patience_s=30,
    ),
    "minutes": Options(
        events=60_000,
        rate=400,
        seed=1,
        numbers=_numbers(30, 4, 2, 2, 3, 3, 3, 3, 3) | {"control_recreations": 2, **_ON_FEEDBACK},
        mix=Mix(judged=0, risks=True),
        rows=True,
        feedback=True,
        budget_usd=1.0,
    ),
    "hours": Options(
        events=2_000_000,
        rate=800,
        seed=1,
        numbers=_numbers(300, 20, 10, 10, 20, 20, 20, 20, 20) | {name: 5 * each for name, each in _ON_FEEDBACK.items()},
        partitions=8,
        feedback=True,
    ),
    "cluster": Options(
        events=1_000_000,
        rate=700,
        seed=15,
        numbers={
            **dict.fromkeys(KINDS, 4),
            **dict.fromkeys(_TWICE.split(), 2),
            "source_deletions": 0,  # There are no traces.
            "control_recreations": 0,  # There are no rows.
            "feedback_growths": 0,  # There is no feedback, as clocks of evaluate are wrong.
            "store_losses": 0,
            "kills": 150,
            "zombies": 6,
            "broker_kills": 6,
        },
        brokers=3,
        budget_usd=9.0,
    ),
    "soak": Options(
        events=600 * 3_600,
        rate=600,
        seed=1,
        mix=Mix(poison=0, duplicates=0, disorder=0, late=0, ahead=0, judged=0.08, context_sentences=9),
        workers={"evaluate": 1, "aggregate": 1, "judge": 1, "export": 1},
        all_metrics=True,
        soak=True,
    ),
    "traces": over_traces(
        60_000, 400, numbers=_numbers(15, 2, 1, 1, 1, 2, 2, 1, 2, 1, 1, kinds=_ON_TRACES), quick=True
    ),
    "traces-long": over_traces(
        1_000_000, 900, Traces(patience_s=60.0), numbers=_numbers(100, 6, 4, 4, 6, 6, 6, 3, 4, 3, 3, kinds=_ON_TRACES)
    ),
}
"""Runs of seconds, minutes and hours on one broker, of half an hour on three, and of an hour without faults; over
traces, of minutes and of half an hour."""
_SHARES = {
    "poison": "records that cannot be evaluated",
    "duplicates": "records with a repeated id",
    "disorder": "events that are up to a minute out of order",
    "late": "events that are up to six hours late",
    "ahead": "events whose clock is up to a day ahead",
    "judged": "valid events that are judged",
}
_OWN = ("events", "rate", "seed", "horizon", "mutant", "all_metrics", "brokers", "budget_usd", "kernel")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Runs all services with a simulated judge on real brokers, sends generated events, injects faults "
        "from a seed, and compares all outputs with the expected ones. Exits with 1 if anything is wrong.",
    )
    parser.add_argument("--preset", choices=[*PRESETS], default="smoke", help="preset that the other options change")
    parser.add_argument(
        "--events", type=int, help="number of records, with poison and repeated ids; over traces, of spans"
    )
    parser.add_argument(
        "--minutes", type=float, help="duration; sets the rate, or with the preset soak the number of records"
    )
    parser.add_argument("--rate", type=float, help="records per second")
    parser.add_argument("--brokers", type=int, choices=(1, 3), help="number of brokers; three keep three replicas")
    parser.add_argument("--budget-usd", type=float, help="the judge's budget per day; no limit by default")
    parser.add_argument("--seed", type=int, help="seed of the events and the faults")
    parser.add_argument("--horizon", type=int, help="offsets within which a repeated id is skipped; 0 to skip none")
    parser.add_argument(
        "--mutant",
        choices=[*MUTANTS, *ROW_MUTANTS, *FEEDBACK_MUTANTS, *TRACE_MUTANTS],
        help="rule to break in every worker",
    )
    parser.add_argument(
        "--kernel", choices=("auto", "never", "always"), help="use of the kernel in every worker; `auto` by default"
    )
    parser.add_argument("--all-metrics", action="store_true", default=None, help="compute all metrics")
    parser.add_argument("--no-faults", action="store_true", help="only the faults whose numbers are given")
    for name, (_, what) in KINDS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, help=f"number of {what}")
    for name, what in _SHARES.items():
        parser.add_argument(f"--{name}", type=float, help=f"share of {what}")
    parser.add_argument("--json", type=Path, help="file to write the report to as JSON")
    parser.add_argument("--folder", type=Path, help="folder in which to keep the brokers' data and the logs")
    parser.add_argument("--picture", type=Path, default=ROOT / "docs" / "soak.svg", help="file of the soak's picture")
    return parser


def _options(given: argparse.Namespace) -> Options:
    options = PRESETS[given.preset]
    chosen = {name: value for name, value in vars(given).items() if value is not None}
    numbers = {name: chosen[name] for name in KINDS if name in chosen}
    mix = {name: chosen[name] for name in _SHARES if name in chosen}
    own = {name: chosen[name] for name in _OWN if name in chosen}
    if options.soak:
        own.setdefault("events", round(60 * (given.minutes or 60) * own.get("rate", options.rate)))
    elif given.minutes:
        backlog = options.traces.backlog if options.traces is not None else 0.0
        own["rate"] = own.get("events", options.events) * (1 - backlog) / (60 * given.minutes)
    before = {} if given.no_faults else options.numbers
    return replace(options, numbers={**before, **numbers}, mix=replace(options.mix, **mix), **own)


@contextmanager
def _progress(err: Console, total: int) -> Iterator[tuple[Progress, TaskID]]:
    """Show the progress for the length of a `with` block."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
        yield bar, bar.add_task("", total=total)


def main() -> int:
    """Run chaos as the command line says, and return the exit status."""
    given = _parser().parse_args()
    options, err, where = _options(given), Console(stderr=True), machine()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="ragweir-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _progress(err, options.events) as (bar, task):
            result = run(options, folder, lambda sent, what: bar.update(task, completed=sent, description=what[:40]))
    except (LocalServerError, RuntimeError, TimeoutError) as error:
        err.print(f"chaos: {str(error) or repr(error)}", style="red", highlight=False)
        return 1
    if given.json is not None:
        given.json.write_text(json.dumps(report.as_json(result), indent=1) + "\n", encoding="utf-8")
    report.show(result, Console(width=110))
    if result.soak is not None:
        given.picture.write_text(result.soak.picture(where), encoding="utf-8")
    if result.healthy and given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        err.print(f"The logs are in {folder}.", highlight=False)
    return 0 if result.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
