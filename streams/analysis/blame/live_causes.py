"""The causes of bad answers of a running system: from rows of the topic `documents`, or else from evaluations."""

from __future__ import annotations

from contextlib import closing
from datetime import datetime

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.streams.analysis.blame.blame_question import BlameQuestion, causes_of
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.blame.from_topic import DocumentsTopic, TopicQuestion
from ragweir.streams.analysis.blame.original_events import OriginalEvents
from ragweir.streams.analysis.evaluation_source import EvaluationSource, unseen
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.settings import Settings

MOST_ROWS = 1_000_000
"""Number of rows that are read; with ten documents and chunks each they take some 300 MB."""


def live_causes(settings: Settings, question: BlameQuestion, now: datetime) -> BlameReport:
    """Return the causes of the bad answers of a range.

    With `blame.enabled` they are those of the rows of the range, in which metrics of `[[slo]]` and
    `[[labels.questions]]` have verdicts. Where there is no row, and for other metrics, evaluations are read.

    Args:
        settings: all settings.
        question: what is asked.
        now: the time, which ends a range without an end, and silences.

    Raises:
        ConfigurationError: if there is no such SLO or metric, or the range is empty.
        PermanentError: if there is no answer of the range.
        Unreachable: if no broker answers.
    """
    if settings.blame.enabled and question.start is not None:
        asked = TopicQuestion(question.name, question.start, question.end or now, where=question.where, most=MOST_ROWS)
        try:
            with closing(RecordFetcher(settings)) as fetcher:
                return DocumentsTopic(settings, asked).report(unseen, OriginalEvents(settings, fetcher), now)
        except (ConfigurationError, PermanentError):
            pass  # There are no rows; what is wrong with the question is wrong below, too.
    source = EvaluationSource.named(settings, "live")
    found = source.values(unseen, question.start, question.end)
    return causes_of(settings, question, found, source.topic, now)
