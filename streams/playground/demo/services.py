"""The demo's services: `ragweir up` with settings that neither a file nor the environment changes, and its traces."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from ragweir.errors import DemoError, LocalServerError
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.topics import Topic
from ragweir.streams.playground.demo.samples import PRODUCTION
from ragweir.streams.playground.demo.scrape import ready, total
from ragweir.streams.playground.local.node import LOOPBACK, free_port, require_free
from ragweir.streams.playground.process import LocalProcess, last_lines, running, wait_until
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.supervisor import STOP_SECONDS, UP_PORT, own_command
from ragweir.streams.runtime.text.terminal import Terminal
from ragweir.streams.services.console import PORT as CONSOLE_PORT
from ragweir.streams.services.export.service import PROJECTIONS
from ragweir.streams.services.judge.probe import SIMULATED
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import DEFAULT_TRACE_TOPIC, AssembleSettings, Settings, from_groups
from ragweir.streams.settings.events import OTLP

WORKERS = 2
JUDGE_MS = 150
"""Latency of the simulated judge, in milliseconds."""
BUDGET_USD = 0.1
"""Enough for most of the selected events, so that the rest is shown as deferred."""
DEFAULT_PREFIX = "rag."
ASSEMBLY = ("key", "join")
"""The services that run only if traces are read."""
_TRIES = 100
_START_SECONDS = 60.0


def demo_settings(
    bootstrap: str,
    judge_url: str,
    prefix: str = DEFAULT_PREFIX,
    key: str | None = None,
    *,
    traces: bool = False,
    console: Mapping[str, object] = MappingProxyType({}),
    store: Path | None = None,
) -> Settings:
    """Return the settings of the demo: few partitions, free ports, windows of seconds, one SLO, a simulated judge.

    >>> demo_settings("127.0.0.1:9999", "http://127.0.0.1:8089/v1", traces=True).trace_topics
    ('otlp_spans',)
    """
    return from_groups(
        {
            **(_assembly(prefix) if traces else {}),
            "blame": {"enabled": True},
            "console": console,
            "feedback": {"enabled": True, "folder": store},
            "kafka": {"bootstrap_servers": bootstrap},
            # Each partition has its part of the judge's budget, which has to cover the most that one event may cost.
            "topics": {"prefix": prefix, "partitions": 2},
            "telemetry": {"port": _free_base()},
            # ragas asks seven times about an event, more than this budget covers; semantic loads a local model.
            "metrics": {"off": ["ragas", "semantic"]},
            "windows": {
                "sizes": ["3s", "15s"],
                "dimensions": ["pipeline_version"],
                "grace_s": 1,
                "disorder_s": 1,
                "idle_s": 2,
                "commit_ms": 300,
            },
            "routing": {"floors": {"rubric": 0.25}, "key": key or machine.token_hex(16)},
            "judge": {
                "base_url": judge_url,
                "model": SIMULATED,
                "prices": {SIMULATED: {"input_usd": 1.0, "output_usd": 4.0}},
                "daily_budget_usd": BUDGET_USD,
                "max_output_tokens": 600,
                # The samples repeat, and answers from the cache would cost nothing.
                "cache_entries": 0,
            },
            "slo": [
                {
                    "name": "grounded",
                    "metric": "unsupported_risk",
                    "at_most": 0.5,
                    "objective": 0.95,
                    # The answers of staging are bad on purpose, before the incident begins.
                    "dimensions": {"environment": PRODUCTION},
                }
            ],
        }
    )


def _assembly(prefix: str) -> dict[str, object]:
    """Return the settings by which traces are read: times of seconds, as the simulated exporter does not wait."""
    topic = None if prefix == DEFAULT_PREFIX else f"{prefix}{DEFAULT_TRACE_TOPIC}"
    return {
        "input": {"format": OTLP, "topic": topic},
        "assemble": {"settle_s": 1, "patience_s": 4, "deadline_s": 30},
    }


def targets(settings: Settings) -> dict[str, list[str]]:
    """Return the addresses of the services' telemetry, by the job names of Prometheus.

    >>> targets(from_groups({"telemetry": {"port": 9464}}))["ragweir-evaluate"]
    ['127.0.0.1:9464', '127.0.0.1:9465']
    """
    return {
        f"ragweir-{name}": [f"{LOOPBACK}:{settings.telemetry.port + offset}" for offset in offsets]
        for name, offsets in _OFFSETS.items()
        if name not in _RUNS or _RUNS[name](settings)
    }


_OFFSETS = {
    "evaluate": [SERVICES["evaluate"].port + slot for slot in range(WORKERS)],
    "aggregate": [SERVICES["aggregate"].port],
    "export": [PROJECTIONS["export"].port],
    "judge": [SERVICES["judge"].port],
    "match": [SERVICES["match"].port],
    "tally": [SERVICES["tally"].port],
    "console": [CONSOLE_PORT],
    **{name: [SERVICES[name].port] for name in ASSEMBLY},
}
_RUNS: Mapping[str, Callable[[Settings], bool]] = {
    "console": lambda settings: settings.console.enabled,
    **dict.fromkeys(ASSEMBLY, lambda settings: settings.reads_traces),
}
"""By service, whether it runs with some settings; the others always do."""


def _free_base() -> int:
    """Return a value of telemetry.port for which the ports of all services are free."""
    for _ in range(_TRIES):
        base = free_port()
        with suppress(LocalServerError):
            for offset in {UP_PORT, *(offset for offsets in _OFFSETS.values() for offset in offsets)}:
                require_free(base + offset)
            return base
    raise DemoError("There are not enough free ports for the services.")


def environment(settings: Settings) -> dict[str, str]:
    """Return the settings that are not defaults as environment variables.

    >>> environment(demo_settings("127.0.0.1:9999", "http://127.0.0.1:8089/v1"))["RAGWEIR_ROUTING__FLOORS"]
    '{"rubric": 0.25}'
    """
    groups = settings.model_dump(mode="json", exclude_defaults=True)
    values: dict[str, object] = {}
    for group, content in groups.items():
        values |= {f"{group}__{key}": each for key, each in content.items()} if group != "slo" else {group: content}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    return {f"RAGWEIR_{name.upper()}": text for name, text in texts.items()}


@contextmanager
def services(settings: Settings, folder: Path) -> Iterator[Callable[[], None]]:
    """Run the services for the length of a `with` block, which gets a function that checks that they run.

    The check raises DemoError with the end of their log once they have ended.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.upper().startswith("RAGWEIR_")}
    command = own_command("up", "--evaluate-workers", str(WORKERS))
    # After SIGKILL to `ragweir up` its workers end by themselves.
    process = LocalProcess(
        command,
        folder / "up.log",
        folder=folder,
        environment=inherited | environment(settings),
        stop_seconds=STOP_SECONDS + 3,
    )

    def check() -> None:
        if process.status is not None:
            raise DemoError(f"`ragweir up` ended with status {process.status}. {last_lines(process.log)}")

    with running(process):
        yield check


