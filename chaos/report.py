"""The report of a run: tables for people, JSON for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.broker_faults import BROKER_FAULTS
from chaos.fault_injector import SlotRecovery
from chaos.findings import DEFECTS
from chaos.latencies import quantile, quantiles
from chaos.run import Result
from chaos.stalls import Stall

_LONGEST = 10


def as_json(result: Result) -> dict[str, Any]:
    """Return the result as plain data."""
    injected = result.injected
    return {
        "healthy": result.healthy,
        "seed": result.options.seed,
        "records": result.records,
        "seconds": round(result.seconds, 1),
        "records_per_second": round(result.records / result.seconds, 1),
        "options": asdict(result.options),
        "faults_done": dict(injected.faults),
        "faults_left_out": dict(injected.skipped),
        "kills_by_service": dict(injected.kills_by_service),
        "kills_in_an_open_transaction": injected.in_transaction,
        "share_of_kills_in_an_open_transaction": (
            round(injected.in_transaction / injected.can_transact, 3) if injected.can_transact else None
        ),
        "recovery_s": _recoveries(injected.recoveries),
        "longest_recoveries": [
            asdict(each) for each in sorted(injected.recoveries, key=lambda each: -each.seconds)[:_LONGEST]
        ],
        "stalls_s": _stalls(result.checker.stalls),
        "broker_faults": sum(count for kind, count in injected.faults.items() if kind in BROKER_FAULTS),
        "killed_and_idle_since": result.unrecovered,
        "zombies_that_lived_on": injected.zombies_alive,
        "starved_workers_that_ended": injected.starved,
        "refused_to_start": dict(result.fatal_exits),
        "outputs": {name: asdict(found) for name, found in result.findings.outputs.items()},
        "soak": result.soak.as_json() if result.soak is not None else None,
        **result.checker.facts(),
    }


def _recoveries(recoveries: Sequence[SlotRecovery]) -> dict[str, dict[str, float | None]]:
    """Return quantiles of recoveries: of all, by other faults that were active, and of those without any.

    >>> both = _recoveries([SlotRecovery("a", 1, 3, (), 3), SlotRecovery("b", 1, 14, ("broker kill",), 2)])
    >>> {kind: (row["count"], row["most"], row["most after it"]) for kind, row in both.items()}
    {'all': (2, 14, 3), 'nothing else': (1, 3, 3), 'broker kill': (1, 14, 2)}
    """
    kinds: dict[str, list[SlotRecovery]] = {"all": [], "nothing else": []}
    for each in recoveries:
        for kind in ("all", *(each.beside or ("nothing else",))):
            kinds.setdefault(kind, []).append(each)
    return {
        kind: {"count": len(those)}
        | quantiles([each.seconds for each in those])
        | {"most after it": quantile([each.own for each in those], 1.0)}
        for kind, those in kinds.items()
    }


def _stalls(stalls: Sequence[Stall]) -> dict[str, dict[str, float | None]]:
    """Return quantiles of stalls, by the kind of fault.

    >>> _stalls([Stall("kill", 0, {}, 2.0), Stall("kill", 0, {0: 5})])
    {'kill': {'count': 2, 'p50': 2.0, 'p99': 2.0, 'most': 2.0, 'cut short': 1}}
    """
    kinds: dict[str, list[Stall]] = {}
    for each in stalls:
        kinds.setdefault(each.kind, []).append(each)
    return {
        kind: {"count": len(those)}
        | quantiles([each.seconds for each in those if each.seconds is not None])
        | {"cut short": sum(each.seconds is None for each in those)}
        for kind, those in sorted(kinds.items())
    }


def show(result: Result, console: Console) -> None:
    """Print the result as tables."""
    told = as_json(result)
    outputs = {
        name: {"expected": found.expected, "found": found.found} | dict.fromkeys(DEFECTS, 0) | found.defects
        for name, found in result.findings.outputs.items()
    }
    soak = told["soak"] or {"latency_s": {}, "processes": {}, "growth": []}
    facts = {
        name.replace("_", " "): {"": _counts(value) if isinstance(value, dict) else value}
        for name, value in told.items()
        if name not in ("options", "outputs", "recovery_s", "longest_recoveries", "stalls_s", "soak")
    }
    for title, rows in {
        "Outputs": outputs,
        "Run": facts,
        "Seconds from a SIGKILL to the slot's next commit, by other faults meanwhile": (
            told["recovery_s"] if result.injected.recoveries else {}
        ),
        "Seconds from a fault to the next output of every partition": told["stalls_s"],
        "Seconds from when an event was due to": soak["latency_s"],
        "Processes; the slope leaves out the first quarter": soak["processes"],
    }.items():
        _print(console, title, rows)
    wrong = [
        (f"{name} {defect}", "; ".join(examples))
        for name, found in result.findings.outputs.items()
        for defect, examples in found.examples.items()
    ]
    wrong += [(f"{name} cannot start", f"{count} times") for name, count in result.fatal_exits.items()]
    if zombies := result.injected.zombies_alive:
        wrong.append(("zombies", f"{zombies} did not end although they were replaced"))
    if starved := result.injected.starved:
        wrong.append(("starved workers", f"{starved} ended although Kafka answered"))
    for what, examples in [*wrong, *(("not steady", each) for each in soak["growth"])]:
        console.print(f"[red]{what}[/]: {examples}", highlight=False)
    console.print("[green]healthy[/]" if result.healthy else "[red]not healthy[/]")


def _print(console: Console, title: str, rows: Mapping[str, Mapping[str, object]]) -> None:
    """Print a table, unless it is empty."""
    columns = [*next(iter(rows.values()), ())]
    table = Table("", *columns, title=title, title_justify="left", show_header=any(columns))
    for name, row in rows.items():
        table.add_row(name, *map(_text, row.values()))
    if rows:
        console.print(table)


def _text(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}"
    return "-" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _counts(counts: Mapping[str, float | None]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
