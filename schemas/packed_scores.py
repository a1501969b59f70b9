"""The packed row: what windows are summed from, of one evaluation, as a header of its record.

Reading a row takes a tenth of the time of reading the evaluation's JSON, which is the record's value and says the same.
A row is used only if all of it fits: its version, its checksum, the size of the value, and names that were read from
JSON before. Any other record is read from its value, so that a header is never needed and cannot make a record
unreadable. Evaluations with probabilities of a decision model have no row.

A row is, little-endian: the version (1 byte), the CRC-32 of the rest (4), 1 if judged (1), the size of the value in
bytes (4), the event time in microseconds since 1970 (8), the lengths of the two texts (2 each), the digest of the names
(8), the texts, and the scores as doubles in the order of the names, NaN for null. The first text is the JSON of the
fields that dimensions can name, the second that of the categories, of the decisions on judging and, if there are any,
of the names of judged metrics that are not defined for the event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from math import isnan, nan
from struct import Struct
from typing import Final, Generic, NamedTuple, TypeVar, get_args
from zlib import crc32

import numpy as np
import orjson
from numpy.typing import NDArray

from ragweir.schemas.evaluation import Evaluation, Status
from ragweir.schemas.evaluation_record import EvaluationRecord

HEADER = "ragweir-scores"
MAX_BYTES = 8 * 1024
"""The largest row that is written or read. The evaluation of a longer one is summed from JSON."""

_VERSION = 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HEAD, _BODY, _START = Struct("<BI"), Struct("<BIqHH8s"), Struct("<BIBIqHH8s")
_FIRST = _START.size
_DOUBLE_BYTES = 8
_STATUSES: Final = frozenset(get_args(Status))
_MAX_CACHED = 4_096
_MAX_CACHED_BYTES = 512
"""The longest text that is cached, so that caches are bounded in bytes."""

_ONE = Struct("<d")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class ScoreNames:
    """The names of the scores and categories of evaluations, and the catalogue version that gave them."""

    version: str
    scores: tuple[str, ...]
    categories: tuple[str, ...]
    digest: bytes
    """Eight bytes that stand for all of them in a row."""
    doubles: Struct
    """Packs the scores."""

    @classmethod
    def of(cls, version: str, scores: tuple[str, ...], categories: tuple[str, ...]) -> ScoreNames:
        """Return names with their digest."""
        digest = blake2b(orjson.dumps((version, scores, categories)), digest_size=8).digest()
        return cls(version, scores, categories, digest, Struct(f"<{len(scores)}d"))


@dataclass(frozen=True, slots=True, eq=False)
class DimensionFields:
    """The fields of an evaluation that dimensions can name."""

    application: str | None
    tenant: str | None
    environment: str | None
    pipeline_version: str | None
    model: str | None
    question_id: str | None
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """The categories of an evaluation in the order of their names, and its decisions on judging."""

    categories: tuple[str | None, ...]
    suites: tuple[tuple[str, str, float], ...]
    """Suite, status and probability of each decision."""
    undefined: tuple[str, ...] = ()
    """The judged metrics that are not defined for the event."""
    probabilities: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Probabilities of the values of judged metrics, by metric and value."""


class ScoreRow(NamedTuple):
    """The part of one evaluation that windows are summed from."""

    names: ScoreNames
    time_us: int
    """Event time in microseconds since 1970."""
    judged: bool
    origin: DimensionFields
    outcomes: Outcomes
    values: bytes
    """The scores as little-endian doubles, NaN for null."""

    def score(self, name: str) -> float | None:
        """Return one score; None if it is null or absent."""
        if name not in self.names.scores:
            return None
        (value,) = _ONE.unpack_from(self.values, self.names.scores.index(name) * _DOUBLE_BYTES)
        return None if isnan(value) else float(value)


class _Cache(dict[bytes, T], Generic[T]):
    """Values by text, of a bounded number of short texts."""

    def keep(self, text: bytes, value: T) -> T:
        """Return the value, and keep it if the text is short."""
        if len(text) <= _MAX_CACHED_BYTES:
            if len(self) >= _MAX_CACHED:
                self.clear()
            self[text] = value
        return value


