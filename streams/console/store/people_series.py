"""Series of people's labels: their number, and the share of bad answers that people would find."""

from __future__ import annotations

import sqlite3
from collections import Counter

from ragweir.metrics.people.shares import Limits
from ragweir.schemas.label import Draw, Label
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.report import AgreementTable, report
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.runtime.records import Count
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings

_MOST = 200
"""Limit for the estimates; those of the most labels are shown."""
_ESTIMATES = {
    "value": "ragweir_people_estimate",
    "low": "ragweir_people_estimate_low",
    "high": "ragweir_people_estimate_high",
}


def people_labels(db: sqlite3.Connection) -> PeopleLabels:
    """Return all labels and draws of a store."""
    found = PeopleLabels()
    for (data,) in db.execute("select data from draw"):
        made = Draw.model_validate_json(data)
        found.draws[made.id] = made
    for (data,) in db.execute("select data from label order by event_id, question, rater"):
        found.add(Label.model_validate_json(data))
    return found


class PeopleSeries:
    """Gauges of what `ragweir labels report` prints.

    Args:
        settings: the questions, and the metrics that answer them.
    """

    def __init__(self, settings: Settings) -> None:
        catalogue = known_catalogue(settings).metrics
        self._criteria = [(each, criteria(each, catalogue)) for each in settings.labels.questions]
        self._shown: set[Count] = set()

    def levels(self, labels: PeopleLabels) -> dict[Count, float | None]:
        """Return the values of the gauges; None for one that was there before and is no more."""
        counts = Counter((label.question, label.kind) for label in labels.current())
        found: dict[Count, float | None] = {("ragweir_labels", *key): number for key, number in counts.items()}
        tables = sorted(report(labels, self._criteria).tables, key=lambda each: (each.labels, each.end))[-_MOST:]
        for table in tables:  # Of two of one subject, the one of more labels is the last.
            if isinstance(rate := table.agreement.people_rate, Limits):
                found |= {(name, *_subject(table)): getattr(rate, part) for part, name in _ESTIMATES.items()}
        gone: dict[Count, float | None] = dict.fromkeys(self._shown - found.keys())
        self._shown = set(found)
        return gone | found


def _subject(table: AgreementTable) -> tuple[str, str, str, str]:
    """Return the labels of a table's series."""
    return table.question, table.criterion.metric, table.application or "", table.judge.model or ""
