"""Runs ragweir's commands as a user does: another process, whose output and exit status are all that counts."""

import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka.admin import AdminClient
from conftest import committed
from services import Service, eventually

ROOT = Path(__file__).parent.parent
COMMAND = (sys.executable, "-m", "ragweir.streams.commands")
_PATIENCE_S = 240


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with a terminal's width of nobody, and what the test adds."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGWEIR_")}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "200", "NO_COLOR": "1", "RAGWEIR_TELEMETRY__PORT": "0", **more}


def ragweir(
    *arguments: str | Path, text: bytes = b"", folder: Path = ROOT, **variables: str
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end, with this text on its standard input.

    In a process that is forked from a warm one, unless it is to find another environment than the warm one did.
    """
    command, own = [*map(str, arguments)], environment(**variables)
    if all(name.startswith("RAGWEIR_") for name in variables) and _WARM.acquire(blocking=False):
        try:
            return _forked(command, text, folder, own)
        finally:
            _WARM.release()
    return subprocess.run(
        [*COMMAND, *command],
        input=text,
        capture_output=True,
        check=False,
        cwd=folder,
        env=own,
        timeout=_PATIENCE_S,
    )


def program(
    *line: str | Path, folder: Path = ROOT, env: Mapping[str, str] | None = None, text: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run any program to its end, with this text on its standard input."""
    return subprocess.run(
        list(map(str, line)),
        input=text,
        cwd=folder,
        env=environment() if env is None else env,
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_S,
    )


def begun(
    *words: str | Path, before: Sequence[str] = COMMAND, folder: Path = ROOT, stdin: int | None = None, **more: str
) -> subprocess.Popen[bytes]:
    """Begin a command, whose outputs are pipes."""
    pipe = subprocess.PIPE
    line = [*before, *map(str, words)]
    return subprocess.Popen(line, stdin=stdin, stdout=pipe, stderr=pipe, cwd=folder, env=environment(**more))


_WARM = threading.Lock()


@cache
def _warm() -> subprocess.Popen[bytes]:
    """The process that commands are forked from; it ends with this one, whose end closes its standard input."""
    line = [sys.executable, str(Path(__file__).with_name("warm.py"))]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=environment(), bufsize=0)


def _forked(arguments: list[str], text: bytes, folder: Path, own: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    with TemporaryDirectory() as place:
        files = [Path(place, name) for name in ("in", "out", "err")]
        for file, content in zip(files, (text, b"", b""), strict=True):
            file.write_bytes(content)
        warm, asked = _warm(), {"arguments": arguments, "folder": str(folder), "environment": own}
        assert warm.stdin
        assert warm.stdout
        warm.stdin.write(json.dumps({**asked, "files": [*map(str, files)]}).encode() + b"\n")
        if not select.select([warm.stdout], [], [], _PATIENCE_S)[0]:
            raise subprocess.TimeoutExpired(arguments, _PATIENCE_S)
        return subprocess.CompletedProcess(
            arguments, int(warm.stdout.readline()), files[1].read_bytes(), files[2].read_bytes()
        )


def told(done: subprocess.CompletedProcess[bytes]) -> str:
    """What a command that failed told: one line on standard error, and nothing of Python."""
    error = done.stderr.decode()
    assert "Traceback" not in error, error
    assert done.returncode in (1, 2), (done.returncode, error)
    lines = error.strip().splitlines()
    assert len(lines) == 1, error
    return lines[0]


def settled(bootstrap: str, group: str, ends: Mapping[tuple[str, int], int]) -> None:
    """Wait until a group has committed these ends of its partitions."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def reached() -> bool:
        found = committed(admin, group)
        return all(place in found and found[place].offset >= end for place, end in ends.items())

    eventually(reached, f"{group} has settled everything")


@contextmanager
def evaluating(
    bootstrap: str, prefix: str, folder: Path, *flags: str | Path, workers: int = 1, **settings: str
) -> Iterator[Service]:
    """`ragweir evaluate` with these flags and settings for the length of a block."""
    log = folder / f"{prefix}log"
    log.touch()
    shared = ["-m", "ragweir.streams.commands", "--bootstrap-servers", bootstrap, "--prefix", prefix]
    own = ["evaluate", "--workers", str(workers), *map(str, flags)]
    quick = {"RAGWEIR_KAFKA__CLIENT": '{"transaction.timeout.ms": 4000}'}
    service = Service([*shared, *own], log, environment(**quick) | settings)
    try:
        yield service
    finally:
        service.stop()
