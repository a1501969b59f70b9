"""What travels for the judge: requests, and the ledger of what judging may cost and has cost."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, NamedTuple

import orjson
from pydantic import NonNegativeInt

from ragweir.schemas.evaluation import Evaluation, RecordPosition
from ragweir.schemas.interaction import RecordPart, Time


class JudgeRequest(RecordPart):
    """One event to be judged by all suites that its evaluation's decision selects."""

    evaluation: Evaluation
    """The scored evaluation; the judged one repeats it."""
    query: str
    response: str
    contexts: tuple[str, ...] | None = None
    expected: tuple[str, ...] | None = None
    requested_at: Time | None = None
    """When it was first asked for; None on the first request, whose record's own time it is."""
    not_before: Time | None = None
    """When its waiting ends; only on requests that wait."""
    attempts: NonNegativeInt = 0
    """How many times judging it was given up because calls failed."""
    why: str = ""
    """Why it waits, or waited last."""


class Finished(RecordPosition):
    """A request that is finished, as all before it in its partition are."""

    omitted_values: ClassVar[Mapping[str, object]] = {"topic_id": ""}

    event_id: str
    topic_id: str = ""
    """Kafka's id of the topic. Absent where it is not known, as in records of release 0.1.0."""


class LedgerEntry(RecordPart):
    """What judging the events of one application and tenant cost on one day (UTC), in one input partition.

    Amounts are in millionths of a dollar. The latest record of a key is what counts.
    """

    day: str
    application: str
    """Empty for all applications without a budget of their own."""
    tenant: str
    """Empty for all tenants without a budget of their own."""
    partition: int
    spent: NonNegativeInt = 0
    reserved: NonNegativeInt = 0
    """What the calls under way may still cost. After a crash it counts as spent."""
    events: NonNegativeInt = 0
    """How many were judged."""
    wanted: NonNegativeInt = 0
    """How many asked to be judged for the first time, those too for which there was no money."""
    floor: NonNegativeInt = 0
    """How many of these only a random floor had chosen."""
    finished: tuple[Finished, ...] = ()
    """Of each topic of requests the last that was finished when this was written, whatever account it belongs to."""
    shares: NonNegativeInt | None = None
    """The number of equal shares of the day's budgets, only in the entry of `shares_entry`."""

    omitted_values: ClassVar[Mapping[str, object]] = {"shares": None}


_SHARES = " shares"


def shares_entry(day: str, shares: int) -> LedgerEntry:
    """Return the entry that says into how many shares the budgets of a day are divided. It stands in partition 0.

    What stands for its day belongs to no day, so that readers that do not know it leave it out of all sums.

    >>> ledger_key(shares_entry("2026-11-21", 6))
    b'["2026-11-21 shares","","",0]'
    """
    return LedgerEntry(day=f"{day}{_SHARES}", application="", tenant="", partition=0, shares=shares)


def shares_of(entry: LedgerEntry) -> tuple[str, int] | None:
    """Return the day and the number of its shares that an entry says; None for an entry of costs.

    >>> shares_of(shares_entry("2026-11-21", 6))
    ('2026-11-21', 6)
    """
    return None if entry.shares is None else (entry.day.removesuffix(_SHARES), entry.shares)


class LedgerKey(NamedTuple):
    """The key of a ledger's record: of the records with one key only the latest counts."""

    day: str
    application: str
    tenant: str
    partition: int


def ledger_key(entry: LedgerEntry) -> bytes:
    """Write the key of an entry.

    >>> ledger_key(LedgerEntry(day="2026-11-21", application="bot", tenant="", partition=3))
    b'["2026-11-21","bot","",3]'
    """
    return orjson.dumps([entry.day, entry.application, entry.tenant, entry.partition])


CLOCK_KEY = b'["","","",0]'
"""The key of records without a value that a worker writes to learn the brokers' time: no account is of no day."""


def parse_ledger_key(key: bytes | None) -> LedgerKey:
    """Read the key of a ledger's record.

    Raises:
        ValueError: if it is none.
    """
    with suppress(ValueError):
        match orjson.loads(key or b""):
            case [day, application, tenant, partition]:
                return LedgerKey(day, application, tenant, partition)
    raise ValueError("not the key of a ledger's entry")
