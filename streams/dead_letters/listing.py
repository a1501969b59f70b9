"""Dead letters, looked at: what the topic holds, grouped by reason, and bytes from outside shown safely."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pydantic import ValidationError

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.streams.kafka.reader import StoredRecord

_EVALUATE = b"ragweir/evaluate"
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Letter:
    """One dead letter: the record that holds it, and what it says of itself."""

    kept: StoredRecord
    said: DeadLetter
    by: str
    """The service that wrote it."""

    @property
    def redrivable(self) -> bool:
        """True for a record that evaluate refused as a whole, and of which the letter holds the whole value.

        A record with several events is not sent again for one of them, or the others would be evaluated twice.
        """
        said = self.said
        whole = self.kept.value is not None and said.length is None and said.source_index is None
        return self.by == "evaluate" and whole


def letter(kept: StoredRecord) -> Letter | None:
    """A record of the dead-letter topic as a letter; None if something else stands there."""
    try:
        said = DeadLetter.from_headers(kept.headers)
    except (ValidationError, UnicodeDecodeError):
        return None
    source = dict(kept.headers).get("ce_source") or b""
    return Letter(kept, said, source.decode(errors="replace").removeprefix("ragweir/"))


def position(topic: str, partition: int, offset: int, index: int | None) -> str:
    """Where an event was read, for people; its place within the record only where that is above 0.

    >>> position("rag.interactions", 0, 7, None), position("rag.interactions", 0, 7, 2)
    ('rag.interactions/0/7', 'rag.interactions/0/7, index 2')
    """
    return f"{shown(topic)}/{partition}/{offset}" + (f", index {index}" if index else "")


def shown(data: bytes | str | None, most: int = 2_000) -> str:
    r"""Text or bytes from outside, so that a terminal shows them and obeys nothing of them.

    Whatever is not a printable character stands as an escape, a backslash as two. Beyond `most` characters it is cut.

    >>> shown(b'{"a": "\x1b[2J\xff"}'), shown("a\u202eb\\"), shown(b"abcdef", 3), shown(None)
    ('{"a": "\\x1b[2J\\xff"}', 'a\\u202eb\\\\', 'abc… (3 more)', '(none)')
    """
    if data is None:
        return "(none)"
    head, more = data[:most], len(data) - most
    text = head if isinstance(head, str) else head.decode("utf-8", "surrogateescape")
    safe = "".join(map(_safe, text))
    return f"{safe}… ({more:,} more)" if more > 0 else safe


def _safe(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # A byte that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable() and character != "\\":
        return character
    return character.encode("unicode_escape", "surrogatepass").decode()


@dataclass(slots=True)
class LetterGroup:
    """The letters of one service and error class whose messages differ in numbers at most."""

    by: str
    error_class: str
    message: str
    """Of the first of them."""
    letters: int = 0
    waiting: int = 0
    """How many of them a redrive may still send."""
    first_ms: int | None = None
    last_ms: int | None = None
    topics: Counter[str] = field(default_factory=Counter)
    """Where the refused records were read."""


def grouped(letters: Iterable[Letter], waits: Callable[[Letter], bool]) -> list[LetterGroup]:
    """All letters in groups, the largest first."""
    groups: dict[tuple[str, str, str], LetterGroup] = {}
    for each in letters:
        said, stamp = each.said, each.kept.timestamp_ms
        key = each.by, said.error_class, _NUMBER.sub("0", said.message)
        group = groups.setdefault(key, LetterGroup(each.by, said.error_class, said.message))
        group.letters += 1
        group.waiting += waits(each)
        group.topics[said.source_topic] += 1
        if stamp is not None:
            group.first_ms = stamp if group.first_ms is None else min(group.first_ms, stamp)
            group.last_ms = stamp if group.last_ms is None else max(group.last_ms, stamp)
    return sorted(groups.values(), key=lambda group: -group.letters)
