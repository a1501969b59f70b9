"""`ragweir dead-letter`: lists and shows rejected records, and sends them again after a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.table import Table
from rich.text import Text

from ragweir.errors import ErrorClass
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.registry.schema import FORMATS
from ragweir.streams.analysis.dead_letters.letters import Letter, group_letters, position, read_letter, shown
from ragweir.streams.analysis.dead_letters.redrive import Redrive, RedriveOptions, RedriveReport
from ragweir.streams.analysis.dead_letters.redrive_progress import RedriveResult
from ragweir.streams.analysis.registry_records import RecordSchemas
from ragweir.streams.commands.app import app, out, settings
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.screens.story import place
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.text.terminal import record_time
from ragweir.streams.services.shared.from_settings import read_map
from ragweir.streams.settings import Settings

commands = typer.Typer(
    help="List and show the records that were rejected, and send them again after a fix.", no_args_is_help=True
)
app.add_typer(commands, name="dead-letter")

_MAX_HEADERS = 20
"""Headers of a letter that are shown, without ragweir's."""
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
    str | None,
    typer.Option("--class", callback=_known, help="Error class of the dead letters, as `list` shows it. Default: all."),
]


@commands.command("list")
def list_letters() -> None:
    """List the reasons for which records were rejected: their number, their times and their source topics.

    Messages that differ in numbers only are one reason. `waiting` is the number of dead letters that a redrive may
    still send.
    """
    redrive = Redrive(settings())
    progress = redrive.progress()
    others = 0

    def letters(bars: Bars) -> Iterator[Letter]:
        nonlocal others
        now = offset_range(redrive.settings, redrive.topic)
        for kept in read(redrive.settings, now, bars.watch("Reading", len(now))):
            if (each := read_letter(kept)) is not None:
                yield each
            else:
                others += 1

    with Bars() as bars:
        groups = group_letters(
            letters(bars),
            lambda each: each.redrivable and progress[each.record.partition].is_pending(each.record.offset),
        )
    if not groups:
        out.say(f"{redrive.topic} holds no dead letters")
    for group in groups:
        out.say(f"{group.letters:,} {group.error_class} of {shown(group.service, 100)}: {shown(group.message)}", "bold")
        topics = ", ".join(f"{shown(topic)} {number:,}" for topic, number in group.topics.most_common())
        when = f"from {record_time(group.first_ms)} to {record_time(group.last_ms)}"
        out.say(f"    {group.pending:,} waiting; {when}; read in {topics}")
    if others:
        out.say(f"{others:,} records there are no dead letters")


@commands.command()
def show(
    error_class: Class = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of dead letters, the newest ones.")] = 10,
    most_bytes: Annotated[
        int, typer.Option("--bytes", min=1, help="Number of bytes of each value that are shown.")
    ] = 2_000,
) -> None:
    """Show single dead letters: the reason, the source offset, the key and the bytes of each.

    The newest ones are shown, in the order of their times. Characters that are not printable are escaped, and a
    backslash is doubled, so that no control sequence reaches the terminal.
    """
    effective = settings()
    found: list[Letter] = []
    with Bars() as bars:
        now = offset_range(effective, f"{effective.topics.prefix}dead-letter")
        for kept in read(effective, now, bars.watch("Reading", len(now))):
            each = read_letter(kept)
            if each is None or error_class not in (None, each.details.error_class):
                continue
            found.append(each)
            if len(found) >= 2 * limit:
                found = _newest(found, limit)
    for each in _newest(found, limit):
        out.say(f"\n{place(each.record)}", "bold")
        out.print(_table(each, most_bytes))
    if not found:
        out.say("there are no such dead letters")


