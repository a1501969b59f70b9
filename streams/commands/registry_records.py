"""Prints the schemas that the records of a sample name, and reads the records as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import typer

from ragweir.errors import Rejected
from ragweir.schemas.registry.frame import schema_id
from ragweir.streams.analysis.registry_records import RecordSchemas
from ragweir.streams.commands.app import FAILURE, out
from ragweir.streams.commands.sampled import show_rejections
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.settings import Settings


def has_schemas(records: Sequence[Record]) -> bool:
    """Return whether most records name a schema."""
    return 2 * sum(schema_id(record.value) is not None for record in records) > len(records)


def as_json(settings: Settings, records: Sequence[Record]) -> list[Record]:
    """Print the schemas of records, and the reasons why some cannot be read; return the others with JSON as values.

    Raises:
        PermanentError: if there is no registry, or it does not answer or may not be read.
        ConfigurationError: if a Protobuf message is met without its descriptor set.
    """
    decoded: list[Record] = []
    rejections: list[Rejected] = []
    counts: Counter[int] = Counter()
    with RecordSchemas(settings) as schemas:
        for record in records:
            try:
                if (number := schema_id(record.value)) is not None:
                    counts[number] += 1
                decoded.append(record._replace(value=schemas.as_json(record.value)))
            except Rejected as rejected:
                rejections.append(rejected)
    out.say(f"The records name these schemas of {schemas.url}:")
    for number, count in counts.most_common():
        out.say(f"{count:>6}  schema {number}: {printable(schemas.described(number), None)}")
    show_rejections("cannot be read", rejections)
    if not decoded:
        raise typer.Exit(FAILURE)
    form = schemas.form
    if form is not None and form != settings.input.format:
        out.say(f'To evaluate them, set input.format = "{form}".')
    return decoded