def wait_until_ready(settings: Settings, check: Callable[[], None]) -> None:
    """Wait until every service is ready.

    Raises:
        DemoError: if they are not ready in a minute.
    """
    waiting = [address for addresses in targets(settings).values() for address in addresses]

    def all_ready() -> bool:
        waiting[:] = [address for address in waiting if not ready(address)]
        return not waiting

    late = DemoError(f"The services are not ready after {_START_SECONDS:.0f} s.")
    wait_until(all_ready, check, _START_SECONDS, late)


def create_trace_topic(settings: Settings) -> list[str]:
    """Create the topic of traces, which in life is the Collector's; return its name, or nothing without traces.

    Raises:
        RagweirError: as `ragweir.streams.runtime.kafka.topics.create_topics`.
    """
    if not settings.reads_traces:
        return []
    foreign = settings.model_copy(update={"topics": settings.topics.model_copy(update={"prefix": ""})})
    name = settings.trace_topics[0]
    return list(create_topics(foreign, [Topic(name, "none", Interaction, "delete", 24, "all content of the spans")]))


def show_assembly(terminal: Terminal, settings: Settings) -> None:
    """Print the numbers of spans and interactions, from the telemetry of key and join."""
    if not settings.reads_traces:
        return
    key, join = (targets(settings)[f"ragweir-{name}"][0] for name in ASSEMBLY)
    terminal.say(
        f"\nAssembled from traces: {total(key, 'ragweir_assemble_items_total')} spans of {settings.trace_topics[0]},"
        f" {total(join, 'ragweir_assemble_traces_total')} traces closed,"
        f" {total(join, 'ragweir_assemble_interactions_total')} interactions,"
        f" {total(join, 'ragweir_assemble_late_spans_total')} late spans. A trace is closed when it was quiet for"
        f" {settings.assemble.settle_s:g} s here, in life {AssembleSettings().settle_s:g} s: SDKs export every 5 s."
    )
