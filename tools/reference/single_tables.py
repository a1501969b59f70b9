"""The pages of tables alone: the alerts, the topics, and the series that services have about themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml  # type: ignore[import-untyped] # of the dev group: only the reference tables need it

from ragweir.schemas.topics import TOPICS, Topic
from ragweir.streams.analysis.slo.burns import BURNS, duration
from ragweir.streams.runtime.kafka.topics import retention_h
from ragweir.streams.runtime.serving.instruments import Instrument
from ragweir.streams.services.instruments import TABLE, owners
from ragweir.streams.settings import Settings
from tools.reference.markdown import anchor, blocks, code, plain, table
from tools.reference.records import link

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules"
_ALERTS = ("alert", "severity", "fires when", "next command")
_TOPICS = ("topic", "record", "key", "kept", "cleanup", "written by", "read by", "text of users or documents")
_SERIES = ("series", "kind", "labels", "meaning")
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_BRANCH = re.compile(r"\{\{.*?\}\}")


def alert_rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield one row per alert: those of every SLO first, then those of ragweir's health.

    >>> [name for name, severity, *_ in alert_rows() if severity == "page"][:2]
    ['`RagweirSloBurnsFast`', '`RagweirDown`']
    """
    for burn in BURNS:
        windows = f"{duration(60 * burn.long_m)} and {duration(60 * burn.short_m)}"
        text = f"An SLO's budget burns over {burn.factor:g} times too fast, over {windows}, "
        yield f"`{burn.alert}`", burn.severity, f"{text}with over {burn.bad} bad events", f"`{burn.next_command}`"
    for file in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    texts = rule["annotations"]
                    commands = " or ".join(f"`{command}`" for command in commands_of(texts["next"]))
                    yield f"`{rule['alert']}`", rule["labels"]["severity"], texts["summary"], commands


def commands_of(annotation: str) -> list[str]:
    """Return the commands that an annotation can name, with labels in capitals.

    >>> commands_of("{{ if eq $labels.a 'b' }}ragweir up{{ else }}ragweir metrics {{ $labels.metric }}{{ end }}")
    ['ragweir up', 'ragweir metrics METRIC']
    """
    named = _LABEL.sub(lambda label: label[1].upper(), annotation)
    return [command for part in _BRANCH.split(named) if (command := part.strip())]


def alerts() -> str:
    """Return the alerts: those of every SLO, and those on ragweir itself."""
    return table(_ALERTS, ((name, severity, plain(text), next_) for name, severity, text, next_ in alert_rows()))


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
