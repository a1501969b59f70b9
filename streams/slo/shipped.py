"""The alerts of deploy/prometheus/rules, as rows of a reference table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml  # type: ignore[import-untyped] # of the dev group: only the reference tables need it

from ragweir.streams.slo.burns import BURNS, duration

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules"

HEAD = ("alert", "severity", "fires when")


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield one row per alert: those of every SLO first, then those of ragweir's health.

    >>> [name for name, severity, _ in rows() if severity == "page"][:2]
    ['`RagweirSloBurnsFast`', '`RagweirDown`']
    """
    for burn in BURNS:
        windows = f"{duration(60 * burn.long_m)} and {duration(60 * burn.short_m)}"
        text = f"An SLO's budget burns over {burn.factor:g} times too fast, over {windows}, "
        yield f"`{burn.alert}`", burn.severity, f"{text}with over {burn.bad} bad events"
    for file in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(file.read_text(encoding="utf-8"))["groups"]:
            for rule in group["rules"]:
                if "alert" in rule:
                    yield f"`{rule['alert']}`", rule["labels"]["severity"], rule["annotations"]["summary"]
