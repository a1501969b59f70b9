"""The evaluations of one file as columns: numbers on disk, and texts as the numbers of their distinct values.

A file is read once, by blocks of lines. The scores of a block are written to disk by metric, so that memory grows with
the lines by some tens of bytes, not with the metrics; `bench/compare.py` measures it.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson

from ragweir.errors import PermanentError
from ragweir.metrics.aggregation.clusters import Floats, Ints
from ragweir.schemas.evaluation import Version
from ragweir.streams.analysis.compare import parquet_columns
from ragweir.streams.analysis.compare.moments import NO_TIME
from ragweir.streams.files.events import scan_events
from ragweir.streams.files.parquet import is_parquet
from ragweir.streams.runtime.processes.child_python import python_command

MAX_METRICS = 2_000
"""Limit for the metrics, and for the categories, of a file."""
_MAX_BYTES = 16 * 1024 * 1024
"""Size of the largest evaluation."""
_LINES = 512
"""Lines of a block."""
_DIGEST_BYTES = 16
_KEY_BYTES = 8
_NO_KEY = bytes(_KEY_BYTES)
_VERSION = "catalogue_version"
CLUSTERS = ("session_id", "question_id")
"""The fields of which equal values make events depend on each other."""
_KEYS = (*CLUSTERS, "source")
"""The fields of which digests are kept."""

OnBytes = Callable[[int], None]
_Block = tuple[tuple[str, ...], list[Any], list[Any]]
"""The metrics of a block, their values of each line in the same order, and its lines."""


class _Line(msgspec.Struct, gc=False):
    """The fields of an evaluation that are compared."""

    event_id: str | int | None = None
    catalogue_version: str | None = None
    categories: dict[str, str | None] | None = None
    session_id: Any = None
    question_id: Any = None
    stage: Any = None
    source: Any = None
    event_time: Any = None


@dataclass(slots=True)
class _TextColumn:
    """A column of texts."""

    numbers: dict[str, int] = field(default_factory=dict)
    """The number of each distinct value."""
    column: array[int] = field(default_factory=lambda: array("i"))
    """The number of each line's value; -1 for none."""

    def fill(self, lines: int) -> None:
        """Add lines without a value, up to a number of lines."""
        self.column.extend([-1] * (lines - len(self.column)))

    def add(self, values: Sequence[str | None]) -> None:
        """Add the values of further lines."""
        numbers = self.numbers
        self.column.extend([-1 if each is None else numbers.setdefault(each, len(numbers)) for each in values])


@dataclass(slots=True)
class Columns:
    """The columns of one file. All rows are lines of the file, without blank ones, from 0."""

    folder: Path
    lines: int = 0
    nameless: int = 0
    """Lines without an event id."""
    blocks: list[tuple[int, int, dict[str, int]]] = field(default_factory=list)
    """First line and number of lines of each block of scores, and the place of each metric's column in bytes."""
    texts: dict[str, _TextColumn] = field(default_factory=dict)
    """The version, the dimensions as `by.NAME`, and the categories as `categories.NAME`."""
    lengths: array[int] = field(default_factory=lambda: array("i"))
    """Length of each event id in bytes."""

    @property
    def metrics(self) -> set[str]:
        """The names of the metrics."""
        return {name for _, _, places in self.blocks for name in places}

    @property
    def categories(self) -> set[str]:
        """The names of the categories."""
        return {name.partition(".")[2] for name in self.texts if name.startswith("categories.")}

    def scores(self, metric: str) -> Floats:
        """Return a metric of all lines; NaN for none."""
        found = np.full(self.lines, np.nan)
        with (self.folder / "scores").open("rb") as file:
            for first, count, places in self.blocks:
                if metric in places:
                    file.seek(places[metric])
                    found[first : first + count] = np.fromfile(file, np.float64, count)
        return found

    def column(self, name: str) -> tuple[list[str], Ints]:
        """Return the distinct values of a column of texts, and the numbers of all lines' values; -1 for none."""
        own = self.texts.get(name, _TextColumn())
        own.fill(self.lines)
        return list(own.numbers), np.array(own.column, dtype=np.int64)

    @property
    def digests(self) -> Ints:
        """Digests of the event ids, as two numbers each."""
        return np.fromfile(self.folder / "digests", np.int64).reshape(-1, 2)

    def keys(self, name: str) -> Ints:
        """Return a field of `CLUSTERS` of all lines, as digests; 0 for none."""
        return np.fromfile(self.folder / name, np.int64)

    @property
    def times_ms(self) -> Ints:
        """Event times of all lines, in epoch milliseconds; `NO_TIME` for none."""
        return np.fromfile(self.folder / "times", np.int64)

    def versions(self, rows: Ints) -> list[Version]:
        """Return what decides which of several lines of one event counts, for some lines."""
        judged = np.fromfile(self.folder / "judged", np.bool_)[rows]
        sources = self.keys("source")[rows]
        return [Version(*each) for each in zip(judged.tolist(), sources.tolist(), strict=True)]

    def event_ids(self, rows: Sequence[int]) -> list[bytes]:
        """Return the event ids of some lines."""
        ends = np.cumsum(np.array(self.lengths, dtype=np.int64))
        found = []
        with (self.folder / "ids").open("rb") as file:
            for end, length in zip(ends[list(rows)].tolist(), (self.lengths[row] for row in rows), strict=True):
                file.seek(end - length)
                found.append(file.read(length))
        return found

    def every_event_id(self) -> Iterator[bytes]:
        """Yield the event ids of all lines."""
        content = (self.folder / "ids").read_bytes()
        for end, length in zip(accumulate(self.lengths), self.lengths, strict=True):
            yield content[end - length : end]


