"""A replay: which stretch of which topics, by which settings, and the services that work on it.

It runs on what live traffic runs on: the same agents and runtime, in groups and topics of its own. First everything is
evaluated, then judged, then summed up in windows, so that each step reads what nobody writes to any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.schemas.run import Archive, Extent, Phase, ReplayRequest, Run
from ragweir.schemas.topics import TOPICS
from ragweir.streams.agent import Agent
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.evaluate.filters import Filters
from ragweir.streams.from_settings import decoder, evaluate_config, judge_config
from ragweir.streams.judge.agent import JudgeAgent
from ragweir.streams.judge.pool import LiveJudgePool
from ragweir.streams.kafka.reader import OffsetRange, offset_range, topics
from ragweir.streams.masking import masked
from ragweir.streams.records import ReplayBounds
from ragweir.streams.replay.archives import id_reader, lines
from ragweir.streams.replay.runs import StoredRun, fingerprint, prefix_of, result_affecting_settings, run_settings
from ragweir.streams.service import SERVICES, Service
from ragweir.streams.settings import Settings
from ragweir.streams.time_arguments import time_argument

SERVICE: Mapping[Phase, str] = {"evaluating": "evaluate", "judging": "judge", "summing": "aggregate"}
"""Which service works in which phase."""


# What is asked for.


def create_run(settings: Settings, run_id: str, asked: ReplayRequest, files: Sequence[Path]) -> Run:
    """The record of a run that begins now.

    Raises:
        ConfigurationError: if what is asked for cannot be.
        PermanentError: if there is nothing to read.
        Unreachable: if no broker answers.
    """
    kept = _result_affecting_settings(settings, asked)
    for file in files:  # What cannot be read is refused before the run has topics.
        next(lines(file, settings.limits.max_event_bytes), None)
    archives = tuple(Archive(path=str(file.resolve()), size=file.stat().st_size) for file in files)
    main = asked.topic or settings.input_topic
    extents = () if files else extents_of(settings, asked, datetime.now(UTC))
    if files:
        main = f"{prefix_of(settings, run_id)}interactions"
    run = Run(
        run_id=run_id,
        began_at=datetime.now(UTC),
        phase="loading" if files else "evaluating",
        asked=asked,
        files=archives,
        topic=main,
        partitions=settings.topics.partitions if files else topics(settings)[main],
        extents=extents,
        catalogue_version=CATALOGUE_VERSION,
        fingerprint=fingerprint(kept, run_id),
        settings=masked(kept),
    )
    check(settings, run)
    return run


def check(settings: Settings, run: Run) -> None:
    """See that all services of a run can be made.

    Raises:
        ConfigurationError: if one cannot.
    """
    own = run_settings(settings, run)
    config(own, run)
    SERVICES["aggregate"].check(own)
    if run.asked.judge != "never":
        judge_config(own, run.partitions)
    if run.asked.judge == "cached-only" and own.judge.cache_file is None:
        raise ConfigurationError(
            "--judge cached-only needs answers to take: set judge.cache_file, as live judging has it"
        )


def check_resumable(settings: Settings, found: StoredRun, asked: ReplayRequest, files: Sequence[Path]) -> None:
    """See that a run is gone on with by what it was begun by, so that its results are of one piece.

    Raises:
        PermanentError: if it is not.
    """
    run = found.run
    told = f"the run {run.run_id} was begun with"
    for name, now, then in (
        ("files", [str(file.resolve()) for file in files], [archive.path for archive in run.files]),
        *((f"{field}", getattr(asked, field), getattr(run.asked, field)) for field in ReplayRequest.model_fields),
    ):
        if now != then:
            raise PermanentError(
                f"{told} other {name} ({then or 'none'}); use another --run-id, or `ragweir runs delete`"
            )
    if run.catalogue_version != CATALOGUE_VERSION:
        why = f"{told} catalogue version {run.catalogue_version}, and this is {CATALOGUE_VERSION}"
        raise PermanentError(f"{why}; use another --run-id, or `ragweir runs delete`")
    if (
        run.phase != "complete"
        and fingerprint(_result_affecting_settings(settings, asked), run.run_id) != run.fingerprint
    ):
        raise PermanentError(
            f"{told} other settings, which `ragweir runs show {run.run_id}` tells; use another --run-id"
        )
    for file, archive in zip(files, run.files, strict=True):
        if run.phase == "loading" and file.stat().st_size != archive.size:
            raise PermanentError(f"{file} has changed since the run {run.run_id} began to load it")


def _result_affecting_settings(settings: Settings, asked: ReplayRequest) -> dict[str, object]:
    try:
        return result_affecting_settings(settings, asked)
    except (OSError, UnicodeDecodeError):
        raise ConfigurationError("the map or a pack that the settings name cannot be read") from None


def extents_of(settings: Settings, asked: ReplayRequest, now: datetime) -> tuple[Extent, ...]:
    """What is to be read of each partition, as the topics are now.

    Raises:
        ConfigurationError: if a bound cannot be read.
        PermanentError: if there is no such topic.
    """
    since, until = (_bound(text, name, now) for text, name in ((asked.since, "--from"), (asked.until, "--to")))
    names = [asked.topic or settings.input_topic]
    redriven = f"{settings.topics.prefix}redrive"
    # Offsets are those of one topic; and of another topic than ours nothing is redriven.
    if asked.topic is None and not any(isinstance(bound, int) for bound in (since, until)):
        names += [redriven] if redriven in topics(settings) else []
    found = []
    for name in names:
        part = _part(settings, name, since, until)
        found += [
            Extent(topic=name, partition=each, start=min(part.starts[each], end), end=end)
            for each, end in part.ends.items()
        ]
    return tuple(found)


def _part(settings: Settings, topic: str, since: int | datetime | None, until: int | datetime | None) -> OffsetRange:
    times = [round(each.timestamp() * 1000) if isinstance(each, datetime) else None for each in (since, until)]
    part = offset_range(settings, topic, since_ms=times[0], until_ms=times[1])
    if isinstance(since, int):
        part = part.since(dict.fromkeys(part.ends, since))
    if isinstance(until, int):
        part = replace(part, ends={each: min(end, until) for each, end in part.ends.items()})
    return part


def _bound(text: str | None, name: str, now: datetime) -> int | datetime | None:
    """An offset, a time, or a duration before now."""
    if text is None:
        return None
    if text.isdecimal():
        return int(text)
    return time_argument(text, name, now)


def topics_of(run: Run) -> list[str]:
    """The names of a run's topics in the topic table, and of its record."""
    names = ["interactions"] * bool(run.files) + ["evaluations", "windows", "dead-letter"]
    if run.asked.judge != "never":
        names += [name for name in TOPICS if name.startswith("judge.")]
    return names