_written: dict[tuple[str, tuple[str, ...], tuple[str, ...]], ScoreNames] = {}
"""The names that this process has met in evaluations; few, since they follow from the settings."""


def _names(evaluation: Evaluation | EvaluationRecord) -> ScoreNames:
    return _kept_names((evaluation.catalogue_version, tuple(evaluation.scores), tuple(evaluation.categories)))


def _kept_names(key: tuple[str, tuple[str, ...], tuple[str, ...]]) -> ScoreNames:
    found = _written.get(key)
    if found is None:
        if len(_written) >= _MAX_CACHED // 16:
            _written.clear()
        found = _written[key] = ScoreNames.of(*key)
    return found


def pack(evaluation: Evaluation, value_bytes: int) -> bytes | None:
    """Return the row of an evaluation; None if it would be longer than `MAX_BYTES`, or has probabilities.

    Args:
        evaluation: the evaluation.
        value_bytes: the size of the record's value, by which a changed value is noticed.
    """
    if evaluation.probabilities:
        return None
    names = _names(evaluation)
    origin = orjson.dumps(
        (
            evaluation.application,
            evaluation.tenant,
            evaluation.environment,
            evaluation.pipeline_version,
            evaluation.model,
            evaluation.question_id,
            evaluation.labels,
        )
    )
    suites = [(each.suite, each.status, each.probability) for each in evaluation.decision.suites]
    undefined = (evaluation.undefined,) if evaluation.undefined else ()
    outcomes = orjson.dumps((list(evaluation.categories.values()), suites, *undefined))
    if _FIRST + len(origin) + len(outcomes) + names.doubles.size > MAX_BYTES:
        return None
    time_us = (evaluation.event_time - _EPOCH) // _MICROSECOND
    judged = evaluation.stage == "judged"
    values = names.doubles.pack(*[nan if value is None else value for value in evaluation.scores.values()])
    body = _BODY.pack(judged, value_bytes, time_us, len(origin), len(outcomes), names.digest)
    rest = b"".join((body, origin, outcomes, values))
    return _HEAD.pack(_VERSION, crc32(rest)) + rest


def score_headers(evaluation: Evaluation, value: bytes) -> tuple[tuple[str, bytes], ...]:
    """Return the header of an evaluation's record; none if it has no row."""
    row = pack(evaluation, len(value))
    return () if row is None else ((HEADER, row),)


class RowReader:
    """Reads rows. It knows the names of the evaluations that it has read from JSON."""

    def __init__(self) -> None:
        self._names: dict[bytes, ScoreNames] = {}
        self._origins: _Cache[DimensionFields] = _Cache()
        self._outcomes: _Cache[Outcomes] = _Cache()

    def of(self, evaluation: Evaluation) -> ScoreRow:
        """Return the row of an evaluation that was read from JSON."""
        names = _names(evaluation)
        if names.digest not in self._names:
            if len(self._names) >= _MAX_CACHED // 16:
                self._names.clear()
            self._names[names.digest] = names
        return row_of(evaluation)

    def read(self, headers: Iterable[tuple[str, bytes | None]], value_bytes: int) -> ScoreRow | None:
        """Return the row that a record has as a header; None if the record has to be read from its value.

        The scores are not checked; see `infinite`.
        """
        packed = None
        for name, value in headers:
            if name == HEADER:
                packed = value
                break
        if packed is None or not _FIRST <= len(packed) <= MAX_BYTES or packed[0] != _VERSION:
            return None
        _, checksum, judged, size, time_us, first, second, digest = _START.unpack_from(packed)
        names = self._names.get(digest)
        if size != value_bytes or names is None or crc32(packed[_HEAD.size :]) != checksum:
            return None
        between, end = _FIRST + first, _FIRST + first + second
        if judged > 1 or len(packed) - end != names.doubles.size:
            return None
        one, other = packed[_FIRST:between], packed[between:end]
        try:
            origin = self._origins.get(one) or self._origins.keep(one, _origin(one))
            outcomes = self._outcomes.get(other) or self._outcomes.keep(other, _outcomes(other))
        except ValueError:
            return None
        if len(outcomes.categories) != len(names.categories):
            return None
        return ScoreRow(names, time_us, judged == 1, origin, outcomes, packed[end:])


