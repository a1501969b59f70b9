"""Feedback as a part of a run: the settings of match, tally and anchors, and the faults of their topics and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.cimpl import NewPartitions

from chaos.anchors import write_anchors
from chaos.broker import Cluster
from chaos.checker import Checker
from chaos.feedback_checker import GROWING
from chaos.feedback_events import KEY, FeedbackSender
from chaos.topics import CALL_S, wait_for_partitions

FEEDBACK = ("match", "tally")
"""The services that faults are aimed at besides those of every run."""


def feedback_settings(store: Path, anchors: Path) -> Mapping[str, object]:
    """Write the file of anchors, and return the settings of a run with feedback.

    Args:
        store: the folder of the store of answers.
        anchors: the file.
    """
    write_anchors(anchors)
    return {"feedback__folder": str(store), "labels__key": KEY, "judge__anchor_file": str(anchors)}


@dataclass(frozen=True, slots=True)
class FeedbackFaults:
    """The parts of a run that faults of feedback are injected into."""

    cluster: Cluster
    prefix: str
    sender: FeedbackSender
    checker: Checker
    store: Path
    """The folder of the store of answers."""

    def grow(self) -> None:
        """Add a partition to the topics of feedback, as `ragweir topics grow` does while match is stopped."""
        self.sender.grow(self._grow_to)

    def _grow_to(self, partitions: int) -> None:
        admin = self.cluster.admin()
        for topic in (self.prefix + name for name in GROWING):
            admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(CALL_S)
            wait_for_partitions(self.cluster.direct, topic, partitions)
        self.checker.feedback_grown(partitions)

    def lose_store(self) -> None:
        """Delete the files of the store."""
        for file in self.store.glob("*.sqlite*"):
            file.unlink(missing_ok=True)
