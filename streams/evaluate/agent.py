"""The evaluate agent: interactions in, evaluations, requests to judge and dead letters out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median_low

from pydantic import BaseModel, ValidationError
from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.metrics.catalogue import CATALOGUE_VERSION, Catalogue
from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.codec.json import encode, event_time
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.evaluation import CARRIED_OVER, Decision, Evaluation, Source, Texts, document_ids
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import MAX_EVENT_BYTES, max_record_bytes
from ragweir.streams.agent import Agent, Assignment, Origin
from ragweir.streams.emissions import add_dead_letter, cloud_event
from ragweir.streams.evaluate.deduplication import Duplicates
from ragweir.streams.evaluate.filters import Filters
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.records import Emission, EventPosition, Outcome, Record, TopicPartition

_SERVICE = "evaluate"
_AROUND_BYTES = 8 * 1024
"""Of a judge request's record beside its value: key, headers, and what is added to it when it has to wait."""


@dataclass(frozen=True, slots=True)
class EvaluateConfig:
    """All that an evaluation depends on beside its event."""

    catalogue: Catalogue
    limits: TextLimits = field(default_factory=TextLimits)
    max_event_bytes: int = MAX_EVENT_BYTES
    max_items: Mapping[str, int] = field(default_factory=lambda: DEFAULT_MAX_ITEMS)
    """The number of elements that is read of each list of an event; see `ragweir.schemas.codec.intake`."""
    decoders: Mapping[str, Decoder] = field(default_factory=dict)
    """The decoders of the topics that are not read by a `JsonDecoder`."""
    include_text: bool = False
    explain: bool = False
    run_id: str | None = None
    router: Router | None = None
    """Decides which events the judge gets; without one there is no judge."""
    filters: Filters = field(default_factory=Filters)
    """What an event must fulfil; others are only counted."""
    ignore_record_timestamp: bool = False
    """Whether only times of events themselves count, since their records were made of a file."""
    duplicate_horizon: int = 0
    """How many offsets back an id makes an event a duplicate."""


class _Origin(BaseModel):
    """The fields of an evaluation that tell of which event it was made."""

    event_id: str
    source: Source


