"""`ragweir doctor`: what is wrong with the configuration, the broker, the topics or the judge, and how to mend it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import typer
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from rich.text import Text

from ragweir.errors import ConfigurationError, PermanentError, Unreachable
from ragweir.schemas.judging import LedgerEntry
from ragweir.schemas.topics import TOPICS
from ragweir.streams.cli import ledger_time
from ragweir.streams.cli.app import FAILURE, app, out, settings
from ragweir.streams.cli.durability import Unread, configurations, denied, described, unread, verdict
from ragweir.streams.cli.objectives import evaluations, uncounted
from ragweir.streams.cli.ports import ports, supervisors
from ragweir.streams.cli.summary import dollars
from ragweir.streams.cli.tap import read_newest
from ragweir.streams.cli.tls_probe import tls_ports
from ragweir.streams.cli.topic_counts import ledger, number_behind
from ragweir.streams.evaluate.agent import EvaluateAgent
from ragweir.streams.event_times import distances
from ragweir.streams.from_settings import catalogue, evaluate_config, judge_config
from ragweir.streams.judge.days import next_day
from ragweir.streams.judge.ledger import affordable
from ragweir.streams.judge.probe import SIMULATED, error_message, probe, unpriced
from ragweir.streams.judge.protocol import MAX_NAME_CHARACTERS, JudgeError
from ragweir.streams.kafka.client import (
    Connection,
    Identity,
    build,
    client_properties,
    partition_counts,
    reader_properties,
)
from ragweir.streams.masking import masked, masked_url
from ragweir.streams.permissions import readable_by_others
from ragweir.streams.service import SERVICES
from ragweir.streams.settings import DEFAULT_ROUTING_KEY_WARNING, Settings
from ragweir.streams.terminal import printable

_SKEW_S = 300
_SAMPLE = 100
"""The number of newest records whose event times are checked."""
_TIMEOUT_S = 5.0
_TRIED = 1_000
"""Evaluations that the SLOs are tried on."""
_FORMS = {
    "json_schema": "with structured outputs",
    "json_object": "in JSON mode",
    "text": "in a form that the prompt alone asks for",
}


_MOST_CHARACTERS = 2_000
"""The characters that are shown of what a supervisor reports."""
_LIBRARIES = ("plugin.library.paths", "ssl.engine.location", "ssl.providers")
"""The librdkafka properties by which it loads libraries into our processes."""


class Unwell(Exception):
    """A check failed; the message says what is wrong and how to mend it."""


class Warned(Exception):
    """A check found what works but may not be meant; the message says what to do about it."""


@dataclass(slots=True)
class CheckContext:
    """What the checks before have found out, for those that follow."""

    settings: Settings
    topics: Mapping[str, int] | None = None


def configuration(findings: CheckContext) -> str:
    """The catalogue, the packs and the map can be loaded."""
    try:
        config = evaluate_config(findings.settings, findings.settings.input_topic)
    except ConfigurationError as error:
        raise Unwell(str(error)) from None
    return f"{len(config.catalogue.free)} metrics are on"


def broker(findings: CheckContext) -> str:
    """Kafka answers."""
    servers = findings.settings.kafka.bootstrap_servers
    connection = Connection(quiet=True)
    try:
        admin = build(AdminClient, client_properties(findings.settings, connection))
        findings.topics = partition_counts(admin, connection, _TIMEOUT_S)
    except Unreachable as error:
        raise Unwell(f"{servers}: {error}{_tls_hint(findings.settings)}") from None
    except (PermanentError, ConfigurationError) as error:
        raise Unwell(str(error)) from None
    return f"{servers} answers"


def _tls_hint(effective: Settings) -> str:
    """Return the cause where a client without TLS has met ports with it; else nothing."""
    protocol = str(effective.kafka.client.get("security.protocol", "plaintext")).upper()
    wanted = {"PLAINTEXT": "SSL, or SASL_SSL with a sign-in", "SASL_PLAINTEXT": "SASL_SSL"}.get(protocol)
    if wanted is None or not (speaking := tls_ports(effective.kafka.bootstrap_servers)):
        return ""
    return f" {', '.join(speaking)} expects TLS, which the client does not speak: set security.protocol to {wanted}"


def durability(findings: CheckContext) -> str:
    """No acknowledged record is lost with one broker, in our topics and in those of Kafka itself."""
    effective, present = findings.settings, _present(findings)
    ours = [name for name in (effective.input_topic, *_ours(effective)) if name in present]
    try:
        admin = build(AdminClient, client_properties(effective, Connection(quiet=True)))
        topics, brokers = described(admin, dict.fromkeys(ours))
    except KafkaException as error:
        raise _undescribed(error) from None
    found = verdict(topics, brokers)
    told = "; ".join((*found.wrong, *found.risky))
    if found.wrong:
        raise Unwell(told)
    if found.risky:
        raise Warned(told)
    return f"{len(topics)} topics have {min(each.replicas for each in topics)} replicas or more"


def retention(findings: CheckContext) -> str:
    """No group is so far behind that Kafka is about to delete what it has not read."""
    effective, present = findings.settings, _present(findings)
    late: list[Unread] = []
    try:
        admin = build(AdminClient, client_properties(effective, Connection(quiet=True)))
        for name, service in SERVICES.items():
            if name == "judge" and effective.judge.base_url is None:
                continue
            topics = [topic for topic in service.inputs(effective) if topic in present]
            places = [place for topic in topics for place in _places(findings, topic)]
            identity = Identity(name, 0, effective.topics.prefix)
            started, lag = _standing(effective, identity, places) if places else ([], 0)
            if lag:
                kept = {topic: each["retention.ms"] for topic, each in configurations(admin, topics).items()}
                late += [each for each in unread(effective, started, kept) if each.near]
    except KafkaException as error:
        raise _undescribed(error) from None
    text = f"{'; '.join(map(str, late))}: run more workers or keep the topic longer"
    if any(each.due for each in late):
        raise Unwell(text)
    if late:
        raise Warned(text)
    return "unread records are younger than half of the time for which their topics keep them"


def _undescribed(error: KafkaException) -> Exception:
    """Return a warning where the user lacks the right to look, which is no fault of the cluster; else the error."""
    if denied(error):
        return Warned("not checked: the user lacks the right DescribeConfigs on topics or the cluster")
    return error


def topics(findings: CheckContext) -> str:
    """The topics exist, with the partitions that the settings ask for."""
    present = _present(findings)
    effective = findings.settings
    missing = [name for name in _ours(effective) if name not in present]
    if missing:
        raise Unwell(f"missing: {', '.join(missing)}; `ragweir topics create` makes them")
    if effective.input_topic not in present:
        raise Unwell(f"the input topic {effective.input_topic} does not exist; set input.topic")
    return f"{present[effective.input_topic]} partitions to read in {effective.input_topic}"


def group(findings: CheckContext) -> str:
    """How far behind the evaluate service is, and which partitions no worker has read."""
    effective = findings.settings
    identity = Identity("evaluate", 0, effective.topics.prefix)
    places = _places(findings, effective.input_topic)
    started, lag = _standing(effective, identity, places)
    if not started:
        return f"group {identity.group} has not started"
    unstarted = sorted({place.partition for place in places} - {place.partition for place in started})
    if unstarted:
        named = ", ".join(map(str, unstarted))
        raise Warned(
            f"group {identity.group} is {lag} records behind, and no worker has read partition {named} of "
            f"{effective.input_topic}; workers find new partitions within a minute: if it stays so, see their logs"
        )
    return f"group {identity.group} is {lag} records behind"


def judge(findings: CheckContext) -> str:
    """The judge takes the key, knows the model, and gives answers of the right form: a call of some 700 tokens."""
    effective = findings.settings
    chosen = effective.judge
    if chosen.base_url is None:
        return "none is configured, so no event is judged; set judge.base_url"
    try:
        judge_config(effective, 1)
        if chosen.cached_only:
            return "nobody is called: answers come from the cache alone (judge.cached_only)"
        found = probe(chosen)
    except ConfigurationError as error:
        raise Unwell(str(error)) from None
    except JudgeError as error:
        raise Unwell(error_message(chosen, error)) from None
    simulated = " (simulated: no model is behind it)" if found.model == SIMULATED else ""
    without = f"; the price of {' and '.join(unpriced(chosen))} is not known" if unpriced(chosen) else ""
    model = printable(found.model, MAX_NAME_CHARACTERS)
    return (
        f"{masked_url(chosen.base_url)} answers as {model}{simulated}, {_FORMS[found.response_format.answers]}; "
        f"asking cost {dollars(found.cost)}{without}"
    )


def requests(findings: CheckContext) -> str:
    """How many events wait for the judge, and where."""
    effective = findings.settings
    if effective.judge.base_url is None:
        return "none, since there is no judge"
    identity = Identity("judge", 0, effective.topics.prefix)
    waiting = []
    for name in ("judge.requests", "judge.retry", "judge.deferred"):
        topic = effective.topics.prefix + name
        started, offsets = _standing(effective, identity, _places(findings, topic))
        if not started:
            return f"group {identity.group} has not started"
        waiting.append(f"{number_behind(effective, started, offsets)} in {topic}")
    return f"group {identity.group} has left to judge {', '.join(waiting)}"


def spending(findings: CheckContext) -> str:
    """What judging costs by the ledger, and which random floors the budget affords."""
    effective = findings.settings
    if effective.judge.base_url is None:
        return "none, since there is no judge"
    topic = f"{effective.topics.prefix}judge.ledger"
    _places(findings, topic)
    today = datetime.now(UTC).date()
    days = {"today": today.isoformat(), "yesterday": (today - timedelta(days=1)).isoformat()}
    since = next_day(days["yesterday"]) - timedelta(days=1)
    entries = ledger(effective, topic, round(since.timestamp() * 1_000))
    booked = {name: [entry for entry in entries if entry.day == day] for name, day in days.items()}
    usd = effective.judge.daily_budget_usd
    budget = None if usd is None else round(usd * 1_000_000)
    lines = [_spent(name, own, budget) for name, own in booked.items()]
    # A day that is over shows the whole demand; the one that goes on may already show more.
    shares = [share for own in booked.values() if (share := affordable(own, budget)) is not None]
    share = min(shares, default=1.0)
    floors = ", ".join(f"{suite} {floor * share:.2g}" for suite, floor in effective.routing.floors.items())
    if share == 0:
        lines.append("the budget does not cover what rules select, and no floor beside")
    elif share < 1:
        lines.append(f"the budget affords floors of {floors} beside what rules select")
    return "; ".join(lines)


def _spent(name: str, entries: Sequence[LedgerEntry], budget: int | None) -> str:
    """One day's bill."""
    spent, reserved, events, wanted = (
        sum(getattr(entry, each) for entry in entries) for each in ("spent", "reserved", "events", "wanted")
    )
    bound = "" if budget is None else f" of {dollars(budget)}"
    under_way = f", {dollars(reserved)} reserved" if reserved else ""
    return f"{name} {dollars(spent)}{bound} spent{under_way}, {events:,} events judged, {wanted:,} asked for"


