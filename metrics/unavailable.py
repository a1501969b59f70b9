"""Null for metrics that read a part of the event that is not there: a list that was cut, or content not captured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, cast

from ragweir.schemas.codec.intake import CUT
from ragweir.schemas.interaction import Interaction

LIST_CUT = "list_cut"
"""The reason of a null for a list of which the event has only the first elements, since it was cut on reading."""
CONTENT_ABSENT = "content_absent"
"""The reason of a null for a text that is null: its application or its tracing did not capture content."""
CONTENTS = ("query", "response", "contexts")
"""The fields whose content can be absent."""

_TEXTS = "contexts.text"
_ABSENT = f"{CONTENT_ABSENT}:"

T = TypeVar("T")
Reasons = Mapping[str, str]
"""The reasons by the paths of fields."""


class Unavailable(Exception):
    """A field has been read whose value is not there. The message is the reason."""


def cut_fields(flags: Iterable[str]) -> frozenset[str]:
    """Return the names of the lists that were cut, from the flags of their event.

    >>> sorted(cut_fields(("cut:expected", "cut:retrieval.relevant_ids", "time_implausible")))
    ['expected', 'retrieval.relevant_ids']
    """
    return frozenset(flag.removeprefix(CUT) for flag in flags if flag.startswith(CUT))


def absent_contents(event: Interaction) -> tuple[str, ...]:
    """Return the fields whose content was not captured. That of the contexts is absent if one has no text.

    >>> absent_contents(Interaction(event_id="1", query=None, response="", contexts=[{"text": "a"}, {"chunk_id": "b"}]))
    ('query', 'contexts')
    """
    contexts = event.contexts
    without_text = contexts is not None and None in [context.text for context in contexts]
    if event.query is not None and event.response is not None and not without_text:
        return ()
    absent = (event.query is None, event.response is None, without_text)
    return tuple(name for name, is_absent in zip(CONTENTS, absent, strict=True) if is_absent)


def absence_flags(absent: Iterable[str]) -> list[str]:
    """Return the flags of an evaluation for fields whose content is absent.

    >>> absence_flags(["query"])
    ['content_absent:query']
    """
    return [_ABSENT + name for name in absent]


def flagged_absent(flags: Iterable[str]) -> frozenset[str]:
    """Return the fields whose content is absent, from the flags of their evaluation.

    >>> flagged_absent(["content_absent:query", "cut:contexts"])
    frozenset({'query'})
    """
    return frozenset(flag.removeprefix(_ABSENT) for flag in flags if flag.startswith(_ABSENT))


def unavailable_fields(event: Interaction, absent: Iterable[str]) -> Reasons:
    """Return the reasons by the fields of an event that metrics cannot read, with those whose content is absent.

    >>> event = Interaction(event_id="1", query="", response=None).with_flags(["cut:spans"])
    >>> unavailable_fields(event, absent_contents(event))
    {'spans': 'list_cut', 'response': 'content_absent'}
    """
    reasons = dict.fromkeys(cut_fields(event.flags), LIST_CUT) if event.flags else {}
    for name in absent:
        reasons[_TEXTS if name == "contexts" else name] = CONTENT_ABSENT
    return reasons


def guard_fields(part: T, reasons: Reasons) -> T:
    """Return a view of a record that raises `Unavailable` when one of these fields is read.

    Guarding the access also covers metrics of users, and a metric that does not get to the field keeps its value.

    >>> event = guard_fields(Interaction(event_id="1", query="", response="", contexts=()), {"spans": LIST_CUT})
    >>> event.contexts
    ()
    >>> event.spans
    Traceback (most recent call last):
        ...
    ragweir.metrics.unavailable.Unavailable: list_cut
    """
    return cast("T", _Guarded(part, reasons)) if reasons else part


class _Guarded:
    def __init__(self, part: object, reasons: Reasons) -> None:
        self._part, self._reasons = part, reasons

    def __getattr__(self, name: str) -> Any:
        if name in self._reasons:
            raise Unavailable(self._reasons[name])
        value = getattr(self._part, name)
        prefix = f"{name}."
        inner = {path.removeprefix(prefix): why for path, why in self._reasons.items() if path.startswith(prefix)}
        if value is None or not inner:
            return value
        if isinstance(value, tuple):
            return tuple(_Guarded(each, inner) for each in value)
        return _Guarded(value, inner)
