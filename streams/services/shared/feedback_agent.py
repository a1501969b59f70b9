"""The parts that the agents of feedback share: rejection of records, dead letters, and counts."""

from __future__ import annotations

from abc import abstractmethod

from typing_extensions import override

from ragweir.errors import ErrorClass
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Source
from ragweir.schemas.feedback import ReceivedFeedback, UnmatchedFeedback, received_time
from ragweir.streams.runtime.agent import Agent
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Emission, Headers, Outcome, Record
from ragweir.streams.services.shared.feedback_names import FeedbackNames

UNMATCHED = "feedback.unmatched"


class FeedbackAgent(Agent):
    """An agent that reads feedback, and writes records of which it makes nothing to `feedback.unmatched`.

    Args:
        service: the name of the service, for headers.
    """

    def __init__(self, service: str) -> None:
        self._service, self._names = service, FeedbackNames()

    @abstractmethod
    def unmatched_key(self, record: Record) -> bytes | None:
        """Return the key under which a record is unmatched."""

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as unmatched; see `Agent.dead_letter`."""
        outcome = Outcome(settled=[record])
        outcome.counts["ragweir_events_in_total",] += 1
        self.reject(record, error_class, reason, outcome)
        return outcome

    def reject(self, record: Record, error_class: ErrorClass, message: str, outcome: Outcome) -> None:
        """Write a record that is no feedback, without its content."""
        unmatched = UnmatchedFeedback(
            error_class=error_class,
            message=message,
            source=source_of(record),
            received=received_time(record.timestamp_ms),
            length=len(record.value or b""),
        )
        self.add_unmatched(self.unmatched_key(record), unmatched, "", outcome)

    def add_unmatched(self, key: bytes | None, unmatched: UnmatchedFeedback, name: str, outcome: Outcome) -> None:
        """Add feedback that is joined to no answer, of a name; empty if it has none."""
        headers = self.headers("unmatched_feedback", unmatched)
        outcome.emissions.append(Emission(UNMATCHED, key, encode(unmatched), headers))
        self.count(name, f"unmatched_{unmatched.error_class}", outcome)

    def count(self, name: str, result: str, outcome: Outcome) -> None:
        """Count feedback by its name and what became of it."""
        outcome.counts["ragweir_feedback_total", self._names.known(name), result] += 1

    def headers(self, kind: str, record: ReceivedFeedback | UnmatchedFeedback) -> Headers:
        """Return the headers of a record, whose identity is the position of the feedback."""
        source = record.source
        identity = f"{source.topic}/{source.partition}/{source.offset}"
        return cloud_event(self._service, kind, identity, record.received, "application/json")


def source_of(record: Record) -> Source:
    """Return the position of a record."""
    return Source.trusted({"topic": record.topic, "partition": record.partition, "offset": record.offset, "index": 0})
