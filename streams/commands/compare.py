"""`ragweir compare`: compares two evaluations of the same events, with intervals and significance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table
from rich.text import Text

from ragweir.metrics.aggregation.estimate import parse_estimate_name
from ragweir.metrics.metric import Metric
from ragweir.streams.analysis.compare.gates import EXAMPLE, Gate
from ragweir.streams.analysis.console_links import segment
from ragweir.streams.analysis.evaluation_source import EvaluationSource, ShowProgress
from ragweir.streams.commands.app import FAILURE, app, err, out, settings
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import By, JsonFile, dimensions_of, write, write_json
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings

if TYPE_CHECKING:
    from ragweir.streams.analysis.compare.comparison import Change, Comparison, MetricChange

_METRIC_ROWS, _SLICE_ROWS, _EVENT_METRICS, _EVENT_ROWS, _ONE_SIDED = 20, 15, 3, 3, 8
_STYLE: Mapping[str, str] = {"worse": "red", "better": "green", "changed": "", "unchanged": "dim"}


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="Baseline: a file, `live` or the id of a replay.")],
    b: Annotated[
        str, typer.Argument(help="Side that is compared with the baseline: a file, `live` or the id of a replay.")
    ],
    by: By = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(help=f"Least change for the worse with exit status 1, as {EXAMPLE}. Repeatable."),
    ] = None,
    json_file: JsonFile = None,
    html: Annotated[Path | None, typer.Option(help="File for a report with plots, HTML without scripts.")] = None,
) -> None:
    """Compare two evaluations of the same events, B with the baseline A.

    Each side is a file of evaluations (as `ragweir score --out` writes them), `live` for the live evaluations, or
    the id of a replay. Events are paired by id; of several evaluations of an event the judged one counts, else the
    newest. The report has for each metric the mean of the differences B - A with its 95 % interval, the
    standardised effect (that mean divided by the standard deviation of the differences), and the shares of events
    that are better and worse. Events that share a session or a question are clusters, on whose number the interval
    rests. Changes are significant at a false discovery rate of 5 % over all metrics and slices. Judged metrics are
    compared on the events that were judged on both sides, without weights.

    `--fail-on "METRIC CHANGE"` makes the exit status 1 when, over all events that have the metric on both sides, the
    mean difference reaches the change (at most -0.02 for `"context_support -0.02"`, at least 200 for `"total_latency_ms
    200"`) and its 95 % interval does not contain 0; also when fewer than 10 events have the metric on both sides, or
    those are fewer than 5 clusters in effect. The sign of the change must be for the worse. The share of a label is
    written `answer_class=WRONG`. Usage errors have exit status 2.
    """
    effective = settings()
    dimensions = dimensions_of(effective, by)
    metrics = known_catalogue(effective).metrics
    directions = {name: metric.better for name, metric in metrics.items()}
    for text in fail_on or ():  # Before the comparison, which takes longer.
        Gate.read(text, directions)
    comparison = _compared(effective, (a, b), dimensions, metrics)
    failures = comparison.failures(*fail_on or ())
    _report(comparison)
    if json_file:
        write_json(json_file, orjson.dumps(comparison, option=orjson.OPT_INDENT_2))
        _say_page(effective, json_file)
    if html:
        from ragweir.streams.analysis.compare.html_report import page  # noqa: PLC0415 - with the module that needs DuckDB

        write(html, page(comparison).encode(errors="replace"))
    for failure in failures:
        err.say(f"failed: {failure}", "red")
    if failures:
        raise typer.Exit(FAILURE)


def _say_page(effective: Settings, file: Path) -> None:
    """Print the link to a comparison that is in the folder of the console's."""
    own, suffix = effective.console, file.suffix
    if own.public_url and suffix == ".json" and file.resolve().parent == (own.folder / "compare").resolve():
        out.say(f"In the console: {own.public_url}/compare/{segment(file.stem)}")


