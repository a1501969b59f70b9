"""Ctrl-C: `score` finishes what it has read, keeps lines whole, and tells how far it came."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from commands import begun
from poison import event

_PATIENCE_S = 60


@contextmanager
def scoring(*arguments: str | Path) -> Iterator[subprocess.Popen[bytes]]:
    """`ragweir score` under way; killed where a test fails."""
    with begun("score", *arguments, stdin=subprocess.PIPE) as running:
        try:
            yield running
        finally:
            running.kill()


def told(running: subprocess.Popen[bytes]) -> list[str]:
    """The rest of its standard error, once it has ended."""
    assert running.stderr is not None
    error = running.stderr.read()
    running.wait(_PATIENCE_S)
    assert b"Traceback" not in error, error
    return error.decode().splitlines()


def events_of(file: Path) -> list[str]:
    """The ids of the evaluations in a file, of which each line is whole."""
    content = file.read_bytes()
    assert content.endswith(b"\n")
    return [orjson.loads(line)["event_id"] for line in content.splitlines()]


@pytest.mark.heavy
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_within_a_file_it_says_how_far_it_came(number: signal.Signals, tmp_path: Path) -> None:
    """Of many lines some are scored, without a gap and each whole; the line that is told is the last of them."""
    lines = 50_000
    file, out, windows = tmp_path / "many.jsonl", tmp_path / "out.jsonl", tmp_path / "windows.jsonl"
    file.write_bytes(b"".join(event(event_id=f"e{at}") + b"\n" if at > 1 else b"bad\n" for at in range(1, lines)))
    with scoring(file, "--out", out, "--windows", windows) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith(b"line 1: ")
        while not out.stat().st_size:
            time.sleep(0.01)
        running.send_signal(number)
        summary, stopped = told(running)
    assert running.returncode == 130
    scored = events_of(out)
    assert 0 < len(scored) < lines - 2
    assert scored == [f"e{at}" for at in range(2, len(scored) + 2)]
    assert summary == f"{len(scored)} scored, 1 rejected"
    share = round(100 * len(scored) / lines)
    ends = f"% of {file}: {out} is incomplete; each of its lines is whole"
    assert stopped in {
        f"stopped after line {len(scored) + 1:,}, {each}{ends}" for each in (share - 1, share, share + 1)
    }
    counted = [orjson.loads(line) for line in windows.read_bytes().splitlines()]
    assert sum(each["events"] for each in counted if each["window"] == "1m") == len(scored)


def test_while_it_waits_for_input_it_stops_at_once(tmp_path: Path) -> None:
    """On a pipe that brings nothing more, one signal suffices, and half a line that has come is no line."""
    out = tmp_path / "out.jsonl"
    with scoring("-", "--out", out) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.write(b"".join(event(event_id=f"e{at}") + b"\n" for at in range(3)) + b"bad\n" + event()[:20])
        running.stdin.flush()
        assert running.stderr.readline().startswith(b"line 4: ")
        time.sleep(0.3)  # By now it waits; where it does not, the signal ends the input between two lines instead.
        os.kill(running.pid, signal.SIGINT)
        # The pipe stays open: nothing but the signal ends the input.
        assert running.wait(_PATIENCE_S) == 130
        rest = running.stderr.read().decode().splitlines()
    assert events_of(out) == ["e0", "e1", "e2"]
    assert rest == [
        "3 scored, 1 rejected",
        f"stopped after line 4: {out} is incomplete; each of its lines is whole",
    ]


def test_to_standard_output(tmp_path: Path) -> None:
    """What went down a pipe before the signal is whole lines too."""
    file = tmp_path / "many.jsonl"
    file.write_bytes(b"".join(event(event_id=f"e{at}") + b"\n" for at in range(50_000)))
    with scoring(file) as running:
        assert running.stdout is not None
        first = running.stdout.readline()
        running.send_signal(signal.SIGINT)
        rest = running.stdout.read()
        _, stopped = told(running)
    assert running.returncode == 130
    ids = [orjson.loads(line)["event_id"] for line in (first + rest).splitlines()]
    assert ids == [f"e{at}" for at in range(len(ids))]
    assert stopped.startswith(f"stopped after line {len(ids):,}, ")
    assert "the output is incomplete" in stopped
