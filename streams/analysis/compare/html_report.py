"""HTML report of a comparison, with tables and with plots in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from ragweir.metrics.aggregation.paired_differences import Difference
from ragweir.streams.analysis.compare.comparison import Change, Comparison, MetricChange, Side
from ragweir.streams.analysis.compare.moments import ChangeTimeline
from ragweir.streams.analysis.html import document, drawing, row, table, text

_MAX_ROWS = 60
"""Rows of a plot or table; further ones are counted."""
_EVENT_METRICS = 20
_ROW, _LEFT, _WIDTH = 22, 330, 960
_MARGIN = 1.08
_TIMELINES = 12
"""Number of metrics whose means are drawn over time."""
_HEIGHT, _AXIS, _EDGE = 150, 60, 18
_TIME = "%Y-%m-%d %H:%M"

_STYLE = """th, td { text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere }
.worse { color: var(--bad); fill: var(--bad); stroke: var(--bad) }
.better { color: var(--good); fill: var(--good); stroke: var(--good) }
.changed { color: var(--mark); fill: var(--mark); stroke: var(--mark) }
.unchanged { color: var(--quiet); fill: var(--quiet); stroke: var(--quiet) }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem } .line { fill: none; stroke-width: 1.6 }
.moment { stroke: var(--quiet); stroke-dasharray: 5 4 }
.note { background: var(--note); padding: .5rem .8rem }
"""


def page(comparison: Comparison) -> str:
    """Return the report."""
    changes = comparison.changes
    whole = [change for change in changes if change.dimension is None and change.difference.pairs]
    slices = [change for change in changes if change.dimension is not None and change.significant]
    metrics = {metric.metric: metric for metric in comparison.metrics}
    parts = [
        f"<h1>{text(comparison.b.name)} compared with {text(comparison.a.name)}</h1>\n",
        _sides(comparison),
        f"<p><b>{sum(change.significant for change in whole)}</b> of {len(whole)} metrics and <b>{len(slices)}</b> ",
        f"slices changed significantly, at a false discovery rate of 5 % over {comparison.tests} tests.</p>\n",
        "<h2>All events</h2>\n",
        _plot(whole),
        _table([change for change in whole if _has_changed(change)], metrics),
        _unchanged([change.metric for change in whole if not _has_changed(change)]),
        _timelines([metrics[change.metric] for change in whole]),
        "<h2>Slices that changed significantly</h2>\n" if slices else "",
        _plot(slices),
        _table(slices, metrics),
        _events([metrics[change.metric] for change in whole if change.difference.mean]),
    ]
    return document("ragweir compare", _STYLE, parts)


def _sides(comparison: Comparison) -> str:
    rows = (_side(letter, side) for letter, side in (("A", comparison.a), ("B", comparison.b)))
    note = f'<p class="note">{text(comparison.versions, 1_000)}.</p>\n' if comparison.versions else ""
    sides = table(("side", "evaluations", "events", "only here", "catalogue versions"), rows)
    clusters = f" {text(comparison.clustering)}." if comparison.clustering else ""
    return f"{sides}<p>{comparison.pairs:,} events on both sides.{clusters}</p>\n{note}"


def _side(letter: str, side: Side) -> str:
    versions = ", ".join(f"{text(version)}: {count:,}" for version, count in side.catalogue_versions.items())
    return row((f"{letter}: {text(side.name)}", f"{side.records:,}", f"{side.events:,}", f"{side.only:,}", versions))


def _has_changed(change: Change) -> bool:
    return bool(change.difference.rose or change.difference.fell)


def _unchanged(names: Sequence[str]) -> str:
    listed = ", ".join(text(name) for name in names)
    return f'<p class="quiet">The same on every event: {listed}.</p>\n' if names else ""


def _name(change: Change) -> str:
    return change.metric if change.dimension is None else f"{change.metric}, {change.dimension} {change.value}"


def _plot(changes: Sequence[Change]) -> str:
    """Return a plot of intervals, in standard deviations of the differences, so that all metrics share one axis."""
    shown = [(change, limits) for change in changes if (limits := _standardised(change.difference))][:_MAX_ROWS]
    if not shown:
        return ""
    reach = _MARGIN * max(abs(limit) for _, limits in shown for limit in limits)
    middle, scale = (_LEFT + _WIDTH) / 2, (_WIDTH - _LEFT) / 2 / (reach or 1.0)
    height = _ROW * (len(shown) + 1)
    marks = [
        f'<line x1="{middle}" y1="0" x2="{middle}" y2="{height - _ROW}" class="axis"/>',
        f'<text x="{middle}" y="{height - 6}" text-anchor="middle">0</text>',
        f'<text x="{_WIDTH}" y="{height - 6}" text-anchor="end">+{reach:.3g} standard deviations</text>',
        f'<text x="{_LEFT}" y="{height - 6}">-{reach:.3g}</text>',
    ]
    for number, (change, limits) in enumerate(shown):
        y = _ROW * number + _ROW / 2
        low, mean, high = (middle + scale * limit for limit in limits)
        marks.append(
            f'<g class="{change.verdict}"><title>{text(_name(change))}: {_interval(change.difference)}</title>'
            f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{text(_name(change), 50)}</text>'
            f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" stroke-width="2"/>'
            f'<circle cx="{mean:.1f}" cy="{y}" r="4"/></g>'
        )
    return drawing(_WIDTH, height, "Standardised mean differences with 95 % intervals", marks)


def _timelines(metrics: Sequence[MetricChange]) -> str:
    """Return a drawing of the means over time of the metrics that changed most."""
    found = [(metric, metric.timeline) for metric in metrics if metric.timeline is not None][:_TIMELINES]
    if not found:
        return ""
    drawn = "".join(f"<h3>{text(metric.metric)}</h3>\n{_timeline(metric, own)}" for metric, own in found)
    return f"<h2>Since when</h2>\n{drawn}"


def _timeline(metric: MetricChange, own: ChangeTimeline) -> str:
    starts = [point.start.timestamp() for point in own.points]
    levels = [level for point in own.points for level in (point.before, point.after)]
    low, high = min(levels), max(levels)
    times, values = (starts[0], starts[-1]), (low, high if high > low else low + 1)

    def x(at: float) -> float:
        return _AXIS + (_WIDTH - _AXIS - _EDGE) * (at - times[0]) / (times[1] - times[0])

    def y(level: float) -> float:
        return _EDGE + (_HEIGHT - 2 * _EDGE) * (values[1] - level) / (values[1] - values[0])

    marks = [
        *(f'<text x="{_AXIS - 8}" y="{y(level) + 4:.1f}" text-anchor="end">{level:.3g}</text>' for level in values),
        *(
            f'<text x="{x(at):.1f}" y="{_HEIGHT}" text-anchor="{anchor}">'
            f"{datetime.fromtimestamp(at, UTC):{_TIME}}</text>"
            for at, anchor in zip(times, ("start", "end"), strict=True)
        ),
    ]
    sides = (
        ("unchanged", "A", [point.before for point in own.points]),
        (metric.whole.verdict, "B", [point.after for point in own.points]),
    )
    for kind, name, side in sides:
        line = " ".join(f"{x(at):.1f},{y(level):.1f}" for at, level in zip(starts, side, strict=True))
        marks.append(f'<polyline class="{kind} line" points="{line}"><title>{name}</title></polyline>')
    said = "no begin of the difference is certain."
    if own.began is not None:
        said = "they differ from the first events on."
        if not own.from_start:
            said = f"they differ most probably from {own.began:{_TIME}} UTC on."
        at = x(min(max(own.began.timestamp(), times[0]), times[1]))
        marks.append(f'<line class="moment" x1="{at:.1f}" y1="{_EDGE / 2}" x2="{at:.1f}" y2="{_HEIGHT - _EDGE}"/>')
    label = f"Means of {metric.metric} over time on both sides"
    note = f'<p><span class="unchanged">A</span> and <span class="{metric.whole.verdict}">B</span>: {said}</p>\n'
    return note + drawing(_WIDTH, _HEIGHT + 4, label, marks)


def _standardised(found: Difference) -> tuple[float, float, float] | None:
    if found.mean is None or found.low is None or found.high is None or not found.effect:
        return None
    deviation = found.mean / found.effect
    return found.low / deviation, found.effect, found.high / deviation


def _interval(found: Difference) -> str:
    mean = "" if found.mean is None else f"{found.mean:+.4g}"
    return mean if found.low is None else f"{mean} ({found.low:+.4g} to {found.high:+.4g})"


def _table(changes: Sequence[Change], metrics: dict[str, MetricChange]) -> str:
    if not changes:
        return ""
    head = ("metric", "A", "B", "B - A (95 %)", "effect", "better", "worse", "q", "pairs", "only A", "only B")
    rows = []
    for change in changes[:_MAX_ROWS]:
        found, metric = change.difference, metrics[change.metric]
        numbers = (found.before, found.after)
        shares = (change.better, change.worse)
        cells = (
            text(_name(change)),
            *("" if number is None else f"{number:.4g}" for number in numbers),
            _interval(found),
            "" if found.effect is None else f"{found.effect:+.2f}",
            *("" if share is None else f"{share:.1%}" for share in shares),
            "" if change.q is None else f"{change.q:.2g}",
            f"{found.pairs:,}",
            *(("", "") if change.dimension is not None else (f"{metric.only_a:,}", f"{metric.only_b:,}")),
        )
        rows.append(row(cells, kind=change.verdict))
    more = f'<p class="quiet">and {len(changes) - _MAX_ROWS} more.</p>\n' if len(changes) > _MAX_ROWS else ""
    return table(head, rows) + more


def _events(metrics: Sequence[MetricChange]) -> str:
    rows = [
        row((text(metric.metric), text(event.event_id), f"{event.before:.4g}", f"{event.after:.4g}"))
        for metric in metrics[:_EVENT_METRICS]
        for event in metric.events
    ]
    return "<h2>Most changed events</h2>\n" + table(("metric", "event", "A", "B"), rows) if rows else ""
