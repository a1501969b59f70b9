"""`ragweir tap`: shows what could be measured on a topic, before anything is set up."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from statistics import fmean
from typing import Annotated

import typer
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragweir.errors import PermanentError, Rejected
from ragweir.metrics.metric import Metric
from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.codec.intake import REPAIRS
from ragweir.schemas.codec.json import interaction, parse
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.cli.app import FAILURE, app, out, settings, shared_flags
from ragweir.streams.cli.options import MapFile
from ragweir.streams.cli.progress import Bars
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.event_times import Distances, distances
from ragweir.streams.from_settings import evaluate_config
from ragweir.streams.kafka import reader as reading
from ragweir.streams.records import Record
from ragweir.streams.schema_inference import REQUIRED, innermost, propose, written
from ragweir.streams.settings import Settings
from ragweir.streams.terminal import printable

_SHOWN = 3
_ID_WIDTH = 16
_OWN_SHARE = 0.5
"""Share of readable events from which on the topic is taken to have ragweir's schema."""
_REACH = (1, 4, 16)
"""Offsets that are read for each requested record, more if too few records were found."""
_HEADLINES = (
    "unsupported_risk",
    "context_support",
    "unsupported_words",
    "number_support",
    "lexical_hallucination",
    "lexical_relevance",
    "query_context_coverage",
    "context_relevance",
    "token_f1",
    "refusal",
    "response_words",
    "total_latency_ms",
)
"""Metrics that are shown of single events."""


@app.command()
def tap(
    topic: Annotated[str, typer.Argument(help="Topic to read, without a consumer group.")],
    map_file: MapFile = None,
    records: Annotated[int, typer.Option(min=1, max=10_000, help="Number of records to read, the newest ones.")] = 300,
) -> None:
    """Show what could be measured on a topic, without writing to it or committing offsets.

    Reads the newest records. If they have another schema than ragweir's, a map is proposed, or that of `--map` is used.
    Shows the metrics that can be computed, on what share of the events, the reasons for the others, and the scores of
    some events. Exit status 1 when no event could be scored.
    """
    effective = settings(input={"map": map_file})
    config = evaluate_config(effective, topic)
    flags = [] if topic == effective.input_topic else ["--input-topic", topic]
    if map_file is not None:
        flags += ["--map", str(map_file)]
    elif flags:
        config = replace(config, decoders={})  # The map in the settings is for another topic.
    found = read_newest(effective, topic, records)
    if not found:
        raise PermanentError(f"the topic {topic} holds no records")
    objects = _objects(found, topic, config.max_event_bytes)
    if config.decoders:
        out.say(f"Read through the map {effective.input.map}.")
    elif _have_own_schema(objects.values()):
        out.say("They have ragweir's schema.")
    else:
        proposed = _proposed(list(objects.values()))
        config = replace(config, decoders={topic: JsonDecoder(config.max_event_bytes, config.max_items, proposed)})
        flags += ["--map", f"{topic}.toml"]
        out.say(
            f"\nThe rest of this report is read through it. Correct it where it is wrong, and save it as {topic}.toml."
        )
    evaluations = _evaluate(list(objects), config)
    _show_times(distances(EvaluateAgent(config), objects))
    _coverage(evaluations, config.catalogue.free)
    out.print(_samples(evaluations))
    out.say("\nNext, once ragweir's own topics are there (the first line creates them):")
    for command in (["topics", "create"], ["evaluate", *flags]):
        out.say(f"  {shlex.join(['ragweir', *shared_flags(), *command])}")


