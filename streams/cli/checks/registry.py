"""Checks of the Schema Registry: that it answers, has the schemas of the newest records, and those of our outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ragweir.errors import ConfigurationError, PermanentError, RegistryUnavailable, Rejected, Unreachable
from ragweir.schemas.registry.frame import schema_id
from ragweir.schemas.registry.readers import name_of
from ragweir.schemas.registry.schema import FORMATS, Read, Schema
from ragweir.streams.cli.checks.context import CheckContext, CheckFailed
from ragweir.streams.from_settings import schema_reader
from ragweir.streams.registry.client import RegistryClient, SchemaNotFound
from ragweir.streams.registry.output import registered
from ragweir.streams.sample import read_newest

_SAMPLE = 100
"""The number of newest records whose schemas are read."""
_MOST_SCHEMAS = 5
"""The most schemas that are shown."""


def registry(context: CheckContext) -> str:
    """Check that the registry answers and lets us read."""
    settings = context.settings
    if settings.registry.url is None:
        raise CheckFailed("registry.url is not set, such as http://registry:8081")
    with _failures():
        client = RegistryClient(settings.registry)
        subjects = client.subjects()
    return f"{client.url} has {subjects} subjects"


def schemas(context: CheckContext) -> str:
    """Check that the schemas of the newest records can be used."""
    settings = context.settings
    if settings.input.format not in FORMATS:
        return "input.format needs none"
    topic = settings.input_topic
    context.partitions(topic)
    registry(context)
    with _failures():
        make, client = schema_reader(settings, settings.input.format), RegistryClient(settings.registry)
        records = read_newest(settings, topic, _SAMPLE)
        numbers = Counter(schema_id(record.value) for record in records if record.value is not None)
        if unnamed := numbers.pop(None, 0):
            raise CheckFailed(f"{unnamed} of the newest {len(records)} records of {topic} name no schema")
        names = [_usable(client, make, number or 0) for number, _ in numbers.most_common()]
    more = f" and {len(names) - _MOST_SCHEMAS} more" if len(names) > _MOST_SCHEMAS else ""
    return f"the newest {len(records)} records name {', '.join(names[:_MOST_SCHEMAS]) or 'none'}{more}"


def _usable(client: RegistryClient, make: Callable[[int, Schema], Read | Rejected], number: int) -> str:
    """Return the id and the name of a schema that can be used."""
    try:
        schema = client.schema(number)
    except SchemaNotFound:
        raise CheckFailed(f"schema {number}, which records name, is not in the registry") from None
    if isinstance(made := make(number, schema), Rejected):
        raise CheckFailed(f"records name a schema that cannot be used: {made.message}")
    return f"schema {number} {name_of(schema)}".rstrip()


@contextmanager
def _failures() -> Iterator[None]:
    """Turn errors of the registry, Kafka and the settings into failures of the check."""
    try:
        yield
    except RegistryUnavailable as unavailable:
        raise CheckFailed(f"the registry does not answer: {unavailable}; events of new schemas wait for it") from None
    except (PermanentError, ConfigurationError, Unreachable) as error:
        raise CheckFailed(str(error)) from None


def output_schemas(context: CheckContext) -> str:
    """Check that the schemas of `output.format` are registered."""
    settings = context.settings
    if settings.output.format == "json":
        return "output.format needs none"
    registry(context)
    with _failures():
        missing = [subject for subject, number in registered(settings).items() if number is None]
    if missing:
        raise CheckFailed(f"the registry lacks this release's schema of {', '.join(missing)}: `ragweir topics create`")
    return f"the schemas of {settings.output.format} are registered"
