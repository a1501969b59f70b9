"""The agreement of metrics with people as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from ragweir.streams.analysis.labels.report import NUMBERS, AgreementTable, LabelReport
from ragweir.streams.runtime.text.terminal import printable


def agreement_tables(report: LabelReport) -> Iterator[Table]:
    """Yield a table of numbers with their limits for each question, metric, application and judge."""
    for each in report.tables:
        table = Table(
            title=printable(each.title, None),
            title_justify="left",
            caption=Text(printable(" ".join([each.basis + ".", *_reasons(each)]), None), "dim"),
            caption_justify="left",
            box=None,
            padding=(0, 2, 0, 0),
        )
        table.add_column("", no_wrap=True)
        for column in ("value", "95 % limits", "labels"):
            table.add_column(column, justify="right", no_wrap=True)
        for name, found in each.numbers:
            if isinstance(found, str):
                table.add_row(NUMBERS[name], "not known", "", "")
            else:
                limits = f"{found.low:.3f} to {found.high:.3f}"
                table.add_row(NUMBERS[name], f"{found.value:.3f}", limits, f"{found.n:,}")
        yield table


def _reasons(table: AgreementTable) -> Iterator[str]:
    """Yield a sentence for each number that is not known."""
    return (f"{NUMBERS[name].partition(':')[0]}: {found}." for name, found in table.numbers if isinstance(found, str))