def read_newest(effective: Settings, topic: str, count: int) -> list[Record]:
    """Return the newest records of a topic, about equally many of each partition, without joining a group.

    Transactions and compaction leave gaps in the offsets: if too few records are found, more offsets are read.

    Raises:
        PermanentError: if there is no such topic.
        Unreachable: if no broker answers.
    """
    present = reading.topics(effective)
    if topic not in present:
        near = difflib.get_close_matches(topic, present, 3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise PermanentError(f"there is no topic {topic}, or it may not be seen{hint}")
    whole = reading.offset_range(effective, topic)
    records: list[Record] = []
    for reach in _REACH:
        part = replace(whole, starts=_starts(whole, reach * count))
        records = list(reading.read(effective, part))
        if len(records) >= count or len(part) == len(whole):
            break
    return _newest(records, count)


def _starts(whole: reading.OffsetRange, count: int) -> dict[int, int]:
    """Return the first offset to read in each partition; longer ones make up for what short ones lack.

    >>> _starts(reading.OffsetRange("t", {0: 0, 1: 5, 2: 0}, {0: 0, 1: 7, 2: 100}), 10)
    {0: 0, 1: 5, 2: 92}
    """
    starts: dict[int, int] = {}
    lengths = sorted((end - whole.starts[partition], partition) for partition, end in whole.ends.items())
    for place, (length, partition) in enumerate(lengths):
        share = min(length, -(-count // (len(lengths) - place)))
        starts[partition] = whole.ends[partition] - share
        count = max(0, count - share)
    return starts


def _newest(records: Sequence[Record], count: int) -> list[Record]:
    """Return the newest `count` records, ordered by partition and offset."""
    latest = sorted(records, key=lambda record: record.timestamp_ms or 0)[-count:]
    return sorted(latest, key=lambda record: (record.partition, record.offset))


def _objects(records: Sequence[Record], topic: str, max_bytes: int) -> dict[Record, object]:
    """Return the records that hold JSON objects, with these, and print the reasons for the others."""
    objects: dict[Record, object] = {}
    rejections: list[Rejected] = []
    for record in records:
        try:
            data = parse(record.value, max_bytes)
        except Rejected as rejected:
            rejections.append(rejected)
        else:
            if isinstance(data, dict):
                objects[record] = data
            else:
                rejections.append(Rejected("invalid", "the event is not an object"))
    partitions = len({record.partition for record in records})
    out.say(f"{len(records)} records of {topic} were read, the newest ones, from {partitions} of its partitions.")
    _show_rejections("hold no event", rejections)
    if not objects:
        raise typer.Exit(FAILURE)
    return objects


def _show_rejections(what: str, rejections: Sequence[Rejected]) -> None:
    """Print the number of rejected records, and for each error class the most frequent message."""
    if rejections:
        out.say(f"{len(rejections)} of them {what}:")
    for error_class, number in Counter(each.error_class for each in rejections).most_common():
        messages = Counter(each.message for each in rejections if each.error_class == error_class)
        others = ", or the like" if len(messages) > 1 else ""
        out.say(f"{number:>6}  {printable(messages.most_common(1)[0][0], None)}{others}")


def _have_own_schema(events: Collection[object]) -> bool:
    """Return true if enough events are interactions without a map."""
    interactions = 0
    for event in events:
        with suppress(Rejected):
            interaction(event)
            interactions += 1
    return interactions >= _OWN_SHARE * len(events)


def _proposed(events: Sequence[object]) -> FieldMap:
    """Propose a map for the events and print it; exit if it lacks required fields."""
    rules = propose(events)
    complete = set(REQUIRED) <= rules.keys()
    guessed = "was inferred from names and types" if complete else "is all that could be inferred from names and types"
    out.say(f"They have another schema than ragweir's. This map {guessed}:\n")
    out.say(written(rules))
    if complete:
        return FieldMap(rules)
    out.say("\nPaths of these events that a map can use:\n")
    out.print(Padding(", ".join(innermost(events)) or "nothing", (0, 0, 0, 2)))
    out.say("\nComplete the map in a file, and run this command again with --map FILE.")
    raise typer.Exit(FAILURE)


def _evaluate(records: Sequence[Record], config: EvaluateConfig) -> list[Evaluation]:
    """Return the evaluations of the records; exit if there are none."""
    agent = EvaluateAgent(config)
    evaluations: list[Evaluation] = []
    rejections: list[Rejected] = []
    with Bars() as bars, bars.shown("Scoring", len(records)) as scored:
        for record in records:
            try:
                for found in agent.evaluate(record):
                    if isinstance(found, Rejected):
                        rejections.append(found)
                    else:
                        evaluations.append(found[0])
            except Exception as error:  # One record must not end the command, as it does not end the service.
                rejections.append(Rejected("unreadable", f"evaluating raised {type(error).__name__}"))
            scored(1)
    _show_rejections("cannot be evaluated", rejections)
    if not evaluations:
        raise typer.Exit(FAILURE)
    if repeated := len(evaluations) - len({evaluation.event_id for evaluation in evaluations}):
        out.say(f"{repeated} of them repeat an event_id; the newest evaluation of an event counts.")
    repaired = Counter(flag for evaluation in evaluations for flag in evaluation.flags if flag in REPAIRS)
    if repaired:
        flags = ", ".join(f"{flag} {number}" for flag, number in repaired.most_common())
        out.say(f"Some were repaired, and their evaluations flagged: {flags}.")
    return evaluations


def _show_times(found: Distances) -> None:
    """Print the distance of event times from the timestamps of their records, and what may be wrong with them."""
    out.say(f"Of the evaluated ones, {found}.")
    if found.complaint:
        out.say(f"Check this first: {found.complaint}.")


def _gathered(evaluations: Sequence[Evaluation]) -> tuple[dict[str, list[float | str]], dict[str, str]]:
    """Return for each metric all values, and the most frequent reason why there is none."""
    values: defaultdict[str, list[float | str]] = defaultdict(list)
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for evaluation in evaluations:
        for name, value in (evaluation.scores | evaluation.categories).items():
            if value is not None:
                values[name].append(value)
        for name, reason in evaluation.reasons.items():
            reasons[name][reason] += 1
    return values, {name: counted.most_common(1)[0][0] for name, counted in reasons.items()}


def _coverage(evaluations: Sequence[Evaluation], metrics: Mapping[str, Metric]) -> None:
    """Print the metrics that can be computed, by group, and then the others, by reason."""
    values, why = _gathered(evaluations)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(f"Of {len(evaluations)} events", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("mean or labels", max_width=14, overflow="fold")
    table.add_column("why not the others")
    for group, members in groupby((metrics[name] for name in metrics if name in values), lambda each: each.group):
        table.add_row(Text(group, "bold"))
        for metric in members:
            found = values[metric.name]
            share = f"{100 * len(found) / len(evaluations):.0f} %"
            reason = why.get(metric.name, "").removeprefix("the event has ")
            table.add_row(f"  {metric.name}", share, _mean(found), Text(reason, "dim"))
    out.say("")
    out.print(table)
    never: defaultdict[str, list[str]] = defaultdict(list)
    for name in metrics:
        if name not in values:
            never[why.get(name, "needs a question_id that has a question pack")].append(name)
    if never:
        out.print("\nOn none of them", style="bold")
    for reason, names in never.items():
        out.print(Text(f"  {reason.replace('the event has no ', 'needs ')}:", "dim"))
        out.print(Padding(Text(", ".join(names)), (0, 0, 0, 4)))


def _mean(found: Sequence[float | str]) -> str:
    labels = Counter(value for value in found if isinstance(value, str))
    if labels:
        return ", ".join(f"{label} {number}" for label, number in labels.most_common(3))
    return _number(fmean(value for value in found if not isinstance(value, str)))


def _number(value: float) -> str:
    return f"{value:,.3f}" if value == 0 or abs(value) >= 0.001 else f"{value:.1e}"


def _samples(evaluations: Sequence[Evaluation]) -> Table:
    """Return a table with the scores of a few events, spread over the sample."""
    shown = evaluations[:: -(-len(evaluations) // _SHOWN)]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("\nSome events")
    for evaluation in shown:
        table.add_column(f"\n{printable(evaluation.event_id, _ID_WIDTH)}", justify="right", no_wrap=True)
    for name in _HEADLINES:
        row = [evaluation.scores.get(name) for evaluation in shown]
        if any(value is not None for value in row):
            table.add_row(f"  {name}", *("" if value is None else _number(value) for value in row))
    return table
