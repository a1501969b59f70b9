"""Child processes that run Python import nothing from the folder that they are started in."""

import ast
from pathlib import Path

import pytest

from ragweir.metrics.judged.suite import Case
from ragweir.streams.analysis.compare.columns import in_other_process
from ragweir.streams.analysis.score.processes import ScoringProcesses
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.settings import JudgeSettings

ROOT = Path(__file__).parents[3]
CODE = ("ragweir", "schemas", "metrics", "streams", "chaos", "bench", "tools", "examples")
KNOWN = {
    ("streams/runtime/processes/child_python.py", "sys.executable"),
    ("tools/mutate_kernel.py", "sys.executable"),  # The name of an interpreter for a build.
    *((f"bench/{name}.py", "multiprocessing.get_context") for name in ("kafka_loops", "worst")),
}
"""The modules that start processes otherwise. Those of bench run in a checkout alone."""
_OTHER_WAYS = {
    *("sys.executable", "multiprocessing.Process", "multiprocessing.Pool", "multiprocessing.get_context"),
    *("concurrent.futures.ProcessPoolExecutor", "futures.ProcessPoolExecutor"),
}


def _found(tree: ast.AST) -> set[str]:
    """The ways in which a module starts a Python process that are no call of `python_command`."""
    read = {ast.unparse(each) for each in ast.walk(tree) if isinstance(each, ast.Attribute)}
    imported = {
        f"{each.module}.{name.name}"
        for each in ast.walk(tree)
        if isinstance(each, ast.ImportFrom)
        for name in each.names
    }
    return (read | imported) & _OTHER_WAYS


@pytest.mark.heavy
def test_one_function_makes_the_command_line_of_every_child() -> None:
    files = [file for folder in CODE for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    found = {
        (file.relative_to(ROOT).as_posix(), way)
        for file in files
        for way in _found(ast.parse(file.read_text(encoding="utf-8")))
    }
    assert found == KNOWN


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.executable",
        "from sys import executable",
        "import multiprocessing\nmultiprocessing.get_context('spawn')",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_other_ways_are_found(source: str) -> None:
    assert _found(ast.parse(source))


@pytest.fixture
def proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is written if a module of the working folder runs, whose name is one of the standard library."""
    file = tmp_path / "it ran"
    for name in ("pickle", "signal", "subprocess", "multiprocessing", "orjson"):
        (tmp_path / f"{name}.py").write_text(f"open({str(file)!r}, 'w').close()\nraise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    return file


@pytest.mark.slow
def test_a_process_that_reads_columns_runs_no_module_of_the_working_folder(proof: Path) -> None:
    file = Path("evaluations")
    file.write_text('{"event_id": "a", "scores": {"rouge_l": 0.5}}\n')
    Path("columns").mkdir()
    with in_other_process(file, "evaluations", (), Path("columns")) as columns:
        assert columns().lines == 1
    assert not proof.exists()


@pytest.mark.slow
def test_a_scoring_process_runs_no_module_of_the_working_folder(proof: Path) -> None:
    processes = ScoringProcesses(1)
    child = processes._processes[0]._process
    child.communicate()  # It ends at the end of its input.
    assert child.returncode == 0
    processes.close()
    assert not proof.exists()


@pytest.mark.slow
def test_a_process_that_redacts_runs_no_module_of_the_working_folder(proof: Path) -> None:
    own = Redactor(JudgeSettings(redaction="on", redact_patterns={"case": r"\bC-\d+"}))
    assert own.redact(Case("C-12", "")) == Case("[case]", "")
    assert not proof.exists()
