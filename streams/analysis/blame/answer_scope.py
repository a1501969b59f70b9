"""Which answers count when causes are asked: those of a time, and with some values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ragweir.errors import ConfigurationError
from ragweir.streams.analysis.labels.evaluated import EvaluationLine
from ragweir.streams.settings import Settings


@dataclass(frozen=True, slots=True)
class BlameScope:
    """The answers that count; all of them by default."""

    where: Mapping[str, str] = field(default_factory=dict)
    """Values of dimensions that an answer must have, as those of an SLO."""
    start: datetime | None = None
    """Time of the first answer; None for the oldest."""
    end: datetime | None = None
    """Time after the last answer; None for the newest."""

    def __post_init__(self) -> None:
        """Check the times.

        Raises:
            ConfigurationError: if the end is not after the start.
        """
        if self.start and self.end and self.start >= self.end:
            raise ConfigurationError(f"the range from {_said(self.start)} to {_said(self.end)} is empty")

    def includes(self, line: EvaluationLine) -> bool:
        """Return whether an evaluation counts."""
        time = line.time
        if (self.start is not None and time < self.start) or (self.end is not None and time >= self.end):
            return False
        return all(line.dimension(name) == value for name, value in self.where.items())

    @property
    def title(self) -> str:
        """The bounds and values in words; empty if all answers count.

        >>> BlameScope({"tenant": "acme"}, datetime(2026, 11, 21, tzinfo=UTC)).title
        'from 2026-11-21T00:00:00Z with tenant acme'
        """
        bounds = (f"from {_said(self.start)}" if self.start else "", f"to {_said(self.end)}" if self.end else "")
        values = (f"with {name} {value}" for name, value in self.where.items())
        return " ".join(each for each in (*bounds, *values) if each)


def blame_scope(
    name: str,
    settings: Settings,
    start: datetime | None = None,
    end: datetime | None = None,
    where: Iterable[tuple[str, str]] = (),
) -> BlameScope:
    """Return which answers count.

    Args:
        name: the name of a metric, or of an SLO whose dimensions the answers must have.
        settings: all settings.
        start: time of the first answer.
        end: time after the last answer.
        where: values of dimensions that the answers must have, beside those of the SLO.

    Raises:
        ConfigurationError: if the range is empty, or the SLO counts answers with another value alone.
    """
    own = dict(where)
    slo = next((each for each in settings.slo if each.name == name), None)
    for dimension, value in ({} if slo is None else slo.dimensions).items():
        if own.setdefault(dimension, value) != value:
            raise ConfigurationError(f"{name} counts answers with {dimension} {value} alone, not {own[dimension]}")
    return BlameScope(own, start, end)


def without_answers(name: str, scope: BlameScope, first_s: float, last_s: float) -> str:
    """Return the sentence that a source has no answer that counts.

    >>> without_answers("a.jsonl", BlameScope({"tenant": "acme"}), 0.0, 60.0)
    'a.jsonl holds no answer with tenant acme; its answers are from 1970-01-01T00:00:00Z to 1970-01-01T00:01:00Z'

    Args:
        name: the name of the source.
        scope: which answers count.
        first_s: time of its first answer, in seconds; above `last_s` if it has none.
        last_s: time of its last one.
    """
    if first_s > last_s:
        return f"{name} holds no evaluation; `ragweir score --out` makes them"
    times = (_said(datetime.fromtimestamp(each, UTC)) for each in (first_s, last_s))
    return f"{name} holds no answer {scope.title}; its answers are from {' to '.join(times)}"


def _said(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
