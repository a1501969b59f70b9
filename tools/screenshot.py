"""Make the pictures in docs/: screenshots with a headless Chromium, and the drawing of a report.

    .venv/bin/python -m tools.screenshot prometheus    # Prometheus' own page on the demo's drop in quality
    .venv/bin/python -m tools.screenshot compare       # the report of the demo's samples with fewer contexts
    .venv/bin/python -m tools.screenshot rehearse      # the timeline of a rehearsal; it needs no browser
    .venv/bin/python -m tools.screenshot incident      # the picture that the demo leaves; likewise
    .venv/bin/python -m tools.screenshot console-answer    # a page of the console; so are the others of its names

Chromium is no part of the project (Debian: apt-get install chromium).
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson

from ragweir.streams.playground.demo.samples import drill
from ragweir.streams.runtime.processes.child_python import python_command
from tools.console_pictures import TAKES

DOCS = Path(__file__).parents[1] / "docs"
RAGWEIR = tuple(python_command("-u", "-m", "ragweir.streams.commands"))
GRAPH = {
    "g0.expr": 'ragweir_window_mean{metric="unsupported_risk", window="3s"}',
    "g0.tab": "0",
    "g0.range_input": "28s",
    "g0.step_input": "1",
}
QUIET = (
    "--headless=new --no-sandbox --disable-gpu --hide-scrollbars --no-first-run --disable-background-networking "
    "--disable-component-update --disable-default-apps --disable-sync --disable-extensions --metrics-recording-only "
    "--disable-features=OptimizationHints,MediaRouter,Translate"
).split()
_SECONDS = 90
_SLO = "grounded: unsupported_risk <= 0.5 for 95%"
_FIRST = datetime(2026, 11, 21, tzinfo=UTC)
_ANSWERS_PER_HOUR = 360
_AFTER_S = 14
"""Time of good answers before the picture is taken, so that it shows the recovery as well."""


def photograph(url: str, picture: Path, size: str) -> None:
    """Save a picture of a page, ten seconds after it was opened."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("There is no chromium (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as profile:
        page = [f"--screenshot={picture}", f"--window-size={size}", "--virtual-time-budget=10000", url]
        subprocess.run(
            [browser, *QUIET, f"--user-data-dir={profile}", *page],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
        )


def _run(folder: Path, *words: str) -> None:
    """Run a command of ragweir in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
    subprocess.run([*RAGWEIR, *words], cwd=folder, env=environment, check=True, timeout=4 * _SECONDS)


def prometheus(picture: Path) -> None:
    """Run the demo to its end, and take the picture while its servers still run."""
    command = [*RAGWEIR, "demo", "--keep"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TERM": "dumb"})
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            sys.stdout.write(line)
            if found := re.search(r"Prometheus +(http://\S+)", line):
                time.sleep(_AFTER_S)
                photograph(f"{found[1]}?{urllib.parse.urlencode(GRAPH)}", picture, "1200,860")
                break
        else:
            sys.exit("The demo ended without a Prometheus.")
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate()


def compare(picture: Path) -> None:
    """Score the demo's samples with two settings, and take a picture of the report that compares them."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "fewer.toml").write_text("[limits]\nmax_contexts = 1\n")
        _run(home, "demo", "--write-samples", "samples.jsonl", "--events", "2000")
        _run(home, "score", "samples.jsonl", "--out", "today")
        _run(home, "--config", "fewer.toml", "score", "samples.jsonl", "--out", "fewer")
        _run(home, "compare", "today", "fewer", "--html", "report.html")
        photograph((home / "report.html").as_uri(), picture, "1060,1000")


def rehearse(picture: Path) -> None:
    """Rehearse an SLO on eight hours of the drill's answers, bad ones in the third, and keep the timeline."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        events = (_drilled(number) for number in range(8 * _ANSWERS_PER_HOUR))
        (home / "events.jsonl").write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in events))
        _run(home, "score", "events.jsonl", "--out", "evaluations")
        _run(home, "slo", "rehearse", "evaluations", "--slo", _SLO, "--picture", "timeline.html")
        report = (home / "timeline.html").read_text(encoding="utf-8")
    style = re.search(r"<style>(.*?)</style>", report, re.DOTALL)
    drawing = re.search(r"<svg (.*?</svg>)", report, re.DOTALL)
    assert style
    assert drawing
    rules = [line for line in style[1].splitlines() if line.startswith(("svg", ".", "path"))]
    # On a page the drawing is as wide as the page; a picture needs a size of its own.
    own = "\n".join((*rules, "svg { font-family: sans-serif; background: #fff }")).replace(
        "width: 100%; height: auto", ""
    )
    head, _, marks = drawing[1].partition(">")
    head = re.sub(r'viewBox="0 0 (\S+) (\S+)"', r'width="\1" height="\2" \g<0>', head)
    picture.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" {head}><style>{own}</style>{marks}\n', encoding="utf-8"
    )


def incident(picture: Path) -> None:
    """Run the demo, and keep its picture."""
    with tempfile.TemporaryDirectory() as folder:
        _run(Path(folder), "demo")
        shutil.copyfile(Path(folder) / "ragweir-demo" / picture.name, picture)


def _drilled(number: int) -> dict[str, Any]:
    """Return an answer of the drill, which drops in the third hour."""
    dropped = number // _ANSWERS_PER_HOUR == 2
    return drill(number, _FIRST + timedelta(hours=number / _ANSWERS_PER_HOUR), dropped=dropped)


PICTURES: Mapping[str, Callable[[Path], None]] = {
    "prometheus.png": prometheus,
    "compare.png": compare,
    "rehearse.svg": rehearse,
    "incident.svg": incident,
    **TAKES,
}


def main() -> None:
    """Make the named pictures, or all."""
    DOCS.mkdir(exist_ok=True)
    for name, make in PICTURES.items():
        if sys.argv[1:] and name.partition(".")[0] not in sys.argv[1:]:
            continue
        picture = DOCS / name
        make(picture)
        print(f"{picture}: {picture.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
