"""The dimensions that windows are split by: which labels an evaluation has, and which of them are admitted."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from operator import attrgetter

from schemas.evaluation import Evaluation
from schemas.window import OVERFLOW

Labels = tuple[str, ...]
"""One value per dimension, in the settings' order; empty where the event has none."""

_LONGEST = 120
"""Characters of a label's value that are kept: a hostile one must not fill the state. A longer value ends with a mark
of the whole, so that two that begin alike stay two."""


def label(name: str, evaluation: Evaluation) -> str:
    """An evaluation's value of a dimension, empty where it has none.

    >>> from datetime import UTC, datetime
    >>> label("labels.region", Evaluation(event_id="1", event_time=datetime(2026, 1, 1, tzinfo=UTC),
    ...                                   labels={"region": "eu"}, catalogue_version="1"))
    'eu'
    """
    return _reader(name)(evaluation) or ""


def _mark(value: str) -> str:
    return sha256(value.encode()).hexdigest()[:12]


def _reader(name: str) -> Callable[[Evaluation], str | None]:
    field, _, key = name.partition(".")
    return (lambda evaluation: evaluation.labels.get(key)) if key else attrgetter(field)


class Dimensions:
    """Reads and admits labels.

    Args:
        names: fields of the evaluation, or `labels.NAME`.
        values: per dimension its admitted values; all are admitted where none are listed.
        most: label sets per window.
    """

    def __init__(self, names: Collection[str], values: Mapping[str, Collection[str]], most: int) -> None:
        self.names = tuple(names)
        self._readers = [(_reader(name), values.get(name)) for name in self.names]
        self._most = most
        self.overflow: Labels = (OVERFLOW,) * len(self.names)

    def of(self, evaluation: Evaluation) -> Labels:
        """The labels of an evaluation, with what the allowlist does not name as overflow."""
        return tuple([self._value(read(evaluation) or "", allowed) for read, allowed in self._readers])

    @staticmethod
    def _value(value: str, allowed: Collection[str] | None) -> str:
        if allowed is not None and value and value not in allowed:
            return OVERFLOW
        return value if len(value) <= _LONGEST else f"{value[: _LONGEST - 13]}~{_mark(value)}"

    def admitted(self, labels: Labels, present: Collection[Labels]) -> Labels:
        """The labels themselves, or the overflow when the window already has as many label sets as it may.

        >>> dimensions = Dimensions(["application"], {}, most=1)
        >>> dimensions.admitted(("a",), []), dimensions.admitted(("b",), [("a",)])
        (('a',), ('__overflow__',))
        """
        return labels if labels in present or len(present) < self._most else self.overflow

    def named(self, labels: Labels) -> dict[str, str]:
        """Labels as records have them."""
        return dict(zip(self.names, labels, strict=True))
