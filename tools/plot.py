"""Line charts as SVG, for the pictures in docs/, without a plotting package."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, isfinite, log10

Points = Sequence[tuple[float, float]]

_COLOURS = ("#1f6feb", "#d1570a", "#2a9d57", "#8a3ffc", "#b3261e", "#5f6b7a")
_WIDTH, _HEIGHT, _COLUMNS = 470, 300, 2
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 34, 62
_HEAD, _LINE = 34, 15
_TICKS = 5
_THOUSAND = 1_000


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart: named lines, the names of its axes, and their scales."""

    title: str
    across: str
    up: str
    lines: Mapping[str, Points] = field(default_factory=dict)
    log_across: bool = False
    log_up: bool = False


def svg(title: str, notes: Sequence[str], panels: Sequence[Panel]) -> str:
    """Return a picture of these panels, two in a row, below a title and notes."""
    rows, top = ceil(len(panels) / _COLUMNS), _HEAD + _LINE * len(notes)
    width, height = _COLUMNS * _WIDTH, top + rows * _HEIGHT
    noted = [
        f'<text x="12" y="{38 + _LINE * line}" fill="#57606a">{escape(note)}</text>' for line, note in enumerate(notes)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="#24292f"><rect width="{width}" height="{height}" fill="#fff"/>'
        f'<text x="12" y="20" font-size="15" font-weight="bold">{escape(title)}</text>'
    )
    drawn = [
        f'<g transform="translate({number % _COLUMNS * _WIDTH},{top + number // _COLUMNS * _HEIGHT})">'
        f"{_panel(panel)}</g>"
        for number, panel in enumerate(panels)
    ]
    return "\n".join([head, *noted, *drawn, "</svg>\n"])


def _axis(values: Sequence[float], *, log: bool, from_zero: bool) -> tuple[list[float], Callable[[float], float]]:
    """Return the ticks of an axis, and a function that gives the position of a value along it, from 0 to 1."""
    scaled: Callable[[float], float] = log10 if log else float
    if log:
        first, last = floor(log10(min(values))), ceil(log10(max(values)))
        ticks = [10.0**each for each in range(first, max(last, first + 1) + 1)]
    else:
        low, high = min(0.0, *values) if from_zero else min(values), max(values)
        span = (high - low) or abs(high) or 1.0
        step = 10.0 ** floor(log10(span / _TICKS))
        step *= next(each for each in (1, 2, 5, 10) if span / (step * each) <= _TICKS)
        ticks = [each * step for each in range(floor(low / step), ceil((low + span) / step) + 1)]
    start, end = scaled(ticks[0]), scaled(ticks[-1])
    return ticks, lambda value: (scaled(value) - start) / (end - start)


def _panel(panel: Panel) -> str:
    def drawable(x: float, y: float) -> bool:
        """Return True for a finite point that the scales can show."""
        return isfinite(y) and (y > 0 or not panel.log_up) and (x > 0 or not panel.log_across)

    lines = {name: [(x, y) for x, y in points if drawable(x, y)] for name, points in panel.lines.items()}
    lines = {name: points for name, points in lines.items() if points}
    title = f'<text x="{_LEFT}" y="22" font-weight="bold">{escape(panel.title)}</text>'
    if not lines:
        return f'{title}<text x="{_LEFT}" y="60" fill="#57606a">nothing was measured</text>'
    ticks_across, across = _axis([x for line in lines.values() for x, _ in line], log=panel.log_across, from_zero=False)
    ticks_up, up = _axis([y for line in lines.values() for _, y in line], log=panel.log_up, from_zero=True)
    wide, high = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    parts = [title]
    for tick in ticks_up:
        y = _TOP + high * (1 - up(tick))
        parts.append(f'<path d="M{_LEFT} {y:.1f}h{wide}" stroke="#d8dee4"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    for tick in ticks_across:
        x = _LEFT + wide * across(tick)
        parts.append(f'<path d="M{x:.1f} {_TOP + high}v4" stroke="#57606a"/>')
        parts.append(f'<text x="{x:.1f}" y="{_TOP + high + 16}" text-anchor="middle">{_short(tick)}</text>')
    middle = _TOP + high / 2
    parts += [
        f'<path d="M{_LEFT} {_TOP}v{high}h{wide}" fill="none" stroke="#57606a"/>',
        f'<text x="{_LEFT + wide / 2}" y="{_TOP + high + 32}" text-anchor="middle">{escape(panel.across)}</text>',
        f'<text transform="translate(14,{middle}) rotate(-90)" text-anchor="middle">{escape(panel.up)}</text>',
    ]
    at = float(_LEFT)
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        places = [(_LEFT + wide * across(x), _TOP + high * (1 - up(y))) for x, y in points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if len(places) <= 2 * _TICKS:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colour}"/>' for x, y in places]
        if len(lines) > 1:
            y = _HEIGHT - 12
            parts.append(f'<path d="M{at:.0f} {y - 4}h14" stroke="{colour}" stroke-width="3"/>')
            parts.append(f'<text x="{at + 18:.0f}" y="{y}">{escape(name)}</text>')
            at += 30 + 6.4 * len(name)
    return "".join(parts)


def _short(value: float) -> str:
    """Return a number in the space of a tick.

    >>> [_short(each) for each in (0, 0.25, 7, 1500, 2e6)]
    ['0', '0.25', '7', '1.5k', '2M']
    """
    if value == 0:
        return "0"
    for unit, name in ((_THOUSAND**2, "M"), (_THOUSAND, "k")):
        if abs(value) >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"
