"""A child process with a log file, that ends when this process ends, however that happens."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ragweir.errors import LocalServerError, RagweirError
from ragweir.streams.runtime.machine import machine

# Reads a pipe that only this process holds open: when this process ends, the pipe does.
# Linux's own parent-death signal would fire with the thread, not the process, that started the child.
_WATCHDOG = 'read -r _; kill -9 "$1"; test -z "$2" || rm -rf -- "$2"'
_LAST_LINES = 15
_POLL_SECONDS = 0.05


class LocalProcess:
    """A running program. Ctrl-C in a terminal does not reach it, as it runs in another session.

    Args:
        command: its command line.
        log: the file that its output is appended to.
        folder: the folder to run in.
        environment: its environment variables; those of this process by default.
        temporary: a folder to remove if this process is killed.
        stop_seconds: time that it has to end after SIGTERM.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        folder: Path,
        environment: Mapping[str, str] | None = None,
        temporary: Path | None = None,
        stop_seconds: float = 20,
    ) -> None:
        self.log, self._stop_seconds = log, stop_seconds
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHDOG, "sh", str(self._process.pid), str(temporary or "")],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def wait_until_ready(self, name: str, ready: Callable[[], object], seconds: float) -> None:
        """Wait until `ready` returns true. An OSError of it means that nothing answers yet.

        Raises:
            LocalServerError: the program ended before, with its last log lines, or is not ready in time.
        """

        def answers() -> object:
            with suppress(OSError):
                return ready()
            return False

        def check() -> None:
            if self.status is not None:
                raise LocalServerError(f"{name} ended before it was ready. {last_lines(self.log)}")

        wait_until(answers, check, seconds, LocalServerError(f"{name} runs but is not ready after {seconds:.0f} s."))

    def stop(self) -> int:
        """Send SIGTERM, kill the process if it takes too long, and return its exit status."""
        self._process.terminate()
        try:
            self._process.wait(self._stop_seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._wait()

    def kill(self) -> int:
        """Send SIGKILL, and return the exit status."""
        self._process.kill()
        return self._wait()

    def _wait(self) -> int:
        status = self._process.wait()
        self._watchdog.kill()  # Before its pipe is closed: it must not kill another process with the same id.
        self._watchdog.communicate()
        return status


@contextmanager
def running(process: LocalProcess) -> Iterator[LocalProcess]:
    """Stop a process at the end of a `with` block."""
    try:
        yield process
    finally:
        process.stop()


def last_lines(log: Path) -> str:
    """Return the last lines of a log, introduced."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-_LAST_LINES:]
    return "It logged last:\n" + "\n".join(lines) if lines else "It logged nothing."


def wait_until(ready: Callable[[], object], check: Callable[[], None], seconds: float, late: RagweirError) -> None:
    """Wait until `ready` returns true.

    Args:
        ready: is called again and again.
        check: raises an error if there is nothing to wait for any more.
        seconds: the longest wait.
        late: is raised after it.
    """
    deadline = machine.monotonic() + seconds
    while not ready():
        check()
        if machine.monotonic() > deadline:
            raise late
        machine.sleep(_POLL_SECONDS)