def clock(findings: CheckContext) -> str:
    """The newest records are not from the future by this machine's clock, and the judge has the brokers' time."""
    effective = findings.settings
    count = _present(findings).get(effective.input_topic, 0)
    newest = 0
    with build(Consumer, reader_properties(effective)) as consumer:
        for partition in range(min(count, 4)):
            _, high = consumer.get_watermark_offsets(
                TopicPartition(effective.input_topic, partition), timeout=_TIMEOUT_S
            )
            if high == 0:
                continue
            consumer.assign([TopicPartition(effective.input_topic, partition, high - 1)])
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                newest = max(newest, message.timestamp()[1])
    ahead = newest / 1000 - time.time()
    if ahead > _SKEW_S:
        raise Unwell(f"a record is stamped {ahead:.0f} s ahead of this machine; set the clocks by NTP")
    if f"{effective.topics.prefix}judge.ledger" in _present(findings) and effective.judge.base_url is not None:
        try:
            hint = ledger_time.missing(build(AdminClient, client_properties(effective)), effective)
        except KafkaException as error:
            raise _undescribed(error) from None
        if hint:
            raise Warned(hint)
    return "no record is ahead of this machine" if newest else "no records to compare with yet"


def secrets(findings: CheckContext) -> str:
    """Secrets are secret, and no library is loaded by a setting."""
    effective = findings.settings
    warnings = []
    if effective.uses_default_routing_key:
        warnings.append(DEFAULT_ROUTING_KEY_WARNING)
    key = effective.judge.api_key_file
    if key is not None and readable_by_others(key):
        warnings.append(f"judge.api_key_file can be read by other users of this machine; chmod 600 {key}")
    warnings += [
        f"kafka.client loads libraries by {name}, which run with all rights of ragweir"
        for name in _LIBRARIES
        if name in effective.kafka.client
    ]
    if warnings:
        raise Warned("; ".join(warnings))
    return "none is known to others by these settings, and kafka.client loads no library"


