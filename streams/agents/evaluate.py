"""The evaluate agent: interactions in, evaluations and dead letters out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from metrics.catalogue import CATALOGUE_VERSION, Catalogue
from metrics.view import Limits, View
from schemas.codec import Rejected, decode, encode, event_time
from schemas.dead_letter import HEAD_BYTES
from schemas.evaluation import CARRIED_OVER, Evaluation, Source, Texts, document_ids
from schemas.topics import MAX_EVENT_BYTES
from streams.agents.agent import Emission, Outcome, Record
from streams.agents.writing import bury, cloud_event

_SERVICE = "evaluate"


@dataclass(frozen=True, slots=True)
class EvaluateConfig:
    """All that an evaluation depends on beside its event."""

    catalogue: Catalogue
    limits: Limits = field(default_factory=Limits)
    max_event_bytes: int = MAX_EVENT_BYTES
    mappings: Mapping[str, Callable[[object], object]] = field(default_factory=dict)
    """For the topics in a foreign shape, the map that reads them."""
    include_text: bool = False
    explain: bool = False
    run_id: str | None = None


class EvaluateAgent:
    """Scores every readable event; every other record becomes a dead letter with its reason."""

    outputs = ("evaluations", "dead-letter")

    def __init__(self, config: EvaluateConfig) -> None:
        self._config = config

    def handle(self, records: Sequence[Record]) -> Outcome:
        """One evaluation or dead letter per record, in the records' order."""
        outcome = Outcome()
        for record in records:
            outcome.counts["ragweir_events_in_total",] += 1
            try:
                evaluation, raised = self.evaluate(record)
                emission = self._emission(evaluation)
            except Rejected as rejected:
                bury(outcome, _SERVICE, record, rejected.error_class, rejected.message, self._config.max_event_bytes)
            except Exception as error:  # One record must not stop the stream; it is kept and named.
                why = f"evaluating raised {type(error).__name__}"
                bury(outcome, _SERVICE, record, "unreadable", why, self._config.max_event_bytes)
            else:
                outcome.emissions.append(emission)
                outcome.counts["ragweir_evaluations_total", evaluation.stage] += 1
                for metric in raised:
                    outcome.counts["ragweir_metric_errors_total", metric] += 1
        return outcome

    def refuse(self, record: Record, reason: str) -> Outcome:
        """A dead letter; only its head is kept, since the broker may have refused its size."""
        outcome = Outcome()
        outcome.counts["ragweir_events_in_total",] += 1
        bury(outcome, _SERVICE, record, "refused", reason, HEAD_BYTES)
        return outcome

    def evaluate(self, record: Record) -> tuple[Evaluation, list[str]]:
        """The evaluation of one record, and the names of the metrics that raised.

        Raises:
            Rejected: if the record holds no interaction.
        """
        config = self._config
        event = decode(record.value, max_bytes=config.max_event_bytes, mapping=config.mappings.get(record.topic))
        time = event_time(event, record.timestamp_ms)
        view = View(event, config.limits)
        scored = config.catalogue.score(view)
        evaluation = Evaluation(
            **{name: getattr(event, name) for name in CARRIED_OVER},
            event_time=time,
            scores=scored.scores,
            categories=scored.categories,
            reasons=scored.reasons,
            flags=tuple(scored.flags),
            evidence=config.catalogue.explain(view) if config.explain else {},
            document_ids=document_ids(event),
            text=Texts(
                query=event.query,
                response=event.response,
                contexts=tuple(context.text for context in event.contexts or ()),
            )
            if config.include_text
            else None,
            catalogue_version=CATALOGUE_VERSION,
            source=Source(topic=record.topic, partition=record.partition, offset=record.offset),
            run_id=config.run_id,
        )
        return evaluation, scored.raised

    def _emission(self, evaluation: Evaluation) -> Emission:
        return Emission(
            "evaluations",
            evaluation.event_id.encode(),
            encode(evaluation),
            cloud_event(
                _SERVICE,
                f"evaluation.{evaluation.stage}",
                f"{evaluation.event_id}:{evaluation.stage}",
                evaluation.event_time,
                "application/json",
            ),
        )
