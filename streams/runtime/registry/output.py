"""Evaluations and windows in the format of a registry, beside those in JSON and in the same transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import structlog

from ragweir.errors import ConfigurationError, PermanentError, RegistryUnavailable
from ragweir.schemas.packed_scores import HEADER
from ragweir.schemas.registry.frame import framed
from ragweir.schemas.registry.output_schemas import RECORDS
from ragweir.schemas.registry.output_writers import CONTENT_TYPES, Writer, writer
from ragweir.schemas.registry.schema import AVRO, PROTOBUF
from ragweir.schemas.topics import formatted
from ragweir.schemas.window_key import ProgressKey, parse_window_key
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Emission
from ragweir.streams.runtime.registry.client import RegistryClient, SchemaNotFound
from ragweir.streams.settings import Settings

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

COMPATIBILITY: Mapping[str, str] = {AVRO: "FULL_TRANSITIVE", PROTOBUF: "FULL_TRANSITIVE"}
"""The compatibility that the registry is told to check, by the type of schema. A JSON Schema that allows unknown
fields, as ours do, can only be forward compatible with one that has more."""
_FORWARD = "FORWARD_TRANSITIVE"
_PAUSE_SECONDS = 1.0


def written_topics(settings: Settings) -> dict[str, str]:
    """Return the full names of the topics that are written in `output.format`, by the names of those in JSON.

    >>> written_topics(Settings(output={"format": "avro"}))
    {'evaluations': 'rag.evaluations.avro', 'windows': 'rag.windows.avro'}
    """
    form = settings.output.registry_format
    return {} if form is None else {name: settings.output_topic(formatted(name, form)) for name in RECORDS}


def register(settings: Settings) -> dict[str, int]:
    """Register the schemas of `output.format`; return their ids by the names of the subjects.

    The compatibility of a subject is set when it is new.

    Raises:
        PermanentError: if the registry rejects it.
        RegistryUnavailable: if it does not answer.
        ConfigurationError: if there is none.
    """
    ids = {}
    with _client(settings) as client:
        for name, topic in written_topics(settings).items():
            subject, schema = _subject(topic), writer(RECORDS[name], settings.output.format).schema
            is_new = not client.has_subject(subject)
            ids[subject] = client.register(subject, schema)
            if is_new:
                client.set_compatibility(subject, COMPATIBILITY.get(schema.type, _FORWARD))
    return ids


def registered(settings: Settings) -> dict[str, int | None]:
    """Return the ids of the schemas of `output.format`, None for those that are not registered, by subject.

    May raise what `register` raises.
    """
    ids: dict[str, int | None] = {}
    with _client(settings) as client:
        for name, topic in written_topics(settings).items():
            schema = writer(RECORDS[name], settings.output.format).schema
            try:
                ids[_subject(topic)] = client.find(_subject(topic), schema)
            except SchemaNotFound:
                ids[_subject(topic)] = None
    return ids


class OutputForms:
    """Adds to each evaluation and window the same in `output.format`.

    Args:
        settings: all settings, whose `output.format` is not `json`.
        outputs: the names in the topic table of the topics that the service writes.
        on_failure: called with each record that cannot be written in the format.

    Raises:
        ConfigurationError: if there is no registry.
    """

    def __init__(self, settings: Settings, outputs: Collection[str], on_failure: Callable[[], object]) -> None:
        self._on_failure = on_failure
        self._form = form = settings.output.format
        self._client = _client(settings)
        self._full_names = {name: full for name, full in written_topics(settings).items() if name in outputs}
        self.topics = {formatted(name, form): full for name, full in self._full_names.items()}
        """The full names of the topics that are written, by the names that their emissions have."""
        self._writers: dict[str, Writer] = {name: writer(RECORDS[name], form) for name in self._full_names}
        self._ids: dict[str, int] = {}
        self._content_type = CONTENT_TYPES[form].encode()

    def start(self, stopped: Callable[[], bool]) -> None:
        """Look up the ids of the schemas. Wait for the registry, as for a broker, until `stopped` returns true.

        Raises:
            PermanentError: if a schema is not registered, or the registry cannot be read.
        """
        with self._client:
            self._look_up(stopped)

    def _look_up(self, stopped: Callable[[], bool]) -> None:
        is_logged = False
        while len(self._ids) < len(self._full_names) and not stopped():
            try:
                for name in self._full_names.keys() - self._ids.keys():
                    self._ids[name] = self._id(name)
            except RegistryUnavailable as unavailable:
                if not is_logged:
                    log.warning("waiting for the registry, which has the schemas of outputs", reason=str(unavailable))
                is_logged = True
                machine.sleep(_PAUSE_SECONDS)

    def _id(self, name: str) -> int:
        topic = self._full_names[name]
        try:
            return self._client.find(_subject(topic), self._writers[name].schema)
        except SchemaNotFound:
            raise PermanentError(
                f"the registry does not have this release's schema of {topic}: run `ragweir topics create`"
            ) from None

    def added(self, emissions: Sequence[Emission]) -> Sequence[Emission]:
        """Return emissions with their further forms, each behind its own."""
        every: list[Emission] = []
        for emission in emissions:
            every.append(emission)
            if emission.topic in self._ids and (form := self._written(emission)) is not None:
                every.append(form)
        return every

    def _written(self, emission: Emission) -> Emission | None:
        name, value = emission.topic, emission.value
        if name == "windows" and isinstance(parse_window_key(emission.key), ProgressKey):
            return None
        if value is not None:
            try:
                value = framed(self._ids[name], self._writers[name].write(value))
            except Exception as error:  # The JSON has it, and no event may stop a worker for its further form.
                self._on_failure()
                log.error("a record has no further form", topic=name, error=type(error).__name__)
                return None
        headers = tuple(
            (key, self._content_type if key == "content-type" else each)
            for key, each in emission.headers
            if key != HEADER
        )
        return emission._replace(topic=formatted(name, self._form), value=value, headers=headers)


def _client(settings: Settings) -> RegistryClient:
    if settings.registry.url is None:
        raise ConfigurationError(
            f'output.format = "{settings.output.format}" needs registry.url, such as http://registry:8081'
        )
    return RegistryClient(settings.registry)


def _subject(topic: str) -> str:
    """Return the subject of a topic's values, as Confluent's serializers name it by default."""
    return f"{topic}-value"
