"""Runs ragweir's command line with a wall clock that is ahead by the seconds in a file: `shifted_clock.py FILE ...`."""

import runpy
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    file, real = Path(sys.argv.pop(1)), time.time
    # Before anything of ragweir is imported, since some of it keeps the function.
    time.time = lambda: real() + float(file.read_text() or "0")
    runpy.run_module("ragweir.streams.cli", run_name="__main__")
