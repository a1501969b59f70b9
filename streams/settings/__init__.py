"""Settings: `ragweir.toml`, overridden by RAGWEIR_ environment variables, overridden by flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)
from typing_extensions import override

from ragweir.errors import ConfigurationError
from ragweir.schemas.nearest import nearest_hint
from ragweir.streams.settings.assemble import AssembleSettings
from ragweir.streams.settings.blame import BlameSettings
from ragweir.streams.settings.console import ConsoleSettings
from ragweir.streams.settings.events import (
    OTLP,
    BatchSettings,
    CommitSettings,
    InputSettings,
    LimitSettings,
    MetricSettings,
    OtlpOutputSettings,
    OutputSettings,
)
from ragweir.streams.settings.feedback import FeedbackSettings
from ragweir.streams.settings.files import check_trusted
from ragweir.streams.settings.group import SettingsGroup, names_at
from ragweir.streams.settings.imports import import_function
from ragweir.streams.settings.judge import JudgeSettings, Price, SecretSource, header_value
from ragweir.streams.settings.kafka import GUARDED, KafkaSettings, TopicSettings
from ragweir.streams.settings.kernel import KernelSettings
from ragweir.streams.settings.labels import LabelSettings
from ragweir.streams.settings.publish import PublishSettings
from ragweir.streams.settings.registry import RegistrySettings
from ragweir.streams.settings.routing import (
    DEFAULT_ROUTING_KEY,
    DEFAULT_ROUTING_KEY_WARNING,
    Probability,
    RoutingSettings,
    Rule,
)
from ragweir.streams.settings.shift import ShiftSettings
from ragweir.streams.settings.telemetry import TelemetrySettings
from ragweir.streams.settings.windows import Slo, WindowSettings, check_dimensions

__all__ = [
    "DEFAULT_ROUTING_KEY",
    "DEFAULT_ROUTING_KEY_WARNING",
    "GUARDED",
    "AssembleSettings",
    "BatchSettings",
    "BlameSettings",
    "CommitSettings",
    "ConsoleSettings",
    "FeedbackSettings",
    "JudgeSettings",
    "KafkaSettings",
    "KernelSettings",
    "LabelSettings",
    "LimitSettings",
    "MetricSettings",
    "OtlpOutputSettings",
    "OutputSettings",
    "Price",
    "Probability",
    "PublishSettings",
    "PublisherSettings",
    "RegistrySettings",
    "RoutingSettings",
    "Rule",
    "SecretSource",
    "Settings",
    "SettingsGroup",
    "ShiftSettings",
    "Slo",
    "TelemetrySettings",
    "TopicSettings",
    "WindowSettings",
    "check_dimensions",
    "check_trusted",
    "from_groups",
    "header_value",
    "import_function",
    "load",
    "load_publisher",
]

DEFAULT_FILE = Path("ragweir.toml")
DEFAULT_TRACE_TOPIC = "otlp_spans"
"""The topic that a Collector's kafka exporter writes traces to by default."""
_UNION_BRANCHES = {"bool", "float", "int", "str"}
"""Pydantic's names of the branches of a union in a setting's path."""
_MESSAGES = {
    "extra_forbidden": "there is no such setting",
    "model_type": "must be a table",
    "dict_type": "must be a table",
}
"""Messages, in terms of TOML, for the types of error that pydantic explains in terms of Python."""


