"""Makes the catalogue, the decoders and the configurations of agents from the settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType

import structlog

from ragweir.errors import ConfigurationError, MapError
from ragweir.metrics import packs
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything, shipped_groups, version_with
from ragweir.metrics.extension import Extension, own_metrics
from ragweir.metrics.judged.suites import suites
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.evaluate.agent import EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.judge.config import JudgeConfig
from ragweir.streams.judge.redaction import Redactor
from ragweir.streams.settings import MetricSettings, Settings, check_not_world_writable
from ragweir.streams.settings.events import JSON
from ragweir.streams.settings.imports import DECODERS, METRICS, PACKS, available, import_function, import_named

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)


def read_map(file: Path) -> FieldMap:
    """Read and compile a map.

    Raises:
        ConfigurationError: if it cannot be read, is invalid, or every user of the machine may change it.
    """
    check_not_world_writable(file)
    try:
        return FieldMap.parse(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"the map {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the map {file} is not UTF-8") from None
    except MapError as error:
        raise ConfigurationError(f"the map {file} is wrong: {error}") from None


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The metrics that the settings load, in addition to those that are always there."""

    shipped_packs: tuple[str, ...]
    extensions: tuple[Extension, ...]


def _loaded(settings: MetricSettings) -> _Loaded:
    """Load the packs and the own metrics.

    Raises:
        ConfigurationError: if one cannot be loaded.
    """
    shipped = tuple(name for name in settings.packs if name in packs.SHIPPED)
    entries = available(PACKS) if len(shipped) < len(settings.packs) else {}
    folders = [_pack_folder(name) if name in entries else Path(name) for name in settings.packs if name not in shipped]
    own = (_own_metrics(name) for name in dict.fromkeys(settings.modules))
    return _Loaded(shipped, (*packs.load_packs(folders), *own))


def _pack_folder(name: str) -> Traversable:
    """Return the folder of packs that an entry point gives: a package, or a path."""
    value = import_named(name, PACKS).value
    if isinstance(value, ModuleType) and hasattr(value, "__path__"):
        folder = files(value)
    elif isinstance(value, Path):
        folder = value
    else:
        raise ConfigurationError(f"metrics.packs: the entry point {name!r} gives neither a package nor a Path")
    for place in (folder, *(pack for pack in folder.iterdir() if pack.name.endswith(".toml"))):
        if isinstance(place, Path):
            check_not_world_writable(place)
    return folder


def _own_metrics(name: str) -> Extension:
    try:
        found = import_named(name, METRICS, "METRICS")
        return Extension(found.name, found.version, own_metrics(found.value, found.name, shipped_groups()))
    except ConfigurationError as error:
        raise ConfigurationError(f"metrics.modules: {error}") from None


def _catalogue(loaded: _Loaded, off: Iterable[str] = ()) -> Catalogue:
    try:
        metrics = everything(loaded.shipped_packs, loaded.extensions)
        return Catalogue(metrics, off, version_with(loaded.extensions))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def catalogue(settings: Settings) -> Catalogue:
    """Return the catalogue of enabled metrics.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """
    return _catalogue(_loaded(settings.metrics), settings.metrics.off)


def known_catalogue(settings: Settings) -> Catalogue:
    """Return the catalogue of all metrics that evaluations and windows may have.

    Besides those that are loaded it has the metrics that are switched off and those of all shipped packs.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """
    return _catalogue(replace(_loaded(settings.metrics), shipped_packs=tuple(packs.SHIPPED)))


def totals(settings: Settings) -> Aggregator:
    """Return the aggregator of windows, for all metrics that earlier windows may have.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """
    return Aggregator(known_catalogue(settings))


def decoder(settings: Settings) -> Decoder:
    """Return the decoder of the input topic.

    Raises:
        ConfigurationError: if the map is invalid, or the format is not one of ragweir's and gives no decoder.
    """
    limits, given = settings.limits, settings.input
    if given.format == JSON:
        mapping = None if given.map is None else read_map(given.map)
        return JsonDecoder(limits.max_event_bytes, limits.max_items, mapping)
    if given.map is not None:
        raise ConfigurationError(f'input.map is for input.format = "{JSON}": leave one of them out')
    make = import_function(given.format, DECODERS)
    try:
        made = make(limits.max_event_bytes, limits.max_items)
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"input.format: {given.format!r} raised {type(error).__name__} when it was called with the maximum size of "
            "an event and the maximum length of its lists"
        ) from None
    if not isinstance(made, Decoder):
        raise ConfigurationError(f"input.format: {given.format!r} gave a {type(made).__name__}, not a Decoder")
    return made


def evaluate_config(settings: Settings, topic: str, *, explain: bool = False) -> EvaluateConfig:
    """Return the configuration of evaluate for interactions from `topic`.

    Raises:
        ConfigurationError: if a metric, a pack, the map or a routing rule is invalid.
    """
    metrics = catalogue(settings)
    return EvaluateConfig(
        catalogue=metrics,
        limits=settings.limits.view,
        max_event_bytes=settings.limits.max_event_bytes,
        max_items=settings.limits.max_items,
        decoders={topic: decoder(settings)} if settings.input.map or settings.input.format != JSON else {},
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
