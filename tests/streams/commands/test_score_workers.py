"""`ragweir score --workers`: the files, the messages and the status of one process, made by several."""

import gzip
import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE, Popen

import orjson
import pytest
from commands import environment, ragweir
from poison import event

from bench.interactions import interactions
from ragweir.errors import PermanentError
from ragweir.streams.analysis.score.processes import ScoringProcesses, Task
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings


def folder_of_everything(folder: Path) -> Path:
    """Files with duplicates near and far, rejected events, another format, and one that ends early."""
    folder.mkdir()
    lines = list(interactions(150))
    lines[70:70] = [
        lines[0],
        b"no json",
        lines[69],
        event(event_id="x"),
        b'{"event_id": "rejected"}',
        event(event_id="x"),
    ]
    (folder / "a.jsonl").write_bytes(b"".join(each + b"\n" for each in (*lines, lines[0], lines[149])))
    (folder / "b.csv").write_text("event_id,query,response,ended_at\n1,q,r,2026-01-01T00:00:00Z\n1,q,r,1767225600\n")
    (folder / "c.jsonl.gz").write_bytes(gzip.compress(b"".join(each + b"\n" for each in lines))[:-40])
    (folder / "d.jsonl").write_bytes(event(event_id="x") + b"\n")
    return folder


@pytest.mark.heavy
def test_the_output_is_that_of_one_process(tmp_path: Path) -> None:
    """Evaluations, windows, rejections, standard error and the status, over several files of which one is damaged."""
    source = folder_of_everything(tmp_path / "in")
    found = []
    for count in ("1", "3"):
        own = tmp_path / count
        own.mkdir()
        files = (
            "--out",
            "o",
            "--windows",
            "w",
            "--rejected",
            "r",
            "--explain",
            "--default-time",
            "2026-01-01T00:00:00Z",
        )
        done = subprocess.run(
            [sys.executable, "-m", "ragweir.streams.commands", "score", source, *files, "--workers", count],
            cwd=own, env=environment(), capture_output=True, check=False, timeout=120,
        )  # fmt: skip
        found.append((done.returncode, done.stderr, *[(own / name).read_bytes() for name in "owr"]))
    assert found[0] == found[1]
    status, error, evaluations, *_ = found[0]
    assert (status, len(evaluations.splitlines()) > 200) == (1, True)
    assert b"duplicates left out" in error
    assert b"c.jsonl.gz" in error


@pytest.mark.heavy
def test_duplicates_are_found_across_processes(tmp_path: Path) -> None:
    """An event that is far behind its first occurrence was scored by another process, and is still left out."""
    file = tmp_path / "file.jsonl"
    file.write_bytes(b"".join(event(event_id=f"e{number % 200}") + b"\n" for number in range(700)))
    done = ragweir("score", file, "--workers", "2")
    assert [orjson.loads(line)["event_id"] for line in done.stdout.splitlines()] == [f"e{n}" for n in range(200)]
    assert done.stderr.decode().splitlines()[-1] == "200 scored, 500 duplicates left out"


@pytest.mark.slow
def test_a_process_that_ends_is_an_error() -> None:
    """Its events are not left out in silence."""
    settings = Settings()
    config = evaluate_config(settings, "t", is_file=True)
    processes = ScoringProcesses(2)
    try:
        events = ((number, event(event_id=str(number))) for number in range(1, 1_000))
        found = processes.run(Task.of(settings, "t", config), config, events)
        first, _ = next(found)
        assert first.offset == 1
        processes._processes[1]._process.kill()
        with pytest.raises(PermanentError, match="a scoring process ended with exit status -9"):
            list(found)
    finally:
        processes.close()


@pytest.mark.slow
def test_a_process_that_ends_while_it_answers_is_an_error() -> None:
    """Its answer is cut off."""
    cut = pickle.dumps(["an outcome"])[:-3]
    answer = f"import os; os.read(0, 9); os.write(1, {cut!r}); os.kill(os.getpid(), 9)"
    settings = Settings()
    processes = ScoringProcesses(1)
    processes._processes[0]._process.communicate()
    processes._processes[0]._process = Popen([sys.executable, "-c", answer], stdin=PIPE, stdout=PIPE)
    try:
        found = processes._processes[0].submit(Task.of(settings, "t", evaluate_config(settings, "t", is_file=True)), [])
        with pytest.raises(PermanentError, match="a scoring process ended with exit status -9"):
            found.result()
    finally:
        processes.close()


@pytest.mark.heavy
def test_a_signal_ends_the_input_and_what_was_read_is_scored(tmp_path: Path) -> None:
    """A Ctrl-C reaches all processes of a terminal; none of them leaves an event out that was read."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ragweir.streams.commands", "score", "-", "--out", str(out), "--workers", "2"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stderr=pipe, env=environment(), process_group=0) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.write(b"".join(event(event_id=f"e{number}") + b"\n" for number in range(1_000)) + b"bad\n")
        running.stdin.write(b"".join(event(event_id=f"f{number}") + b"\n" for number in range(500)))
        running.stdin.flush()
        assert running.stderr.readline().startswith(b"line 1001: ")
        os.killpg(running.pid, signal.SIGINT)
        _, error = running.communicate(timeout=60)
    assert running.returncode == 130
    ids = [orjson.loads(line)["event_id"] for line in out.read_bytes().splitlines()]
    whole = [*(f"e{number}" for number in range(1_000)), *(f"f{number}" for number in range(500))]
    assert ids == whole[: len(ids)]
    assert len(ids) >= 1_000
    assert f"{len(ids)} scored, 1 rejected" in error.decode()
    assert f"stopped after line {len(ids) + 1:,}: " in error.decode()
