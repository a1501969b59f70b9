"""`ragweir slo suggest`: shows which objectives past events would have met, by application."""

from __future__ import annotations

import json
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import orjson
import typer
from rich.table import Table

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.metric import Metric
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord
from ragweir.streams.analysis.evaluation_source import EvaluationSource
from ragweir.streams.analysis.slo.rehearsal import NONE
from ragweir.streams.analysis.slo.suggestion import OBJECTIVES, History, Suggestion, bound
from ragweir.streams.commands.app import out, settings
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import JsonFile, dimensions_of, write_json
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.shared.dimensions import label
from ragweir.streams.services.shared.from_settings import aggregator, known_catalogue
from ragweir.streams.settings import Slo
from ragweir.streams.settings.time_arguments import time_argument

_MAX_VALUES = 20
"""Values of the dimension that are shown, those with the most events."""
_SHOWN = (0.9, 0.95, 0.99)
"""Objectives whose pages are shown; the JSON file has all."""
_MET = 0.95
"""Share of the past events that meet a bound that is not given."""


@dataclass(frozen=True, slots=True)
class _Past:
    """The evaluations of a source, as often as they are asked for."""

    source: EvaluationSource
    start: datetime | None
    end: datetime | None

    def __iter__(self) -> Iterator[Evaluation | EvaluationRecord]:
        with Bars() as bars:
            for each in self.source.evaluations(bars.shown, self.start):
                if each is not None and not (
                    (self.start and each.event_time < self.start) or (self.end and each.event_time >= self.end)
                ):
                    yield each


def suggest(
    metric: Annotated[str, typer.Argument(help="Metric of the SLO.")],
    source: Annotated[
        str, typer.Argument(help="Source of the evaluations: `live`, the id of a replay, or a file.")
    ] = "live",
    at_least: Annotated[
        float | None, typer.Option(help="Bound: an event is good if the metric is at least this.")
    ] = None,
    at_most: Annotated[
        float | None, typer.Option(help="Bound: an event is good if the metric is at most this.")
    ] = None,
    by: Annotated[
        str,
        typer.Option(help="Dimension of whose values each gets an SLO: application, tenant, labels.NAME and so on."),
    ] = "application",
    since: Annotated[
        str | None, typer.Option("--from", help="Start of the events: RFC 3339 time, or age such as 24h or 7d.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End of the events: RFC 3339 time, or age such as 24h or 7d.")
    ] = None,
    json_file: JsonFile = None,
) -> None:
    """Show how strict an objective past events would have met, and how often each would have paged.

    Of each application it prints the share of bad events with its 95 % interval, how often and for which share of the
    time the page of `ragweir slo rules` would have fired for some objectives, and the strictest objective that the past
    has met: it would never have paged, and even the upper limit of the share is within its budget. The lines of these
    SLOs for `ragweir.toml` follow. Without a bound, the one that 95 % of the events meet is taken.

    Events of one session or question are alike; the interval allows for that. A past that was bad gives a lenient
    objective: whether it is good enough, people decide.

    `ragweir slo suggest unsupported_risk --at-most 0.5 --from 7d`
    """
    effective, now = settings(), machine.now()
    if at_least is not None and at_most is not None:
        raise typer.BadParameter("--at-least and --at-most are alternatives")
    (dimension,) = dimensions_of(effective, [by])
    known = known_catalogue(effective).metrics.get(metric)
    if known is None or known.unit == "category":
        raise ConfigurationError(f"{metric!r} is no numeric metric that is switched on; `ragweir metrics` lists them")
    past = _Past(
        EvaluationSource.named(effective, source),
        time_argument(since, "--from", now) if since else None,
        time_argument(until, "--to", now) if until else None,
    )
    values: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
    for each in past:
        if (score := each.scores.get(metric)) is not None:
            values[label(dimension, each)].append(score)
    if not values:
        raise PermanentError(f"no evaluation of {past.source.name} has a value of {metric}")
    least, most = _bounds(known, values, at_least, at_most)
    chosen = sorted(values, key=lambda value: (-len(values[value]), value))[:_MAX_VALUES]
    history = History(
        [_slo(metric, least, most, dimension, value, number) for number, value in enumerate(chosen)],
        effective.windows,
        aggregator(effective),
    )
    for each in past:
        history.add(each)
    found = history.suggestions()
    _report(found, dimension, len(values) - len(chosen))
    if json_file:
        write_json(json_file, orjson.dumps(found, default=lambda slo: slo.model_dump(exclude_none=True)))


