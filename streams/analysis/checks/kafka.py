"""Checks of Kafka: the broker, the topics and their durability, retention and lag, and the clocks."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ragweir.errors import ConfigurationError, PermanentError, Unreachable
from ragweir.streams.analysis.checks.bootstrap import dead_addresses, tls_ports
from ragweir.streams.analysis.checks.context import (
    TIMEOUT_SECONDS,
    CheckContext,
    CheckFailed,
    CheckWarning,
    not_permitted,
)
from ragweir.streams.analysis.checks.durability import Unread, described, unread, verdict
from ragweir.streams.runtime.kafka.client import (
    Connection,
    Identity,
    build,
    client_properties,
    consumer_properties,
    partition_counts,
    producer_properties,
    reader_properties,
)
from ragweir.streams.runtime.kafka.configurations import (
    broker_configuration,
    broker_limits,
    configurations,
    denied,
    without_broker_time,
)
from ragweir.streams.runtime.kafka.transactional_producer import LIMIT, TIMEOUT, broker_limit_ms
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings

_MAX_SKEW_SECONDS = 300
_SESSION, _SHORTEST, _LONGEST = "session.timeout.ms", "group.min.session.timeout.ms", "group.max.session.timeout.ms"


def broker(context: CheckContext) -> str:
    """Check that Kafka answers, at each of its addresses."""
    servers = context.settings.kafka.bootstrap_servers
    connection = Connection(quiet=True)
    try:
        admin = build(AdminClient, client_properties(context.settings, connection))
        context.topics = partition_counts(admin, connection, TIMEOUT_SECONDS)
    except Unreachable as error:
        raise CheckFailed(f"{servers}: {error}{_tls_hint(context.settings)}") from None
    except (PermanentError, ConfigurationError) as error:
        raise CheckFailed(str(error)) from None
    if dead := dead_addresses(context.settings):
        raise CheckWarning(
            f"kafka.bootstrap_servers has addresses that do not answer: {', '.join(dead)}; others do, but no client "
            "starts while they are away: correct or remove these"
        )
    return f"{servers} answers"


def _tls_hint(settings: Settings) -> str:
    """Return the cause if a client without TLS has connected to ports that expect it; else nothing."""
    protocol = str(settings.kafka.client.get("security.protocol", "plaintext")).upper()
    needed = {"PLAINTEXT": "SSL, or SASL_SSL with a sign-in", "SASL_PLAINTEXT": "SASL_SSL"}.get(protocol)
    if needed is None or not (ports := tls_ports(settings.kafka.bootstrap_servers)):
        return ""
    return f" {', '.join(ports)} expects TLS, which the client does not use: set security.protocol to {needed}"


def topics(context: CheckContext) -> str:
    """Check that the topics exist, with the partitions that the settings ask for."""
    existing, source = context.existing, context.settings.input_topic
    reads_traces = context.settings.reads_traces
    wanted = [name for name, topic in context.own_topics().items() if reads_traces or topic.need != "traces"]
    missing = [name for name in wanted if name not in existing]
    if missing:
        raise CheckFailed(f"missing: {', '.join(missing)}; `ragweir topics create` creates them")
    if source not in existing:
        raise CheckFailed(f"the input topic {source} does not exist; set input.topic")
    return f"{existing[source]} partitions to read in {source}"


def durability(context: CheckContext) -> str:
    """Check that no acknowledged record is lost with one broker, in ragweir's topics and in Kafka's own."""
    names = [name for name in (context.settings.input_topic, *context.own_topics()) if name in context.existing]
    try:
        admin = build(AdminClient, client_properties(context.settings, Connection(quiet=True)))
        found, brokers = described(admin, dict.fromkeys(names))
    except KafkaException as error:
        raise not_permitted(error) from None
    result = verdict(found, brokers)
    text = "; ".join((*result.wrong, *result.risky))
    if result.wrong:
        raise CheckFailed(text)
    if result.risky:
        raise CheckWarning(text)
    return f"{len(found)} topics have {min(each.replicas for each in found)} replicas or more"


def transactions(context: CheckContext) -> str:
    """Check that the brokers accept the transaction timeout of the workers, who else use a shorter one."""
    settings = context.settings
    _ = context.existing
    identity, connection = Identity("evaluate", 0, settings.topics.prefix), Connection(quiet=True)
    own = int(producer_properties(settings, identity, connection)[TIMEOUT])
    allowed = broker_limit_ms(build(AdminClient, client_properties(settings, connection)))
    if allowed is None:
        return f"{TIMEOUT} is {own}; {LIMIT} of the brokers may not be read, and workers follow it"
    if allowed < own:
        raise CheckWarning(
            f"{TIMEOUT} is {own} and {LIMIT} of the brokers is {allowed}, which workers use instead: set the same in "
            "kafka.client, or raise that of the brokers"
        )
    return f"{TIMEOUT} is {own}, and the brokers allow {allowed}"


def sessions(context: CheckContext) -> str:
    """Check that the brokers accept the session timeout of the workers, who else never get a partition."""
    settings = context.settings
    _ = context.existing
    identity, connection = Identity("evaluate", 0, settings.topics.prefix), Connection(quiet=True)
    own = int(consumer_properties(settings, identity, connection)[_SESSION])
    limits = broker_limits(build(AdminClient, client_properties(settings, connection)), _SHORTEST, _LONGEST)
    if limits is None:
        return f"{_SESSION} is {own}; the limits of the brokers may not be read"
    shortest, longest = limits
    if not shortest <= own <= longest:
        name, limit = (_SHORTEST, shortest) if own < shortest else (_LONGEST, longest)
        raise CheckFailed(
            f"{_SESSION} is {own} and {name} of the brokers is {limit}: they let no worker into its group; set "
            f"{_SESSION} in kafka.client, or {name} of the brokers"
        )
    return f"{_SESSION} is {own}, and the brokers allow {shortest} to {longest}"


def group(context: CheckContext) -> str:
    """Check the lag of the evaluate service, and that each partition has a worker."""
    return f"{group_lag(context)}{_start_delay(context.settings)}"


def group_lag(context: CheckContext) -> str:
    """Return how many records the group of the evaluate service is behind.

    Raises:
        CheckFailed: if it cannot be known, or retention has deleted unread records.
        CheckWarning: if a partition has no worker.
    """
    settings = context.settings
    identity = Identity("evaluate", 0, settings.topics.prefix)
    partitions = context.partitions(settings.input_topic)
    committed, lag = context.committed(identity, partitions)
    if not committed:
        return f"group {identity.group} has not started"
    unstarted = sorted({each.partition for each in partitions} - {each.partition for each in committed})
    if unstarted:
        raise CheckWarning(
            f"group {identity.group} is {lag} records behind, and no worker has read partition "
            f"{', '.join(map(str, unstarted))} of {settings.input_topic}; workers find new partitions within a minute: "
            "if it stays so, see their logs"
        )
    return f"group {identity.group} is {lag} records behind"


def _start_delay(settings: Settings) -> str:
    """Return the time for which brokers let the first worker of a group wait; nothing without one or without a right.

    A worker that comes back as the same member does not wait.
    """
    try:
        configuration = broker_configuration(build(AdminClient, client_properties(settings, Connection(quiet=True))))
    except KafkaException as error:
        if not denied(error):
            raise
        return ""
    name = "group.initial.rebalance.delay.ms"
    delay_s = int(configuration.get(name, 0)) / 1_000
    return f"; the first worker of an empty group waits {delay_s:g} s for others ({name} of the brokers)" * bool(
        delay_s
    )


def retention(context: CheckContext) -> str:
    """Check that no group is so far behind that Kafka is about to delete unread records."""
    settings, existing = context.settings, context.existing
    late: list[Unread] = []
    try:
        admin = build(AdminClient, client_properties(settings, Connection(quiet=True)))
        for name, service in SERVICES.items():
            if not service.enabled(settings):
                continue
            names = [topic for topic in service.inputs(settings) if topic in existing]
            partitions = [each for topic in names for each in context.partitions(topic)]
            committed, lag = context.committed(Identity(name, 0, settings.topics.prefix), partitions)
            if lag:
                kept_ms = {topic: each["retention.ms"] for topic, each in configurations(admin, names).items()}
                late += [each for each in unread(settings, committed, kept_ms) if each.near]
    except KafkaException as error:
        raise not_permitted(error) from None
    text = f"{'; '.join(map(str, late))}: run more workers or keep the topic longer"
    if any(each.due for each in late):
        raise CheckFailed(text)
    if late:
        raise CheckWarning(text)
    return "unread records are younger than half of the time for which their topics keep them"


def clock(context: CheckContext) -> str:
    """Check that the newest records are not ahead of this machine's clock, and that topics have the brokers' time."""
    settings = context.settings
    newest_ms = 0
    partitions = range(min(context.existing.get(settings.input_topic, 0), 4))
    with build(Consumer, reader_properties(settings)) as consumer:
        for partition in partitions:
            at = TopicPartition(settings.input_topic, partition)
            _, high = consumer.get_watermark_offsets(at, timeout=TIMEOUT_SECONDS)
            if high == 0:
                continue
            consumer.assign([TopicPartition(settings.input_topic, partition, high - 1)])
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                newest_ms = max(newest_ms, message.timestamp()[1])
    ahead_s = newest_ms / 1000 - machine.time()
    if ahead_s > _MAX_SKEW_SECONDS:
        raise CheckFailed(f"a record is stamped {ahead_s:.0f} s ahead of this machine; set the clocks by NTP")
    try:
        admin = build(AdminClient, client_properties(settings, Connection(quiet=True)))
        lacking = without_broker_time(admin, settings, context.existing)
    except KafkaException as error:
        raise not_permitted(error) from None
    if lacking:
        raise CheckWarning(
            f"the clocks of their writers stamp the records of {', '.join(lacking)}: `ragweir topics create` lets the "
            "brokers do it"
        )
    return "no record is ahead of this machine" if newest_ms else "no records to compare with yet"
