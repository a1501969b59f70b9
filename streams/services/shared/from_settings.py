"""Makes the catalogue, the decoders and the forms of results from the settings.

Functions import what one service alone needs, as workers start faster without the modules of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import structlog

from ragweir.errors import ConfigurationError, MapError, Rejected
from ragweir.metrics import packs
from ragweir.metrics.catalogue import Catalogue, everything, shipped_groups, version_with
from ragweir.metrics.extension import Extension, own_metrics
from ragweir.schemas.codec.decoder import Decoder, JsonDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.codec.ready_maps import READY_MAPS, ready_map
from ragweir.schemas.nearest import nearest_hint
from ragweir.schemas.registry.decoder import RegistryDecoder
from ragweir.schemas.registry.readers import read_schema, reader_of
from ragweir.schemas.registry.schema import FORMATS, Read, Schema
from ragweir.schemas.topics import max_record_bytes
from ragweir.streams.settings import MetricSettings, Settings, check_trusted
from ragweir.streams.settings.events import JSON, OTLP
from ragweir.streams.settings.imports import DECODERS, METRICS, PACKS, available, import_function, import_named

if TYPE_CHECKING:
    from ragweir.metrics.aggregation.aggregator import Aggregator
    from ragweir.streams.traces.otlp_results import OtlpResults

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

_RECORD_OVERHEAD_BYTES = 8 * 1024
"""Bytes of a record's key and headers, which have ids of at most 200 characters."""


def is_ready(map_: Path | None) -> bool:
    """Return true if a map is named that ships with ragweir.

    >>> is_ready(Path("ragas")), is_ready(Path("ragas.toml")), is_ready(None)
    (True, False, False)
    """
    return str(map_) in READY_MAPS


def map_text(map_: Path, names: Collection[str] = READY_MAPS, ready: Callable[[str], str] = ready_map) -> str:
    """Return the TOML of a map: that of a file, or a ready map by its name.

    >>> map_text(Path("ragas")).startswith("# Exports of ragas")
    True

    Args:
        map_: a name of a ready map, even if there is a file of that name; else a file.
        names: the names of the ready maps.
        ready: returns the TOML of a ready map.

    Raises:
        ConfigurationError: if it cannot be read, or another user of the machine may change it.
    """
    if str(map_) in names:
        return ready(str(map_))
    check_trusted(map_)
    try:
        return map_.read_text(encoding="utf-8")
    except FileNotFoundError:
        is_name = not map_.suffix and len(map_.parts) == 1
        known = f"; the ready maps are {', '.join(names)}{nearest_hint(str(map_), names)}" if is_name else ""
        raise ConfigurationError(f"there is no map {map_}{known}") from None
    except OSError as error:
        raise ConfigurationError(f"the map {map_} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"the map {map_} is not UTF-8") from None


def read_map(map_: Path) -> FieldMap:
    """Read and compile a map: a file, or a ready map by its name; see `map_text`.

    Raises:
        ConfigurationError: if it cannot be read, is invalid, or another user of the machine may change it.
    """
    try:
        return FieldMap.parse(map_text(map_))
    except MapError as error:
        raise ConfigurationError(f"the map {map_} is wrong: {error}") from None


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
            check_trusted(place)
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


def aggregator(settings: Settings) -> Aggregator:
    """Return the aggregator of windows, for all metrics that earlier windows may have.

    Raises:
        ConfigurationError: if a metric or a pack is invalid.
    """
    from ragweir.metrics.aggregation.aggregator import Aggregator  # noqa: PLC0415 - as the module's docstring says

    return Aggregator(known_catalogue(settings))


def decoder(settings: Settings, *, is_file: bool = False) -> Decoder:
    """Return the decoder of the input topic, or of a file.

    Raises:
        ConfigurationError: if the map is invalid or numbers the rows of what is no file, or the format is not one of
            ragweir's and gives no decoder.
    """
    limits, given = settings.limits, settings.input
    # Interactions that `join` wrote are in ragweir's own JSON.
    if given.format in (JSON, OTLP, *FORMATS):
        mapping = None if given.map is None else read_map(given.map)
        if mapping is not None and mapping.numbers_rows and not is_file:
            raise ConfigurationError(
                f"the map {given.map} has a rule with `row`, which only `score` and `publish` know: an offset does not "
                "identify an event that is published again; use { hash = [...] } over the fields that identify it"
            )
        if given.format in FORMATS and not is_file:  # Files have formats of their own, whose rows are JSON here.
            return _registry_decoder(settings, mapping)
        return JsonDecoder(limits.max_event_bytes, limits.max_items, mapping)
    if given.map is not None:
        raise ConfigurationError("input.map is for JSON and the formats of a registry: leave it or input.format out")
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


def schema_reader(settings: Settings, form: str) -> Callable[[int, Schema], Read | Rejected]:
    """Return the function that makes readers of the schemas of a registry, by their ids.

    It raises TransientError if the process in which it tries a schema first cannot be started.

    Args:
        settings: all settings.
        form: `avro`, `protobuf` or `jsonschema`.

    Raises:
        ConfigurationError: if Protobuf's descriptor set is missing or cannot be used.
    """
    from ragweir.streams.runtime.registry.trial import tried  # noqa: PLC0415

    given = settings.registry
    if form == "protobuf" and given.descriptors is None:
        raise ConfigurationError(
            "messages of Protobuf need registry.descriptors: the file that `protoc --include_imports "
            "--descriptor_set_out=FILE` writes from the schema"
        )
    try:
        make = read_schema(form, b"" if given.descriptors is None else given.descriptors.read_bytes())
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"records of {form} need the package {error.name}; pip install 'ragweir[registry]' brings it"
        ) from None
    except Exception as error:
        raise ConfigurationError(
            f"registry.descriptors: {given.descriptors} is no descriptor set with all of its imports "
            f"({type(error).__name__})"
        ) from None
    return lambda schema_id, schema: tried(schema_id, schema, form) or reader_of(schema_id, schema, form, make)


