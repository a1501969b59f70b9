"""The words that the demo shows, each explained in a line as in the glossary of the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rich.table import Table

from ragweir.streams.runtime.text.terminal import Terminal

JUDGE: Mapping[str, str] = MappingProxyType(
    {
        "dead letter": "A rejected record, with its bytes, the reason, and the position where it was read.",
        "rule": "Condition on the scores or fields of an event that selects it for suites, with a probability.",
        "floor": "Least probability with which every event is selected for a suite.",
        "deferred": "Status of a judge request that waits for the budget of another day.",
        "estimate": "Mean that all events would have for a judged metric, from the judged ones, each weighted by the"
        " inverse of its inclusion probability.",
        "unanswered": "Selected without a score though the metric is defined; an estimate with too many such events has"
        " no mean.",
        "incomplete": "An estimate from fewer events than were selected: the others failed or still wait.",
    }
)
"""Words of the results, and of the judge."""

ALERT: Mapping[str, str] = MappingProxyType(
    {
        "window": "Sums of all evaluations within one interval of event time and with one label set.",
        "SLO": "Service level objective: the share of events that must have a metric above or below a bound.",
        "error budget": "Share of events that may be bad without missing an SLO.",
        "burn rate": "Share of bad events divided by the error budget of an SLO; at 1 the budget is used up exactly.",
        "page": "Severity of an alert that needs action at once; a ticket needs action within days.",
    }
)
"""Words of the alert."""


def explain(terminal: Terminal, words: Mapping[str, str]) -> None:
    """Print the meaning of each word, wrapped beside it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for word, meaning in words.items():
        grid.add_row(f"  {word}", meaning)
    terminal.print(grid)
