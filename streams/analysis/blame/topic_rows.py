"""The rows of topic `documents` as columns of facets, strata, sessions and questions.

A value of a document, chunk or label is its hash. Hashes with fewer servings than are tested are dropped at the end; if
there are too many before it, whole levels of hashes are dropped, and the share that is kept is known.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from datetime import datetime
from hashlib import blake2b

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragweir.errors import ConfigurationError
from ragweir.metrics.cause.servings import NONE
from ragweir.metrics.criterion import BAD, GOOD, Criterion
from ragweir.schemas.document_rows import FIELDS
from ragweir.streams.analysis.blame.answer_scope import BlameScope
from ragweir.streams.analysis.blame.carried_values import CarriedValues
from ragweir.streams.analysis.blame.event_places import EventPlaces
from ragweir.streams.analysis.blame.facets import CHUNK, DOCUMENT
from ragweir.streams.analysis.blame.rows_line import Column, RowsLine, read_rows
from ragweir.streams.analysis.blame.value_codes import DROPPED, ValueCodes
from ragweir.streams.services.shared.row_hashes import RowHashes

_HOUR_US = 3_600 * 1_000_000
_MICROSECONDS = 1e6
_CHANCES = 100
"""Number of classes of the probability of being judged, as of files."""
_SALTS = {DOCUMENT: np.uint64(0), CHUNK: np.uint64(0x9E3779B97F4A7C15)}
"""Numbers that keep the hash of a document apart from that of a chunk of the same id."""
_COLUMNS = {
    "offset": "q",
    "index": "I",
    "time": "q",
    "session": "Q",
    "question": "Q",
    "bad": "B",
    "judged": "b",
    "application": "i",
    "pipeline_version": "i",
    "source": "i",
}
"""The columns that are held of each row with a verdict, with the types of their arrays."""
_LABEL = "labels."


class TopicRows:
    """The rows of a range of topic `documents` that have verdicts of one criterion.

    Args:
        criterion: the criterion by which answers are bad.
        codes: the numbers of values, which the rows of a reference share.
        scope: which answers count.
        hashes: the hashes of ids.
        most: number of different hashes that are held.
    """

    with_events = True
    lacking_events = 0
    unknown: frozenset[str] = frozenset()

    def __init__(
        self, criterion: Criterion, codes: ValueCodes, scope: BlameScope, hashes: RowHashes, most: int
    ) -> None:
        self._criterion, self._codes, self._scope, self._hashes = criterion, codes, scope, hashes
        self._stage = "scored" if criterion.suite is None else "judged"
        self._columns = {name: array(kind) for name, kind in _COLUMNS.items()}
        self.carried = CarriedValues(most)
        """The values that the rows with a verdict carry."""
        self._sources: dict[tuple[str, int], int] = {}
        self.seen = 0
        """Number of rows of the range, with and without a verdict."""
        self.unreadable = 0
        """Number of records that hold no rows."""
        self.other_criteria: dict[tuple[str, float], None] = {}
        """Metrics and thresholds of records that have no verdicts of the criterion."""
        self._asked = 0

    def __len__(self) -> int:
        return self.seen

    def add(self, value: bytes) -> None:
        """Add the rows of a record."""
        try:
            self._add(read_rows(value))
        except (msgspec.MsgspecError, ValueError, IndexError):
            self.unreadable += 1

    def _add(self, record: RowsLine) -> None:
        if record.stage != self._stage:
            return
        asked = self._criterion
        wanted = (asked.metric, asked.threshold, asked.higher_is_better)
        found = [(each.metric, each.threshold, each.higher_is_better) for each in record.criteria]
        if wanted not in found:
            self.other_criteria |= dict.fromkeys((each.metric, each.threshold) for each in record.criteria)
            return
        time = record.column("time")
        verdict = record.column("verdict").reshape(record.rows, len(found))[:, found.index(wanted)]
        field = record.column("field").reshape(record.rows, len(FIELDS)).astype(np.int64)
        named_codes = [self._codes.code(record.facets[facet], value) for facet, value in record.values]
        codes = np.array([*named_codes, DROPPED], dtype=np.int32)
        fields = codes[field - 1]  # 0 is none, and the last code is none.
        in_scope = self._in_scope(record, time, field)
        has_verdict = in_scope & ((verdict == BAD) | (verdict == GOOD))
        chance = np.ones(record.rows)
        if asked.suite is not None:
            chance = record.column("chance").reshape(record.rows, len(record.suites))[
                :, record.suites.index(asked.suite)
            ]
        # All that may raise is read before anything is kept, so that no column is longer than another.
        named = self._named(record, codes, fields)
        hashed = [each for name in (DOCUMENT, CHUNK) if len((each := self._hashed(record, name))[0])]
        if len((labels := self._labels(record))[0]):
            hashed.append(labels)
        source = self._sources.setdefault((record.topic, record.partition), len(self._sources))
        columns: dict[str, Column] = {
            "offset": record.column("offset"),
            "index": record.column("index"),
            "time": time,
            "session": record.column("session"),
            "question": record.column("question"),
            "bad": verdict == BAD,
            "judged": np.round(chance * _CHANCES),
            "application": fields[:, 0],
            "pipeline_version": fields[:, 1],
            "source": np.full(record.rows, source),
        }
        kept = {name: columns[name][has_verdict].astype(kind) for name, kind in _COLUMNS.items()}
        self._keep(has_verdict, named, hashed)
        for name, column in kept.items():
            self._columns[name].frombytes(column.tobytes())
        self.seen += int(in_scope.sum())
        self._asked += int(has_verdict.sum())

    def _in_scope(self, record: RowsLine, time: Column, field: Column) -> NDArray[np.bool_]:
        found = np.ones(record.rows, bool)
        if self._scope.start is not None:
            found &= time >= _microseconds(self._scope.start)
        if self._scope.end is not None:
            found &= time < _microseconds(self._scope.end)
        for name, value in self._scope.where.items():
            found &= self._has(record, field, name, value)
        return found

    def _has(self, record: RowsLine, field: Column, name: str, value: str) -> NDArray[np.bool_]:
        """Return which rows have a value of a dimension."""
        if name in FIELDS:
            values = [(record.facets[facet], own) for facet, own in record.values]
            numbers = [number for number, own in enumerate(values, 1) if own == (name, value)]
            return np.isin(field[:, FIELDS.index(name)], numbers)
        if name == "question_id":
            own = np.frombuffer(self._hashes[value], dtype="<u8")[0]
            return np.asarray(record.column("question") == own)
        hashes, row, _ = self._labels(record)
        own = np.frombuffer(self._hashes[f"{name.removeprefix(_LABEL)}\0{value}"], dtype="<u8")[0]
        found = np.zeros(record.rows, bool)
        found[row[hashes == own]] = True
        return found

    def _named(self, record: RowsLine, codes: Column, fields: Column) -> tuple[Column, Column]:
        """Return the rows and codes of named values."""
        row = np.repeat(np.arange(record.rows), record.column("value_count"))
        place, own = np.nonzero(fields >= 0)
        value = np.concatenate([codes[record.column("value")], fields[place, own]])
        row = np.concatenate([row, place])
        return row[value >= 0], value[value >= 0]

    def _hashed(self, record: RowsLine, name: str) -> tuple[Column, Column, Column]:
        hashes = record.column(name) ^ _SALTS[name]
        row = np.repeat(np.arange(record.rows), record.column(f"{name}_count"))
        return hashes, row, np.full(len(hashes), self._codes.facet_number(name), np.int16)

    def _labels(self, record: RowsLine) -> tuple[Column, Column, Column]:
        numbers = np.array([self._codes.facet_number(name) for name in record.facets] or [0], dtype=np.int16)
        row = np.repeat(np.arange(record.rows), record.column("label_count"))
        return record.column("label"), row, numbers[record.column("label_name")]

    def _keep(
        self,
        rows: NDArray[np.bool_],
        named: tuple[Column, Column],
        hashed: Sequence[tuple[Column, Column, Column]],
    ) -> None:
        """Keep the servings of some rows."""
        place = (np.cumsum(rows) - 1 + self._asked).astype(np.int32)
        used = rows[named[0]]
        self.carried.add(place[named[0][used]], named[1][used])
        for hashes, row, facet in hashed:
            used = rows[row] & (facet >= 0)
            self.carried.add_hashes(place[row[used]], hashes[used], facet[used])

    # What the statistics read.

    def asked(self) -> NDArray[np.int64]:
        """Return the rows that have a verdict: all that are held."""
        return np.arange(self._asked)

    @property
    def times(self) -> Column:
        """Times of the events, in seconds."""
        return self._column("time") / _MICROSECONDS

    @property
    def values(self) -> Sequence[Column]:
        """The badness of each event: 1 if it is bad, else 0, as rows have verdicts without values."""
        bad = self._column("bad").astype(float)
        return (-bad if self._criterion.higher_is_better else bad,)

    @property
    def ids(self) -> Sequence[str]:
        """The places of the events."""
        return EventPlaces(list(self._sources), self._column("source"), self._column("offset"), self._column("index"))

    def columns(self) -> dict[str, Column]:
        """Return the columns of the rows."""
        question = _signed(self._column("question"))
        return {
            "bad": self._column("bad").astype(bool),
            "hour": self._column("time") // _HOUR_US,
            "judged": self._column("judged"),
            "application": self._column("application"),
            "pipeline_version": self._column("pipeline_version"),
            "session": _signed(self._column("session")),
            "question": question,
            "text": question,
            "chance": self._chance(),
        }

    def taken_pairs(self) -> NDArray[np.uint64]:
        """Return the values that the rows carry, see `paired`, and forget them."""
        return self.carried.taken()

    def _column(self, name: str) -> Column:
        return np.frombuffer(self._columns[name], dtype=_COLUMNS[name])

    def _chance(self) -> NDArray[np.uint64]:
        """Return a hash of the place of each event, by which one of a session counts."""
        names = [blake2b(f"{topic}/{partition}".encode(), digest_size=8) for topic, partition in self._sources]
        source = np.array([int.from_bytes(each.digest()) for each in names] or [0], dtype=np.uint64)
        place = self._column("offset").astype(np.uint64) * np.uint64(1 << 16) + self._column("index").astype(np.uint64)
        return _mixed(source[self._column("source")] ^ _mixed(place))

    def check(self, topic: str) -> None:
        """Check that there are rows with verdicts.

        Raises:
            ConfigurationError: if the topic has rows of the range with verdicts of other metrics or thresholds alone.
        """
        if not self.seen and self.other_criteria:
            said = ", ".join(f"{metric} at {threshold:g}" for metric, threshold in self.other_criteria)
            asked = self._criterion
            raise ConfigurationError(
                f"the rows of {topic} have verdicts on {said}, not on {asked.metric} at {asked.threshold:g}: those of "
                "[[slo]] and [[labels.questions]] count from when evaluate and judge were started with them; "
                "`ragweir blame METRIC FILE` reads any metric from evaluations"
            )


def hash_name(facet: str, value: str, hashes: RowHashes) -> str:
    """Return the name of a document, chunk or label before it is known: its hash.

    >>> hash_name("document", "d1", RowHashes("a secret")) == hash_name("chunk", "d1", RowHashes("a secret"))
    False
    """
    text = f"{facet.removeprefix(_LABEL)}\0{value}" if facet.startswith(_LABEL) else value
    own = np.frombuffer(hashes[text], dtype="<u8") ^ _SALTS.get(facet, np.uint64(0))
    return _shown(int(own[0]))


def _shown(number: int) -> str:
    return f"#{number:016x}"


def with_codes(codes: ValueCodes, now: TopicRows, before: TopicRows | None) -> None:
    """Give codes to the hashes that have enough servings.

    Args:
        codes: the numbers of values.
        now: the rows.
        before: the rows with which they are compared, if any.
    """
    parts = [each.carried for each in (now, before) if each is not None]
    for each in parts:
        each.number()
    level = max(each.level for each in parts)
    for each in parts:
        each.drop_to(level)
    hashes, facets = parts[0].enough()
    first = codes.add_hashes(facets.tolist(), [_shown(each) for each in hashes.tolist()], level)
    for each in parts:
        each.name_hashes(hashes, first)


def _microseconds(time: datetime) -> int:
    return round(time.timestamp() * _MICROSECONDS)


def _signed(hashes: Column) -> NDArray[np.int64]:
    """Return hashes as numbers that are not negative; NONE for none."""
    return np.where(hashes == 0, NONE, (hashes >> np.uint64(1)).astype(np.int64))


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers of which all bits depend on all bits: splitmix64."""
    with np.errstate(over="ignore"):
        mixed = numbers + np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(mixed ^ (mixed >> np.uint64(31)))
