"""A summary of many evaluations for a terminal: per metric how many, the mean and the spread, and what was judged."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import fmean

from rich.table import Table

from ragweir.metrics.aggregation.aggregator import Aggregator, WindowEntry
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.window import EstimateResult
from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.judge.protocol import MAX_NAME_CHARACTERS
from ragweir.streams.terminal import printable

_KEPT = 100_000
"""Values kept per metric for its quantiles: enough for a file that somebody looks at, and a bound on memory."""
_BATCH = 1_000
"""Summing up many evaluations at once costs far less than one by one."""
_MOST_JUDGES = 5
"""Names of models that are shown: an endpoint may give each answer another."""


def dollars(micro: int) -> str:
    """Millionths of a dollar for people.

    >>> dollars(12_345)
    '$0.0123'
    """
    return f"${micro / 1_000_000:,.4f}"


class EvaluationSummary:
    """Grows with each evaluation.

    Args:
        totals: how judged evaluations are summed up to estimates.
        judging: whether what is selected is judged now.
    """

    def __init__(self, totals: Aggregator, *, judging: bool = False) -> None:
        self._totals, self._judging = totals, judging
        self.scored = self.refused = self.duplicates = self.selected = self.deferred = 0
        self.spent = 0
        """Millionths of a dollar."""
        self.at_most = 0
        """What calls that were broken off may have cost besides."""
        self.unpriced: list[str] = []
        """Models whose calls are not in these sums, since their price is not known."""
        self.outcomes: Counter[str] = Counter()
        """What became of the events whose judging has come to an end."""
        self.repaired: Counter[str] = Counter()
        """The number of events with each flag of a repair."""
        self._judges: dict[str, None] = {}
        """The models, in the order in which they are met."""
        self._values: defaultdict[str, list[float]] = defaultdict(list)
        self._labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._waiting: list[WindowEntry[None]] = []
        self._contents = WindowAggregate()

    def add(self, evaluation: Evaluation) -> None:
        """Take one evaluation in. A judged one repeats what the scored one had, which is not counted again."""
        counted = self._totals.entry(evaluation, None)
        if evaluation.stage == "scored":
            self.scored += 1
            self.selected += any(suite.status == "selected" for suite in evaluation.decision.suites)
        else:
            self._judged(evaluation)
        for name, value in counted.scores.items():
            if value is not None and len(self._values[name]) < _KEPT:
                self._values[name].append(value)
        for name, label in counted.categories.items():
            if label is not None:
                self._labels[name][label] += 1
        if evaluation.decision.suites:
            self._waiting.append(counted if counted.judged else counted._replace(scores={}, categories={}))
            if len(self._waiting) >= _BATCH:
                self._sum_up()

    def _judged(self, evaluation: Evaluation) -> None:
        statuses = {suite.status for suite in evaluation.decision.suites}
        self.outcomes[next((status for status in ("judged", "expired") if status in statuses), "failed")] += 1
        if evaluation.judge is not None and len(self._judges) <= _MOST_JUDGES:
            self._judges[evaluation.judge.model] = None

    def _sum_up(self) -> None:
        for contents in self._totals.aggregate(self._waiting).values():
            self._contents.merge(contents)
        self._waiting = []

    @property
    def settled(self) -> int:
        """How many of the selected events nothing more will become of."""
        return self.outcomes.total() + self.deferred

    def line(self) -> str:
        """Describe in one line what became of the events."""
        parts = {"scored": self.scored, "refused": self.refused, "duplicates left out": self.duplicates}
        told = ", ".join(f"{number} {what}" for what, number in parts.items() if number or what == "scored")
        if self.repaired:
            told += f"; repaired: {', '.join(f'{flag} {number}' for flag, number in self.repaired.most_common())}"
        if not self._judging:
            return told + (f"; {self.selected} selected for the judge" if self.selected else "")
        by = f" by {self._judged_by}" if self._judges else ""
        ends = {
            f"judged{by}": self.outcomes["judged"],
            "failed": self.outcomes["failed"],
            "expired": self.outcomes["expired"],
            "deferred (over the budget)": self.deferred,
            "left when stopped": self.selected - self.settled,
        }
        became = ", ".join(f"{number} {what}" for what, number in ends.items() if number)
        more = f" and at most {dollars(self.at_most)} for calls broken off" if self.at_most else ""
        more += f", not counting {' and '.join(self.unpriced)}, without a price" if self.unpriced else ""
        return (
            f"{told}; {self.selected} selected"
            + (f": {became}" if became else "")
            + f"; {dollars(self.spent)} spent{more}"
        )

    @property
    def _judged_by(self) -> str:
        """The models that judged, as the endpoint calls them."""
        names = [self._called(model) for model in list(self._judges)[:_MOST_JUDGES]]
        return ", ".join([*names, *(["others"] if len(self._judges) > _MOST_JUDGES else [])])

    @staticmethod
    def _called(model: str) -> str:
        return (
            f"{model} (simulated: no model is behind it)"
            if model == SIMULATED
            else printable(model, MAX_NAME_CHARACTERS)
        )

    def table(self) -> Table:
        """One row per metric that has a value; of judged metrics also what they come to over all events."""
        self._sum_up()
        estimates = self._contents.results()
        judges = f", {self.outcomes['judged']} judged by {self._judged_by}"
        title = f"{self.scored} evaluations" + (judges if self._judges else "")
        table = Table(title=title, title_justify="left")
        table.add_column("metric")
        for column in ("events", "mean", "least", "median", "most"):
            table.add_column(column, justify="right")
        if estimates:
            table.add_column("all events (95 %)")
        for name, values in self._values.items():
            ordered = sorted(values)
            shown = (fmean(ordered), ordered[0], ordered[len(ordered) // 2], ordered[-1])
            told = (_estimated(estimates[name]),) if name in estimates else ()
            table.add_row(name, str(len(ordered)), *(f"{value:,.3f}" for value in shown), *told)
        for name, labels in self._labels.items():
            table.add_row(
                name, str(labels.total()), ", ".join(f"{label} {count}" for label, count in labels.most_common(4))
            )
        for name, result in estimates.items():
            if name not in self._values:
                table.add_row(name, *[""] * 5, _estimated(result))
        return table


def _estimated(result: EstimateResult) -> str:
    """An estimate for people.

    >>> _estimated(EstimateResult(mean=0.7, low=0.6, high=0.8)), _estimated(EstimateResult(mean=0.7, low=None,
    ...     high=None, flags=("too_few", "incomplete")))
    ('0.700 (0.600 to 0.800)', '0.700 (too few, incomplete)')
    """
    flags = [flag.replace("_", " ") for flag in result.flags]
    between = [] if result.low is None else [f"{result.low:,.3f} to {result.high:,.3f}"]
    mean = "?" if result.mean is None else f"{result.mean:,.3f}"
    told = ", ".join([*between, *flags])
    return f"{mean} ({told})" if told else mean
