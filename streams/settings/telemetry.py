"""Settings of the telemetry."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragweir.streams.settings.group import SettingsGroup


class TelemetrySettings(SettingsGroup):
    """Where each service shows its state; a worker's port is the base plus its slot."""

    host: str = "127.0.0.1"
    """The address to listen on; loopback unless set."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 9_464
    """The base port; 0 lets the system choose."""
