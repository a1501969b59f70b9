"""Draw single-point mutations of the runtime and the services, and name the test that catches each.

    .venv/bin/python -m tools.mutants --seed 1 --count 30
    .venv/bin/python -m tools.mutants --listed tests/mutants.md

The draw reads the product's sources only. A mutation changes one place: a comparison, an operator, a constant by one, a
condition, a value that is returned, a call or an exception that is left out. Durations in seconds and milliseconds are
not changed, since no caller sees one more of them, and neither are annotations and docstrings.

Each mutation is applied to a temporary copy of the working tree. There run the module's examples and then the tests
that need no broker, first those that import the module, up to the first that fails. The result is a row of a table for
`tests/mutants.md`. With `--listed` the mutations of such a table are applied again, each with its own test alone. The
exit status is 1 if a mutation survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path

from ragweir.streams.runtime.processes.child_python import python_command

ROOT = Path(__file__).parent.parent
ROOMS = ("streams/runtime", "streams/services")
TESTS, INTEGRATION = "tests/streams", "tests/integration"
_SERVER = re.compile("broker|bootstrap|local_kafka|Programs")
"""Found in the files of integration tests that need a server; the others run if they are near to a mutation."""
NEAR = 3
"""Steps of imports from a test to a module, from which on the test runs with all others."""
TIMEOUT_S = 300.0
_PASSED = (0, 5)
"""Exit statuses of pytest: all pass, there is no test."""
_FAST = ("--hypothesis-profile", "fast")
_COMPARISONS: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATORS: Mapping[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
}
_DURATION = re.compile(r"(?i)(^|_)(s|ms|seconds?|timeout)$")
_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
_ROW = re.compile(r"\| `(\S+?):(\d+)` \| \S+ \| (`.*`) \| `(.*)` \|$")


@dataclass(frozen=True, slots=True)
class Mutation:
    """A change of one place of a source file."""

    path: str
    line: int
    where: str
    """Qualified name of the class or function."""
    before: str
    after: str
    start: int
    """In bytes, as the stop."""
    stop: int

    def apply(self, source: bytes) -> bytes:
        """Return the text of the file with the change."""
        return source[: self.start] + self.after.encode() + source[self.stop :]

    def row(self, caught: str) -> str:
        """Return the row of the table, with `caught` as the last cell."""
        change = f"`{_one_line(self.before)}` → `{_one_line(self.after)}`".replace("|", "\\|")
        return f"| `{self.path}:{self.line}` | {self.where} | {change} | {caught} |"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _operators(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the places that change with a node, and the text to put there; as the functions below."""
    match node:
        case ast.Compare(left, ops, others):
            for place, own in enumerate(ops):
                changed = [*ops[:place], _COMPARISONS[type(own)](), *ops[place + 1 :]]
                yield node, f"({ast.unparse(ast.Compare(left, changed, others))})"
        case ast.BoolOp(own, values):
            yield node, f"({ast.unparse(ast.BoolOp(ast.Or() if isinstance(own, ast.And) else ast.And(), values))})"
        case ast.UnaryOp(ast.Not(), operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.BinOp(left, own, right) if type(own) in _OPERATORS:
            yield node, f"({ast.unparse(ast.BinOp(left, _OPERATORS[type(own)](), right))})"
        case ast.AugAssign(target, own, value) if type(own) in _OPERATORS:
            yield node, ast.unparse(ast.AugAssign(target, _OPERATORS[type(own)](), value))


def _values(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Constant(bool() as value):
            yield node, str(not value)
        case ast.Constant(int() as value):
            yield node, str(value + 1)
        case ast.IfExp(test, body, orelse):
            yield node, f"({ast.unparse(ast.IfExp(test, orelse, body))})"
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant) or value.value is not None:
            yield node, "return None"


def _steps(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    match node:
        case ast.Raise() | ast.Expr(ast.Call() | ast.Await()):
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.If(test=test):
            yield from _negated(test)
        case ast.comprehension(ifs=tests):
            for test in tests:
                yield from _negated(test)


def _negated(test: ast.expr) -> Iterator[tuple[ast.AST, str]]:
    # A comparison or a negation is changed by itself.
    if not isinstance(test, ast.Compare | ast.UnaryOp):
        yield test, f"(not ({ast.unparse(test)}))"


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node that may be changed."""
    match node:
        case ast.JoinedStr() | ast.arg() | ast.If(ast.Name("TYPE_CHECKING")):
            # Python 3.11 does not say where the parts of a formatted text are.
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield from (node.args, *node.body)
        case ast.ClassDef():
            yield from node.body
        case ast.Assign() | ast.AnnAssign():
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and not any(_DURATION.search(ast.unparse(each)) for each in targets):
                yield node.value
        case ast.keyword(str() as name) if _DURATION.search(name):
            return
        case _:
            yield from ast.iter_child_nodes(node)


def mutations(path: str, source: str) -> list[Mutation]:
    r"""Return all mutations of a source file.

    >>> found = mutations("a.py", "def f(a):\n    'Text.'\n    if a < 1:\n        g(a)\n    return a or not a\n")
    >>> [(each.line, each.before, each.after) for each in found]
    [(3, 'a < 1', '(a <= 1)'), (3, '1', '2'), (4, 'g(a)', 'pass'), (5, 'return a or not a', 'return None'),
     (5, 'a or not a', '(a and (not a))'), (5, 'not a', '(a)')]
    >>> found[1].apply(b"def f(a):\n    'Text.'\n    if a < 1:\n")
    b"def f(a):\n    'Text.'\n    if a < 2:\n"
    >>> [each.before for each in mutations("a.py", "WAIT_S = 5\nN: int = 3\nf(wait_s=1, n=4)")]
    ['3', 'f(wait_s=1, n=4)', '4']
    """
    lines = source.encode().splitlines(keepends=True)
    offsets = [0, *accumulate(map(len, lines))]
    found = []

    def visit(node: ast.AST, where: str) -> None:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            where = f"{where}.{node.name}".lstrip(".")
        for place, after in chain(_operators(node), _values(node), _steps(node)):
            assert isinstance(place, ast.expr | ast.stmt)
            start = offsets[place.lineno - 1] + place.col_offset
            stop = offsets[(place.end_lineno or 0) - 1] + (place.end_col_offset or 0)
            before = source.encode()[start:stop].decode()
            found.append(Mutation(path, place.lineno, where or "module", before, after, start, stop))
        for child in _children(node):
            visit(child, where)

    visit(ast.parse(source), "")
    return found


def draw(seed: int, count: int) -> list[Mutation]:
    """Return mutations of the rooms, drawn at random, in the order in which they are drawn."""
    found = [each for path in sources(*ROOMS) for each in mutations(path, (ROOT / path).read_text(encoding="utf-8"))]
    return random.Random(seed).sample(found, min(count, len(found)))


class Distances:
    """The test files, by their distance from a module of the product in imports."""

    def __init__(self) -> None:
        modules = [*sources("schemas", "metrics", "streams"), *sources("bench")]
        named = {_module(path): path for path in modules} | {Path(path).stem: path for path in sources("tests")}
        self._imported = {name: _imports(path).intersection(named) for name, path in named.items()}
        tests = [path for path in sources(TESTS, INTEGRATION) if Path(path).name.startswith("test_")]
        alone = [path for path in tests if path.startswith(TESTS) or not _SERVER.search((ROOT / path).read_text())]
        self._of_tests = {path: _imports(path).intersection(named) for path in alone}

    def of(self, path: str) -> tuple[list[str], list[str]]:
        """Return the test files that are near to a module, the nearest first, and all others."""
        steps, queue = {_module(path): 0}, deque([_module(path)])
        while queue:
            name = queue.popleft()
            for other, imported in self._imported.items():
                if name in imported and other not in steps:
                    steps[other] = steps[name] + 1
                    queue.append(other)
        found = {test: min((steps.get(each, 99) for each in own), default=99) for test, own in self._of_tests.items()}
        ranked = sorted(found, key=lambda test: (found[test], test))
        others = [test for test in ranked if found[test] >= NEAR and test.startswith(TESTS)]
        return [test for test in ranked if found[test] < NEAR], others


def sources(*folders: str) -> list[str]:
    """Return the modules in folders of the project, as paths in the order of their names."""
    return [path.relative_to(ROOT).as_posix() for each in folders for path in sorted((ROOT / each).rglob("*.py"))]


def _module(path: str) -> str:
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return name if name.startswith("bench") else f"ragweir.{name}"


def _imports(path: str) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return found


class Copy:
    """A copy of the working tree in which tests run."""

    def __init__(self, folder: Path) -> None:
        self.root = folder
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).exists():
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)

    def failing(self, tests: Iterable[str], timeout_s: float | None = TIMEOUT_S) -> str | None:
        """Run tests up to the first that fails, and return its name."""
        command = python_command(
            "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *_FAST, "tests/conftest.py", *tests
        )
        environment = os.environ | {"PYTHONPATH": str(self.root)}
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            return f"no end within {timeout_s} s"
        if process.returncode in _PASSED:
            return None
        found = _FAILED.search(output)
        if found is None:
            raise RuntimeError(output)
        return found[1]

    def caught(self, mutation: Mutation, chunks: Iterable[Iterable[str]]) -> str | None:
        """Apply a mutation while tests run, and return the first that fails."""
        path = self.root / mutation.path
        source = path.read_bytes()
        changed = mutation.apply(source)
        compile(changed, mutation.path, "exec")
        path.write_bytes(changed)
        try:
            return next(filter(None, map(self.failing, chunks)), None)
        finally:
            path.write_bytes(source)


def listed(text: str) -> list[tuple[str, int, str, str]]:
    r"""Return the rows of a table: path, line, the change and its test.

    >>> listed("| `streams/a.py:3` | f | `a < 1` → `(a <= 1)` | `tests/streams/test_a.py::test_b` |")
    [('streams/a.py', 3, '`a < 1` → `(a <= 1)`', 'tests/streams/test_a.py::test_b')]
    """
    rows = filter(None, map(_ROW.match, text.splitlines()))
    return [(row[1], int(row[2]), row[3], row[4]) for row in rows]


def _passes_unchanged(copy: Copy, tests: Iterable[str]) -> None:
    if failed := copy.failing(tests, timeout_s=None):
        sys.exit(f"{failed} fails without any change")


def _of_list(path: Path, copy: Copy) -> int:
    """Apply the mutations of a table, the nearest of those that are alike if lines have moved."""
    survived, rows = 0, listed(path.read_text(encoding="utf-8"))
    _passes_unchanged(copy, {test for *_, test in rows})
    for place, line, change, test in rows:
        found = mutations(place, (ROOT / place).read_text(encoding="utf-8"))
        same = [each for each in found if f" {change} " in each.row("")]
        nearest = min(same, key=lambda each: abs(each.line - line), default=None)
        caught = nearest and copy.caught(nearest, [[test]])
        survived += not caught
        print(f"{place}:{line} {change}: {caught or ('survives' if nearest else 'is not there')}", flush=True)
    return survived


def _of_draw(seed: int, count: int, copy: Copy) -> int:
    distances, survived = Distances(), 0
    _passes_unchanged(copy, [TESTS])
    print("| place | in | change | caught by |\n|---|---|---|---|")
    for mutation in draw(seed, count):
        caught = copy.caught(mutation, [[f"ragweir/{mutation.path}"], *distances.of(mutation.path)])
        survived += caught is None
        print(mutation.row(f"`{caught}`" if caught else "survives"), flush=True)
    return survived


def main() -> int:
    """Mutate as the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw")
    parser.add_argument("--count", type=int, default=30, help="number of mutations")
    parser.add_argument("--listed", type=Path, help="a table whose mutations are applied instead of drawn ones")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ragweir-mutants-") as folder:
        copy = Copy(Path(folder))
        survived = _of_list(given.listed, copy) if given.listed else _of_draw(given.seed, given.count, copy)
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
