"""The fleet: every slot of every service in a process of its own, started again when it ends, as Kubernetes does."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
REFUSED: Final = 2
"""The exit status of a worker that a restart would not help."""
COMMAND: Final = (sys.executable, "-P", "-m", "ragweir.streams.cli")
MUTANT: Final = (sys.executable, "-m", "chaos.mutant")
"""Before the mutant's name and the command line."""
_LOOK_S = 0.02
_FIRST_DELAY_S, _LAST_DELAY_S = 0.05, 2.0
_SETTLED_S = 5.0
_STOP_S = 20.0


class Slot:
    """One slot of one service.

    Args:
        service: its name.
        number: of the slot.
        prefix: of its topics.
        environment: its settings.
        log: where its log goes.
        command: what runs the command line.
    """

    def __init__(
        self,
        service: str,
        number: int,
        prefix: str,
        environment: Mapping[str, str],
        log: Path,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self.service, self.number, self.log = service, number, log
        self.member = f"{prefix}{service}-{socket.gethostname()}-{number}"
        """Its transactional id."""
        self.client = f"{prefix}{service}-{number}"
        """Its clients' id."""
        self.wanted = False
        self.process: subprocess.Popen[bytes] | None = None
        self.exits: Counter[int] = Counter()
        self._prefix, self._given = prefix, environment
        self._runs_by = tuple(command)
        self._environment = {
            **outer_environment(),
            **environment,
            # The proxy knows a connection by it.
            "RAGWEIR_KAFKA__CLIENT__CLIENT_ID": self.client,
        }
        self._delay = _FIRST_DELAY_S
        self._start_at = self._started_at = 0.0
        self._telemetry: tuple[int, str] | None = None

    def twin(self) -> Slot:
        """Return another slot with the same number, names and settings."""
        log = self.log.with_name(f"{self.log.stem}-twin.log")
        return Slot(self.service, self.number, self._prefix, self._given, log, self._runs_by)

    @contextmanager
    def run_by(self, command: Sequence[str]) -> Iterator[None]:
        """Let another program run the command line for the length of a `with` block, from its next start on."""
        before, self._runs_by = self._runs_by, tuple(command)
        try:
            yield
        finally:
            self._runs_by = before

    @property
    def name(self) -> str:
        """Service and number."""
        return f"{self.service} {self.number}"

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        process = self.process
        return process.pid if process is not None and process.poll() is None else None

    def tend(self) -> None:
        """Start it if it should run and does not."""
        now = time.monotonic()
        if self.process is not None and (status := self.process.poll()) is not None:
            self.exits[status] += 1
            self.process = None
            lived_long = now - self._started_at > _SETTLED_S
            self._delay = _FIRST_DELAY_S if lived_long else min(2 * self._delay, _LAST_DELAY_S)
            self._start_at = now + self._delay
        if self.wanted and self.process is None and now >= self._start_at:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*self._runs_by, self.service, "--slot", str(self.number)],
                    cwd=ROOT,
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            self._started_at = now

    def send(self, what: signal.Signals) -> bool:
        """Send a signal to the process that runs now; tells whether there is one."""
        process = self.process
        if process is None or process.poll() is not None:
            return False
        process.send_signal(what)
        return True

    def abandon(self) -> subprocess.Popen[bytes] | None:
        """Let another process be started in the place of the one that runs, which is given to the caller."""
        process, self.process, self._start_at = self.process, None, 0.0
        return process

    def logged(self, event: str) -> list[dict[str, Any]]:
        """The log lines with this text in their event."""
        try:
            whole, _, _ = self.log.read_text().rpartition("\n")  # The last line may be half written.
        except FileNotFoundError:
            return []
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if event in line["event"]]

    def sample(self, series: str) -> tuple[str, float] | None:
        """The process that shows it, by its address, and the value of one series; None while none answers."""
        pid = self.pid
        if pid is None:
            return None
        if self._telemetry is None or self._telemetry[0] != pid:
            started = [line for line in self.logged("started") if line.get("pid") == pid]
            if not started:
                return None
            self._telemetry = pid, started[-1]["telemetry"] + "/metrics"
        try:
            with urllib.request.urlopen(self._telemetry[1], timeout=2) as response:  # noqa: S310 (our own service)
                lines = [line.rpartition(" ") for line in response.read().decode().splitlines()]
        except (OSError, HTTPException):
            return None
        return f"{self.name} {pid}", next((float(value) for name, _, value in lines if name == series), 0.0)


class Fleet:
    """All slots, tended by a thread."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._tend, name="fleet", daemon=True)
        self._thread.start()

    def add(self, slot: Slot) -> Slot:
        """Run one more."""
        slot.wanted = True
        with self._lock:
            self.slots.append(slot)
        return slot

    def remove(self, slot: Slot) -> None:
        """End a slot, and forget it."""
        self.leave(slot)
        with self._lock:
            self.slots.remove(slot)
        if slot.send(signal.SIGKILL) and slot.process is not None:
            slot.process.wait()

    def of(self, service: str) -> list[Slot]:
        """The slots of a service that should run."""
        return [slot for slot in self.slots if slot.service == service and slot.wanted]

    def restart(self, slot: Slot, within_s: float = _STOP_S) -> None:
        """Stop a slot in order, and let it start again."""
        before = slot.process
        if slot.send(signal.SIGTERM) and before is not None:
            with suppress(subprocess.TimeoutExpired):
                before.wait(within_s)

    def leave(self, slot: Slot) -> None:
        """Stop a slot in order, for good or until `join`."""
        slot.wanted = False
        self.restart(slot)

    def join(self, slot: Slot) -> None:
        """Let a slot that left run again."""
        slot.wanted = True

    def stop(self) -> None:
        """End all, in order where they still listen."""
        for slot in self.slots:
            slot.wanted = False
            slot.send(signal.SIGCONT)
            slot.send(signal.SIGTERM)
        until = time.monotonic() + _STOP_S
        for slot in self.slots:
            process = slot.process
            if process is None:
                continue
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def close(self) -> None:
        """End all, and the thread."""
        self.stop()
        self._stop.set()
        self._thread.join()

    def refusals(self) -> dict[str, int]:
        """How often each slot ended with a status that says that people have to mend something."""
        return {slot.name: slot.exits[REFUSED] for slot in self.slots if slot.exits[REFUSED]}

    def _tend(self) -> None:
        while not self._stop.wait(_LOOK_S):
            with self._lock:
                slots = list(self.slots)
            for slot in slots:
                slot.tend()


def outer_environment() -> dict[str, str]:
    """Return this process's environment without settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAGWEIR_")}


def environment(bootstrap: str, prefix: str, client: Mapping[str, Any], **more: Any) -> dict[str, str]:
    """Settings of all slots, as their environment."""
    chosen = {
        "kafka__bootstrap_servers": bootstrap,
        "kafka__client": dict(client),
        "topics__prefix": prefix,
        "telemetry__port": 0,
        "windows__dimensions": ["application"],
        **more,
    }
    return {
        f"RAGWEIR_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in chosen.items()
    }
