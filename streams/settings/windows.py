"""Settings of windows and of service level objectives."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, StringConstraints, field_validator, model_validator

from ragweir.schemas.nearest import nearest_hint
from ragweir.schemas.window import duration_s
from ragweir.streams.settings.group import SettingsGroup


def check_dimensions(names: Iterable[str]) -> None:
    """Check that each name is that of a dimension.

    Raises:
        ValueError: if one is not.
    """
    plain = {"application", "tenant", "environment", "pipeline_version", "model", "question_id"}
    if unknown := [name for name in names if name not in plain and not re.fullmatch(r"labels\.\w{1,60}", name)]:
        raise ValueError(
            f"{', '.join(unknown)}: a dimension is one of {', '.join(sorted(plain))}, or labels.NAME"
            f"{nearest_hint(unknown[0], plain)}"
        )


class WindowSettings(SettingsGroup):
    """Tumbling windows of event time."""

    sizes: tuple[str, ...] = ("1m", "5m", "1h")
    """Sizes of windows, such as "30s", "1m" or "1h", in ascending order. The topic holds windows of the first size,
    which must divide a day; each larger size must be a multiple of it and is merged by readers."""
    dimensions: tuple[str, ...] = ("application", "model", "pipeline_version")
    """Fields of the evaluation, or `labels.NAME`, by which windows are split into label sets."""
    values: dict[str, tuple[str, ...]] = {}
    """Values that a dimension may have, by dimension; events with another value count under `__overflow__`. A dimension
    that is not named may have any value."""
    max_series: Annotated[int, Field(ge=1, le=100_000)] = 200
    """Maximum number of label sets that a partition's windows within `windows.hold_h` distinguish; events of further
    ones count under `__overflow__`. `export` distinguishes as many over all partitions. A larger number takes more
    memory and more Prometheus series."""
    new_series_per_hour: Annotated[int, Field(ge=1, le=100_000)] = 100
    """Maximum number of new label sets of a partition in an hour of event time, in addition to those of the first
    window in memory; events of further ones count under `__overflow__`. A label set of any window in memory is not
    new."""
    max_bytes: Annotated[int, Field(ge=1024 * 1024)] = 512 * 1024 * 1024
    """Memory for the windows of one `aggregate` worker, in bytes, divided equally among its partitions. Events of a
    label set for which there is no memory left count under `__overflow__`. The process takes about 300 MB in addition:
    give it a memory limit of twice this setting, and of at least 512 MB."""
    grace_s: Annotated[int, Field(ge=0)] = 30
    """Time after its end, in seconds of event time, that a window waits for late events before it is closed. A longer
    one includes more late events and delays alerts and reports."""
    disorder_s: Annotated[int, Field(ge=0)] = 10
    """Time by which an event may be older than the newest of its partition before it counts as late, in seconds of
    event time. The watermark follows the newest event at this distance."""
    idle_s: Annotated[int, Field(ge=1)] = 60
    """Time without new events, in seconds, after which a partition is idle and no longer keeps windows from closing."""
    hold_h: Annotated[float, Field(gt=0)] = 2
    """Time that a window stays in memory, in hours of event time. Events that arrive later are counted in a new part of
    the window, which readers merge. A longer time takes more memory."""
    retention_h: Annotated[int, Field(ge=1)] = 720
    """Retention of the windows topic, in hours."""
    commit_ms: Annotated[int, Field(ge=50, le=10_000)] = 1_000
    """Interval at which windows are written and committed, in milliseconds. A longer one writes fewer records and
    delays what readers see."""

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
        check_dimensions(dimensions)
        return dimensions


class Slo(SettingsGroup):
    """A service level objective (SLO) on a metric: the share of events that must be good."""

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,60}$")]
    """Name of the SLO, unique among the SLOs; series and alerts carry it as a label."""
    metric: str
    """Name of a metric of the catalogue. Events on which it is null do not count."""
    at_least: float | None = None
    """Lower bound: an event is good if the metric is at least this. Either this or `at_most` is set."""
    at_most: float | None = None
    """Upper bound: an event is good if the metric is at most this. Either this or `at_least` is set."""
    objective: Annotated[float, Field(gt=0, lt=1)]
    """Share of events that must be good, between 0 and 1, such as 0.95."""
    dimensions: dict[str, str] = {}
    """Values of dimensions that an event must have to count. Empty: all events count."""

    @field_validator("dimensions")
    @classmethod
    def _are_fields(cls, dimensions: dict[str, str]) -> dict[str, str]:
        check_dimensions(dimensions)
        return dimensions

    @model_validator(mode="after")
    def _has_one_bound(self) -> Slo:
        if (self.at_least is None) == (self.at_most is None):
            raise ValueError(f"SLO {self.name} needs either at_least or at_most")
        return self

    def is_good(self, value: float) -> bool:
        """Return True if a value meets the objective's bound."""
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)
