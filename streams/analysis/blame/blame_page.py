"""HTML report of causes: their differences as intervals, and bad and good answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from itertools import zip_longest

from ragweir.streams.analysis.blame.blame_report import BlameReport, NamedCause, titled
from ragweir.streams.analysis.html import document, drawing, row, table, text
from ragweir.streams.analysis.labels.event_texts import EventTexts

_ROWS, _EXAMPLES_OF, _TEXT = 60, 20, 1_200
_ROW, _LEFT, _WIDTH = 22, 330, 960
_STYLE = """th, td { text-align: right; vertical-align: top }
th:first-child, td:first-child { text-align: left; overflow-wrap: anywhere }
.pairs { table-layout: fixed } .pairs td { text-align: left; overflow-wrap: anywhere; white-space: pre-wrap }
.pairs th { text-align: left } .pairs b { display: block }
.cause { color: var(--bad); fill: var(--bad); stroke: var(--bad) }
.silenced { color: var(--quiet); fill: var(--quiet); stroke: var(--quiet) }
.note { background: var(--note); padding: .5rem .8rem }
"""


def page(report: BlameReport, texts: Mapping[str, EventTexts]) -> str:
    """Return the report.

    Args:
        report: the causes.
        texts: the texts of examples by id; those without have their ids alone.
    """
    verdict = report.verdict
    parts = [
        "<h1>Causes of bad answers</h1>\n",
        f"<p>{text(report.headline, 1_000)}.</p>\n",
        f"<p><b>{text(verdict)}</b>.</p>\n" if verdict else "",
        "" if report.enough else '<p class="note">There is too little data to find a cause.</p>\n',
        _plot(report),
        _table(report),
        *(_pairs(report, place, texts) for place in range(min(_EXAMPLES_OF, len(report.causes)))),
        *(f'<p class="quiet">{text(note, 1_000)}.</p>\n' for note in report.notes),
    ]
    return document("ragweir blame", _STYLE, parts)


def _name(report: BlameReport, cause: NamedCause) -> str:
    """Return the name of a cause, with the one that it is within."""
    holder, own = report.holder(cause), titled(report.own_facets(cause))
    return own if holder is None else f"within {holder.title}: {own}"


def _kind(cause: NamedCause) -> str:
    return "cause" if cause.silence is None else "silenced"


def _interval(cause: NamedCause) -> str:
    own = cause.numbers
    return f"{100 * own.difference:+.0f} ({100 * own.low:+.0f} to {100 * own.high:+.0f})"


def _plot(report: BlameReport) -> str:
    """Return a plot of the differences with their limits, in percentage points."""
    shown = report.causes[:_ROWS]
    if not shown:
        return ""
    scale = (_WIDTH - _LEFT) / max(1e-9, *(cause.numbers.high for cause in shown))
    height = _ROW * (len(shown) + 1)
    marks = [
        f'<line x1="{_LEFT}" y1="0" x2="{_LEFT}" y2="{height - _ROW}" class="axis"/>',
        f'<text x="{_LEFT}" y="{height - 6}">0 points</text>',
    ]
    for number, cause in enumerate(shown):
        own, y = cause.numbers, _ROW * number + _ROW / 2
        low, middle, high = (_LEFT + scale * max(0.0, each) for each in (own.low, own.difference, own.high))
        marks.append(
            f'<g class="{_kind(cause)}"><title>{text(_name(report, cause))}: {_interval(cause)}</title>'
            f'<text x="{_LEFT - 10}" y="{y + 4}" text-anchor="end">{text(cause.title, 45)}</text>'
            f'<line x1="{low:.1f}" y1="{y}" x2="{high:.1f}" y2="{y}" stroke-width="2"/>'
            f'<circle cx="{middle:.1f}" cy="{y}" r="4"/></g>'
        )
    return drawing(_WIDTH, height, "Differences of the shares of bad answers with their intervals", marks)


def _table(report: BlameReport) -> str:
    if not report.causes:
        return ""
    head = (text(report.words), "bad", "answers", "excess", "difference (points)", "p")
    rows = []
    for cause in report.causes[:_ROWS]:
        own = cause.numbers
        cells = (
            f"{own.bad:,}",
            f"{own.servings:,}",
            f"{own.excess_bad:,.0f}",
            _interval(cause),
            f"{own.p_adjusted:.1g}",
        )
        rows.append(row((text(_name(report, cause)) + _remarks(cause), *cells), kind=_kind(cause)))
    more = len(report.causes) - _ROWS
    return table(head, rows) + (f'<p class="quiet">and {more:,} more.</p>\n' if more > 0 else "")


def _remarks(cause: NamedCause) -> str:
    """Return the further names of a cause, and its silence."""
    also = ", ".join(f"{facet} {value}" for facet, value in cause.also[:3])
    found = [f"the same answers: {also}"] if also else []
    if (silence := cause.silence) is not None:
        found.append(f"silenced until {silence.until.astimezone(UTC):%Y-%m-%d %H:%M} UTC: {silence.reason}")
    return "".join(f'<br><span class="quiet">{text(each, 800)}</span>' for each in found)


def _pairs(report: BlameReport, place: int, texts: Mapping[str, EventTexts]) -> str:
    """Return bad answers with a cause beside good ones without it."""
    cause = report.causes[place]
    pairs = zip_longest(cause.bad_examples, cause.good_examples)
    rows = [row(_answer(each, texts) for each in pair) for pair in pairs]
    if not rows:
        return ""
    pairs_table = table(("bad, with it", "good, without it"), rows).replace("<table>", '<table class="pairs">', 1)
    return f"<h2>{text(_name(report, cause))}</h2>\n{pairs_table}"


def _answer(event_id: str | None, texts: Mapping[str, EventTexts]) -> str:
    if event_id is None:
        return ""
    own = texts.get(event_id)
    said = "" if own is None else f"{text(own.query, _TEXT)}\n\n{text(own.response, _TEXT)}"
    return f"<b>{text(event_id)}</b>{said}"