class EvaluateAgent(Agent):
    """Scores every readable event once. A duplicate is counted, and what cannot be read becomes a dead letter.

    A record may hold several events, as its decoder finds them, and each of them stands for itself. A record without
    any leaves nothing but its count among the records read.
    """

    def __init__(self, config: EvaluateConfig) -> None:
        self._config = config
        self._json = JsonDecoder(config.max_event_bytes, config.max_items)
        self._most_request_bytes = max_record_bytes(config.max_event_bytes) - _AROUND_BYTES
        self._duplicates = Duplicates(config.duplicate_horizon)

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        """Requests to judge are written only where there is a judge."""
        requests = ("judge.requests",) if self._config.router else ()
        return ("evaluations", *requests, "dead-letter")

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Emit an evaluation or a dead letter per event, in their order; after an evaluation its request, if selected.

        A duplicate, or an event that is filtered out, is only counted.
        """
        outcome = Outcome(settled=list(records))
        evaluated: list[tuple[Record, Evaluation]] = []
        for record in records:
            outcome.counts["ragweir_events_in_total",] += 1
            repeated = False
            for index, event in enumerate(self.read(record)):
                settled = event if isinstance(event, Rejected) else self._settle(*event, record, index, outcome)
                if isinstance(settled, Evaluation):
                    evaluated.append((record, settled))
                elif settled is not None:
                    most, why = self._config.max_event_bytes, settled
                    add_dead_letter(
                        outcome, _SERVICE, record, why.error_class, why.message, most, index, repeated=repeated
                    )
                    repeated = True
        for record in {record.topic_partition: record for record in records}.values():
            self._duplicates.advance(record.topic_partition, record.offset)
        _count(outcome, [evaluation.decision for _, evaluation in evaluated])
        if not self._config.ignore_record_timestamp:
            _measure(outcome, evaluated)
        return outcome

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter; of one that Kafka does not take only the head is kept, as it may be large.

        See `Agent.dead_letter`.
        """
        outcome = Outcome(settled=[record])
        outcome.counts["ragweir_events_in_total",] += 1
        most = HEAD_BYTES if error_class == "refused" else self._config.max_event_bytes
        add_dead_letter(outcome, _SERVICE, record, error_class, reason, most)
        if error_class == "refused":  # Not even the id of a record that ends processes is read.
            for position, event_id in self.identities(record):
                self._duplicates.seen(record.topic_partition, position, event_id)
        self._duplicates.advance(record.topic_partition, record.offset)
        return outcome

    # Duplicates.

    @property
    @override
    def warm_up(self) -> int:
        """The number of offsets back within which an id makes an event a duplicate."""
        return self._duplicates.horizon

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Read the ids of the preceding records; see `Agent.on_assigned`."""
        before = (event for record in assignment.preceding for event in self.identities(record))
        self._duplicates.restore(assignment.topic_partition, assignment.start, before)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Keep the ids, in case a partition comes back at the same offset."""
        self._duplicates.drop(partitions)

    @override
    def on_commit(self) -> None:
        """Keep the ids of the last batch."""
        self._duplicates.settled(committed=True)

    @override
    def on_abort(self) -> None:
        """Forget the ids of the last batch."""
        self._duplicates.settled(committed=False)

    # Offset recovery.

    @property
    @override
    def provenance(self) -> str:
        """An evaluation tells where its interaction was read."""
        return "evaluations"

    @override
    def origins(self, output: Record) -> Iterator[Origin]:
        """Return the source of an evaluation; nothing for a record that is none."""
        with suppress(ValidationError):
            made = _Origin.model_validate_json(output.value or b"")
            source = made.source
            yield Origin((source.topic, source.partition), (source.offset, source.index), made.event_id)

    @override
    def identities(self, record: Record) -> Iterator[tuple[EventPosition, str]]:
        """Return the positions and ids of the readable events."""
        for index, event in enumerate(self.read(record)):
            if not isinstance(event, Rejected):
                yield (record.offset, index), event[0].event_id

    @override
    def replay_command(self, topic: str, first: int, end: int) -> str:
        """Return the command that evaluates these offsets of all partitions of a topic in a run of its own."""
        return f"ragweir replay --run-id again-{first}-{end} --topic {topic} --from {first} --to {end}"

    # Evaluating.

    def read(self, record: Record) -> Iterator[tuple[Interaction, datetime] | Rejected]:
        """Yield the events of a record with their times, and a rejection for each that cannot be read or has no time.

        Their places are the events' indices.
        """
        config = self._config
        stamp_ms = None if config.ignore_record_timestamp else record.timestamp_ms
        for event in config.decoders.get(record.topic, self._json).decode(record.value):
            yield event if isinstance(event, Rejected) else _timed(event, stamp_ms)

    def evaluate(self, record: Record) -> Iterator[tuple[Evaluation, list[str]] | Rejected]:
        """Yield each event's evaluation with the names of the metrics that raised, or its rejection."""
        for index, event in enumerate(self.read(record)):
            yield event if isinstance(event, Rejected) else self._evaluation(*event, record, index)

    def _settle(
        self, event: Interaction, time: datetime, record: Record, index: int, outcome: Outcome
    ) -> Evaluation | Rejected | None:
        """Add to the outcome all that an event comes to, unless it is rejected; None for one that is only counted."""
        filters = self._config.filters
        try:
            if self._duplicates.seen(record.topic_partition, (record.offset, index), event.event_id):
                outcome.counts["ragweir_duplicates_total",] += 1
                return None
            if not filters.admit_event(event, time):
                outcome.counts["ragweir_filtered_total",] += 1
                return None
            evaluation, raised = self._evaluation(event, time, record, index)
            if not filters.admit_scores(evaluation.scores, evaluation.categories):
                outcome.counts["ragweir_filtered_total",] += 1
                return None
            evaluation, emissions = self._emissions(evaluation, event)
        except Rejected as rejected:
            return rejected
        except Exception as error:  # One event must not stop the stream; it is kept and named.
            return Rejected("unreadable", _raised(error))
        outcome.emissions += emissions
        outcome.counts["ragweir_evaluations_total", evaluation.stage] += 1
        outcome.counts.update(("ragweir_repaired_total", flag) for flag in event.flags)
        outcome.counts.update(("ragweir_metric_errors_total", metric) for metric in raised)
        return evaluation

    def _evaluation(
        self, event: Interaction, time: datetime, record: Record, index: int
    ) -> tuple[Evaluation, list[str]]:
        config = self._config
        view = View(event, config.limits)
        scored = config.catalogue.score(view)
        evaluation = Evaluation(
            **{name: getattr(event, name) for name in CARRIED_OVER},
            event_time=time,
            scores=scored.scores,
            categories=scored.categories,
            reasons=scored.reasons,
            flags=(*event.flags, *scored.flags),
            evidence=config.catalogue.explain(view) if config.explain else {},
            decision=config.router.decide(event, scored.scores, scored.categories) if config.router else Decision(),
            document_ids=document_ids(event),
            text=Texts(
                query=event.query,
                response=event.response,
                contexts=tuple(context.text for context in event.contexts or ()),
            )
            if config.include_text
            else None,
            catalogue_version=CATALOGUE_VERSION,
            source=Source(topic=record.topic, partition=record.partition, offset=record.offset, index=index),
            run_id=config.run_id,
        )
        return evaluation, scored.raised

    def _emissions(self, evaluation: Evaluation, event: Interaction) -> tuple[Evaluation, list[Emission]]:
        """The evaluation as it goes out, and what to write: itself and, when it is selected, the request."""
        requests = []
        if any(suite.status == "selected" for suite in evaluation.decision.suites):
            request = encode(self._request(evaluation, event))
            if len(request) <= self._most_request_bytes:
                requests = [_emission("judge.requests", "judge_request", "judge_request", evaluation, request)]
            else:
                evaluation = _too_large_to_judge(evaluation)
        stage = evaluation.stage
        written = _emission("evaluations", f"evaluation.{stage}", stage, evaluation, encode(evaluation))
        return evaluation, [written, *requests]

    def _request(self, evaluation: Evaluation, event: Interaction) -> JudgeRequest:
        contexts = event.contexts
        if contexts is not None:
            contexts = contexts[: self._config.limits.max_contexts]
        return JudgeRequest(
            evaluation=evaluation,
            query=event.query,
            response=event.response,
            contexts=None if contexts is None else tuple(context.text for context in contexts),
            expected=event.expected,
        )


