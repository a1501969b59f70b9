"""Settings of assemble, which makes interactions of OpenTelemetry traces."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from ragweir.streams.settings.group import SettingsGroup

_Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]


class AssembleSettings(SettingsGroup):
    """Assembly of interactions from OpenTelemetry traces, with `input.format = "otlp"`."""

    topics: tuple[str, ...] = ()
    """Further topics of OTLP data that are read besides `input.topic`, such as that of log records. Like `input.topic`,
    they are only read. Empty: none."""
    settle_s: _Seconds = 6
    """Time without new spans after which a complete trace is emitted, in seconds. SDKs export every 5 seconds, so that
    a shorter time divides traces of several processes."""
    patience_s: _Seconds = 60
    """Time without new spans after which an incomplete trace is emitted, in seconds."""
    deadline_s: _Seconds = 600
    """Age at which a trace is emitted even if spans still arrive, in seconds."""
    remember_s: _Seconds = 3600
    """Time for which the id of an emitted trace is remembered, in seconds. Spans that arrive later begin the trace
    again."""
    max_remembered: Annotated[int, Field(ge=1, le=10_000_000)] = 1_000_000
    """Maximum number of emitted traces that are remembered on one partition of `spans`. The oldest are forgotten
    first."""
    max_spans: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    """Maximum number of spans of one trace; a trace that has more is emitted as incomplete."""
    max_trace_bytes: Annotated[int, Field(ge=64 * 1024)] = 16 * 1024 * 1024
    """Maximum size of one trace, in bytes; a larger one is emitted as incomplete."""
    max_interactions: Annotated[int, Field(ge=1, le=10_000)] = 100
    """Maximum number of interactions of one trace."""
    max_held_bytes: Annotated[int, Field(ge=1024 * 1024)] = 256 * 1024 * 1024
    """Maximum size of the spans of all open traces on one partition of `spans`, in bytes. Beyond it the oldest trace is
    emitted as incomplete."""
    max_behind_bytes: Annotated[int, Field(ge=1024 * 1024)] = 256 * 1024 * 1024
    """Maximum size of the records of a partition of `spans` from the first one of its oldest open trace on, in bytes,
    which a restart reads again. Beyond it that trace is emitted as incomplete."""

    @model_validator(mode="after")
    def _times_increase(self) -> AssembleSettings:
        if not self.settle_s <= self.patience_s <= self.deadline_s:
            raise ValueError("settle_s, patience_s and deadline_s must not decrease in this order")
        return self
