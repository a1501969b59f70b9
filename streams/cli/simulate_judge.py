"""`ragweir simulate-judge`: an endpoint to try judging on, without a key, a bill or a model."""

from __future__ import annotations

import shlex
import time
from errno import EADDRINUSE
from typing import Annotated

import orjson
import typer

from ragweir.errors import PermanentError
from ragweir.streams.cli.app import app, out
from ragweir.streams.judge.probe import SIMULATED
from ragweir.streams.playground.simulated.faults import FAULTS, Faults, WrongFaults
from ragweir.streams.playground.simulated.server import LOOPBACK, simulated_judge
from ragweir.streams.supervisor import stop_flag

_LOOK_S = 0.1
_PRICE = {SIMULATED: {"input_usd": 0.15, "output_usd": 0.6}}
"""Made up, of the size of a small model's, so that there is a bill to look at."""
_FAULTS = "  \n".join(f"`{name}`: {meaning}" for name, meaning in FAULTS.items())


@app.command(
    name="simulate-judge",
    help="Simulate a judge: an OpenAI-compatible endpoint for demos and tests, no model behind it.\n\n"
    "Its scores are word overlap, and every answer says that it is simulated. It serves chat completions (JSON"
    " schema, JSON mode or neither), embeddings and models under /v1. GET /admin/calls tells what was called;"
    ' POST /admin/faults sets faults while it runs, such as {"shares": {"503": "all"}, "seconds": 10}. It stops on'
    " SIGTERM or Ctrl-C.\n\n"
    f"Faults, for `--fault`:\n\n{_FAULTS}",
)
def simulate_judge(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="The port; 0 lets the system choose.")] = 8089,
    latency_ms: Annotated[float, typer.Option(help="How long each answer takes; errors come at once.")] = 200,
    latency_sigma: Annotated[
        float, typer.Option(help="Makes the latency lognormal around that median: 0.5 is lively, 1 wild.")
    ] = 0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SIMULATED=SHARE", help="What share of requests meets a fault: 429=0.1, hang=all. Repeatable."
        ),
    ] = None,
    fault_requests: Annotated[int | None, typer.Option(help="Faults only in so many requests; then none.")] = None,
    fault_seconds: Annotated[float | None, typer.Option(help="Faults only for so many seconds; then none.")] = None,
    retry_after_s: Annotated[int, typer.Option(help="The Retry-After that the fault 429 tells.")] = 1,
    seed: Annotated[int, typer.Option(help="Of latencies and faults: the same seed, the same ones.")] = 0,
    requests_per_minute: Annotated[
        int | None, typer.Option(min=1, help="Refuse what is beyond this in any 60 s, with Retry-After.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="The API key that requests must bear; others get a 401.")] = None,
    models: Annotated[
        list[str] | None, typer.Option(help="A model that may be asked for; others get a 404. Repeatable.")
    ] = None,
    structured_outputs: Annotated[
        bool, typer.Option("--structured-outputs/--no-structured-outputs", help="Whether JSON schemas are taken.")
    ] = True,
    json_mode: Annotated[bool, typer.Option("--json-mode/--no-json-mode", help="Whether JSON mode is taken.")] = True,
) -> None:
    """Serve until told to stop."""
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
    told_to_stop = stop_flag()
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
            out.print(_told(judge.base_url, key, models), soft_wrap=True)
            while not told_to_stop():
                time.sleep(_LOOK_S)
    except OSError as error:
        if error.errno == EADDRINUSE:
            raise PermanentError(
                f"port {port} of {host} is taken; --port chooses another, and 0 any that is free"
            ) from None
        raise PermanentError(f"the simulated judge cannot listen on {host}: {error.strerror}") from None


def _share(given: str) -> tuple[str, str]:
    name, equals, share = given.partition("=")
    if not equals:
        raise typer.BadParameter(f"--fault {given}: it is SIMULATED=SHARE, such as 429=0.1 or hang=all")
    return name, share


def _told(base_url: str, key: str | None, models: list[str] | None) -> str:
    """One line: where it is, how to use it, and that it is simulated."""
    model = models[0] if models else SIMULATED
    settings = {
        "BASE_URL": base_url,
        "API_KEY": key or "any",
        "MODEL": model,
        "EMBEDDING_MODEL": model,
        "PRICES": orjson.dumps({model: _PRICE[SIMULATED]}).decode(),
    }
    words = " ".join(f"RAGWEIR_JUDGE__{name}={shlex.quote(value)}" for name, value in settings.items())
    return f"Simulated judge at {base_url}: its scores are word overlap, no model is asked. Use it with {words}"
