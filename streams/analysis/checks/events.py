"""Checks of the events: their times, the SLOs that count them, and the label sets of windows."""

from __future__ import annotations

from ragweir.errors import ConfigurationError, PermanentError, Unreachable
from ragweir.schemas.registry.schema import FORMATS
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.analysis.checks.objectives import evaluations, uncounted
from ragweir.streams.analysis.checks.registry import schemas
from ragweir.streams.analysis.event_times import distances
from ragweir.streams.analysis.sample import read_newest
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.from_settings import catalogue

_TIME_SAMPLE = 100
"""The number of newest records whose event times are checked."""
_SLO_SAMPLE = 1_000
"""The number of newest evaluations that the SLOs are checked on."""


def times(context: CheckContext) -> str:
    """Check that the times of the newest events are near the timestamps of their records."""
    settings = context.settings
    context.partitions(settings.input_topic)
    if settings.input.format in FORMATS:
        schemas(context)  # Reading the events would wait for the registry.
    try:
        agent = EvaluateAgent(evaluate_config(settings, settings.input_topic))
        found = distances(agent, read_newest(settings, settings.input_topic, _TIME_SAMPLE))
    except (PermanentError, Unreachable, ConfigurationError) as error:
        raise CheckFailed(str(error)) from None
    if found.complaint:
        raise CheckFailed(found.complaint)
    return str(found)


def objectives(context: CheckContext) -> str:
    """Check that each SLO counts some of the newest evaluations: one that counts none never fires."""
    settings = context.settings
    if not settings.slo:
        return "there is no SLO"
    topic = f"{settings.topics.prefix}evaluations"
    context.partitions(topic)
    try:
        SERVICES["aggregate"].check(settings)
        sample = evaluations(read_newest(settings, topic, _SLO_SAMPLE))
    except (PermanentError, Unreachable, ConfigurationError) as error:
        raise CheckFailed(str(error)) from None
    if not sample:
        return "there are no evaluations yet to check the SLOs on"
    of_sample = f"of the newest {len(sample)} evaluations"
    metrics, judging = catalogue(settings).metrics, settings.judge.base_url is not None
    silent = [(slo, f"{slo.name} counts none {of_sample}: {why}") for slo, why in uncounted(settings.slo, sample)]
    # Few evaluations have a value of a judged metric: while there is a judge, none in the sample proves nothing.
    if wrong := [text for slo, text in silent if metrics[slo.metric].cost == "free" or not judging]:
        raise CheckFailed(f"{'; '.join(wrong)}; correct its metric, its dimensions or the events")
    return "; ".join(text for _, text in silent) or f"each SLO counts some {of_sample}"


def labels(context: CheckContext) -> str:
    """Check that the values of the windows' dimensions are listed in the settings."""
    windows = context.settings.windows
    if unlisted := [name for name in windows.dimensions if name not in windows.values]:
        return (
            f"windows keep the first {windows.max_series} label sets of {', '.join(unlisted)} apart, whoever sends "
            "them; where producers are not trusted, list the values that count in windows.values"
        )
    return "windows keep only listed values apart"
