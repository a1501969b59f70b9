"""`make test-fast` stays fast: it leaves out what is marked slow, and a test in it that starts a process fails."""

import ast
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


STARTERS = {"begun", "program", "ragweir", "subprocess"}
LEFT_OUT = ("mark.slow", "mark.heavy", "mark.long")


@pytest.mark.slow
def test_what_starts_a_process_by_itself_is_marked() -> None:
    """Also in `make test`; what starts one through a fixture or another function fails in `make test-fast` alone."""
    assert TARGET
    found = []
    for folder in re.findall(r"tests/\w+", TARGET[1]):
        for path in sorted((ROOT / folder).rglob("test_*.py")):
            text = path.read_text(encoding="utf-8")
            if not re.search("import subprocess|from commands import", text):
                continue
            tree = ast.parse(text)
            assigned = [each for each in tree.body if isinstance(each, ast.Assign)]
            of_module = [ast.unparse(each) for each in assigned if ast.unparse(each.targets[0]) == "pytestmark"]
            if any(each in of_module[-1] for each in LEFT_OUT if of_module):  # The last one counts.
                continue
            imported = {
                alias.asname or alias.name
                for node in ast.walk(tree)
                if isinstance(node, ast.Import | ast.ImportFrom)
                for alias in node.names
                if alias.name == "subprocess" or getattr(node, "module", None) == "commands"
            }
            for test in tree.body:
                if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                    marks = " ".join(map(ast.unparse, test.decorator_list))
                    called = {node.func for node in ast.walk(test) if isinstance(node, ast.Call)}
                    starts = {ast.unparse(each).partition(".")[0] for each in called} & imported & STARTERS
                    if starts and not any(each in marks for each in LEFT_OUT):
                        found.append(f"{path.relative_to(ROOT)}::{test.name}")
    assert found == [], "marked slow, make test-fast leaves them out"


@pytest.mark.slow
def test_a_test_that_starts_a_process_fails_unless_it_is_marked(tmp_path: Path) -> None:
    (tmp_path / "test_starts.py").write_text(STARTS)
    pytest_here = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-c", ROOT / "pyproject.toml"]
    fast = program(*pytest_here, "-m", "not slow", tmp_path, folder=ROOT / "tests").stdout
    assert "2 failed, 1 deselected" in fast, fast
    assert fast.count("has to be marked slow") >= 2
    assert "1 passed, 2 deselected" in program(*pytest_here, "-m", "slow", tmp_path, folder=ROOT / "tests").stdout