def read_columns(file: Path, name: str, by: Sequence[str], folder: Path, on_bytes: OnBytes = lambda _: None) -> Columns:
    """Read a file of evaluations in any format that is read.

    Args:
        file: the file.
        name: its display name.
        by: dimensions to read: fields of the evaluation, or `labels.NAME`.
        folder: existing directory, which the columns use as long as they exist.
        on_bytes: called with the number of bytes of each read of the file.

    Raises:
        PermanentError: if the file does not hold evaluations.
    """
    columns = Columns(folder)
    with (
        (folder / "scores").open("wb") as scores,
        (folder / "ids").open("wb") as ids,
        (folder / "digests").open("wb") as digests,
        (folder / "judged").open("wb") as judged,
        (folder / "times").open("wb") as times,
        ExitStack() as stack,
    ):
        keys = [(name, stack.enter_context((folder / name).open("wb"))) for name in _KEYS]
        own_scores = parquet_columns.score_columns(file, name) if is_parquet(file) else {}
        for names, rows, read in _blocks(file, name, by, on_bytes, has_rows=not own_scores):
            own = [b"" if each.event_id is None else str(each.event_id).encode() for each in read]
            columns.nameless += own.count(b"")
            columns.lengths.extend(map(len, own))
            ids.write(b"".join(own))
            digests.write(b"".join([blake2b(each, digest_size=_DIGEST_BYTES).digest() for each in own]))
            at, size = scores.tell(), 8 * len(read)
            columns.blocks.append((columns.lines, len(read), {n: at + size * place for place, n in enumerate(names)}))
            values = np.array([*chain.from_iterable(rows)], dtype=np.float64).reshape(len(read), len(names))
            scores.write(np.ascontiguousarray(values.T).tobytes())
            times.write(np.array([_time_ms(each.event_time) for each in read], dtype=np.int64).tobytes())
            judged.write(bytes([each.stage == "judged" for each in read]))
            for field_name, out in keys:
                out.write(b"".join([_key(getattr(each, field_name)) for each in read]))
            _add_texts(columns, read, by)
            columns.lines += len(read)
            if len(columns.texts) > MAX_METRICS:
                raise PermanentError(f"the categories of {name} are over {MAX_METRICS}")
        for metric, whole in parquet_columns.scores(file, name, own_scores, columns.lines):
            columns.blocks.append((0, columns.lines, {metric: scores.tell()}))
            scores.write(whole.tobytes())
    return columns


def _blocks(file: Path, name: str, by: Sequence[str], on_bytes: OnBytes, *, has_rows: bool) -> Iterator[_Block]:
    """Yield the blocks of a file; without scores if these are columns of their own."""
    decoder = _Decoder(by, name)
    if has_rows:
        yield from decoder.blocks(scan_events(file, _MAX_BYTES, on_bytes))
        return
    for block in parquet_columns.lines(file, name, decoder.fields, decoder.line, on_bytes):
        yield (), [()] * len(block), block


