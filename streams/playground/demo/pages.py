"""The console of the demo: its settings, with a token in a file of the demo, and its address."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from ragweir.errors import PermanentError
from ragweir.streams.console.service import check_packages
from ragweir.streams.playground.local.node import LOOPBACK, free_port
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import ConsoleSettings
from ragweir.streams.settings.permissions import create

_TOKEN_BYTES = 24


def console_of(folder: Path) -> Mapping[str, object]:
    """Return the settings of a console whose files are in a folder; none without the packages that it needs.

    Raises:
        OSError: if the file of the token cannot be written.
    """
    with suppress(PermanentError):
        check_packages()
        file, port = folder / "console-token", free_port()
        with create(file) as sink:
            sink.write(machine.token_hex(_TOKEN_BYTES).encode())
        return {
            "enabled": True,
            "port": port,
            "folder": str(folder / "console"),
            "token_file": str(file),
            "public_url": f"http://{LOOPBACK}:{port}",
        }
    return {}


def login_address(settings: ConsoleSettings) -> str | None:
    """Return the address at which a person logs in, with the token; None without a console."""
    if settings.token_file is None:
        return None
    return f"{settings.public_url}/login#{settings.token_file.read_text(encoding='utf-8')}"
