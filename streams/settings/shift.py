"""Settings of shifts of metrics' means."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints, model_validator

from ragweir.streams.settings.group import SettingsGroup

_Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class ShiftSettings(SettingsGroup):
    """The test of `export` whether a metric's mean has left that of earlier days.

    Without a named baseline it is the mean of the three weeks before the last seven days.
    """

    enabled: bool = True
    """True to test means for shifts in `export`, which then reads the windows of the last 29 days at its start."""
    max_applications: Annotated[int, Field(ge=1, le=1_000)] = 10
    """Maximum number of applications whose metrics are tested, in the order in which windows name them. Each takes 10
    to 20 MB."""
    baseline_run: _Name | None = None
    """Id of a run of `ragweir replay`, whose means are the baseline."""
    baseline_version: _Name | None = None
    """A `pipeline_version` whose means in the last 29 days are the baseline, such as "v41"."""
    baseline_since: AwareDatetime | None = None
    """Start of the time whose means are the baseline, such as 2026-11-01T00:00:00Z; needs `shift.baseline_until`."""
    baseline_until: AwareDatetime | None = None
    """End of the time whose means are the baseline, exclusive."""

    @model_validator(mode="after")
    def _has_one_baseline(self) -> ShiftSettings:
        if (self.baseline_since is None) != (self.baseline_until is None):
            raise ValueError("baseline_since and baseline_until are set together")
        if (
            self.baseline_since is not None
            and self.baseline_until is not None
            and self.baseline_since >= self.baseline_until
        ):
            raise ValueError("baseline_since is before baseline_until")
        if sum(each is not None for each in (self.baseline_run, self.baseline_version, self.baseline_since)) > 1:
            raise ValueError("the baseline is a run, a version or a time: leave out all but one")
        return self

    @property
    def is_named(self) -> bool:
        """True if the baseline is a run, a version or a time."""
        return not (self.baseline_run is None and self.baseline_version is None and self.baseline_since is None)
