"""Settings of telemetry."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ragweir.streams.settings.group import SettingsGroup


class TelemetrySettings(SettingsGroup):
    """HTTP server of each worker, for its metrics and its health."""

    host: str = "127.0.0.1"
    """Address that the workers' HTTP servers listen on. The default is reachable from this machine only; 0.0.0.0
    listens on all interfaces."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 9_464
    """Base port of the workers' HTTP servers; a worker listens on it plus its service's offset plus its slot. 0 lets
    the system choose."""
