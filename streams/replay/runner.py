"""Running a replay to its end: its phases one after the other, each by supervised workers, until all is settled."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from tempfile import TemporaryFile
from typing import IO

import orjson
import structlog
from confluent_kafka import Consumer, KafkaException
from confluent_kafka import TopicPartition as PartitionOffset

from ragweir.errors import PermanentError, Unreachable
from ragweir.schemas.run import Loaded, Phase, Run
from ragweir.schemas.topics import RUN, TOPICS
from ragweir.schemas.window import Progress
from ragweir.schemas.window_key import ProgressKey, parse_window_key
from ragweir.streams.kafka.client import Identity, build, reader_properties
from ragweir.streams.kafka.reader import OffsetRange, offset_range, read
from ragweir.streams.kafka.topics import create_topics
from ragweir.streams.records import TopicPartition
from ragweir.streams.replay.archives import load
from ragweir.streams.replay.request import SERVICE, loader_id, service, topics_of
from ragweir.streams.replay.runs import StoredRun, find, run_settings, store
from ragweir.streams.settings import Settings
from ragweir.streams.slot import run_canary, run_slot
from ragweir.streams.supervisor import Command, Supervisor

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_LOOK_S = 0.5
_TIMEOUT_S = 5.0
_FEW = 2_000
"""Offsets left of which it is worth to see whether they are only marks of transactions."""
_NEWEST = 8
"""Offsets at the end of a partition of windows among which its progress is."""
_NEXT: Mapping[Phase, Phase] = {"loading": "evaluating", "judging": "summing", "summing": "complete"}
_LOG_BYTES = 64 * 1024
_STILL_S = 10.0
"""A worker starts within this; where nothing is settled for longer, there may be a reason."""


@dataclass(slots=True)
class PhaseProgress:
    """How far a phase is."""

    phase: Phase
    total: int
    left: dict[TopicPartition, int] = field(default_factory=dict)
    """Offsets, per partition."""
    waits: str = ""
    """Why nothing goes on; empty while all is well."""

    @property
    def done(self) -> int:
        """Offsets that are settled."""
        return self.total - sum(self.left.values())


Show = Callable[[PhaseProgress], None]


class ReplayRunner:
    """Goes on with a run until it is complete, or until told to stop.

    Args:
        settings: of the live system.
        found: the run.
        command: from the phase and a slot to a worker's command line.
        workers: that evaluate.
        show: is shown how far it is, again and again.
        stopped: says whether to stop.
        quiet: keep what workers log to show the last error of it where nothing goes on; else it goes to standard error.
    """

    def __init__(
        self,
        settings: Settings,
        found: StoredRun,
        command: Callable[[Phase, int], Sequence[str]],
        workers: int,
        show: Show,
        stopped: Callable[[], bool],
        *,
        quiet: bool,
    ) -> None:
        self._settings, self.run = settings, found.run
        self._own = run_settings(settings, found.run)
        self._command, self._workers = command, workers
        self._show, self._stopped, self._quiet = show, stopped, quiet

    def __call__(self) -> bool:
        """Go on; gives whether the run is complete.

        Raises:
            PermanentError: if people have to mend something; the same call goes on afterwards.
        """
        create_topics(self._own, [*(TOPICS[name] for name in topics_of(self.run)), RUN])
        store(self._settings, self.run)
        while self.run.phase != "complete":
            if self.run.phase == "loading":
                self._load()
            else:
                self._work()
            if self._stopped():
                return False
            self._turn()
        return True

    def _turn(self) -> None:
        """Enter the next phase."""
        run = self.run
        changes: dict[str, object] = {"phase": _NEXT.get(run.phase)}
        if run.phase == "loading":
            # All that was sent: the last transaction's mark may not be there yet, although it is committed.
            held = offset_range(self._settings, run.topic, committed=False)
            extents = [{"topic": run.topic, "partition": p, "start": 0, "end": end} for p, end in held.ends.items()]
            changes["extents"] = extents
        elif run.phase == "evaluating":
            changes["phase"] = "summing" if run.asked.judge == "never" else "judging"
        elif run.phase == "summing":
            changes["ended_at"] = datetime.now(UTC)
        self.run = Run.model_validate({**run.model_dump(), **changes})
        store(self._settings, self.run)

    def _load(self) -> None:
        total = sum(archive.size for archive in self.run.files)
        standing = PhaseProgress("loading", total)
        standing.left = {(archive.path, 0): archive.size for archive in self.run.files}

        def moved(number: int, size: int) -> None:
            for earlier, archive in enumerate(self.run.files[: number + 1]):
                left = standing.left[archive.path, 0]
                standing.left[archive.path, 0] = max(0, left - size) if earlier == number else 0
            self._show(standing)

        self._show(standing)
        load(
            self._settings,
            self.run.run_id,
            self._own,
            self.run.files,
            self._reached,
            loader_id(self._own),
            moved,
            self._stopped,
        )

    def _reached(self) -> Loaded:
        """How far loading has come."""
        found = find(self._settings, self.run.run_id)
        return Loaded() if found is None else found.loaded

    def _work(self) -> None:
        """Let workers settle all that the phase is about."""
        phase = self.run.phase
        workers = self._workers if phase == "evaluating" else 1
        watch = _Watch(self._own, self.run, PhaseProgress(phase, 0))
        look_at = 0.0
        with TemporaryFile() as said, closing(watch):

            def over() -> bool:
                nonlocal look_at
                if self._stopped():
                    return True
                if time.monotonic() < look_at:
                    return False
                settled = watch.settled()
                if watch.stands_still:
                    watch.standing.waits = watch.standing.waits or _last_error(said)
                self._show(watch.standing)
                look_at = time.monotonic() + _LOOK_S
                return settled

            if over():
                return
            commands = [Command(SERVICE[phase], slot, self._command(phase, slot)) for slot in range(workers)]
            if Supervisor(commands, said if self._quiet else None).run(over):
                raise PermanentError(_last_error(said) or "a worker of the run has given up; what it logged tells why")


class _Watch:
    """How far the group of a phase is with its topics."""

    def __init__(self, own: Settings, run: Run, standing: PhaseProgress) -> None:
        self._own, self._run, self.standing = own, run, standing
        group = Identity(SERVICE[run.phase], 0, own.topics.prefix).group
        self._consumer = build(Consumer, {**reader_properties(own), "group.id": group})
        self._moved_s, self._before = time.monotonic(), -1

    def close(self) -> None:
        self._consumer.close()

    @property
    def stands_still(self) -> bool:
        """Whether nothing was settled for a while."""
        if self.standing.done != self._before:
            self._moved_s, self._before = time.monotonic(), self.standing.done
        return time.monotonic() - self._moved_s > _STILL_S

    def settled(self) -> bool:
        """Whether nothing is left; brings the standing up to date."""
        self.standing.waits = ""
        try:
            return self._settled()
        except Unreachable as error:
            self.standing.waits = str(error)
        except KafkaException as error:
            self.standing.waits = error.args[0].str()
        return False

    def _settled(self) -> bool:
        total, left = 0, {}
        over = True
        # In this order: what a request comes to is in the topic behind it once its offset is committed.
        for part in self._parts():
            total += len(part)
            rest = part.since(self._committed(part))
            left.update({(part.topic, each): max(0, end - rest.starts[each]) for each, end in part.ends.items()})
            over = over and self._nothing(rest)
        self.standing.total, self.standing.left = total, left
        return over and (self._run.phase != "summing" or self._closed())

    def _parts(self) -> Iterator[OffsetRange]:
        run, prefix = self._run, self._own.topics.prefix
        if run.phase == "evaluating":
            for topic in sorted({extent.topic for extent in run.extents}):
                own = [each for each in run.extents if each.topic == topic]
                yield OffsetRange(
                    topic, {each.partition: each.start for each in own}, {e.partition: e.end for e in own}
                )
            return
        for name in ("judge.requests", "judge.retry") if run.phase == "judging" else ("evaluations",):
            yield offset_range(self._own, f"{prefix}{name}", committed=False)

    def _committed(self, part: OffsetRange) -> dict[int, int]:
        asked = [PartitionOffset(part.topic, each) for each in part.ends]
        found = self._consumer.committed(asked, timeout=_TIMEOUT_S)
        return {each.partition: max(each.offset, 0) for each in found}

    def _nothing(self, rest: OffsetRange) -> bool:
        """Whether nothing can be read there: offsets count the marks of transactions too."""
        if len(rest) > _FEW:
            return False
        stable = offset_range(self._own, rest.topic, partitions=[*rest.ends]).ends
        if any(stable[partition] < end for partition, end in rest.ends.items()):
            return False  # A transaction is still open, or its mark not written.
        try:
            return next(read(self._own, rest), None) is None
        except PermanentError:
            return False

    def _closed(self) -> bool:
        """Whether every partition's windows say that nothing more comes, so that readers take them for closed."""
        part = offset_range(self._own, f"{self._own.topics.prefix}windows").newest(_NEWEST)
        idle = dict.fromkeys(part.ends, False)
        for record in read(self._own, part):
            key = parse_window_key(record.key) if record.key else None
            if isinstance(key, ProgressKey) and record.value is not None:
                idle[record.partition] = Progress.model_validate_json(record.value).idle
        return all(idle.values())


def _last_error(log: IO[bytes]) -> str:
    """The last error that a worker logged; empty if there is none."""
    # Where it is read, and not where the workers write: they share the file's one position.
    end = os.fstat(log.fileno()).st_size
    for line in reversed(os.pread(log.fileno(), _LOG_BYTES, max(0, end - _LOG_BYTES)).splitlines()):
        try:
            said = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(said, dict) and said.get("level") in ("error", "critical"):
            return str(said.get("event"))
    return ""


def run_worker(
    settings: Settings,
    run_id: str,
    workers: int,
    rate: float | None,
    slot: int,
    stopped: Callable[[], bool],
    canary: Sequence[str] | None,
) -> None:
    """Run one worker of the phase that a run is in, or, without the command line of one, its canary.

    Raises:
        PermanentError, ConfigurationError: if people have to mend something first.
        RestartRequired: if a new process has to go on.
    """
    found = find(settings, run_id)
    if found is None:
        raise PermanentError(f"there is no run {run_id}")
    own, of = run_settings(settings, found.run), service(found.run, workers, rate)
    if canary is None:
        run_canary(of, own, slot)
    else:
        run_slot(of, own, slot, stopped, canary)
