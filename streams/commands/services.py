"""Commands of the services: `ragweir evaluate`, `judge`, `aggregate`, one per projection, and `up` for all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, NoReturn

import structlog
import typer

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.streams.commands.app import app, out, settings, shared_flags
from ragweir.streams.commands.options import Every, MapFile, Workers, interval
from ragweir.streams.commands.worker_exit import as_worker
from ragweir.streams.console.service import SERVICE as CONSOLE
from ragweir.streams.console.service import check as check_console
from ragweir.streams.console.service import run as run_console
from ragweir.streams.runtime.processes.supervisor import (
    OWN_PORT,
    UP_PORT,
    Command,
    Supervisor,
    own_command,
    same_command,
    stop_flag,
)
from ragweir.streams.runtime.serving.heartbeat import Heartbeat
from ragweir.streams.runtime.serving.port_holder import cannot_open
from ragweir.streams.services.export.service import PROJECTIONS, enabled_projections
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.from_settings import catalogue
from ragweir.streams.services.slot import run_canary, run_projection, run_slot
from ragweir.streams.settings import DEFAULT_ROUTING_KEY_WARNING, Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

Slot = Annotated[
    int | None,
    typer.Option(min=0, help="Number of the one worker to run, without a supervisor; on Kubernetes the pod's ordinal."),
]
CANARY = "--canary"
Canary = Annotated[
    bool,
    typer.Option(CANARY, hidden=True, help="Try the records on standard input, to find those that end a process."),
]


@app.command()
def evaluate(
    workers: Workers = 1,
    slot: Slot = None,
    input_topic: Annotated[
        str | None, typer.Option(help="Topic to read in place of ragweir's; nothing is written to it.")
    ] = None,
    map_file: MapFile = None,
    runtime: Annotated[
        Literal["kafka", "faust"],
        typer.Option(help="Runtime: `kafka`, exactly once; or `faust`, at least once (needs ragweir[faust])."),
    ] = "kafka",
    canary: Canary = False,
) -> None:
    """Evaluate interactions continuously, exactly once; with `--runtime faust` at least once.

    Reads the interactions topic (or `--input-topic`), and writes evaluations and dead letters. SIGTERM or Ctrl-C stops
    it after the current batch. Each worker serves /metrics, /healthz and /readyz on telemetry.port plus its number; the
    supervisor lists the workers for Prometheus under /targets on telemetry.port + 90. On Faust some events are
    evaluated again after a crash: readers keep the newest record per key.
    """
    effective = settings(input={"topic": input_topic, "map": map_file})
    if canary:
        as_worker(partial(run_canary, SERVICES["evaluate"], effective, slot or 0))
        return
    flags = ["--input-topic", input_topic] if input_topic else []
    flags += ["--map", str(map_file)] if map_file else []
    if runtime == "faust":
        flags += ["--runtime", runtime]
    run_service("evaluate", effective, workers, slot, flags, _on_faust() if runtime == "faust" else None)


@app.command()
def aggregate(workers: Workers = 1, slot: Slot = None) -> None:
    """Aggregate evaluations in windows of event time, exactly once.

    Reads the evaluations, writes windows, and counts the events of the SLOs. Workers, ports and stopping are those of
    `evaluate`, with ports from telemetry.port + 100.
    """
    run_service("aggregate", settings(), workers, slot, [])


@app.command()
def assemble(key_workers: Workers = 1, join_workers: Workers = 1) -> None:
    """Assemble interactions from OpenTelemetry traces, exactly once; needs `input.format = "otlp"`.

    Runs two services under one supervisor. `key` copies the topics of OTLP data to `spans`, by trace; `join` writes an
    interaction for each question that a trace answers. Their ports are telemetry.port + 500 and + 600.
    """
    effective = settings()
    _run_several({"key": key_workers, "join": join_workers}, effective, _RUNNERS["key"].port + OWN_PORT)


@app.command(hidden=True)
def key(slot: Slot = None, canary: Canary = False) -> None:
    """Copy OTLP data to `spans`, by trace: one worker of `assemble`."""
    if canary:
        as_worker(partial(run_canary, SERVICES["key"], settings(), slot or 0))
        return
    run_service("key", settings(), 1, slot, [])


@app.command(hidden=True)
def join(slot: Slot = None) -> None:
    """Assemble the interactions of `spans`: one worker of `assemble`."""
    run_service("join", settings(), 1, slot, [])


@app.command(hidden=True)
def match(slot: Slot = None) -> None:
    """Find the answers of feedback: one worker of `feedback`."""
    run_service("match", settings(), 1, slot, [])


@app.command(hidden=True)
def tally(slot: Slot = None) -> None:
    """Join and count feedback: one worker of `feedback`."""
    run_service("tally", settings(), 1, slot, [])


def run_feedback(match_workers: int, tally_workers: int) -> NoReturn:
    """Run the two services of feedback under one supervisor."""
    _run_several({"match": match_workers, "tally": tally_workers}, settings(), _RUNNERS["match"].port + OWN_PORT)


@app.command(hidden=True)
def planner(slot: Slot = None, every: Every = "1d") -> None:
    """Plan routing rows at intervals: one worker of `up`."""
    from ragweir.streams.services.planner import service as planning  # noqa: PLC0415 - not for other services

    effective, length, stopped = settings(), interval(every), stop_flag()
    as_worker(partial(planning.run, effective, length, slot or 0, stopped), Heartbeat.inherited())


def _project(name: str) -> Callable[[int | None], None]:
    """Return the command that runs a projection."""

    def command(slot: Slot = None) -> None:
        run_service(name, settings(), 1, slot, [])

    return command


for _name, _service in PROJECTIONS.items():
    app.command(_name, help=_service.help)(_project(_name))


@app.command()
def up(
    evaluate_workers: Annotated[
        int, typer.Option(min=1, max=256, help="Number of worker processes that evaluate.")
    ] = 1,
    aggregate_workers: Annotated[
        int, typer.Option(min=1, max=256, help="Number of worker processes that aggregate.")
    ] = 1,
    plan_every: Annotated[
        str, typer.Option(help="Interval of planning routing rows: 1d, or a part of a day such as 1h.")
    ] = "1d",
) -> None:
    """Run all services on this machine under one supervisor: evaluate, aggregate, export, and judge if configured.

    With `input.format = "otlp"` the two services of `assemble` run as well, with `feedback.enabled` those of
    `feedback`, and with a judge a planner, which does what `ragweir routing plan --apply` does. The telemetry ports are
    telemetry.port, + 100, + 200 and + 300, of `assemble` + 500 and + 600, of the planner + 700, of `feedback` + 900 and
    + 1000, each plus the worker's number. The supervisor lists all of them for Prometheus (http_sd) under /targets on
    telemetry.port + 400.
    """
    effective = settings()
    workers = {service.name: 1 for service in SERVICES.values() if service.enabled(effective)}
    workers |= {"evaluate": evaluate_workers, "aggregate": aggregate_workers}
    workers |= {service.name: 1 for service in (*enabled_projections(effective), CONSOLE) if service.enabled(effective)}
    _run_several(workers, effective, UP_PORT, _planner(effective, plan_every))


def _planner(effective: Settings, every: str) -> list[Command]:
    """Return the command of the planner if there is a judge and windows from which rows can be made."""
    from ragweir.streams.services.planner.control import NAME  # noqa: PLC0415 - not for other commands
    from ragweir.streams.services.planner.traffic import check_dimensions  # noqa: PLC0415

    interval(every)
    if effective.judge.base_url is None or not effective.routing.has_share:
        return []
    try:
        check_dimensions(effective)
    except ConfigurationError as error:
        log.warning("no routing rows are planned; the shipped row holds", reason=str(error))
        return []
    return [_command(NAME, 0, ["--every", every])]


@dataclass(frozen=True, slots=True)
class _ServiceRunner:
    """The functions that check a service and run one slot of it, and the offset of its ports."""

    check: Callable[[Settings], object]
    run: Callable[[Settings, int, Callable[[], bool]], None]
    port: int


_RUNNERS = {
    name: _ServiceRunner(service.check, partial(run_slot, service, canary=same_command(CANARY)), service.port)
    for name, service in SERVICES.items()
}
_RUNNERS |= {
    name: _ServiceRunner(service.projection, partial(run_projection, service), service.port)
    for name, service in PROJECTIONS.items()
}
_RUNNERS[CONSOLE.name] = _ServiceRunner(
    check_console, partial(run_console, say=out.say, is_seen_by_person=out.is_terminal), CONSOLE.port
)


def _on_faust() -> _ServiceRunner:
    try:
        from ragweir.streams.services.faust import runtime as faust  # noqa: PLC0415 (an extra that may not be installed)
    except ModuleNotFoundError as error:
        raise PermanentError(
            f"the Faust runtime needs the package {error.name}: pip install 'ragweir[faust]'"
        ) from None
    return _ServiceRunner(faust.check, faust.run_slot, SERVICES["evaluate"].port)


def _command(name: str, slot: int, flags: list[str]) -> Command:
    return Command(name, slot, own_command(*shared_flags(), name, *flags, "--slot", str(slot)))


def _run_several(workers: Mapping[str, int], effective: Settings, port: int, more: Sequence[Command] = ()) -> NoReturn:
    """Run workers of several services, and further commands, under one supervisor."""
    for name in workers:
        _RUNNERS[name].check(effective)
    commands = [_command(name, slot, []) for name, number in workers.items() for slot in range(number)]
    _supervise([*commands, *more], effective, port, stop_flag())


def run_service(
    name: str,
    effective: Settings,
    workers: int,
    slot: int | None,
    flags: list[str],
    other: _ServiceRunner | None = None,
) -> None:
    """Run one slot of a service, or workers under a supervisor if there is no slot.

    Args:
        name: name of the service.
        effective: all settings.
        workers: number of workers.
        slot: number of the slot.
        flags: further options of the workers' commands.
        other: what runs in place of the service of the table.
    """
    runner = other or _RUNNERS[name]
    stopped = stop_flag()
    if slot is None:
        # Faults that concern every worker are reported once, before any starts.
        runner.check(effective)
        _supervise((_command(name, each, flags) for each in range(workers)), effective, runner.port + OWN_PORT, stopped)
    if name == "evaluate" and effective.uses_default_routing_key:
        log.warning(DEFAULT_ROUTING_KEY_WARNING)
    as_worker(partial(runner.run, effective, slot, stopped), Heartbeat.inherited())


def _supervise(commands: Iterable[Command], effective: Settings, port: int, stopped: Callable[[], bool]) -> NoReturn:
    telemetry = effective.telemetry
    bound, prefix = telemetry.port and telemetry.port + port, effective.topics.prefix
    try:
        listen, metrics = (telemetry.host, bound), catalogue(effective).version
        sys.exit(Supervisor(commands, listen=listen, catalogue_version=metrics, prefix=prefix).run(stopped))
    except OSError as error:
        raise PermanentError(cannot_open("the supervisor's port", telemetry.host, bound, prefix, error)) from None
