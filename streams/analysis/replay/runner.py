"""Running a replay: one phase after the other, each by supervised workers, until its consumer group has no lag."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from tempfile import TemporaryFile
from typing import IO

import orjson
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import PermanentError, Unreachable
from ragweir.schemas.run import Loaded, Phase, Run
from ragweir.schemas.topics import RUN, TOPICS
from ragweir.schemas.window import Progress
from ragweir.schemas.window_key import ProgressKey, parse_window_key
from ragweir.streams.analysis.replay.archives import load_archives
from ragweir.streams.analysis.replay.live_selection import compare_selection, live_evaluations
from ragweir.streams.analysis.replay.request import SERVICE, phase_service, replay_config, topic_names
from ragweir.streams.analysis.replay.runs import find_run, run_settings, store_run
from ragweir.streams.runtime.kafka.client import Identity, build, reader_properties
from ragweir.streams.runtime.kafka.reader import OffsetRange, offset_range, read
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.supervisor import Command, Supervisor
from ragweir.streams.runtime.records import TopicPartition
from ragweir.streams.services.slot import run_canary, run_slot
from ragweir.streams.settings import Settings

_POLL_SECONDS = 0.5
_TIMEOUT_SECONDS = 5.0
_READABLE_OFFSETS = 2_000
"""Largest lag that is read, to find out whether it consists of transaction markers only."""
_PROGRESS_OFFSETS = 8
"""Offsets at the end of a partition of the windows topic that include its latest progress record."""
_NEXT: Mapping[Phase, Phase] = {"loading": "evaluating", "judging": "summing", "summing": "complete"}
_LOG_TAIL_BYTES = 64 * 1024
_STALL_SECONDS = 10.0
"""Time without progress after which a worker's last error is shown; workers start within this time."""


@dataclass(slots=True)
class PhaseProgress:
    """Progress of a phase, in offsets, or in bytes while files are loaded."""

    phase: Phase
    total: int = 0
    lag: dict[TopicPartition, int] = field(default_factory=dict)
    problem: str = ""
    """Reason for a lack of progress; empty without one."""

    @property
    def done(self) -> int:
        """The part of the total that is processed."""
        return self.total - sum(self.lag.values())


