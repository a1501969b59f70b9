"""The causes of bad answers of a range, from evaluations as JSON: what pages and reports ask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import msgspec

from ragweir.errors import ConfigurationError
from ragweir.metrics.metric import Metric
from ragweir.streams.analysis.blame.answer_scope import blame_scope
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.blame.blaming import blame_criterion, blame_rows, new_codes
from ragweir.streams.analysis.blame.facet_rows import FacetRows
from ragweir.streams.analysis.blame.silences import Silences
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings

MOST = 100_000
"""Number of answers that are read, the first of the range; they take some 140 MB."""


@dataclass(frozen=True, slots=True)
class BlameQuestion:
    """A question about causes: which answers count, and the metric or SLO by which they are bad."""

    name: str
    """Name of an SLO or a metric."""
    start: datetime | None = None
    end: datetime | None = None
    where: tuple[tuple[str, str], ...] = ()
    """Values of dimensions that the answers have, beside those of the SLO."""


class BlameReading:
    """Reads the answers of a question from evaluations.

    Args:
        settings: all settings.
        question: what is asked.
        most: number of answers that are read.

    Raises:
        ConfigurationError: if there is no such SLO or metric, or the range is empty.
    """

    def __init__(self, settings: Settings, question: BlameQuestion, most: int = MOST) -> None:
        self.question = question
        self._settings, self._most, self._unreadable = settings, most, 0
        self._codes = new_codes(settings)
        self._criterion = blame_criterion(question.name, None, settings, known_catalogue(settings).metrics)
        scope = blame_scope(question.name, settings, question.start, question.end, question.where)
        self._rows = FacetRows(self._criterion, self._codes, scope)

    @property
    def is_full(self) -> bool:
        """True if as many answers were read as may be."""
        return len(self._rows) >= self._most

    def add(self, evaluation: bytes) -> None:
        """Add an evaluation as JSON, unless it is outside the range or enough were read."""
        if self.is_full:
            return
        try:
            self._rows.add(evaluation)
        except (msgspec.MsgspecError, ValueError, OverflowError):
            self._unreadable += 1

    def report(self, source: str, now: datetime) -> BlameReport:
        """Return the causes.

        Args:
            source: the name of where the evaluations are from.
            now: the time, by which silences end.

        Raises:
            PermanentError: if there is no answer of the range.
        """
        silences = Silences(self._settings.blame.silenced, now)
        found = blame_rows(self._criterion, self._rows.checked(source), self._codes, silences=silences)
        said = {
            f"{self._unreadable:,} records are no evaluations, and are left out": self._unreadable,
            f"only the first {self._most:,} answers of the range were read; a shorter range has them all": self.is_full,
        }
        return replace(found, notes=(*found.notes, *(each for each, holds in said.items() if holds)))


def causes_of(
    settings: Settings, question: BlameQuestion, evaluations: Iterable[bytes], source: str, now: datetime
) -> BlameReport:
    """Return the causes of bad answers; see `BlameReading`."""
    reading = BlameReading(settings, question)
    for each in evaluations:
        reading.add(each)
        if reading.is_full:
            break
    return reading.report(source, now)


def names_to_ask(settings: Settings, catalogue: Mapping[str, Metric], metrics: Iterable[str]) -> Iterator[str]:
    """Yield the names of all SLOs, and of those metrics whose threshold is known."""
    yield from (slo.name for slo in settings.slo)
    for metric in metrics:
        try:
            blame_criterion(metric, None, settings, catalogue)
        except ConfigurationError:
            continue
        yield metric