def _timed(event: Interaction, stamp_ms: int | None) -> tuple[Interaction, datetime] | Rejected:
    """Return an event with its time, or the reason why it has none."""
    try:
        return event, event_time(event, stamp_ms)
    except Rejected as rejected:
        return rejected


def _raised(error: Exception) -> str:
    """The reason of a record whose evaluation raised.

    Raises:
        MemoryError: if it was that. It says nothing about the record: there may be no memory left for any.
    """
    if isinstance(error, MemoryError):
        raise error
    return f"evaluating raised {type(error).__name__}"


def _count(outcome: Outcome, decisions: Sequence[Decision]) -> None:
    """Count what was decided. Most events share their decision with others, so each decision is looked at once."""
    distinct = {id(decision): decision for decision in decisions}
    for identity, events in Counter(map(id, decisions)).items():
        for suite in distinct[identity].suites:
            outcome.counts["ragweir_routed_total", suite.suite, suite.status] += events


def _measure(outcome: Outcome, evaluated: Iterable[tuple[Record, Evaluation]]) -> None:
    """Show how long before their records' timestamps the events of a batch happened."""
    seconds = [
        record.timestamp_ms / 1_000 - evaluation.event_time.timestamp()
        for record, evaluation in evaluated
        if record.timestamp_ms is not None
    ]
    if seconds:
        for name, statistic in (("min", min), ("median", median_low), ("max", max)):
            outcome.levels["ragweir_event_time_distance_seconds", name] = statistic(seconds)


def _emission(topic: str, kind: str, what: str, evaluation: Evaluation, value: bytes) -> Emission:
    identity = f"{evaluation.event_id}:{what}"
    headers = cloud_event(_SERVICE, kind, identity, evaluation.event_time, "application/json")
    return Emission(topic, evaluation.event_id.encode(), value, headers)


def _too_large_to_judge(evaluation: Evaluation) -> Evaluation:
    """The evaluation of an event whose request Kafka would refuse, and with it the whole transaction.

    Text never grows on its way, but structured content that is read as text can: 1e15 becomes 1000000000000000.0.
    """
    suites = tuple(
        suite.model_copy(update={"status": "failed"}) if suite.status == "selected" else suite
        for suite in evaluation.decision.suites
    )
    flags = (*evaluation.flags, "judge_request_too_large")
    return evaluation.model_copy(update={"decision": Decision(suites=suites), "flags": flags})