# Its services.


def config(own: Settings, run: Run) -> EvaluateConfig:
    """All that a run's evaluations depend on.

    Raises:
        ConfigurationError: if the settings or filters are not what they should be.
    """
    made = evaluate_config(own, run.topic)
    filters = Filters.read(run.asked.only, made.catalogue)
    return replace(made, run_id=run.run_id, filters=filters, ignore_record_timestamp=bool(run.files))


def loader_id(own: Settings) -> Callable[[bytes], str | None]:
    """What gives the id of a line of an archive."""
    return id_reader(decoder(own))


def service(run: Run, workers: int, rate: float | None) -> Service:
    """What works in a run's phase.

    Args:
        run: as its record is now.
        workers: over which the rate is shared.
        rate: interactions a second; None for as many as there can be.
    """
    live = SERVICES[SERVICE[run.phase]]
    if run.phase == "evaluating":
        return replace(
            live,
            agent=lambda own, _: EvaluateAgent(config(own, run)),
            check=lambda own: config(own, run),
            inputs=lambda _: sorted({extent.topic for extent in run.extents}),
            bounds=ReplayBounds(
                {(each.topic, each.partition): each.start for each in run.extents},
                {(each.topic, each.partition): each.end for each in run.extents},
                None if rate is None else rate / workers,
            ),
        )
    if run.phase == "judging":
        return replace(
            live,
            agent=lambda own, partitions: _judge(own, run, partitions),
            # What is over the budget stays where it is: the run has one budget, and no day after.
            inputs=lambda own: [f"{own.topics.prefix}{name}" for name in ("judge.requests", "judge.retry")],
        )
    return live


def _judge(own: Settings, run: Run, partitions: int) -> Agent:
    day = run.began_at.date().isoformat()
    return JudgeAgent(replace(judge_config(own, partitions), day=day), LiveJudgePool(own.judge))
