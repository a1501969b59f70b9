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
from ragweir.streams.services.judge.probe import SIMULATED, ProbeResult, error_message, probe, unpriced
from ragweir.streams.services.judge.protocol import MAX_NAME_CHARACTERS, JudgeError, ResponseFormat
from ragweir.streams.settings import JudgeSettings, Settings

_FORMATS = {
    "json_schema": "with structured outputs",
    "json_object": "in JSON mode",
    "text": "in a form that the prompt alone asks for",
}
_BOUNDS = {"numbers": "without bounds of strings", "none": "without bounds of strings, numbers and lists"}
_MAX_COUNTED = 2_000
"""Records that are read only to be counted, at most."""


def judge(context: CheckContext) -> str:
    """Check that the judge accepts the key and the model, and answers in the right format; a call of 700 tokens."""
    chosen = context.settings.judge
    if chosen.base_url is None:
        return "none is configured, so no event is judged; set judge.base_url"
    if (found := _probed(context)) is None:
        return "not called: answers come from the cache alone (judge.cached_only)"
    simulated = " (simulated: no model is behind it)" if found.model == SIMULATED else ""
    without = f"; the price of {' and '.join(unpriced(chosen))} is not known" if unpriced(chosen) else ""
    model = printable(found.model, MAX_NAME_CHARACTERS)
    ignores = ", as it ignores JSON schemas" if found.ignores_schemas else ""
    return (
        f"{masked_url(chosen.base_url)} answers as {model}{simulated}, {_way(found, chosen)}"
        f"{ignores}; asking cost {dollars(found.cost)}{without}"
    )


def judge_report(context: CheckContext) -> dict[str, str]:
    """Return what one question to the judge shows of its endpoint: by name, a sentence each.

    Raises:
        CheckFailed: if there is no judge to ask, or no usable answer.
    """
    chosen = context.settings.judge
    if chosen.base_url is None or (found := _probed(context)) is None:
        raise CheckFailed("there is no endpoint to ask: set judge.base_url, and judge.cached_only to false")
    simulated = " (simulated: no model is behind it)" if found.model == SIMULATED else ""
    return {
        "judge": f"{masked_url(chosen.base_url)} answers as {printable(found.model, MAX_NAME_CHARACTERS)}{simulated}",
        "form": _form(found, chosen),
        "price": _price(found, chosen),
        "latency": f"{found.latency_s:.2f} s for one answer; a call may take {chosen.timeout_s:g} s (judge.timeout_s)",
    }


def _probed(context: CheckContext) -> ProbeResult | None:
    """Ask the endpoint one question; None if answers come from the cache alone."""
    chosen = context.settings.judge
    try:
        judge_config(context.settings, 1)
        return None if chosen.cached_only else probe(chosen)
    except ConfigurationError as error:
        raise CheckFailed(str(error)) from None
    except JudgeError as error:
        raise CheckFailed(error_message(chosen, error)) from None


def _form(found: ProbeResult, chosen: JudgeSettings) -> str:
    """Return the way the endpoint is asked, and the settings that would save calls at each start."""
    form, first = found.response_format, ResponseFormat.first(chosen)
    said = _way(found, chosen)
    if chosen.decides:
        return said
    if found.ignores_schemas:
        said += ", as it takes JSON schemas and does not keep to them"
    elif form.answers == "json_schema" and form.bounds != "all":
        said += f", {_BOUNDS[form.bounds]}"
    said += f", {form.length}, {'a' if form.temperature else 'no'} temperature"
    changes = {
        f'judge.answers = "{form.answers}"': form.answers != first.answers,
        f'judge.output_limit = "{form.length}"': form.length != first.length,
        'judge.temperature = "none"': form.temperature != first.temperature,
    }
    advice = " and ".join(name for name, is_changed in changes.items() if is_changed)
    calls = f"{found.calls} call{'s' if found.calls > 1 else ''}"
    return f"{said}; found in {calls}{advice and f', of which {advice} saves some at each start'}"


def _way(found: ProbeResult, chosen: JudgeSettings) -> str:
    if chosen.decides:
        return f"with probabilities, by decisions in the dialect {chosen.dialect}"
    return _FORMATS[found.response_format.answers]


def _price(found: ProbeResult, chosen: JudgeSettings) -> str:
    if chosen.model not in chosen.prices:
        return f"that of {chosen.model} is not known, so no budget can be kept; set judge.prices"
    price, usage = chosen.prices[chosen.model], found.usage
    tokens = [each for each in (usage.input_tokens, usage.output_tokens) if type(each) is int]
    used = (
        f"{tokens[0]:,} tokens in and {tokens[1]:,} out" if len(tokens) == 2 else "a call whose tokens it does not tell"
    )
    cached = "" if price.cached_usd is None else f", {_a_million(price.cached_usd)} where it was cached"
    return (
        f"{_a_million(price.input_usd)} for a million tokens in{cached} and "
        f"{_a_million(price.output_usd)} out; asking cost {dollars(found.cost)}, the last answer took {used}"
    )


def _a_million(usd: float) -> str:
    return dollars(round(usd * 1_000_000))


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
