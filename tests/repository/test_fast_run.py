"""`make test-fast` stays fast: it leaves out what is marked slow, and a test in it that starts a process fails."""

import re
import sys
from pathlib import Path

import pytest
from commands import ROOT, program

TARGET = re.search(r"^test-fast:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
STARTS = """
import os, subprocess, sys
import pytest

def test_run():
    subprocess.run([sys.executable, "--version"])

def test_fork():
    os.fork() or os._exit(0)

@pytest.mark.slow
def test_marked():
    subprocess.run([sys.executable, "--version"], check=True)
"""


def test_it_leaves_out_what_is_slow_and_all_that_needs_other_programs() -> None:
    assert TARGET
    assert '-m "not long and not heavy and not slow"' in TARGET[1]
    folders = set(re.findall(r"tests/(\w+)", TARGET[1]))
    assert folders == {"schemas", "metrics", "kernel", "streams", "repository"}


@pytest.mark.slow
def test_a_test_that_starts_a_process_fails_unless_it_is_marked(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(STARTS)
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-c", ROOT / "pyproject.toml"]
    fast = program(*pytest_here, "-m", "not slow", tmp_path, folder=ROOT / "tests").stdout
    assert "2 failed, 1 deselected" in fast, fast
    assert fast.count("has to be marked slow") >= 2
    assert "1 passed, 2 deselected" in program(*pytest_here, "-m", "slow", tmp_path, folder=ROOT / "tests").stdout
