"""The interaction that an evaluation was made of, read again where evaluate read it: in Kafka, or in a file.

Evaluations have no text. An interaction is returned only if its id is the evaluation's, so that a file or topic that
has changed since, or is read through another map, shows no other event's text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from ragweir.errors import Interrupted, Rejected, UnreadableFile
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.codec.json import parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.evaluation import Evaluation, Source
from ragweir.schemas.interaction import Context, Interaction
from ragweir.streams.analysis.traces.collection import TraceCollection
from ragweir.streams.files.events import EventReader, is_plain
from ragweir.streams.files.folders import data_files
from ragweir.streams.files.formats import Format
from ragweir.streams.files.lines import line_at
from ragweir.streams.files.map_choice import choose
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings

_REGISTRY_SECONDS = 10.0
"""Time to wait for the schema of a record."""
_GONE = "Kafka no longer holds the record, or the user may not read it"


@dataclass(frozen=True, slots=True)
class Original:
    """An interaction that was read again, or the reason why it was not."""

    interaction: Interaction | None
    place: str
    """The place where it was read, such as `line 3 of answers.jsonl`."""
    why: str = ""
    """The reason why there is no interaction."""


def in_evaluation(evaluation: Evaluation) -> Original | None:
    """Return the interaction with the texts that an evaluation has by `output.include_text`; None without them."""
    if (texts := evaluation.text) is None:
        return None
    contexts = tuple(Context(text=text) for text in texts.contexts) or None
    kept = Interaction(
        event_id=evaluation.event_id, query=texts.query, response=texts.response, contexts=contexts
    ).with_flags(evaluation.flags)
    return Original(kept, "the evaluation")


def in_kafka(settings: Settings, evaluation: Evaluation, record: Record | None) -> Original:
    """Return the interaction in the record that an evaluation names, read by the format and the map of the settings.

    Args:
        settings: all settings.
        evaluation: the evaluation.
        record: the record at its source; None if it could not be read.

    Raises:
        PermanentError: if the Schema Registry cannot be read.
        ConfigurationError: if the settings are wrong.
    """
    source = evaluation.source
    if record is None or source is None:
        return Original(None, "", _GONE)
    until = machine.monotonic() + _REGISTRY_SECONDS
    agent = EvaluateAgent(_with_time(evaluate_config(settings, settings.input_topic), evaluation))
    agent.preparation.start(lambda: machine.monotonic() > until)
    place = f"{source.topic}/{source.partition}/{source.offset}"
    try:
        return _in_record(agent, record, evaluation, source, place)
    except Interrupted:
        return Original(None, place, f"the Schema Registry has not answered within {_REGISTRY_SECONDS:.0f} s")


def located(name: str, events: Path | None, evaluations: Path) -> Path | None:
    """Return the file or folder of traces that an evaluation was read from; None if it is not there.

    Args:
        name: the topic of the evaluation's source; empty if it has none.
        events: the file or folder that the user names; None looks for the file beside the evaluations, and then in the
            current folder.
        evaluations: the file of evaluations.
    """
    if Path(name).name != name or not name:  # A name from outside leads to no other folder.
        return events
    if events is not None:
        return events / name if (events / name).is_file() else events
    return next((path for path in (evaluations.parent / name, Path(name)) if path.exists()), None)


def in_files(settings: Settings, evaluation: Evaluation, path: Path) -> Original:
    """Return the interaction at the place that an evaluation names in a file, or in the traces of a folder.

    It is read through the map of the settings, if any, or else through the ready map that fits.

    Raises:
        ConfigurationError: if the settings or the map are wrong.
    """
    source = evaluation.source
    if source is None:
        return Original(None, "", "the evaluation does not say where its event was read")
    config = _with_time(evaluate_config(settings, source.topic, is_file=True), evaluation)
    try:
        if path.is_dir():
            return _in_traces(settings, evaluation, config, path, data_files(path)[0])
        return _in_file(settings, evaluation, source, config, path)
    except UnreadableFile as error:
        return Original(None, str(path), str(error))
    except OSError as error:
        return Original(None, str(path), f"{path} cannot be read: {error.strerror}")


def _with_time(config: EvaluateConfig, evaluation: Evaluation) -> EvaluateConfig:
    """Return the configuration that reads an event without a time as well."""
    return replace(config, default_time=evaluation.event_time)


def _in_file(
    settings: Settings, evaluation: Evaluation, source: Source, config: EvaluateConfig, file: Path
) -> Original:
    value, unit = value_at(file, source.offset, config.max_event_bytes)
    if unit is None:
        return _in_traces(settings, evaluation, config, file, [file])
    record = Record(source.topic, 0, source.offset, None, value, None)
    place = f"{unit} {source.offset} of {file}"
    found = _in_record(EvaluateAgent(config), record, evaluation, source, place)
    if found.interaction is None and settings.input.map is None and (ready := _ready(value, config)):
        return _in_record(EvaluateAgent(_mapped(config, source, ready)), record, evaluation, source, place)
    return found


def value_at(file: Path, number: int, max_bytes: int) -> tuple[bytes | None, str | None]:
    """Return the event of a number in a file, None if there is none, and what is numbered; None for a file of traces.

    Raises:
        UnreadableFile: if the content cannot be read.
        OSError: if the file cannot be read.
    """
    with file.open("rb") as stream:
        if is_plain(file):
            return line_at(stream, number, max_bytes), Format().unit
        reader = EventReader(stream, str(file), max_bytes)
        events = iter(reader)
        first = list(islice(events, 1))  # The format is known with it.
        if reader.format.has_traces:
            return None, None
        return next((value for own, value in chain(first, events) if own == number), None), reader.format.unit


def _ready(value: bytes | None, config: EvaluateConfig) -> str:
    """Return the text of the ready map that fits an event; empty if none does."""
    try:
        chosen = choose([parse(value, config.max_event_bytes)])
    except Rejected:
        return ""
    return chosen.toml if chosen.ready else ""


def _mapped(config: EvaluateConfig, source: Source, toml: str) -> EvaluateConfig:
    decoder = JsonDecoder(config.max_event_bytes, config.max_items, FieldMap.parse(toml))
    return replace(config, decoders={source.topic: decoder})


def _in_record(agent: EvaluateAgent, record: Record, evaluation: Evaluation, source: Source, place: str) -> Original:
    event = next(islice(agent.read(record), source.index, None), None)
    if isinstance(event, Rejected):
        return Original(None, place, f"{place} cannot be read: {event}; --map names the map of foreign events")
    if event is None or event[0].event_id != evaluation.event_id:
        return Original(None, place, f"{place} holds another event than the one that was evaluated")
    return Original(event[0], place)


def _in_traces(
    settings: Settings, evaluation: Evaluation, config: EvaluateConfig, path: Path, files: Iterable[Path]
) -> Original:
    """Return the interaction with the evaluation's id of all traces of these files."""
    agent = EvaluateAgent(replace(config, decoders={}))
    with TraceCollection(settings.assemble) as collection:
        for file in files:
            for value in _requests(file, config.max_event_bytes):
                try:
                    collection.add(value)
                except Rejected:
                    continue
        for trace in collection:
            for record in trace.records("", 0):
                for event in agent.read(record):
                    if not isinstance(event, Rejected) and event[0].event_id == evaluation.event_id:
                        return Original(event[0], f"a trace of {path}")
    return Original(None, str(path), f"no trace of {path} gives the event")


def _requests(file: Path, max_bytes: int) -> Iterator[bytes]:
    with file.open("rb") as stream:
        reader = EventReader(stream, str(file), max_bytes)
        for _, value in reader:
            if not reader.format.has_traces:
                return
            yield value
