"""Records of judging: requests, and the ledger of their cost."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, NamedTuple

import orjson
from pydantic import FiniteFloat, NonNegativeInt

from ragweir.schemas.evaluation import Evaluation, RecordPosition
from ragweir.schemas.interaction import RecordPart, Time

ANCHORS = " anchors"
"""The application of the ledger's account of anchors."""


class AnchorRun(RecordPart):
    """One run of one anchor: an answer that people have labelled is judged again."""

    anchors: str
    """Digest of the anchors with all that their verdicts depend on: question, threshold, model and suite version."""
    anchor: str
    """Id of the anchor."""
    day: str
    """Day (UTC) of the run."""
    run: NonNegativeInt
    """Number of the run on this day, from 0."""
    baseline: bool
    """True if the run is a part of the baseline."""
    bad: bool
    """True if people call the answer bad."""


class AnchorResult(AnchorRun):
    """The judge's verdict in one run of one anchor."""

    metric: str
    """Judged metric that answers the question."""
    threshold: FiniteFloat
    """Threshold of the metric that divides bad from good."""
    value: FiniteFloat | None = None
    """Value of the metric; null if there is none."""
    judged_bad: bool | None = None
    """True if the value is on the bad side of the threshold; null without a value."""
    why: str = ""
    """Reason why there is no value."""
    model: str
    """Configured model of the judge."""
    suite_version: str
    """Version of the judge's suite."""
    cost_usd: FiniteFloat = 0.0
    """Cost of the run in dollars."""


def anchor_key(run: AnchorRun) -> bytes:
    """Return the key of a result on the topic `judge.anchors`.

    >>> anchor_key(AnchorRun(anchors="7f", anchor="a", day="2026-11-21", run=2, baseline=False, bad=True))
    b'["7f","2026-11-21",2,"a"]'
    """
    return orjson.dumps([run.anchors, run.day, run.run, run.anchor])


class AnchorProgress(RecordPart):
    """The runs of the anchors that have been requested."""

    anchors: str
    """Digest of the anchors."""
    day: str
    """Day (UTC) of the last run."""
    runs: NonNegativeInt
    """Number of runs on this day."""
    baseline: NonNegativeInt
    """Number of runs of the baseline, on all days."""
    is_baseline: bool
    """True if the last run belongs to the baseline."""


class JudgeRequest(RecordPart):
    """One event to be judged by all suites that its evaluation's decision selects."""

    evaluation: Evaluation
    """The scored evaluation; the judged one repeats it."""
    query: str
    """Text of the query."""
    response: str
    """Text of the response."""
    contexts: tuple[str, ...] | None = None
    """Texts of the contexts."""
    expected: tuple[str, ...] | None = None
    """Expected answers."""
    requested_at: Time | None = None
    """Time of the first request for the event; None on the first request itself, whose record has it as timestamp."""
    not_before: Time | None = None
    """End of the delay; only on requests in `judge.retry` and `judge.deferred`."""
    attempts: NonNegativeInt = 0
    """Number of times that judging it failed."""
    why: str = ""
    """Reason of the latest delay."""
    anchor: AnchorRun | None = None
    """The run of an anchor, whose result goes to `judge.anchors`; absent for an event."""
    documents: str = ""
    """Keyed hashes of the documents, 8 bytes each, in base64; absent if there are none, or without `blame.enabled`."""
    chunks: str = ""
    """The same of the chunks."""

    omitted_values: ClassVar[Mapping[str, object]] = {"anchor": None, "documents": "", "chunks": ""}


class Finished(RecordPosition):
    """The last request of a partition that is finished; all before it are finished too."""

    omitted_values: ClassVar[Mapping[str, object]] = {"topic_id": ""}

    event_id: str
    """Id of the event."""
    topic_id: str = ""
    """Kafka's id of the topic; absent if unknown, as in records of release 0.1.0."""


class RateUse(RecordPart):
    """The use of one rate limit by one worker."""

    returned: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = ()
    """Whole seconds since calls returned, and the amounts that they used; those of the last minute."""
    open: NonNegativeInt = 0
    """The most that calls use before the next record of the worker. After a crash it counts as used."""