def _table(each: Letter, most_bytes: int) -> Table:
    kept, said = each.record, each.details
    source = position(said.source_topic, said.source_partition, said.source_offset, said.source_index)
    others = [f"{shown(name, 100)}={shown(value, 100)}" for name, value in kept.headers if _foreign(name)]
    reason = f"{said.error_class}: {shown(said.message)}"
    rows = {
        "rejected": f"{record_time(kept.timestamp_ms)} by {shown(each.service, 100)} as {reason}",
        "read at": f"{source}, written {record_time(said.source_timestamp)}",
        "cut": f"the whole has {said.length:,} bytes, SHA-256 {shown(said.sha256)}" if said.length else "",
        "headers": " ".join(others[:_MAX_HEADERS]),
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
    map_file: MapFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Send dead letters of class fatal too, whose evaluation has ended processes."),
    ] = False,
) -> None:
    """Send dead letters of evaluate again, to the redrive topic, which evaluate reads too.

    Each one is checked first and skipped if it would be rejected again. Dead letters of class fatal, whose evaluation
    ended a process or took too long, are skipped unless `--force` is given. An event is sent with its original key and
    bytes, or as `--map` maps it; without `--map`, events of an input topic that has a map in the settings are sent as
    that one maps them. An event without a time gets the timestamp of its record.

    Offsets are committed in the same transaction, in the group PREFIX + redrive, so that nothing is sent twice, even
    if the command is repeated or killed. Dead letters that were skipped are stored with these offsets, and a later
    redrive checks them again. Kafka deletes the offsets of a group that has not committed for
    offsets.retention.minutes (7 days by default); dead letters older than that would then be sent again.
    """
    effective = settings()
    run = Redrive(effective)
    mapping, as_json = _mapping(effective, map_file), _reading(effective)
    choice = RedriveOptions(error_class, mapping, as_json, effective.limits.max_event_bytes, force)
    with Bars() as bars:
        doing = "Checking" if dry_run else "Redriving"
        report = run(choice, dry_run=dry_run, watch=lambda total: bars.watch(doing, total))
    _show_report(report, run.target, dry_run=dry_run)


def _mapping(effective: Settings, given: Path | None) -> Callable[[Letter], FieldMap | None]:
    """Return the function that finds the map of a letter: the given one, or that of its source topic."""
    if given is not None:
        chosen = read_map(given)
        return lambda _: chosen
    if effective.input.map is None:
        return lambda _: None
    own = read_map(effective.input.map)
    return lambda each: own if each.details.source_topic == effective.input_topic else None


def _reading(effective: Settings) -> Callable[[Letter], bytes]:
    """Return the function that gives the event of a letter in JSON, in which it is sent again."""
    if effective.input.format not in FORMATS:
        return lambda each: each.record.value or b""
    schemas = RecordSchemas(effective)

    def as_json(letter: Letter) -> bytes:
        is_framed = letter.details.source_topic == effective.input_topic
        return schemas.as_json(letter.record.value) if is_framed else letter.record.value or b""

    return as_json


def _show_report(report: RedriveReport, target: str, *, dry_run: bool) -> None:
    results = report.results
    lines = [f"{results['sent']:,} {'would be sent' if dry_run else 'sent'} to {target}"]
    if results["rejected"]:
        lines.append(f"{results['rejected']:,} would still be rejected, and were left for later:")
    lines += [f"  {number:>6,}  {shown(reason)}" for reason, number in report.reasons.most_common(20)]
    lines += [f"{results[result]:,} {text}" for result, text in _RESULTS if results[result]]
    if report.full:
        lines.append(
            f"partitions {', '.join(map(str, sorted(report.full)))} were not read to their ends, since no more "
            "letters can be noted as left; redrive those that are left first: other classes, or through a map"
        )
    for line in lines:
        out.say(line)


def _newest(letters: list[Letter], limit: int) -> list[Letter]:
    return sorted(letters, key=lambda each: (each.record.timestamp_ms or 0, each.record.partition, each.record.offset))[
        -limit:
    ]


def _foreign(name: str) -> bool:
    """Return true for a header that no other row shows."""
    return not name.startswith(("ragweir-", "ce_")) and name != "content-type"
