"""A summary of many evaluations for a terminal: count, mean and spread of each metric, and the judge's outcomes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.table import Table

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.aggregation.window_aggregate import WindowAggregate
from ragweir.schemas.evaluation import Evaluation, Status
from ragweir.schemas.evaluation_record import EvaluationRecord
from ragweir.schemas.packed_scores import ScoreRow, decisions_of, row_of
from ragweir.schemas.window import EstimateResult
from ragweir.streams.runtime.text.terminal import dollars, printable
from ragweir.streams.services.judge.probe import SIMULATED
from ragweir.streams.services.judge.protocol import MAX_NAME_CHARACTERS

_MAX_VALUES = 100_000
"""Values that are kept of each metric for its quantiles, as a bound on memory."""
_BATCH = 1_000
"""Evaluations that are aggregated at a time, which costs far less than one by one."""
_NO_CONTEXTS = "the event has no contexts"
HEADLINES = (
    "unsupported_risk",
    "context_support",
    "unsupported_words",
    "number_support",
    "lexical_hallucination",
    "lexical_relevance",
    "query_context_coverage",
    "context_relevance",
    "token_f1",
    "refusal",
    "response_words",
    "total_latency_ms",
)
"""Metrics to look at first, in order of importance."""
_MAX_MODELS = 5
"""Names of models that are shown; an endpoint may report another one in each answer."""


def decimal(value: float) -> str:
    """Format a number with at most three decimals, fewer if it is large, or its first digits if it is small.

    >>> decimal(1234.5678), decimal(12.3456), decimal(0), decimal(0.00042)
    ('1,235', '12.35', '0.000', '4.2e-04')
    """
    if 0 < abs(value) < 0.001:
        return f"{value:.1e}"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"


def judge_outcome(evaluation: Evaluation | EvaluationRecord) -> Status:
    """Return what became of an event whose judging has ended: judged where one suite at least was, expired or failed.

    >>> judge_outcome(Evaluation(event_id="1", event_time=0, catalogue_version="1", stage="judged"))
    'failed'
    """
    statuses = {suite.status for suite in evaluation.decision.suites}
    return "judged" if "judged" in statuses else "expired" if "expired" in statuses else "failed"


class EvaluationSummary:
    """Counts and statistics that are updated with each evaluation.

    Args:
        aggregator: aggregates judged evaluations for the estimates.
        judging: true if the selected events are judged in this run.
    """

    def __init__(self, aggregator: Aggregator, *, judging: bool = False) -> None:
        self._aggregator, self._judging = aggregator, judging
        self.scored = self.rejected = self.skipped = self.duplicates = self.selected = self.deferred = 0
        self.spent = 0
        """Cost of the judge's calls, in millionths of a dollar."""
        self.at_most = 0
        """Upper bound of the cost of aborted calls, in millionths of a dollar."""
        self.unpriced: list[str] = []
        """Models without a known price, whose calls are not in `spent`."""
        self.outcomes: Counter[Status] = Counter()
        """Events whose judging has ended, by outcome."""
        self.suites: Counter[Status] = Counter()
        """Suites of the events that were judged, by status."""
        self.repaired: Counter[str] = Counter()
        """Events by flag of a repair."""
        self.failed: Counter[str] = Counter()
        """Events by metric that raised or returned what it may not."""
        self._models: dict[str, None] = {}
        """The judge's models, in the order of their first answers."""
        self._without_contexts = self._empty = 0
        self._values: defaultdict[str, list[float]] = defaultdict(list)
        self._labels: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._waiting: list[ScoreRow] = []
        self._contents = WindowAggregate()

    def add(self, evaluation: Evaluation | EvaluationRecord) -> None:
        """Add one evaluation. The scores that a judged evaluation repeats are not counted again."""
        judged = evaluation.stage == "judged"
        if evaluation.stage == "scored":
            self.scored += 1
            self.selected += any(suite.status == "selected" for suite in evaluation.decision.suites)
            self._without_contexts += evaluation.reasons.get("context_support") == _NO_CONTEXTS
            self._empty += evaluation.scores.get("empty_response") == 1
        else:
            outcome = judge_outcome(evaluation)
            self.outcomes[outcome] += 1
            if outcome == "judged":
                self.suites.update(suite.status for suite in evaluation.decision.suites)
            if evaluation.judge is not None and len(self._models) <= _MAX_MODELS:
                self._models[evaluation.judge.model] = None
        for name in self._aggregator.counted(evaluation.scores, judged=judged):
            if (value := evaluation.scores[name]) is not None and len(self._values[name]) < _MAX_VALUES:
                self._values[name].append(value)
        for name in self._aggregator.counted(evaluation.categories, judged=judged):
            if (label := evaluation.categories[name]) is not None:
                self._labels[name][label] += 1
        if evaluation.decision.suites:
            self._waiting.append(row_of(evaluation) if judged else decisions_of(evaluation))
            if len(self._waiting) >= _BATCH:
                self._aggregate()

    def _aggregate(self) -> None:
        for contents in self._aggregator.aggregate(self._waiting, [None] * len(self._waiting)).values():
            self._contents.merge(contents)
        self._waiting = []

    @property
    def settled(self) -> int:
        """The number of selected events that are judged, failed, expired or deferred."""
        return self.outcomes.total() + self.deferred

    def values(self, metric: str) -> list[float]:
        """Return the values of a metric."""
        return self._values.get(metric, [])

    def estimates(self) -> dict[str, EstimateResult]:
        """Return the estimates of judged metrics over all events."""
        self._aggregate()
        return self._contents.results()

    def remarks(self) -> Iterator[str]:
        """Yield sentences about events of which less is known."""
        if self._without_contexts:
            yield f"{self._without_contexts} of {self.scored} have no contexts: how grounded they are is not known"
        if self._empty:
            yield f"{self._empty} of {self.scored} have an empty response (empty_response)"

    def line(self) -> str:
        """Return the numbers of events by outcome, and the cost, in one line."""
        parts = {
            "scored": self.scored,
            "rejected": self.rejected,
            "skipped by the map's `where`": self.skipped,
            "duplicates left out": self.duplicates,
        }
        text = ", ".join(f"{number} {what}" for what, number in parts.items() if number or what == "scored")
        if self.repaired:
            text += f"; repaired: {', '.join(f'{flag} {number}' for flag, number in self.repaired.most_common())}"
        if not self._judging:
            return text + (f"; {self.selected} selected for the judge" if self.selected else "")
        judged = f"judged by {self._model_names}" if self._models else "judged"
        if failed := self.suites["failed"]:
            judged += f" (of their {failed + self.suites['judged']} suites {failed} failed)"
        ends = {
            judged: self.outcomes["judged"],
            "failed": self.outcomes["failed"],
            "expired": self.outcomes["expired"],
            "deferred (over the budget)": self.deferred,
            "left when stopped": self.selected - self.settled,
        }
        text += f"; {self.selected} selected"
        if outcomes := ", ".join(f"{number} {what}" for what, number in ends.items() if number):
            text += f": {outcomes}"
        text += f"; {dollars(self.spent)} spent"
        text += f" and at most {dollars(self.at_most)} for calls broken off" if self.at_most else ""
        return text + (f", not counting {' and '.join(self.unpriced)}, without a price" if self.unpriced else "")

    @property
    def _model_names(self) -> str:
        names = [
            f"{model} (simulated: no model is behind it)"
            if model == SIMULATED
            else printable(model, MAX_NAME_CHARACTERS)
            for model in list(self._models)[:_MAX_MODELS]
        ]
        return ", ".join([*names, *(["others"] if len(self._models) > _MAX_MODELS else [])])

    def table(self, name: str = "", metrics: Collection[str] | None = None) -> Table:
        """Return a table with one row per metric that has a value, and the estimates of judged metrics.

        The metrics of `HEADLINES` come first, and the others in the order of the catalogue.

        Args:
            name: begins the title.
            metrics: the metrics to show; all by default.
        """
        estimates = self.estimates()
        judged = f", {self.outcomes['judged']} judged by {self._model_names}" if self._models else ""
        title = f"{name and f'{name}: '}{self.scored} evaluations{judged}"
        # Without vertical lines the names of metrics fit on 80 columns, whole.
        table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("metric", no_wrap=True)
        for column in ("events", "mean", "least", "median", "most"):
            table.add_column(column, justify="right")
        if estimates:
            table.add_column("all events (95 %)")
        rows: dict[str, tuple[str, ...]] = {}
        for metric, values in self._values.items():
            ordered = sorted(values)
            shown = (fmean(ordered), ordered[0], ordered[len(ordered) // 2], ordered[-1])
            rows[metric] = (str(len(ordered)), *map(decimal, shown))
        for metric, labels in self._labels.items():
            most = ", ".join(f"{label} {count}" for label, count in labels.most_common(4))
            rows[metric] = (str(labels.total()), most)
        for metric, result in estimates.items():
            rows[metric] = (*rows.get(metric, ("",) * 5), estimated(result))
        order = {name: place for place, name in enumerate(dict.fromkeys((*HEADLINES, *self._aggregator.schemes)))}
        for metric in sorted(rows, key=lambda name: order.get(name, len(order))):
            if metrics is None or metric in metrics:
                table.add_row(metric, *rows[metric])
        return table


def estimated(result: EstimateResult) -> str:
    """Format an estimate with its interval and flags.

    >>> estimated(EstimateResult(mean=0.7, low=0.6, high=0.8)), estimated(EstimateResult(mean=0.7, low=None,
    ...     high=None, flags=("too_few", "incomplete")))
    ('0.700 (0.600 to 0.800)', '0.700 (too few, incomplete)')
    """
    flags = [flag.replace("_", " ") for flag in result.flags]
    between = [] if result.low is None else [f"{result.low:,.3f} to {result.high:,.3f}"]
    mean = "?" if result.mean is None else f"{result.mean:,.3f}"
    notes = ", ".join([*between, *flags])
    return f"{mean} ({notes})" if notes else mean
