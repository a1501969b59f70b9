"""Blame: which values carry the excess of bad answers, with examples, from evaluations and their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from ragweir.errors import ConfigurationError
from ragweir.metrics.cause.cause import FEWEST, Cause
from ragweir.metrics.cause.causes import FoundCauses, causes
from ragweir.metrics.cause.servings import Servings
from ragweir.metrics.criterion import Criterion, criterion
from ragweir.metrics.metric import Metric
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.analysis.blame.answer_pairs import AnswerPairs
from ragweir.streams.analysis.blame.blame_report import REST, BlameReport, NamedCause
from ragweir.streams.analysis.blame.event_table import EventTable
from ragweir.streams.analysis.blame.facet_rows import servings
from ragweir.streams.analysis.blame.facets import APPLICATION, KINDS, NOT_HELD, OWN, PART
from ragweir.streams.analysis.blame.silences import Silences
from ragweir.streams.analysis.blame.value_codes import MOST_FACETS, ValueCodes
from ragweir.streams.settings import Settings


def blame_criterion(
    metric: str, threshold: float | None, settings: Settings, catalogue: Mapping[str, Metric]
) -> Criterion:
    """Return the criterion by which answers are bad.

    Args:
        metric: the name of a metric, or of an SLO on one.
        threshold: its threshold; None for that of the SLO, or of the first SLO or question on the metric, else half of
            its bounds.
        settings: all settings.
        catalogue: all metrics.

    Raises:
        ConfigurationError: if there is no such metric, or no threshold follows from it.
    """
    named = [each for each in settings.slo if each.name == metric]
    slo = next((each for each in (*named, *settings.slo) if metric in {each.name, each.metric}), None)
    metric = named[0].metric if named else metric
    if (found := catalogue.get(metric)) is None:
        known = [*catalogue, *(each.name for each in settings.slo)]
        raise ConfigurationError(f"there is no metric {metric}{nearest_hint(metric, known)}")
    if threshold is not None:
        return criterion(metric, threshold, catalogue)
    if slo is not None:
        suite = None if found.cost == "free" else found.group
        bound = slo.at_least if slo.at_least is not None else slo.at_most
        return Criterion(metric, float(bound or 0.0), slo.at_least is not None, suite)
    for question in settings.labels.questions:
        own = {question.metric: question.threshold, **question.also}
        if metric in own:
            return criterion(metric, own[metric], catalogue)
    low, high = found.bounds
    own_criterion = criterion(metric, 0.0, catalogue)
    if low is None or high is None:
        raise ConfigurationError(f"{metric} has no upper bound, so that --threshold is needed")
    return Criterion(metric, (low + high) / 2, own_criterion.higher_is_better, own_criterion.suite)


def blame_rows(
    criterion: Criterion,
    now: EventTable,
    codes: ValueCodes,
    before: EventTable | None = None,
    name: str = REST,
    silences: Silences | None = None,
) -> BlameReport:
    """Return the causes of bad answers.

    Args:
        criterion: the criterion by which answers are bad.
        now: the evaluations.
        codes: the numbers of the values.
        before: the evaluations with which they are compared; None to compare values with the rest.
        name: the name of that which they are compared with.
        silences: the causes that are silenced.
    """
    rows = servings(now, before, codes)
    held = [name for name in NOT_HELD if before is None or name == APPLICATION]
    fixed = [frozenset(KINDS.index(own) for own in held if each not in NOT_HELD[own]) for each in KINDS]
    fields = frozenset(range(KINDS.index(PART)))
    found = causes(rows, fixed, fields, has_reference=before is not None)
    examples = AnswerPairs(now, criterion)
    named = tuple(_named(each, codes, rows, examples) for each in found.causes)
    asked = now.asked()
    # Without any verdict the range is that of all events.
    times = np.asarray(now.times)[asked] if len(asked) else np.asarray(now.times)
    start, end = (datetime.fromtimestamp(float(each), UTC) for each in (times.min(), times.max()))
    bad = int(rows.bad[rows.present].sum())
    ended: list[str] = []
    if silences is not None:
        named, ended = silences.applied(criterion.metric, named)
    report = BlameReport(criterion, name, start, end, len(asked), bad, named, found.enough)
    return replace(report, notes=(*_notes(report, found, now, before, codes), *ended))


def _named(cause: Cause, codes: ValueCodes, rows: Servings, examples: AnswerPairs) -> NamedCause:
    facets: dict[str, str] = {}
    also = []
    for number in cause.values:
        facet, name = codes.facets[codes.facet[number]], codes.names[number] or ""
        if facet in facets:
            also.append((facet, name))
        else:
            facets[facet] = name
    bad, good = examples.of(np.sort(rows.given[rows.events_of(cause.values[0])]).astype(np.int64))
    return NamedCause(facets, tuple(also), cause, bad, good)


def _notes(
    report: BlameReport, found: FoundCauses, now: EventTable, before: EventTable | None, codes: ValueCodes
) -> list[str]:
    """Return sentences on what was compared, and what was left out."""
    metric, others = report.criterion.metric, len(now) - report.events
    lacking = sorted(before.unknown) if before is not None else []
    differs = 0 < report.bad < report.events
    said = {
        f"{others:,} evaluations have no {metric}, and are left out": others,
        f"no evaluation has {metric}": not report.events,
        "every answer is bad, so that none is worse than the others": report.events and report.bad == report.events,
        "no answer is bad": report.events and not report.bad,
        f"too little data: a value needs {FEWEST} answers, others of the same application, version and hour to compare "
        "them with, and several sessions and questions": (differs or not report.bad) and not report.enough,
        f"{found.tested:,} values with {FEWEST} answers or more were tested, {found.significant:,} of them "
        f"{report.words}": True,
        f"no evaluation of {report.reference} has {metric}": before is not None and not len(before.asked()),
        f"{now.lacking_events:,} evaluations have no event in the file of events": now.with_events
        and now.lacking_events,
        f"the events of {report.reference} are not in the file of events, so that {', '.join(lacking)} is not "
        "compared": now.with_events and lacking,
        f"facets after the first {MOST_FACETS}, such as further labels, are left out": codes.full,
        f"{100 * codes.share:.3g} % of the documents, chunks and labels were tested, chosen by hash "
        "(blame.max_documents)": codes.share < 1,
    }
    return [sentence for sentence, holds in said.items() if holds]


def new_codes(settings: Settings) -> ValueCodes:
    """Return numbers of values, within the limit of the settings."""
    return ValueCodes(settings.blame.max_documents, frozenset(OWN))
