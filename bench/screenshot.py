"""Make docs/prometheus.png again: Prometheus' own page on the demo's drop in quality, by a headless Chromium.

    .venv/bin/python bench/screenshot.py

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

PICTURE = Path(__file__).parents[1] / "docs" / "prometheus.png"
SIZE = "1200,860"
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
"""How long good answers go on before the picture, so that it shows recovery too."""


def photograph(url: str) -> None:
    """Save a picture of the page as it is ten seconds after it was opened."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("There is no chromium (Debian: apt-get install chromium).")
    with tempfile.TemporaryDirectory() as profile:
        page = [f"--screenshot={PICTURE}", f"--window-size={SIZE}", "--virtual-time-budget=10000", url]
        subprocess.run(
            [browser, *QUIET, f"--user-data-dir={profile}", *page],
            check=True,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
        )


def main() -> None:
    """Run the demo to its end, and take the picture while it is kept."""
    PICTURE.parent.mkdir(exist_ok=True)
    command = [sys.executable, "-u", "-m", "streams.cli", "demo", "--keep"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "TERM": "dumb"})
    assert demo.stdout is not None
    try:
        for line in demo.stdout:
            sys.stdout.write(line)
            if found := re.search(r"Prometheus +(http://\S+)", line):
                time.sleep(_AFTER_S)
                photograph(f"{found[1]}?{urllib.parse.urlencode(GRAPH)}")
                break
        else:
            sys.exit("The demo ended without a Prometheus.")
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate()
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
