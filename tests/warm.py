"""Runs ragweir's commands, each in a process of its own that is forked from this one, which has imported everything.

Half of the time of the tests went into importing the same modules hundreds of times. One line of JSON on standard input
is a command: its arguments, folder, environment, and the files that are its standard input, output and error. One line
on standard output is the exit status that it came to, as `subprocess` has it.
"""

import json
import os
import sys
from importlib import import_module

MODULES = (
    *(
        f"commands.{name}"
        for name in ("dead_letter", "doctor", "explain", "metrics", "publish", "replay", "runs", "score")
    ),
    *("commands.services", "commands.slo", "commands.tap", "runtime.processes.logs", "settings"),
    # Services import these when they start.
    *("services.aggregate.agent", "services.join.agent", "services.key.agent", "services.evaluate.agent"),
    *("services.evaluate.routing", "services.judge.agent", "services.judge.day_shares", "services.judge.pool"),
    *(
        "services.judge.redaction",
        "services.export.prometheus_exporter",
        "traces.otlp_results",
        "runtime.loop.projection_runtime",
    ),
)


def command(arguments: list[str], folder: str, environment: dict[str, str], files: list[str]) -> None:
    """Become the process of a command."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, (file, flags) in enumerate(zip(files, (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)):
        os.dup2(os.open(file, flags), number)
    sys.stdin, sys.stdout = os.fdopen(0, encoding="utf-8"), os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace")
    sys.argv = ["ragweir", *arguments]


def serve() -> None:
    """Run commands until standard input ends; returns in the process of each command."""
    line = b""
    while read := os.read(0, 1 << 16):
        line += read
        if not line.endswith(b"\n"):
            continue
        child = os.fork()
        if child == 0:
            return command(**json.loads(line))
        line = b""
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


if __name__ == "__main__":
    for module in MODULES:
        import_module(f"ragweir.streams.{module}")
    serve()
    from ragweir.streams.commands import main

    main()
