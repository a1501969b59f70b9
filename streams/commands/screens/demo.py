"""The demo's screens: scores as they come, then the summary of `ragweir score` and the story of `ragweir explain`."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import fmean

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules, answer_evidence
from ragweir.streams.analysis.explain import TopicSearch
from ragweir.streams.analysis.labels.report import LabelReport
from ragweir.streams.analysis.originals import in_kafka
from ragweir.streams.commands.screens.agreement_table import agreement_tables
from ragweir.streams.commands.screens.evaluation_summary import EvaluationSummary, decimal, estimated, judge_outcome
from ragweir.streams.commands.screens.texts import TextScreen
from ragweir.streams.playground.demo.glossary import JUDGE, explain
from ragweir.streams.playground.demo.rater import ANSWERS, ERRS_OF
from ragweir.streams.playground.demo.sample_traffic import Result
from ragweir.streams.playground.demo.thumbs import HOURS_AGO, Thumbs
from ragweir.streams.runtime.text.terminal import Terminal
from ragweir.streams.services.shared.routing_rows import FLOOR
from ragweir.streams.settings import Settings

RISK = "unsupported_risk"
"""The metric that the worst answer is found by: higher is worse."""
FAITHFULNESS = "judge_faithfulness"
_MAX_ROWS = 10
_JUDGED_ROWS = 3
_OTHER_ROWS = 9 + _JUDGED_ROWS
"""Rows of a terminal that are needed for the title, the header, the judge's lines, and the lines above."""
_EVENT_WIDTH = 21
"""A fixed width, so that columns do not jump as rows come and go."""
_JUDGE = "judge"
_SHOWN_LANGUAGE = "en"
"""The language of the answer that is shown, which readers of the other words can read."""


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of the table. Values beyond the limit, in the metric's worse direction, are red."""

    metric: str
    title: str
    limit: float | None = None
    format: str = ".2f"


COLUMNS = (
    Column("total_latency_ms", "ms", 5_000, ",.0f"),
    Column(RISK, "risk", 0.5),
    Column("context_support", "support", 0.6),
    Column("lexical_hallucination", "invented", 0.5),
    Column("refusal", "declines"),
)
"""Metrics that are switched off are left out."""
SHOWN = (*(column.metric for column in COLUMNS), FAITHFULNESS)
"""The metrics of the summary and of the story."""


