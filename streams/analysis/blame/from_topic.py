"""The causes of bad answers from the topic `documents`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.criterion import Criterion
from ragweir.streams.analysis.blame.answer_scope import BlameScope, blame_scope
from ragweir.streams.analysis.blame.blame_report import REST, BlameReport
from ragweir.streams.analysis.blame.blaming import blame_criterion, blame_rows, new_codes
from ragweir.streams.analysis.blame.original_events import OriginalEvents, with_names
from ragweir.streams.analysis.blame.silences import Silences
from ragweir.streams.analysis.blame.topic_rows import TopicRows, with_codes
from ragweir.streams.analysis.blame.value_codes import ValueCodes
from ragweir.streams.analysis.evaluation_source import ShowProgress
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.services.shared.row_hashes import RowHashes
from ragweir.streams.services.shared.row_writer import DOCUMENTS
from ragweir.streams.settings import Settings

_CLOCK_ERROR = timedelta(hours=1)
"""Rows whose event is this much later than their record's timestamp are found."""


@dataclass(frozen=True, slots=True)
class TopicQuestion:
    """A question about causes to the topic."""

    name: str | None
    """Name of an SLO or a metric; None for the first SLO."""
    start: datetime
    end: datetime
    """The range of event time."""
    against: datetime | None = None
    """Start of the range that ends with `start` and is compared with; None to compare with the rest."""
    threshold: float | None = None
    run_id: str | None = None
    """The replay whose rows are read; None for live ones."""
    where: tuple[tuple[str, str], ...] = ()
    """Values of dimensions that the answers have, beside those of the SLO."""
    most: int | None = None
    """Number of answers after which no further record is read; None to read all."""


class DocumentsTopic:
    """Reads the rows of the topic `documents`, or of a replay's.

    Args:
        settings: all settings.
        question: what is asked.

    Raises:
        ConfigurationError: if there is no such SLO or metric, or a range is empty.
    """

    def __init__(self, settings: Settings, question: TopicQuestion) -> None:
        self._settings, self._question = settings, question
        run = f"run.{question.run_id}." if question.run_id else ""
        self.topic = f"{settings.topics.prefix}{run}{DOCUMENTS}"
        """The full name of the topic."""
        name = question.name or next((slo.name for slo in settings.slo), None)
        if name is None:
            raise ConfigurationError("there is no [[slo]]; name a metric, such as `ragweir blame unsupported_risk`")
        self.criterion: Criterion = blame_criterion(
            name, question.threshold, settings, known_catalogue(settings).metrics
        )
        """The criterion by which answers are bad."""
        self._scopes = [blame_scope(name, settings, question.start, question.end, question.where)]
        if question.against is not None:
            self._scopes.append(blame_scope(name, settings, question.against, question.start, question.where))
        self.hashes = RowHashes(settings.labels.key)
        """The hashes of ids."""

    def report(self, progress: ShowProgress, originals: OriginalEvents, now: datetime) -> BlameReport:
        """Return the causes, with names and ids in place of hashes and places.

        Args:
            progress: shows the progress, in offsets.
            originals: reads interactions.
            now: the time, by which silences end.

        Raises:
            PermanentError: if there is no such topic, or it has no rows of the range.
            ConfigurationError: if its rows have verdicts of other metrics or thresholds alone.
            Unreachable: if no broker answers.
        """
        codes = new_codes(self._settings)
        parts = self._read(codes, progress)
        for each, scope in zip(parts, self._scopes, strict=True):
            self._check(each, scope)
        before = parts[1] if len(parts) > 1 else None
        with_codes(codes, parts[0], before)
        name = REST if before is None else f"{self._scopes[1].title} of {self.topic}"
        found = with_names(blame_rows(self.criterion, parts[0], codes, before, name), originals, self.hashes)
        causes, ended = Silences(self._settings.blame.silenced, now).applied(self.criterion.metric, found.causes)
        unreadable = sum(each.unreadable for each in parts[:1])
        said = [f"{unreadable:,} records of {self.topic} hold no rows, and are left out"] if unreadable else []
        if self._is_full(parts):
            said.append(
                f"only {sum(map(len, parts)):,} answers of the range were read; a shorter range has all of its own"
            )
        return replace(found, causes=causes, notes=(*found.notes, *said, *ended))

    def _read(self, codes: ValueCodes, progress: ShowProgress) -> list[TopicRows]:
        most = self._settings.blame.max_documents
        parts = [TopicRows(self.criterion, codes, scope, self.hashes, most) for scope in self._scopes]
        first = min(scope.start for scope in self._scopes if scope.start is not None)
        since_ms = max(0, round((first - _CLOCK_ERROR).timestamp() * 1000))
        try:
            wanted = offset_range(self._settings, self.topic, since_ms=since_ms)
        except PermanentError as error:
            hint = "with blame.enabled evaluate writes it, and `ragweir blame METRIC FILE` needs none"
            raise PermanentError(f"{error}; {hint}") from None
        with progress(f"Reading {self.topic}", len(wanted)) as moved:
            for record in read(self._settings, wanted, moved):
                if record.value is not None:
                    for each in parts:
                        each.add(record.value)
                if self._is_full(parts):
                    break
        return parts

    def _is_full(self, parts: Sequence[TopicRows]) -> bool:
        return self._question.most is not None and sum(map(len, parts)) >= self._question.most

    def _check(self, rows: TopicRows, scope: BlameScope) -> None:
        rows.check(self.topic)
        metric = self.criterion.metric
        if not rows.seen:
            off = "" if self._settings.blame.enabled else "; blame.enabled is false, so that none are written"
            raise PermanentError(f"{self.topic} holds no row {scope.title}{off}")
        if not len(rows.asked()):
            raise PermanentError(f"none of the {rows.seen:,} answers {scope.title} has a verdict on {metric}")
