"""Scoring of files by several processes, with the outcomes of one process in the order of the events.

Each process scores chunks of events. Whether an event is a duplicate depends on the events before it, so processes
report the ids that they met and this process compares them; a record with a duplicate is scored again here.
"""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from itertools import cycle
from typing import NamedTuple

from typing_extensions import override

from ragweir.errors import PermanentError
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.records import EventPosition, Outcome, Record, TopicPartition
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.deduplication import Duplicates
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.shared.routing_rows import RowSource
from ragweir.streams.settings import Settings

_CHUNK_EVENTS, _CHUNK_BYTES = 64, 512 * 1024
"""Limits of the events that a process gets at a time: enough for the transfer to cost little."""
_CHUNKS_EACH = 2
"""Chunks of each process that are read ahead, so that no process waits for the next one."""

Events = Sequence[tuple[int, bytes]]
Scored = tuple[Outcome, list[tuple[EventPosition, str]]]
"""The outcome of an event, and the ids that it was compared by."""


class Task(NamedTuple):
    """The arguments that make the configuration of evaluate for one file in another process."""

    settings: Settings
    topic: str
    """Name of the file."""
    explain: bool
    default_time: datetime | None
    rows: RowSource

    @classmethod
    def of(cls, settings: Settings, topic: str, config: EvaluateConfig) -> Task:
        """Return the arguments for a file, whose configuration in this process is given."""
        # The class of settings that were read from a file exists in this process only.
        plain = Settings.model_construct(**dict(settings))
        return cls(plain, topic, config.explain, config.default_time, config.rows)

    def config(self) -> EvaluateConfig:
        """Return the configuration."""
        made = evaluate_config(self.settings, self.topic, explain=self.explain, is_file=True)
        return replace(made, default_time=self.default_time, rows=self.rows)


class _Reported(Duplicates):
    """Takes no event for a duplicate, and reports the ids."""

    def __init__(self) -> None:
        super().__init__(0)
        self.ids: list[tuple[EventPosition, str]] = []

    @override
    def seen(self, topic_partition: TopicPartition, position: EventPosition, event_id: str) -> bool:
        self.ids.append((position, event_id))
        return False


class _Answered(Duplicates):
    """Takes those events for duplicates that were found to be."""

    def __init__(self, answers: Iterable[bool]) -> None:
        super().__init__(0)
        self._answers = iter(answers)

    @override
    def seen(self, topic_partition: TopicPartition, position: EventPosition, event_id: str) -> bool:
        return next(self._answers)


class _Process:
    """A process that scores chunks, one after the other. Its thread writes a chunk and waits for the outcomes."""

    def __init__(self) -> None:
        # Neither a fork, which may copy a held lock, nor multiprocessing, which imports the caller's main module again.
        command = python_command("-c", f"from {__name__} import serve; serve()")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._thread = ThreadPoolExecutor(1)
        self._task: Task | None = None

    def submit(self, task: Task, events: Events) -> Future[list[Scored]]:
        """Score events, and return their outcomes once they are there."""
        return self._thread.submit(self._score, task, events)

    def _score(self, task: Task, events: Events) -> list[Scored]:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise ValueError("the process has no pipes")
        try:
            pickle.dump((None if task is self._task else task, events), stdin, pickle.HIGHEST_PROTOCOL)
            stdin.flush()
            self._task = task
            found: list[Scored] = pickle.load(stdout)  # noqa: S301 - of the process that was started here
        except (BrokenPipeError, EOFError, pickle.UnpicklingError):  # The last one if it ended while it answered.
            raise PermanentError(f"a scoring process ended with exit status {self._process.wait()}") from None
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._thread.shutdown(cancel_futures=True)
        self._process.communicate()


class ScoringProcesses:
    """Processes that score events, until `close`.

    Args:
        count: number of processes.
    """

    def __init__(self, count: int) -> None:
        self._processes = [_Process() for _ in range(count)]

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.close()

    def run(
        self, task: Task, config: EvaluateConfig, events: Iterator[tuple[int, bytes]]
    ) -> Iterator[tuple[Record, Outcome]]:
        """Yield the events of a file as records, with the outcomes that the file runtime gives.

        Args:
            task: gives the configuration in the processes.
            config: the same configuration in this process.
            events: the events as JSON with their numbers.

        Raises:
            PermanentError: if a process ends.
            Exception: what iterating over the events raises, after the outcomes of the events before it.
        """
        duplicates = Duplicates(config.duplicate_horizon)
        waiting: deque[tuple[Events, Future[list[Scored]]]] = deque()
        processes = cycle(self._processes)
        reading = _Chunks(events)
        for chunk in reading:
            waiting.append((chunk, next(processes).submit(task, chunk)))
            if len(waiting) >= _CHUNKS_EACH * len(self._processes):
                yield from _settled(*waiting.popleft(), task.topic, config, duplicates)
        while waiting:
            yield from _settled(*waiting.popleft(), task.topic, config, duplicates)
        if reading.error is not None:
            raise reading.error


class _Chunks:
    """Chunks of events; an error of the iterator ends the last one and is kept."""

    def __init__(self, events: Iterator[tuple[int, bytes]]) -> None:
        self._events = events
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[Events]:
        chunk: list[tuple[int, bytes]] = []
        size = 0
        try:
            for event in self._events:
                chunk.append(event)
                size += len(event[1])
                if len(chunk) == _CHUNK_EVENTS or size >= _CHUNK_BYTES:
                    yield chunk
                    chunk, size = [], 0
        except Exception as error:  # It is raised once the events before it are scored.
            self.error = error
        if chunk:
            yield chunk


def _settled(
    events: Events, found: Future[list[Scored]], topic: str, config: EvaluateConfig, duplicates: Duplicates
) -> Iterator[tuple[Record, Outcome]]:
    """Yield the outcomes of a chunk, in which duplicates are left out."""
    for (number, value), (outcome, ids) in zip(events, found.result(), strict=True):
        record = _record(topic, number, value)
        answers = [duplicates.seen(record.topic_partition, *each) for each in ids]
        if any(answers):
            outcome = EvaluateAgent(config, _Answered(answers)).handle([record])  # noqa: PLW2901 - it is another one
        outcome.settled = [record]
        duplicates.advance(record.topic_partition, number)
        duplicates.commit()
        yield record, outcome


def _record(topic: str, number: int, value: bytes) -> Record:
    return Record(topic=topic, partition=0, offset=number, key=None, value=value, timestamp_ms=None)


def serve() -> None:
    """Score chunks from standard input until it ends; their outcomes go to standard output."""
    for number in (signal.SIGINT, signal.SIGTERM):  # The process that started this one finishes the events it has read.
        signal.signal(number, signal.SIG_IGN)
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    sys.stdout = sys.stderr  # For what metrics print.
    agents: dict[str, EvaluateAgent] = {}
    topic, reported = "", _Reported()
    while True:
        try:
            task, events = pickle.load(source)  # noqa: S301 - of the process that started this one
        except EOFError:
            return
        if task is not None:
            topic, reported = task.topic, _Reported()
            agents = {topic: EvaluateAgent(task.config(), reported)}
        found: list[Scored] = []
        for number, value in events:
            outcome = agents[topic].handle([_record(topic, number, value)])
            outcome.settled = []
            found.append((outcome, reported.ids))
            reported.ids = []
        pickle.dump(found, sink, pickle.HIGHEST_PROTOCOL)
        sink.flush()
