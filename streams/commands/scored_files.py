"""Scores the events of a command's inputs, one file after the other, and then the traces of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

import typer

from ragweir.errors import ConfigurationError, PermanentError, Rejected, UnreadableFile
from ragweir.schemas.codec.intake import TIME_DEFAULTED
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.score.processes import ScoringProcesses, Task
from ragweir.streams.analysis.traces.collection import TraceCollection
from ragweir.streams.analysis.traces.trace_report import TraceReport
from ragweir.streams.commands.inputs import Input
from ragweir.streams.commands.progress import FileProgress
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.files.bytestreams import ByteSource
from ragweir.streams.files.events import EventReader, Events
from ragweir.streams.files.formats import Format
from ragweir.streams.runtime.loop.drive import drive
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.settings import Settings

_SAMPLE_EVENTS = 100
_NO_TIME = "has no time, which --windows needs: give --default-time, or name it in a map (--map) as ended_at"


@dataclass(slots=True)
class ScoredFiles:
    """The outcomes of the events of files. A file that cannot be read to its end does not stop the others."""

    inputs: Sequence[Input]
    config: EvaluateConfig
    stop: Stop
    progress: FileProgress
    path: Path
    """The file or folder, whose name is the topic of assembled interactions."""
    settings: Settings
    """All settings."""
    processes: ScoringProcesses | None = None
    """Processes that score; None to score in this one."""
    has_map: bool = False
    """True if a map is given for these files."""
    agent_of: Callable[[EvaluateConfig], EvaluateAgent] = EvaluateAgent
    """Makes the agents that handle the events, one for each file."""
    formats: Counter[Format] = field(default_factory=Counter)
    """Files by format."""
    problems: list[str] = field(default_factory=list)
    """Reasons why files could not be read to their ends."""
    present: Format = field(default_factory=Format)
    """Format of the file that is read."""
    unit: str = "line"
    """The name of that which is numbered in it."""
    traces: TraceReport = field(default_factory=TraceReport)
    """The traces of all files."""
    _agent: EvaluateAgent | None = None
    """Reads the events of the file that is read."""

    def run(self, first: ByteSource) -> Iterator[tuple[Record, Outcome]]:
        """Yield the events as records, with their outcomes.

        Args:
            first: the first input, which is open.

        Raises:
            OSError: if an input cannot be read.
            typer.BadParameter: if another one cannot be opened, or holds traces and there is a map.
        """
        with TraceCollection(self.settings.assemble) as collection:
            yield from self._run(self.inputs[0], first, collection)
            for source in self.inputs[1:]:
                if self.stop.cut:
                    return
                with source.open() as stream:
                    yield from self._run(source, stream, collection)
            if not self.stop.cut:  # Without the rest of the files all traces might lack spans.
                yield from self._assembled(collection)

    def _run(self, source: Input, stream: ByteSource, collection: TraceCollection) -> Iterator[tuple[Record, Outcome]]:
        config = _config_of(self.config, source)
        reader = EventReader(stream, source.name, config.max_event_bytes, self.progress.on_bytes)
        events = self.stop.ending(iter(reader))
        try:
            first = list(islice(events, 1))  # The format is known with it.
            if reader.format.has_traces and self.has_map:
                raise typer.BadParameter(f"{source.name} holds OpenTelemetry traces, which are read without a map")
            agent, rest = self.agent_of(config), chain(first, events)
            self._agent = agent
            if reader.format.has_traces:
                lines = self._collect(collection, agent, rest, source)
            elif self.processes is not None:
                task = Task.of(self.settings, source.name, config)
                lines = self.processes.run(task, config, rest)
            else:
                lines = drive(agent, rest, source.name)
            for line in lines:
                self.present, self.unit = reader.format, reader.format.unit
                yield line
                self.progress.on_event()
        except UnreadableFile as error:
            self.problems.append(str(error))
        self.present = reader.format
        self.formats[reader.format] += 1

    def _collect(
        self, collection: TraceCollection, agent: EvaluateAgent, requests: Events, source: Input
    ) -> Iterator[tuple[Record, Outcome]]:
        """Collect the traces of export requests; yield those that are none."""
        for number, value in requests:
            try:
                collection.add(value)
            except Rejected as rejected:
                record = Record(source.name, 0, number, None, value, None)
                yield record, agent.dead_letter(record, rejected.message, rejected.error_class)
            self.progress.on_event()

    def _assembled(self, collection: TraceCollection) -> Iterator[tuple[Record, Outcome]]:
        """Yield the interactions of all traces, numbered from 1, with their outcomes."""
        # A map in the settings is for other events: these are in ragweir's own schema.
        self._agent = agent = self.agent_of(_config_of(replace(self.config, decoders={}), self.inputs[-1]))
        number = 1
        self.unit = "interaction" if len(collection) else self.unit
        for trace in self.stop.ending(iter(collection)):
            self.traces.add(trace)
            for record in trace.records(self.path.name, number):
                number += 1
                yield record, agent.handle([record])
                agent.on_commit()
                self.progress.on_event()

    def place(self, record: Record, index: int | None = None, number_format: str = "") -> str:
        """Return the place of an event, with the name of its file if there are several."""
        place = f"{self.unit} {record.offset:{number_format}}" + (f", index {index}" if index else "")
        return place if len(self.inputs) == 1 else f"{record.topic}, {place}"

    def read(self, record: Record, index: int) -> Interaction | None:
        """Return an event of the last record again; None if it has none at this index."""
        events = () if self._agent is None else self._agent.read(record)
        event = next(islice(events, index, None), None)
        return None if event is None or isinstance(event, Rejected) else event[0]

    def source_of(self, record: Record) -> Path | None:
        """Return the file that a record was read from, or the folder of its traces; None for a pipe."""
        source = next((each for each in self.inputs if each.name == record.topic), None)
        if source is None:
            return self.path
        return None if source.size is None else source.path


def _config_of(config: EvaluateConfig, source: Input) -> EvaluateConfig:
    """Return the configuration for one file, whose name is the topic and whose time is the default."""
    decoders = dict(zip([source.name], config.decoders.values(), strict=False))
    return replace(config, decoders=decoders, default_time=config.default_time or source.modified)


def check_times(inputs: Sequence[Input], config: EvaluateConfig) -> None:
    """Check that the first events of the first file have times, unless it is a pipe.

    Raises:
        ConfigurationError: if one of them has none.
    """
    source = inputs[0]
    if source.size is None:
        return
    agent, topic = EvaluateAgent(_config_of(config, source)), source.name
    with source.open() as stream:
        reader = EventReader(stream, source.name, config.max_event_bytes)
        for number, value in islice(reader, _SAMPLE_EVENTS):
            if reader.format.has_traces:  # Spans have times.
                return
            for found in agent.read(Record(topic, 0, number, None, value, None)):
                if not isinstance(found, Rejected) and TIME_DEFAULTED in found[0].flags:
                    raise ConfigurationError(f"{reader.format.unit} {number} of {topic} {_NO_TIME}")


def no_time(place: str) -> PermanentError:
    """Return the error of an event without a time, which is in no window."""
    return PermanentError(f"{place} {_NO_TIME}")