def _bounds(
    metric: Metric, values: dict[str, array[float]], at_least: float | None, at_most: float | None
) -> tuple[float | None, float | None]:
    """Return the bounds that were given, or the one that most events meet.

    Raises:
        typer.BadParameter: if none is given for a metric of which neither direction is better.
    """
    if at_least is not None or at_most is not None:
        return at_least, at_most
    if metric.better == "neither":
        raise typer.BadParameter(f"of {metric.name} neither direction is better: give --at-least or --at-most")
    is_least = metric.better == "higher"
    found = bound([score for own in values.values() for score in own], _MET, at_least=is_least)
    return (found, None) if is_least else (None, found)


def _slo(metric: str, least: float | None, most: float | None, dimension: str, value: str, number: int) -> Slo:
    # Names are short and plain, and two values may differ in other characters alone.
    name = re.sub(r"[^a-z0-9]+", "-", f"{metric} {value}".lower()).strip("-")[:50]
    name = name if re.match("[a-z]", name) else f"slo-{name}"
    return Slo(
        name=f"{name}-{number}" if number else name,
        metric=metric,
        at_least=least,
        at_most=most,
        objective=OBJECTIVES[0],
        dimensions={dimension: value} if value else {},
    )


def _report(found: list[Suggestion], dimension: str, others: int) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0))
    columns = (dimension, "events", "bad", "suggested", *(f"pages at {each:.0%}" for each in _SHOWN))
    for column in columns:
        table.add_column(column, justify="left" if column == dimension else "right", overflow="fold")
    for each in found:
        trials = {trial.objective: trial for trial in each.trials}
        table.add_row(
            *(printable(each.slo.dimensions.get(dimension, NONE)), f"{each.events:,}"),
            f"{each.share:.1%} ({100 * each.low:.1f} to {100 * each.high:.1f})",
            f"{100 * each.slo.objective:g}%" if each.is_suggested else "none",
            *(f"{trials[objective].pages}, {trials[objective].paged:.0%}" for objective in _SHOWN),
        )
    slo = found[0].slo
    words = f"at least {slo.at_least:g}" if slo.at_least is not None else f"at most {slo.at_most:g}"
    out.say(f"An event is good if its {slo.metric} is {words}. Pages, and the share of the time in which they fire:")
    out.print(table)
    if others:
        out.say(f"{others:,} more values with fewer events are not shown.")
    for each in found:
        if each.is_suggested:
            out.say("\n" + _toml(each.slo))
        else:
            out.say(f"\nNo objective of {dimension} {printable(each.slo.dimensions.get(dimension, NONE))} was met.")


def _toml(slo: Slo) -> str:
    limit = f"at_least = {slo.at_least!r}" if slo.at_least is not None else f"at_most = {slo.at_most!r}"
    lines = ["[[slo]]", f'name = "{slo.name}"', f'metric = "{slo.metric}"', limit, f"objective = {slo.objective}"]
    if slo.dimensions:
        ((name, value),) = slo.dimensions.items()
        lines.append(f"dimensions = {{ {_quoted(name)} = {_quoted(value)} }}")
    return "\n".join(lines)


def _quoted(text: str) -> str:
    r"""Return a text as TOML, in characters that a terminal prints.

    >>> print(_quoted("a" + chr(0x9B)))
    "a\U0000009b"
    """
    return "".join(
        each if each.isprintable() else f"\\U{ord(each):08x}" for each in json.dumps(text, ensure_ascii=False)
    )
