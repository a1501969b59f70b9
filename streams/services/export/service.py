"""The projections that run as services, made from the settings.

The command line lists them, so that importing this module imports nothing that a projection needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragweir.streams.runtime.projection import Projection
    from ragweir.streams.runtime.serving.instruments import KnownLabels
    from ragweir.streams.settings import Settings


def _no_labels(_: Settings) -> KnownLabels:
    from ragweir.streams.runtime.serving.instruments import KnownLabels  # noqa: PLC0415 - as the module's docstring says

    return KnownLabels()


@dataclass(frozen=True, slots=True)
class ProjectionService:
    """One projection as a service, with a command of the same name."""

    name: str
    """The name of the command and of the service in logs and telemetry."""
    help: str
    """The help of the command."""
    projection: Callable[[Settings], Projection]
    """Makes the projection. Raises ConfigurationError if the settings cannot be used; acquires no resource."""
    port: int
    """Added to `telemetry.port` and the slot; the ports of all services are at least 100 apart."""
    known: Callable[[Settings], KnownLabels] = _no_labels
    """Returns the label values that its telemetry shows from the start."""
    enabled: Callable[[Settings], bool] = lambda _: True
    """Returns true if `ragweir up` runs it with these settings."""


def _prometheus(settings: Settings) -> Projection:
    from ragweir.streams.services.export.prometheus_exporter import PrometheusExporter  # noqa: PLC0415
    from ragweir.streams.services.export.shift_series import ShiftSeries  # noqa: PLC0415
    from ragweir.streams.services.shared.from_settings import aggregator, known_catalogue  # noqa: PLC0415

    catalogue = known_catalogue(settings)
    booleans = [name for name, metric in catalogue.metrics.items() if metric.unit == "boolean"]
    anchors = settings.judge.base_url is not None and settings.judge.anchor_file is not None
    shifts = ShiftSeries(settings.windows, settings.shift, catalogue) if settings.shift.enabled else None
    decoder = aggregator(settings).decoder()
    return PrometheusExporter(settings.windows, decoder, booleans, anchors=anchors, shifts=shifts)


def _windows(settings: Settings) -> KnownLabels:
    from ragweir.streams.runtime.serving.instruments import KnownLabels  # noqa: PLC0415

    return KnownLabels(windows=settings.windows.sizes)


PROJECTIONS: Mapping[str, ProjectionService] = {
    service.name: service
    for service in (
        ProjectionService(
            "export",
            help="Show the last closed window of each size to Prometheus.\n\n"
            "Reads the windows without a consumer group, so that any number of exporters may run, each with a slot of "
            "its own. /metrics, in the text format or OpenMetrics, is rendered again when a window closes. Stopping as "
            "`evaluate`.",
            projection=_prometheus,
            port=200,
            known=_windows,
        ),
    )
}
"""All projections. Each has a command, a place in `ragweir up` and a port that `ragweir doctor` checks."""


def enabled_projections(settings: Settings) -> list[ProjectionService]:
    """Return the projections that `ragweir up` runs with these settings.

    >>> from ragweir.streams.settings import Settings
    >>> [service.name for service in enabled_projections(Settings())]
    ['export']
    """
    return [service for service in PROJECTIONS.values() if service.enabled(settings)]
