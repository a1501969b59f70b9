"""Telemetry: the instruments of one service in a registry."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.streams.runtime.records import Measurements
from ragweir.streams.runtime.serving.instruments import Instrument, KnownLabels


class Telemetry:
    """The instruments of one service, in a registry of their own.

    A name that the service has no instrument of is a KeyError, and a wrong number of labels a ValueError.

    Args:
        service: its name.
        slot: the slot of this process.
        instruments: what it shows.
        known: the label values that its counters have from the start.
    """

    def __init__(
        self, service: str, slot: int, instruments: Iterable[Instrument], known: KnownLabels | None = None
    ) -> None:
        self.registry = registry = CollectorRegistry()
        known = known or KnownLabels()
        own = list(instruments)
        self._counters = {
            x.name: Counter(x.name, x.help, x.labels, registry=registry) for x in own if x.kind == "counter"
        }
        self._gauges = {x.name: Gauge(x.name, x.help, x.labels, registry=registry) for x in own if x.kind == "gauge"}
        self._histograms = {
            x.name: Histogram(x.name, x.help, x.labels, buckets=x.buckets, registry=registry)
            for x in own
            if x.kind == "histogram"
        }
        for line in own:
            for labels in line.initial_labels(known):
                self.count(line.name, 0, *labels)
        self.add(Measurements(levels=known.levels))
        catalogue_version = known.catalogue_version or CATALOGUE_VERSION
        self.set("ragweir_build_info", 1, version("ragweir"), catalogue_version, service, str(slot), known.kernel)

    def count(self, name: str, number: int, *labels: str) -> None:
        """Add to a counter."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(number)

    def set(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge."""
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def remove(self, name: str, *labels: str) -> None:
        """Remove a sample of a gauge, such as the lag of a revoked partition."""
        with suppress(KeyError):
            self._gauges[name].remove(*labels)

    def observe(self, name: str, value: float) -> None:
        """Observe a value in a histogram, which has no labels."""
        self._histograms[name].observe(value)

    def add(self, measurements: Measurements) -> None:
        """Add to counters, set or remove gauges, and observe values in histograms."""
        for (name, *labels), number in measurements.counts.items():
            self.count(name, number, *labels)
        for (name, *labels), value in measurements.levels.items():
            if value is None:
                self.remove(name, *labels)
            else:
                self.set(name, value, *labels)
        for (name,), value in measurements.observations:
            self.observe(name, value)
