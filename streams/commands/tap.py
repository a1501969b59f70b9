"""`ragweir tap`: shows what could be measured on a topic or a file, before anything is set up."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.padding import Padding

from ragweir.errors import PermanentError, Rejected, Unreachable
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.codec.json import parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.analysis.event_times import distances
from ragweir.streams.analysis.sample import read_first, read_newest
from ragweir.streams.commands.app import FAILURE, app, out, settings, shared_flags
from ragweir.streams.commands.inputs import read_inputs
from ragweir.streams.commands.options import MapFile, Yes, check_can_confirm, confirm
from ragweir.streams.commands.registry_records import as_json, has_schemas
from ragweir.streams.commands.sampled import evaluate, show_rejections, show_scores, show_times
from ragweir.streams.commands.tap_traces import has_traces, show_traces
from ragweir.streams.files.formats import COMPRESSED, SUFFIXES
from ragweir.streams.files.map_choice import OWN, MapChoice, choose, named_map, unread
from ragweir.streams.files.schema_inference import innermost
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.shared.from_settings import map_text
from ragweir.streams.settings import Settings
from ragweir.streams.settings.permissions import replacing

_UNREAD = 15
"""The most unread paths that are shown."""
_FILE_SUFFIXES = frozenset({*SUFFIXES, *COMPRESSED})
"""Suffixes by which a name that is neither a file nor a topic was probably meant as a file."""


@app.command()
def tap(  # noqa: C901 - one step after the other
    source: Annotated[
        str, typer.Argument(metavar="TOPIC|FILE", help="Topic to read without a consumer group, or file.")
    ],
    map_file: MapFile = None,
    records: Annotated[
        int, typer.Option(min=1, max=10_000, help="Number of records to read: a topic's newest, a file's first.")
    ] = 300,
    write_map: Annotated[
        Path | None, typer.Option("--write-map", metavar="FILE", help="File to write the map to that is shown.")
    ] = None,
    yes: Yes = False,
) -> None:
    """Show what could be measured on a topic or a file, without writing to the topic or committing offsets.

    A name of a file that exists, or with a slash, is a file; another name is a topic. Needs no Kafka for a file.

    Records that name a schema of the registry at `registry.url` are read by it, and their schemas are shown.

    OpenTelemetry traces are assembled: shows the share that gives full interactions, and the line to change for the
    others, what the records say of their exporter, and how to read them.

    If the events have another schema than ragweir's, they are read through `--map`, or a ready map that fits them, or a
    map that is inferred from names and types, which is then shown. `--write-map` writes the map to a file, for you to
    correct. Shows the paths that the map leaves unread, the metrics that can be computed, on what share of the events,
    the fields that would make more computable, and the scores of some events.

    Exit status 1 when no event could be scored.
    """
    effective = settings(input={"map": map_file})
    file = _file(source)
    topic = source if file is None else str(file)
    _check_writable(write_map, yes=yes)
    config = evaluate_config(effective, topic, is_file=file is not None)
    flags = [] if file or topic == effective.input_topic else ["--input-topic", topic]
    if map_file is None and (file or flags):
        config = replace(config, decoders={})  # The map in the settings is for another source.
    given = effective.input.map if config.decoders else None
    if file:
        config = replace(config, ignore_record_timestamp=True, default_time=read_inputs(file)[0].modified)
    found = _records(effective, source, file, records)
    if file is None and has_schemas(found):
        found = as_json(effective, found)
        config = replace(config, decoders={})
    if has_traces(found):
        if map_file or write_map:
            raise typer.BadParameter(f"{source} holds OpenTelemetry traces, which are read without a map")
        show_traces(effective, replace(config, decoders={}), source, file, found, has_older=len(found) >= records)
        return
    objects = _objects(found, file, config.max_event_bytes)
    events = list(objects.values())
    if given:
        chosen = named_map(map_text(given))
        out.say(f"Read through the map {given}.")
        flags += [] if map_file is None else ["--map", str(map_file)]
    else:
        chosen = choose(events)
        saved = write_map or Path(f"{Path(topic).name.partition('.')[0]}.toml" if file else f"{topic}.toml")
        flags += _show_choice(chosen, saved)
    if write_map:
        _write(chosen, write_map)
    if not chosen.is_complete:
        _exit_incomplete(events, write_map)
    if chosen is not OWN:
        mapping = FieldMap.parse(chosen.toml)
        config = replace(config, decoders={topic: JsonDecoder(config.max_event_bytes, config.max_items, mapping)})
    evaluations = evaluate(list(objects), config)
    _show_structured(EvaluateAgent(config), objects)
    if not file:
        show_times(distances(EvaluateAgent(config), objects))
    _show_unread(unread(chosen, events), len(events))
    show_scores(evaluations, config.catalogue.free)
    _show_next(source, file, flags)


def _check_writable(file: Path | None, *, yes: bool) -> None:
    """Ask for confirmation if a file exists that is to be written."""
    if file and file.exists():
        check_can_confirm(yes=yes)
        confirm(f"{file} exists. Overwrite it?", yes=yes)


def _file(source: str) -> Path | None:
    """Return the file that a source names; None if it is a topic, whose name has no slash."""
    file = Path(source)
    if file.is_file():
        return file
    if "/" in source or "\\" in source:
        raise typer.BadParameter(f"there is no file {source}")
    return None


def _records(effective: Settings, source: str, file: Path | None, count: int) -> list[Record]:
    """Return the sampled records.

    Raises:
        PermanentError: if there are none.
    """
    if file:
        found = read_first(file, count, effective.limits.max_event_bytes)
    else:
        try:
            found = read_newest(effective, source, count)
        except (PermanentError, Unreachable) as error:
            if Path(source).suffix.lower() in _FILE_SUFFIXES:
                raise PermanentError(f"there is no file {source} here, and of a topic: {error}") from None
            raise
    if not found:
        raise PermanentError(f"the file {file} holds no rows" if file else f"the topic {source} holds no records")
    return found


def _objects(records: Sequence[Record], file: Path | None, max_bytes: int) -> dict[Record, object]:
    """Return the records that hold JSON objects, with these, and print the reasons for the others."""
    objects: dict[Record, object] = {}
    rejections: list[Rejected] = []
    for record in records:
        try:
            data = parse(record.value, max_bytes)
        except Rejected as rejected:
            rejections.append(rejected)
        else:
            if isinstance(data, dict):
                objects[record] = data
            else:
                rejections.append(Rejected("invalid", "the event is not an object"))
    if file:
        out.say(f"{len(records)} rows of {file} were read, the first ones.")
    else:
        partitions = len({record.partition for record in records})
        topic = records[0].topic
        out.say(f"{len(records)} records of {topic} were read, the newest ones, from {partitions} of its partitions.")
    show_rejections("hold no event", rejections)
    if not objects:
        raise typer.Exit(FAILURE)
    return objects


def _show_choice(choice: MapChoice, saved: Path) -> list[str]:
    """Print the map that a sample is read through, and return the flags that name it."""
    if choice is OWN:
        out.say("They have ragweir's schema.")
    elif choice.ready:
        out.say(f"This is an export of {choice.product}: --map {choice.ready} reads it.")
    else:
        guessed = "was inferred from names and types"
        if not choice.is_complete:
            guessed = f"is all that could be {guessed.removeprefix('was ')}"
        out.say(f"They have another schema than ragweir's. This map {guessed}:\n")
        out.say(choice.toml.rstrip())
        if choice.is_complete:
            out.say(
                f"\nThe rest of this report is read through it. Correct it where it is wrong, and save it as {saved}."
            )
    return [] if choice is OWN else ["--map", choice.ready or str(saved)]


def _write(choice: MapChoice, file: Path) -> None:
    """Write the map to a file."""
    if choice is OWN:
        out.say(f"They need no map, so {file} was not written.")
        return
    with replacing(file) as target:
        target.write(choice.toml.encode())
    out.say(f"The map was written to {file}.")


def _exit_incomplete(events: Sequence[object], written: Path | None) -> NoReturn:
    """Print the paths for the required rules that are missing, and exit."""
    out.say("\nPaths of these events that a map can use:\n")
    out.print(Padding(", ".join(innermost(events)) or "nothing", (0, 0, 0, 2)))
    out.say(f"\nComplete the map in {written or 'a file'}, and run this command again with --map {written or 'FILE'}.")
    raise typer.Exit(FAILURE)


def _show_unread(found: Sequence[tuple[str, int]], events: int) -> None:
    """Print the paths that the map leaves unread."""
    if not found:
        return
    shown = ", ".join(f"{path} ({number})" for path, number in found[:_UNREAD])
    more = f", and {len(found) - _UNREAD} more" if len(found) > _UNREAD else ""
    out.say(f"\nLeft unread, with the number of the {events} events that have it:\n")
    out.print(Padding(f"{shown}{more}", (0, 0, 0, 2)))


def _show_structured(agent: EvaluateAgent, records: Iterable[Record]) -> None:
    """Print the number of events whose query or response is JSON, of which a map could read a part."""
    read = [found for record in records for found in agent.read(record) if not isinstance(found, Rejected)]
    structured = sum(_is_structured(event.query or "") or _is_structured(event.response or "") for event, _ in read)
    if structured:
        out.say(f"{structured} of them have JSON as query or response: a path in the map may lead to the text in it.")


def _is_structured(text: str | None) -> bool:
    """Return true if a text is a JSON object or list.

    >>> _is_structured('{"answer": "Ada."}'), _is_structured("[1] says so.")
    (True, False)
    """
    with suppress(Rejected):
        return text is not None and text[:1] in ("{", "[") and isinstance(parse(text.encode()), dict | list)
    return False


def _show_next(source: str, file: Path | None, flags: Sequence[str]) -> None:
    """Print the commands that come next."""
    if file:
        out.say("\nNext, with the scores of all its rows in a file:")
        commands = [["score", source, *flags, "--out", "scores.jsonl"]]
    else:
        out.say("\nNext, once ragweir's own topics are there (the first line creates them):")
        commands = [["topics", "create"], ["evaluate", *flags]]
    for command in commands:
        out.say(f"  {shlex.join(['ragweir', *shared_flags(), *command])}")
