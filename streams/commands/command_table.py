"""The names of all commands, with the module and the summary of each: `ragweir --help` imports none of them."""

from __future__ import annotations

from typing import NamedTuple

from ragweir.streams.services.export.service import PROJECTIONS


class Listed(NamedTuple):
    """A command as the help of `ragweir` lists it."""

    module: str
    """The module of this package that adds the command."""
    summary: str = ""
    """The first paragraph of the command's own help; empty for a hidden command."""


COMMANDS: dict[str, Listed] = {
    "demo": Listed(
        "demo",
        "Run everything on a local Kafka: sample traffic and its scores, then a drop in quality and the alert it "
        "causes.",
    ),
    "score": Listed("score", "Score files of interactions or OpenTelemetry traces, without a broker."),
    "tap": Listed(
        "tap",
        "Show what could be measured on a topic or a file, without writing to the topic or committing offsets.",
    ),
    "explain": Listed(
        "explain",
        "Show the story of one event: where it was read, its scores and their reasons, its routing, judge and windows.",
    ),
    "compare": Listed("compare", "Compare two evaluations of the same events, B with the baseline A."),
    "blame": Listed(
        "blame",
        "Show which values carry the excess of bad answers: documents, versions, tenants, labels, tools and others.",
    ),
    "labels": Listed("labels", "Label answers, and see how far the scores agree with people."),
    "dataset": Listed(
        "dataset", "Write answers that people or scores found bad as a regression set, for ragweir and other tools."
    ),
    "console": Listed("console", "Show pages on which people look at answers, until Ctrl-C."),
    "metrics": Listed("metrics", "Show the catalogue of metrics; `ragweir metrics NAME` shows one in full."),
    "publish": Listed(
        "publish",
        "Send a file of interactions, or those of a file of OpenTelemetry traces, to the interactions topic.",
    ),
    "doctor": Listed(
        "doctor",
        "Check the configuration, Kafka, the topics, the judge and the clocks; say what is wrong and how to fix it.",
    ),
    "topics": Listed("topics", "Create, show or grow ragweir's topics."),
    "assemble": Listed(
        "services", 'Assemble interactions from OpenTelemetry traces, exactly once; needs `input.format = "otlp"`.'
    ),
    "key": Listed("services"),
    "join": Listed("services"),
    "feedback": Listed("feedback", "Join feedback of users to the answers that it is about, exactly once."),
    "match": Listed("services"),
    "tally": Listed("services"),
    "evaluate": Listed(
        "services",
        "Evaluate interactions continuously, exactly once; with `--runtime faust` at least once.",
    ),
    "judge": Listed(
        "judge",
        "Judge the selected events by an OpenAI-compatible endpoint, within its rate limits and the budget.",
    ),
    "aggregate": Listed("services", "Aggregate evaluations in windows of event time, exactly once."),
    "up": Listed(
        "services",
        "Run all services on this machine under one supervisor: evaluate, aggregate, export, and judge if configured.",
    ),
    "replay": Listed(
        "replay",
        "Evaluate past events again, by the present settings or those of `--config`, without changing anything live.",
    ),
    "runs": Listed("runs", "List, show or delete replays."),
    "routing": Listed("routing", "Plan which events the judge reads."),
    "planner": Listed("services"),
    "slo": Listed("slo", "Turn SLOs into alerts, and rehearse them on past evaluations."),
    "dead-letter": Listed(
        "dead_letter", "List and show the records that were rejected, and send them again after a fix."
    ),
    "kafka": Listed("kafka", "Start a Kafka for trials on this machine, and keep it running until Ctrl-C."),
    "simulate-judge": Listed(
        "simulate_judge", "Simulate a judge: an OpenAI-compatible endpoint for demos and tests, without a model."
    ),
}
COMMANDS |= {name: Listed("services", service.help.partition("\n\n")[0]) for name, service in PROJECTIONS.items()}
"""The commands in the order of the help: those of the projections are the last."""
