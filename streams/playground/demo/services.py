"""The demo's `ragweir up`: every service in processes of their own, whose settings nothing outside can disturb."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic_settings import BaseSettings, PydanticBaseSettingsSource
from typing_extensions import override

from ragweir.errors import DemoError, LocalServerError
from ragweir.streams.export.service import PROJECTIONS
from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.playground.demo.scrape import ready
from ragweir.streams.playground.local.node import LOOPBACK, free_port, require_free
from ragweir.streams.service import SERVICES
from ragweir.streams.settings import Settings
from ragweir.streams.supervisor import STOP_SECONDS, UP_PORT, own_command

WORKERS = 2
JUDGE_MS = 150
"""How long the simulated judge takes over an answer."""
BUDGET_USD = 0.1
"""Enough for most of what the sample traffic escalates, so that the rest is seen to wait."""
_LAST_LINES = 15
_TRIES = 100
_START_S = 60.0
_TURN_S = 0.05


class _Alone(Settings):
    """Settings that neither the environment nor a settings file has a say in."""

    @classmethod
    @override
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)


def demo_settings(bootstrap: str, judge_url: str, prefix: str = "rag.", key: str | None = None) -> Settings:
    """The settings of the demo: few partitions, free telemetry ports, windows of seconds, one SLO, a simulated judge.

    Args:
        bootstrap: address of its Kafka.
        judge_url: base URL of its simulated judge.
        prefix: of its topics.
        key: of the routing; a new secret by default.
    """
    return _Alone.model_validate(
        {
            "kafka": {"bootstrap_servers": bootstrap},
            # Each has its part of the judge's budget, which has to cover the most that one event may cost.
            "topics": {"prefix": prefix, "partitions": 2},
            "telemetry": {"port": _free_base()},
            # One asks seven times about an event: more than this budget has room for.
            # The other loads a model of its own, which is nothing to simulate.
            "metrics": {"off": ["ragas", "semantic"]},
            "windows": {
                "sizes": ["3s", "15s"],
                "dimensions": ["pipeline_version"],
                "grace_s": 1,
                "disorder_s": 1,
                "idle_s": 2,
                "commit_ms": 300,
            },
            "routing": {"floors": {"rubric": 0.25}, "key": key or secrets.token_hex(16)},
            "judge": {
                "base_url": judge_url,
                "model": SIMULATED,
                # Made up.
                "prices": {SIMULATED: {"input_usd": 1.0, "output_usd": 4.0}},
                "daily_budget_usd": BUDGET_USD,
                "max_output_tokens": 600,
                # The samples come round again and again: answers that are remembered would cost nothing.
                "cache_entries": 0,
            },
            "slo": [{"name": "grounded", "metric": "unsupported_risk", "at_most": 0.5, "objective": 0.95}],
        }
    )


def targets(settings: Settings) -> dict[str, list[str]]:
    """Per service, what Prometheus calls a job, the addresses of its telemetry.

    >>> targets(_Alone.model_validate({"telemetry": {"port": 9464}}))["ragweir-evaluate"]
    ['127.0.0.1:9464', '127.0.0.1:9465']
    """
    return {
        f"ragweir-{name}": [f"{LOOPBACK}:{settings.telemetry.port + offset}" for offset in offsets]
        for name, offsets in _OFFSETS.items()
    }


_OFFSETS = {
    "evaluate": [SERVICES["evaluate"].port + slot for slot in range(WORKERS)],
    "aggregate": [SERVICES["aggregate"].port],
    "export": [PROJECTIONS["export"].port],
    "judge": [SERVICES["judge"].port],
}


def _free_base() -> int:
    """A base for telemetry ports of which every one that a service adds up to is free."""
    for _ in range(_TRIES):
        base = free_port()
        with suppress(LocalServerError):
            for offset in {UP_PORT, *(offset for offsets in _OFFSETS.values() for offset in offsets)}:
                require_free(base + offset)
            return base
    raise DemoError("There are not enough free ports for the services.")


def settings_file(settings: Settings) -> str:
    """Write the settings that are not defaults as TOML; without `routing.key`, a secret, which the environment gives.

    >>> print(settings_file(demo_settings("127.0.0.1:9999", "http://127.0.0.1:8089/v1")))  # doctest: +ELLIPSIS
    [kafka]
    bootstrap_servers = "127.0.0.1:9999"
    ...
    [routing]
    floors = { "rubric" = 0.25 }
    ...
    [[slo]]
    name = "grounded"
    metric = "unsupported_risk"
    at_most = 0.5
    objective = 0.95
    """
    lines: list[str] = []
    told = settings.model_dump(mode="json", exclude_defaults=True, exclude={"routing": {"key"}})
    for group, content in told.items():
        heading, tables = (f"[[{group}]]", content) if isinstance(content, list) else (f"[{group}]", [content])
        for values in tables:
            lines += [heading, *(f"{name} = {_toml(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """A value in TOML: a string, a number or a list of them is the same in JSON."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(name)} = {_toml(inner)}' for name, inner in value.items())} }}"
    return json.dumps(value)


@contextmanager
def services(settings: Settings, folder: Path) -> Iterator[Callable[[], None]]:
    """Run the services for the length of a `with` block; gives a check that they still run.

    The check raises DemoError with the end of their log once they do not.

    Args:
        settings: what they run with.
        folder: where their settings file and log go, and where they run.
    """
    file, log = folder / "ragweir.toml", folder / "up.log"
    file.write_text(settings_file(settings), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("RAGWEIR_")}
    environment["RAGWEIR_ROUTING__KEY"] = settings.routing.key
    with log.open("wb") as sink:
        process = subprocess.Popen(
            own_command("--config", str(file), "up", "--evaluate-workers", str(WORKERS)),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            # Ctrl-C is for us alone: the services are stopped in their turn, before their Kafka.
            start_new_session=True,
        )

    def check() -> None:
        if (status := process.poll()) is not None:
            raise DemoError(f"`ragweir up` ended with status {status}. {last_words(log)}")

    try:
        yield check
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS + 3)
        except subprocess.TimeoutExpired:
            # Its workers end by themselves when their supervisor is gone.
            process.kill()
            process.wait()


def wait_until_ready(settings: Settings, check: Callable[[], None]) -> None:
    """Wait until every service can do its work, so that traffic is seen to be worked on as it comes.

    Args:
        settings: of the services.
        check: raises when they have ended.

    Raises:
        DemoError: if they do not come up.
    """
    deadline = time.monotonic() + _START_S
    waiting = [address for addresses in targets(settings).values() for address in addresses]
    while waiting := [address for address in waiting if not ready(address)]:
        check()
        if time.monotonic() > deadline:
            raise DemoError(f"Services are not ready after {_START_S:.0f} s: {', '.join(waiting)}.")
        time.sleep(_TURN_S)


def last_words(log: Path) -> str:
    """The end of a log, introduced."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "It logged last:\n" + "\n".join(lines) if lines else "It logged nothing."