class Results:
    """The results of the demo's traffic."""

    def __init__(self, catalogue: Catalogue, events: int) -> None:
        self.catalogue, self.events = catalogue, events
        aggregator = Aggregator(catalogue)
        self.total = EvaluationSummary(aggregator, judging=True)
        self.versions: defaultdict[str, EvaluationSummary] = defaultdict(
            lambda: EvaluationSummary(aggregator, judging=True)
        )
        self.rejected: Counter[str] = Counter()
        """Dead letters, by error class and message."""
        self.judged: dict[str, str] = {}
        """By the id of an event that was selected: the judge's score, or what became of it, and the reasons."""
        self.deferred_because = ""
        self.worst: tuple[tuple[bool, float], str] | None = None
        """The id of the answer with the highest risk, behind what it is ranked by: a judged one if there is any."""
        self._latest: deque[Evaluation] = deque(maxlen=_MAX_ROWS)
        self._latest_judged: deque[str] = deque(maxlen=_JUDGED_ROWS)

    @property
    def columns(self) -> list[Column]:
        """The columns whose metric is computed."""
        return [column for column in COLUMNS if column.metric in self.catalogue.metrics]

    def add(self, result: Result) -> None:
        """Add one result. A judged evaluation may come before the scored one."""
        if isinstance(result, DeadLetter):
            self.total.rejected += 1
            self.rejected[f"{result.error_class}: {result.message}"] += 1
        elif isinstance(result, JudgeRequest):
            self._judge(result.evaluation, "later")
            self.deferred_because = result.why
            for summary in (self.total, self.versions[result.evaluation.pipeline_version or ""]):
                summary.deferred += 1
        else:
            for summary in (self.total, self.versions[result.pipeline_version or ""]):
                summary.add(result)
                summary.spent += round(1_000_000 * result.judge.cost_usd) if result.judge else 0
            self._rank(result)
            if result.stage == "scored":
                self._latest.append(result)
                self._judge(result, "asked")
            else:
                score = result.scores.get(FAITHFULNESS)
                self._judge(result, judge_outcome(result) if score is None else format(score, ".2f"))

    def _judge(self, evaluation: Evaluation, outcome: str) -> None:
        suites = [suite for suite in evaluation.decision.suites if suite.status != "not_selected"]
        event_id = evaluation.event_id
        if not suites or (outcome == "asked" and event_id in self.judged):
            return
        rules = dict.fromkeys(rule for suite in suites for rule in suite.because if rule != FLOOR)
        self.judged[event_id] = f"{outcome} {', '.join(rules or (FLOOR,))}"
        if outcome != "asked":
            self._latest_judged.append(event_id)

    def _rank(self, evaluation: Evaluation) -> None:
        risk, language = evaluation.scores.get(RISK), evaluation.labels.get("language", _SHOWN_LANGUAGE)
        if risk is not None and not declines(evaluation) and language == _SHOWN_LANGUAGE:
            ranked = (evaluation.stage == "judged", risk), evaluation.event_id
            self.worst = max(self.worst or ranked, ranked)

    def row(self, evaluation: Evaluation) -> list[Text]:
        """Return the cells of an evaluation: the columns' values, red where the answer is bad, and the judge's."""
        cells = [Text(_short(evaluation.event_id)), Text(evaluation.pipeline_version or "")]
        for column in self.columns:
            value, better = evaluation.scores[column.metric], self.catalogue.metrics[column.metric].better
            if value is None:
                cells.append(Text("-", "dim"))
                continue
            beyond = column.limit is not None and (value < column.limit if better == "higher" else value > column.limit)
            cells.append(Text(format(value, column.format), "bold red" if beyond and not declines(evaluation) else ""))
        outcome, _, _ = self.judged.get(evaluation.event_id, "-").partition(" ")
        return [*cells, Text(outcome)]

    def table(self, rows: int) -> Group:
        """Return the newest evaluations, and below them the newest results of the judge, in 80 columns."""
        title = f"Evaluations as they come: {self.total.scored} of {self.events}"
        title += f", {self.total.rejected} dead letters" if self.total.rejected else ""
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("event", no_wrap=True, width=_EVENT_WIDTH)
        table.add_column("ver", no_wrap=True)
        for column in self.columns:
            table.add_column(column.title, justify="right", no_wrap=True, min_width=5)
        table.add_column(_JUDGE, no_wrap=True, min_width=6)
        for each in list(self._latest)[-rows:]:
            table.add_row(*self.row(each))
        counts, total = self.total.outcomes, self.total
        ends = f"{counts['judged']} judged, {total.deferred} deferred, {counts['failed']} failed"
        judge = Text(f"Simulated judge: {len(self.judged)} selected, {ends}", "bold")
        return Group(
            Text(title, "bold"),
            table,
            judge,
            *(Text(f"{_short(each):<{_EVENT_WIDTH}} {self.judged[each]}") for each in self._latest_judged),
        )


def show_columns(terminal: Terminal, results: Results) -> None:
    """Print what the columns of the results mean."""
    terminal.print("The columns are metrics that need no LLM; values beyond the limit are red, where there is colour.")
    meanings = {}
    for column in results.columns:
        metric = results.catalogue.metrics[column.metric]
        beyond = "below" if metric.better == "higher" else "above"
        limit = "" if column.limit is None else f" Limit: {beyond} {column.limit:,g}."
        meanings[column.title] = f"{column.metric}: {metric.meaning}{limit}"
    explain(terminal, meanings | {"judge": "The judge's score of a selected event, or its status; simulated."})
    terminal.say("")


def declines(evaluation: Evaluation) -> bool:
    """Return true if the answer declines: it asserts nothing then, and words without support are no fault of it."""
    return bool(evaluation.scores.get("refusal"))


@contextmanager
def screen(terminal: Terminal, results: Results) -> Iterator[Callable[[Result], None]]:
    """Show results for the length of a `with` block, which gets the function that adds one.

    On a terminal a table is redrawn; elsewhere it is printed once, at the end.
    """
    if terminal.is_interactive:
        rows = max(3, min(_MAX_ROWS, terminal.height - _OTHER_ROWS))
        with Live(console=terminal, refresh_per_second=8, get_renderable=lambda: results.table(rows)):
            yield results.add
        return
    yield results.add
    terminal.print(results.table(_MAX_ROWS))


def _short(event_id: str) -> str:
    """Return an id, of an assembled interaction only the beginning.

    >>> _short("0af7651916cd43dd8448eb211c80319c:b7ad6b7169203331")
    '0af7651916cd43dd8448…'
    """
    return f"{event_id[: _EVENT_WIDTH - 1]}…" if len(event_id) > 2 * _EVENT_WIDTH else event_id


