"""Runs the Python blocks of a page in one process, so that names last from one block to the next."""

import json
import select
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LOOP: Final = """
import contextlib, json, linecache, sys, traceback
scope = {"__name__": "__main__"}
for line in sys.stdin:
    text, page, start = json.loads(line)
    whole = "\\n" * start + text
    linecache.cache[page] = len(whole), None, whole.splitlines(keepends=True), page
    failed = ""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            if ">>> " in text:
                import doctest
                flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
                test = doctest.DocTestParser().get_doctest(text, scope, page, page, start)
                told = []
                doctest.DocTestRunner(optionflags=flags).run(test, out=told.append, clear_globs=False)
                scope.update(test.globs)
                failed = "".join(told)
            else:
                exec(compile(whole, page, "exec"), scope)
        except BaseException:
            failed = traceback.format_exc()
    print(json.dumps(failed), flush=True)
"""


class PythonProcess:
    """A process that runs one block after another. What blocks print goes to the tests' standard error."""

    def __init__(self, folder: Path, variables: Mapping[str, str], seconds: float) -> None:
        self._seconds = seconds
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _LOOP],
            cwd=folder,
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, text: str, page: str, line: int) -> str:
        """Run a block whose fence is at this line, by doctest if it has prompts; give its traceback, or nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps([text, page, line]) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return "its process has ended"
        if not select.select([self._process.stdout], [], [], self._seconds)[0]:
            return f"it did not end in {self._seconds} s"
        answer = self._process.stdout.readline()
        return json.loads(answer) if answer else "its process has ended"

    def close(self) -> None:
        """End the process."""
        with self._process:  # closes its pipes, and waits
            self._process.kill()
