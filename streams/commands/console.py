"""`ragweir console`: pages on which people look at answers."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from ragweir.errors import PermanentError
from ragweir.streams.analysis.labels.evaluated import EvaluationLine, read_evaluations
from ragweir.streams.commands.app import app, out, settings
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.stopping import interrupt_on_signals
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

_PACKAGES = ("jinja2", "starlette", "uvicorn")
_CHECK_SECONDS = 1.0


@app.command()
def console(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            exists=True,
            dir_okay=False,
            help="Files of evaluations, as `ragweir score --out` writes them.",
        ),
    ],
    events: Annotated[
        Path | None,
        typer.Option(
            exists=True, help="File or folder of the interactions that were scored. Default: pages without texts."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port of the pages, in place of console.port; 0 chooses one.")
    ] = None,
) -> None:
    """Show pages on which people look at answers, until Ctrl-C.

    Prints an address with a token; who opens it logs in with a name. The pages are served on loopback, unless
    `console.host` or `console.socket` says otherwise. `pip install 'ragweir[console]'` installs the packages that they
    need.
    """
    effective = settings(console={"port": port})
    check_installed()
    with Bars() as bars:
        answers = sum(_count(file, bars) for file in files)
    serve(effective, answers, events)


def check_installed() -> None:
    """Check that the packages of the extra are installed.

    Raises:
        PermanentError: if one is missing.
    """
    if missing := next((name for name in _PACKAGES if find_spec(name) is None), None):
        raise PermanentError(f"the console needs the package {missing}: pip install 'ragweir[console]'")


def serve(effective: Settings, answers: int, events: Path | None) -> None:
    """Serve the pages until a signal comes."""
    from ragweir.streams.console.application import application  # noqa: PLC0415 - of an extra
    from ragweir.streams.console.pages.overview import overview_routes  # noqa: PLC0415
    from ragweir.streams.console.safety.authentication import read_token  # noqa: PLC0415
    from ragweir.streams.console.web_server import listen, served  # noqa: PLC0415

    own = effective.console
    token = read_token(own)
    interrupt_on_signals()
    with listen(own) as (listening, address):
        try:
            with served(application(overview_routes(answers, events), own, token), listening):
                # A token of a file is known to those who may read it, and this may be a log.
                path = "/login" if own.token_file or own.socket else f"/login#{token}"
                out.say(f"{answers:,} answers are shown at {address}{path} until Ctrl-C.")
                while True:
                    machine.sleep(_CHECK_SECONDS)
        except KeyboardInterrupt:
            out.say("The console is stopped.")


def _count(file: Path, bars: Bars) -> int:
    found: set[str] = set()
    decode = msgspec.json.Decoder(EvaluationLine, strict=False).decode
    with bars.shown(f"Reading {file.name}", file.stat().st_size) as moved:
        read_evaluations(file, lambda value: found.add(str(decode(value).event_id)), moved)
    return len(found)
