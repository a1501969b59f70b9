"""The evaluations of a file as columns: of each event its time, its group, and the verdicts of some criteria.

A file of a million evaluations takes some 300 MB, whatever its metrics are.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ragweir.errors import PermanentError
from ragweir.metrics.criterion import BAD, GOOD, Criterion, verdict_of
from ragweir.metrics.people.calibration import likely_bad
from ragweir.schemas.evaluation import Source, Version, supersedes
from ragweir.streams.analysis.labels.sampling_frame import Tally
from ragweir.streams.files.events import scan_events

MAX_BYTES = 16 * 1024 * 1024
"""Size of the largest line of evaluations or labels."""
Rows = NDArray[np.int64]
"""Numbers of events, from 0."""


class Group(NamedTuple):
    """Fields that many events share."""

    application: str | None
    dimensions: tuple[tuple[str, str], ...]
    catalogue_version: str | None
    model: str | None
    """Configured model of the judge; None for an event that was not judged."""
    versions: str
    """Versions of the suites that judged."""


class _LineSuite(msgspec.Struct, gc=False):
    suite: str
    status: str
    probability: float


class _LineDecision(msgspec.Struct, gc=False, frozen=True):
    suites: tuple[_LineSuite, ...] = ()


class _LineJudge(msgspec.Struct, gc=False):
    model: str
    prompt_version: str


_Int = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Long = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class _LineSource(msgspec.Struct, gc=False):
    topic: str
    partition: _Int
    offset: _Long
    index: _Int = 0


class EvaluationLine(msgspec.Struct, gc=False):
    """The fields of an evaluation that labels need, without the scores."""

    event_id: str | int
    event_time: datetime
    catalogue_version: str | None = None
    application: str | None = None
    tenant: str | None = None
    environment: str | None = None
    pipeline_version: str | None = None
    model: str | None = None
    question_id: str | None = None
    stage: str | None = None
    labels: dict[str, str] = {}
    undefined: tuple[str, ...] = ()
    probabilities: dict[str, dict[str, float]] = {}
    decision: _LineDecision = _LineDecision()
    judge: _LineJudge | None = None
    source: _LineSource | None = None

    @property
    def time(self) -> datetime:
        """The time of the event."""
        return self.event_time if self.event_time.tzinfo else self.event_time.replace(tzinfo=UTC)

    def dimension(self, name: str) -> str | None:
        """Return the event's value of a dimension."""
        own, _, label = name.partition(".")
        value: str | None = self.labels.get(label) if label else getattr(self, own)
        return value

    def dimensions(self, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
        """Return the event's values of dimensions by their names, without those that it has not."""
        return tuple((name, value) for name in names if (value := self.dimension(name)) is not None)


class Evaluated:
    """The evaluations of a file; of several with the same id one counts, by `supersedes`.

    Args:
        criteria: the criteria of which the events have verdicts.
        dimensions: the dimensions that labels carry.
    """

    line: ClassVar[type[EvaluationLine]] = EvaluationLine
    """The fields that are read, beside the scores of the criteria."""

    def __init__(self, criteria: Sequence[Criterion], dimensions: Sequence[str]) -> None:
        self.criteria = tuple(criteria)
        self._dimensions = tuple(dimensions)
        self.rows: dict[str, int] = {}
        """The row of each event by its id."""
        self.times = array("d")
        self.first_s, self.last_s = inf, -inf
        """Times of the first and last event, with those that are left out."""
        self._judged = array("b")
        self.groups: list[Group] = []
        self._group_numbers: dict[Group, int] = {}
        self.group = array("i")
        self._source_topics: dict[str, int] = {}
        self.sources = (array("i"), array("i"), array("q"), array("i"))
        """Number of the topic, -1 for none; partition, offset and index of each event's record."""
        self.verdicts = [array("b") for _ in criteria]
        self.values = [array("d") for _ in criteria]
        self.chances = [array("d") for _ in criteria]
        self.likely: list[dict[int, float]] = [{} for _ in criteria]
        """Probability of a bad value by row, for each criterion, where a decision model gave one."""
        names = dict.fromkeys(each.metric for each in criteria)
        fields = [
            (f"m{place}", float | bool | None, msgspec.field(default=None, name=name))
            for place, name in enumerate(names)
        ]
        scores = msgspec.defstruct("Scores", fields, gc=False)
        self._fields = {name: f"m{place}" for place, name in enumerate(names)}
        line = msgspec.defstruct("Line", [("scores", scores | None, None)], bases=(self.line,), gc=False)
        decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(line, strict=False)
        self._decode = decoder.decode

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, value: bytes, since_s: float = -inf) -> None:
        """Add an evaluation, unless its event is older than a time.

        Raises:
            ValueError: if it is none.
        """
        line = self._decode(value)
        time_s = line.time.timestamp()
        self.first_s, self.last_s = min(self.first_s, time_s), max(self.last_s, time_s)
        if time_s < since_s or not self.wants(line):
            return
        # All that may raise comes first, so that a line that is none leaves no column longer than another.
        scores = self._values(line)
        suites, undefined = line.decision.suites, line.undefined
        verdicts = [
            verdict_of(each, score, suites, undefined) for each, score in zip(self.criteria, scores, strict=True)
        ]
        judge = line.judge
        group = Group(
            line.application,
            line.dimensions(self._dimensions),
            line.catalogue_version,
            judge and judge.model,
            judge.prompt_version if judge else "",
        )
        source = line.source
        topic = -1 if source is None else self._source_topics.setdefault(source.topic, len(self._source_topics))
        position = (topic, source.partition, source.offset, source.index) if source else (topic, 0, 0, 0)
        row = self.rows.setdefault(str(line.event_id), len(self.rows))
        version = Version(line.stage == "judged", position)
        if row < len(self.times) and not supersedes(self._version(row), version):
            return
        number = self._group_numbers.setdefault(group, len(self.groups))
        if number == len(self.groups):
            self.groups.append(group)
        _put(self.times, row, time_s)
        _put(self.group, row, number)
        _put(self._judged, row, version.judged)
        for column, number in zip(self.sources, position, strict=True):
            _put(column, row, number)
        for place, (verdict, chance) in enumerate(verdicts):
            score = scores[place]
            _put(self.verdicts[place], row, verdict)
            _put(self.values[place], row, nan if score is None else score)
            _put(self.chances[place], row, chance)
            distribution = line.probabilities.get(self.criteria[place].metric, {})
            self.likely[place].pop(row, None)
            if verdict in (BAD, GOOD) and (likely := likely_bad(self.criteria[place], distribution)) is not None:
                self.likely[place][row] = likely
        self.keep(row, line)

    def wants(self, line: Any) -> bool:  # noqa: ARG002 - for subclasses
        """Return whether an evaluation is read, which is a `line`; for subclasses."""
        return True

    def keep(self, row: int, line: Any) -> None:
        """Keep further fields of the evaluation that counts for an event, which is a `line`; for subclasses."""

    def _values(self, line: Any) -> list[float | None]:
        """Return the values of the criteria's metrics."""
        if line.scores is None:
            return [None] * len(self.criteria)
        return [getattr(line.scores, self._fields[each.metric]) for each in self.criteria]

    def _version(self, row: int) -> Version:
        return Version(bool(self._judged[row]), tuple(column[row] for column in self.sources))

    def source(self, row: int) -> Source | None:
        """Return the position at which an event was read; None if its evaluation does not say."""
        topic, partition, offset, index = (column[row] for column in self.sources)
        name = next((name for name, number in self._source_topics.items() if number == topic), None)
        return None if name is None else Source(topic=name, partition=partition, offset=offset, index=index)

    def tally(self, place: int, rows: Rows) -> Tally:
        """Count rows by verdict of a criterion and probability of being judged."""
        verdicts, chances = np.asarray(self.verdicts[place])[rows], np.asarray(self.chances[place])[rows]
        found: dict[tuple[int, float], int] = {}
        for verdict in np.unique(verdicts).tolist():
            own, numbers = np.unique(chances[verdicts == verdict], return_counts=True)
            found |= {(verdict, chance): number for chance, number in zip(own.tolist(), numbers.tolist(), strict=True)}
        return found

    def has_values(self, place: int) -> bool:
        """Return whether an event has a verdict of a criterion."""
        return BAD in self.verdicts[place] or GOOD in self.verdicts[place]

    def judged_by(self, place: int, row: int) -> tuple[str | None, str | None]:
        """Return the model and the version of the suite that gave a verdict; (None, None) for a free metric."""
        return self.judge_of(place, self.group[row])

    def judge_of(self, place: int, number: int) -> tuple[str | None, str | None]:
        """Return the same of the events of a group."""
        suite, own = self.criteria[place].suite, self.groups[number]
        if suite is None or own.model is None:
            return None, None
        versions = dict(each.partition(":")[::2] for each in own.versions.split(" "))
        return own.model, versions.get(suite)


