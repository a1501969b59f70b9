"""The machine of a measurement, and its tables: their choice on a command line, and their print."""

from __future__ import annotations

import argparse
import os
import platform
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

import confluent_kafka
from rich.console import Console
from rich.table import Table

from ragweir.streams.playground.local.node import KAFKA_VERSION

Make = Callable[..., Table | Iterable[Table]]
_FIGURES = re.compile(r"[-+.,%\d ]*( to [-+.,%\d ]*)?")
"""The text of a cell that has only figures, or nothing."""


def options(make: Make) -> Mapping[str, Any]:
    """Return the options of a function that makes tables, with their defaults."""
    return {each.name: each.default for each in signature(make).parameters.values()}


def asked(makes: Mapping[str, Make], words: Iterable[str]) -> Iterator[Make]:
    """Yield the functions that are named, each with the options that follow its name.

    >>> make = lambda kills=20, service="evaluate": f"{kills} kills of {service}"
    >>> [each() for each in asked({"start": make}, ["start", "start", "kills=5", "service=join"])]
    ['20 kills of evaluate', '5 kills of join']

    Raises:
        KeyError: there is no such function or option.
        ValueError: the option has another type.
    """
    last: Make | None = None
    for word in words:
        name, is_option, value = word.partition("=")
        if is_option and last:
            last = partial(last, **{name: type(options(last)[name])(value)})
        else:
            if last:
                yield last
            last = makes[word]
    if last:
        yield last


def _field(file: str, name: str) -> str:
    """Return a field of one of the kernel's files; empty if there is none, as on other systems."""
    path = Path(file)
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def machine() -> str:
    """Return a line on this machine, the versions of what runs on it, and its load."""
    memory = int((_field("/proc/meminfo", "MemTotal") or "0").split()[0]) / 2**20
    facts = (
        f"{os.cpu_count()} cores ({_field('/proc/cpuinfo', 'model name') or platform.machine()})",
        f"{memory:.0f} GiB",
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}",
        f"librdkafka {confluent_kafka.libversion()[0]}",
        f"Kafka {KAFKA_VERSION} on the same cores",
        f"load before the run {os.getloadavg()[0]:.1f}",
    )
    return ", ".join(facts) + "."


def aligned(table: Table) -> Table:
    """Return a table with its title and caption at the left, and with columns of figures at the right."""
    table.title_justify = table.caption_justify = "left"
    for column in table.columns:
        if all(_FIGURES.fullmatch(str(cell)) for cell in column.cells):
            column.justify = "right"
    return table


def markdown(table: Table) -> str:
    """Return a table as markdown.

    >>> example = Table("loop", "events/s", title="Loops", caption="One run.")
    >>> example.add_row("a", "1,000")
    >>> print(markdown(aligned(example)))
    **Loops**
    <BLANKLINE>
    | loop | events/s |
    | --- | ---: |
    | a | 1,000 |
    <BLANKLINE>
    One run.
    """
    rows = zip(*(column.cells for column in table.columns), strict=True)
    head = [str(column.header) for column in table.columns]
    rule = ["---:" if column.justify == "right" else "---" for column in table.columns]
    lines = ["| " + " | ".join(map(str, cells)) + " |" for cells in (head, rule, *rows)]
    title = [f"**{table.title}**", ""] if table.title else []
    caption = ["", " ".join(str(table.caption).split())] if table.caption else []
    return "\n".join([*title, *lines, *caption])


def main(about: str, makes: Mapping[str, Make], usual: Collection[str]) -> None:
    """Print the machine, then each table of a command line as soon as it is made.

    Args:
        about: the description of the command.
        makes: the functions that make tables, by name.
        usual: the names of those that are printed if none is asked for.
    """
    names = (" ".join([name, *(f"{key}={value}" for key, value in options(makes[name]).items())]) for name in makes)
    parser = argparse.ArgumentParser(
        description=about,
        epilog="\n".join(["tables, with the defaults of their options:", *names]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--markdown", action="store_true", help="print as in bench/RESULTS.md")
    parser.add_argument("tables", nargs="*", metavar="TABLE [OPTION=VALUE ...]", help="only these tables")
    given = parser.parse_args()
    try:
        chosen = [*asked(makes, given.tables or usual)]
    except (KeyError, ValueError) as error:
        parser.error(f"there is no such table, option or value: {error}; --help names them")
    console = Console(width=150)
    console.print(f"{machine()} Shared machines are noisy: compare within one run.", highlight=False, soft_wrap=True)
    for make in chosen:
        made = make()
        for table in map(aligned, [made] if isinstance(made, Table) else made):
            if given.markdown:
                print(f"\n{markdown(table)}")
            else:
                console.print(table)
