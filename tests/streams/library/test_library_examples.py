"""The notebook and the gate of examples/ do what they show, and the guide's Python runs."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from commands import ROOT, environment, program

from tools.notebook import NOTEBOOK, executed

GATE = ROOT / "examples/ci_gate"
GUIDE = ROOT / "docs/guides/python.md"


def outputs(notebook: Any) -> list[list[Any]]:
    """The text and the HTML that each cell shows."""
    return [
        [output.get("text") or output["data"] for output in cell["outputs"]]
        for cell in notebook.cells
        if cell["cell_type"] == "code"
    ]


@pytest.mark.heavy
def test_the_notebook_shows_what_it_computes() -> None:
    """No cell raises, and the saved outputs are those of this code: `python -m tools.notebook` writes them."""
    saved = nbformat.read(NOTEBOOK, as_version=4)
    shown = outputs(saved)
    assert len(shown) > 5
    assert all(shown)
    assert outputs(executed()) == shown


@pytest.mark.heavy
@pytest.mark.parametrize(("sides", "status"), [((), 1), (("candidate.jsonl", "baseline.jsonl"), 0)])
def test_the_gate_fails_for_the_worse_and_passes_for_the_better(
    sides: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    """A failed gate leaves the worst answers of the candidate, those that people called bad first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = {"event_id": "q7", "question": "supported", "value": False, "rater": "a", "kind": "expert", "blind": True}
    (tmp_path / "labels.jsonl").write_text(json.dumps(said | {"time": "2026-11-22T00:00:00Z"}) + "\n")
    places = {"REGRESSIONS": str(tmp_path / "set"), "LABELS": str(tmp_path / "labels.jsonl")}
    done = program(GATE / "check.sh", *sides, env=environment(PATH=path, **places))
    assert done.returncode == status, done.stderr
    assert ("failed: context_support changed by -0.3" in done.stderr) == bool(status)
    assert "12 events on both sides" in done.stdout
    assert (tmp_path / "set").exists() == bool(status)
    if status:
        lines = (tmp_path / "set/dataset.jsonl").read_text(encoding="utf-8").splitlines()
        assert json.loads(lines[0])["event_id"] == "q7"
        assert len(lines) == 6


def test_the_table_of_examples_names_all_of_them() -> None:
    listed = set(re.findall(r"\]\(([^)/]+)", (ROOT / "examples/README.md").read_text(encoding="utf-8")))
    there = {
        file.name
        for file in (ROOT / "examples").iterdir()
        if not file.name.startswith(("_", ".")) and file.suffix not in {".md", ".patch"}
    }
    assert listed == there


def test_the_python_of_the_guide_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """All blocks, in order, as one program; its assertions hold."""
    text = GUIDE.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) > 5
    exec(compile("\n".join(blocks), GUIDE.name, "exec"), {})
    printed = capsys.readouterr().out
    assert "not scored: response: missing" in printed
    assert "12 events on both sides" in printed
    assert len(text.encode()) <= 6 * 1024
