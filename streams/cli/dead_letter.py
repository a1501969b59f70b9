"""`ragweir dead-letter`: what was refused, why, and sending it again after a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from ragweir.errors import ErrorClass
from ragweir.streams.cli.app import app, err, out, settings
from ragweir.streams.dead_letters.listing import Letter, group_letters, position, read_letter, shown
from ragweir.streams.dead_letters.progress import RedriveResult
from ragweir.streams.dead_letters.redrive import Redrive, RedriveOptions, RedriveReport
from ragweir.streams.from_settings import read_map
from ragweir.streams.kafka.reader import Moved, offset_range, read
from ragweir.streams.settings import Settings

commands = typer.Typer(help="Look at the records that were refused, and send them again.", no_args_is_help=True)
app.add_typer(commands, name="dead-letter")

Watch = Callable[[int], Moved]

_HEADERS = 20
"""Of a letter that are shown, beside ours."""
_CLASSES = get_args(ErrorClass)
_NO_EVENT = (
    "hold no whole event and cannot be sent: a record without a value, of one too large its head, or one of several "
    "events in a record; for those that are too large, raise "
    "limits.max_event_bytes and publish the event again from where it came from, which `dead-letter show` tells"
)
_FATAL = (
    "are of class fatal and were left for later: evaluating them has ended processes, or took too long; give evaluate "
    "more memory or upgrade it, and then send them with --force"
)
_RESULTS: tuple[tuple[RedriveResult, str], ...] = (
    ("other_class", "of another class were left for later"),
    ("fatal", _FATAL),
    ("no_event", _NO_EVENT),
    ("other", "are not of evaluate"),
)


def _known(name: str | None) -> str | None:
    if name is not None and name not in _CLASSES:
        raise typer.BadParameter(f"there is no error class {name!r}; there are {', '.join(_CLASSES)}")
    return name


Class = Annotated[
    str | None, typer.Option("--class", callback=_known, help="Only letters of this error class, as list shows them.")
]


@commands.command("list")
def list_letters() -> None:
    """List the reasons for which records were refused: how many, since when, and from which topics.

    Messages that differ in numbers only are one reason. `waiting` is how many of them a redrive may still send.
    """
    redrive = Redrive(settings())
    standings = redrive.progress()
    strangers = 0

    def letters(watch: Watch) -> Iterator[Letter]:
        nonlocal strangers
        now = offset_range(redrive.settings, redrive.topic)
        for kept in read(redrive.settings, now, watch(len(now))):
            if (each := read_letter(kept)) is not None:
                yield each
            else:
                strangers += 1

    with _progress("Reading") as watch:
        groups = group_letters(
            letters(watch),
            lambda each: each.redrivable and standings[each.record.partition].is_pending(each.record.offset),
        )
    if not groups:
        out.print(Text(f"{redrive.topic} holds no dead letters"), soft_wrap=True)
    for group in groups:
        line = f"{group.letters:,} {group.error_class} of {shown(group.service, 100)}: {shown(group.message)}"
        out.print(Text(line, "bold"), soft_wrap=True)
        topics = ", ".join(f"{shown(topic)} {number:,}" for topic, number in group.topics.most_common())
        when = f"from {_time(group.first_ms)} to {_time(group.last_ms)}"
        out.print(Text(f"    {group.pending:,} waiting; {when}; read in {topics}"), soft_wrap=True)
    if strangers:
        out.print(Text(f"{strangers:,} records there are no dead letters"), soft_wrap=True)


@commands.command()
def show(
    error_class: Class = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, the newest ones.")] = 10,
    most_bytes: Annotated[int, typer.Option("--bytes", min=1, help="How much of each value is shown.")] = 2_000,
) -> None:
    """Show single dead letters: why each was refused, where it was read, its key and its bytes.

    What is not printable is shown as an escape, and a backslash as two, so that a terminal obeys nothing of it. The
    newest letters are shown, the oldest of them first.
    """
    effective = settings()
    found: list[Letter] = []
    with _progress("Reading") as watch:
        now = offset_range(effective, f"{effective.topics.prefix}dead-letter")
        for kept in read(effective, now, watch(len(now))):
            each = read_letter(kept)
            if each is None or error_class not in (None, each.details.error_class):
                continue
            found.append(each)
            if len(found) >= 2 * limit:
                found = _newest(found, limit)
    for each in _newest(found, limit):
        place = f"{each.record.topic}/{each.record.partition}/{each.record.offset}"
        out.print(Text(f"\n{place}", "bold"), soft_wrap=True)
        out.print(_table(each, most_bytes))
    if not found:
        out.print(Text("there are no such dead letters"))


def _table(each: Letter, most_bytes: int) -> Table:
    kept, said = each.record, each.details
    place = position(said.source_topic, said.source_partition, said.source_offset, said.source_index)
    others = [f"{shown(name, 100)}={shown(value, 100)}" for name, value in kept.headers if _foreign(name)]
    rows = {
        "refused": f"{_time(kept.timestamp_ms)} by {shown(each.service, 100)} as {said.error_class}: "
        f"{shown(said.message)}",
        "read at": f"{place}, written {_time(said.source_timestamp)}",
        "cut": f"the whole has {said.length:,} bytes, SHA-256 {shown(said.sha256)}" if said.length else "",
        "headers": " ".join(others[:_HEADERS]),
        "key": shown(kept.key, 300),
        "value": shown(kept.value, most_bytes),
    }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows.items():
        if text:
            table.add_row(name, Text(text))
    return table


@commands.command()
def redrive(
    error_class: Class = None,
    map: Annotated[
        Path | None, typer.Option(help="Send what this map makes of each event, in place of its bytes.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Send letters of class fatal too, on which processes have ended.")
    ] = False,
) -> None:
    """Send dead letters of evaluate again, to the redrive topic, which evaluate reads too.

    Each is checked first: one that would still be refused stays where it is. A letter of class fatal stays too, unless
    `--force` is given: evaluating it ended processes, or took longer than it may. What is sent has its original key and
    bytes, or through `--map` what the map makes of them; without `--map`, events of an input topic that has a map in
    the settings go through that one. An event without a time of its own gets the time of the record that it came in.

    How far it has come is committed in the same transaction, in the group PREFIX + redrive, so that nothing is sent
    twice, however often it is repeated or killed. Letters that are left, because they are still refused or of another
    class than `--class`, are noted with these offsets, and a later redrive looks at them again. Kafka forgets
    the offsets of a group that has committed nothing for offsets.retention.minutes (7 days by default); dead letters
    that are older than that and still there would then be sent again.
    """
    effective = settings()
    run = Redrive(effective)
    choice = RedriveOptions(error_class, _mapping(effective, map), effective.limits.max_event_bytes, force)
    with _progress("Looking" if dry_run else "Redriving") as watch:
        report = run(choice, dry_run=dry_run, watch=watch)
    _tell(report, run.target, dry_run=dry_run)


def _mapping(effective: Settings, given: Path | None) -> Callable[[Letter], Callable[[object], object] | None]:
    """The map that a letter is read through: the one given, or that of the topic where it was read."""
    if given is not None:
        chosen = read_map(given)
        return lambda _: chosen
    if effective.input.map is None:
        return lambda _: None
    own = read_map(effective.input.map)
    return lambda each: own if each.details.source_topic == effective.input_topic else None


def _tell(report: RedriveReport, target: str, *, dry_run: bool) -> None:
    results = report.results
    lines = [f"{results['sent']:,} {'would be sent' if dry_run else 'sent'} to {target}"]
    if results["rejected"]:
        lines.append(f"{results['rejected']:,} would still be refused, and were left for later:")
    lines += [f"  {number:>6,}  {shown(reason)}" for reason, number in report.reasons.most_common(20)]
    lines += [f"{results[result]:,} {text}" for result, text in _RESULTS if results[result]]
    if report.full:
        lines.append(
            f"partitions {', '.join(map(str, sorted(report.full)))} were not read to their ends, since no more "
            "letters can be noted as left; redrive those that are left first: other classes, or through a map"
        )
    for line in lines:
        out.print(Text(line), soft_wrap=True)


@contextmanager
def _progress(doing: str) -> Iterator[Watch]:
    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:

        def watch(total: int) -> Moved:
            task = progress.add_task(doing, total=total)
            return lambda steps: progress.advance(task, steps)

        yield watch


def _newest(letters: list[Letter], limit: int) -> list[Letter]:
    return sorted(letters, key=lambda each: (each.record.timestamp_ms or 0, each.record.partition, each.record.offset))[
        -limit:
    ]


def _foreign(name: str) -> bool:
    """Whether a header is none of those that are shown in words."""
    return not name.startswith(("ragweir-", "ce_")) and name != "content-type"


def _time(epoch_ms: int | None) -> str:
    """A record's own time, which may be any number."""
    try:
        return datetime.fromtimestamp((epoch_ms or 0) / 1000, UTC).isoformat(timespec="seconds") if epoch_ms else "?"
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"
