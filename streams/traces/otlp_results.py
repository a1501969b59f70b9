"""Evaluations in the form of OpenTelemetry: a log record for each score, in an export request that a Collector reads.

The form is the event `gen_ai.evaluation.result` of the semantic conventions for generative AI, whose stability is
"Development". The bytes of a request depend on the evaluation and the settings alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.topics import OTLP_EVALUATIONS
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Emission

EVENT_NAME = "gen_ai.evaluation.result"
MAX_BYTES = 256 * 1024
"""The most bytes of one request: less than the record size that brokers and Collectors accept by default, as a rejected
record would be taken for a defect of the event."""
_MAX_TEXT = 256
"""The most characters of a name or id in an attribute."""
_MAX_EXPLANATION = 2_048
_NESTING_BYTES = 16
"""The most bytes that tags and lengths add to a log record."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_TIME_NS = 2**64 - 1
_TRACE_ID, _SPAN_ID = re.compile("[0-9a-fA-F]{32}"), re.compile("[0-9a-fA-F]{16}")
_ERRORS: Mapping[str, str] = {"failed": "judge_failed", "expired": "judge_expired"}
"""Values of `error.type`, by the status of the suite whose metrics are null."""


@dataclass(frozen=True, slots=True)
class OtlpResults:
    """Makes the requests of evaluations."""

    scored: tuple[str, ...]
    """The metrics of scored evaluations, which evaluate computes."""
    judged: Mapping[str, str]
    """The metrics of judged evaluations, which their suites compute, with the names of the suites."""
    explanations: bool = False
    """True if records carry the judge's explanations, which quote users and documents."""
    evaluator: bool = False
    """True if records name their evaluator, as OpenTelemetry's open proposal does."""
    max_bytes: int = MAX_BYTES
    """The most bytes of one request. Explanations that exceed it are left out, and then metrics."""

    def emissions(self, service: str, evaluation: Evaluation) -> list[Emission]:
        """Return the request of an evaluation, in no emission or one: none if no selected metric has a value.

        Args:
            service: the service that writes it.
            evaluation: a scored evaluation, of which the metrics of `scored` count, or a judged one, of which those of
                `judged` do: a judged evaluation repeats the scores of the scored one, which were written before.
        """
        request = ExportLogsServiceRequest()
        resource = request.resource_logs.add()
        resource.resource.attributes.extend(_attributes(_resource(evaluation)))
        scope = resource.scope_logs.add()
        scope.scope.name = "ragweir"
        trace_id, span_id = _ids(evaluation)
        elapsed = (evaluation.event_time - _EPOCH) // timedelta(microseconds=1) * 1_000
        time_ns = elapsed if 0 < elapsed <= _MAX_TIME_NS else 0  # 0 means unknown.
        identity, common = _identity(evaluation), _attributes(_common(evaluation))
        room = self.max_bytes - request.ByteSize() - _NESTING_BYTES
        for name, result in self._results(evaluation):
            record = LogRecord(
                time_unix_nano=time_ns,
                observed_time_unix_nano=time_ns,
                event_name=EVENT_NAME,
                trace_id=trace_id,
                span_id=span_id,
            )
            own = {"gen_ai.evaluation.name": name, **result, "log.record.uid": f"{identity}:{name}"}
            if self.evaluator:
                own |= self._evaluator(name, evaluation)
            record.attributes.extend([*_attributes(own, most=None), *common])
            if self.explanations and (explanation := evaluation.explanations.get(name)):
                _explain(record, explanation[:_MAX_EXPLANATION], room)
            size = record.ByteSize() + _NESTING_BYTES
            if size <= room:
                room -= size
                scope.log_records.append(record)
        if not scope.log_records:
            return []
        headers = cloud_event(
            service, f"otlp.{evaluation.stage}", identity, evaluation.event_time, "application/x-protobuf"
        )
        key = trace_id.hex() or evaluation.event_id
        return [Emission(OTLP_EVALUATIONS, key.encode(), request.SerializeToString(deterministic=True), headers)]

    def _evaluator(self, name: str, evaluation: Evaluation) -> dict[str, str]:
        """Return the attributes of pull request 359 of open-telemetry/semantic-conventions-genai."""
        is_judged = evaluation.stage == "judged"
        return {
            "gen_ai.evaluation.evaluator.id": f"ragweir/{self.judged[name] if is_judged else name}",
            "gen_ai.evaluation.evaluator.version": evaluation.catalogue_version,
            "gen_ai.evaluation.evaluator.type": "llm_judge" if is_judged else "deterministic",
        }

    def _results(self, evaluation: Evaluation) -> Iterable[tuple[str, dict[str, str | float]]]:
        """Yield the selected metrics with the attributes of their results. A null has one only if the judge failed."""
        statuses = {suite.suite: suite.status for suite in evaluation.decision.suites}
        for name in self.judged if evaluation.stage == "judged" else self.scored:
            if (score := evaluation.scores.get(name)) is not None:
                yield name, {"gen_ai.evaluation.score.value": float(score)}
            elif (label := evaluation.categories.get(name)) is not None:
                yield name, {"gen_ai.evaluation.score.label": label}
            elif evaluation.stage == "judged" and (error := _ERRORS.get(statuses.get(self.judged[name], ""))):
                yield name, {"error.type": error}


