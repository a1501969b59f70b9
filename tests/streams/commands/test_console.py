"""`ragweir console` on files: it starts without Kafka, prints an address, and shows what it read."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from commands import COMMAND, environment, ragweir

pytestmark = pytest.mark.slow

_EVENT = (
    '{"event_id": "%d", "ended_at": "2026-11-21T10:00:0%dZ", "query": "Where?", "response": "Rome.", "contexts": []}'
)
_PATIENCE_S = 60


def scored(folder: Path, number: int = 3) -> Path:
    (folder / "events.jsonl").write_text("".join(f"{_EVENT}\n" % (each, each) for each in range(number)))
    done = ragweir("score", "events.jsonl", "--out", "evaluations.jsonl", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "evaluations.jsonl"


def test_the_pages_of_a_file_are_shown_at_the_address_that_is_printed(tmp_path: Path) -> None:
    scored(tmp_path)
    line = [*COMMAND, "console", "evaluations.jsonl", "--events", "events.jsonl", "--port", "0"]
    with subprocess.Popen(
        line, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        found = re.search(r"(http://127\.0\.0\.1:\d+)/login#(\w{32,})", said)
        assert found, said + (process.stderr.read() if process.stderr else "")
        with httpx.Client(base_url=found[1], headers={"Sec-Fetch-Site": "same-origin"}, timeout=_PATIENCE_S) as client:
            assert client.get("/").status_code == 303
            assert client.post("/login", data={"token": found[2], "name": "Ada"}).status_code == 303
            assert "3 answers" in client.get("/").text
        process.send_signal(signal.SIGINT)
        said, problems = process.communicate(timeout=_PATIENCE_S)
    assert (process.returncode, said, problems) == (0, "The console is stopped.\n", "")


def test_what_was_scored_is_opened(tmp_path: Path) -> None:
    scored(tmp_path)
    line = [*COMMAND, "score", "events.jsonl", "--out", "again.jsonl", "--open"]
    env = environment(RAGWEIR_CONSOLE__PORT="0")
    with subprocess.Popen(line, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert re.match(r"3 answers are shown at http://127\.0\.0\.1:\d+/login#\w+ until", process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=_PATIENCE_S)
    assert process.returncode == 0
    done = ragweir("score", "events.jsonl", "--open", folder=tmp_path)
    assert (done.returncode, b"--open shows the file of --out" in done.stderr) == (2, True)


def test_what_is_no_file_of_evaluations_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    done = ragweir("console", "other.jsonl", folder=tmp_path)
    assert done.returncode == 1
    assert b"other.jsonl holds no evaluation" in done.stderr


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    """In an interpreter that finds no uvicorn."""
    scored(tmp_path, 1)
    program = (
        "import importlib.util as util; find = util.find_spec\n"
        "util.find_spec = lambda name, *more: None if name == 'uvicorn' else find(name, *more)\n"
        "from ragweir.streams.commands import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "console", "evaluations.jsonl"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        check=False,
        text=True,
        timeout=_PATIENCE_S,
    )
    assert done.returncode == 1
    assert done.stderr == "ragweir: the console needs the package uvicorn: pip install 'ragweir[console]'\n"


def test_explain_has_the_link_to_the_page_of_its_event(tmp_path: Path) -> None:
    file = scored(tmp_path, 1)
    done = ragweir("explain", "0", "--file", file, RAGWEIR_CONSOLE__PUBLIC_URL="https://ragweir.example.org")
    assert done.stdout.endswith(b"In the console: https://ragweir.example.org/answers/0\n")
    assert b"In the console" not in ragweir("explain", "0", "--file", file).stdout


def test_compare_has_the_link_to_what_it_wrote_for_the_console(tmp_path: Path) -> None:
    """A comparison that is written elsewhere has no page."""
    scored(tmp_path)
    (tmp_path / "ragweir-console" / "compare").mkdir(parents=True)
    own = {"folder": tmp_path, "RAGWEIR_CONSOLE__PUBLIC_URL": "https://ragweir.example.org"}
    line = ("compare", "evaluations.jsonl", "evaluations.jsonl", "--json")
    done = ragweir(*line, "ragweir-console/compare/a b.json", **own)
    assert b"In the console: https://ragweir.example.org/compare/a%20b\n" in done.stdout
    assert b"In the console" not in ragweir(*line, "other.json", **own).stdout
