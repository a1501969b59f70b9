"""Replays: which offsets or files a run reads, by which settings, and the services of its phases.

A replay uses the agents and the runtime of live traffic, in consumer groups and topics of its own. All records are
evaluated first, then judged, then aggregated into windows, so that each phase reads topics that are no longer written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.schemas.run import Archive, ControlRead, Extent, Phase, ReplayRequest, Run
from ragweir.schemas.topics import TOPICS
from ragweir.streams.analysis.replay.runs import (
    StoredRun,
    fingerprint,
    prefix_of,
    result_affecting_settings,
    run_settings,
)
from ragweir.streams.files.events import read_events
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.kafka.reader import offset_range, topic_id, topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import ReplayBounds
from ragweir.streams.runtime.text.masking import masked
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.control_log import ControlLog
from ragweir.streams.services.evaluate.filters import Filters
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.from_settings import judge_config
from ragweir.streams.services.judge.pool import LiveJudgePool
from ragweir.streams.services.kafka_services import SERVICES, Service
from ragweir.streams.services.shared.from_settings import catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.time_arguments import default_time_argument, time_argument

SERVICE: Mapping[Phase, str] = {"evaluating": "evaluate", "judging": "judge", "summing": "aggregate"}
"""The service of each phase."""


def create_run(
    settings: Settings, run_id: str, request: ReplayRequest, files: Sequence[Path], like: Run | None = None
) -> Run:
    """Return the record of a new run; nothing is written to Kafka.

    Args:
        settings: settings of the live system.
        run_id: id of the run.
        request: arguments of the command.
        files: files to read in place of a topic.
        like: another run, whose files have been given, or whose offsets are read, and whose routing rows hold.

    Raises:
        ConfigurationError: if the settings or the request are invalid.
        PermanentError: if there is nothing to read.
        Unreachable: if no broker answers.
    """
    affecting = result_affecting_settings(settings, request)
    for file in files:  # An unreadable file is an error before the run has topics.
        next(read_events(file, settings.limits.max_event_bytes), None)
    archives = tuple(Archive(path=str(file.resolve()), size=file.stat().st_size) for file in files)
    topic = request.topic or settings.input_topic
    if like is not None:
        _check_unchanged(like, archives)
    if files:
        extents: tuple[Extent, ...] = ()
    elif like is not None:
        topic, extents = like.topic, tuple(_present(settings, like, like.extents))
    else:
        extents = tuple(_extents(settings, request, machine.now()))
    if files:
        topic = f"{prefix_of(settings, run_id)}interactions"
    run = Run(
        run_id=run_id,
        began_at=machine.now(),
        phase="loading" if files else "evaluating",
        asked=request,
        files=archives,
        topic=topic,
        partitions=settings.topics.partitions if files else topics(settings)[topic],
        extents=extents,
        control=_control(settings, like),
        catalogue_version=catalogue(settings).version,
        fingerprint=fingerprint(affecting, run_id),
        settings=masked(affecting),
    )
    _check_services(run_settings(settings, run), run)
    return run


def _check_services(settings: Settings, run: Run) -> None:
    replay_config(settings, run)
    SERVICES["aggregate"].check(settings)
    if run.asked.judge != "never":
        judge_config(settings, run.partitions)
    if run.asked.judge == "cached-only" and settings.judge.cache_file is None:
        raise ConfigurationError("--judge cached-only needs cached answers: set judge.cache_file as for live judging")


def check_resumable(settings: Settings, stored: StoredRun, request: ReplayRequest, files: Sequence[Path]) -> None:
    """Check that a run is resumed with the request, files, catalogue and settings with which it was created.

    Raises:
        PermanentError: if one of them differs, so that results would not be comparable with those already written.
    """
    run = stored.run
    prefix = f"the run {run.run_id} was created with"
    for name, now, then in (
        ("files", [str(file.resolve()) for file in files], [archive.path for archive in run.files]),
        *((field, getattr(request, field), getattr(run.asked, field)) for field in ReplayRequest.model_fields),
    ):
        if now != then:
            message = f"{prefix} other {name} ({then or 'none'})"
            raise PermanentError(f"{message}; use another --run-id, or `ragweir runs delete`")
    if run.catalogue_version != (version := catalogue(settings).version):
        message = f"{prefix} catalogue version {run.catalogue_version}, and this is {version}"
        raise PermanentError(f"{message}; use another --run-id, or `ragweir runs delete`")
    complete = run.phase == "complete"
    if not complete and fingerprint(result_affecting_settings(settings, request), run.run_id) != run.fingerprint:
        raise PermanentError(
            f"{prefix} other settings, which `ragweir runs show {run.run_id}` prints; use another --run-id"
        )
    if run.phase in ("loading", "evaluating") and run.control is not None:
        _present_control(settings, run, run.control)
    for file, archive in zip(files, run.files, strict=True):
        if run.phase == "loading" and file.stat().st_size != archive.size:
            raise PermanentError(f"{file} has changed since the run {run.run_id} began to load it")


def _extents(settings: Settings, request: ReplayRequest, now: datetime) -> Iterable[Extent]:
    """Yield the offsets to read of each partition, as the topics are now.

    Raises:
        ConfigurationError: if a bound is invalid.
        PermanentError: if the topic does not exist.
    """
    since, until = (_bound(text, name, now) for text, name in ((request.since, "--from"), (request.until, "--to")))
    names = [request.topic or settings.input_topic]
    redriven = f"{settings.topics.prefix}redrive"
    # Offsets belong to one topic, and dead letters of a topic other than the input are not redriven.
    if request.topic is None and not any(isinstance(bound, int) for bound in (since, until)):
        names += [redriven] if redriven in topics(settings) else []
    times_ms = [round(each.timestamp() * 1000) if isinstance(each, datetime) else None for each in (since, until)]
    for name in names:
        found = offset_range(settings, name, since_ms=times_ms[0], until_ms=times_ms[1])
        for partition, latest in found.ends.items():
            end = min(latest, until) if isinstance(until, int) else latest
            start = max(found.starts[partition], since) if isinstance(since, int) else found.starts[partition]
            yield Extent(topic=name, partition=partition, start=min(start, end), end=end)


def _control(settings: Settings, like: Run | None) -> ControlRead | None:
    """Return the part of `control` that another run read, or that there is now; None if there is no such topic.

    Raises:
        PermanentError: if the topic does not have all of the other run's part any more.
    """
    if like is not None and like.control is not None:
        return _present_control(settings, like, like.control)
    read_at, topic = machine.now(), settings.output_topic("control")
    if topic not in topics(settings):
        return None
    part = offset_range(settings, topic)
    extents = [Extent(topic=topic, partition=p, start=part.starts[p], end=end) for p, end in part.ends.items()]
    return ControlRead(read_at=read_at, extents=tuple(extents), topic_id=topic_id(settings, topic))


def _present_control(settings: Settings, run: Run, control: ControlRead) -> ControlRead:
    """Return the part of `control` that a run reads.

    Raises:
        PermanentError: if the topic does not have all of it any more.
    """
    list(_present(settings, run, control.extents))
    topic = control.extents[0].topic
    if control.topic_id and control.topic_id != topic_id(settings, topic):
        raise PermanentError(
            f"{topic} was recreated since the run {run.run_id} began, and its rows are lost: use another --run-id, "
            "without --like"
        )
    return control


def _present(settings: Settings, run: Run, extents: Sequence[Extent]) -> Iterable[Extent]:
    """Yield offsets that a run reads.

    Raises:
        PermanentError: if a topic does not have all of them any more.
    """
    parts = {name: offset_range(settings, name) for name in sorted({extent.topic for extent in extents})}
    for each in extents:
        part = parts[each.topic]
        first, end = part.starts.get(each.partition, 0), part.ends.get(each.partition, 0)
        if each.start < each.end and not first <= each.start < each.end <= end:
            raise PermanentError(
                f"{each.topic}/{each.partition} has the offsets {first} to {end}, and the run {run.run_id} read "
                f"{each.start} to {each.end}: the topic was truncated or recreated since"
            )
        yield each


def _check_unchanged(like: Run, archives: Sequence[Archive]) -> None:
    """Check that the files of a run have their sizes still.

    Raises:
        PermanentError: if one has another size.
    """
    for now, then in zip(archives, like.files, strict=True):
        if now.size != then.size:
            raise PermanentError(f"{now.path} has changed since the run {like.run_id} was created")


def _bound(text: str | None, name: str, now: datetime) -> int | datetime | None:
    """Return the offset or the time of a bound; a duration counts back from now."""
    if text is None:
        return None
    return int(text) if text.isdecimal() else time_argument(text, name, now)


def topic_names(settings: Settings, run: Run) -> list[str]:
    """Return the names in the topic table of a run's topics, without its record topic.

    Args:
        settings: the run's settings.
        run: the record of the run.
    """
    names = ["interactions"] * bool(run.files) + ["evaluations", "windows", "dead-letter"]
    if run.asked.judge != "never":
        names += [name for name in TOPICS if name.startswith("judge.")]
    names += ["documents"] * settings.blame.enabled
    return names + ["otlp.evaluations"] * (settings.output.otlp is not None)


def replay_config(settings: Settings, run: Run) -> EvaluateConfig:
    """Return the configuration of a run's evaluate agent, from the run's settings.

    Raises:
        ConfigurationError: if the settings or the filters are invalid.
    """
    config = evaluate_config(settings, run.topic)
    filters = Filters.read(run.asked.only, config.catalogue)
    asked = run.asked.default_time
    if run.control is not None and config.router is not None and config.router.uses_rows:
        extents = run.control.extents
        ends = {each.partition: each.end for each in extents}
        config = replace(config, rows=ControlLog(settings, extents[0].topic, ends, run.control.read_at))
    return replace(
        config,
        run_id=run.run_id,
        filters=filters,
        ignore_record_timestamp=bool(run.files),
        default_time=None if asked is None else default_time_argument(asked),
    )


def phase_service(run: Run, workers: int, rate: float | None) -> Service:
    """Return the service of the run's current phase.

    Args:
        run: the record of the run.
        workers: number of processes that share the rate.
        rate: interactions per second; None for no limit.
    """
    live = SERVICES[SERVICE[run.phase]]
    if run.phase == "evaluating":
        return replace(
            live,
            agent=lambda settings, _: EvaluateAgent(replay_config(settings, run)),
            check=lambda settings: replay_config(settings, run),
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
            agent=lambda settings, partitions: _judge_agent(settings, run, partitions),
            # Without judge.deferred: a run has one budget and no next day, so requests over the budget stay there.
            inputs=lambda settings: [f"{settings.topics.prefix}{name}" for name in ("judge.requests", "judge.retry")],
        )
    return live


def _judge_agent(settings: Settings, run: Run, partitions: int) -> Agent:
    day = run.began_at.date().isoformat()
    return JudgeAgent(replace(judge_config(settings, partitions), day=day), LiveJudgePool(settings.judge))
