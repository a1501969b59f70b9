"""`ragweir tap`: a look at any topic, before anything is set up."""

from __future__ import annotations

import difflib
import shlex
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any

import stamina
import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from rich.padding import Padding
from rich.progress import track
from rich.table import Table
from rich.text import Text

from metrics.metric import Metric
from schemas.codec import Rejected, interaction, parse
from schemas.evaluation import Evaluation
from schemas.mapping import FieldMap
from streams.agents.agent import Record
from streams.agents.evaluate import EvaluateAgent, EvaluateConfig
from streams.cli.app import FAILURE, app, err, out, settings, shared_flags
from streams.kafka_client import Connection, Refusal, ask, build, client_properties, reader_properties, settling
from streams.runtimes.messages import received
from streams.service import evaluate_config
from streams.settings import Settings
from streams.shape import REQUIRED, innermost, propose, written

_TIMEOUT_S = 10.0
_SHOWN = 3
_ID_WIDTH = 16
_OWN_SHARE = 0.5
"""From this share of readable events on, the topic is taken to have our shape."""
_REACH = (1, 4, 16)
"""How far back it looks for each record that is asked for, if need be."""
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
"""What is shown of single events."""


@app.command()
def tap(
    topic: Annotated[str, typer.Argument(help="Any topic; it is only read, without a consumer group.")],
    map: Annotated[Path | None, typer.Option(help="Try this map instead of a proposed one.")] = None,
    records: Annotated[int, typer.Option(min=1, max=10_000, help="How many of the newest records to read.")] = 300,
) -> None:
    """Look at a topic without committing or writing: what could be measured on it?

    Reads the newest records, recognises our shape or proposes a map for theirs, and shows which metrics could be
    computed on what share of the events, why not the others, and the scores of some events. Exit status 1 when no
    event could be scored.
    """
    effective = settings(input={"map": map})
    config = evaluate_config(effective, topic)
    flags = [] if topic == effective.input_topic else ["--input-topic", topic]
    if map is not None:
        flags += ["--map", str(map)]
    elif flags:
        config = replace(config, mappings={})  # The map in the settings is for another topic.
    found = read_newest(effective, topic, records)
    if not found:
        raise Refusal(f"the topic {topic} holds no records")
    objects = _objects(found, topic, config.max_event_bytes)
    if config.mappings:
        _say(f"Read through the map {effective.input.map}.")
    elif _ours(objects.values()):
        _say("They have ragweir's own shape.")
    else:
        config = replace(config, mappings={topic: _proposed(list(objects.values()))})
        flags += ["--map", f"{topic}.toml"]
        _say(f"\nWhat follows is read through it. Correct it where it is wrong, and save it as {topic}.toml.")
    evaluations = _evaluate(list(objects), config)
    _coverage(evaluations, config.catalogue.free)
    out.print(_samples(evaluations))
    _say("\nNext, once ragweir's own topics are there (the first line creates them):")
    for command in (["topics", "create"], ["evaluate", *flags]):
        _say(f"  {shlex.join(['ragweir', *shared_flags(), *command])}")


