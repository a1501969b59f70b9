"""The outcome of a request: an evaluation of an event, or the result of a run of an anchor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ragweir.metrics.judged.driver import Judged
from ragweir.metrics.judged.suite import Suite
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.job import JobUsage
from ragweir.streams.services.judge.results import evaluated, judged, unjudged


def is_stale(config: JudgeConfig, request: JudgeRequest) -> bool:
    """Return whether a request is a run of anchors that the settings no longer have."""
    return request.anchor is not None and (config.anchors is None or config.anchors.digest != request.anchor.anchors)


def unused(record: Record) -> Outcome:
    """Return the outcome that settles a run of anchors that the settings no longer have: nothing is written."""
    outcome = Outcome(settled=[record])
    outcome.counts["ragweir_events_in_total",] = 1
    outcome.counts["ragweir_judge_requests_total", "failed"] = 1
    return outcome


def found(
    config: JudgeConfig,
    record: Record,
    request: JudgeRequest,
    answer: Judged,
    suites: Sequence[Suite],
    usage: JobUsage,
    *,
    cut: bool,
) -> Outcome:
    """Return the outcome of a request that was judged.

    Args:
        config: the configuration.
        record: the request's record.
        request: the request.
        answer: the judge's findings.
        suites: the suites that judged.
        usage: the usage of its calls.
        cut: true if a part of the request was left out.
    """
    if request.anchor is not None:
        anchors = config.anchors
        if anchors is None or is_stale(config, request):
            return unused(record)
        value, why = answer.scores.get(anchors.metric), answer.reasons.get(anchors.metric, "")
        return anchors.settled(record, request.anchor, "judged", usage, value, why)
    evaluation = judged(request, answer, suites, usage, config.judge.model, config.off, cut=cut)
    return evaluated(record, evaluation, "judged", config.otlp)


def missing(
    config: JudgeConfig,
    record: Record,
    request: JudgeRequest,
    status: Literal["failed", "expired"],
    why: str,
    usage: JobUsage | None = None,
) -> Outcome:
    """Return the outcome of a request that is not judged, for one reason."""
    if request.anchor is not None:
        if config.anchors is None or is_stale(config, request):
            return unused(record)
        return config.anchors.settled(record, request.anchor, status, usage or JobUsage(), why=why)
    evaluation = unjudged(request, status, why, config.suites, config.off)
    return evaluated(record, evaluation, status, config.otlp)