class LedgerEntry(RecordPart):
    """The cost of judging the events of one application and tenant on one day (UTC), in one input partition.

    Amounts are in millionths of a dollar. Only the latest record of a key counts.
    """

    day: str
    """Day (UTC), such as `2026-11-21`."""
    application: str
    """Empty for all applications without their own budget."""
    tenant: str
    """Empty for all tenants without their own budget."""
    partition: int
    """Partition of `judge.requests`."""
    spent: NonNegativeInt = 0
    """Cost of the calls that were made."""
    reserved: NonNegativeInt = 0
    """Maximum cost of the calls in flight. After a crash it counts as spent."""
    events: NonNegativeInt = 0
    """Number of events that were judged."""
    wanted: NonNegativeInt = 0
    """Number of events with a first request, with or without budget left for it."""
    floor: NonNegativeInt = 0
    """Number of those that a random floor had selected."""
    floor_spent: NonNegativeInt = 0
    """Part of `spent` for events that a random floor had selected."""
    floor_reserved: NonNegativeInt = 0
    """Part of `reserved` for them."""
    finished: tuple[Finished, ...] = ()
    """The last finished request of each request topic at the time of writing, of any account."""
    shares: NonNegativeInt | None = None
    """Number of equal shares of the day's budgets; only in the entry of `shares_entry`."""
    rates: Mapping[str, RateUse] = {}
    """Use of the limits on `requests` and `tokens` per minute; only in the entry of `rates_entry`."""
    anchors: AnchorProgress | None = None
    """Runs of the anchors that have been requested; only in the entry of `anchors_entry`."""

    omitted_values: ClassVar[Mapping[str, object]] = {
        "shares": None,
        "floor_spent": 0,
        "floor_reserved": 0,
        "rates": {},
        "anchors": None,
    }


_SHARES = " shares"


def shares_entry(day: str, shares: int) -> LedgerEntry:
    """Return the entry with the number of shares into which the budgets of a day are divided. It is in partition 0.

    Its `day` is no date, so that older readers leave it out of all sums.

    >>> ledger_key(shares_entry("2026-11-21", 6))
    b'["2026-11-21 shares","","",0]'
    """
    return LedgerEntry(day=f"{day}{_SHARES}", application="", tenant="", partition=0, shares=shares)


def parse_shares(entry: LedgerEntry) -> tuple[str, int] | None:
    """Return the day of a `shares_entry` and its number of shares; None for any other entry.

    >>> parse_shares(shares_entry("2026-11-21", 6))
    ('2026-11-21', 6)
    """
    return None if entry.shares is None else (entry.day.removesuffix(_SHARES), entry.shares)


_RATES = "0 rates"


def rates_entry(member: str, rates: Mapping[str, object]) -> LedgerEntry:
    """Return the entry with a worker's use of the rate limits. It is in partition 0, whichever the worker has.

    Its `day` is before all dates, so that it is in no sum, and no ledger keeps it.

    >>> ledger_key(rates_entry("rag.judge-node-1-0", {}))
    b'["0 rates","rag.judge-node-1-0","",0]'
    """
    given = {name: RateUse.model_validate(use) for name, use in rates.items()}
    return LedgerEntry(day=_RATES, application=member, tenant="", partition=0, rates=given)


_ANCHORS_DAY = "0 anchors"


def anchors_entry(progress: AnchorProgress) -> LedgerEntry:
    """Return the entry with the runs of anchors that have been requested. It is in partition 0.

    Its `day` is before all dates, so that it is in no sum.

    >>> progress = AnchorProgress(anchors="7f", day="2026-11-21", runs=1, baseline=1, is_baseline=True)
    >>> ledger_key(anchors_entry(progress))
    b'["0 anchors","","",0]'
    """
    return LedgerEntry(day=_ANCHORS_DAY, application="", tenant="", partition=0, anchors=progress)


class LedgerKey(NamedTuple):
    """The key of a ledger entry."""

    day: str
    application: str
    tenant: str
    partition: int


def ledger_key(entry: LedgerEntry) -> bytes:
    """Return the key of an entry as bytes.

    >>> ledger_key(LedgerEntry(day="2026-11-21", application="bot", tenant="", partition=3))
    b'["2026-11-21","bot","",3]'
    """
    return orjson.dumps([entry.day, entry.application, entry.tenant, entry.partition])


CLOCK_KEY = b'["","","",0]'
"""Key of the tombstones that a worker writes to learn the brokers' time; no entry has it, as it has no day."""


def parse_ledger_key(key: bytes | None) -> LedgerKey:
    """Parse the key of a ledger entry.

    Raises:
        ValueError: if it is not one.
    """
    with suppress(ValueError):
        match orjson.loads(key or b""):
            case [day, application, tenant, partition]:
                return LedgerKey(day, application, tenant, partition)
    raise ValueError("not the key of a ledger's entry")