@dataclass(slots=True)
class ReplayRunner:
    """Runs the remaining phases of a run."""

    settings: Settings
    """Settings of the live system."""
    run: Run
    command: Callable[[Phase, int], Sequence[str]]
    """Returns the command line of a worker from its phase and slot."""
    workers: int
    """Number of workers of the phase "evaluating"; other phases have one."""
    on_progress: Callable[[PhaseProgress], None]
    is_stopped: Callable[[], bool]
    quiet: bool
    """True to capture the workers' logs and show their last error as the problem of a stalled phase."""

    def __call__(self) -> bool:
        """Run phase after phase; return whether the run is complete.

        Raises:
            PermanentError: if a person has to correct something; the same call then resumes.
        """
        own = run_settings(self.settings, self.run)
        create_topics(own, [*(TOPICS[name] for name in topic_names(own, self.run)), RUN])
        store_run(self.settings, self.run)
        while self.run.phase != "complete":
            if self.run.phase == "loading":
                self._load()
            else:
                evaluating = self.run.phase == "evaluating"
                self._run_workers()
                if evaluating and not self.is_stopped():
                    self._compare_selection()
            if self.is_stopped():
                return False
            self._enter_next_phase()
        return True

    def _enter_next_phase(self) -> None:
        run = self.run
        changes: dict[str, object] = {"phase": _NEXT.get(run.phase)}
        if run.phase == "loading":
            # Up to the high watermark: the marker of the last transaction may follow its commit a little later.
            loaded = offset_range(self.settings, run.topic, committed=False)
            extents = [{"topic": run.topic, "partition": p, "start": 0, "end": end} for p, end in loaded.ends.items()]
            changes["extents"] = extents
        elif run.phase == "evaluating":
            changes["phase"] = "summing" if run.asked.judge == "never" else "judging"
        elif run.phase == "summing":
            changes["ended_at"] = machine.now()
        self.run = Run.model_validate({**run.model_dump(), **changes})
        store_run(self.settings, self.run)

    def _compare_selection(self) -> None:
        """Compare the routing rows of the run with those by which its events were selected live."""
        config = replay_config(run_settings(self.settings, self.run), self.run)
        if self.run.files or config.router is None or not config.router.uses_rows:
            return
        if (live := live_evaluations(self.settings, self.run)) is None:
            return
        config.rows.start(self.is_stopped)
        left = {(live.topic, 0): len(live)}
        progress = PhaseProgress("evaluating", len(live), left)
        shown_s = 0.0

        def on_progress(steps: int) -> None:
            nonlocal shown_s
            left[live.topic, 0] -= steps
            if machine.monotonic() > shown_s + _POLL_SECONDS:
                self.on_progress(progress)
                shown_s = machine.monotonic()

        found = compare_selection(self.settings, self.run, config.rows.rows, live, on_progress, self.is_stopped)
        self.run = self.run.model_copy(update={"live_selection": found})

    def _load(self) -> None:
        files = self.run.files
        lag = {(archive.path, 0): archive.size for archive in files}
        progress = PhaseProgress("loading", sum(lag.values()), lag)

        def on_progress(number: int, size: int) -> None:
            lag.update({(archive.path, 0): 0 for archive in files[:number]})
            lag[files[number].path, 0] = max(0, lag[files[number].path, 0] - size)
            self.on_progress(progress)

        def read_loaded() -> Loaded:
            stored = find_run(self.settings, self.run.run_id)
            return Loaded() if stored is None else stored.loaded

        self.on_progress(progress)
        load_archives(run_settings(self.settings, self.run), files, read_loaded, on_progress, self.is_stopped)

    def _run_workers(self) -> None:
        phase = self.run.phase
        workers = self.workers if phase == "evaluating" else 1
        monitor = PhaseMonitor(run_settings(self.settings, self.run), self.run)
        next_poll_s = 0.0
        with TemporaryFile() as worker_log, closing(monitor):

            def is_finished() -> bool:
                nonlocal next_poll_s
                if self.is_stopped():
                    return True
                if machine.monotonic() < next_poll_s:
                    return False
                is_over = monitor.poll()
                if monitor.is_stalled:
                    monitor.progress.problem = monitor.progress.problem or _last_error(worker_log)
                self.on_progress(monitor.progress)
                next_poll_s = machine.monotonic() + _POLL_SECONDS
                return is_over

            if is_finished():
                return
            commands = [Command(SERVICE[phase], slot, self.command(phase, slot)) for slot in range(workers)]
            if Supervisor(commands, worker_log if self.quiet else None).run(is_finished):
                raise PermanentError(_last_error(worker_log) or "a worker of the run has ended; its log has the reason")


