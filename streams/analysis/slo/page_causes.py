"""The causes of the pages that a rehearsal finds: blame's answer for the events of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from ragweir.streams.analysis.blame.blame_question import BlameQuestion, BlameReading
from ragweir.streams.analysis.slo.rehearsal import Firing, Rehearsal
from ragweir.streams.settings import Settings, Slo

MOST_PAGES = 10
"""Number of pages that are blamed, the first ones; each takes memory for its answers."""
_PAGE = "page"


def with_causes(
    found: Rehearsal,
    settings: Settings,
    slos: Sequence[Slo],
    evaluations: Callable[[datetime], Iterable[bytes]],
    now: datetime,
) -> Rehearsal:
    """Return a rehearsal whose pages have their causes.

    Args:
        found: the rehearsal.
        settings: all settings.
        slos: the SLOs that were rehearsed.
        evaluations: reads the evaluations as JSON, from a time on; it is called if there is a page.
        now: the time, by which silences end.
    """
    effective = settings.model_copy(update={"slo": tuple(slos)})
    pages = {
        (own.slo.name, firing.start): BlameReading(effective, _question(own.slo, firing, alert.burn.long_m))
        for own in found.slos
        for alert in own.alerts
        for firing in alert.firings
        if alert.burn.severity == _PAGE
    }
    readings = dict(sorted(pages.items(), key=lambda each: each[0][1])[:MOST_PAGES])
    if not readings:
        return found
    for value in evaluations(min(each.question.start or found.start for each in readings.values())):
        for each in readings.values():
            each.add(value)
    answers = {key: _answer(each, found.source, now) for key, each in readings.items()}
    return replace(
        found,
        slos=tuple(
            replace(
                own,
                alerts=tuple(
                    replace(
                        alert,
                        firings=tuple(
                            replace(each, causes=answers.get((own.slo.name, each.start)))
                            if alert.burn.severity == _PAGE
                            else each
                            for each in alert.firings
                        ),
                    )
                    for alert in own.alerts
                ),
            )
            for own in found.slos
        ),
    )


def _question(slo: Slo, firing: Firing, long_m: int) -> BlameQuestion:
    """Return the question about the events of a firing, from the start of its first long window."""
    return BlameQuestion(slo.name, firing.start - timedelta(minutes=long_m), firing.end)


def _answer(reading: BlameReading, source: str, now: datetime) -> dict[str, Any]:
    report = reading.report(source, now)
    return {**report.data(), "sentences": [report.sentence(place) for place in range(len(report.causes))]}