def read_evaluated(
    file: Path,
    criteria: Sequence[Criterion],
    dimensions: Sequence[str],
    on_bytes: Callable[[int], None],
    since_s: float = -inf,
) -> Evaluated:
    """Read a file of evaluations, as `ragweir score --out` writes it, in any format that is read.

    Those of events before `since_s` are left out.

    Raises:
        PermanentError: if it cannot be read, or does not hold evaluations.
    """
    found = Evaluated(criteria, dimensions)
    read_evaluations(file, partial(found.add, since_s=since_s), on_bytes)
    if not found.rows:
        which = "evaluation" if since_s == -inf else "evaluation of an event of that time"
        raise PermanentError(f"{file} holds no {which}; `ragweir score --out` makes them")
    return found


def read_evaluations(file: Path, add: Callable[[bytes], None], on_bytes: Callable[[int], None]) -> None:
    """Read a file of evaluations in any format that is read, each as JSON.

    Args:
        file: the file.
        add: called with each evaluation; it raises ValueError if it is none.
        on_bytes: called with the number of bytes of each read.

    Raises:
        PermanentError: as `read_evaluated`.
    """
    number = 0
    try:
        for number, line in scan_events(file, MAX_BYTES, on_bytes):  # noqa: B007 - for the error
            add(line)
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}") from None
    except (msgspec.MsgspecError, ValueError, OverflowError) as error:
        raise PermanentError(
            f"line {number} of {file} is no evaluation, as `ragweir score --out` writes them: {error}"
        ) from None


def _put(column: array[Any], row: int, value: float) -> None:
    if row == len(column):
        column.append(value)
    else:
        column[row] = value
