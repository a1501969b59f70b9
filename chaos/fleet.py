"""The fleet: a process of every slot of every service, restarted when it ends, as Kubernetes does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from ragweir.errors import DO_NOT_RESTART
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.supervisor import own_command
from ragweir.streams.services.judge.probe import SIMULATED

ROOT: Final = Path(__file__).parent.parent
COMMAND: Final = tuple(own_command())
MUTANT: Final = tuple(python_command("-m", "chaos.mutants"))
"""The command that runs a mutant, before its name and the command line of the service."""
_CHECK_S = 0.02
_FIRST_DELAY_S, _LAST_DELAY_S = 0.05, 2.0
_STABLE_S = 5.0
"""Lifetime of a process after which its restart is no longer delayed more than the first one."""
_STOP_S = 20.0


class Slot:
    """One slot of one service, with its settings as environment variables."""

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
        self.name = f"{service} {number}"
        self.member = Identity(service, number, prefix).member
        """Its transactional id."""
        self.client = f"{prefix}{service}-{number}"
        """Its clients' id, by which the proxy identifies a connection."""
        self.wanted = False
        self.process: subprocess.Popen[bytes] | None = None
        self.abandoned: list[subprocess.Popen[bytes]] = []
        self.exits: Counter[int] = Counter()
        self.command = tuple(command)
        """Command that its next process is started with."""
        self._prefix = prefix
        self._environment = {**environment, "RAGWEIR_KAFKA__CLIENT__CLIENT_ID": self.client}
        self._delay = _FIRST_DELAY_S
        self._start_at = self._started_at = 0.0
        self._telemetry: tuple[int, str] = -1, ""

    def twin(self) -> Slot:
        """Return another slot with the same number, names and settings."""
        log = self.log.with_name(f"{self.log.stem}-twin.log")
        return Slot(self.service, self.number, self._prefix, self._environment, log, self.command)

    @property
    def pid(self) -> int | None:
        """Id of the running process; None if there is none."""
        process = self.process
        return process.pid if process is not None and process.poll() is None else None

    def keep_running(self) -> None:
        """Start its process if it should run and does not."""
        now = time.monotonic()
        if self.process is not None and (status := self.process.poll()) is not None:
            self.exits[status] += 1
            self.process = None
            stable = now - self._started_at > _STABLE_S
            self._delay = _FIRST_DELAY_S if stable else min(2 * self._delay, _LAST_DELAY_S)
            self._start_at = now + self._delay
        if self.wanted and self.process is None and now >= self._start_at:
            with self.log.open("ab") as log:
                self.process = subprocess.Popen(
                    [*self.command, self.service, "--slot", str(self.number)],
                    cwd=ROOT,
                    env={**clean_environment(), **self._environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            self._started_at = now

    def send(self, what: signal.Signals) -> bool:
        """Send a signal to the running process; return False if there is none."""
        process = self.process
        if process is None or process.poll() is not None:
            return False
        process.send_signal(what)
        return True

    def abandon(self) -> None:
        """Start another process although the current one runs, which is no longer this slot's."""
        if self.process is not None:
            self.abandoned.append(self.process)
        self.process, self._start_at = None, 0.0

    def logged(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines that have this text in their event."""
        try:
            whole, _, _ = self.log.read_text().rpartition("\n")  # The last line may be half written.
        except FileNotFoundError:
            return []
        lines = [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
        return [line for line in lines if event in line["event"]]

    @property
    def assignments(self) -> int:
        """Number of times that partitions were assigned to its processes."""
        return len(self.logged("partitions assigned"))

    def fetch(self, path: str) -> str | None:
        """Return the text at a path of its telemetry; None if nothing answers, or not with status 200."""
        pid = self.pid
        if self._telemetry[0] != pid:
            started = [line for line in self.logged("started") if line.get("pid") == pid]
            if pid is None or not started:
                return None
            self._telemetry = pid, started[-1]["telemetry"]
        try:
            with urllib.request.urlopen(self._telemetry[1] + path, timeout=2) as response:  # noqa: S310 (our own service)
                return str(response.read().decode())
        except (OSError, HTTPException):
            return None

    def samples(self) -> dict[str, float]:
        """Return the samples of its telemetry by series; empty if nothing answers."""
        lines = (
            line.rpartition(" ") for line in (self.fetch("/metrics") or "").splitlines() if line and line[0] != "#"
        )
        return {series: float(value) for series, _, value in lines}


class Fleet:
    """All slots, kept running by a thread."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._keep_running, name="fleet", daemon=True)
        self._thread.start()

    def add(self, slot: Slot) -> Slot:
        """Run a further slot."""
        slot.wanted = True
        with self._lock:
            self.slots.append(slot)
        return slot

    def remove(self, slot: Slot) -> None:
        """Stop a slot, and forget it."""
        self.leave(slot)
        with self._lock:
            self.slots.remove(slot)
        if slot.send(signal.SIGKILL) and slot.process is not None:
            slot.process.wait()

    def of(self, service: str) -> list[Slot]:
        """Return the slots of a service that should run."""
        return [slot for slot in self.slots if slot.service == service and slot.wanted]

    def restart(self, slot: Slot) -> None:
        """Stop a slot with SIGTERM; it is started again if it is wanted."""
        before = slot.process
        if slot.send(signal.SIGTERM) and before is not None:
            with suppress(subprocess.TimeoutExpired):
                before.wait(_STOP_S)

    def leave(self, slot: Slot) -> None:
        """Stop a slot until it is wanted again."""
        slot.wanted = False
        self.restart(slot)

    def close(self) -> None:
        """Stop the thread, then all slots, with SIGKILL if SIGTERM does not do."""
        self._stop.set()
        self._thread.join()  # Or it starts a process that nobody ends.
        for slot in self.slots:
            slot.wanted = False
            slot.send(signal.SIGCONT)
            slot.send(signal.SIGTERM)
            for abandoned in slot.abandoned:
                abandoned.kill()
                abandoned.wait()
        until = time.monotonic() + _STOP_S
        for process in [slot.process for slot in self.slots if slot.process is not None]:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def fatal_exits(self) -> dict[str, int]:
        """Return how often each slot ended with the status for errors that a restart does not resolve."""
        return {slot.name: slot.exits[DO_NOT_RESTART] for slot in self.slots if slot.exits[DO_NOT_RESTART]}

    def _keep_running(self) -> None:
        while not self._stop.wait(_CHECK_S):
            with self._lock:
                slots = list(self.slots)
            for slot in slots:
                slot.keep_running()


def clean_environment() -> dict[str, str]:
    """Return this process's environment without ragweir's settings."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAGWEIR_")}


def variables(**settings: Any) -> dict[str, str]:
    """Return settings as environment variables.

    >>> variables(topics__prefix="rag.", judge__prices={"m": 1})
    {'RAGWEIR_TOPICS__PREFIX': 'rag.', 'RAGWEIR_JUDGE__PRICES': '{"m": 1}'}
    """
    return {
        f"RAGWEIR_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
        for name, value in settings.items()
    }


def environment(bootstrap: str, prefix: str, client: Mapping[str, Any], **more: Any) -> dict[str, str]:
    """Return the settings that all slots share, as environment variables."""
    return variables(
        kafka__bootstrap_servers=bootstrap,
        kafka__client=dict(client),
        topics__prefix=prefix,
        telemetry__port=0,
        windows__dimensions=["application"],
        **more,
    )


def judge_settings(url: str, **more: object) -> dict[str, object]:
    """Return settings of a simulated judge whose tokens cost a millionth of a dollar each."""
    prices = {SIMULATED: {"input_usd": 1, "output_usd": 1}}
    return {
        "judge__base_url": url,
        "judge__api_key": "none",
        "judge__model": SIMULATED,
        "judge__prices": prices,
        **more,
    }