def _identity(evaluation: Evaluation) -> str:
    """Return an id that is the same whenever the evaluation is read again, and differs in each replay.

    >>> from ragweir.schemas.evaluation import Evaluation
    >>> evaluation = Evaluation(event_id="e1", event_time="2026-11-23T12:00:00Z", catalogue_version="3")
    >>> _identity(evaluation), _identity(evaluation.model_copy(update={"run_id": "july"}))
    ('e1:scored', 'july:e1:scored')
    """
    run = f"{evaluation.run_id}:" if evaluation.run_id else ""
    return f"{run}{evaluation.event_id}:{evaluation.stage}"


def _ids(evaluation: Evaluation) -> tuple[bytes, bytes]:
    """Return the ids of the trace and the span in bytes; empty bytes for an id that OpenTelemetry does not allow."""
    trace_id = _id(evaluation.trace_id, _TRACE_ID)
    return trace_id, _id(evaluation.span_id, _SPAN_ID) if trace_id else b""


def _id(text: str | None, form: re.Pattern[str]) -> bytes:
    found = bytes.fromhex(text) if text is not None and form.fullmatch(text) else b""
    return found if any(found) else b""


def _resource(evaluation: Evaluation) -> dict[str, str | None]:
    return {
        "service.name": evaluation.application or "unknown_service",
        "service.version": evaluation.pipeline_version,
        "deployment.environment.name": evaluation.environment,
    }


def _common(evaluation: Evaluation) -> dict[str, str | None]:
    """Return the attributes of all log records of an evaluation."""
    return {
        "ragweir.event_id": evaluation.event_id,
        "ragweir.stage": evaluation.stage,
        "ragweir.catalogue_version": evaluation.catalogue_version,
        "ragweir.tenant": evaluation.tenant,
        "ragweir.judge.model": None if evaluation.judge is None else evaluation.judge.model,
        "ragweir.run_id": evaluation.run_id,
        "gen_ai.conversation.id": evaluation.session_id,
    }


def _attributes(values: Mapping[str, str | float | None], most: int | None = _MAX_TEXT) -> list[KeyValue]:
    """Return attributes, without those that are None; texts have at most so many characters."""
    return [
        KeyValue(key=name, value=_text(value[:most]) if isinstance(value, str) else AnyValue(double_value=value))
        for name, value in values.items()
        if value is not None
    ]


def _text(text: str) -> AnyValue:
    return AnyValue(string_value=text)


def _explain(record: LogRecord, explanation: str, room: int) -> None:
    """Add an explanation, or count it as dropped if there is no room for it."""
    record.attributes.append(KeyValue(key="gen_ai.evaluation.explanation", value=_text(explanation)))
    if record.ByteSize() + _NESTING_BYTES > room:
        del record.attributes[-1]
        record.dropped_attributes_count = 1
