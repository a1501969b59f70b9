"""Scores a sample of events, and shows what can be computed of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import typer

from ragweir.errors import Rejected
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.event_times import EventTimeDistances
from ragweir.streams.commands.app import FAILURE, out
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.screens.metric_coverage import coverage, further_fields, samples
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig


def show_rejections(what: str, rejections: Sequence[Rejected]) -> None:
    """Print the number of rejected records, and for each error class the most frequent message."""
    if rejections:
        out.say(f"{len(rejections)} of them {what}:")
    for error_class, number in Counter(each.error_class for each in rejections).most_common():
        messages = Counter(each.message for each in rejections if each.error_class == error_class)
        others = ", or the like" if len(messages) > 1 else ""
        out.say(f"{number:>6}  {printable(messages.most_common(1)[0][0], None)}{others}")


def evaluate(records: Sequence[Record], config: EvaluateConfig) -> list[Evaluation]:
    """Return the evaluations of the records; exit if there are none."""
    agent = EvaluateAgent(config)
    evaluations: list[Evaluation] = []
    rejections: list[Rejected] = []
    skipped = 0
    with Bars() as bars, bars.shown("Scoring", len(records)) as scored:
        for record in records:
            try:
                results = list(agent.evaluate(record))
            except Exception as error:  # One record must not end the command, as it does not end the service.
                results = [Rejected("unreadable", f"evaluating raised {type(error).__name__}")]
            skipped += not results
            for found in results:
                if isinstance(found, Rejected):
                    rejections.append(found)
                else:
                    evaluations.append(found[0])
            scored(1)
    if skipped:
        out.say(f"{skipped} of them are skipped, since `where` of the map does not select them.")
    show_rejections("cannot be evaluated", rejections)
    if not evaluations:
        raise typer.Exit(FAILURE)
    if repeated := len(evaluations) - len({evaluation.event_id for evaluation in evaluations}):
        out.say(f"{repeated} of them repeat an event_id; the newest evaluation of an event counts.")
    repaired = Counter(flag for evaluation in evaluations for flag in evaluation.flags if flag in REPAIRS)
    if repaired:
        flags = ", ".join(f"{flag} {number}" for flag, number in repaired.most_common())
        out.say(f"Some were repaired, and their evaluations flagged: {flags}.")
    return evaluations


def show_times(found: EventTimeDistances) -> None:
    """Print the distance of event times from the timestamps of their records, and what may be wrong with them."""
    out.say(f"Of the evaluated ones, {found}.")
    if found.complaint:
        out.say(f"Check this first: {found.complaint}.")


def show_scores(evaluations: Sequence[Evaluation], metrics: Mapping[str, Metric]) -> None:
    """Print which metrics can be computed, the fields that would make more computable, and some events' scores."""
    out.say("")
    out.print(coverage(evaluations, metrics))
    out.print(further_fields(evaluations, metrics))
    out.print(samples(evaluations))