def times(findings: CheckContext) -> str:
    """The newest events happened about when their records were written."""
    effective = findings.settings
    _places(findings, effective.input_topic)
    try:
        agent = EvaluateAgent(evaluate_config(effective, effective.input_topic))
        found = distances(agent, read_newest(effective, effective.input_topic, _SAMPLE))
    except (PermanentError, Unreachable, ConfigurationError) as error:
        raise Unwell(str(error)) from None
    if found.complaint:
        raise Unwell(found.complaint)
    return str(found)


def telemetry(findings: CheckContext) -> str:
    """Each service's telemetry port is free, or held by that service."""
    host = findings.settings.telemetry.host
    if not findings.settings.telemetry.port:
        return f"the system chooses the ports on {host}"
    found = ports(findings.settings)
    if wrong := [str(port) for port in found if not port.usable]:
        raise Unwell(f"on {host} {'; '.join(wrong)}; set telemetry.host and telemetry.port")
    return f"on {host} {'; '.join(map(str, found))}"


def supervision(findings: CheckContext) -> str:
    """Each supervisor on this machine has all of its workers running."""
    if not findings.settings.telemetry.port:
        return "not checked, since the system chooses the ports"
    try:
        found = supervisors(findings.settings)
    except PermanentError as error:
        raise Unwell(str(error)) from None
    if troubles := [printable(f"{each.command}: {each.trouble}", _MOST_CHARACTERS) for each in found if each.trouble]:
        raise Unwell("; ".join(troubles))
    names = ", ".join(f"`ragweir {each.command}` (port {each.port})" for each in found)
    return f"all workers run under {names}" if names else "no supervisor runs on this machine"


