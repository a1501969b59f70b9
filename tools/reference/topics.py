"""The topics: records, keys, retention, and the text of users that each has."""

from __future__ import annotations

from ragweir.schemas.topics import TOPICS, Topic
from tools.reference.markdown import anchor, code, plain, table
from tools.reference.records import link

HEAD = ("topic", "record", "key", "kept", "cleanup", "written by", "read by", "text of users or documents")


def page() -> str:
    """Return the generated part of the page."""
    return table(HEAD, map(_row, TOPICS.values()))


def _row(topic: Topic) -> tuple[str, ...]:
    kept, parts = f"{topic.retention_h // 24} days", (", ".join(topic.writers), ", ".join(topic.readers) or "operator")
    return (
        *(anchor(topic.name), link(topic.model), plain(topic.key), kept, code(topic.cleanup)),
        *(*parts, plain(topic.text)),
    )
