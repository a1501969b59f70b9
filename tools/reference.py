"""Generates the reference tables of the README; `python -m tools.reference` rewrites them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from ragweir.metrics.catalogue import everything
from ragweir.schemas.topics import TOPICS
from ragweir.streams.serving.telemetry import TABLE
from ragweir.streams.settings import Settings, SettingsGroup
from ragweir.streams.slo import shipped as alerts

README = Path(__file__).resolve().parents[1] / "README.md"
_MARKUP = re.compile(r"\b_+|_+\b|[*<]")
"""Markup outside of code: underscores at the edge of a word, asterisks, and the begin of a tag."""


def _markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [list(head)]
    lines.append(["---"] * len(lines[0]))
    lines += [[_cell(text) for text in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(text: str) -> str:
    r"""Return a text as a cell: without line breaks, and with markup outside of backticks escaped.

    >>> _cell("one | two,\n\nin __three__, `__four__`")
    'one \\| two, in \\_\\_three\\_\\_, `__four__`'
    """
    pieces = " ".join(text.split()).replace("|", "\\|").split("`")
    pieces[::2] = (_MARKUP.sub(lambda found: "".join(f"\\{each}" for each in found[0]), piece) for piece in pieces[::2])
    return "`".join(pieces)


def _metrics() -> str:
    rows = (
        (f"`{m.name}`", m.group, m.cost, m.unit, m.range, m.better, ", ".join(m.needs), m.meaning, m.source)
        for m in everything()
    )
    return _markdown(("metric", "group", "cost", "unit", "bounds", "better", "needs", "meaning", "source"), rows)


def _topics() -> str:
    rows = ((f"`{t.name}`", t.key, f"{t.retention_h // 24} days", t.cleanup, t.text) for t in TOPICS.values())
    return _markdown(("topic", "key", "kept", "cleanup", "text of users or documents"), rows)


def _telemetry() -> str:
    rows = ((f"`{line.name}`", line.kind, ", ".join(line.labels), line.help) for line in TABLE)
    return _markdown(("series", "kind", "labels", "meaning"), rows)


def _settings() -> str:
    rows = (
        (f"`{group}.{name}`", _default(default), field.description or "")
        for group, values in Settings.model_fields.items()
        if isinstance(values.default, SettingsGroup)
        for name, field in values.default.__class__.model_fields.items()
        for default in [field.get_default(call_default_factory=True)]
    )
    return _markdown(("setting", "default", "meaning"), rows)


def _default(default: object) -> str:
    """Return a default for the table; rules have their own chapter."""
    if isinstance(default, tuple) and any(isinstance(each, SettingsGroup) for each in default):
        return "see above"
    return f"`{default!r}`"


TABLES: dict[str, Callable[[], str]] = {
    "metrics": _metrics,
    "topics": _topics,
    "telemetry": _telemetry,
    "alerts": lambda: _markdown(alerts.HEAD, alerts.rows()),
    "settings": _settings,
}


def rewritten(text: str) -> str:
    """Return a text with new tables between their marks (`<!-- metrics -->` to `<!-- /metrics -->`)."""
    for name, table in TABLES.items():
        between = re.compile(f"(?<=<!-- {name} -->\n).*?(?=<!-- /{name} -->)", re.DOTALL)
        text = between.sub(lambda _, made=table: f"{made()}\n", text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text(encoding="utf-8")), encoding="utf-8")