def read_newest(effective: Settings, topic: str, count: int) -> list[Record]:
    """The newest records of a topic, about equally many of each partition. Joins no group, commits nothing.

    Offsets are not records where transactions or compaction leave gaps, so that it reads further back, a few times,
    when it found too few.

    Raises:
        Refusal: if there is no such topic.
        Unreachable: if no broker answers.
    """
    connection = Connection(quiet=True)
    admin = build(AdminClient, client_properties(effective, connection))
    present = ask(admin, connection)
    if topic not in present:
        near = difflib.get_close_matches(topic, present, 3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise Refusal(f"there is no topic {topic}, or it may not be seen{hint}")
    spans = _spans(admin, topic, present[topic])
    consumer = build(Consumer, reader_properties(effective))
    try:
        records: list[Record] = []
        for reach in _REACH:
            starts = _starts(spans, reach * count)
            consumer.assign([TopicPartition(topic, partition, start) for partition, start in starts.items()])
            records = _read(consumer, {partition: spans[partition][1] for partition in starts})
            if len(records) >= count or all(start == spans[partition][0] for partition, start in starts.items()):
                break
        return _newest(records, count)
    finally:
        consumer.close()


@stamina.retry(on=settling, attempts=None, timeout=_TIMEOUT_S, wait_initial=0.05, wait_max=0.5)
def _spans(admin: AdminClient, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Where each partition begins and ends; asked for all of them at once, since there may be hundreds."""
    places = [TopicPartition(topic, partition) for partition in range(partitions)]
    spec: Any = OffsetSpec  # Its methods have no types.
    lows = admin.list_offsets(dict.fromkeys(places, spec.earliest()), request_timeout=_TIMEOUT_S)
    highs = admin.list_offsets(dict.fromkeys(places, spec.latest()), request_timeout=_TIMEOUT_S)
    return {place.partition: (lows[place].result().offset, highs[place].result().offset) for place in places}


def _starts(spans: Mapping[int, tuple[int, int]], count: int) -> dict[int, int]:
    """Where to begin in each partition that holds something: what short ones lack, the longer ones give.

    >>> _starts({0: (0, 0), 1: (5, 7), 2: (0, 100)}, 10)
    {1: 5, 2: 92}
    """
    starts: dict[int, int] = {}
    filled = sorted((high - low, partition) for partition, (low, high) in spans.items() if high > low)
    for place, (length, partition) in enumerate(filled):
        share = min(length, -(-count // (len(filled) - place)))
        starts[partition] = spans[partition][1] - share
        count = max(0, count - share)
    return {partition: start for partition, start in starts.items() if start < spans[partition][1]}


def _read(consumer: Consumer, ends: Mapping[int, int]) -> list[Record]:
    """What the assigned partitions hold up to these ends."""
    unfinished = set(ends)
    records: list[Record] = []
    while unfinished:
        message = consumer.poll(_TIMEOUT_S)
        if message is None:
            raise Refusal(f"the topic gave nothing for {_TIMEOUT_S:.0f} s")
        error = message.error()
        if error is None:
            record = received(message)
            if record.offset < ends[record.partition]:  # Others may be writing all the while.
                records.append(record)
            if record.offset + 1 >= ends[record.partition]:
                unfinished.discard(record.partition)
        elif error.code() == KafkaError._PARTITION_EOF:  # It ends in records that are aborted, or not yet committed.
            unfinished.discard(message.partition() or 0)
        elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # No group is joined, so no right to it is needed.
            raise KafkaException(error)
    return records


def _newest(records: Sequence[Record], count: int) -> list[Record]:
    """The last so many, in the order of their partitions and offsets."""
    latest = sorted(records, key=lambda record: record.timestamp_ms or 0)[-count:]
    return sorted(latest, key=lambda record: (record.partition, record.offset))


def _objects(records: Sequence[Record], topic: str, max_bytes: int) -> dict[Record, object]:
    """The records that hold JSON objects, with these; of the others it is told why not."""
    objects: dict[Record, object] = {}
    refused: list[Rejected] = []
    for record in records:
        try:
            data = parse(record.value, max_bytes)
        except Rejected as rejected:
            refused.append(rejected)
        else:
            if isinstance(data, dict):
                objects[record] = data
            else:
                refused.append(Rejected("invalid", "the event is not an object"))
    partitions = len({record.partition for record in records})
    _say(f"{len(records)} records of {topic} were read, the newest ones, from {partitions} of its partitions.")
    _tell("hold no event", refused)
    if not objects:
        raise typer.Exit(FAILURE)
    return objects


def _tell(what: str, refused: Sequence[Rejected]) -> None:
    """How many records were refused, and why: for each class of error the commonest message."""
    if refused:
        _say(f"{len(refused)} of them {what}:")
    for error_class, number in Counter(rejected.error_class for rejected in refused).most_common():
        messages = Counter(rejected.message for rejected in refused if rejected.error_class == error_class)
        others = ", or the like" if len(messages) > 1 else ""
        _say(f"{number:>6}  {messages.most_common(1)[0][0]}{others}")


def _ours(events: Collection[object]) -> bool:
    """Whether the events have our shape: enough of them are interactions as they stand."""
    interactions = 0
    for event in events:
        with suppress(Rejected):
            interaction(event)
            interactions += 1
    return interactions >= _OWN_SHARE * len(events)


def _proposed(events: Sequence[object]) -> FieldMap:
    """The map that is proposed for the events, and shown; ends the command where it would not be enough."""
    rules = propose(events)
    complete = set(REQUIRED) <= rules.keys()
    guessed = "was guessed from names and types" if complete else "is as far as a guess from names and types goes"
    _say(f"They have a shape of their own. This map {guessed}:\n")
    _say(written(rules))
    if complete:
        return FieldMap(rules)
    _say("\nA map can take from these events, among others:\n")
    out.print(Padding(Text(", ".join(innermost(events)) or "nothing"), (0, 0, 0, 2)))
    _say("\nComplete the map in a file, and look again with --map FILE.")
    raise typer.Exit(FAILURE)


def _evaluate(records: Sequence[Record], config: EvaluateConfig) -> list[Evaluation]:
    """The evaluations of the records; ends the command where there are none."""
    agent = EvaluateAgent(config)
    evaluations: list[Evaluation] = []
    refused: list[Rejected] = []
    for record in track(records, "Scoring", console=err, transient=True, disable=not err.is_terminal):
        try:
            evaluations.append(agent.evaluate(record)[0])
        except Rejected as rejected:
            refused.append(rejected)
        except Exception as error:  # As for the service, one record must not end it.
            refused.append(Rejected("unreadable", f"evaluating raised {type(error).__name__}"))
    _tell("cannot be evaluated", refused)
    if not evaluations:
        raise typer.Exit(FAILURE)
    if repeated := len(evaluations) - len({evaluation.event_id for evaluation in evaluations}):
        _say(f"{repeated} of them repeat an event_id; to readers an evaluation replaces the one before it.")
    return evaluations


def _gathered(evaluations: Sequence[Evaluation]) -> tuple[dict[str, list[float | str]], dict[str, str]]:
    """By metric, all values, and the commonest reason why there is none."""
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
    """What can be measured, by group, and at the end what cannot, by its reason."""
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
    _say("")
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
    """The headlines of a few events, spread over the sample."""
    shown = evaluations[:: -(-len(evaluations) // _SHOWN)]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("\nSome events")
    for evaluation in shown:
        # An id comes from outside, and what a terminal obeys must not reach it.
        name = "".join(character if character.isprintable() else "\ufffd" for character in evaluation.event_id)
        table.add_column(Text(f"\n{name[:_ID_WIDTH]}"), justify="right", no_wrap=True)
    for name in _HEADLINES:
        row = [evaluation.scores.get(name) for evaluation in shown]
        if any(value is not None for value in row):
            table.add_row(f"  {name}", *("" if value is None else _number(value) for value in row))
    return table


def _say(line: str) -> None:
    out.print(line, markup=False, highlight=False, soft_wrap=True)
