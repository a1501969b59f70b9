"""HTML report of labels, with a plot of each table's numbers and their limits in SVG."""

from __future__ import annotations

from collections.abc import Iterator

from ragweir.metrics.people.shares import Limits
from ragweir.streams.analysis.html import document, drawing, row, table, text
from ragweir.streams.analysis.labels.report import NUMBERS, AgreementTable, LabelReport

_ROW, _LEFT, _WIDTH, _RIGHT = 26, 330, 900, 40
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)
_STYLE = """th, td { text-align: right } th:first-child, td:first-child { text-align: left }
svg line { stroke: var(--rule) } svg .limits { stroke: var(--mark); stroke-width: 4 } svg circle { fill: var(--mark) }
.note { background: var(--note); padding: .5rem .8rem }
"""


def page(report: LabelReport) -> str:
    """Return the report."""
    notes = [f'<p class="note">{text(note, 1_000)}</p>\n' for note in report.notes]
    parts = [part for each in report.tables for part in _parts(each)]
    return document("ragweir labels report", _STYLE, ["<h1>Agreement with people</h1>\n", *notes, *parts])


def _parts(found: AgreementTable) -> Iterator[str]:
    yield f"<h2>{text(found.title)}</h2>\n"
    yield f'<p class="quiet">{text(found.basis, 1_000)}</p>\n'
    yield _plot(found)
    yield table(("", "value", "95 % limits", "labels"), (row(_cells(name, each)) for name, each in found.numbers))


def _cells(name: str, found: Limits | str) -> tuple[str, ...]:
    if isinstance(found, str):
        return text(NUMBERS[name]), f'<span class="quiet">{text(found)}</span>', "", ""
    return text(NUMBERS[name]), f"{found.value:.3f}", f"{found.low:.3f} to {found.high:.3f}", f"{found.n:,}"


def _plot(found: AgreementTable) -> str:
    """Return a plot of the numbers from 0 to 1; a part of kappa's limits below 0 is cut."""
    shown = [(NUMBERS[name], each) for name, each in found.numbers if isinstance(each, Limits)]
    if not shown:
        return ""
    height = _ROW * len(shown) + 24

    def at(value: float) -> float:
        return round(_LEFT + max(0.0, value) * (_WIDTH - _LEFT - _RIGHT), 1)

    marks = []
    for tick in _TICKS:
        marks.append(f'<line x1="{at(tick)}" y1="0" x2="{at(tick)}" y2="{height - 20}"/>')
        marks.append(f'<text x="{at(tick)}" y="{height - 6}" text-anchor="middle">{tick:g}</text>')
    for place, (name, each) in enumerate(shown):
        y = _ROW * place + 16
        marks.append(f'<text x="{_LEFT - 12}" y="{y + 4}" text-anchor="end">{text(name)}</text>')
        marks.append(f'<line class="limits" x1="{at(each.low)}" y1="{y}" x2="{at(each.high)}" y2="{y}"/>')
        marks.append(f'<circle cx="{at(each.value)}" cy="{y}" r="5"/>')
    return drawing(_WIDTH, height, f"95 % limits: {found.title}", marks)