class Settings(BaseSettings):
    """All settings, each with a default that suits a local broker."""

    model_config = SettingsConfigDict(
        env_prefix="RAGWEIR_", env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    input: InputSettings = InputSettings()
    assemble: AssembleSettings = AssembleSettings()
    batch: BatchSettings = BatchSettings()
    commit: CommitSettings = CommitSettings()
    limits: LimitSettings = LimitSettings()
    metrics: MetricSettings = MetricSettings()
    kernel: KernelSettings = KernelSettings()
    output: OutputSettings = OutputSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    windows: WindowSettings = WindowSettings()
    shift: ShiftSettings = ShiftSettings()
    registry: RegistrySettings = RegistrySettings()
    routing: RoutingSettings = RoutingSettings()
    judge: JudgeSettings = JudgeSettings()
    publish: PublishSettings = PublishSettings()
    labels: LabelSettings = LabelSettings()
    console: ConsoleSettings = ConsoleSettings()
    feedback: FeedbackSettings = FeedbackSettings()
    blame: BlameSettings = BlameSettings()
    slo: tuple[Slo, ...] = ()

    @field_validator("slo")
    @classmethod
    def _names_differ(cls, slo: tuple[Slo, ...]) -> tuple[Slo, ...]:
        if len({each.name for each in slo}) < len(slo):
            raise ValueError("two SLOs have the same name")
        return slo

    @property
    def uses_default_routing_key(self) -> bool:
        """True if events are selected for a judge by the default key, which is public."""
        return self.judge.base_url is not None and self.routing.key == DEFAULT_ROUTING_KEY

    @property
    def input_topic(self) -> str:
        """Name of the topic that interactions are read from."""
        own = f"{self.topics.prefix}interactions"
        return own if self.reads_traces else self.input.topic or own

    def output_topic(self, name: str) -> str:
        """Return the full name of an output by its name in the topic table.

        >>> own, given = Settings(), Settings(output={"otlp": {"topic": "evals"}})
        >>> own.output_topic("otlp.evaluations"), given.output_topic("otlp.evaluations"), given.output_topic("windows")
        ('rag.otlp.evaluations', 'evals', 'rag.windows')
        """
        chosen = self.output.otlp.topic if self.output.otlp and name == "otlp.evaluations" else None
        return chosen or f"{self.topics.prefix}{name}"

    @property
    def reads_traces(self) -> bool:
        """True if interactions are assembled from OpenTelemetry traces."""
        return self.input.format == OTLP

    @property
    def trace_topics(self) -> tuple[str, ...]:
        """Names of the topics of OTLP data, without repetition."""
        return tuple(dict.fromkeys((self.input.topic or DEFAULT_TRACE_TOPIC, *self.assemble.topics)))


class PublisherSettings(BaseSettings):
    """The settings that an application needs to publish; those of other groups are ignored, even if they are wrong."""

    model_config = SettingsConfigDict({**Settings.model_config, "extra": "ignore"})

    kafka: KafkaSettings = KafkaSettings()
    topics: TopicSettings = TopicSettings()
    limits: LimitSettings = LimitSettings()
    publish: PublishSettings = PublishSettings()

    @property
    def topic(self) -> str:
        """Name of the topic that interactions are published to."""
        return self.publish.topic or f"{self.topics.prefix}interactions"


_Model = TypeVar("_Model", bound=BaseSettings)


def load(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings from a file (`ragweir.toml` of this folder by default), the environment and flags.

    Args:
        file: the settings file, which must exist; None for the default file, if it exists.
        overrides: values of flags by group and name; None values are left out.

    Raises:
        ConfigurationError: if a setting is wrong, or a file that the settings come from or name can be changed by
            another user of the machine. The message is one sentence and has no value that might be secret.
    """
    # pydantic-settings ignores variables of unknown groups, so that a typing mistake would silently be a default.
    for variable in os.environ:
        group, nested, _ = variable.lower().removeprefix("ragweir_").partition("__")
        if variable.lower().startswith("ragweir_") and nested and group not in Settings.model_fields:
            raise ConfigurationError(
                f"the environment sets {variable}, and there is no group {group!r} of settings"
                f"{nearest_hint(group, Settings.model_fields)}"
            )

    settings = _read(Settings, file, overrides)
    _check_named_files(settings)
    return settings


def load_publisher(file: Path | None = None, overrides: Mapping[str, Any] | None = None) -> PublisherSettings:
    """Read the settings of an application that publishes, from the same places as `load`.

    Raises:
        ConfigurationError: if one of them is wrong; see `load`.
    """
    return _read(PublisherSettings, file, overrides)


def from_groups(groups: Mapping[str, Any]) -> Settings:
    """Return the settings of these groups; all others have their defaults.

    Neither a file nor the environment is read.

    >>> from_groups({"limits": {"max_contexts": 8}}).limits.max_contexts
    8

    Args:
        groups: the settings of each group by name, as a settings file has them.

    Raises:
        ConfigurationError: as `load`.
    """

    class Given(Settings):
        @classmethod
        @override
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: Any, **__: Any
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (init_settings,)

    settings = _validated(Given, {str(group): values for group, values in groups.items()}, DEFAULT_FILE)
    _check_named_files(settings)
    return settings


def _read(model: type[_Model], file: Path | None, overrides: Mapping[str, Any] | None) -> _Model:
    if file is not None and not file.is_file():
        raise ConfigurationError(f"there is no settings file {file}")
    chosen = file or DEFAULT_FILE
    if chosen.is_file():
        check_trusted(chosen)

    class Layered(model):  # type: ignore[misc,valid-type]
        @classmethod
        @override
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=chosen)

    given: dict[str, Any] = {
        group: {name: value for name, value in values.items() if value is not None}
        for group, values in (overrides or {}).items()
    }
    return _validated(Layered, given, chosen)


def _validated(model: type[_Model], given: Mapping[str, Any], chosen: Path) -> _Model:
    try:
        return model(**given)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        # A misspelt name is the cause of a missing one.
        first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
        name = ".".join(str(step) for step in first["loc"] if step not in _UNION_BRANCHES)
        message = _MESSAGES.get(first["type"], first["msg"].removeprefix("Value error, "))
        if first["type"] == "extra_forbidden":
            *path, last = first["loc"]
            message += nearest_hint(str(last), names_at(model, path))
        raise ConfigurationError(f"setting {name}: {message}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigurationError(f"the settings file {chosen} is not TOML: {error}") from None
    except (SettingsError, ValueError, OSError) as error:
        raise ConfigurationError(f"the settings cannot be read: {error}") from None


def _check_named_files(settings: Settings) -> None:
    folders = [Path(name) for name in settings.metrics.packs]
    packs = (pack for folder in folders for pack in folder.glob("*.toml"))
    for named in (*settings.judge.secret_files.values(), settings.console.token_file, *folders, *packs):
        if named is not None:
            check_trusted(named)
