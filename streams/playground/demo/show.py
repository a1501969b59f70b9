"""What the demo shows: a table that grows with the evaluations, plain lines where nothing can be redrawn, a summary."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.metric import Metric
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.playground.demo.judge_statistics import LATEST, JudgeStatistics
from ragweir.streams.playground.demo.samples import samples
from ragweir.streams.playground.demo.traffic import Result

_WORST = 5
_MOST_ROWS = 14
_FRAME_ROWS = 9 + LATEST
"""What a terminal needs beside the rows: title, header, the judge's lines, and the lines before."""
EVENT_WIDTH, _APPLICATION_WIDTH = 21, 17
"""Fixed, so that columns do not jump as rows come and go."""
_VALUE_WIDTH = 5
_WIDE = 115
"""From this width on a terminal has room for the application and all columns."""
_JUDGE, _JUDGE_WIDTH = "simulated judge", 15
"""The column of why the judge was asked, and what it gave."""


@dataclass(frozen=True, slots=True)
class Column:
    """One metric as the demo shows it. Beyond the limit, in the metric's worse direction, the answer counts as bad."""

    metric: str
    title: str
    limit: float | None = None
    format: str = ".2f"
    spare: bool = False
    """Whether it is left out where there is little room."""


COLUMNS = (
    Column("total_latency_ms", "ms", 5_000, ",.0f"),
    Column("unsupported_risk", "risk", 0.5),
    Column("context_support", "support", 0.6),
    Column("lexical_hallucination", "invented", 0.5),
    Column("keyword_coverage", "keywords", 0.5, spare=True),
    Column("number_match", "numbers", 0.5, spare=True),
    Column("refusal", "declines"),
)
"""Those that the catalogue lacks, or that are switched off, are not shown."""

RANKING = ("unsupported_risk", "context_support")
"""What the worst answers are found by: the first of these that there is."""


@dataclass(slots=True)
class ResultTable:
    """Grows with each result.

    Args:
        catalogue: the metrics that are switched on.
        events: how many interactions are being sent.
    """

    catalogue: Catalogue
    events: int
    evaluated: int = 0
    dead: Counter[tuple[str, str]] = field(default_factory=Counter)
    latest: deque[Evaluation] = field(default_factory=lambda: deque(maxlen=_MOST_ROWS))
    versions: Counter[str] = field(default_factory=Counter)
    """Evaluations per pipeline version."""
    values: defaultdict[tuple[str, str], list[float]] = field(default_factory=lambda: defaultdict(list))
    """Per pipeline version and metric."""
    ranked: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Per sample the value that it is ranked by, and an event that had it."""
    docket: JudgeStatistics = field(init=False)

    def __post_init__(self) -> None:
        self.docket = JudgeStatistics(self.catalogue)

    @property
    def columns(self) -> list[Column]:
        """The columns whose metric is computed."""
        return [column for column in COLUMNS if column.metric in self.catalogue.metrics]

    @property
    def ranking(self) -> str | None:
        """The metric that the worst answers are found by."""
        return next((name for name in RANKING if name in self.catalogue.metrics), None)

    def add(self, result: Result) -> None:
        """Take one result in."""
        if isinstance(result, DeadLetter):
            self.dead[result.error_class, result.message] += 1
        elif isinstance(result, JudgeRequest):
            self.docket.deferred(result)
        elif result.stage == "judged":
            self.docket.judged(result)
        else:
            self.docket.scored(result)
            self._count(result)

    def _count(self, evaluation: Evaluation) -> None:
        self.evaluated += 1
        self.latest.append(evaluation)
        scores, version = evaluation.scores, evaluation.pipeline_version or ""
        self.versions[version] += 1
        for column in self.columns:
            if (value := scores[column.metric]) is not None:
                self.values[version, column.metric].append(value)
        if self.ranking and (value := scores[self.ranking]) is not None and not declines(evaluation):
            # A sample that comes round again scores the same: one event stands for it.
            self.ranked.setdefault(evaluation.labels["sample"], (value, evaluation.event_id))

    def count(self, metric: str) -> int:
        """How many evaluations have a value of this metric."""
        return sum(len(values) for (_, name), values in self.values.items() if name == metric)

    def cell(self, column: Column, value: float | None, *, blame: bool = True) -> Text:
        """A value, red when it is bad; a dash when there is none."""
        if value is None:
            return Text("-", "dim")
        better = self.catalogue.metrics[column.metric].better
        bad = column.limit is not None and (value < column.limit if better == "higher" else value > column.limit)
        return Text(format(value, column.format), "bold red" if bad and blame else "")

    def judge_cell(self, event_id: str) -> Text:
        """Why the judge was asked about an event, and what has become of it; a dash for one that was not selected."""
        asked = self.docket.events.get(event_id)
        return Text(str(asked)) if asked else Text("-", "dim")


def declines(evaluation: Evaluation) -> bool:
    """Whether the answer declines: it then asserts nothing, and words without support are no fault of it."""
    return bool(evaluation.scores.get("refusal"))


@contextmanager
def screen(console: Console, report: ResultTable) -> Iterator[_Screen]:
    """Show results as they come: redrawn on a terminal, as lines anywhere else."""
    if not console.is_interactive:
        yield _PlainLines(console, report)
        return
    with Live(console=console, refresh_per_second=8, get_renderable=lambda: _latest(console, report)):
        yield _Screen()


class _Screen:
    """Redraws by itself."""

    def shown(self, result: Result) -> None:
        """A result has been added to the report."""


class _PlainLines(_Screen):
    """One line per result, for logs and terminals that cannot move the cursor."""

    def __init__(self, console: Console, report: ResultTable) -> None:
        self._console = console
        self._report = report
        self._print(["event", "application", "ver", *(column.title for column in report.columns)], _JUDGE)

    @override
    def shown(self, result: Result) -> None:
        if isinstance(result, DeadLetter):
            self._print([f"dead letter ({result.error_class}): {result.message}"])
        elif isinstance(result, JudgeRequest):
            self._print([f"judge, deferred: {result.evaluation.event_id}: {result.why}"])
        elif result.stage == "judged":
            asked = self._report.docket.events.get(result.event_id)
            self._print([f"simulated judge: {result.event_id}: {asked}"])
        else:
            report, scores = self._report, result.scores
            values = [report.cell(column, scores[column.metric]).plain for column in report.columns]
            first = [result.event_id, result.application or "", result.pipeline_version or ""]
            self._print([*first, *values], report.judge_cell(result.event_id).plain)

    def _print(self, cells: list[str], judge: str = "") -> None:
        first, *rest = cells
        lefts = [f"{cell:<{width}}" for cell, width in zip(rest[:2], (_APPLICATION_WIDTH, 3), strict=False)]
        line = "  ".join([f"{first:<{EVENT_WIDTH}}", *lefts, *(f"{cell:>8}" for cell in rest[2:]), judge])
        self._console.print(line.rstrip(), markup=False, highlight=False, soft_wrap=True)


def _table(columns: list[Column], *names: str) -> Table:
    """A table with the named columns, then these."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    for name in names:
        width = {"event": EVENT_WIDTH, "application": _APPLICATION_WIDTH}.get(name)
        table.add_column(name, no_wrap=True, width=width)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True, min_width=_VALUE_WIDTH)
    return table


