"""`ragweir slo rehearse`: shows when the alerts of SLOs would have fired on past evaluations."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from pydantic import BaseModel, ValidationError
from rich.table import Table
from rich.text import Text

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.shift.contributions import ShiftMetrics
from ragweir.streams.analysis.console_links import causes_address
from ragweir.streams.analysis.evaluation_source import EvaluationSource
from ragweir.streams.analysis.slo.alert_rules import rules, written
from ragweir.streams.analysis.slo.burns import BURNS, duration
from ragweir.streams.analysis.slo.counting import SloCounter
from ragweir.streams.analysis.slo.history_tests import history_tests
from ragweir.streams.analysis.slo.linked_rules import link_rules, link_tests
from ragweir.streams.analysis.slo.page_causes import with_causes
from ragweir.streams.analysis.slo.rehearsal import (
    AlertRehearsal,
    Firing,
    Rehearsal,
    SloRehearsal,
    duration_text,
    rehearse,
    slo_text,
)
from ragweir.streams.analysis.slo.shifts import ShiftCounter
from ragweir.streams.analysis.slo.synthetic_tests import synthetic_tests
from ragweir.streams.analysis.slo.timeline import page
from ragweir.streams.commands.app import out, settings
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import By, JsonFile, dimensions_of, write, write_json
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.from_settings import aggregator, known_catalogue
from ragweir.streams.settings import Settings, Slo
from ragweir.streams.settings.time_arguments import time_argument

_EXAMPLE = '"relevant: context_support >= 0.5 for 95%"'
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_SLO = re.compile(
    r"\s*(?P<name>[^:\s]+)\s*:\s*(?P<metric>[^\s<>=]+)\s*(?P<bound>>=|<=)\s*"
    rf"(?P<value>{_NUMBER})\s+for\s+(?P<objective>{_NUMBER})\s*%(?:\s+where\s+(?P<where>\S.*?))?\s*"
)
_BOUNDS = {">=": "at_least", "<=": "at_most"}
_ROWS, _VALUES, _SECONDS_PER_MINUTE = 20, 3, 60
_STYLE = {"page": "red", "ticket": "yellow"}
_TIME = "%Y-%m-%d %H:%M"


def candidate(text: str) -> Slo:
    """Read an SLO from its text.

    >>> slo = candidate("quick: total_latency_ms <= 3000 for 99.9% where tenant=acme and model=m-4")
    >>> slo.name, slo.metric, slo.at_most, slo.objective, slo.dimensions
    ('quick', 'total_latency_ms', 3000.0, 0.999, {'tenant': 'acme', 'model': 'm-4'})

    Raises:
        typer.BadParameter: if it is no SLO.
    """
    match = _SLO.fullmatch(text)
    if match is None:
        raise typer.BadParameter(
            f"--slo {text!r} is no SLO; one looks like {_EXAMPLE}, or with <=, or with `where tenant=acme` at the end"
        )
    conditions = re.split(r"\s+and\s+", match["where"]) if match["where"] else []
    pairs = [condition.partition("=") for condition in conditions]
    if wrong := [condition for condition, (_, equals, _) in zip(conditions, pairs, strict=True) if not equals]:
        raise typer.BadParameter(f"--slo: {wrong[0]!r} is no dimension with its value, such as tenant=acme")
    try:
        return Slo.model_validate(
            {
                "name": match["name"],
                "metric": match["metric"],
                _BOUNDS[match["bound"]]: float(match["value"]),
                "objective": float(Decimal(match["objective"]) / 100),
                "dimensions": {name.strip(): value.strip() for name, _, value in pairs},
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        what = {"name": "its name must be small letters, digits, - and _", "objective": "its share must be under 100 %"}
        reason = what.get(str(first["loc"][0]) if first["loc"] else "", first["msg"].removeprefix("Value error, "))
        raise typer.BadParameter(f"--slo {text!r} is no SLO: {reason}; one looks like {_EXAMPLE}") from None


def _candidates(effective: Settings, given: Sequence[str]) -> tuple[Slo, ...]:
    """Return the SLOs that were given, else those of the settings."""
    slos = tuple(candidate(text) for text in given) or effective.slo
    if not slos:
        raise ConfigurationError(f"there is no SLO in the settings, and none was given: --slo {_EXAMPLE}")
    if len({slo.name for slo in slos}) < len(slos):
        raise typer.BadParameter("--slo: two SLOs have the same name")
    # As the live service does: an alert on a misspelt metric would never fire.
    SERVICES["aggregate"].check(effective.model_copy(update={"slo": slos}))
    return slos


def rehearsal(
    source: Annotated[
        str, typer.Argument(help="Source of the evaluations: `live`, the id of a replay, or a file.")
    ] = "live",
    since: Annotated[
        str | None, typer.Option("--from", help="Start of the events: RFC 3339 time, or age such as 24h or 7d.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", help="End of the events: RFC 3339 time, or age such as 24h or 7d.")
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option(help=f"SLO to rehearse in place of those in the settings, such as {_EXAMPLE}. Repeatable."),
    ] = None,
    by: By = None,
    picture: Annotated[Path | None, typer.Option(help="File for a timeline, HTML without scripts.")] = None,
    json_file: JsonFile = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--write",
            metavar="DIR",
            help="Folder for Prometheus rules (slo.yml) and promtool tests (slo_tests.yml, slo_history.yml).",
        ),
    ] = None,
) -> None:
    """Show when the alerts of SLOs would have fired in the past, for how long, and on which events.

    The alerts are those that `ragweir slo rules` writes: a page when the error budget burns fast, a ticket when it
    burns slowly. An SLO is written `"NAME: METRIC >= NUMBER for SHARE%"`, or with `<=`, and optionally ends with
    `where tenant=acme and labels.region=eu`. The exit status is 0 whether or not an alert fired.

    For each of the first pages, the causes that `ragweir blame` finds among the events since the start of the long
    window are shown.

    `ragweir slo rehearse --from 7d --slo "relevant: context_support >= 0.5 for 95%" --by tenant --picture past.html`

    Events are counted by event time, with counters that begin at the first event. Live counters count by the time of
    the evaluation, so that alerts on judged metrics are later by the time that judging takes. An event that was
    evaluated twice counts twice, as in the live counters.

    More than three weeks of events are also tested for shifts of means, as `ragweir export` does for the alert
    RagweirQualityShifted; metrics of a judge are left out of this.
    """
    effective = settings()
    now = machine.now()
    start = time_argument(since, "--from", now) if since else None
    end = time_argument(until, "--to", now) if until else None
    if start and end and start >= end:
        raise typer.BadParameter(f"--from {since} is not before --to {until}")
    slos = _candidates(effective, slo or ())
    counting = SloCounter(slos, dimensions_of(effective, by), effective.windows, aggregator(effective))
    evaluations = EvaluationSource.named(effective, source)
    shifts = None
    if effective.shift.enabled:
        shifts = ShiftCounter(ShiftMetrics(known_catalogue(effective)), effective.shift.max_applications, now)
    found = _read(counting, shifts, evaluations, start, end)
    with Bars() as bars:
        found = with_causes(found, effective, slos, partial(evaluations.values, bars.shown), now)
    _report(found, effective)
    judged = aggregator(effective).suites
    if json_file:
        write_json(json_file, orjson.dumps(found, default=_plain, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z))
    if picture:
        write(picture, page(found).encode(errors="replace"))
    if directory:
        _write(directory, counting, found, judged, effective.console.public_url)


def _read(
    counting: SloCounter,
    shifts: ShiftCounter | None,
    source: EvaluationSource,
    start: datetime | None,
    end: datetime | None,
) -> Rehearsal:
    """Read the evaluations, count them, and rehearse.

    Raises:
        PermanentError: if no evaluation counts.
    """
    outside = rejected = 0
    with Bars() as bars:
        for evaluation in source.evaluations(bars.shown, start):
            if evaluation is None:
                rejected += 1
            elif (start and evaluation.event_time < start) or (end and evaluation.event_time >= end):
                outside += 1
            else:
                counting.add(evaluation)
                if shifts is not None:
                    shifts.add(evaluation)
    if not counting.evaluations:
        why = f"; {outside:,} are of other times" * bool(outside) + f"; {rejected:,} records are none" * bool(rejected)
        raise PermanentError(f"{source.name} holds no evaluations to rehearse on{why}")
    found = rehearse(counting, source.name, outside, rejected)
    if not any(each.events for each in found.slos):
        metrics = ", ".join(dict.fromkeys(each.metric for each in counting.slos))
        raise PermanentError(
            f"none of the {counting.evaluations:,} evaluations of {source.name} counts for an SLO: they have no value "
            f"of {metrics}, or other dimensions"
        )
    return found if shifts is None else replace(found, shifts=shifts.rehearse())


def _plain(model: Any) -> Any:
    if isinstance(model, BaseModel):
        return model.model_dump(exclude_none=True)
    raise TypeError


def _write(
    directory: Path, counting: SloCounter, found: Rehearsal, judged: Collection[str], public_url: str | None
) -> None:
    made = "Made by `ragweir slo rehearse`"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PermanentError(f"{directory} cannot be made: {error.strerror}") from None
    span = f"{found.start:{_TIME}} to {found.end:{_TIME}} UTC"
    own = rules(counting.slos, judged=judged)
    tests = synthetic_tests(counting.slos, "slo.yml", judged=judged)
    history = history_tests(counting, found, "slo.yml")
    link_rules(own, counting.slos, public_url)
    for each in (tests, history):
        link_tests(each, counting.slos, public_url)
    files = {
        "slo.yml": (own, f"{made}, as `ragweir slo rules` makes it."),
        "slo_tests.yml": (tests, f"{made}, as `ragweir slo rules --tests slo.yml` does."),
        "slo_history.yml": (
            history,
            f"{made} of what happened from {span}: each test is the window that an alert looked at.",
        ),
    }
    for name, (content, head) in files.items():
        write(directory / name, written(content, [head]).encode())


def _report(found: Rehearsal, effective: Settings) -> None:
    out.say(
        f"{found.evaluations:,} evaluations of {printable(found.source)}, "
        f"from {found.start:{_TIME}} to {found.end:{_TIME}} UTC."
    )
    if found.rejected:
        out.say(f"{found.rejected:,} records are no evaluations and were left out.")
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("SLO", overflow="fold")
    for column in ("events", "bad", "budget spent"):
        table.add_column(column, justify="right")
    for burn in BURNS:
        table.add_column(f"{burn.severity} fired")
    for slo in found.slos:
        table.add_row(printable(slo.slo.name), *_counted(slo), *map(_outcome, slo.alerts))
    for slo in found.slos:
        out.say(f"{slo.slo.name}: {slo_text(slo.slo)}.")
        if not slo.events:
            out.say(
                f"  It counts none of these evaluations, and its alerts could not fire: {slo.slo.metric} is null on "
                "all of them, or they have other dimensions."
            )
    out.print()
    out.print(table)
    _alerts(found, effective)


def _alerts(found: Rehearsal, effective: Settings) -> None:
    every = [(slo, alert) for slo in found.slos for alert in slo.alerts]
    firings = [(slo.slo, alert, firing) for slo, alert in every for firing in alert.firings]
    firings.sort(key=lambda each: each[2].start)
    for each in firings[:_ROWS]:
        _fired(*each)
        own, _, firing = each
        # The console knows the SLOs of the settings.
        if (url := effective.console.public_url) and own in effective.slo:
            out.say(f"  In the console: {causes_address(url, own, firing.start, firing.end)}")
    if len(firings) > _ROWS:
        out.say(f"\nand {len(firings) - _ROWS} more; --json has them all.")
    out.print()
    for slo, alert in every:
        if slo.events and not alert.firings:
            _stayed_quiet(slo.slo, alert)
    if found.shifts is not None:
        for sentence in found.shifts.sentences:
            out.say(printable(sentence, None))


def _counted(slo: SloRehearsal) -> tuple[str, str, str]:
    if slo.spent is None:
        return "0", "", ""
    return f"{slo.events:,}", f"{slo.share or 0:.1%}", f"{slo.spent:.0%}"


def _outcome(alert: AlertRehearsal) -> Text:
    if alert.firings:
        lasted = sum((firing.lasted for firing in alert.firings), timedelta())
        return Text(f"{len(alert.firings)} x, {duration_text(lasted)}", _STYLE[alert.burn.severity])
    return Text(f"never ({alert.closest:.0%})")


def _fired(slo: Slo, alert: AlertRehearsal, firing: Firing) -> None:
    ends = "still firing at the end" if firing.ongoing else f"to {firing.end:{_TIME}}"
    out.say(
        f"\n{alert.burn.severity} for {slo.name}: {firing.start:{_TIME}} {ends}, for {duration_text(firing.lasted)}. "
        f"{firing.bad:,} of {firing.events:,} events bad, at most {firing.peak:.0%} in "
        f"{duration(alert.burn.long_m * _SECONDS_PER_MINUTE)} (fires above {alert.threshold:.3g})."
    )
    named = [
        f"{each.dimension} {printable(each.value)} ({each.bad:,} of {each.events:,} bad, {each.excess:,.0f} too many)"
        for each in firing.concentrated[:_VALUES]
    ]
    out.say("  On " + ", ".join(named) + "." if named else "  On no value of a dimension more than on the others.")
    if firing.causes is not None:
        _blamed(firing.causes)
    out.say(
        "  Such as " + ", ".join(f"{printable(each.event_id)} ({each.score:.3g})" for each in firing.examples) + "."
    )


def _blamed(causes: Mapping[str, Any]) -> None:
    """Print blame's answer for a page."""
    sentences = causes["sentences"]
    for sentence in sentences[:_VALUES]:
        out.say(f"  Blame: {printable(sentence, None)}.")
    if not sentences:
        out.say(f"  Blame: {'no value is worse than the rest' if causes['enough'] else 'too little data'}.")


def _stayed_quiet(slo: Slo, alert: AlertRehearsal) -> None:
    near = "nothing was bad"
    if alert.closest_at is not None:
        near = f"it came to {alert.closest:.0%} of what fires, at {alert.closest_at:{_TIME}}"
    out.say(f"No {alert.burn.severity} for {slo.name}: {near}.")