def objectives(findings: CheckContext) -> str:
    """Each SLO counts some of the newest evaluations: one that counts none never fires, and looks well."""
    effective = findings.settings
    if not effective.slo:
        return "there is no SLO"
    topic = f"{effective.topics.prefix}evaluations"
    _places(findings, topic)
    try:
        SERVICES["aggregate"].check(effective)
        sample = evaluations(read_newest(effective, topic, _TRIED))
    except (PermanentError, Unreachable, ConfigurationError) as error:
        raise Unwell(str(error)) from None
    if not sample:
        return "there are no evaluations yet to try the SLOs on"
    told = f"of the newest {len(sample)} evaluations"
    metrics, judging = catalogue(effective).metrics, effective.judge.base_url is not None
    silent = [(slo, f"{slo.name} counts none {told}: {why}") for slo, why in uncounted(effective.slo, sample)]
    # Of a judged metric few evaluations have a value, so that none of so many is no proof while there is a judge.
    if wrong := [text for slo, text in silent if metrics[slo.metric].cost == "free" or not judging]:
        raise Unwell(f"{'; '.join(wrong)}; mend its metric, its dimensions or the events")
    return "; ".join(text for _, text in silent) or f"each SLO counts some {told}"


def labels(findings: CheckContext) -> str:
    """The values that split windows are listed in the settings, or come from producers."""
    windows = findings.settings.windows
    if open_ := [name for name in windows.dimensions if name not in windows.values]:
        return (
            f"windows keep the first {windows.max_series} label sets of {', '.join(open_)} apart, whoever sends them; "
            "where producers are not trusted, list the values that count in windows.values"
        )
    return "windows keep only listed values apart"