def row_of(evaluation: Evaluation | EvaluationRecord) -> ScoreRow:
    """Return the row of an evaluation, of any length."""
    names = _names(evaluation)
    return ScoreRow(
        names,
        (evaluation.event_time - _EPOCH) // _MICROSECOND,
        evaluation.stage == "judged",
        DimensionFields(
            evaluation.application,
            evaluation.tenant,
            evaluation.environment,
            evaluation.pipeline_version,
            evaluation.model,
            evaluation.question_id,
            evaluation.labels,
        ),
        Outcomes(
            tuple(evaluation.categories.values()),
            tuple([(each.suite, each.status, each.probability) for each in evaluation.decision.suites]),
            evaluation.undefined,
            evaluation.probabilities,
        ),
        names.doubles.pack(*[nan if value is None else value for value in evaluation.scores.values()]),
    )


def decisions_of(evaluation: Evaluation | EvaluationRecord) -> ScoreRow:
    """Return the row of an evaluation without its scores and categories."""
    row = row_of(evaluation)
    names = _kept_names((row.names.version, (), ()))
    return row._replace(names=names, outcomes=Outcomes((), row.outcomes.suites), values=b"")


def matrix(rows: Sequence[ScoreRow]) -> NDArray[np.float64]:
    """Return the scores of rows with the same names: one row each, one column per name, NaN for null."""
    values = np.frombuffer(b"".join([row.values for row in rows]), dtype="<f8")
    return values.reshape(len(rows), -1) if len(values) else np.empty((len(rows), 0))


def infinite(rows: Sequence[ScoreRow | None]) -> list[int]:
    """Return the places of rows with an infinite score, which no evaluation has."""
    groups: dict[ScoreNames, list[int]] = {}
    for place, row in enumerate(rows):
        if row is not None:
            groups.setdefault(row.names, []).append(place)
    found: list[int] = []
    for places in groups.values():
        hits = np.isinf(matrix([row for place in places if (row := rows[place])])).any(axis=1)
        found += [places[number] for number in np.flatnonzero(hits).tolist()]
    return found


def _origin(text: bytes) -> DimensionFields:
    """Return the fields of a row's text.

    Raises:
        ValueError: if it is not one that `pack` writes.
    """
    fields = orjson.loads(text)
    if isinstance(fields, list) and len(fields) == 7:
        application, tenant, environment, version, model, question_id, labels = fields
        if (
            all(each is None or isinstance(each, str) for each in fields[:-1])
            and isinstance(labels, dict)
            and all(isinstance(each, str) for each in labels.values())
        ):
            return DimensionFields(application, tenant, environment, version, model, question_id, labels)
    raise ValueError("not the fields of an evaluation")


def _outcomes(text: bytes) -> Outcomes:
    """Return the categories and decisions of a row's text.

    Raises:
        ValueError: if it is not one that `pack` writes.
    """
    parts = orjson.loads(text)
    if isinstance(parts, list) and len(parts) in (2, 3) and all(isinstance(part, list) for part in parts):
        categories, suites, *others = parts
        undefined = others[0] if others else []
        if (
            all(each is None or isinstance(each, str) for each in categories)
            and all(map(_is_suite, suites))
            and all(isinstance(each, str) for each in undefined)
        ):
            decisions = tuple([(suite, status, own) for suite, status, own in suites])
            return Outcomes(tuple(categories), decisions, tuple(undefined))
    raise ValueError("not the categories and decisions of an evaluation")


def _is_suite(part: object) -> bool:
    if not isinstance(part, list) or len(part) != 3:
        return False
    suite, status, probability = part
    return (
        isinstance(suite, str)
        and isinstance(status, str)
        and status in _STATUSES
        and isinstance(probability, float)
        and 0 <= probability <= 1
    )
