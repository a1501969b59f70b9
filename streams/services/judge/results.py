"""The records that settle a request: a judged evaluation, one without a judgement, or the request that waits again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suite import Case, Suite
from ragweir.metrics.unavailable import cut_fields, flagged_absent
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, Judgement, Status, SuiteDecision
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.packed_scores import score_headers
from ragweir.streams.runtime.emissions import cloud_event, with_trace
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.judge.job import JobUsage

if TYPE_CHECKING:
    from ragweir.streams.traces.otlp_results import OtlpResults

_SERVICE = "judge"
_MICRO = 1_000_000
_OPEN: Collection[Status] = ("selected", "deferred")
RequestOutcome = Literal["judged", "failed", "retried", "moved", "deferred", "expired"]
_ROW_REASONS = frozenset({"floor", "share"})
CUT = "judge_input_cut"
"""The flag of an evaluation whose texts were too long for the judge."""


def chosen(evaluation: Evaluation) -> list[SuiteDecision]:
    """Return the suites that are selected and not judged yet."""
    return [suite for suite in evaluation.decision.suites if suite.status in _OPEN]


def by_floor(evaluation: Evaluation) -> bool:
    """Return whether a random floor selected the event for a suite.

    Beside rules by hand, `floor` is a reason of every event of a suite that has one; beside a routing row it is one
    only of events that were drawn.
    """
    return any("floor" in suite.because and {*suite.because} <= _ROW_REASONS for suite in chosen(evaluation))


def case_of(request: JudgeRequest, max_chars: int) -> tuple[Case, bool]:
    """Return the case of a request, of at most so many characters, and whether texts were cut.

    Query, response and each expected answer get at most a quarter; contexts, in their order, get the rest.
    """
    quarter = max_chars // 4
    given = [request.query, request.response, *(request.expected or ())]
    query, response, *expected = (text[:quarter] for text in given)
    left = max(quarter, max_chars - len(query) - len(response) - sum(map(len, expected)))
    contexts: list[str] = []
    for text in request.contexts or ():
        if left <= 0:
            break
        contexts.append(text[:left])
        left -= len(text)
    case = Case(
        query,
        response,
        None if request.contexts is None else tuple(contexts),
        None if request.expected is None else tuple(expected),
        request.evaluation.scores,
        cut_fields(request.evaluation.flags),
        flagged_absent(request.evaluation.flags),
    )
    cut = [*given, *(request.contexts or ())] != [query, response, *expected, *contexts]
    return case, cut


def judged(
    request: JudgeRequest,
    found: Judged,
    suites: Iterable[Suite],
    usage: JobUsage,
    model: str,
    off: Collection[str],
    *,
    cut: bool,
) -> Evaluation:
    """Return the judged evaluation: the scored one with the judge's findings.

    Its judge is the model that answered, or `model` if none was called.
    """

    def kept(values: Mapping[str, object]) -> dict[str, object]:
        return {name: value for name, value in values.items() if name not in off}

    before = request.evaluation
    return _evaluation(
        before.model_copy(
            update={
                "scores": before.scores | kept(found.scores),
                "categories": before.categories | kept(found.categories),
                "reasons": before.reasons | kept(found.reasons),
                "undefined": tuple(name for name in found.undefined if name not in off),
                "explanations": before.explanations | kept(found.explanations),
                "probabilities": before.probabilities | kept(found.probabilities),
                "flags": (*before.flags, *found.flags, *([CUT] if cut else []), *sorted(usage.flags)),
                "judge": Judgement(
                    model=usage.model or model,
                    prompt_version=" ".join(f"{suite.name}:{suite.version}" for suite in suites),
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost_usd=usage.cost / _MICRO,
                    cached=usage.cached > 0 and usage.calls == 0,
                ),
            }
        ),
        found.statuses,
    )


def unjudged(
    request: JudgeRequest, status: Status, reason: str, suites: Mapping[str, Suite], off: Collection[str]
) -> Evaluation:
    """Return an evaluation whose judged metrics are all null, for one reason."""
    before = request.evaluation
    names = [suite.suite for suite in chosen(before)]
    metrics = [metric for name in names if name in suites for metric in suites[name].metrics if metric.name not in off]
    scores = {metric.name: None for metric in metrics if metric.unit != "category"}
    categories = {metric.name: None for metric in metrics if metric.unit == "category"}
    return _evaluation(
        before.model_copy(
            update={
                "scores": before.scores | scores,
                "categories": before.categories | categories,
                "reasons": before.reasons | {metric.name: reason for metric in metrics},
            }
        ),
        dict.fromkeys(names, status),
    )


def _evaluation(evaluation: Evaluation, statuses: Mapping[str, Status]) -> Evaluation:
    return evaluation.model_copy(update={"stage": "judged", "decision": _decided(evaluation, statuses)})


def _decided(evaluation: Evaluation, statuses: Mapping[str, Status]) -> Decision:
    """Return the decision with new statuses of its suites; a suite that no longer exists has failed."""
    return Decision(
        suites=tuple(
            suite.model_copy(update={"status": statuses.get(suite.suite, "failed")}) if suite.status in _OPEN else suite
            for suite in evaluation.decision.suites
        )
    )


def waiting(
    topic: str,
    request: JudgeRequest,
    partition: int,
    requested_at: datetime,
    not_before: datetime,
    why: str,
) -> Emission:
    """Return the request for the same partition of `judge.retry` or `judge.deferred`."""
    before = request.evaluation
    changed: dict[str, object] = {"requested_at": requested_at, "not_before": not_before, "why": why}
    if topic == "judge.deferred":
        decision = _decided(before, dict.fromkeys((suite.suite for suite in chosen(before)), "deferred"))
        changed["evaluation"] = before.model_copy(update={"decision": decision})
    again = request.model_copy(update=changed)
    identity = f"{before.event_id}:{topic}:{not_before.isoformat()}"
    headers = cloud_event(_SERVICE, topic.replace(".", "_"), identity, before.event_time, "application/json")
    return Emission(topic, before.event_id.encode(), encode(again), headers, partition)


def result(record: Record, emission: Emission, counted: RequestOutcome) -> Outcome:
    """Return the outcome that settles a request by one emission."""
    outcome = Outcome(with_trace([emission], record), settled=[record])
    outcome.counts["ragweir_events_in_total",] = 1
    outcome.counts["ragweir_judge_requests_total", counted] = 1
    return outcome


def evaluated(record: Record, evaluation: Evaluation, counted: RequestOutcome, otlp: OtlpResults | None) -> Outcome:
    """Return the outcome that settles a request by its judged evaluation, and the evaluation's OpenTelemetry form."""
    identity = f"{evaluation.event_id}:{evaluation.stage}"
    headers = cloud_event(_SERVICE, "evaluation.judged", identity, evaluation.event_time, "application/json")
    value = encode(evaluation)
    row = score_headers(evaluation, value)
    emission = Emission("evaluations", evaluation.event_id.encode(), value, (*row, *headers))
    outcome = result(record, emission, counted)
    outcome.emissions += otlp.emissions(_SERVICE, evaluation) if otlp else []
    outcome.counts["ragweir_evaluations_total", "judged"] = 1
    return outcome
