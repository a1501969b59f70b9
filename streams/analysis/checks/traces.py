"""Checks of OpenTelemetry traces: the newest spans, the times of assembly, and the topics of assemble."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning, not_permitted
from ragweir.streams.analysis.sample import read_newest
from ragweir.streams.analysis.traces.trace_sample import TraceSample
from ragweir.streams.runtime.kafka.client import Connection, Identity, build, client_properties
from ragweir.streams.runtime.kafka.configurations import configurations
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.settings import Settings

_SAMPLE = 300
"""Number of newest records of each source topic that are assembled."""
_ENOUGH_TRACES = 5
"""Number of traces from which on a sample without a full one is a warning."""
_SDK_BATCH_S = 5
"""Time for which SDKs collect spans before they export them."""
_MARGIN = 2
"""Multiple of the times of assembly for which spans are to be kept."""
_MAX_SKEW_S = 300


def assembly(context: CheckContext) -> str:
    """Check the times of assembly, and how long the topics of assemble keep their records."""
    settings = context.settings
    warnings, times = [], settings.assemble
    if times.settle_s < _SDK_BATCH_S:
        warnings.append(
            f"assemble.settle_s is {times.settle_s:g}: SDKs export every {_SDK_BATCH_S} s, so that traces of several "
            "processes are divided; set it to 6"
        )
    spans, ledger = (f"{settings.topics.prefix}{name}" for name in ("spans", "assembly"))
    kept = _configurations(context, spans, ledger)
    spans_s, ledger_s = (_kept_s(kept[topic]) for topic in (spans, ledger))
    open_s = times.deadline_s + times.patience_s
    if spans_s < open_s:
        raise CheckFailed(
            f"{spans} keeps records for {spans_s:,.0f} s and a trace may stay open for {open_s:,.0f} s "
            f"(assemble.deadline_s + patience_s): {_keep(spans, _MARGIN * open_s)}"
        )
    if ledger_s < spans_s:
        raise CheckFailed(
            f"{ledger} keeps records for a shorter time than {spans}, so that a restart may find no ledger: "
            f"{_keep(ledger, spans_s)}"
        )
    for topic, config in kept.items():
        if config.get("cleanup.policy") != "delete":
            raise CheckFailed(f"{topic} has cleanup.policy={config.get('cleanup.policy')}, and needs delete")
    if spans_s < _MARGIN * open_s:
        warnings.append(
            f"{spans} keeps records for {spans_s:,.0f} s, less than twice the {open_s:,.0f} s for which a trace may "
            f"stay open: after a longer outage spans are missed; {_keep(spans, _MARGIN * open_s)}"
        )
    if warnings:
        raise CheckWarning("; ".join(warnings))
    return f"a trace is open for at most {open_s:,.0f} s, and its spans are kept for {spans_s / 3_600:,.1f} h"


def _kept_s(config: Mapping[str, str]) -> float:
    retention_ms = int(config["retention.ms"])
    return retention_ms / 1_000 if retention_ms >= 0 else float("inf")


def _keep(topic: str, seconds: float) -> str:
    return f"set retention.ms={1_000 * seconds:.0f} of {topic}"


def _configurations(context: CheckContext, *topics: str) -> dict[str, dict[str, str]]:
    """Return the settings of topics.

    Raises:
        CheckFailed: if one does not exist.
        CheckWarning: if the user may not describe them.
    """
    for topic in topics:
        context.partitions(topic)
    try:
        return configurations(build(AdminClient, client_properties(context.settings, Connection(quiet=True))), topics)
    except KafkaException as error:
        raise not_permitted(error) from None


def trace_topics(context: CheckContext) -> str:
    """Check that the source topics exist, that `spans` takes their records, and how far key and join are behind."""
    settings = context.settings
    missing = [topic for topic in settings.trace_topics if topic not in context.existing]
    if missing:
        raise CheckFailed(
            f"there is no topic {', '.join(missing)}: create it, or set input.topic and assemble.topics to those that "
            "the Collector's kafka exporters write to; traces of the other topics are assembled"
        )
    spans = f"{settings.topics.prefix}spans"
    sizes = {
        topic: int(each["max.message.bytes"])
        for topic, each in _configurations(context, spans, *settings.trace_topics).items()
    }
    if larger := [topic for topic in settings.trace_topics if sizes[topic] > sizes[spans]]:
        most = max(sizes[topic] for topic in larger)
        raise CheckWarning(
            f"{', '.join(larger)} may hold records of {most:,} bytes and {spans} takes {sizes[spans]:,}: larger ones "
            f"become dead letters; set max.message.bytes={most} of {spans} and limits.max_event_bytes"
        )
    return f"{', '.join(settings.trace_topics)}; {_behind(context)}"


def _behind(context: CheckContext) -> str:
    """Return how far the groups of key and join are behind."""
    said = []
    for name in ("key", "join"):
        inputs = SERVICES[name].inputs(context.settings)
        partitions = [each for topic in inputs for each in context.partitions(topic)]
        identity = Identity(name, 0, context.settings.topics.prefix)
        committed, lag = context.committed(identity, partitions)
        said.append(f"{identity.group} is {lag} records behind" if committed else f"{identity.group} has not started")
    note = " (with the spans of open traces: ragweir_lag has what is unread)" if "behind" in said[-1] else ""
    return f"{said[0]}, {said[1]}{note}"


def traces(context: CheckContext) -> str:
    """Check that the newest traces give full interactions, and what their records say of exporters and clocks."""
    settings = context.settings
    records = _newest(context)
    if not records:
        return "the source topics hold no records yet"
    now_ms = int(1_000 * machine.time())
    sample = TraceSample.of(records, settings.assemble, has_older=len(records) >= _SAMPLE, now_ms=now_ms)
    if len(sample.rejections) == len(records):
        raise CheckFailed(
            f"none of the newest {len(records):,} records is an export request of traces or logs "
            f"({sample.rejections[0].message}): set `encoding: otlp_proto` or `otlp_json` in the kafka exporter"
        )
    ahead_s = max((each.timestamp_ms or 0 for each in records), default=0) / 1_000 - now_ms / 1_000
    if ahead_s > _MAX_SKEW_S:
        raise CheckFailed(f"a record is stamped {ahead_s:,.0f} s ahead of this machine; set the clocks by NTP")
    text = "; ".join((*(line.strip() for line in sample.report.lines()), *sample.facts.warnings()))
    text += _delay(sample)
    if sample.rejections:
        text += f"; {len(sample.rejections):,} records are no export request: {sample.rejections[0].message}"
    report = sample.report
    if sample.rejections or sample.facts.near_limit or (not report.full and report.traces >= _ENOUGH_TRACES):
        raise CheckWarning(text)
    return text


def _delay(sample: TraceSample) -> str:
    """Return how long after their ends spans were written."""
    if not sample.delays_s:
        return ""
    text = f"; traces are written {median(sample.delays_s):,.1f} s after their ends (median)"
    if (least := min(sample.delays_s)) < -_MAX_SKEW_S:
        text += f", one {-least:,.0f} s before its end: is a clock of the applications ahead?"
    return text


def _newest(context: CheckContext) -> list[Record]:
    """Return the newest records of each source topic."""
    settings: Settings = context.settings
    records: list[Record] = []
    for topic in settings.trace_topics:
        context.partitions(topic)
        records += read_newest(settings, topic, _SAMPLE)
    return records
