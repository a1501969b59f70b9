"""Pictures of the console's pages, over the demo's samples; `tools.screenshot` takes them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from playwright.sync_api import sync_playwright

from ragweir.streams.runtime.processes.child_python import python_command
from tools.chromium import find

_RAGWEIR = tuple(python_command("-u", "-m", "ragweir.streams.commands"))
_SECONDS = 90
_SETTINGS = """
[[slo]]
name = "grounded"
metric = "unsupported_risk"
at_most = 0.5
objective = 0.95
"""


class ConsoleView(NamedTuple):
    """What a picture shows."""

    path: str
    scheme: Literal["light", "dark"]
    width: int
    height: int


VIEWS: Mapping[str, ConsoleView] = {
    "console-answer.png": ConsoleView("/answers/returns-window-v2-1?slo=grounded", "light", 1_200, 720),
    "console-answers.png": ConsoleView("/answers?application=support-bot&sort=unsupported_risk", "dark", 1_200, 560),
    "console-applications.png": ConsoleView("/", "light", 1_200, 520),
}


def photograph_console(view: ConsoleView, picture: Path) -> None:
    """Score the demo's samples, open the console on them, and take a picture of a page."""
    with tempfile.TemporaryDirectory() as folder, _console(Path(folder)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            size = {"width": view.width, "height": view.height}
            page = browser.new_page(viewport=size, color_scheme=view.scheme)  # type: ignore[arg-type]
            page.goto(address)
            page.fill("#name", "Ada")
            page.click("main button")
            page.wait_for_url("**/")
            page.goto(address.partition("/login")[0] + view.path)
            page.screenshot(path=picture)
        finally:
            browser.close()


@contextmanager
def _console(home: Path) -> Iterator[str]:
    """Run a console for the length of a `with` block; its address has the token."""
    (home / "ragweir.toml").write_text(_SETTINGS)
    run = partial(subprocess.run, cwd=home, env=_environment(), check=True, timeout=_SECONDS, capture_output=True)
    run([*_RAGWEIR, "demo", "--write-samples", "events.jsonl", "--events", "400"])
    run([*_RAGWEIR, "score", "events.jsonl", "--out", "evaluations.jsonl"])
    line = [*_RAGWEIR, "console", "evaluations.jsonl", "--port", "0"]
    with subprocess.Popen(line, cwd=home, env=_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            found = re.search(r"http://\S+", process.stdout.readline() if process.stdout else "")
            if found is None:
                raise SystemExit("The console printed no address.")
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_SECONDS)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


TAKES = {name: partial(photograph_console, view) for name, view in VIEWS.items()}
