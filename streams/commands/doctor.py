"""`ragweir doctor`: checks the configuration, Kafka, the topics and the judge, and says how to fix what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated

import typer
from confluent_kafka import KafkaException
from rich.text import Text

from ragweir.errors import RagweirError
from ragweir.schemas.registry.schema import FORMATS
from ragweir.streams.analysis.checks import (
    cause_rows,
    console,
    events,
    judge,
    kafka,
    local,
    people,
    registry,
    rows,
    traces,
    user_feedback,
)
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckSkipped, CheckWarning
from ragweir.streams.commands.app import FAILURE, app, out, settings
from ragweir.streams.runtime.text.masking import masked
from ragweir.streams.settings import Settings

CHECKS: tuple[Callable[[CheckContext], str], ...] = (
    local.configuration,
    local.kernel,
    local.secrets,
    kafka.broker,
    kafka.topics,
    kafka.durability,
    kafka.transactions,
    kafka.sessions,
    kafka.group,
    kafka.retention,
    judge.judge,
    judge.requests,
    judge.spending,
    rows.rows,
    cause_rows.causes,
    people.people,
    user_feedback.feedback,
    console.console,
    kafka.clock,
    events.times,
    events.objectives,
    events.labels,
    local.telemetry,
    local.supervision,
)
TRACE_CHECKS: tuple[Callable[[CheckContext], str], ...] = (traces.trace_topics, traces.assembly, traces.traces)
"""The checks if interactions are assembled from traces."""
REGISTRY_CHECKS = (registry.registry, registry.schemas, registry.output_schemas)
"""The checks if events or results have schemas of a registry."""


@app.command()
def doctor(
    judge_only: Annotated[
        bool, typer.Option("--judge", help="Ask the judge one question, and report its form, price and latency only.")
    ] = False,
) -> None:
    """Check the configuration, Kafka, the topics, the judge and the clocks; say what is wrong and how to fix it.

    With `input.format = "otlp"` the newest traces, their topics and the times of assembly are checked, too; with a
    format of a Schema Registry the registry, the newest records' schemas and those of our own outputs. The effective
    settings are printed first, with secrets masked. If there is a judge, it is asked one small question, which costs a
    fraction of a cent. A check that an earlier mistake prevents is skipped. Exit status 1 when something is wrong;
    warnings do not change it.

    `--judge` neither prints the settings nor needs Kafka: it reports the model that answered, the form in which the
    endpoint takes questions, the settings that save calls at each start, the price, and the latency.
    """
    effective = settings()
    context = CheckContext(effective)
    if judge_only:
        _report_judge(context)
        return
    _show(effective)
    told: dict[str, str] = {}
    more = TRACE_CHECKS if effective.reads_traces else ()
    if effective.input.format in FORMATS or effective.output.registry_format is not None:
        more += REGISTRY_CHECKS
    for check in (*CHECKS, *more):
        try:
            verdict, style, text = "ok   ", "green", check(context)
        except (CheckFailed, RagweirError) as error:
            verdict, style, text = "wrong", "red", str(error)
            if (because := _reported_by(error, told)) is not None:
                verdict, style, text = "skip ", "dim", f"not checked because of {because}"
        except CheckWarning as error:
            verdict, style, text = "warn ", "yellow", str(error)
        except KafkaException as error:
            verdict, style, text = "wrong", "red", f"Kafka: {error.args[0].str()}"
        if verdict == "wrong":
            told[text] = check.__name__
        out.say(Text.assemble((verdict, style), f" {check.__name__}: {text}"))
    if told:
        raise typer.Exit(FAILURE)


def _report_judge(context: CheckContext) -> None:
    try:
        report = judge.judge_report(context)
    except CheckFailed as error:
        out.say(Text.assemble(("wrong", "red"), f" judge: {error}"))
        raise typer.Exit(FAILURE) from None
    for name, sentence in report.items():
        out.say(Text.assemble(("ok   ", "green"), f" {name}: {sentence}"))


def _show(effective: Settings) -> None:
    for group, values in masked(effective.model_dump(mode="json")).items():
        named = {f".{name}": value for name, value in values.items()} if isinstance(values, dict) else {"": values}
        for name, value in named.items():
            out.say(Text.assemble((f"{group}{name} =", "dim"), f" {value!r}"))


def _reported_by(error: Exception, told: Mapping[str, str]) -> str | None:
    """Return the check that has reported a mistake; None for a new one. `told` has the checks by their messages."""
    if isinstance(error, CheckSkipped) and error.because in told.values():
        return error.because
    return told.get(str(error))