def _registry_decoder(settings: Settings, mapping: FieldMap | None) -> Decoder:
    from ragweir.streams.runtime.registry.client import RegistryClient  # noqa: PLC0415
    from ragweir.streams.runtime.registry.schemas import RegistrySchemas  # noqa: PLC0415

    form, given = settings.input.format, settings.registry
    if given.url is None:
        raise ConfigurationError(f'input.format = "{form}" needs registry.url, such as http://registry:8081')
    schemas = RegistrySchemas(RegistryClient(given).schema, schema_reader(settings, form))
    return RegistryDecoder(schemas, settings.limits.max_event_bytes, settings.limits.max_items, mapping)


def otlp_results(settings: Settings, metrics: Catalogue) -> OtlpResults | None:
    """Return the maker of the OpenTelemetry form of evaluations; None if `output.otlp` is unset.

    Default metrics that are switched off are left out.

    Raises:
        ConfigurationError: if a metric is named that does not exist or is switched off.
    """
    given = settings.output.otlp
    if given is None:
        return None
    from ragweir.streams.traces.otlp_results import MAX_BYTES, OtlpResults  # noqa: PLC0415

    groups = {metric.group for metric in metrics.metrics.values()}
    unknown = [name for name in given.metrics if name not in metrics.metrics and name not in groups]
    if unknown and "metrics" in given.model_fields_set:
        why = metrics.hint(unknown[0], groups)
        raise ConfigurationError(
            f"output.otlp.metrics has {unknown[0]!r}, which is no metric or group that is switched on{why}"
        )
    chosen = [each for each in metrics.metrics.values() if {each.name, each.group} & set(given.metrics)]
    return OtlpResults(
        scored=tuple(metric.name for metric in chosen if metric.cost == "free"),
        judged={metric.name: metric.group for metric in chosen if metric.cost != "free"},
        explanations=given.explanations,
        evaluator=given.evaluator,
        max_bytes=min(MAX_BYTES, max_record_bytes(settings.limits.max_event_bytes) - _RECORD_OVERHEAD_BYTES),
    )
