"""The import of labels: rows are matched with events, and compared with the labels that a file has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ragweir.schemas.label import WITHDRAWN, Draw, Label
from ragweir.streams.analysis.labels.bad_rows import BadRows
from ragweir.streams.analysis.labels.label_rows import LONGEST_COMMENT, LabelReader, LabelRow
from ragweir.streams.analysis.labels.store import Key
from ragweir.streams.analysis.labels.targets import Targets


@dataclass(slots=True)
class LabelImport:
    """The labels and draws of an export, and the numbers of its summary."""

    reader: LabelReader
    rows: list[LabelRow] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    unknown: list[LabelRow] = field(default_factory=list)
    """The labels whose events are not in the evaluations."""
    repeated: int = 0
    """Number of labels with a newer one of the same event, question and rater in the export."""
    there: int = 0
    """Number of labels that the file has."""
    older: int = 0
    """Number of labels of which the file has a newer one, or one that was withdrawn."""
    added: int = 0

    @property
    def bad(self) -> BadRows:
        """The rows that are no label."""
        return self.reader.bad

    def read(self, lines: Iterable[tuple[int, bytes]]) -> None:
        """Read rows, given with their numbers."""
        for number, line in lines:
            for each in self.reader.read(number, line):
                if isinstance(each, Draw):
                    self.draws.append(each)
                else:
                    self.rows.append(each)

    def match(self, targets: Targets) -> None:
        """Give each label the event that it names; those of unknown events are left out and counted."""
        known = []
        for row in self.rows:
            event = targets.find(row.ids)
            if event is None:
                self.unknown.append(row)
                self.bad.add("event", next(iter(row.ids.values())))
                continue
            found = {"event_id": event.event_id, "event_time": event.time, "dimensions": event.dimensions}
            known.append(row._replace(label=row.label.model_copy(update=found)))
        self.rows = known

    def new(self, there: Mapping[Key, Label]) -> list[Label]:
        """Return the labels that a file lacks: the newest of each event, question and rater, unless it has a newer one.

        Args:
            there: the last label of each key in the file, withdrawn ones too.
        """
        newest: dict[Key, LabelRow] = {}
        for row in self.rows:
            label = row.label
            key = label.event_id, label.question, label.rater
            if (other := newest.get(key)) is None or other.label.time <= label.time:
                newest[key] = row
        self.repeated = len(self.rows) - len(newest)
        found = [row.label for key, row in newest.items() if self._is_new(row, there.get(key))]
        self.added = len(found)
        return found

    def _is_new(self, row: LabelRow, other: Label | None) -> bool:
        if other is None:
            return True
        label = row.label
        same = label.value == other.value
        if same and (not row.has_time or label.time == other.time):
            self.there += 1
            return False
        # A row without a time cannot say that it is newer than a withdrawal.
        older = label.time < other.time if row.has_time else other.value == WITHDRAWN
        self.older += older
        return not older

    @property
    def good(self) -> int:
        """Number of rows that are labels."""
        return self.repeated + self.there + self.older + self.added

    def summary(self) -> str:
        """Return the numbers as a sentence."""
        return ", ".join([f"{self.added:,} label{'s' * (self.added != 1)} imported", *self._others()])

    def failure(self) -> str:
        """Return why there is no label."""
        others = ", ".join(self._others())
        return f"no label was imported: {others}" if others else "no label was imported, since the file has none"

    def _others(self) -> Iterator[str]:
        reader = self.reader
        numbers = {
            "there already": self.there,
            "older than those that are there": self.older,
            "repeated, of which the newest counts": self.repeated,
            "rows skipped by the map's `where`": reader.skipped,
            f"comments cut to {LONGEST_COMMENT:,} characters": reader.cut,
        }
        yield from (f"{number:,} {words}" for words, number in numbers.items() if number)
        yield from self.bad.parts
