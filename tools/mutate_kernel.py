"""Apply mutations to the kernel, one at a time, and count those that the tests of its equality do not detect.

    .venv/bin/python -m tools.mutate_kernel --number 40 --seed 1

A mutation changes one operator or number of the Rust sources: `<` to `<=`, `==` to `!=`, `&&` to `||`, `+` to `-`, a
number by one. Each mutated kernel is built (without optimisations that take long) and tested by `tests/kernel`. One
that is as good as the original, such as a capacity or a limit that only saves time, survives rightly. The exit status
is 1 if any survives. It needs cargo, and takes 5 to 30 s per mutation.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragweir.streams.runtime.processes.child_python import python_command

ROOT = Path(__file__).parent.parent
_TESTS = "tests/kernel/test_kernel_equality.py"
_DRAWN = "any_texts or cut_have"
"""The tests with texts that hypothesis draws, which take the longest."""
_SKIPPED = re.compile(r"^\s*(//|#|use |pub use |mod |const _)|debug_assert|with_capacity|reserve\(")
_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])[^\']*\'|//.*')
"""What is no code within a line."""
_SWAPS = {
    " < ": " <= ",
    " <= ": " < ",
    " > ": " >= ",
    " >= ": " > ",
    " == ": " != ",
    " != ": " == ",
    " && ": " || ",
    " || ": " && ",
    " + ": " - ",
    " - ": " + ",
    " += ": " -= ",
    "true": "false",
    "false": "true",
    "..=": "..",
}
_TOKEN = re.compile("|".join([*map(re.escape, sorted(_SWAPS, key=len, reverse=True)), r"(?<![\w.])\d+(?![\w.]|\.\d)"]))
_BUILD = (
    *("build", "--features", "pyo3/extension-module", "--quiet"),
    *("--config", "profile.dev.opt-level=1", "--config", "profile.dev.debug=0"),
)
_TEST_S = 180.0


@dataclass(frozen=True, slots=True)
class KernelMutation:
    """A change of one place of a source file."""

    path: Path
    """Relative to the kernel."""
    line: int
    """Counted from 0."""
    column: int
    before: str
    after: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        lines = text.splitlines(keepends=True)
        line = lines[self.line]
        lines[self.line] = line[: self.column] + self.after + line[self.column + len(self.before) :]
        return "".join(lines)


def mutations(path: Path, text: str) -> Iterator[KernelMutation]:
    r"""Yield all mutations of a source file.

    >>> found = list(mutations(Path("a.rs"), "if at < end && text != \"a < b\" {\n    at += 1; // < 2\n}\n"))
    >>> [(each.line, each.before.strip(), each.after.strip()) for each in found]
    [(0, '<', '<='), (0, '&&', '||'), (0, '!=', '=='), (1, '+=', '-='), (1, '1', '2')]
    >>> found[0].apply("if at < end\n")
    'if at <= end\n'
    """
    for number, line in enumerate(text.splitlines()):
        if line.startswith("#[cfg(test)]"):
            return
        if _SKIPPED.search(line):
            continue
        code = _TEXT.sub(lambda found: " " * len(found.group()), line)
        for found in _TOKEN.finditer(code):
            token = found.group()
            after = _SWAPS.get(token) or str(int(token) + 1)
            yield KernelMutation(path, number, found.start(), token, after)


class Kernel:
    """A copy of the kernel in a folder, which is built anew after each change."""

    def __init__(self, folder: Path, cargo: str) -> None:
        self.sources, self._cargo, self._target = folder / "kernel", cargo, folder / "target"
        shutil.copytree(ROOT / "kernel", self.sources, ignore=shutil.ignore_patterns("target"))
        self._package = folder / "package" / "ragweir_kernel"
        self._package.mkdir(parents=True)
        (self._package / "__init__.py").write_text("from .ragweir_kernel import *\n")
        self._environment = os.environ | {
            "PYTHONPATH": str(self._package.parent),
            "PYO3_PYTHON": sys.executable,
            "CARGO_TARGET_DIR": str(self._target),
        }

    def build(self) -> bool:
        """Build it, and return whether it compiles."""
        done = subprocess.run(
            [self._cargo, *_BUILD], cwd=self.sources, env=self._environment, capture_output=True, check=False
        )
        if done.returncode == 0:
            # A new file: the one before may be mapped into a process.
            module = self._package / "ragweir_kernel.abi3.so"
            module.unlink(missing_ok=True)
            shutil.copy(self._target / "debug" / "libragweir_kernel.so", module)
        return done.returncode == 0

    def passes(self) -> bool:
        """Return whether the tests pass, each half within the time."""
        return all(self._passes(chosen) for chosen in (f"not ({_DRAWN})", _DRAWN))

    def _passes(self, chosen: str) -> bool:
        command = python_command("-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", _TESTS, "-k", chosen)
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=self._environment, capture_output=True, timeout=_TEST_S, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0


def main() -> int:
    """Mutate the kernel as the command line says, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutate_kernel", description=__doc__.split("\n")[0])
    parser.add_argument("--number", type=int, help="number of mutations, drawn at random; all by default")
    parser.add_argument("--minutes", type=float, default=math.inf, help="time after which no other mutation begins")
    parser.add_argument("--seed", type=int, default=1, help="seed of the draw")
    parser.add_argument("--file", action="append", help="only mutations of this file, such as scan.rs; repeatable")
    given = parser.parse_args()
    cargo = shutil.which("cargo") or str(Path.home() / ".cargo" / "bin" / "cargo")
    sources = sorted(path.relative_to(ROOT / "kernel") for path in (ROOT / "kernel" / "src").rglob("*.rs"))
    paths = [path for path in sources if not given.file or path.name in given.file]
    found = [each for path in paths for each in mutations(path, (ROOT / "kernel" / path).read_text())]
    chosen = random.Random(given.seed).sample(found, min(given.number or len(found), len(found)))
    survived = killed = tried = 0
    until = time.monotonic() + 60 * given.minutes
    with tempfile.TemporaryDirectory(prefix="ragweir-kernel-") as folder:
        kernel = Kernel(Path(folder), cargo)
        if not (kernel.build() and kernel.passes()):
            print("the kernel does not build, or its tests fail without any change", file=sys.stderr)
            return 1
        for each in chosen:
            if time.monotonic() > until:
                break
            tried += 1
            path = kernel.sources / each.path
            before = path.read_text()
            path.write_text(each.apply(before))
            if kernel.build():
                passed = kernel.passes()
                survived, killed = survived + passed, killed + (not passed)
                if passed:
                    line = before.splitlines()[each.line].strip()
                    print(f"{each.path}:{each.line + 1}: {each.before.strip()} -> {each.after.strip()}: {line}")
                    sys.stdout.flush()
            path.write_text(before)
    print(f"{len(found)} mutations, {tried} tried: {killed} detected, {survived} survived, the others are no Rust")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
