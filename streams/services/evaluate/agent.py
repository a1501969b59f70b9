"""The evaluate agent: interactions in, evaluations, requests to judge and dead letters out."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median_low
from typing import TYPE_CHECKING

from typing_extensions import override

from ragweir.errors import ErrorClass, Rejected
from ragweir.metrics.catalogue import Catalogue
from ragweir.metrics.cause.coded_facets import CUT_FACETS, facets
from ragweir.metrics.native import NativeCounting
from ragweir.metrics.view import Counting, TextLimits, View, reference
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder, Skipped
from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS, TIME_DEFAULTED
from ragweir.schemas.codec.json import encode, event_time
from ragweir.schemas.dead_letter import HEAD_BYTES
from ragweir.schemas.evaluation import Decision, Evaluation, Texts
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.packed_scores import score_headers
from ragweir.schemas.topics import MAX_EVENT_BYTES, OTLP_EVALUATIONS, max_record_bytes
from ragweir.streams.runtime.agent import Agent, Assignment
from ragweir.streams.runtime.emissions import add_dead_letter, cloud_event, with_trace
from ragweir.streams.runtime.headers import read_headers
from ragweir.streams.runtime.records import (
    Count,
    Emission,
    EventPosition,
    Measurements,
    Outcome,
    Record,
    TopicPartition,
)
from ragweir.streams.services.evaluate.deduplication import Duplicates
from ragweir.streams.services.evaluate.evaluation_writer import EvaluationWriter, evaluation_of
from ragweir.streams.services.evaluate.filters import Filters
from ragweir.streams.services.evaluate.parts import EvaluatePreparation, EvaluateRecovery
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.shared.routing_rows import ROUTING_AHEAD, RowSource
from ragweir.streams.services.shared.row_writer import DOCUMENTS, EventRow, RowConfig, RowWriter

if TYPE_CHECKING:
    from ragweir.streams.traces.otlp_results import OtlpResults

_SERVICE = "evaluate"
_UNDECIDED = Decision()
_REQUEST_OVERHEAD_BYTES = 8 * 1024
"""Bytes of a judge request's record apart from its value: key, headers, and fields that are added while it waits."""


@dataclass(frozen=True, slots=True)
class EvaluateConfig:
    """All that an evaluation depends on, except its event."""

    catalogue: Catalogue
    limits: TextLimits = field(default_factory=TextLimits)
    counting: Counting = reference
    """The way to count in the texts of an event."""
    max_event_bytes: int = MAX_EVENT_BYTES
    max_items: Mapping[str, int] = field(default_factory=lambda: DEFAULT_MAX_ITEMS)
    """The most elements that are read of each list of an event; see `ragweir.schemas.codec.intake`."""
    decoders: Mapping[str, Decoder] = field(default_factory=dict)
    """The decoders of topics that a `JsonDecoder` cannot read."""
    include_text: bool = False
    otlp: OtlpResults | None = None
    """Makes the OpenTelemetry form of evaluations; None if it is not written."""
    explain: bool = False
    run_id: str | None = None
    router: Router | None = None
    """Selects the events to judge; None if there is no judge."""
    rows: RowSource = field(default_factory=RowSource)
    """Gives the routing rows of applications; those without one have the shipped row."""
    filters: Filters = field(default_factory=Filters)
    """Conditions that an event must fulfil; other events are only counted."""
    ignore_record_timestamp: bool = False
    """True if records have no meaningful timestamps, since they were made from a file."""
    default_time: datetime | None = None
    """The time of events that have none, whose evaluations are flagged `time_defaulted`; None rejects them."""
    documents: RowConfig | None = None
    """Makes the rows of the topic `documents`; None if they are not written."""
    duplicate_horizon: int = 0
    """The number of offsets back within which an id makes an event a duplicate."""


