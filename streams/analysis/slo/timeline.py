"""HTML report of a rehearsal, with a timeline of each SLO in SVG."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby

from ragweir.streams.analysis.html import document, drawing, row, table, text
from ragweir.streams.analysis.slo.burns import duration
from ragweir.streams.analysis.slo.counting import MINUTE_SECONDS
from ragweir.streams.analysis.slo.rehearsal import (
    AlertRehearsal,
    Firing,
    Rehearsal,
    SloRehearsal,
    duration_text,
    slo_text,
)

_MAX_FIRINGS = 60
"""Bars and table rows of an alert; the longest firings are shown and the rest is counted."""
_WIDTH, _LEFT, _RIGHT, _HEIGHT = 960, 44, 40, 170
_LANE, _AXIS = 18, 20
_TICKS = 6
_DAY_SECONDS = 86_400
_TIME = "%Y-%m-%d %H:%M"

_STYLE = """p { margin: .3rem 0 } table { margin-top: .6rem }
th, td { text-align: left; vertical-align: top }
td { overflow-wrap: anywhere }
.page { fill: var(--bad); stroke: var(--bad); color: var(--bad) }
.ticket { fill: var(--warn); stroke: var(--warn); color: var(--warn) }
path.page, path.ticket { fill: none; stroke-width: 1.6 } line.page, line.ticket { stroke-dasharray: 6 4 }
.share { fill: var(--bar) } .axis { stroke: var(--quiet) } .grid { stroke: var(--rule) }
.during { opacity: .1; stroke: none }
"""


def page(rehearsal: Rehearsal) -> str:
    """Return the report."""
    parts = [
        f"<h1>Alerts rehearsed on {text(rehearsal.source)}</h1>\n",
        f"<p>{rehearsal.evaluations:,} evaluations from {_at(rehearsal.start)} to {_at(rehearsal.end)} UTC. ",
        "The alerts did not exist then; this is when they would have fired.</p>\n",
        *(_section(slo, rehearsal) for slo in rehearsal.slos),
        *_shifts(rehearsal),
    ]
    return document("ragweir slo rehearse", _STYLE, parts)


def _shifts(rehearsal: Rehearsal) -> Iterator[str]:
    if rehearsal.shifts is not None:
        yield "<h2>Shifts of means</h2>\n"
        yield from (f"<p>{text(each, 1_000)}</p>\n" for each in rehearsal.shifts.sentences)


def _at(time: datetime) -> str:
    return f"{time:{_TIME}}"


def _section(slo: SloRehearsal, rehearsal: Rehearsal) -> str:
    head = f"<h2>{text(slo.slo.name)}</h2>\n<p>{text(slo_text(slo.slo), 1_000)}</p>\n"
    if slo.spent is None:
        return f'{head}<p class="quiet">No event counts for it.</p>\n'
    counted = f"<p>{slo.events:,} events, {slo.share or 0:.2%} bad: {slo.spent:.0%} of the error budget.</p>\n"
    return head + counted + _plot(slo, rehearsal) + "".join(map(_alert_result, slo.alerts))


def _alert_result(alert: AlertRehearsal) -> str:
    burn = alert.burn
    name = f'<b class="{burn.severity}">{burn.severity}</b> (above {alert.threshold:.3g} in '
    name += f"{duration(burn.long_m * MINUTE_SECONDS)} and in {duration(burn.short_m * MINUTE_SECONDS)})"
    if alert.firings:
        return f"<p>{name}: would have fired {len(alert.firings)} times.</p>\n{_table(alert)}"
    most = (
        f"at most {alert.closest:.0%} of what fires, at {_at(alert.closest_at)}" if alert.closest_at else "nothing bad"
    )
    return f"<p>{name}: would have been quiet; {most}.</p>\n"


def _longest(firings: Sequence[Firing]) -> list[Firing]:
    chosen = sorted(firings, key=lambda firing: firing.lasted, reverse=True)[:_MAX_FIRINGS]
    return sorted(chosen, key=lambda firing: firing.start)


def _table(alert: AlertRehearsal) -> str:
    rows = []
    for firing in _longest(alert.firings):
        named = [
            f"{text(each.dimension)} {text(each.value)}: {each.bad:,} of {each.events:,} bad"
            for each in firing.concentrated
        ]
        cells = (
            _at(firing.start),
            duration_text(firing.lasted) + (", and on" if firing.ongoing else ""),
            f"{firing.bad:,} of {firing.events:,}",
            f"{firing.peak:.1%}",
            "<br>".join(named) or "no value more than the others",
            "<br>".join(f"{text(each.event_id)} ({each.score:.3g})" for each in firing.examples),
        )
        rows.append(row(cells))
    left = len(alert.firings) - _MAX_FIRINGS
    more = f'<p class="quiet">and {left} shorter ones.</p>\n' if left > 0 else ""
    return table(("from", "for", "bad events", "at most", "concentrated on", "such as"), rows) + more


class _Scales:
    """Coordinates of times and shares in the drawing."""

    def __init__(self, slo: SloRehearsal, rehearsal: Rehearsal) -> None:
        self._start = rehearsal.start.timestamp()
        self._seconds = rehearsal.end.timestamp() - self._start
        points = [point.share for point in slo.timeline if point.share is not None]
        points += [share for point in slo.timeline for share in point.shares if share is not None]
        self.most = min(1.0, 1.05 * max([*points, *(alert.threshold for alert in slo.alerts)]))

    def x(self, time: datetime) -> float:
        return _LEFT + (time.timestamp() - self._start) / self._seconds * (_WIDTH - _LEFT - _RIGHT)

    def y(self, share: float) -> float:
        return _HEIGHT * (1 - share / self.most)


def _plot(slo: SloRehearsal, rehearsal: Rehearsal) -> str:
    """Return a plot of bad events per point and in the alerts' long windows, and of firings."""
    scales = _Scales(slo, rehearsal)
    height = _HEIGHT + _AXIS + _LANE * len(slo.alerts) + 4
    marks = [
        *_axes(scales, rehearsal),
        *_bars(slo, scales, rehearsal.end),
        *(mark for index, alert in enumerate(slo.alerts) for mark in _alert(slo, alert, index, scales)),
    ]
    label = f"Share of bad events of {slo.slo.name} over time, and when its alerts would have fired"
    return drawing(_WIDTH, height, label, marks)


