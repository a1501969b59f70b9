"""Reads the services' telemetry over HTTP: readiness, the last closed window, and the SLO's counters."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample
from typing_extensions import override

_TIMEOUT_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Means:
    """The means of a metric in the last closed window."""

    end_s: float = 0.0
    """The end of the window, in epoch seconds of event time; 0 if none has closed."""
    versions: Mapping[str, float] = field(default_factory=dict)
    """The means by pipeline version."""

    @override
    def __str__(self) -> str:
        """Return the line that the demo shows.

        >>> print(Means(1_795_255_205.0, {"v1": 0.01, "v2": 0.934}))
        window until 10:00:05 UTC: v1 0.01, v2 0.93
        """
        values = ", ".join(f"{version} {mean:.2f}" for version, mean in sorted(self.versions.items()))
        return f"window until {datetime.fromtimestamp(self.end_s, UTC):%H:%M:%S} UTC: {values}"


def ready(address: str) -> bool:
    """Return true if a service is ready."""
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=_TIMEOUT_SECONDS):
            return True
    except OSError:  # HTTP errors are among them.
        return False


def means(exporter: str, metric: str, window: str) -> Means:
    """Return the means in the last closed window."""
    end_s, versions = 0.0, {}
    for sample in _samples(exporter):
        if sample.labels.get("window") == window:
            if sample.name == "ragweir_window_end_timestamp_seconds":
                end_s = sample.value
            elif sample.name == "ragweir_window_mean" and sample.labels["metric"] == metric:
                versions[sample.labels["pipeline_version"]] = sample.value
    return Means(end_s, versions)


def total(address: str, counter: str) -> int:
    """Return the sum of a counter over its labels; 0 while the service does not answer."""
    return int(sum(sample.value for sample in _samples(address) if sample.name == counter))


def _samples(address: str) -> Iterator[Sample]:
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_TIMEOUT_SECONDS) as answer:
            text = answer.read().decode()
    except OSError:
        return  # The service starts; callers try again.
    for family in text_string_to_metric_families(text):
        yield from family.samples