def summarise(terminal: Terminal, results: Results, sent: int, settings: Settings, calls: int) -> None:
    """Print what became of the traffic, and the summaries of the pipeline versions."""
    total = results.total
    terminal.print(f"\n{sent} records published: {total.line()}")
    for reason, count in sorted(results.rejected.items()):
        terminal.print(f"  {count} {reason}")
    floors = ", ".join(f"{share:.0%} for {suite}" for suite, share in settings.routing.floors.items())
    terminal.print(
        "\nThe judge is simulated: its scores are word overlap, no model is asked. It answered"
        f" {calls} calls and may cost {settings.judge.daily_budget_usd or 0:.2f} dollars a day, at made-up prices."
        f" Rules select suspicious events for it; of all events a random floor is selected, {floors}."
    )
    explain(terminal, JUDGE)
    if total.deferred:
        terminal.print(f"{total.deferred} events wait for the next day's budget (UTC): {results.deferred_because}.")
    _head(terminal, "The means of the versions", "sample traffic written for this demo; v2 is made worse")
    terminal.print(_means(results))
    if (estimate := total.estimates().get(FAITHFULNESS)) is not None:
        terminal.print(
            f"Estimate of {FAITHFULNESS} (simulated) over all {total.scored} answers: {estimated(estimate)}. The means"
            " above are those of the judged answers, most of which are suspicious."
        )


def _means(results: Results) -> Table:
    """Return a table of the means by pipeline version, with the number of values of each."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("metric", no_wrap=True)
    versions = sorted(results.versions)
    for version in versions:
        table.add_column(f"{version}, mean", justify="right")
        table.add_column("events", justify="right")
    for metric in SHOWN:
        values = [results.versions[version].values(metric) for version in versions]
        if any(values):
            cells = ((decimal(fmean(each)) if each else "-", str(len(each))) for each in values)
            table.add_row(metric, *(cell for pair in cells for cell in pair))
    return table


def show_worst(terminal: Terminal, results: Results, settings: Settings) -> None:
    """Print the answer with the highest risk, its passages, and the words that no passage has."""
    if results.worst is None:
        return
    event_id = results.worst[1]
    story = TopicSearch(settings, event_id, None, lambda _, __: lambda _: None).story()
    if story.evaluation is None:
        return
    _head(terminal, "The worst answer", f"as `ragweir explain {_short(event_id)} --text --evidence` shows it")
    original = in_kafka(settings, story.evaluation, story.source)
    TextScreen(terminal).show(answer_evidence(story.evaluation, original, EvidenceRules.of(settings)))
    terminal.print("`ragweir explain` alone shows its scores, how it was selected, the judge's words and its windows.")


def head_of_thumbs(terminal: Terminal) -> None:
    """Print the heading of the thumbs."""
    _head(terminal, "What do users say?", f"thumbs of simulated users on answers of {HOURS_AGO} hours ago")


def show_thumbs(terminal: Terminal, thumbs: Thumbs) -> None:
    """Print the thumbs by pipeline version."""
    terminal.print(
        f"{sum(each.total() for each in thumbs.values())} simulated users gave a thumb, one to {HOURS_AGO - 1} hours"
        " after their answer, and a few of them err. `match` and `tally` have joined each to its answer."
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("version")
    for name in ("up", "down"):
        table.add_column(name, justify="right")
    for version, counts in sorted(thumbs.items()):
        table.add_row(version, str(counts["up"]), str(counts["down"]))
    terminal.print(table)


def head_of_agreement(terminal: Terminal) -> None:
    """Print the heading of the agreement with the rater."""
    _head(terminal, "Does the score agree with people?", "labels of a simulated rater, as `ragweir labels report`")


def show_agreement(terminal: Terminal, report: LabelReport) -> None:
    """Print how far the score agrees with the rater."""
    terminal.print(
        f"A simulated rater, who knows which samples are made worse and errs on one in {ERRS_OF}, has labelled"
        f" up to {ANSWERS} answers, which `ragweir labels draw` chose. The numbers speak of all answers."
    )
    for table in agreement_tables(report):
        terminal.print(table)
    for note in report.notes:
        terminal.say(note)


def _head(terminal: Terminal, text: str, note: str) -> None:
    terminal.print(Text.assemble((f"\n{text}", "bold"), f" ({note})"))