class PhaseMonitor:
    """Measures the lag of a phase's consumer group.

    Args:
        settings: the run's settings.
        run: the record of the run.
    """

    def __init__(self, settings: Settings, run: Run) -> None:
        self._settings, self._run, self.progress = settings, run, PhaseProgress(run.phase)
        group = Identity(SERVICE[run.phase], 0, settings.topics.prefix).group
        self._consumer = build(Consumer, {**reader_properties(settings), "group.id": group})
        self._changed_s, self._last_done = machine.monotonic(), -1

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    @property
    def is_stalled(self) -> bool:
        """True if there was no progress for some seconds."""
        if self.progress.done != self._last_done:
            self._changed_s, self._last_done = machine.monotonic(), self.progress.done
        return machine.monotonic() - self._changed_s > _STALL_SECONDS

    def poll(self) -> bool:
        """Update the progress; return whether the phase is over. An unreachable Kafka is a problem of the progress."""
        is_over, problem = False, ""
        try:
            is_over = self._poll()
        except Unreachable as error:
            problem = str(error)
        except KafkaException as error:
            problem = error.args[0].str()
        self.progress.problem = problem
        return is_over

    def _poll(self) -> bool:
        total, lag = 0, {}
        is_over = True
        # The order matters: a request's retry is in the second topic once the request's offset is committed.
        for part in self._inputs():
            total += len(part)
            rest = part.since(self._committed(part))
            lag.update({(part.topic, each): max(0, end - rest.starts[each]) for each, end in part.ends.items()})
            is_over = is_over and self._is_empty(rest)
        self.progress.total, self.progress.lag = total, lag
        return is_over and (self._run.phase != "summing" or self.windows_are_closed())

    def _inputs(self) -> Iterator[OffsetRange]:
        run, prefix = self._run, self._settings.topics.prefix
        if run.phase == "evaluating":
            for topic in sorted({extent.topic for extent in run.extents}):
                own = [each for each in run.extents if each.topic == topic]
                starts = {each.partition: each.start for each in own}
                yield OffsetRange(topic, starts, {each.partition: each.end for each in own})
            return
        for name in ("judge.requests", "judge.retry") if run.phase == "judging" else ("evaluations",):
            yield offset_range(self._settings, f"{prefix}{name}", committed=False)

    def _committed(self, part: OffsetRange) -> dict[int, int]:
        partitions = [PartitionOffset(part.topic, each) for each in part.ends]
        committed = self._consumer.committed(partitions, timeout=_TIMEOUT_SECONDS)
        return {each.partition: max(each.offset, 0) for each in committed}

    def _is_empty(self, rest: OffsetRange) -> bool:
        """Return whether there are no records in a range; its offsets may be those of transaction markers."""
        if len(rest) > _READABLE_OFFSETS:
            return False
        stable = offset_range(self._settings, rest.topic, partitions=[*rest.ends]).ends
        if any(stable[partition] < end for partition, end in rest.ends.items()):
            return False  # A transaction is open, or its marker is not written yet.
        try:
            return next(read(self._settings, rest), None) is None
        except PermanentError:
            return False

    def windows_are_closed(self) -> bool:
        """Return whether the latest progress record of every partition says that it is idle."""
        part = offset_range(self._settings, f"{self._settings.topics.prefix}windows").newest(_PROGRESS_OFFSETS)
        idle = dict.fromkeys(part.ends, False)
        for record in read(self._settings, part):
            key = parse_window_key(record.key) if record.key else None
            if isinstance(key, ProgressKey) and record.value is not None:
                idle[record.partition] = Progress.model_validate_json(record.value).idle
        return all(idle.values())


def _last_error(log: IO[bytes]) -> str:
    """Return the message of the last error in a log of JSON lines; empty if there is none."""
    # By pread: the workers that write to the file share its one position.
    end = os.fstat(log.fileno()).st_size
    for line in reversed(os.pread(log.fileno(), _LOG_TAIL_BYTES, max(0, end - _LOG_TAIL_BYTES)).splitlines()):
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(entry, dict) and entry.get("level") in ("error", "critical"):
            return str(entry.get("event"))
    return ""


def run_worker(
    settings: Settings,
    run_id: str,
    workers: int,
    rate: float | None,
    slot: int,
    is_stopped: Callable[[], bool],
    canary: Sequence[str] | None,
) -> None:
    """Run a worker of a run's current phase, or, without the command line of a canary, be the canary.

    Raises:
        PermanentError, ConfigurationError: if a person has to correct something first.
        RestartRequired: if a new process has to continue.
    """
    stored = find_run(settings, run_id)
    if stored is None:
        raise PermanentError(f"there is no run {run_id}")
    own_settings, service = run_settings(settings, stored.run), phase_service(stored.run, workers, rate)
    if canary is None:
        run_canary(service, own_settings, slot)
    else:
        run_slot(service, own_settings, slot, is_stopped, canary)
