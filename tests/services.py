"""Processes of ragweir that tests start, and what they say."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from confluent_kafka import KafkaException

from chaos.broker import QUICK_CLIENT
from chaos.process import Process, ask, samples, variables
from chaos.waiting import require

CLI = ("-m", "ragweir.streams.commands")
_PATIENCE_S = 120.0
Answer = TypeVar("Answer")


def eventually(ask: Callable[[], Answer], what: str) -> Answer:
    """Ask until the answer is true, and give it; fail when it never is. A broker that cannot tell is asked again."""
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            if answer := ask():
                return answer
        time.sleep(0.02)
    pytest.fail(f"in {_PATIENCE_S:.0f} s it never came to this: {what}")


def until(condition: Callable[[], object], within_s: float = 30) -> None:
    """Wait until something within this process is true."""
    require(condition, within_s, "it never came to this", 0.002)


class Service(Process):
    """A process that runs a command of ragweir, supervised (`--workers`) or one slot of it, and what it logs."""

    process: subprocess.Popen[bytes]

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        super().__init__(log, environment)
        self.run([sys.executable, *arguments])

    def pid(self, slot: int) -> int:
        """The process of a slot, once it has started anew."""
        return int(eventually(lambda: self.logged("started", slot=slot), f"slot {slot} started")[-1]["pid"])

    def ended(self, within_s: float = _PATIENCE_S) -> int:
        """Wait for its end; gives the exit status."""
        return self.process.wait(within_s)

    def stop(self, within_s: float = _PATIENCE_S) -> int:
        """SIGTERM, and wait for its end."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended(within_s)

    def asked(self, path: str, slot: int = 0) -> tuple[int, str]:
        """The status and text of a path of a slot's telemetry; (0, "") while nothing listens."""
        return ask(self.address(slot=slot), path)

    def sample(self, series: str, slot: int = 0) -> float:
        """The value of one series of a slot's telemetry; 0 when it is not there."""
        return samples(self.asked("/metrics", slot)[1]).get(series, 0.0)


def end_all(services: Sequence[Service]) -> None:
    """End every service, also one that is stopped or does not listen, and print what each logged last."""
    running = [service for service in services if service.process.poll() is None]
    for service in running:
        service.send(signal.SIGCONT)
        service.send(signal.SIGTERM)
    for number, service in enumerate(services):
        try:
            service.ended(15)
        except subprocess.TimeoutExpired:
            service.process.kill()
            service.ended()
        print(f"-- log of service {number}", service.log.read_text()[-6000:], sep="\n")


class Services(list[Service]):
    """Processes that have all ended when the test has."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def start(self, *words: str, variables: Mapping[str, str], before: Sequence[str] = CLI, log: str = "") -> Service:
        """Start a command of ragweir, by its command line or another program's in place of it."""
        file = self._folder / f"{log or len(self)}.log"
        self.append(Service([*before, *words], file, variables))
        return self[-1]


def quick(bootstrap: str, prefix: str, **settings: Any) -> dict[str, str]:
    """Settings as environment variables, with short timeouts and any free port."""
    own: dict[str, Any] = {
        "kafka__bootstrap_servers": bootstrap,
        "kafka__client": QUICK_CLIENT,
        "topics__prefix": prefix,
    }
    return variables(**{**own, "topics__prefix": prefix, "telemetry__port": 0, **settings})
