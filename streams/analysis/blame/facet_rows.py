"""The evaluations of a file as columns of facets, strata, sessions and questions, with those of their events.

A file of 200,000 evaluations with ten values each takes some 280 MB.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from ragweir.errors import PermanentError
from ragweir.metrics.cause.coded_facets import FACETS
from ragweir.metrics.cause.servings import NONE, Mask, Servings, paired, value_of
from ragweir.metrics.criterion import BAD, GOOD, Criterion
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.blame.answer_scope import BlameScope, without_answers
from ragweir.streams.analysis.blame.event_table import EventTable
from ragweir.streams.analysis.blame.facets import (
    CHUNK,
    DOCUMENT,
    KINDS,
    MAX_PARTS,
    NOT_HELD,
    OWN,
    VERSION,
    derived_facets,
    event_facets,
    kind,
)
from ragweir.streams.analysis.blame.value_codes import DROPPED, ValueCodes
from ragweir.streams.analysis.labels.evaluated import Evaluated, EvaluationLine, read_evaluations

_EVERYTHING = BlameScope()
_HOUR_S = 3600
_CHANCES = 100
"""Number of classes of the probability of being judged, within which events are compared."""


class _FacetLine(EvaluationLine, gc=False):
    """The fields of an evaluation from which facets come."""

    session_id: str | None = None
    document_ids: tuple[str, ...] = ()
    facets: dict[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class FacetRows(Evaluated):
    """The evaluations of a file, each with the values that it carries.

    Args:
        criterion: the criterion by which answers are bad.
        codes: the numbers of values, which several files share.
        scope: which evaluations count.
    """

    line: ClassVar[type[EvaluationLine]] = _FacetLine

    def __init__(self, criterion: Criterion, codes: ValueCodes, scope: BlameScope = _EVERYTHING) -> None:
        super().__init__((criterion,), ())
        self._scope = scope
        self._value_codes = codes
        self._starts, self._lengths, self._carried = array("q"), array("i"), array("i")
        self._extra_rows, self._extra_values = array("i"), array("i")
        self._has_event, self._has_facets = bytearray(), bytearray()
        self._held = {name: array("i") for name in NOT_HELD}
        self._sessions, self._questions, self._hashes = array("q"), array("q"), array("Q")
        self._texts = array("q")
        self.with_events = False
        """True if an event of the evaluations was read."""

    @override
    def wants(self, line: Any) -> bool:
        return self._scope.includes(line)

    @override
    def keep(self, row: int, line: Any) -> None:
        if row == len(self._hashes):
            self._hashes.append(_hash(str(line.event_id)))
            self._has_event.append(0)
            self._has_facets.append(0)
            for column in (
                self._starts,
                self._lengths,
                self._sessions,
                self._questions,
                self._texts,
                *self._held.values(),
            ):
                column.append(0)
        found = [(name, value) for name in OWN if (value := getattr(line, name)) is not None]
        found += [(f"labels.{name}", value) for name, value in list(line.labels.items())[:MAX_PARTS]]
        found += [(DOCUMENT, value) for value in line.document_ids[:MAX_PARTS]]
        found += [(name, value) for name, values in line.facets.items() for value in values]
        self._has_facets[row] = bool(line.facets)
        own = [number for name, value in found if (number := self._value_codes.code(name, value)) != DROPPED]
        self._starts[row], self._lengths[row] = len(self._carried), len(own)
        self._carried.extend(own)
        for name, column in self._held.items():
            value = getattr(line, name)
            column[row] = DROPPED if value is None else self._value_codes.code(name, value)
        self._sessions[row] = NONE if line.session_id is None else _key(line.session_id)
        self._questions[row] = self._texts[row] = NONE if line.question_id is None else _key(line.question_id)

    def add_event(self, event: Interaction) -> None:
        """Add what the event of an evaluation carries; of several events with the same id the first counts."""
        row = self.rows[event.event_id]
        if self._has_event[row]:
            return
        self._has_event[row] = 1
        self.with_events = True
        if event.query is not None:
            self._texts[row] = _key(" ".join(event.query.split()).casefold())
            if self._questions[row] == NONE:
                self._questions[row] = self._texts[row]
        # Evaluations of earlier versions have no facets.
        derived = () if self._has_facets[row] else derived_facets(event)
        for name, value in chain(event_facets(event), derived):
            if (number := self._value_codes.code(name, value)) != DROPPED:
                self._extra_rows.append(row)
                self._extra_values.append(number)

    @property
    def unknown(self) -> frozenset[str]:
        """The facets whose values are not known, as events were not read and evaluations have none."""
        if self.with_events:
            return frozenset()
        return frozenset([CHUNK]) if any(self._has_facets) else frozenset([CHUNK, *FACETS])

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the events."""
        return list(self.rows)

    @property
    def lacking_events(self) -> int:
        """The number of evaluations whose events were not read."""
        return self._has_event.count(0)

    def checked(self, name: str) -> FacetRows:
        """Return the rows.

        Raises:
            PermanentError: if there is none.
        """
        if not self.rows:
            raise PermanentError(without_answers(name, self._scope, self.first_s, self.last_s))
        return self

    def asked(self) -> NDArray[np.int64]:
        """Return the rows that have a verdict."""
        return np.flatnonzero(np.isin(np.asarray(self.verdicts[0]), (BAD, GOOD)))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the columns of the rows that have a verdict."""
        asked = self.asked()
        chance = np.round(np.asarray(self.chances[0])[asked] * _CHANCES).astype(np.int64)
        return {
            "bad": np.asarray(self.verdicts[0])[asked] == BAD,
            "hour": np.floor(np.asarray(self.times)[asked] / _HOUR_S).astype(np.int64),
            "judged": chance,
            **{name: np.asarray(column, dtype=np.int64)[asked] for name, column in self._held.items()},
            "session": np.asarray(self._sessions, dtype=np.int64)[asked],
            "question": np.asarray(self._questions, dtype=np.int64)[asked],
            "text": np.asarray(self._texts, dtype=np.int64)[asked],
            "chance": np.asarray(self._hashes, dtype=np.uint64)[asked],
        }

    def taken_pairs(self) -> NDArray[np.uint64]:
        """Return the values that the rows with a verdict carry, see `paired`."""
        asked = self.asked()
        place = np.full(len(self), -1, np.int64)
        place[asked] = np.arange(len(asked))
        lengths = np.asarray(self._lengths, dtype=np.int64)
        row = np.repeat(np.arange(len(self)), lengths)
        # A superseded evaluation's values are before the start of those that count.
        offset = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        value = np.asarray(self._carried, dtype=np.int32)[np.repeat(np.asarray(self._starts), lengths) + offset]
        row = place[np.concatenate([row, np.asarray(self._extra_rows, dtype=np.int64)])]
        value = np.concatenate([value, np.asarray(self._extra_values, dtype=np.int32)])
        return paired(row[row >= 0], value[row >= 0])


def read_facet_rows(
    file: Path,
    criterion: Criterion,
    codes: ValueCodes,
    on_bytes: Callable[[int], None],
    scope: BlameScope = _EVERYTHING,
) -> FacetRows:
    """Read a file of evaluations, as `ragweir score --out` writes it, in any format that is read.

    Raises:
        PermanentError: if it cannot be read, or does not hold evaluations that count.
    """
    found = FacetRows(criterion, codes, scope)
    read_evaluations(file, found.add, on_bytes)
    return found.checked(str(file))


def servings(now: EventTable, before: EventTable | None, codes: ValueCodes) -> Servings:
    """Return the events of a file, and of the one that it is compared with, with all that they carry."""
    parts = [each.columns() for each in (now, before) if each is not None]
    sizes = [len(each["bad"]) for each in parts]
    column = {name: _joined([each.pop(name) for each in parts]) for name in parts[0].copy()}
    # Without the events of the reference it would seem to lack what comes from events alone.
    unknown = frozenset[str]() if before is None else before.unknown
    dropped = np.array([facet in unknown for facet in codes.facets], dtype=bool)
    facet = np.array(codes.facet, dtype=np.int64)
    known = np.array([each is not None for each in codes.names], dtype=bool) & ~dropped[facet]
    stratum, schemes = _strata(column, has_reference=before is not None)
    kinds = np.array([kind(each) for each in codes.facets], dtype=np.int64)
    return Servings.ordered(
        bad=column["bad"],
        present=np.repeat([True, False][: len(parts)], sizes),
        stratum=stratum,
        session=_dense(column["session"]),
        question=_dense(column["question"]),
        chance=column["chance"],
        pairs=_all_pairs(now, before, sizes[0], known),
        facet=kinds[facet],
        schemes=schemes,
    )


def _all_pairs(now: EventTable, before: EventTable | None, size: int, known: Mask) -> NDArray[np.uint64]:
    """Return the servings of known values; those of the reference are of the events after as many of the others."""
    found = [now.taken_pairs()]
    if before is not None:
        found.append(before.taken_pairs() + np.uint64(size))
    pairs = _joined(found)
    return pairs if known.all() else pairs[known[value_of(pairs)]]


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _strata(column: dict[str, NDArray[Any]], *, has_reference: bool) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the stratum of each event, and for each kind of facets and stratum the one in which values are compared.

    Events before and after are of other hours and versions, so that only the application is the same.
    """
    names = ["judged", *NOT_HELD, "hour"]
    if has_reference:
        names = [each for each in names if each not in {VERSION, "hour"}]
    stratum = np.zeros(len(column["bad"]), np.int64)
    for name in names:
        place, size = _numbered(column[name])
        stratum = _numbered(stratum * size + place)[0]
    first = np.unique(stratum, return_index=True)[1]
    kinds = np.stack([column[name][first] for name in names], axis=1)
    schemes = np.zeros((len(KINDS), len(kinds)), np.int64)
    for number, facet in enumerate(KINDS):
        held = kinds.copy()
        for own, name in enumerate(names):
            if facet in NOT_HELD.get(name, ()):
                held[:, own] = 0
        schemes[number] = np.unique(held, axis=0, return_inverse=True)[1].ravel()
    return stratum, schemes


def _numbered(keys: NDArray[Any]) -> tuple[NDArray[np.int64], int]:
    """Return numbers from 0 in place of keys, in their order, and how many there are."""
    found, place = np.unique(keys, return_inverse=True)
    return place.ravel().astype(np.int64, copy=False), len(found)


def _dense(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers from 0 in place of hashes; NONE stays."""
    return np.where(keys == NONE, NONE, _numbered(keys)[0])


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(errors="replace"), digest_size=8).digest())


def _key(text: str) -> int:
    """Return a hash that is not NONE."""
    return _hash(text) >> 1