class _Decoder:
    """Decodes lines into blocks of the same metrics.

    The metrics that were met are the fields of a type, which is decoded in half of the time of a mapping. A line with
    another metric ends the block.
    """

    def __init__(self, by: Sequence[str], name: str) -> None:
        fields = {each.partition(".")[0]: Any for each in by if each not in _Line.__struct_fields__}
        self._own = [(f"by_{field}", kind, msgspec.field(default=None, name=field)) for field, kind in fields.items()]
        self.fields = (*_Line.__struct_fields__, *fields)
        """The fields of a line, apart from its scores."""
        self._line = msgspec.defstruct("Line", self._own, bases=(_Line,), gc=False)
        self._name = name
        self._names: tuple[str, ...] = ()
        self._any = self._decode = self._decoder(dict[str, float | bool | None])
        self._is_typed = False

    def _decoder(self, scores: Any) -> Callable[[bytes], Any]:
        made = msgspec.defstruct("Line", [("scores", scores | None, None), *self._own], bases=(_Line,), gc=False)
        return msgspec.json.Decoder(made).decode

    def line(self, **values: Any) -> Any:
        """Return a line with these fields, without scores."""
        own = {name if name in _Line.__struct_fields__ else f"by_{name}": value for name, value in values.items()}
        return self._line(**own)

    def blocks(self, lines: Iterable[tuple[int, bytes]]) -> Iterator[_Block]:
        """Yield for each block its metrics, their values of each line in the same order, and its lines.

        Raises:
            PermanentError: if a line is no evaluation.
        """
        block: list[Any] = []
        for number, value in lines:
            try:
                line = self._decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                line = None
            if line is None or not self._is_typed:
                if (names := self._with_new(number, value)) != self._names:
                    if block:
                        yield self._names, self._rows(block), block
                    block = []
                    self._learn(names)
                line = self._decode(value)
            block.append(line)
            if len(block) == _LINES:
                yield self._names, self._rows(block), block
                block = []
        if block:
            yield self._names, self._rows(block), block

    def _with_new(self, number: int, value: bytes) -> tuple[str, ...]:
        """Return the metrics with those of a line."""
        try:
            found = self._any(value).scores or {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise PermanentError(
                f"{self._name} cannot be read as evaluations in JSON lines: something else is near line {number}"
            ) from None
        return tuple(dict.fromkeys((*self._names, *found)))

    def _learn(self, names: tuple[str, ...]) -> None:
        if len(names) > MAX_METRICS:
            raise PermanentError(f"the metrics of {self._name} are over {MAX_METRICS}")
        self._names = names
        kinds = [
            (f"m{place}", float | bool | None, msgspec.field(default=None, name=name))
            for place, name in enumerate(names)
        ]
        try:
            typed = msgspec.defstruct("Scores", kinds, forbid_unknown_fields=True, gc=False)
            self._decode, self._is_typed = self._decoder(typed), True
        except ValueError:  # The name of a field has no quotes, backslashes or control characters.
            self._decode, self._is_typed = self._any, False

    def _rows(self, block: Sequence[Any]) -> list[Any]:
        none = (None,) * len(self._names)
        if self._is_typed:
            return [none if each.scores is None else msgspec.structs.astuple(each.scores) for each in block]
        return [[(each.scores or {}).get(name) for name in self._names] for each in block]


def _add_texts(columns: Columns, read: Sequence[Any], by: Sequence[str]) -> None:
    """Add a block's texts."""

    def add(name: str, values: Sequence[str | None]) -> None:
        column = columns.texts.setdefault(name, _TextColumn())
        column.fill(columns.lines)
        column.add(values)

    add(_VERSION, [each.catalogue_version for each in read])
    for name in by:
        field_name, _, key = name.partition(".")
        own = field_name if field_name in _Line.__struct_fields__ else f"by_{field_name}"
        values = [getattr(each, own) for each in read]
        if key:
            values = [each.get(key) if isinstance(each, Mapping) else None for each in values]
        add(f"by.{name}", values if all(type(each) is str for each in values) else [_text(each) for each in values])
    categories = [each.categories or {} for each in read]
    for category in dict.fromkeys(key for each in categories for key in each):
        add(f"categories.{category}", [each.get(category) for each in categories])


def _key(value: object) -> bytes:
    """Return the digest of a field of `_KEYS`."""
    return blake2b(str(value).encode(), digest_size=_KEY_BYTES).digest() if value not in (None, "") else _NO_KEY


def _time_ms(value: object) -> int:
    """Return an event time in epoch milliseconds; `NO_TIME` if it is none."""
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return NO_TIME
    if not isinstance(time, datetime):
        return NO_TIME
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else orjson.dumps(value).decode()


@contextmanager
def in_other_process(file: Path, name: str, by: Sequence[str], folder: Path) -> Iterator[Callable[[], Columns]]:
    """Read a file in another process for the length of a `with` block, which gets a function that waits for columns.

    The function raises PermanentError as `read_columns` does, or if the process ends early.
    """
    # Neither a fork, which may copy a held lock, nor multiprocessing, which imports the caller's main module again.
    command = python_command("-c", f"from {__name__} import serve; serve()")
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=null) as process:

        def columns() -> Columns:
            answer, _ = process.communicate()
            if not answer:
                raise PermanentError(f"reading {name} ended with exit status {process.returncode}")
            found: Columns | PermanentError = pickle.loads(answer)  # noqa: S301 - of the process that was started here
            if isinstance(found, PermanentError):
                raise found
            return found

        try:
            if process.stdin is not None:
                process.stdin.write(pickle.dumps((file, name, tuple(by), folder)))
                process.stdin.flush()
            yield columns
        finally:
            process.kill()


def serve() -> None:
    """Read one file, whose arguments are on standard input, and write its columns, or the error, to standard output."""
    file, name, by, folder = pickle.load(sys.stdin.buffer)  # noqa: S301 - of the process that started this one
    found: Columns | PermanentError
    try:
        found = read_columns(file, name, by, folder)
    except PermanentError as error:
        found = PermanentError(str(error))
    sys.stdout.buffer.write(pickle.dumps(found))
    sys.stdout.flush()
