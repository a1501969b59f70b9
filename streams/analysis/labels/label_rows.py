"""Rows of labels: our own, the short form of an event and a value, and those of other tools read through a map."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from math import isfinite
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError

from ragweir.errors import Rejected
from ragweir.schemas.codec.mapping.label_map import TARGETS, LabelMap
from ragweir.schemas.label import Draw, Label
from ragweir.schemas.times import parse_time
from ragweir.streams.analysis.labels.bad_rows import BadRows
from ragweir.streams.analysis.labels.flat import nested
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import LabelSettings

LONGEST_COMMENT = 2_000
"""Characters of a comment that are kept."""
_LONGEST_ID = 200
_REQUIRED = frozenset({"event_id", "question", "value", "rater", "kind", "blind", "time"})
_DRAW = frozenset({"id", "question", "metric", "threshold", "made_at"})
_HASH = re.compile("[0-9a-f]{16}")


class LabelRow(NamedTuple):
    """A label of a row, before its event is looked up."""

    label: Label
    """The label, of the first id that the row names."""
    ids: Mapping[str, str]
    """The ids of the row by the fields of `TARGETS`."""
    has_time: bool
    """False if the row has no time, so that the label has the present one."""


class _FaultyRow(Exception):
    def __init__(self, kind: str, example: object) -> None:
        super().__init__(kind)
        self.kind, self.example = kind, example


@dataclass(slots=True)
class LabelReader:
    """Reads rows of labels.

    Args:
        settings: the questions, the key of raters, and whether comments are kept.
        mapping: the map of another tool's rows; None for our own ones and the short form.
        question: name of the question of rows that name none.
        tool: name of the tool, which stands for the rater of rows that name none.
        now: the time of rows that have none.
        bad: counts the rows that are no label.
    """

    settings: LabelSettings
    mapping: LabelMap | None
    question: str
    tool: str
    now: datetime
    bad: BadRows
    skipped: int = 0
    """Number of rows that the map's `where` does not select."""
    cut: int = 0
    """Number of comments that were cut."""

    def read(self, number: int, line: bytes) -> Iterator[LabelRow | Draw]:
        """Yield the labels of a row; those that are none are counted.

        Args:
            number: the number of the row.
            line: the row as JSON.
        """
        try:
            content = orjson.loads(line)
            found = [content] if self.mapping is None else self.mapping(content, number)
        except (orjson.JSONDecodeError, Rejected) as error:
            self.bad.add("row", f"row {number}: {'not JSON' if isinstance(error, ValueError) else error}")
            return
        if found is None:
            self.skipped += 1
            return
        for each in found:
            try:
                yield self._record(each, number)
            except _FaultyRow as fault:
                self.bad.add(fault.kind, fault.example)

    def _record(self, content: object, number: int) -> LabelRow | Draw:
        if not isinstance(content, dict):
            raise _FaultyRow("row", f"row {number}: no object")
        try:
            if self.mapping is None and "event_id" not in content and content.keys() >= _DRAW:
                return Draw.model_validate(content)
            return self._label(content, number)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            name = ".".join(map(str, first["loc"]))
            raise _FaultyRow("row", f"row {number}: {name}: {first['msg']}") from None

    def _label(self, content: dict[str, Any], number: int) -> LabelRow:
        ids = {name: own for name in TARGETS if (own := _id(content.get(name))) is not None}
        if not ids:
            raise _FaultyRow("id", f"row {number}")
        fields = {
            "event_id": next(iter(ids.values())),
            **self._answer(content),
            "rater": self._rater(content.get("rater"), number),
            "time": _time(content.get("time"), self.now),
            "seconds": _seconds(content.get("seconds")),
            "comment": self._comment(content.get("comment")),
        }
        if self.mapping is None and content.keys() >= _REQUIRED:
            label = Label.model_validate(nested(content) | fields)
        else:
            label = Label(**fields, kind="import", blind=False)
        return LabelRow(label, ids, not _is_blank(content.get("time")))

    def _answer(self, content: Mapping[str, Any]) -> dict[str, Any]:
        given = content.get("question")
        name = self.question if _is_blank(given) else given
        question = next((each for each in self.settings.questions if each.name == name), None)
        if question is None:
            raise _FaultyRow("question", _shown(name))
        given = content.get("value")
        value = question.read(given) if _is_plain(given) else None
        if value is None:
            raise _FaultyRow("value", "no value" if _is_blank(given) else _shown(given))
        return {"question": question.name, "value": value}

    def _rater(self, name: object, number: int) -> str:
        if _is_blank(name):
            name = self.tool
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise _FaultyRow("rater", f"row {number}")
        text = str(name)
        return text if self.mapping is None and _HASH.fullmatch(text) else hashed_rater(text, self.settings.key)

    def _comment(self, comment: object) -> str | None:
        if not self.settings.comments or _is_blank(comment) or not isinstance(comment, str):
            return None
        self.cut += len(comment) > LONGEST_COMMENT
        return comment[:LONGEST_COMMENT]


def _is_blank(value: object) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _is_plain(value: object) -> bool:
    return isinstance(value, str | bool | int | float)


def _shown(value: object) -> object:
    """Return a value as an example; a nested one, which may be of any depth, is not shown."""
    return value if _is_plain(value) else "a list or an object"


def _id(value: object) -> str | None:
    """Return an id as text; None if there is none."""
    if _is_blank(value) or isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    if len(text) > _LONGEST_ID:
        raise _FaultyRow("long_id", text[:20] + "...")
    return text


def _time(value: object, now: datetime) -> datetime:
    if _is_blank(value):
        return now
    try:
        return parse_time(value)
    except ValueError:
        raise _FaultyRow("time", _shown(value)) from None


def _seconds(value: object) -> float | None:
    if _is_blank(value):
        return None
    try:
        seconds = float(value) if isinstance(value, str | int | float) else -1.0
    except ValueError:
        seconds = -1.0
    if not isfinite(seconds) or seconds < 0:
        raise _FaultyRow("seconds", _shown(value))
    return seconds
