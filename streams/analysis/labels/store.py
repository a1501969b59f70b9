"""Files of labels and queues of answers, as JSON lines.

A label is on disk, and was read there, before `LabelFile.add` returns.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from pydantic import ValidationError

from ragweir.errors import PermanentError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.label import WITHDRAWN, Draw, Label, QueuedAnswer
from ragweir.streams.analysis.labels.evaluated import MAX_BYTES
from ragweir.streams.files.events import scan_events
from ragweir.streams.runtime.processes.exclusive import lock

_OWN = 0o600
_BEGINS = b'{"event_id":', b'{"id":'
"""Begins of the lines of labels and draws."""
Key = tuple[str, str, str]
"""Event id, question and rater, of which one label counts."""


@dataclass(slots=True)
class PeopleLabels:
    """Labels, of which the last one of a key counts, and the draws that they come from."""

    draws: dict[str, Draw] = field(default_factory=dict)
    labels: dict[Key, Label] = field(default_factory=dict)
    """The last label of each key, withdrawn ones too, in the order of these."""

    def add(self, label: Label) -> None:
        """Add a label, which replaces an earlier one of its key."""
        key = label.event_id, label.question, label.rater
        self.labels.pop(key, None)
        self.labels[key] = label

    def current(self) -> Iterator[Label]:
        """Yield the labels that hold."""
        return (label for label in self.labels.values() if label.value != WITHDRAWN)


def read_labels(file: Path, on_bytes: Callable[[int], None] = lambda _: None) -> PeopleLabels:
    """Read a file of labels, as `ragweir labels rate` and `ragweir labels import` write it.

    Raises:
        PermanentError: if it cannot be read, or holds something else.
    """
    found = PeopleLabels()
    for number, line in _lines(file, on_bytes):
        _take(found, line, file, number)
    return found


def _take(found: PeopleLabels, line: bytes, file: Path, number: int) -> None:
    """Add a line of a file of labels to those before it."""
    content = _object(line, file, number)
    try:
        if "event_id" in content:
            found.add(Label.model_validate(content))
        else:
            made = Draw.model_validate(content)
            found.draws[made.id] = made
    except ValidationError as error:
        raise _wrong(file, number, "label", error) from None


def read_queue(file: Path) -> tuple[Draw, list[QueuedAnswer]]:
    """Read a queue, as `ragweir labels draw` writes it: the draw, and its answers.

    Raises:
        PermanentError: if it cannot be read, or is no queue.
    """
    lines = iter(_lines(file, lambda _: None))
    number, line = next(lines, (1, b"{}"))
    try:
        made = Draw.model_validate(_object(line, file, number))
    except ValidationError:
        raise PermanentError(
            f"{file} is no queue: its first line is no draw, as `ragweir labels draw` writes it"
        ) from None
    answers = []
    for number, line in lines:
        try:
            answers.append(QueuedAnswer.model_validate(_object(line, file, number)))
        except ValidationError as error:
            raise _wrong(file, number, "answer of a draw", error) from None
    return made, answers


def written(records: Iterable[Draw | Label | QueuedAnswer]) -> bytes:
    """Return records as JSON lines."""
    return b"".join(encode(each) + b"\n" for each in records)


class LabelFile:
    """A file to which labels are added, by one process at a time. A new file is readable by its owner alone.

    A last line without an end, which a killed process leaves, is removed; so is a new file to which nothing was added.

    Raises:
        PermanentError: if the file cannot be written, holds something else, or another process has it open.
    """

    def __init__(self, file: Path) -> None:
        self._file, self._is_new = file, not file.exists()
        try:
            self._descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, _OWN)
        except OSError as error:
            raise PermanentError(f"{file} cannot be written: {error.strerror}") from None
        try:
            self._lock()
            self.content = PeopleLabels()
            """The labels of the file, with those that were added."""
            self.removed = self._read()
        except BaseException:
            os.close(self._descriptor)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_new and not os.fstat(self._descriptor).st_size:
            self._file.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _lock(self) -> None:
        if not lock(self._descriptor):
            raise PermanentError(f"{self._file} is in use: another process adds labels to it")

    def _read(self) -> int:
        """Read the labels, and then remove a last line that was not written to its end; returns its size in bytes.

        A file that holds something else is left as it is.
        """
        end = 0
        with self._file.open("rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, MAX_BYTES), b""), 1):
                if not line.endswith(b"\n") and self._is_torn(line, number):
                    os.truncate(self._descriptor, end)
                    return len(line)
                if not line.isspace():
                    _take(self.content, line, self._file, number)
                end += len(line)
                if not line.endswith(b"\n"):  # As an editor may leave it.
                    os.write(self._descriptor, b"\n")
        return 0

    def _is_torn(self, line: bytes, number: int) -> bool:
        try:
            orjson.loads(line)
        except orjson.JSONDecodeError:
            is_ours = number > 1 or any(begin.startswith(line[: len(begin)]) for begin in _BEGINS)
            if not is_ours or len(line) == MAX_BYTES:
                raise PermanentError(f"{self._file} holds something else than labels") from None
            return True
        return False

    def add_draw(self, draw: Draw) -> None:
        """Add a draw, unless the file has it.

        Raises:
            PermanentError: if it cannot be written.
        """
        if draw.id not in self.content.draws:
            self._write(draw)
            self.content.draws[draw.id] = draw

    def add(self, *labels: Label) -> None:
        """Add labels, each of which replaces an earlier one of its key.

        Raises:
            PermanentError: if it cannot be written.
        """
        self._write(*labels)
        for label in labels:
            self.content.add(label)

    def _write(self, *records: Draw | Label) -> None:
        lines = written(records)
        left = memoryview(lines)
        try:
            place = os.fstat(self._descriptor).st_size
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
            is_there = os.pread(self._descriptor, len(lines), place) == lines
        except OSError as error:
            raise PermanentError(f"{self._file} cannot be written: {error.strerror}") from None
        if not is_there:
            raise PermanentError(f"{self._file} does not hold what was written to it; check its disk, and label again")


def _lines(file: Path, on_bytes: Callable[[int], None]) -> Iterator[tuple[int, bytes]]:
    try:
        yield from scan_events(file, MAX_BYTES, on_bytes)
    except OSError as error:
        raise PermanentError(f"{file} cannot be read: {error.strerror}") from None


def _object(line: bytes, file: Path, number: int) -> dict[str, Any]:
    try:
        content = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise PermanentError(f"line {number} of {file} is not JSON: {error}") from None
    if not isinstance(content, dict):
        raise PermanentError(f"line {number} of {file} is no JSON object")
    return content


def _wrong(file: Path, number: int, what: str, error: ValidationError) -> PermanentError:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    name = ".".join(map(str, first["loc"])) or "it"
    return PermanentError(f"line {number} of {file} is no {what}: {name}: {first['msg']}")
