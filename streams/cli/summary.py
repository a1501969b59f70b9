"""A summary of many evaluations for a terminal: per metric how many, the mean and the spread."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from rich.table import Table

_KEPT = 100_000
"""Values kept per metric for its quantiles: enough for a file that somebody looks at, and a bound on memory."""


@dataclass(slots=True)
class Summary:
    """Grows with each evaluation."""

    scored: int = 0
    refused: int = 0
    values: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    labels: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, evaluation: Mapping[str, Any]) -> None:
        """Take one evaluation in."""
        self.scored += 1
        for name, value in evaluation["scores"].items():
            if value is not None and len(self.values[name]) < _KEPT:
                self.values[name].append(value)
        for name, label in evaluation["categories"].items():
            if label is not None:
                self.labels[name][label] += 1

    def line(self) -> str:
        """What became of the lines, in one line."""
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.scored} scored{refused}"

    def table(self) -> Table:
        """One row per metric that has a value."""
        table = Table(title=f"{self.scored} evaluations", title_justify="left")
        table.add_column("metric")
        for column in ("events", "mean", "least", "median", "most"):
            table.add_column(column, justify="right")
        for name, values in self.values.items():
            if not values:
                continue
            ordered = sorted(values)
            shown = (fmean(ordered), ordered[0], ordered[len(ordered) // 2], ordered[-1])
            table.add_row(name, str(len(ordered)), *(f"{value:,.3f}" for value in shown))
        for name, labels in self.labels.items():
            told = ", ".join(f"{label} {count}" for label, count in labels.most_common(4))
            table.add_row(name, str(labels.total()), told)
        return table
