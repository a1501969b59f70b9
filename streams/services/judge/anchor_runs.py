"""Anchors: answers that people have labelled, which the judge judges again and again, so that its drift is seen.

The worker with partition 0 writes a run of all anchors as requests to `judge.retry`, in one transaction with the
progress in the ledger, so that each run is requested once whatever is killed. From there on a run is judged as events
are: within the budget and the limits, with its cost reserved and booked. It has an account of its own, uses no answer
of the cache, and its results go to `judge.anchors`: no evaluation, and no window, has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from functools import cached_property
from hashlib import blake2b
from math import isnan

import orjson

from ragweir.metrics.people.anchors import BASELINE_A_DAY, BASELINE_RUNS, RUNS_A_DAY
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.schemas.judging import ANCHORS, AnchorProgress, AnchorResult, AnchorRun, JudgeRequest, anchor_key
from ragweir.streams.runtime.emissions import cloud_event
from ragweir.streams.runtime.records import Emission, Outcome, Record
from ragweir.streams.services.judge.job import JobUsage
from ragweir.streams.services.judge.results import RequestOutcome, result

_DAY_S = 86_400
_MICRO = 1_000_000
_PARTITION = 0
"""The partition of the requests of anchors, whose ledger has their progress."""
_ID_BYTES = 8


@dataclass(frozen=True, slots=True)
class Anchor:
    """One answer that people have labelled."""

    id: str
    bad: bool
    """True if people call it bad."""
    query: str
    response: str
    contexts: tuple[str, ...] | None = None
    expected: tuple[str, ...] | None = None


@dataclass(frozen=True)
class AnchorSet:
    """The anchors, and the metric by which the judge has a verdict on them.

    Runs of other anchors, or with another metric, model or version of the suite, are not compared: they have another
    `digest`, with which a new baseline begins.
    """

    anchors: tuple[Anchor, ...]
    metric: str
    threshold: float
    higher_is_better: bool
    suite: str
    suite_version: str
    model: str
    """Configured model of the judge."""
    asked_with: Mapping[str, object] = field(default_factory=dict)
    """Settings that change the model's answers, where they are not the default ones."""

    @cached_property
    def digest(self) -> str:
        """The digest of all that the verdicts depend on."""
        texts = [(a.id, a.bad, a.query, a.response, a.contexts, a.expected) for a in self.anchors]
        parts = [texts, self.metric, self.threshold, self.higher_is_better, self.suite, self.suite_version, self.model]
        parts += [self.asked_with] if self.asked_with else []
        return blake2b(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), digest_size=_ID_BYTES).hexdigest()

    # Requests.

    def due(self, before: AnchorProgress | None, day: str, now: datetime) -> AnchorProgress | None:
        """Return the progress with the next run; None if none is due.

        The runs of a day are spread evenly over it. A day with a run of the baseline has no others. Runs of days on
        which no judge ran are not made up for.

        Args:
            before: the runs that have been requested.
            day: the day (UTC) on which costs are booked.
            now: the time.
        """
        digest = self.digest
        if before is None or before.anchors != digest:
            before = AnchorProgress(anchors=digest, day="", runs=0, baseline=0, is_baseline=True)
        today = before.runs if before.day == day else 0
        is_new = before.baseline < BASELINE_RUNS
        if before.day > day or (today and before.is_baseline and not is_new):
            return None
        most = BASELINE_A_DAY if is_new else RUNS_A_DAY
        if today >= most or (now - start_of(day)).total_seconds() < today * _DAY_S / most:
            return None
        baseline = before.baseline + is_new
        return AnchorProgress(anchors=digest, day=day, runs=today + 1, baseline=baseline, is_baseline=is_new)

    def requests(self, progress: AnchorProgress, now: datetime) -> Iterator[Emission]:
        """Yield the requests of the last run of a progress."""
        run = progress.runs - 1
        decided = SuiteDecision(suite=self.suite, status="selected", probability=1.0, because=("anchor",))
        for anchor in self.anchors:
            own = AnchorRun(
                anchors=progress.anchors,
                anchor=anchor.id,
                day=progress.day,
                run=run,
                baseline=progress.is_baseline,
                bad=anchor.bad,
            )
            evaluation = Evaluation(
                event_id=_event_id(own),
                event_time=now,
                application=ANCHORS,
                decision=Decision(suites=(decided,)),
                catalogue_version="",
            )
            request = JudgeRequest(
                evaluation=evaluation,
                query=anchor.query,
                response=anchor.response,
                contexts=anchor.contexts,
                expected=anchor.expected,
                requested_at=now,
                anchor=own,
            )
            headers = cloud_event("judge", "anchor", evaluation.event_id, now, "application/json")
            yield Emission("judge.retry", evaluation.event_id.encode(), encode(request), headers, _PARTITION)

    # Results.

    def settled(
        self,
        record: Record,
        run: AnchorRun,
        counted: RequestOutcome,
        usage: JobUsage,
        value: float | None = None,
        why: str = "",
    ) -> Outcome:
        """Return the outcome that settles a run of an anchor by its result."""
        bad = None
        if value is None or isnan(value):
            value, why = None, why or "the judge gives no value"
        else:
            bad, why = value < self.threshold if self.higher_is_better else value > self.threshold, ""
        found = AnchorResult(
            **run.model_dump(),
            metric=self.metric,
            threshold=self.threshold,
            value=value,
            judged_bad=bad,
            why=why,
            model=self.model,
            suite_version=self.suite_version,
            cost_usd=usage.cost / _MICRO,
        )
        headers = cloud_event("judge", "anchor.judged", _event_id(run), start_of(run.day), "application/json")
        return result(record, Emission("judge.anchors", anchor_key(run), encode(found), headers, _PARTITION), counted)


def start_of(day: str) -> datetime:
    """Return the start of a day (UTC)."""
    return datetime.combine(date.fromisoformat(day), time(), UTC)


def _event_id(run: AnchorRun) -> str:
    """Return the id of a run, for records that have one."""
    digest = blake2b(anchor_key(run), digest_size=_ID_BYTES).hexdigest()
    return f"anchor {digest}"
