"""`python -m chaos`: hurt all services from a seed and say what it came to."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from chaos import report
from chaos.fault_injector import Lengths
from chaos.mutants import MUTANTS
from chaos.run import Options, run
from chaos.schedule import Numbers
from ragweir.errors import LocalServerError

PRESETS = {
    "smoke": Options(
        events=3_000,
        rate=400,
        seed=1,
        numbers=Numbers(4, 1, 1, 0, 1, 1, 1, 1, 1),
        lengths=Lengths(zombie=5, broker=0.2, frozen=4, network=1, outage=2, delay=0.05, idle=10, twin=5, clock=5),
        quick=True,
        patience_s=30,
    ),
    "minutes": Options(events=60_000, rate=400, seed=1, numbers=Numbers(30, 4, 2, 2, 3, 3, 3, 3, 3)),
    "hours": Options(
        events=2_000_000, rate=800, seed=1, numbers=Numbers(300, 20, 10, 10, 20, 20, 20, 20, 20), partitions=8
    ),
    "cluster": Options(
        events=1_000_000,
        rate=700,
        seed=15,
        numbers=Numbers(
            kills=150,
            zombies=6,
            broker_kills=6,
            rolling_restarts=2,
            joins_and_leaves=4,
            delays=4,
            partitions=4,
            resets=4,
            judge_outages=4,
            leader_kills=4,
            group_coordinator_kills=4,
            transaction_coordinator_kills=4,
            broker_freezes=4,
            broker_partitions=2,
            rolling_brokers=2,
            full_disks=2,
            recreations=2,
            growths=2,
            clock_shifts=2,
            offset_resets=2,
            twins=2,
        ),
        brokers=3,
        budget_usd=9.0,
    ),
}
"""Seconds, minutes, hours on one broker; an hour on three."""
_SHARES = {"poison": 0.01, "duplicates": 0.05, "disorder": 0.1, "late": 0.01, "ahead": 0.001, "judged": 0.01}
_FAULTS = {
    "kills": "SIGKILLs of workers",
    "zombies": "workers stopped for longer than their session",
    "broker-kills": "SIGKILLs of a broker",
    "rolling-restarts": "services restarted slot by slot",
    "joins-and-leaves": "evaluate workers that leave, and that join",
    "delays": "stretches in which the network is slow",
    "partitions": "stretches in which nothing passes",
    "resets": "times at which every connection breaks",
    "judge-outages": "stretches in which the simulated judge fails",
    "leader-kills": "SIGKILLs of the broker that leads a partition of the interactions",
    "group-coordinator-kills": "SIGKILLs of the broker that coordinates a service's group",
    "transaction-coordinator-kills": "SIGKILLs of the broker that coordinates a worker's transactions",
    "broker-freezes": "stretches in which a broker stands still",
    "broker-partitions": "stretches in which clients do not reach a broker",
    "rolling-brokers": "restarts of all brokers in order, one after the other",
    "full-disks": "times at which a broker has no disk left (left out where nothing can be mounted)",
    "recreations": "times at which the interactions are deleted and made again, once all are read",
    "growths": "partitions added to the interactions",
    "clock-shifts": "stretches in which the clock of a judge worker is four days ahead",
    "offset-resets": "times at which the offsets of evaluate, while stopped, are set back",
    "twins": "stretches in which two processes have the same slot",
}


_OWN = ("events", "rate", "seed", "horizon", "mutant", "all_metrics", "brokers", "budget_usd")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m chaos",
        description="Runs producers, all services, a simulated judge and real brokers; kills, stops, parts and delays "
        "them from a seed; and compares what came out with what had to. Exits with 1 if anything is not as it must be.",
    )
    parser.add_argument("--preset", choices=PRESETS, default="smoke", help="what the options below begin with")
    parser.add_argument("--events", type=int, help="records to send, poison and repeated ids among them")
    parser.add_argument("--minutes", type=float, help="spread them over so many minutes; more if that is too fast")
    parser.add_argument("--rate", type=float, help="records a second, instead of --minutes")
    parser.add_argument("--brokers", type=int, choices=(1, 3), help="how many; three keep three copies of everything")
    parser.add_argument("--budget-usd", type=float, help="of the judge for a day; without it there is no bound")
    parser.add_argument("--seed", type=int, help="of the traffic and the faults")
    parser.add_argument("--horizon", type=int, help="offsets over which an id is known again; 0 for never")
    parser.add_argument("--mutant", choices=MUTANTS, help="break this rule of the runtime in every worker")
    parser.add_argument("--all-metrics", action="store_true", help="score by every metric, not by the cheapest ones")
    parser.add_argument("--no-faults", action="store_true", help="none but those whose numbers are given")
    for name, what in _FAULTS.items():
        parser.add_argument(f"--{name}", type=int, help=what)
    for name in _SHARES:
        parser.add_argument(f"--{name}", type=float, help=f"share of records: {name}" if name != "judged" else "judged")
    parser.add_argument("--json", type=Path, help="write the report here too")
    parser.add_argument("--folder", type=Path, help="keep the broker's data and the logs here")
    return parser


def _options(given: argparse.Namespace) -> Options:
    options = PRESETS[given.preset]
    chosen = {name: value for name, value in vars(given).items() if value is not None}
    numbers = {name: chosen[name] for name in (each.replace("-", "_") for each in _FAULTS) if name in chosen}
    mix = {name: chosen[name] for name in _SHARES if name in chosen}
    own = {name: chosen[name] for name in _OWN if name in chosen}
    if given.minutes:
        own["rate"] = own.get("events", options.events) / (60 * given.minutes)
    before = Numbers() if given.no_faults else options.numbers
    return replace(options, numbers=replace(before, **numbers), mix=replace(options.mix, **mix), **own)


def main() -> int:
    """Run what the command line says; gives the exit status."""
    given = _parser().parse_args()
    options = _options(given)
    err = Console(stderr=True)
    folder = given.folder or Path(tempfile.mkdtemp(prefix="ragweir-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=err, disable=not err.is_terminal, transient=True) as bar:
            task = bar.add_task("", total=options.events)
            result = run(options, folder, lambda sent, what: bar.update(task, completed=sent, description=what[:40]))
    except (LocalServerError, RuntimeError, TimeoutError) as error:
        err.print(f"chaos: {error}", style="red", highlight=False)
        return 1
    if given.json is not None:
        given.json.write_text(json.dumps(report.as_json(result), indent=1) + "\n", encoding="utf-8")
    report.show(result, Console(width=110))
    if result.healthy and given.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        err.print(f"The logs are in {folder}.", highlight=False)
    return 0 if result.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
