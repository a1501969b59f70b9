"""Blame in the alert drill: the causes of the bad answers since quality dropped, until the planted ones are named."""

from __future__ import annotations

from datetime import datetime

from ragweir.errors import PermanentError
from ragweir.streams.analysis.blame.blame_question import BlameQuestion
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.blame.live_causes import live_causes
from ragweir.streams.playground.demo.samples import BAD_DOCUMENT
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings

_EVERY_SECONDS = 3.0
_PLANTED = ({"pipeline_version": "v2"}, {"document": BAD_DOCUMENT})


def are_named(report: BlameReport) -> bool:
    """Return whether the bad version and the bad document are causes, apart from each other."""
    apart = [each.facets for each in report.causes if each.numbers.within is None]
    return all(any(planted.items() <= each.items() for each in apart) for planted in _PLANTED)


class DrillCauses:
    """Asks for the causes of the bad answers since a time, again and again."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._asked_s = 0.0
        self.report: BlameReport | None = None
        """The last answer; None while there is no answer of that time."""

    def are_named(self, since: datetime) -> bool:
        """Return whether the planted causes are named; the question is asked every few seconds."""
        if machine.monotonic() - self._asked_s >= _EVERY_SECONDS:
            question = BlameQuestion(self._settings.slo[0].name, since)
            try:
                self.report = live_causes(self._settings, question, machine.now())
            except PermanentError:
                self.report = None
            self._asked_s = machine.monotonic()
        return self.report is not None and are_named(self.report)
