"""Make the screenshots in docs/ with a headless Chromium.

    .venv/bin/python -m tools.screenshot prometheus    # Prometheus' own page on the demo's drop in quality
    .venv/bin/python -m tools.screenshot compare       # the report of the demo's samples with fewer contexts

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
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
RAGWEIR = (sys.executable, "-u", "-m", "ragweir.streams.cli")
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
        for words in (
            ("demo", "--write-samples", "samples.jsonl", "--events", "2000"),
            ("score", "samples.jsonl", "--out", "today"),
            ("--config", "fewer.toml", "score", "samples.jsonl", "--out", "fewer"),
            ("compare", "today", "fewer", "--html", "report.html"),
        ):
            environment = {**os.environ, "PYTHONPATH": str(DOCS.parent)}
            subprocess.run([*RAGWEIR, *words], cwd=home, env=environment, check=True, timeout=_SECONDS)
        photograph((home / "report.html").as_uri(), picture, "1060,1000")


PAGES = {"prometheus": prometheus, "compare": compare}


def main() -> None:
    """Make the named pictures, or all."""
    DOCS.mkdir(exist_ok=True)
    for name in sys.argv[1:] or PAGES:
        picture = DOCS / f"{name}.png"
        PAGES[name](picture)
        print(f"{picture}: {picture.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