def _compared(
    effective: Settings, sides: tuple[str, str], by: Sequence[str], metrics: Mapping[str, Metric]
) -> Comparison:
    from ragweir.streams.analysis.compare.compare import compare as compared  # noqa: PLC0415 - others need no DuckDB

    with ExitStack() as stack:
        bars = stack.enter_context(Bars())
        first, second = (stack.enter_context(_file(effective, side, bars.shown)) for side in sides)
        task = bars.add("", 1.0)
        return compared(
            (first, second),
            sides,
            by,
            metrics,
            lambda share, now: bars.update(task, completed=share, description=printable(now)),
        )


@contextmanager
def _file(effective: Settings, side: str, shown: ShowProgress) -> Iterator[Path]:
    """Give the file of a side for the length of a `with` block; for a topic a copy of it."""
    source = EvaluationSource.named(effective, side)
    if source.file is not None:
        yield source.file
        return
    with NamedTemporaryFile(prefix="ragweir-compare-", suffix=".jsonl") as copy:
        for value in source.values(shown):
            copy.write(value + b"\n")
        copy.flush()
        yield Path(copy.name)


def _report(comparison: Comparison) -> None:
    """Print the sides, the changes over all events and in slices, and the most changed events; long lists are cut."""
    for sentence in comparison.headline:
        out.say(sentence)
    changes = comparison.changes
    met = [change for change in changes if change.dimension is None and change.difference.pairs]
    moved = [change for change in met if change.difference.rose or change.difference.fell]
    sliced = [change for change in changes if change.dimension is not None and change.significant]
    _table("All events", moved, _METRIC_ROWS)
    _table("Slices that changed significantly", sliced, _SLICE_ROWS)
    _one_sided(comparison.metrics)
    by_name = {metric.metric: metric for metric in comparison.metrics}
    _events([by_name[change.metric] for change in met if change.significant])


def _table(title: str, changes: Sequence[Change], most: int) -> None:
    if not changes:
        return
    table = Table(title=title, title_justify="left", box=None, padding=(0, 1, 0, 0))
    table.add_column("metric", overflow="fold", min_width=17)
    for column in ("A", "B", "B - A (95 %)", "effect", "better/worse", "pairs"):
        table.add_column(column, justify="right", no_wrap=column[0] not in "Bb")
    for change in changes[:most]:
        found = change.difference
        name = printable(change.metric)
        if change.dimension is not None:
            name += f", {change.dimension} {printable(change.value or '')}"
        table.add_row(
            Text(name, "bold" if change.significant else ""),
            *("" if side is None else f"{side:.4g}" for side in (found.before, found.after)),
            found.interval,
            "" if found.effect is None else f"{found.effect:+.2f}",
            "" if change.better is None or change.worse is None else f"{change.better:.0%}/{change.worse:.0%}",
            f"{found.pairs:,}",
            style=_STYLE[change.verdict],
        )
    out.print()
    out.print(table)
    if len(changes) > most:
        out.say(f"and {len(changes) - most} more; --json has them all.")


def _one_sided(metrics: Sequence[MetricChange]) -> None:
    """Print the metrics that some events have on one side only, whose means may differ for that reason."""
    found = {parse_estimate_name(metric.metric)[0]: (metric.only_a, metric.only_b) for metric in metrics}
    names = [f"{printable(name)} ({a:,} in A, {b:,} in B)" for name, (a, b) in found.items() if a or b]
    if names:
        more = f" and {len(names) - _ONE_SIDED} more" if len(names) > _ONE_SIDED else ""
        out.say(f"\nEvents with a value on one side only: {', '.join(names[:_ONE_SIDED])}{more}.")


def _events(metrics: Sequence[MetricChange]) -> None:
    """Print the most changed events of the metrics that changed most."""
    rows = [(metric.metric, event) for metric in metrics[:_EVENT_METRICS] for event in metric.events[:_EVENT_ROWS]]
    if not rows:
        return
    table = Table(title="Most changed events", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("metric", overflow="fold")
    table.add_column("event")
    table.add_column("A", justify="right")
    table.add_column("B", justify="right")
    for name, event in rows:
        table.add_row(
            Text(printable(name)), Text(printable(event.event_id)), f"{event.before:.4g}", f"{event.after:.4g}"
        )
    out.print()
    out.print(table)
