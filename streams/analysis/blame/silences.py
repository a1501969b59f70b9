"""Causes that settings silence, each with a reason and an end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from ragweir.streams.analysis.blame.blame_report import NamedCause
from ragweir.streams.settings.blame import Silence


@dataclass(frozen=True, slots=True)
class Silences:
    """The silences of the settings, at a time."""

    settings: Sequence[Silence]
    at: datetime

    def applied(self, metric: str, causes: Sequence[NamedCause]) -> tuple[tuple[NamedCause, ...], list[str]]:
        """Return causes of a metric with their silences, and sentences on those that have ended."""
        found, ended = [], []
        for cause in causes:
            silence = self._last(metric, cause)
            if silence is not None and silence.until <= self.at:
                ended.append(
                    f"the silence of {cause.title} ended on {silence.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
                )
                silence = None
            found.append(replace(cause, silence=silence))
        return tuple(found), ended

    def _last(self, metric: str, cause: NamedCause) -> Silence | None:
        """Return the silence of a cause that ends last."""
        values = {*cause.facets.items(), *cause.also}
        own = (each for each in self.settings if each.metric in {None, metric} and values >= {*each.facets.items()})
        return max(own, key=lambda each: each.until, default=None)
