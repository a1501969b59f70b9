"""A broker that stands still: services that are told to stop end within the time that Kubernetes grants a pod."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import ROOT
from conftest import QUICK_BROKER, coordinated, create_topic
from faults import Traffic, environment, gone
from services import Services, eventually

from ragweir.streams.playground.local.kafka import LocalKafka, local_kafka
from ragweir.streams.runtime.processes.supervisor import STOP_SECONDS

GRACE_S = min(
    int(found)
    for file in (ROOT / "deploy" / "kubernetes").glob("*.yaml")
    for found in re.findall(r"terminationGracePeriodSeconds: (\d+)", file.read_text())
)
"""The shortest time in seconds that a manifest grants a slot; without one Kubernetes grants 30."""
SLOTS = ("evaluate", "aggregate", "export")


class Frozen:
    """A broker and its process, found by the folder in which it works."""

    def __init__(self, broker: LocalKafka, folder: Path) -> None:
        self.broker = broker
        self._pid = next(
            int(each.name)
            for each in Path("/proc").glob("[0-9]*")
            if b"kafka.Kafka" in (each / "cmdline").read_bytes() and (each / "cwd").readlink() == folder
        )

    def freeze(self) -> None:
        """Stop the process as a machine that stands still does: connections stay open and nothing answers."""
        os.kill(self._pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let the process go on, and wait until it answers."""
        os.kill(self._pid, signal.SIGCONT)
        coordinated(self.broker.bootstrap)


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Frozen]:
    """A broker of this module's own, which runs until it is frozen."""
    folder = tmp_path_factory.mktemp("kafka")
    with local_kafka(folder=folder, properties=QUICK_BROKER) as broker:
        own = Frozen(broker, folder)
        try:
            yield own
        finally:
            own.thaw()


LONG = (pytest.param(moment, marks=pytest.mark.long) for moment in ("at rest", "at its start"))


@pytest.mark.heavy
@pytest.mark.parametrize("moment", ["at work", *LONG])
def test_a_stop_ends_in_time_while_the_broker_stands_still(
    frozen: Frozen, prefix: str, services: Services, moment: str
) -> None:
    """SIGTERM ends `ragweir up` with all of its workers, and each slot without a supervisor, within the grace."""
    supervised, alone = (Traffic(frozen.broker.bootstrap, f"{kind}.{prefix}") for kind in ("up", "slots"))
    for traffic in (supervised, alone):
        create_topic(traffic.bootstrap, f"{traffic.prefix}windows", 4)
        if moment == "at work":
            traffic.publish(5_000)
    if moment == "at its start":
        frozen.freeze()
    commands = [(supervised, ["up"])] + [(alone, [name, "--slot", "0"]) for name in SLOTS]
    try:
        for traffic, words in commands:
            services.start(*words, variables=environment(traffic))
        started = len(SLOTS), *(1 for _ in SLOTS)
        for service, number in zip(services, started, strict=True):
            eventually(lambda of=service, all_=number: len(of.logged("started")) == all_, "it has started")
        if moment != "at its start":
            for traffic in (supervised, alone):
                eventually(lambda of=traffic: moment == "at rest" or of.committed(), "it works")
                eventually(lambda of=traffic: len(of.held()) == 1, "it is a member of its group")
            frozen.freeze()
        began = time.monotonic()
        for service in services:
            service.send(signal.SIGTERM)
        took = []
        for service in services:
            service.ended(3 * GRACE_S)
            took.append(time.monotonic() - began)
        assert took[0] < STOP_SECONDS + 2, "the supervisor does not wait for longer than it grants its workers"
        assert max(took) < GRACE_S, dict(zip(("up", *SLOTS), took, strict=True))
        assert all(gone(line["pid"]) for service in services for line in service.logged("started"))
    finally:
        frozen.thaw()
