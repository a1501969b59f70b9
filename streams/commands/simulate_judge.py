"""`ragweir simulate-judge`: an endpoint for trying out judging, without a key, costs or a model."""

from __future__ import annotations

import shlex
from errno import EADDRINUSE
from typing import Annotated

import orjson
import typer

from ragweir.errors import PermanentError
from ragweir.streams.commands.app import app, out
from ragweir.streams.playground.local.node import LOOPBACK
from ragweir.streams.playground.simulated.faults import FAULTS, Faults, WrongFaults
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.processes.supervisor import stop_flag
from ragweir.streams.services.judge.probe import SIMULATED

_POLL_SECONDS = 0.1
_PRICE = {SIMULATED: {"input_usd": 0.15, "output_usd": 0.6}}
"""Prices like those of a small model, so that costs are shown."""
_FAULTS = "  \n".join(f"`{name}`: {meaning}" for name, meaning in FAULTS.items())


@app.command(
    name="simulate-judge",
    help="Simulate a judge: an OpenAI-compatible endpoint for demos and tests, without a model.\n\n"
    "Its scores are word overlap, and every answer is marked as simulated. It serves chat completions (JSON schema,"
    " JSON mode or neither), embeddings and models under /v1. GET /admin/calls returns the calls so far; POST"
    ' /admin/faults sets faults while it runs, such as {"shares": {"503": "all"}, "seconds": 10}. It stops on SIGTERM'
    " or Ctrl-C.\n\n"
    f"Faults, for `--fault`:\n\n{_FAULTS}",
)
def simulate_judge(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 lets the system choose.")] = 8089,
    latency_ms: Annotated[float, typer.Option(help="Latency of each answer, in milliseconds; errors have none.")] = 200,
    latency_sigma: Annotated[
        float, typer.Option(help="Sigma of a lognormal latency around that median: 0 fixed, 0.5 varied, 1 wild.")
    ] = 0,
    fault: Annotated[
        list[str] | None,
        typer.Option(metavar="FAULT=SHARE", help="Share of requests that get a fault: 429=0.1, hang=all. Repeatable."),
    ] = None,
    fault_requests: Annotated[
        int | None, typer.Option(help="Number of requests after which faults end. Default: never.")
    ] = None,
    fault_seconds: Annotated[
        float | None, typer.Option(help="Time after which faults end, in seconds. Default: never.")
    ] = None,
    retry_after_s: Annotated[int, typer.Option(help="Retry-After of the fault 429, in seconds.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of latencies and faults: the same seed gives the same ones.")] = 0,
    requests_per_minute: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rate limit: requests above it in any 60 s get a 429 with Retry-After. Default: none."
        ),
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="API key that requests must have, or get a 401. Default: none is required.")
    ] = None,
    models: Annotated[
        list[str] | None, typer.Option(help="Model that may be requested; others get a 404. Repeatable. Default: any.")
    ] = None,
    structured_outputs: Annotated[
        bool,
        typer.Option(
            "--structured-outputs/--no-structured-outputs", help="Support of JSON schemas (structured outputs)."
        ),
    ] = True,
    json_mode: Annotated[bool, typer.Option("--json-mode/--no-json-mode", help="Support of JSON mode.")] = True,
) -> None:
    """Serve until a signal comes."""
    faults = {
        "latency_ms": latency_ms,
        "latency_sigma": latency_sigma,
        "shares": dict(map(_share, fault or ())),
        "retry_after_s": retry_after_s,
        "requests": fault_requests,
        "seconds": fault_seconds,
        "seed": seed,
    }
    try:
        chosen = Faults.read(faults)
    except WrongFaults as wrong:
        raise typer.BadParameter(str(wrong)) from None
    stopped = stop_flag()
    try:
        with simulated_judge(
            host,
            port,
            faults=chosen,
            key=key,
            models=tuple(models or ()),
            structured_outputs=structured_outputs,
            json_mode=json_mode,
            requests_per_minute=requests_per_minute,
        ) as judge:
            out.say(_usage(judge.base_url, key, models))
            while not stopped():
                machine.sleep(_POLL_SECONDS)
    except OSError as error:
        if error.errno == EADDRINUSE:
            raise PermanentError(
                f"port {port} of {host} is taken; --port chooses another, and 0 any that is free"
            ) from None
        raise PermanentError(f"the simulated judge cannot listen on {host}: {error.strerror}") from None


def _share(given: str) -> tuple[str, str]:
    name, equals, share = given.partition("=")
    if not equals:
        raise typer.BadParameter(f"--fault {given}: it is FAULT=SHARE, such as 429=0.1 or hang=all")
    return name, share


def _usage(base_url: str, key: str | None, models: list[str] | None) -> str:
    """Return one line: the address, the settings that use it, and that it is simulated."""
    model = models[0] if models else SIMULATED
    settings = {
        "BASE_URL": base_url,
        "API_KEY": key or "any",
        "MODEL": model,
        "EMBEDDING_MODEL": model,
        "PRICES": orjson.dumps({model: _PRICE[SIMULATED]}).decode(),
    }
    variables = " ".join(f"RAGWEIR_JUDGE__{name}={shlex.quote(value)}" for name, value in settings.items())
    return f"Simulated judge at {base_url}: its scores are word overlap, no model is asked. Use it with {variables}"
