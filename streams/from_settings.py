"""Makes the catalogue, the decoders and the configurations of agents from the settings."""

from __future__ import annotations

from pathlib import Path

import structlog

from ragweir.errors import ConfigurationError, MapError
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.ready_maps import READY_MAPS, ready_map
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.evaluate.agent import EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.judge.config import JudgeConfig
from ragweir.streams.judge.redaction import Redactor
from ragweir.streams.settings import Settings, check_not_world_writable

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def map_text(map_: Path) -> str:
    """Return the TOML of a map: that of a file, or a ready map by its name.

    >>> map_text(Path("ragas")).startswith("# Exports of ragas")
    True

    Args:
        map_: a name of `READY_MAPS`, which is a ready map even if there is a file of that name; else a file.

    Raises:
        ConfigurationError: if it cannot be read, or every user of the machine may change it.
    """
    if str(map_) in READY_MAPS:
        return ready_map(str(map_))
    check_not_world_writable(map_)
    try:
        return map_.read_text(encoding="utf-8")
    except FileNotFoundError:
        ready = "" if map_.suffix or len(map_.parts) > 1 else f"; the ready maps are {', '.join(READY_MAPS)}"
        raise ConfigurationError(f"there is no map {map_}{ready}") from None
    except OSError as error:
        raise ConfigurationError(f"the map {map_} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the map {map_} is not UTF-8") from None


def read_map(map_: Path) -> FieldMap:
    """Read and compile a map: a file, or a ready map by its name; see `map_text`.

    Raises:
        ConfigurationError: if it cannot be read, is invalid, or every user of the machine may change it.
    """
    try:
        return FieldMap.parse(map_text(map_))
    except MapError as error:
        raise ConfigurationError(f"the map {map_} is wrong: {error}") from None


def catalogue(settings: Settings) -> Catalogue:
    """Return the catalogue of enabled metrics.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """
    try:
        return Catalogue(everything(settings.metrics.packs), settings.metrics.off)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def totals(settings: Settings) -> Aggregator:
    """Return the aggregator of windows, for disabled metrics as well, which earlier windows may have.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """
    every = settings.metrics.model_copy(update={"off": ()})
    return Aggregator(catalogue(settings.model_copy(update={"metrics": every})))


def decoder(settings: Settings, *, is_file: bool = False) -> Decoder:
    """Return the decoder of the input topic, or of a file.

    Raises:
        ConfigurationError: if the map is invalid, or numbers the rows of what is no file.
    """
    limits, file = settings.limits, settings.input.map
    mapping = None if file is None else read_map(file)
    if mapping is not None and mapping.numbers_rows and not is_file:
        raise ConfigurationError(
            f"the map {file} has a rule with `row`, which only `score` and `publish` know: an offset does not identify "
            "an event that is published again; use { hash = [...] } over the fields that identify it"
        )
    return JsonDecoder(limits.max_event_bytes, limits.max_items, mapping)


def evaluate_config(settings: Settings, topic: str, *, explain: bool = False, is_file: bool = False) -> EvaluateConfig:
    """Return the configuration of evaluate for interactions from `topic`.

    Args:
        settings: all settings.
        topic: full name of the topic, or name of the file.
        explain: True to add the evidence of scores to evaluations.
        is_file: True if the interactions come from a file, whose rows have numbers.

    Raises:
        ConfigurationError: if a metric, a pack, the map or a routing rule is invalid.
    """
    metrics = catalogue(settings)
    return EvaluateConfig(
        catalogue=metrics,
        limits=settings.limits.view,
        max_event_bytes=settings.limits.max_event_bytes,
        max_items=settings.limits.max_items,
        decoders={topic: decoder(settings, is_file=is_file)} if settings.input.map else {},
        include_text=settings.output.include_text,
        explain=explain,
        router=Router(settings.routing, metrics, tuple(suites())) if settings.judge.base_url else None,
        duplicate_horizon=settings.input.duplicate_horizon,
    )


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
    published = catalogue(settings).metrics
    every = suites(judge.ragas_weights)
    return JudgeConfig(
        suites=every,
        judge=judge,
        partitions=partitions,
        redact=Redactor(judge).redact,
        off=frozenset(m.name for suite in every.values() for m in suite.metrics if m.name not in published),
        max_bytes=max_record_bytes(settings.limits.max_event_bytes),
    )
