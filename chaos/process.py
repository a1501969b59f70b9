"""A process of ragweir, with its log and its telemetry, as the fleet and the tests run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
_JSON = re.compile(r"(\x1b\[[0-9;?]*[a-z])*\{")


class Process:
    """One process after the other with the same environment, all of which append to one log."""

    def __init__(self, log: Path, environment: Mapping[str, str]) -> None:
        self.log, self._environment = log, environment
        self.process: subprocess.Popen[bytes] | None = None

    def run(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start the next process."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**clean_environment(), **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self.process

    def send(self, what: signal.Signals) -> bool:
        """Send a signal to the running process; return False if there is none."""
        process = self.process
        if process is None or process.poll() is not None:
            return False
        process.send_signal(what)
        return True

    def logged(self, event: str = "", **having: Any) -> list[dict[str, Any]]:
        """Return the log lines that have this text in their event, and these fields."""
        try:
            whole, _, _ = self.log.read_text().rpartition("\n")  # The last line may be half written.
        except FileNotFoundError:
            return []
        # Faust writes codes that control the cursor before them.
        lines = [json.loads(line[found.end() - 1 :]) for line in whole.splitlines() if (found := _JSON.match(line))]
        return [line for line in lines if event in line["event"] and having.items() <= line.items()]

    def address(self, **having: Any) -> str:
        """Return the address of the telemetry of the newest process that logged these fields at its start, or ""."""
        started = self.logged("started", **having)
        return str(started[-1]["telemetry"]) if started else ""


def ask(address: str, path: str, within_s: float = 10.0) -> tuple[int, str]:
    """Return the status and text of a path of telemetry; (0, "") if nothing answers."""
    try:
        with urllib.request.urlopen(f"{address}{path}", timeout=within_s) as response:  # noqa: S310 (our own service)
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except (OSError, HTTPException, ValueError):
        return 0, ""


def samples(text: str) -> dict[str, float]:
    r"""Return the samples of a page of metrics by series.

    >>> samples("# HELP a Something.\na 1\nb{c='d'} 2.5\n")
    {'a': 1.0, "b{c='d'}": 2.5}
    """
    lines = (line.rpartition(" ") for line in text.splitlines() if line and line[0] != "#")
    return {series: float(value) for series, _, value in lines}


def clean_environment() -> dict[str, str]:
    """Return this process's environment without ragweir's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAGWEIR_")}


def variables(**settings: Any) -> dict[str, str]:
    """Return settings as environment variables.

    >>> variables(topics__prefix="rag.", judge__prices={"m": 1})
    {'RAGWEIR_TOPICS__PREFIX': 'rag.', 'RAGWEIR_JUDGE__PRICES': '{"m": 1}'}
    """
    return {
        f"RAGWEIR_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }
