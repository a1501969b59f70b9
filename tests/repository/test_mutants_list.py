"""The list of mutations names places and tests that exist; `python -m tools.mutants --listed` applies it."""

import ast
from pathlib import Path

import pytest

from tools.mutants import listed

ROOT = Path(__file__).parents[2]
LIST = ROOT / "tests" / "mutants.md"


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.slow
def test_each_mutation_of_the_list_has_a_test_that_exists() -> None:
    rows = listed(LIST.read_text(encoding="utf-8"))
    assert len(rows) > 30
    for place, _, _, test in rows:
        file, _, name = test.partition("::")
        assert (ROOT / place).is_file(), place
        assert name.split(".")[-1] in functions(ROOT / file), test
