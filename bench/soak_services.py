"""The soak's processes: every service as a user runs it, and what the kernel and their telemetry say of them."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

from ragweir.streams.playground.demo.scrape import ready
from ragweir.streams.playground.demo.services import last_words, settings_file
from ragweir.streams.playground.local.node import LOOPBACK
from ragweir.streams.settings import Settings
from ragweir.streams.supervisor import STOP_S, own_command

JUDGE = "simulated judge"
_START_S = 60.0
_TURN_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a process: resident memory, open handles, and CPU seconds so far."""

    rss_mib: float
    handles: int
    cpu_s: float


class SoakError(Exception):
    """The soak cannot go on; the message says why."""


class Process:
    """One slot of one service, or the simulated judge.

    Args:
        name: what it is called in the report.
        command: its command line.
        folder: where it runs and its log goes.
    """

    def __init__(self, name: str, command: Sequence[str], folder: Path) -> None:
        self.name = name
        self._log = folder / f"{name.replace(' ', '-')}.log"
        self._address = ""
        environment = {key: value for key, value in os.environ.items() if not key.upper().startswith("RAGWEIR_")}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise SoakError if it no longer runs: a soak of a service that was restarted would show nothing."""
        if (status := self._process.poll()) is not None:
            raise SoakError(f"{self.name} ended with status {status}. {last_words(self._log)}")

    @property
    def address(self) -> str:
        """Of its telemetry; empty until it has told."""
        if not self._address:
            whole, _, _ = self._log.read_text(encoding="utf-8", errors="replace").rpartition("\n")
            for line in whole.splitlines():
                with suppress(ValueError):
                    self._address = self._address or json.loads(line).get("telemetry", "").removeprefix("http://")
        return self._address

    def look(self) -> Look:
        """What the kernel says of it now."""
        self.check()
        place = Path("/proc") / str(self._process.pid)
        status = (place / "status").read_text().splitlines()
        kib = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        # Behind the command's name, which may hold anything: state is field 3, user and system time 14 and 15.
        times = (place / "stat").read_text().rpartition(")")[2].split()
        return Look(kib / 1024, len(list((place / "fd").iterdir())), (int(times[11]) + int(times[12])) / _TICKS)

    def series(self, *names: str) -> list[tuple[str, float]]:
        """The samples of these families that it shows now; none while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://{self.address}/metrics", timeout=2) as answer:
                lines = answer.read().decode().splitlines()
        except (OSError, HTTPException):
            return []
        wanted = tuple(f"{name}{end}" for name in names for end in ("{", " "))
        found = (line.rpartition(" ") for line in lines if line.startswith(wanted))
        return [(sample, float(value)) for sample, _, value in found]

    def lag(self) -> float:
        """Records of its inputs that it has not yet settled, as it says itself."""
        return sum(value for _, value in self.series("ragweir_lag"))

    def stop(self) -> None:
        """End it, in order if it listens."""
        self._process.terminate()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def simulated_judge(port: int, latency_ms: float, folder: Path) -> Iterator[Process]:
    """`ragweir simulate-judge` for the length of a block."""
    command = own_command("simulate-judge", "--port", str(port), "--latency-ms", str(latency_ms))
    judge = Process(JUDGE, command, folder)
    try:
        deadline = time.monotonic() + _START_S
        while not _answers(f"http://{LOOPBACK}:{port}/v1/models"):
            judge.check()
            if time.monotonic() > deadline:
                raise SoakError("the simulated judge does not come up")
            time.sleep(_TURN_S)
        yield judge
    finally:
        judge.stop()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except OSError:
        return False


@contextmanager
def services(settings: Settings, workers: int, folder: Path) -> Iterator[Mapping[str, Process]]:
    """Every service for the length of a block, from when all are ready: evaluate in so many slots, one of each other.

    Raises:
        SoakError: if one does not come up.
    """
    file = folder / "ragweir.toml"
    file.write_text(settings_file(settings), encoding="utf-8")
    slots = [("evaluate", slot) for slot in range(workers)] + [(name, 0) for name in ("judge", "aggregate", "export")]
    processes: dict[str, Process] = {}
    try:
        for name, slot in slots:
            command = own_command("--config", str(file), name, "--slot", str(slot))
            told = f"{name} {slot}" if name == "evaluate" and workers > 1 else name
            processes[told] = Process(told, command, folder)
        deadline = time.monotonic() + _START_S
        while waiting := [each for each in processes.values() if not (each.address and ready(each.address))]:
            for each in waiting:
                each.check()
            if time.monotonic() > deadline:
                raise SoakError(f"not ready after {_START_S:.0f} s: {', '.join(each.name for each in waiting)}")
            time.sleep(_TURN_S)
        yield processes
    finally:
        for process in processes.values():
            process.stop()


@dataclass(slots=True)
class Seen:
    """What was measured while the rate was steady: per look its time, and per process what was found."""

    began: float = 0.0
    ended: float = 0.0
    at: list[float] = field(default_factory=list)
    looks: dict[str, list[Look]] = field(default_factory=lambda: defaultdict(list))
    lags: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    closed_at: dict[float, float] = field(default_factory=dict)
    """When the exporter first showed the window that ended then."""