def _axes(scales: _Scales, rehearsal: Rehearsal) -> Iterator[str]:
    right, span = _WIDTH - _RIGHT, rehearsal.end - rehearsal.start
    for share in (0.0, scales.most / 2, scales.most):
        y = scales.y(share)
        yield f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{_LEFT - 6}" y="{max(y, 6) + 4:.1f}" text-anchor="end">{share:.3g}</text>'
    form = "%d %b %H:%M" if span.total_seconds() < _DAY_SECONDS * _TICKS else "%d %b %Y"
    for tick in range(_TICKS + 1):
        time = rehearsal.start + span * tick / _TICKS
        x = scales.x(time)
        yield f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{_HEIGHT}" y2="{_HEIGHT + 4}"/>'
        yield f'<text x="{x:.1f}" y="{_HEIGHT + 15}" text-anchor="middle">{time:{form}}</text>'


def _bars(slo: SloRehearsal, scales: _Scales, end: datetime) -> Iterator[str]:
    """Yield a bar for the share of bad events of each point."""
    starts = [point.start for point in slo.timeline]
    for point, after in zip(slo.timeline, [*starts[1:], end], strict=True):
        if share := point.share:
            x, y = scales.x(point.start), scales.y(share)
            yield (
                f'<rect class="share" x="{x:.1f}" y="{y:.1f}" width="{max(scales.x(after) - x, 0.5):.2f}" '
                f'height="{_HEIGHT - y:.1f}"><title>{_at(point.start)}: {point.bad:,} of {point.events:,} bad</title>'
                "</rect>"
            )


def _alert(slo: SloRehearsal, alert: AlertRehearsal, index: int, scales: _Scales) -> Iterator[str]:
    """Yield an alert's threshold, the share in its long window, and a bar for each firing."""
    kind, right = alert.burn.severity, _WIDTH - _RIGHT
    y = scales.y(alert.threshold)
    yield f'<line class="{kind}" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<text class="{kind}" x="{right + 4}" y="{y + 4:.1f}">{kind}</text>'
    # Windows end with the minutes of a point and are drawn at its start: a point is at most two pixels wide.
    shares = [(point.start, point.shares[index]) for point in slo.timeline]
    for known, group in groupby(shares, key=lambda each: each[1] is not None):
        if known:
            points = [f"{scales.x(time):.1f} {scales.y(share or 0.0):.1f}" for time, share in group]
            yield f'<path class="{kind}" d="M{"L".join(points)}"/>'
    top = _HEIGHT + _AXIS + _LANE * index
    yield f'<text class="{kind}" x="{_LEFT - 6}" y="{top + 12}" text-anchor="end">{kind}</text>'
    for firing in _longest(alert.firings):
        x = scales.x(firing.start)
        width = max(scales.x(firing.end) - x, 1.5)
        yield f'<rect class="{kind} during" x="{x:.1f}" y="0" width="{width:.1f}" height="{_HEIGHT}"/>'
        yield (
            f'<rect class="{kind}" x="{x:.1f}" y="{top + 3}" width="{width:.1f}" height="{_LANE - 6}">'
            f"<title>{kind}: {_at(firing.start)} to {_at(firing.end)}</title></rect>"
        )
