"""The report of a run: a table for people, JSON for machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Table

from chaos.checker import Stall
from chaos.fault_injector import Recovery
from chaos.findings import FAULTS
from chaos.run import Result
from chaos.schedule import BROKER_FAULTS

_QUANTILES = {"p50": 0.5, "p99": 0.99, "most": 1.0}
_LONGEST = 10


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that this share of the values does not exceed; None without values.

    >>> quantile([3.0, 1.0, 2.0], 0.5), quantile([3.0, 1.0, 2.0], 0.99), quantile([], 0.5)
    (2.0, 3.0, None)
    """
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def as_json(result: Result) -> dict[str, Any]:
    """All that a run came to, as plain data."""
    done, options = result.done, result.options
    return {
        "healthy": result.healthy,
        "seed": options.seed,
        "records": result.records,
        "seconds": round(result.seconds, 1),
        "records_per_second": round(result.records / result.seconds, 1),
        "options": asdict(options),
        "faults_done": dict(done.faults),
        "faults_left_out": dict(done.skipped),
        "kills_by_service": dict(done.kills_by_service),
        "kills_in_an_open_transaction": done.in_transaction,
        "share_of_kills_in_an_open_transaction": _share(done.in_transaction, done.can_transact),
        "recovery_s": _recoveries(done.recoveries),
        "longest_recoveries": [
            asdict(each) for each in sorted(done.recoveries, key=lambda each: -each.seconds)[:_LONGEST]
        ],
        "stalls_s": _stalls(result.stalls),
        "broker_faults": sum(count for kind, count in done.faults.items() if kind in BROKER_FAULTS),
        "bill_microdollars": result.bill,
        "ledger_microdollars": result.ledger,
        "budget_microdollars": None if options.budget_usd is None else round(options.budget_usd * 1_000_000),
        "killed_and_idle_since": result.unrecovered,
        "zombies_that_lived_on": done.zombies_alive,
        "repeated_ids_passed_over": result.repeated,
        "judged_statuses": dict(result.statuses),
        "refused_to_start": dict(result.refusals),
        "outputs": {name: asdict(found) for name, found in result.findings.outputs.items()},
    }


def _recoveries(recoveries: Sequence[Recovery]) -> dict[str, dict[str, float | None]]:
    """From SIGKILL to the same slot's next commit: all, by what else went wrong meanwhile, and where nothing did.

    >>> both = _recoveries([Recovery("a", 1, 3, (), 3), Recovery("b", 1, 14, ("broker kill",), 2)])
    >>> {kind: (row["count"], row["most"], row["most after it"]) for kind, row in both.items()}
    {'all': (2, 14, 3), 'nothing else': (1, 3, 3), 'broker kill': (1, 14, 2)}
    """
    kinds: dict[str, list[Recovery]] = {"all": [], "nothing else": []}
    for each in recoveries:
        for kind in ("all", *(each.beside or ("nothing else",))):
            kinds.setdefault(kind, []).append(each)
    return {
        kind: {
            "count": len(those),
            **{name: quantile([each.seconds for each in those], share) for name, share in _QUANTILES.items()},
            "most after it": quantile([each.own for each in those], 1.0),
        }
        for kind, those in kinds.items()
    }


def _stalls(stalls: Sequence[Stall]) -> dict[str, dict[str, float | None]]:
    """From a fault's beginning until the next record of every partition has come out, by the kind of the fault.

    >>> _stalls([Stall("kill", 0, {}, 2.0), Stall("kill", 0, {0: 5})])
    {'kill': {'count': 2, 'p50': 2.0, 'most': 2.0, 'cut short': 1}}
    """
    kinds: dict[str, list[Stall]] = {}
    for each in stalls:
        kinds.setdefault(each.kind, []).append(each)
    table: dict[str, dict[str, float | None]] = {}
    for kind, those in sorted(kinds.items()):
        seconds = [each.seconds for each in those if each.seconds is not None]
        middle, most = quantile(seconds, 0.5), quantile(seconds, 1.0)
        table[kind] = {"count": len(those), "p50": middle, "most": most, "cut short": len(those) - len(seconds)}
    return table


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def show(result: Result, console: Console) -> None:
    """Print the tables."""
    table = Table("output", "expected", "found", *FAULTS, title="What came out", title_justify="left")
    for name, found in result.findings.outputs.items():
        faults = (str(found.faults.get(fault, 0)) for fault in FAULTS)
        table.add_row(name, f"{found.expected:,}", f"{found.found:,}", *faults)
    console.print(table)
    told = as_json(result)
    facts = Table("", "", show_header=False, title="What was done", title_justify="left")
    for name, value in (
        ("seed", told["seed"]),
        ("records, seconds, records/s", f"{result.records:,}, {told['seconds']}, {told['records_per_second']}"),
        *told["faults_done"].items(),
        *((f"{name}, left out", count) for name, count in told["faults_left_out"].items()),
        ("kills by service", ", ".join(f"{name} {count}" for name, count in told["kills_by_service"].items())),
        ("kills in an open transaction", f"{result.done.in_transaction} of {result.done.can_transact}"),
        ("killed, and without a commit since", ", ".join(result.unrecovered) or "none"),
        ("repeated ids passed over", told["repeated_ids_passed_over"]),
        ("faults of brokers", told["broker_faults"]),
        ("bill <= ledger <= budget, of a day", _dollars(result)),
        ("judged (by a simulated judge)", ", ".join(f"{name} {count}" for name, count in result.statuses.items())),
    ):
        facts.add_row(name, str(value))
    console.print(facts)
    recovery = Table("meanwhile", "kills", *_QUANTILES, "most after it", title="SIGKILL to the same slot's next commit")
    recovery.title_justify = "left"
    for kind, row in told["recovery_s"].items():
        recovery.add_row(kind, str(row["count"]), *(_seconds(row[each]) for each in (*_QUANTILES, "most after it")))
    console.print(recovery)
    stall = Table("fault", "times", "p50", "most", title="Fault to the next output of every partition")
    stall.title_justify = "left"
    for kind, row in told["stalls_s"].items():
        stall.add_row(kind, str(row["count"]), _seconds(row["p50"]), _seconds(row["most"]))
    console.print(stall)
    for name, found in result.findings.outputs.items():
        for fault, examples in found.examples.items():
            console.print(f"[red]{name} {fault}[/]: {'; '.join(examples)}", highlight=False)
    for name, count in result.refusals.items():
        console.print(f"[red]{name} refused to start[/] {count} times", highlight=False)
    if result.done.zombies_alive:
        console.print(f"[red]{result.done.zombies_alive} zombies lived on although their place was taken[/]")
    console.print("[green]healthy[/]" if result.healthy else "[red]not healthy[/]")


def _dollars(result: Result) -> str:
    budget = result.options.budget_usd
    amounts = " <= ".join(f"${amount / 1_000_000:.6f}" for amount in (result.bill, result.ledger))
    return f"{amounts} <= " + ("no bound" if budget is None else f"${budget:.6f}")


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
