"""Shows what could be measured on OpenTelemetry traces, and what their exporter and instrumentation should change."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from ragweir.errors import Rejected
from ragweir.streams.analysis.event_times import distances
from ragweir.streams.analysis.traces.trace_report import most_common
from ragweir.streams.analysis.traces.trace_sample import TraceSample
from ragweir.streams.commands.app import FAILURE, out, shared_flags
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.sampled import evaluate, show_rejections, show_scores, show_times
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.settings import Settings
from ragweir.streams.traces.wire import slices

_TRIED = 20
"""Number of records that are tried, spread over the sample."""
_MOST_SCOPES = 8


def has_traces(records: Sequence[Record]) -> bool:
    """Return true if at least half of some records are export requests of traces or log records."""
    tried = records[:: max(1, len(records) // _TRIED)]
    return 2 * sum(map(_has_trace, tried)) >= len(tried)


def _has_trace(record: Record) -> bool:
    with suppress(Rejected):
        return bool(slices(record.value or b""))
    return False


def show_traces(
    effective: Settings,
    config: EvaluateConfig,
    source: str,
    file: Path | None,
    records: Sequence[Record],
    *,
    has_older: bool,
) -> None:
    """Print the report on a sample of export requests.

    Args:
        effective: all settings.
        config: the configuration that scores their interactions.
        source: name of the topic or file.
        file: the file; None for a topic.
        records: the sample.
        has_older: true if older records were left out.
    """
    if file:
        requests = "1 export request" if len(records) == 1 else f"{len(records):,} export requests"
        out.say(f"{requests} of {file}, the first ones, hold OpenTelemetry traces or logs.")
    else:
        partitions = len({record.topic_partition for record in records})
        out.say(
            f"{len(records):,} records of {source} were read, the newest ones, from {partitions} of its partitions: "
            "OpenTelemetry traces or logs."
        )
    now_ms = None if file else int(1_000 * machine.time())
    with Bars() as bars, bars.shown("Assembling", len(records)) as done:
        sample = TraceSample.of(records, effective.assemble, has_older=has_older and not file, now_ms=now_ms, done=done)
    show_rejections("are no export request of traces or logs", sample.rejections)
    for line in sample.report.lines():
        out.say(line)
    if sample.left_out:
        out.say(f"{sample.left_out:,} traces at the edges of the sample, which may lack spans, are not counted.")
    _show_scopes(sample)
    if not file:
        out.say("")
        for line in sample.facts.lines():
            out.say(line)
    if sample.interactions:
        evaluations = evaluate(sample.interactions, config)
        if not file:
            show_times(distances(EvaluateAgent(config), sample.interactions))
        show_scores(evaluations, config.catalogue.free)
    _show_next(effective, source, file)
    if not sample.interactions:
        raise typer.Exit(FAILURE)


def _show_scopes(sample: TraceSample) -> None:
    """Print the instrumentations by the number of traces that have spans of them, and the conventions."""
    scopes = most_common(sample.report.scopes)
    if scopes:
        shown = ", ".join(f"{printable(name, 100)} ({number:,})" for name, number in scopes[:_MOST_SCOPES])
        rest = f", and {len(scopes) - _MOST_SCOPES:,} more" if len(scopes) > _MOST_SCOPES else ""
        out.say(f"Instrumentations, with the number of traces: {shown}{rest}")
    dialects = ", ".join(f"{name or 'unknown'} {number:,}" for name, number in most_common(sample.report.dialects))
    if dialects:
        out.say(f"Interactions by convention: {dialects}")


def _show_next(effective: Settings, source: str, file: Path | None) -> None:
    """Print what comes next."""
    for line in _next_lines(effective, source, file):
        out.say(line)


def _next_lines(effective: Settings, source: str, file: Path | None) -> Iterator[str]:
    if file:
        yield "\nNext, with the scores of all its traces in a file:"
        yield _command("score", source, "--out", "scores.jsonl")
        return
    if not effective.reads_traces or source not in effective.trace_topics:
        yield "\nNext, with these lines in ragweir.toml, and a topic of log records, if any, in assemble.topics:"
        yield f'  [input]\n  format = "otlp"\n  topic = "{source}"'
    yield "\nThen, where the first line creates ragweir's own topics:"
    yield _command("topics", "create")
    yield _command("up")


def _command(*words: str) -> str:
    return f"  {shlex.join(['ragweir', *shared_flags(), *words])}"
