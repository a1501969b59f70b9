"""Contracts that the type checker guards: a renamed method of a lifecycle is an error of mypy, whichever side renames.

`mypy` itself checks the product in `make test`; here it checks copies in which a tool has renamed methods.
"""

import ast
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from commands import program

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("schemas", "metrics", "streams")


DERIVED_AGAIN = ("TextsAgent",)
"""Classes that override methods which override others, and are renamed with them."""


def methods(source: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The methods of a module, with the names of their classes."""
    for found in ast.walk(ast.parse(source)):
        if isinstance(found, ast.ClassDef):
            for each in found.body:
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield found.name, each


def is_override(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "override" for each in method.decorator_list)


def copied(to: Path, rename: Callable[[str, ast.FunctionDef | ast.AsyncFunctionDef], bool]) -> list[str]:
    """Copy the product and rename each of these methods where it is defined; gives `path:name` of what was renamed."""
    shutil.copytree(ROOT / "ragweir", to / "ragweir", symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", to)
    renamed = []
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for path in sorted((to / folder).rglob("*.py")):
            lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
            for owner, method in methods("".join(lines)):
                if rename(owner, method):
                    line = lines[method.lineno - 1]
                    lines[method.lineno - 1] = line.replace(f"def {method.name}(", f"def {method.name}_x(", 1)
                    renamed.append(f"{path.relative_to(to)}:{method.name}")
            path.write_text("".join(lines), encoding="utf-8")
    return renamed


def mypy(folder: Path) -> str:
    """What mypy says of the product in a folder."""
    if (ROOT / ".mypy_cache").is_dir():  # Most modules have not changed since it was last run here.
        shutil.copytree(ROOT / ".mypy_cache", folder / ".mypy_cache")
    ran = program(sys.executable, "-m", "mypy", "--package", "ragweir", folder=folder, env=os.environ)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout


@pytest.fixture(scope="module")
def overriding(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    """What was renamed where every method that overrides one has another name, and what mypy says of it."""
    folder = tmp_path_factory.mktemp("overriding")
    renamed = copied(folder, lambda owner, method: is_override(method) and owner not in DERIVED_AGAIN)
    return renamed, mypy(folder)


@pytest.mark.heavy
def test_a_method_that_no_longer_overrides_is_an_error(overriding: tuple[list[str], str]) -> None:
    """Each of them: agents, projections, decoders, the pool of the judge and what derives from libraries' classes."""
    renamed, said = overriding
    assert {"streams/services/evaluate/agent.py:on_assigned", "streams/services/judge/agent.py:tick"} <= set(renamed)
    errors = re.findall(r'^ragweir/(\S+?):\d+: error: Method "(\w+)_x" is marked as an override', said, re.MULTILINE)
    assert {f"{path}:{name}" for path, name in errors} == set(renamed)


BASES = ("Agent", "Projection", "Decoder", "JudgePool")


@pytest.mark.heavy
def test_a_method_that_is_no_longer_there_to_override_is_an_error(
    overriding: tuple[list[str], str], tmp_path: Path
) -> None:
    """Renamed in the base class alone, each method of the lifecycle is missed by those who override or call it."""
    renamed = copied(tmp_path, lambda owner, _: owner in BASES)
    names = {each.partition(":")[2] for each in renamed}
    assert {"on_assigned", "on_revoked", "handle", "dead_letter", "tick", "on_commit", "on_abort"} <= names
    said = mypy(tmp_path)
    overridden = {each.partition(":")[2] for each in overriding[0] if each.endswith("/agent.py")}
    missed = set(re.findall(r'Method "(\w+)" is marked as an override', said))
    unknown = set(re.findall(r'has no attribute "(\w+)"', said))
    assert names <= missed | unknown
    assert names & overridden <= missed
    assert names <= unknown, "the runtime calls all of it"
