"""Listing of dead letters: reading them, grouping them by reason, and printing bytes from outside safely."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pydantic import ValidationError

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.escapes import escaped

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of the dead-letter topic with its parsed headers."""

    record: Record
    details: DeadLetter
    service: str
    """Name of the service that wrote it."""

    @property
    def redrivable(self) -> bool:
        """True if evaluate rejected the whole record and the letter holds its whole value.

        A record with several events is not sent again for one of them, or the others would be evaluated twice.
        """
        whole = self.record.value is not None and self.details.length is None and self.details.source_index is None
        return self.service == "evaluate" and whole


def read_letter(record: Record) -> Letter | None:
    """Return a record of the dead-letter topic as a letter; None if its headers are not those of one."""
    try:
        details = DeadLetter.from_headers(record.headers)
    except (ValidationError, UnicodeDecodeError):
        return None
    source = dict(record.headers).get("ce_source") or b""
    return Letter(record, details, source.decode(errors="replace").removeprefix("ragweir/"))


def position(topic: str, partition: int, offset: int, index: int | None) -> str:
    """Return the position of an event as text; its index within the record is included if it is above 0.

    >>> position("rag.interactions", 0, 7, None), position("rag.interactions", 0, 7, 2)
    ('rag.interactions/0/7', 'rag.interactions/0/7, index 2')
    """
    return f"{shown(topic)}/{partition}/{offset}" + (f", index {index}" if index else "")


def shown(data: bytes | str | None, most: int = 2_000) -> str:
    r"""Return text or bytes from outside so that a terminal prints them and interprets nothing.

    Characters that are not printable, and backslashes, are escaped. Text beyond `most` characters is cut.

    >>> shown(b'{"a": "\x1b[2J\xff"}'), shown("a\u202eb\\"), shown(b"abcdef", 3), shown(None)
    ('{"a": "\\x1b[2J\\xff"}', 'a\\u202eb\\\\', 'abc… (3 more)', '(none)')
    """
    if data is None:
        return "(none)"
    head, more = data[:most], len(data) - most
    text = head if isinstance(head, str) else head.decode("utf-8", "surrogateescape")
    safe = escaped(text, exactly=True)
    return f"{safe}… ({more:,} more)" if more > 0 else safe


@dataclass(slots=True)
class LetterGroup:
    """Letters of one service and error class whose messages differ in numbers at most."""

    service: str
    error_class: str
    message: str
    """Message of the first letter."""
    letters: int = 0
    pending: int = 0
    """Number of letters that a redrive may still send."""
    first_ms: int | None = None
    last_ms: int | None = None
    topics: Counter[str] = field(default_factory=Counter)
    """Number of letters by source topic."""


def group_letters(letters: Iterable[Letter], is_pending: Callable[[Letter], bool]) -> list[LetterGroup]:
    """Return letters in groups, the largest group first."""
    groups: dict[tuple[str, str, str], LetterGroup] = {}
    for letter in letters:
        details, timestamp_ms = letter.details, letter.record.timestamp_ms
        key = letter.service, details.error_class, _NUMBER.sub("0", details.message)
        group = groups.setdefault(key, LetterGroup(letter.service, details.error_class, details.message))
        group.letters += 1
        group.pending += is_pending(letter)
        group.topics[details.source_topic] += 1
        if timestamp_ms is not None:
            group.first_ms = timestamp_ms if group.first_ms is None else min(group.first_ms, timestamp_ms)
            group.last_ms = timestamp_ms if group.last_ms is None else max(group.last_ms, timestamp_ms)
    return sorted(groups.values(), key=lambda group: -group.letters)
