"""The alerts of deploy/prometheus/rules, as rows of a reference table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml  # type: ignore[import-untyped] # of the dev group: only the reference tables need it

from ragweir.streams.analysis.slo.burns import BURNS, duration

RULES = Path(__file__).resolve().parents[3] / "deploy" / "prometheus" / "rules"

HEAD = ("alert", "severity", "fires when", "next command")

_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")
_BRANCH = re.compile(r"\{\{.*?\}\}")


def rows() -> Iterator[tuple[str, str, str, str]]:
    """Yield one row per alert: those of every SLO first, then those of ragweir's health.

    >>> [name for name, severity, *_ in rows() if severity == "page"][:2]
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