def _latest(console: Console, report: ResultTable) -> Group:
    rows = max(3, min(_MOST_ROWS, console.height - _FRAME_ROWS))
    title = f"Evaluations as they come: {report.evaluated} of {report.events}"
    if report.dead:
        title += f", {report.dead.total()} dead letters"
    facts = {"event": "event_id", "application": "application", "ver": "pipeline_version"}
    columns = report.columns
    if console.width < _WIDE:
        del facts["application"]
        columns = [column for column in columns if not column.spare]
    table = _table(columns, *facts)
    table.add_column(_JUDGE, no_wrap=True, width=_JUDGE_WIDTH)
    for each in list(report.latest)[-rows:]:
        blame = not declines(each)
        cells = (report.cell(column, each.scores[column.metric], blame=blame) for column in columns)
        table.add_row(*(getattr(each, fact) for fact in facts.values()), *cells, report.judge_cell(each.event_id))
    lasts = (Text(f"{each:<{EVENT_WIDTH}} {report.docket.events[each]}") for each in report.docket.latest)
    return Group(Text(title, "bold"), table, Text(f"Simulated judge: {report.docket}", "bold"), *lasts)


def summarise(console: Console, report: ResultTable, sent: int) -> None:
    """What became of the traffic, how the pipeline versions compare, and which answers are worst."""
    told = f"{sent} records published: {report.evaluated} evaluated, {report.dead.total()} dead letters."
    console.print(f"\n{told}", highlight=False)
    for (error_class, message), count in sorted(report.dead.items()):
        console.print(f"  {count} {error_class}: {message}", markup=False, highlight=False, soft_wrap=True)
    head = "\nMeans per pipeline version", "bold"
    console.print(Text.assemble(head, " (sample traffic written for this demo; v2 is made worse)"), soft_wrap=True)
    console.print(_versions(report))
    named = "; ".join(f"{column.title} is {column.metric}" for column in report.columns)
    console.print(f"{named}.", style="dim", highlight=False, soft_wrap=True)
    if report.ranking:
        _worst(console, report, report.catalogue.metrics[report.ranking])


def _versions(report: ResultTable) -> Table:
    table = _table(report.columns, "version", "events")
    for version in sorted(report.versions):
        found = [report.values[version, column.metric] for column in report.columns]
        cells = (
            report.cell(column, fmean(values) if values else None)
            for column, values in zip(report.columns, found, strict=True)
        )
        table.add_row(Text(version), str(report.versions[version]), *cells)
    return table


def _worst(console: Console, report: ResultTable, metric: Metric) -> None:
    responses = {sample["event_id"]: sample["response"] for sample in samples()}
    head = f"\nWorst answers by {metric.name}", "bold"
    console.print(Text.assemble(head, " (text from the samples; evaluations hold none)"))
    ordered = sorted(report.ranked.items(), key=lambda item: item[1], reverse=metric.better == "lower")
    for sample, (value, event_id) in ordered[:_WORST]:
        line = Text.assemble((f"{value:.2f}", "bold red"), f"  {event_id:<{EVENT_WIDTH}}  {responses[sample]}")
        line.truncate(max(console.width, 80), overflow="ellipsis")
        console.print(line, soft_wrap=True)
