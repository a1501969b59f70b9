"""Print the tables of the benchmarks: all that take minutes together, or those that are named, with their options.

`make bench BENCH="routing start kills=5"` prints two of them; `make bench BENCH=--help` names all.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping

from rich.table import Table

from bench import (
    aggregation,
    assemble,
    backfill,
    compare,
    coverage,
    growth,
    judging,
    kafka_to_kafka,
    past_windows,
    publish,
    registry,
    restart,
    routing,
    scoring,
    start,
)
from tools import tables
from tools.tables import Make

USUAL: Mapping[str, Make] = {
    "scoring": scoring.table,
    "formulas": scoring.costliest,
    "sizes": growth.table,
    "attacks": growth.attacks,
    "windows": aggregation.table,
    "exposition": aggregation.exposition_table,
    "past-windows": past_windows.table,
    "traces": assemble.cpu,
    "traces-memory": assemble.memory,
    "registry-reading": registry.reading,
    "registry-writing": registry.writing,
    "compare": compare.table,
    "judging": judging.table,
    "windows-kafka": aggregation.kafka_table,
    "traces-delay": assemble.delay,
    "traces-restart": restart.table,
    "start": start.table,
    "publish": publish.callers,
    "publish-overload": publish.overload,
    "publish-behind": publish.behind,
    "loops": kafka_to_kafka.table,
    "backfill": backfill.table,
}
"""The tables of `make bench`, in their order."""
TABLES: Mapping[str, Make] = {
    **USUAL,
    "routing": routing.table,
    "routing-applications": routing.three_applications,
    "coverage": coverage.tables,
    "growth": growth.tables,
}
"""All tables. Those that take long, or need people's labels, are printed only if they are named."""


def _made(asked: Iterable[Make]) -> Iterator[Table]:
    for make in asked:
        made = make()
        yield from [made] if isinstance(made, Table) else made


def main() -> None:
    """Print the machine, then the tables."""
    names = (
        " ".join([name, *(f"{key}={value}" for key, value in tables.options(make).items())])
        for name, make in TABLES.items()
    )
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="\n".join(["tables, with the defaults of their options:", *names]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--markdown", action="store_true", help="print as in bench/RESULTS.md")
    parser.add_argument("asked", nargs="*", metavar="TABLE [OPTION=VALUE ...]", help="only these tables")
    given = parser.parse_args()
    try:
        asked = [*tables.asked(TABLES, given.asked)]
    except (KeyError, ValueError) as error:
        parser.error(f"there is no such table, option or value: {error}; --help names them")
    print("Shared machines are noisy: compare within one run.")
    tables.show(_made(asked or USUAL.values()), as_markdown=given.markdown)


if __name__ == "__main__":
    main()
