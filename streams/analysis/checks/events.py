"""Checks of the events: their times, the SLOs that count them, and the label sets of windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import orjson
from pydantic import ValidationError

from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.registry.schema import FORMATS
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.analysis.checks.registry import schemas
from ragweir.streams.analysis.event_times import distances
from ragweir.streams.analysis.sample import read_newest
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.kafka_services import SERVICES
from ragweir.streams.services.shared.dimensions import label
from ragweir.streams.services.shared.from_settings import catalogue
from ragweir.streams.settings import Slo

_TIME_SAMPLE = 100
"""The number of newest records whose event times are checked."""
_SLO_SAMPLE = 1_000
"""The number of newest evaluations that the SLOs are checked on."""
_MAX_CHARACTERS = 100


def evaluations(records: Iterable[Record]) -> list[Evaluation]:
    """Return the evaluations in records, without those that cannot be read."""
    found: list[Evaluation] = []
    for record in records:
        try:
            found.append(Evaluation.model_validate(orjson.loads(record.value or b"")))
        except (orjson.JSONDecodeError, ValidationError):
            continue
    return found


def uncounted(slos: Iterable[Slo], sample: Sequence[Evaluation]) -> Iterator[tuple[Slo, str]]:
    """Yield the SLOs that count none of the evaluations, each with the reason.

    >>> slo = Slo(name="exact", metric="exact_match", at_least=1, objective=0.9)
    >>> sample = [Evaluation(event_id="1", event_time=0, catalogue_version="1", scores={"exact_match": None},
    ...                      reasons={"exact_match": "the event has no expected"})]
    >>> [why for _, why in uncounted([slo], sample)]
    ['exact_match is null on all 1 of them, mostly because the event has no expected']
    """
    for slo in slos:
        conditions = " and ".join(f"{name}={value}" for name, value in slo.dimensions.items())
        about = [each for each in sample if all(label(name, each) == own for name, own in slo.dimensions.items())]
        if not about:
            yield slo, f"none of them has {conditions}"
        elif all(each.scores.get(slo.metric) is None for each in about):
            given = Counter(each.reasons[slo.metric] for each in about if slo.metric in each.reasons)
            because = f", mostly because {printable(given.most_common(1)[0][0], _MAX_CHARACTERS)}" if given else ""
            among = f" with {conditions}" if conditions else ""
            yield slo, f"{slo.metric} is null on all {len(about)} of them{among}{because}"


def times(context: CheckContext) -> str:
    """Check that the times of the newest events are near the timestamps of their records."""
    settings = context.settings
    context.partitions(settings.input_topic)
    if settings.input.format in FORMATS:
        schemas(context)  # Reading the events would wait for the registry.
    agent = EvaluateAgent(evaluate_config(settings, settings.input_topic))
    found = distances(agent, read_newest(settings, settings.input_topic, _TIME_SAMPLE))
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
    SERVICES["aggregate"].check(settings)
    sample = evaluations(read_newest(settings, topic, _SLO_SAMPLE))
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
