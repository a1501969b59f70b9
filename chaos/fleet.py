"""The fleet: a process of every slot of every service, restarted when it ends, as Kubernetes does."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from chaos.process import Process, ask, samples, variables
from ragweir.errors import DO_NOT_RESTART
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.processes.supervisor import own_command
from ragweir.streams.services.judge.probe import SIMULATED

COMMAND: Final = tuple(own_command())
MUTANT: Final = tuple(python_command("-m", "chaos.mutants"))
"""The command that runs a mutant, before its name and the command line of the service."""
_CHECK_S = 0.02
_FIRST_DELAY_S, _LAST_DELAY_S = 0.05, 2.0
_STABLE_S = 5.0
"""Lifetime of a process after which its restart is no longer delayed more than the first one."""
_STOP_S, _ANSWER_S = 20.0, 2.0


class Slot(Process):
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
        self.client = f"{prefix}{service}-{number}"
        """Its clients' id, by which the proxy identifies a connection."""
        super().__init__(log, {**environment, "RAGWEIR_KAFKA__CLIENT__CLIENT_ID": self.client})
        self.service, self.number = service, number
        self.name = f"{service} {number}"
        self.member = Identity(service, number, prefix).member
        """Its transactional id."""
        self.wanted = False
        self.abandoned: list[subprocess.Popen[bytes]] = []
        self.exits: Counter[int] = Counter()
        self.command = tuple(command)
        """Command that its next process is started with."""
        self._prefix = prefix
        self._delay = _FIRST_DELAY_S
        self._start_at = self._started_at = 0.0
        self._telemetry: dict[int | None, str] = {}

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
            self.run([*self.command, self.service, "--slot", str(self.number)])
            self._started_at = now

    def abandon(self) -> None:
        """Start another process although the current one runs, which is no longer this slot's."""
        if self.process is not None:
            self.abandoned.append(self.process)
        self.process, self._start_at = None, 0.0

    @property
    def assignments(self) -> int:
        """Number of times that partitions were assigned to its processes."""
        return len(self.logged("partitions assigned"))

    def fetch(self, path: str) -> str | None:
        """Return the text at a path of its telemetry; None if nothing answers, or not with status 200."""
        pid = self.pid
        if not self._telemetry.get(pid):
            self._telemetry[pid] = self.address(pid=pid)
        status, text = ask(self._telemetry[pid], path, _ANSWER_S)
        return text if status == 200 else None

    def samples(self) -> dict[str, float]:
        """Return the samples of its telemetry by series; empty if nothing answers."""
        return samples(self.fetch("/metrics") or "")


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
    prices = {SIMULATED: {"input_usd": 1, "output_usd": 1, "cached_usd": 0.5}}
    return {
        "judge__base_url": url,
        "judge__api_key": "none",
        "judge__model": SIMULATED,
        "judge__prices": prices,
        **more,
    }
