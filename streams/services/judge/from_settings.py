"""Makes the configuration of judge from the settings."""

from __future__ import annotations

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.services.judge.config import JudgeConfig
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.services.shared.from_settings import catalogue, otlp_results
from ragweir.streams.services.shared.row_writer import row_config
from ragweir.streams.settings import Settings


def judge_config(settings: Settings, partitions: int) -> JudgeConfig:
    """Return the configuration of judge for requests in a number of partitions.

    Raises:
        ConfigurationError: if there is no judge, a price is unknown while there is a budget, or a setting is invalid.
    """
    judge = settings.judge
    if judge.base_url is None:
        raise ConfigurationError("there is no judge: set judge.base_url, such as https://api.openai.com/v1")
    for model in (judge.model, judge.embedding_model):
        if model is not None and model not in judge.prices and judge.daily_budget_usd is not None:
            raise ConfigurationError(
                f"the price of {model} is not known, so the budget cannot be kept: set "
                f'judge.prices."{model}" = {{ input_usd = ..., output_usd = ... }} (dollars per million tokens), or '
                'judge.daily_budget_usd = "none"'
            )
    metrics = catalogue(settings)
    every = suites(judge.ragas_weights, decides=judge.decides)
    return JudgeConfig(
        suites=every,
        judge=judge,
        partitions=partitions,
        floor_share=settings.routing.reserved_share,
        redact=Redactor(judge).redact,
        off=frozenset(m.name for suite in every.values() for m in suite.metrics if m.name not in metrics.metrics),
        max_bytes=max_record_bytes(settings.limits.max_event_bytes),
        otlp=otlp_results(settings, metrics),
        documents=row_config(settings, metrics.metrics),
    )
