"""What travels for the judge: requests, and the ledger of what judging may cost and has cost."""

from __future__ import annotations

from typing import Any

from pydantic import NonNegativeInt

from ragweir.schemas.evaluation import Evaluation, Source
from ragweir.schemas.interaction import Part, Time


class JudgeRequest(Part):
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


class Finished(Source):
    """A request that is finished, as all before it in its partition are."""

    event_id: str


class LedgerEntry(Part):
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


def ledger_key(entry: LedgerEntry) -> list[Any]:
    """What the key of a ledger's record holds."""
    return [entry.day, entry.application, entry.tenant, entry.partition]
