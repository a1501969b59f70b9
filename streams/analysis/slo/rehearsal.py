"""Rehearsal of SLO alerts on past events: when they would have fired, and because of which events.

Windows and thresholds are those of `ragweir.streams.analysis.slo.burns`. Alerts are evaluated at the end of each
minute, on counters that grow by each minute's events at its end. Prometheus sees events when they are counted, not when
they happened, and evaluates between scrapes: its result differs by about a minute, and by as much as events are late.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from ragweir.streams.analysis.slo.burns import BURNS, Burn
from ragweir.streams.analysis.slo.certainty import BAD, GOOD
from ragweir.streams.analysis.slo.counting import MINUTE_SECONDS, Example, SloCounter, minute_of, time_of
from ragweir.streams.analysis.slo.minutes import CountColumns
from ragweir.streams.analysis.slo.periods import ActivePeriod, Flags, active_periods
from ragweir.streams.analysis.slo.shifts import ShiftRehearsal
from ragweir.streams.settings import Slo

MAX_POINTS = 480
"""Maximum number of points of a timeline."""
NONE = "(none)"

_SHOWN_VALUES = 3
"""Values of one dimension in a list of concentrations."""
_MIN_EXCESS = 0.1
"""Minimum excess of a listed value, as a part of all bad events."""


@dataclass(frozen=True, slots=True)
class Concentration:
    """A dimension value with more bad events than the share of bad events of all other values predicts."""

    dimension: str
    value: str
    events: int
    bad: int
    excess: float
    """Bad events above the prediction."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A period in which an alert would have fired."""

    start: datetime
    end: datetime
    ongoing: bool
    """True if it lasts to the end of the history."""
    events: int
    """Events from the start of the first long window to the end."""
    bad: int
    peak: float
    """The largest share of bad events in the long window."""
    concentrated: tuple[Concentration, ...]
    """By descending excess."""
    examples: tuple[Example, ...]
    """The worst events, the worst first."""
    causes: Mapping[str, Any] | None = None
    """The causes of its bad events, as `ragweir blame --json` prints them, with a sentence on each; None of tickets."""

    @property
    def lasted(self) -> timedelta:
        """Its duration within the history."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class AlertRehearsal:
    """The firings of one alert."""

    burn: Burn
    threshold: float
    firings: tuple[Firing, ...]
    closest: float
    """Maximum over time of the least fulfilled of its three conditions, as value divided by limit; at most 1."""
    closest_at: datetime | None
    """Time of the maximum; None without bad events."""


@dataclass(frozen=True, slots=True)
class Point:
    """One of the equal parts of a timeline."""

    start: datetime
    events: int
    bad: int
    share: float | None
    """Share of bad events; of a judged metric the estimate. None without events."""
    shares: tuple[float | None, ...]
    """The largest share of bad events in the long window of each alert; None without events."""


@dataclass(frozen=True, slots=True)
class SloRehearsal:
    """The rehearsal of one SLO."""

    slo: Slo
    events: int
    """Good and bad events; of a judged metric the judged ones."""
    bad: int
    share: float | None
    """Share of bad events; of a judged metric the estimate for all events. None without events."""
    spent: float | None
    """Part of the error budget spent in the whole history; None without events."""
    alerts: tuple[AlertRehearsal, ...]
    timeline: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """The rehearsal of all SLOs, from the first to the last minute with events."""

    source: str
    evaluations: int
    outside: int
    """Evaluations outside the requested times."""
    rejected: int
    """Records that are not evaluations."""
    start: datetime
    end: datetime
    by: tuple[str, ...]
    slos: tuple[SloRehearsal, ...]
    shifts: ShiftRehearsal | None = None
    """The rehearsal of the alert on shifts; None if it is switched off."""


def slo_text(slo: Slo) -> str:
    """Return an SLO as one line, without its name.

    >>> slo_text(Slo(name="a", metric="cost_usd", at_most=0.5, objective=0.999, dimensions={"tenant": "acme"}))
    'cost_usd <= 0.5 for 99.9% where tenant=acme'
    """
    bound = f">= {slo.at_least:.9g}" if slo.at_least is not None else f"<= {slo.at_most:.9g}"
    where = " and ".join(f"{name}={value}" for name, value in slo.dimensions.items())
    return f"{slo.metric} {bound} for {100 * slo.objective:.9g}%" + (f" where {where}" if where else "")


def duration_text(lasted: timedelta) -> str:
    """Return a duration as hours and minutes.

    >>> duration_text(timedelta(hours=7, minutes=29)), duration_text(timedelta(minutes=5))
    ('7 h 29 min', '5 min')
    """
    hours, minutes = divmod(int(lasted.total_seconds()) // MINUTE_SECONDS, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def rehearse(counter: SloCounter, source: str, outside: int = 0, rejected: int = 0) -> Rehearsal:
    """Evaluate all alerts on the counted events.

    Args:
        counter: has counted at least one evaluation.
        source: name of the source of evaluations.
        outside: evaluations outside the requested times.
        rejected: records that are not evaluations.
    """
    if counter.first is None or counter.last is None:
        raise ValueError("nothing was counted")
    span = range(minute_of(counter.first), minute_of(counter.last) + 1)
    slos = tuple(_rehearse_slo(counter, place, span) for place in range(len(counter.slos)))
    return Rehearsal(
        source, counter.evaluations, outside, rejected, time_of(span.start), time_of(span.stop), counter.by, slos
    )


def _rehearse_slo(counter: SloCounter, place: int, span: range) -> SloRehearsal:
    slo, counts, weights = counter.slos[place], counter.counts(place), counter.weights(place)
    periods = list(active_periods(counts, weights, span.stop))
    events, bad = int(counts.events.sum()), int(counts.bad.sum())
    totals = (events - bad, bad) if weights is None else weights.sums.sum(axis=1)[[GOOD, BAD]].tolist()
    share = totals[BAD] / sum(totals) if events else None
    dimensions = list(counter.counts_by_value(place))
    alerts = []
    for burn in BURNS:
        threshold = burn.threshold(slo.objective)
        firings = [
            _firing(counter, place, period, burn, minutes, dimensions, span.stop)
            for period in periods
            for minutes in _true_ranges(period.firing(burn, threshold))
        ]
        closest, at = _closest(periods, burn, threshold)
        alerts.append(AlertRehearsal(burn, threshold, tuple(firings), 1.0 if firings else min(1.0, closest), at))
    spent = None if share is None else share / (1 - slo.objective)
    return SloRehearsal(slo, events, bad, share, spent, tuple(alerts), tuple(_timeline(periods, span)))


def _true_ranges(flags: Flags) -> list[tuple[int, int]]:
    """Return the ranges of places at which flags are true.

    >>> _true_ranges(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _closest(periods: Sequence[ActivePeriod], burn: Burn, threshold: float) -> tuple[float, datetime | None]:
    """Return the maximum closeness of an alert and its time."""
    closest, at = 0.0, None
    for period in periods:
        closeness = period.closeness(burn, threshold)
        place = int(closeness.argmax())
        if closeness[place] > closest:
            closest, at = float(closeness[place]), time_of(period.first + place + 1)
    return closest, at


def _firing(
    counter: SloCounter,
    place: int,
    period: ActivePeriod,
    burn: Burn,
    minutes: tuple[int, int],
    dimensions: Sequence[tuple[str, Sequence[str], CountColumns]],
    end: int,
) -> Firing:
    first, after = minutes
    # The state at the end of a minute is that of the next minute.
    start, stop = period.first + first + 1, period.first + after + 1
    since, until = max(period.first, start - burn.long_m), min(stop, end)
    span = slice(since - period.first, until - period.first + 1)
    events, bad = (int(totals[span][-1] - totals[span][0]) for totals in (period.events, period.bad))
    return Firing(
        time_of(start),
        time_of(until),
        stop > end,
        events,
        bad,
        float(np.nanmax(period.shares(burn.long_m)[first:after])),
        tuple(_concentrations(dimensions, since, until)),
        counter.worst(place, since, until),
    )


def _concentrations(
    dimensions: Sequence[tuple[str, Sequence[str], CountColumns]], start: int, end: int
) -> list[Concentration]:
    """Return the values on which the bad events of some minutes concentrate, by descending excess."""
    found: list[Concentration] = []
    for name, texts, (minutes, values, events, bad) in dimensions:
        span = slice(*np.searchsorted(minutes, (start, end)))
        size = len(texts)
        own = np.bincount(values[span], events[span], size)
        own_bad = np.bincount(values[span], bad[span], size)
        others, all_bad = own.sum() - own, own_bad.sum()
        share = np.divide(all_bad - own_bad, others, out=np.ones(size), where=others > 0)
        excess = own_bad - own * share
        overall = all_bad / max(own.sum(), 1.0)
        chance = 2 * np.sqrt(own * overall * (1 - overall))
        listed = np.flatnonzero((excess > np.maximum(chance, _MIN_EXCESS * all_bad)) & (others > 0)).tolist()
        best = sorted((-float(excess[each]), texts[each], each) for each in listed)[:_SHOWN_VALUES]
        found += [
            Concentration(name, text or NONE, int(own[each]), int(own_bad[each]), -less) for less, text, each in best
        ]
    return sorted(found, key=lambda each: -each.excess)


def _timeline(periods: Sequence[ActivePeriod], span: range) -> Iterator[Point]:
    width = -(-len(span) // MAX_POINTS)
    count = -(-len(span) // width)
    events, bad = (np.zeros(count, dtype=np.int64) for _ in range(2))
    known = np.zeros((2, count))
    shares = np.full((len(BURNS), count), np.nan)
    for period in periods:
        parts = (np.arange(len(period.events) - 1) + period.first - span.start) // width
        np.add.at(events, parts, np.diff(period.events))
        np.add.at(bad, parts, np.diff(period.bad))
        of_bad, of_all = period.known
        np.add.at(known[0], parts, np.diff(of_bad))
        np.add.at(known[1], parts, np.diff(of_all))
        for row, burn in zip(shares, BURNS, strict=True):
            np.fmax.at(row, parts, period.shares(burn.long_m))
    for place in range(count):
        most = tuple(None if np.isnan(share) else float(share) for share in shares[:, place])
        share = float(known[0, place] / known[1, place]) if events[place] else None
        yield Point(time_of(span.start + place * width), int(events[place]), int(bad[place]), share, most)
