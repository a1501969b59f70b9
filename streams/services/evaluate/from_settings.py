"""Makes the configuration of evaluate from the settings."""

from __future__ import annotations

from ragweir.metrics.judged.suites import suites
from ragweir.streams.runtime.kernel_choice import kernel_choice
from ragweir.streams.services.evaluate.agent import EvaluateConfig
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.shared.from_settings import catalogue, decoder, otlp_results
from ragweir.streams.services.shared.row_writer import row_config
from ragweir.streams.settings import Settings
from ragweir.streams.settings.events import JSON, OTLP


def evaluate_config(settings: Settings, topic: str, *, explain: bool = False, is_file: bool = False) -> EvaluateConfig:
    """Return the configuration of evaluate for interactions from `topic`.

    Args:
        settings: all settings.
        topic: full name of the topic, or name of the file.
        explain: True to add the evidence of scores to evaluations.
        is_file: True if the interactions come from a file, whose rows have numbers.

    Raises:
        ConfigurationError: if a metric, a pack, the map or a routing rule is invalid, or there is no kernel and there
            has to be.
    """
    metrics = catalogue(settings)
    return EvaluateConfig(
        catalogue=metrics,
        limits=settings.limits.view,
        counting=kernel_choice(settings.kernel).counting,
        max_event_bytes=settings.limits.max_event_bytes,
        max_items=settings.limits.max_items,
        decoders={topic: decoder(settings, is_file=is_file)}
        if settings.input.map or settings.input.format not in (JSON, OTLP)
        else {},
        include_text=settings.output.include_text,
        otlp=otlp_results(settings, metrics),
        explain=explain,
        router=Router(settings.routing, metrics, tuple(suites())) if settings.judge.base_url else None,
        documents=None if is_file else row_config(settings, metrics.metrics),
        duplicate_horizon=settings.input.duplicate_horizon,
    )
