"""Settings of windows and of service level objectives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from ragweir.schemas.window import duration_s
from ragweir.streams.settings.group import SettingsGroup


def _must_be_dimensions(names: Iterable[str]) -> None:
    plain = {"application", "tenant", "environment", "pipeline_version", "model", "question_id"}
    if unknown := [name for name in names if name not in plain and not re.fullmatch(r"labels\.\w{1,60}", name)]:
        raise ValueError(f"{', '.join(unknown)}: a dimension is one of {', '.join(sorted(plain))}, or labels.NAME")


class WindowSettings(SettingsGroup):
    """Windows of event time."""

    sizes: tuple[str, ...] = ("1m", "5m", "1h")
    """Each a multiple of the first, which is the one that is kept; readers merge the larger ones."""
    dimensions: tuple[str, ...] = ("application", "model", "pipeline_version")
    """Fields of the evaluation, or `labels.NAME`, that windows are split by."""
    values: dict[str, tuple[str, ...]] = {}
    """Per dimension the admitted values; others count under __overflow__. All are admitted where none are listed."""
    max_series: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Label sets that the windows of a partition keep apart within `hold_h`; a new one beyond them counts under
    __overflow__. `export` keeps as many apart over all partitions."""
    new_series_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Label sets that may be new within an hour of event time, per partition, beside those of the first window held;
    further new ones count under __overflow__. A label set that any held window has is not new."""
    max_bytes: Annotated[int, Field(ge=1024 * 1024)] = 512 * 1024 * 1024
    """Memory of one `aggregate` worker for the windows that it holds, in bytes, shared equally by its partitions. A
    further label set of a window that has no room counts under __overflow__. The process takes some 300 MB beside it:
    give it a memory limit of twice as much, and of at least 512 MB."""
    grace_s: Annotated[int, Field(ge=0)] = 30
    """How long after its end a window waits for events that are late."""
    disorder_s: Annotated[int, Field(ge=0)] = 10
    """How far events may come out of order before they count as late."""
    idle_s: Annotated[int, Field(ge=1)] = 60
    """A partition without new events for this long holds no window open."""
    hold_h: Annotated[float, Field(gt=0)] = 2
    """How long, in event time, a window stays in memory; an older one is continued as a new part."""
    retention_h: Annotated[int, Field(ge=1)] = 720
    """How long the windows topic keeps them."""
    commit_ms: Annotated[int, Field(ge=50, le=10_000)] = 1_000
    """How often windows are written."""

    @field_validator("sizes")
    @classmethod
    def _are_multiples(cls, sizes: tuple[str, ...]) -> tuple[str, ...]:
        seconds = [duration_s(size) for size in sizes]
        if not seconds or any(each % seconds[0] for each in seconds) or seconds != sorted(set(seconds)):
            raise ValueError("sizes grow, and each is a multiple of the first")
        if 86_400 % seconds[0]:
            raise ValueError("the first size divides a day")
        return sizes

    @field_validator("dimensions")
    @classmethod
    def _are_fields(cls, dimensions: tuple[str, ...]) -> tuple[str, ...]:
        _must_be_dimensions(dimensions)
        return dimensions


class Slo(SettingsGroup):
    """A service level objective on a metric: the share of events that must be good."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,60}$")]
    metric: str
    """A metric of the catalogue."""
    at_least: float | None = None
    """An event is good when the metric is at least this."""
    at_most: float | None = None
    """An event is good when the metric is at most this."""
    objective: Annotated[float, Field(gt=0, lt=1)]
    """The share of good events, such as 0.95."""
    dimensions: dict[str, str] = {}
    """Only events with these values of these dimensions count."""

    @field_validator("dimensions")
    @classmethod
    def _are_fields(cls, dimensions: dict[str, str]) -> dict[str, str]:
        _must_be_dimensions(dimensions)
        return dimensions

    @model_validator(mode="after")
    def _has_one_bound(self) -> Slo:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"SLO {self.name} needs either at_least or at_most")
        return self

    def good(self, value: float) -> bool:
        """Whether a value meets the objective's bound."""
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)