class EvaluateAgent(Agent):
    """Scores every readable event once. A duplicate is counted, and an unreadable event becomes a dead letter.

    A record may hold any number of events, which are handled independently.

    Args:
        config: all that evaluations depend on.
        duplicates: recognises duplicates; by default by the horizon of the configuration.
    """

    def __init__(self, config: EvaluateConfig, duplicates: Duplicates | None = None) -> None:
        self._config = config
        self._json = JsonDecoder(config.max_event_bytes, config.max_items)
        self._most_request_bytes = max_record_bytes(config.max_event_bytes) - _REQUEST_OVERHEAD_BYTES
        self._duplicates = Duplicates(config.duplicate_horizon) if duplicates is None else duplicates
        self._writer = EvaluationWriter()
        self._row_writer = RowWriter(_SERVICE, "scored", config.documents) if config.documents else None
        self._rows = config.rows.rows
        self.preparation = EvaluatePreparation(config.rows, config.decoders, self._duplicates.horizon)
        self.recovery = EvaluateRecovery(self._identities)

    @override
    def drain(self) -> None:
        self._config.rows.close()

    @override
    def drain_metrics(self) -> Measurements:
        return self._config.rows.drain_metrics()

    @property
    @override
    def outputs(self) -> tuple[str, ...]:
        requests = ("judge.requests",) if self._config.router else ()
        results = (OTLP_EVALUATIONS,) if self._config.otlp else ()
        rows = (DOCUMENTS,) if self._row_writer else ()
        return ("evaluations", *requests, *results, *rows, "dead-letter")

    @override
    def handle(self, records: Sequence[Record]) -> Outcome:
        """Emit an evaluation or a dead letter per event in order, and a judge request after a selected evaluation.

        Duplicates and events that are filtered out are only counted.
        """
        outcome, panics = Outcome(settled=list(records)), self._panics
        self._rows = self._config.rows.rows
        outcome.counts["ragweir_events_in_total",] += len(records)
        rows: list[EventRow] = []
        evaluated: list[tuple[Record, Evaluation]] = []
        for record in records:
            repeated = False
            for index, event in enumerate(self.read(record, outcome.counts)):
                settled = event if isinstance(event, Rejected) else self._settle(*event, record, index, outcome, rows)
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
        if self._row_writer:
            outcome.emissions += self._row_writer.emissions(rows)
        _count(outcome, [evaluation for _, evaluation in evaluated])
        if not self._config.ignore_record_timestamp:
            _measure(outcome, evaluated)
        if self._panics > panics:
            outcome.counts["ragweir_kernel_panics_total",] += self._panics - panics
        return outcome

    @property
    def _panics(self) -> int:
        """The number of events so far at which the kernel failed."""
        counting = self._config.counting
        return counting.panics if isinstance(counting, NativeCounting) else 0

    @override
    def dead_letter(self, record: Record, reason: str, error_class: ErrorClass = "refused") -> Outcome:
        """Settle a record as a dead letter, which holds only the head of a record whose outcome Kafka rejects."""
        outcome = Outcome(settled=[record])
        outcome.counts["ragweir_events_in_total",] += 1
        most = HEAD_BYTES if error_class == "refused" else self._config.max_event_bytes
        add_dead_letter(outcome, _SERVICE, record, error_class, reason, most)
        if error_class == "refused":  # The id of a record that ends processes is not read.
            for position, event_id in self._identities(record):
                self._duplicates.seen(record.topic_partition, position, event_id)
        self._duplicates.advance(record.topic_partition, record.offset)
        return outcome

    # Duplicates.

    @override
    def on_assigned(self, assignment: Assignment) -> None:
        """Read the ids of the preceding records."""
        before = (event for record in assignment.preceding for event in self._identities(record))
        self._duplicates.restore(assignment.topic_partition, assignment.start, before)

    @override
    def on_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Keep the ids, in case a partition comes back at the same offset."""
        self._duplicates.drop(partitions)

    @override
    def on_commit(self) -> None:
        self._duplicates.commit()

    @override
    def on_abort(self) -> None:
        self._duplicates.abort()

    def _identities(self, record: Record) -> Iterator[tuple[EventPosition, str]]:
        """Return the positions and ids of the readable events."""
        for index, event in enumerate(self.read(record)):
            if not isinstance(event, Rejected):
                yield (record.offset, index), event[0].event_id

    # Evaluating.

    def read(
        self, record: Record, counts: Counter[Count] | None = None
    ) -> Iterator[tuple[Interaction, datetime] | Rejected]:
        """Yield the events of a record with their times, or a rejection for each that is unreadable or has no time.

        Events that the map does not select are skipped, and added to `counts`.
        """
        config = self._config
        stamp_ms = None if config.ignore_record_timestamp else record.timestamp_ms
        headers = None
        if record.headers or record.headers_lost:
            headers = read_headers(record.headers, is_lost=record.headers_lost)
        for event in config.decoders.get(record.topic, self._json).decode(record.value, record.offset):
            if isinstance(event, Skipped):
                if counts is not None:
                    counts["ragweir_filtered_total",] += 1
                continue
            if isinstance(event, Rejected):
                yield event
                continue
            if headers is not None:
                event = headers.applied(event)  # noqa: PLW2901 - the event is read together with its headers
            try:
                yield event, event_time(event, stamp_ms)
            except Rejected as rejected:
                if config.default_time is None:
                    yield rejected
                else:
                    yield event.with_flags({*event.flags, TIME_DEFAULTED}), config.default_time

    def evaluate(self, record: Record) -> Iterator[tuple[Evaluation, list[str]] | Rejected]:
        """Yield each event's evaluation with the metrics that raised, or its rejection; nothing for a skipped event."""
        for index, event in enumerate(self.read(record)):
            yield event if isinstance(event, Rejected) else self._evaluation(*event, record, index)

    def _settle(
        self,
        event: Interaction,
        time: datetime,
        record: Record,
        index: int,
        outcome: Outcome,
        rows: list[EventRow],
    ) -> Evaluation | Rejected | None:
        """Add an event's evaluation to the outcome, and return it; a rejection, or None for an event only counted."""
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
            evaluation, emissions = self._emissions(evaluation, event, rows)
        except Rejected as rejected:
            return rejected
        except MemoryError:  # It is no defect of the event: there may be no memory for any.
            raise
        except Exception as error:  # One event must not stop the stream; it becomes a dead letter.
            return Rejected("unreadable", f"evaluating raised {type(error).__name__}")
        outcome.emissions += with_trace(emissions, record)
        for flag in event.flags:
            outcome.counts["ragweir_repaired_total", flag] += 1
        for metric in raised:
            outcome.counts["ragweir_metric_errors_total", metric] += 1
        if ROUTING_AHEAD in evaluation.flags:
            outcome.counts["ragweir_routing_ahead_total",] += 1
        return evaluation

    def _evaluation(
        self, event: Interaction, time: datetime, record: Record, index: int
    ) -> tuple[Evaluation, list[str]]:
        config, decision, flag = self._config, _UNDECIDED, ""
        view = View(event, config.limits, config.counting)
        scored = config.catalogue.score(view)
        if config.router:
            row = None
            if config.router.uses_rows:
                row, flag = self._rows.at(event.application, time)
            decision = config.router.decide(event, scored.scores, scored.categories, view.absent, row)
        own_facets, cut = facets(event, view)
        further = (flag, CUT_FACETS if cut else "")
        evaluation = evaluation_of(
            event,
            time,
            scored,
            record,
            index,
            facets=own_facets,
            evidence=config.catalogue.explain(view) if config.explain else {},
            decision=decision,
            flags=(*event.flags, *scored.flags, *filter(None, further)),
            text=Texts(
                query=event.query,
                response=event.response,
                contexts=tuple(context.text for context in event.contexts or ()),
            )
            if config.include_text
            else None,
            catalogue_version=config.catalogue.version,
            run_id=config.run_id,
        )
        return evaluation, scored.raised

    def _emissions(
        self, evaluation: Evaluation, event: Interaction, rows: list[EventRow]
    ) -> tuple[Evaluation, list[Emission]]:
        """Return the evaluation as it is emitted, and its emissions: itself, its judge request and its OTLP form."""
        requests = []
        hashed = self._row_writer.hashed(evaluation, event.contexts) if self._row_writer else None
        value = self._writer.encode(evaluation)
        if self._writer.is_selected(evaluation):
            request = encode(self._request(evaluation, event, hashed or (b"", b"")))
            if len(request) <= self._most_request_bytes:
                requests = [_emission("judge.requests", "judge_request", "judge_request", evaluation, request)]
            else:
                evaluation = _too_large_to_judge(evaluation)
                value = encode(evaluation)
        written = _emission("evaluations", "evaluation.scored", "scored", evaluation, value)
        written = written._replace(headers=(*score_headers(evaluation, value), *written.headers))
        results = self._config.otlp.emissions(_SERVICE, evaluation) if self._config.otlp else []
        if hashed:
            rows.append(EventRow(evaluation, *hashed))
        return evaluation, [written, *requests, *results]

    def _request(self, evaluation: Evaluation, event: Interaction, hashed: tuple[bytes, bytes]) -> JudgeRequest:
        if event.query is None or event.response is None:
            raise ValueError("an event without query or response is not selected")
        most = self._config.limits.max_contexts
        texts = [each.text for each in event.contexts or ()]
        captured = [text for text in texts if text is not None]
        # No suite is asked about a part of the contexts, as the judge would miss in them what was not captured.
        known = event.contexts is not None and len(captured) == len(texts)
        return JudgeRequest(
            evaluation=evaluation,
            query=event.query,
            response=event.response,
            contexts=tuple(captured[:most]) if known else None,
            expected=event.expected,
            documents=b64encode(hashed[0]).decode(),
            chunks=b64encode(hashed[1]).decode(),
        )


def _count(outcome: Outcome, evaluations: Sequence[Evaluation]) -> None:
    """Count evaluations and decisions. Most events share theirs with others, so each distinct decision is read once."""
    if evaluations:
        outcome.counts["ragweir_evaluations_total", "scored"] += len(evaluations)
    decisions = [evaluation.decision for evaluation in evaluations]
    distinct = {id(decision): decision for decision in decisions}
    for identity, events in Counter(map(id, decisions)).items():
        for suite in distinct[identity].suites:
            outcome.counts["ragweir_routed_total", suite.suite, suite.status] += events


def _measure(outcome: Outcome, evaluated: Iterable[tuple[Record, Evaluation]]) -> None:
    """Set the gauges of the time between the events of a batch and their records' timestamps."""
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
    """Return the evaluation of an event whose request Kafka would reject, and with it the whole transaction.

    Structured content can become longer when it is read as text: 1e15 becomes 1000000000000000.0.
    """
    suites = tuple(
        suite.model_copy(update={"status": "failed"}) if suite.status == "selected" else suite
        for suite in evaluation.decision.suites
    )
    flags = (*evaluation.flags, "judge_request_too_large")
    return evaluation.model_copy(update={"decision": Decision(suites=suites), "flags": flags})
