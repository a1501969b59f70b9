"""The picture of the demo's incident: every answer's risk over time, and the moments of the drop and of its alert."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 900, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 20, 100, 48
_LANE = 14
"""Height of a moment's label; the labels of moments that are close stand below each other."""
_LANES = 4
_TICK_SECONDS = 5
_STYLE = """
text { font: 12px sans-serif; fill: #24292f } .title { font-size: 15px; font-weight: bold }
.paper { fill: #fff } .quiet { stroke: #d0d7de } .moment { stroke: #57606a; stroke-dasharray: 4 3 }
.v1 { fill: #1f6feb } .v2 { fill: #d1570a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .paper { fill: #0d1117 } .quiet { stroke: #30363d } .moment { stroke: #8b949e }
  .v1 { fill: #58a6ff } .v2 { fill: #f0883e }
}
"""


@dataclass(frozen=True, slots=True)
class RiskPoint:
    """One answer: when it ended, in epoch seconds, its pipeline version and its risk."""

    at_s: float
    version: str
    risk: float


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment of the incident, in epoch seconds."""

    at_s: float
    name: str


def incident(answers: Sequence[RiskPoint], moments: Sequence[Moment], title: str) -> str:
    """Return an SVG picture of answers as dots, and of moments as lines with their names.

    >>> points = [RiskPoint(0.0, "v1", 0.1), RiskPoint(9.0, "v2", 0.9)]
    >>> picture = incident(points, [Moment(4.0, "quality drops")], "risk")
    >>> picture.count("<circle"), "quality drops" in picture
    (4, True)
    """
    times = [*(each.at_s for each in answers), *(each.at_s for each in moments)]
    first, last = min(times, default=0.0), max(times, default=1.0)
    scale = (_WIDTH - _LEFT - _RIGHT) / ((last - first) or 1.0)

    def x(at_s: float) -> float:
        return _LEFT + (at_s - first) * scale

    marks = [*_axes(first, last, scale), *_legend(), *(_line(x(each.at_s), n, each) for n, each in enumerate(moments))]
    marks += [
        f'<circle class="{escape(each.version)}" cx="{x(each.at_s):.1f}" cy="{_y(each.risk):.1f}" r="3" opacity=".75"/>'
        for each in answers
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>'
    )
    return "\n".join(
        (
            head,
            f'<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}"/>',
            f'<text class="title" x="12" y="22">{escape(title)}</text>',
            *marks,
            "</svg>\n",
        )
    )


def _y(risk: float) -> float:
    return _TOP + (1 - risk) * (_HEIGHT - _TOP - _BOTTOM)


def _axes(first: float, last: float, scale: float) -> Iterator[str]:
    for risk in (0.0, 0.5, 1.0):
        yield f'<path class="quiet" d="M{_LEFT} {_y(risk):.1f}H{_WIDTH - _RIGHT}"/>'
        yield f'<text x="{_LEFT - 8}" y="{_y(risk) + 4:.1f}" text-anchor="end">{risk:g}</text>'
    for second in range(0, int(last - first) + 1, _TICK_SECONDS):
        at = f'x="{_LEFT + second * scale:.1f}" y="{_HEIGHT - _BOTTOM + 18}"'
        yield f'<text {at} text-anchor="middle">{second} s</text>'


def _legend() -> Iterator[str]:
    for place, version in enumerate(("v1", "v2")):
        at = _LEFT + 60 * place
        yield f'<circle class="{version}" cx="{at + 5}" cy="{_HEIGHT - 12}" r="5"/>'
        yield f'<text x="{at + 16}" y="{_HEIGHT - 8}">{version}</text>'


def _line(at: float, number: int, moment: Moment) -> str:
    label_y = 44 + _LANE * (number % _LANES)
    before = at > _WIDTH / 2
    placed = f'x="{at - 5 if before else at + 5:.1f}" text-anchor="{"end" if before else "start"}"'
    line = f'<path class="moment" d="M{at:.1f} {label_y - 9}V{_HEIGHT - _BOTTOM}"/>'
    return f'{line}<text {placed} y="{label_y}">{escape(moment.name)}</text>'
