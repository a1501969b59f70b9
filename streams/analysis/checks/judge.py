"""Checks of the judge: its endpoint, the requests that wait for it, and its costs by the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import orjson
from confluent_kafka import TopicPartition

from ragweir.errors import ConfigurationError
from ragweir.schemas.judging import ANCHORS, LedgerEntry
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.runtime.kafka.client import Identity
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.masking import masked_url
from ragweir.streams.runtime.text.terminal import dollars, printable
from ragweir.streams.services.judge.days import next_day
from ragweir.streams.services.judge.from_settings import judge_config
from ragweir.streams.services.judge.ledger import affordable
from ragweir.streams.services.judge.probe import SIMULATED, error_message, probe, unpriced
from ragweir.streams.services.judge.protocol import MAX_NAME_CHARACTERS, JudgeError
from ragweir.streams.settings import Settings

_FORMATS = {
    "json_schema": "with structured outputs",
    "json_object": "in JSON mode",
    "text": "in a form that the prompt alone asks for",
}
_MAX_COUNTED = 2_000
"""Records that are read only to be counted, at most."""


def judge(context: CheckContext) -> str:
    """Check that the judge accepts the key and the model, and answers in the right format; a call of 700 tokens."""
    chosen = context.settings.judge
    if chosen.base_url is None:
        return "none is configured, so no event is judged; set judge.base_url"
    try:
        judge_config(context.settings, 1)
        if chosen.cached_only:
            return "not called: answers come from the cache alone (judge.cached_only)"
        found = probe(chosen)
    except ConfigurationError as error:
        raise CheckFailed(str(error)) from None
    except JudgeError as error:
        raise CheckFailed(error_message(chosen, error)) from None
    simulated = " (simulated: no model is behind it)" if found.model == SIMULATED else ""
    without = f"; the price of {' and '.join(unpriced(chosen))} is not known" if unpriced(chosen) else ""
    model = printable(found.model, MAX_NAME_CHARACTERS)
    ignores = ", as it ignores JSON schemas" if found.ignores_schemas else ""
    return (
        f"{masked_url(chosen.base_url)} answers as {model}{simulated}, {_FORMATS[found.response_format.answers]}"
        f"{ignores}; asking cost {dollars(found.cost)}{without}"
    )


def requests(context: CheckContext) -> str:
    """Count the events that wait for the judge, by topic."""
    settings = context.settings
    if settings.judge.base_url is None:
        return "none, since there is no judge"
    identity = Identity("judge", 0, settings.topics.prefix)
    waiting = []
    for name in ("judge.requests", "judge.retry", "judge.deferred"):
        topic = settings.topics.prefix + name
        committed, lag = context.committed(identity, context.partitions(topic))
        if not committed:
            return f"group {identity.group} has not started"
        waiting.append(f"{_number_behind(settings, committed, lag)} in {topic}")
    return f"group {identity.group} has left to judge {', '.join(waiting)}"


def _number_behind(settings: Settings, committed: Sequence[TopicPartition], lag: int) -> str:
    """Return the number of records after the committed offsets of a topic.

    Transaction markers have offsets too, so that a short range is read and counted.
    """
    if lag > _MAX_COUNTED:
        return f"at most {lag:,}"
    whole = offset_range(settings, committed[0].topic, partitions=[each.partition for each in committed])
    rest = whole.since({each.partition: each.offset for each in committed})
    return str(sum(1 for _ in read(settings, rest)))


def spending(context: CheckContext) -> str:
    """Report the judge's costs by the ledger, and the random floors that the budget affords."""
    settings = context.settings
    if settings.judge.base_url is None:
        return "none, since there is no judge"
    topic = f"{settings.topics.prefix}judge.ledger"
    context.partitions(topic)
    today = machine.now().date()
    days = {"today": today.isoformat(), "yesterday": (today - timedelta(days=1)).isoformat()}
    since = next_day(days["yesterday"]) - timedelta(days=1)
    entries = _ledger(settings, topic, round(since.timestamp() * 1_000))
    booked = {name: [entry for entry in entries if entry.day == day] for name, day in days.items()}
    usd = settings.judge.daily_budget_usd
    budget, reserved = None if usd is None else round(usd * 1_000_000), settings.routing.reserved_share
    lines = [_spent(name, of_day, budget) for name, of_day in booked.items()]
    # A day that is over has the whole demand; the present one may have more already.
    shares = [share for of_day in booked.values() if (share := affordable(of_day, budget, reserved)) is not None]
    share = min(shares, default=1.0)
    floors = ", ".join(f"{suite} {floor * share:.2g}" for suite, floor in settings.routing.floors.items())
    if share == 0:
        lines.append("the budget does not cover what rules select, and no floor in addition")
    elif share < 1:
        lines.append(f"the budget affords floors of {floors} in addition to what rules select")
    return "; ".join(lines)


def _ledger(settings: Settings, topic: str, since_ms: int) -> list[LedgerEntry]:
    """Return the newest state of each of the ledger's accounts that has changed since a time."""
    accounts: dict[bytes | None, LedgerEntry] = {}
    for record in read(settings, offset_range(settings, topic, since_ms=since_ms)):
        accounts.pop(record.key, None)
        if record.value is not None:
            accounts[record.key] = LedgerEntry.model_validate(orjson.loads(record.value))
    return list(accounts.values())


def _spent(name: str, entries: Sequence[LedgerEntry], budget: int | None) -> str:
    anchors = [entry for entry in entries if entry.application == ANCHORS]
    of_events = [entry for entry in entries if entry.application != ANCHORS]
    spent, reserved = (sum(getattr(entry, each) for entry in entries) for each in ("spent", "reserved"))
    events, demand = (sum(getattr(entry, each) for entry in of_events) for each in ("events", "wanted"))
    part = f", {dollars(sum(entry.spent for entry in anchors))} of it for anchors" if anchors else ""
    limit = "" if budget is None else f" of {dollars(budget)}"
    under_way = f", {dollars(reserved)} reserved" if reserved else ""
    return f"{name} {dollars(spent)}{limit} spent{part}{under_way}, {events:,} events judged, {demand:,} asked for"
