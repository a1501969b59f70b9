"""The pages of tables alone: the alerts, the topics, and the series that services have about themselves."""

from __future__ import annotations

from collections.abc import Iterator

from ragweir.schemas.topics import TOPICS, Topic
from ragweir.streams.analysis.slo import shipped
from ragweir.streams.runtime.kafka.topics import retention_h
from ragweir.streams.runtime.serving.instruments import Instrument
from ragweir.streams.services.instruments import TABLE, owners
from ragweir.streams.settings import Settings
from tools.reference.markdown import anchor, blocks, code, plain, table
from tools.reference.records import link

_TOPICS = ("topic", "record", "key", "kept", "cleanup", "written by", "read by", "text of users or documents")
_SERIES = ("series", "kind", "labels", "meaning")


def alerts() -> str:
    """Return the alerts: those of every SLO, and those on ragweir itself."""
    return table(shipped.HEAD, ((name, severity, plain(text), next_) for name, severity, text, next_ in shipped.rows()))


def topics() -> str:
    """Return the topics: records, keys, retention, and the text of users that each has."""
    return table(_TOPICS, map(_topic, TOPICS.values()))


def _topic(topic: Topic) -> tuple[str, ...]:
    kept = f"{retention_h(topic, Settings()) // 24} days"
    parts = (", ".join(topic.writers), ", ".join(topic.readers) or "operator")
    return (
        *(anchor(topic.name), link(topic.model), plain(topic.key), kept, code(topic.cleanup)),
        *(*parts, plain(topic.text)),
    )


def telemetry() -> str:
    """Return the series by the services that have them, first those of all; the page has those of the windows."""
    return blocks(*(blocks(f"## {title}", table(_SERIES, map(_series, lines))) for title, lines in _sections()))


def _sections() -> Iterator[tuple[str, list[Instrument]]]:
    for by in sorted(dict.fromkeys(map(owners, TABLE)), key=len):
        title = f"Series of {' and '.join(f'`{each}`' for each in by)}" if by else "Series of all services"
        yield title, [line for line in TABLE if owners(line) == by]


def _series(line: Instrument) -> tuple[str, ...]:
    return code(line.name), line.kind, ", ".join(map(code, line.labels)), plain(line.help)
