"""Checks of the Schema Registry: that it answers, has the schemas of the newest records, and those of our outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from ragweir.errors import ConfigurationError, PermanentError, RegistryUnavailable, Rejected, TransientError
from ragweir.schemas.registry.frame import schema_id
from ragweir.schemas.registry.schema import FORMATS
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.analysis.registry_records import RecordSchemas
from ragweir.streams.analysis.sample import read_newest
from ragweir.streams.runtime.registry.client import RegistryClient
from ragweir.streams.runtime.registry.output import registered

_SAMPLE = 100
"""The number of newest records whose schemas are read."""
_MOST_SCHEMAS = 5
"""The most schemas that are shown."""


def registry(context: CheckContext) -> str:
    """Check that the registry answers and lets us read."""
    settings = context.settings
    if settings.registry.url is None:
        raise CheckFailed("registry.url is not set, such as http://registry:8081")
    with _failures(), RegistryClient(settings.registry) as client:
        return f"{client.url} has {client.subjects()} subjects"


def schemas(context: CheckContext) -> str:
    """Check that the schemas of the newest records can be used."""
    settings = context.settings
    if settings.input.format not in FORMATS:
        return "input.format needs none"
    topic = settings.input_topic
    context.partitions(topic)
    registry(context)
    with _failures(), RecordSchemas(settings, settings.input.format) as by_id:
        records = read_newest(settings, topic, _SAMPLE)
        numbers = Counter(schema_id(record.value) for record in records if record.value is not None)
        if unnamed := numbers.pop(None, 0):
            raise CheckFailed(f"{unnamed} of the newest {len(records)} records of {topic} name no schema")
        names = [_usable(by_id, number or 0) for number, _ in numbers.most_common()]
    more = f" and {len(names) - _MOST_SCHEMAS} more" if len(names) > _MOST_SCHEMAS else ""
    return f"the newest {len(records)} records name {', '.join(names[:_MOST_SCHEMAS]) or 'none'}{more}"


def _usable(schemas: RecordSchemas, number: int) -> str:
    """Return the id, type and name of a schema that can be used."""
    if isinstance(found := schemas.reader(number), Rejected):
        raise CheckFailed(f"records name a schema that cannot be used: {found.message}")
    return f"schema {number} {schemas.described(number)}"


@contextmanager
def _failures() -> Iterator[None]:
    """Turn errors of the registry, Kafka, the settings and the trial of a schema into failures of the check."""
    try:
        yield
    except RegistryUnavailable as unavailable:
        raise CheckFailed(f"the registry does not answer: {unavailable}; events of new schemas wait for it") from None
    except (PermanentError, ConfigurationError, TransientError) as error:
        raise CheckFailed(str(error)) from None


def output_schemas(context: CheckContext) -> str:
    """Check that the schemas of `output.format` are registered."""
    settings = context.settings
    if settings.output.registry_format is None:
        return "output.format needs none"
    registry(context)
    with _failures():
        missing = [subject for subject, number in registered(settings).items() if number is None]
    if missing:
        raise CheckFailed(f"the registry lacks this release's schema of {', '.join(missing)}: `ragweir topics create`")
    return f"the schemas of {settings.output.format} are registered"
