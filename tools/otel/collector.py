"""The OpenTelemetry Collector: built once with its own builder, in the versions of builder.yaml, and run here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from ragweir.errors import LocalServerError
from ragweir.streams.playground.local.cache_folder import cached
from ragweir.streams.playground.process import LocalProcess, running

VERSION = "0.155.0"
_BUILDER = Path(__file__).with_name("builder.yaml")
_BUILD_SECONDS = 1_800
_START_SECONDS = 60
_READY = "Everything is ready"


def binary() -> Path:
    """Return the Collector's program; the first call on a machine builds it, in some minutes.

    Raises:
        LocalServerError: if Go is missing or the build fails; the message has its last lines.
    """
    digest = sha256(_BUILDER.read_bytes()).hexdigest()[:8]
    return cached(f"otelcol-{VERSION}-{digest}", _build) / "ragweir-otelcol"


def _build(scratch: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        raise LocalServerError(
            f"the Collector {VERSION} is built with Go 1.25 or later, and none is installed: see https://go.dev/dl/"
        )
    print(f"Building the Collector {VERSION} (once; some minutes)", flush=True)
    command = [go, "run", f"go.opentelemetry.io/collector/cmd/builder@v{VERSION}", "--config", str(_BUILDER)]
    # Without C the program runs on any Linux; without the version of a repository it builds outside of one.
    own = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false -trimpath"}
    try:
        done = subprocess.run(
            command,
            cwd=scratch,
            env={**os.environ, **own},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise LocalServerError(f"the Collector was not built in {_BUILD_SECONDS} s") from None
    if done.returncode != 0:
        raise LocalServerError("the Collector cannot be built:\n" + "\n".join(done.stderr.splitlines()[-15:]))
    return scratch / "collector"


@contextmanager
def collector(config: Path, folder: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """Run a Collector for the length of a block, and yield the file of its output, which the debug exporter writes to.

    Args:
        config: its configuration.
        folder: the folder of the file.
        variables: the environment variables that the configuration names.

    Raises:
        LocalServerError: if it does not start; the message has its last lines.
    """
    log = folder / f"{config.stem}.log"
    # Two Collectors on one machine would both serve their own metrics on port 8888.
    quiet = "yaml:service::telemetry::metrics::level: none"
    command = [str(binary()), f"--config={config.resolve()}", f"--config={quiet}"]
    process = LocalProcess(command, log, folder=folder, environment={**os.environ, **variables})

    with running(process):
        process.wait_until_ready("the Collector", lambda: _READY in log.read_text(encoding="utf-8"), _START_SECONDS)
        yield log
