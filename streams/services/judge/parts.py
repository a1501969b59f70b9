"""Optional parts of the judge agent: the limits that its last process used up, and its ledger as a proof."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from pydantic import ValidationError
from typing_extensions import override

from ragweir.errors import Rejected
from ragweir.schemas.judging import LedgerEntry
from ragweir.streams.runtime.agent_parts import Origin, Preparation, Recovery
from ragweir.streams.runtime.records import EventPosition, Record
from ragweir.streams.services.judge.held_requests import read_request
from ragweir.streams.services.judge.rate_ledger import RateLedger


class JudgePreparation(Preparation):
    """Finds the rate limits that the last process of the slot has used up."""

    def __init__(self, rates: RateLedger | None) -> None:
        self._rates = rates

    @override
    def on_member(self, member: str) -> None:
        if self._rates:
            self._rates.on_member(member)


class JudgeRecovery(Recovery):
    """Proves by the ledger that requests were finished."""

    outputs = ("judge.ledger",)

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    @override
    def origins(self, output: Record) -> Iterator[Origin]:
        """Return the finished requests that a record of the ledger lists."""
        with suppress(ValidationError):
            for each in LedgerEntry.model_validate_json(output.value or b"").finished:
                yield Origin((each.topic, each.partition), (each.offset, 0), each.event_id, each.topic_id)

    @override
    def identities(self, record: Record) -> Iterator[tuple[EventPosition, str]]:
        """Return the id of the event of a request."""
        with suppress(Rejected):
            yield (record.offset, 0), read_request(record, self._max_bytes).evaluation.event_id

    @override
    def replay_command(self, topic: str, first: int, end: int) -> str:
        """Return the command that judges all interactions in a separate run with a separate budget."""
        return "ragweir replay --run-id judged-again --judge budget --budget DOLLARS"