CHECKS: tuple[Callable[[CheckContext], str], ...] = (
    configuration,
    secrets,
    broker,
    topics,
    durability,
    group,
    retention,
    judge,
    requests,
    spending,
    clock,
    times,
    objectives,
    labels,
    telemetry,
    supervision,
)


@app.command()
def doctor() -> None:
    """Check the configuration, the broker, the topics, the judge and the clock; say what is wrong and how to mend it.

    Where there is a judge it is asked one small question, which costs a fraction of a cent. Also prints the effective
    settings, secrets masked. Exit status 1 when something is wrong; a warning does not change it.
    """
    effective = settings()
    for group_name, values in masked(effective.model_dump(mode="json")).items():
        named = {f".{name}": value for name, value in values.items()} if isinstance(values, dict) else {"": values}
        for name, value in named.items():
            out.print(Text.assemble((f"{group_name}{name} =", "dim"), f" {value!r}"), soft_wrap=True)
    findings = CheckContext(effective)
    wrong = 0
    for check in CHECKS:
        try:
            verdict, style, text = "ok   ", "green", check(findings)
        except Unwell as error:
            wrong += 1
            verdict, style, text = "wrong", "red", str(error)
        except Warned as error:
            verdict, style, text = "warn ", "yellow", str(error)
        except KafkaException as error:
            wrong += 1
            verdict, style, text = "wrong", "red", f"Kafka: {error.args[0].str()}"
        out.print(Text.assemble((verdict, style), f" {check.__name__}: {text}"), soft_wrap=True)
    if wrong:
        raise typer.Exit(FAILURE)


def _places(findings: CheckContext, topic: str) -> list[TopicPartition]:
    count = _present(findings).get(topic, 0)
    if not count:
        raise Unwell(f"not checked, since there is no topic {topic}")
    return [TopicPartition(topic, partition) for partition in range(count)]


def _standing(
    effective: Settings, identity: Identity, places: list[TopicPartition]
) -> tuple[list[TopicPartition], int]:
    """Where a group is in the partitions that it has started, and how many offsets it is behind in all.

    Raises:
        Unwell: if it can no longer read all of them.
    """
    with build(Consumer, {**reader_properties(effective), "group.id": identity.group}) as consumer:
        committed = consumer.committed(places, timeout=_TIMEOUT_S)
        started = [place for place in committed if place.offset >= 0]
        lag = 0
        for place in started:
            low, high = consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S)
            if place.offset < low:
                raise Unwell(
                    f"retention has deleted {low - place.offset} unread records of {place.topic}/{place.partition}; "
                    "run more workers or keep the topic longer"
                )
            lag += high - place.offset
    return started, lag


def _present(findings: CheckContext) -> Mapping[str, int]:
    if findings.topics is None:
        raise Unwell("not checked, since the broker does not answer")
    return findings.topics


def _ours(effective: Settings) -> Iterable[str]:
    return (effective.topics.prefix + name for name in TOPICS)
