"""Alerts tried on the past: when the rules of SLOs would have fired on events that have happened, and because of which.

The rules are those of `ragweir.streams.slo.rules`, with the same windows and thresholds. They are looked at at the end
of each minute, over counters that grow by each minute's events at its end. Prometheus sees counters that grow when
events are counted, not when they happened, and looks at them between its scrapes: what it says differs by about a
minute, and by as much as events are late.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from ragweir.streams.settings import Slo
from ragweir.streams.slo.counting import MINUTE_S, Counting, Counts, Example, Ints, minute_of, time_of
from ragweir.streams.slo.rules import BURNS, Burn

POINTS = 480
"""The most points of a timeline."""
NONE = "(none)"

_LONGEST = max(burn.long_m for burn in BURNS)
_ENDING = max(burn.short_m for burn in BURNS)
"""Minutes after the last event in which an alert can still fire."""
_SHOWN = 3
"""Values of a dimension that are named."""
_CONCENTRATED = 0.1
"""The least part of the bad events that has to be an excess of one value for it to be named."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Concentration:
    """A value of a dimension that has more of the bad events than it would if it were as bad as all others."""

    dimension: str
    value: str
    events: int
    bad: int
    excess: float
    """The bad events beyond those that the others' share would give."""


@dataclass(frozen=True, slots=True)
class Firing:
    """A stretch of time in which an alert would have fired."""

    start: datetime
    end: datetime
    ongoing: bool
    """Whether the history ends with it."""
    events: int
    """From the start of the long window in which it began, to its end."""
    bad: int
    peak: float
    """The largest share of bad events in the long window."""
    concentrated: tuple[Concentration, ...]
    """Those with the largest excess first; none where all values are about as bad."""
    examples: tuple[Example, ...]
    """The worst first."""

    @property
    def lasted(self) -> timedelta:
        """How long, as far as the history goes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What one alert would have done."""

    burn: Burn
    threshold: float
    firings: tuple[Firing, ...]
    closest: float
    """How near it came to firing at the most: the least of its three conditions, by what it must exceed, at most 1."""
    closest_at: datetime | None
    """When; None if nothing was bad."""


@dataclass(frozen=True, slots=True)
class Point:
    """One of the equal parts of a timeline."""

    start: datetime
    events: int
    bad: int
    shares: tuple[float | None, ...]
    """Per alert the largest share of bad events in its long window; None without events in it."""


@dataclass(frozen=True, slots=True)
class SloRehearsal:
    """All about one SLO."""

    slo: Slo
    events: int
    bad: int
    spent: float | None
    """The part of the error budget that was spent, over the whole history; None without events."""
    alerts: tuple[Rehearsed, ...]
    timeline: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """All that was found, about evaluations from the first to the last minute."""

    source: str
    evaluations: int
    outside: int
    """Evaluations of other times than those that were asked for."""
    refused: int
    """Records that are no evaluations."""
    start: datetime
    end: datetime
    by: tuple[str, ...]
    slos: tuple[SloRehearsal, ...]


@dataclass(frozen=True, slots=True)
class Stretch:
    """Minutes of which none has so long none with events before it that no window would reach back."""

    first: int
    events: Ints
    """Running totals, with the 0 before the first minute."""
    bad: Ints

    def within(self, totals: Ints, length_m: int) -> Ints:
        """At the end of each minute what there was in the last so many."""
        ends = np.arange(1, len(totals))
        return np.asarray(totals[ends] - totals[np.maximum(0, ends - length_m)])

    def shares(self, length_m: int) -> Floats:
        """At the end of each minute the share of bad events in the last so many; NaN without events."""
        events, bad = self.within(self.events, length_m), self.within(self.bad, length_m)
        return np.asarray(np.divide(bad, events, out=np.full(len(events), np.nan), where=events > 0))

    def firing(self, burn: Burn, threshold: float) -> Flags:
        """At the end of each minute whether an alert would fire."""
        bad = self.within(self.bad, burn.long_m)
        over = (self.shares(burn.long_m) > threshold) & (self.shares(burn.short_m) > threshold)
        return np.asarray(over & (bad > burn.bad))

    def nearness(self, burn: Burn, threshold: float) -> Floats:
        """At the end of each minute the least of the alert's conditions, by what it must exceed."""
        bad = self.within(self.bad, burn.long_m) / (burn.bad + 1)
        shares = np.fmin(self.shares(burn.long_m), self.shares(burn.short_m)) / threshold
        return np.minimum(np.nan_to_num(shares), bad)


def objective(slo: Slo) -> str:
    """An SLO in one line, without its name.

    >>> objective(Slo(name="a", metric="cost_usd", at_most=0.5, objective=0.999, dimensions={"tenant": "acme"}))
    'cost_usd <= 0.5 for 99.9% where tenant=acme'
    """
    bound = f">= {slo.at_least:.9g}" if slo.at_least is not None else f"<= {slo.at_most:.9g}"
    where = " and ".join(f"{name}={value}" for name, value in slo.dimensions.items())
    return f"{slo.metric} {bound} for {100 * slo.objective:.9g}%" + (f" where {where}" if where else "")


def in_words(lasted: timedelta) -> str:
    """A duration for people, to the minute.

    >>> in_words(timedelta(hours=7, minutes=29)), in_words(timedelta(minutes=5)), in_words(timedelta())
    ('7 h 29 min', '5 min', '0 min')
    """
    hours, minutes = divmod(int(lasted.total_seconds()) // MINUTE_S, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def rehearse(counting: Counting, source: str, outside: int = 0, refused: int = 0) -> Rehearsal:
    """Try all alerts of what was counted.

    Args:
        counting: at least one evaluation.
        source: its name, for people.
        outside: evaluations that were left out.
        refused: records that are none.
    """
    if counting.first is None or counting.last is None:
        raise ValueError("nothing was counted")
    span = range(minute_of(counting.first), minute_of(counting.last) + 1)
    slos = tuple(_slo(counting, place, span) for place in range(len(counting.slos)))
    return Rehearsal(
        source, counting.evaluations, outside, refused, time_of(span.start), time_of(span.stop), counting.by, slos
    )


def _slo(counting: Counting, place: int, span: range) -> SloRehearsal:
    slo, whole = counting.slos[place], counting.whole(place)
    stretches = list(stretches_of(whole, span.stop))
    events, bad = int(whole.events.sum()), int(whole.bad.sum())
    parts = [_DimensionCounts(*part) for part in counting.parts(place)]
    alerts = tuple(_rehearsed(counting, place, burn, stretches, parts, span.stop) for burn in BURNS)
    spent = bad / (events * (1 - slo.objective)) if events else None
    return SloRehearsal(slo, events, bad, spent, alerts, tuple(_timeline(stretches, span)))


def stretches_of(counts: Counts, end: int) -> Iterator[Stretch]:
    """The minutes with events, and those between and after them in which alerts can fire, to before an end."""
    gaps = np.flatnonzero(np.diff(counts.minutes) > _LONGEST) + 1
    for places in np.split(np.arange(len(counts.minutes)), gaps):
        if not len(places):
            continue
        own = Counts(*(column[places] for column in counts))
        first, last = int(own.minutes[0]), min(int(own.minutes[-1]) + _ENDING, end - 1)
        events, bad = (np.zeros(last - first + 2, dtype=np.int64) for _ in range(2))
        events[own.minutes - first + 1], bad[own.minutes - first + 1] = own.events, own.bad
        yield Stretch(first, np.cumsum(events), np.cumsum(bad))


def intervals(firing: Flags) -> list[tuple[int, int]]:
    """Where it is true: from each first place to before the next where it is not.

    >>> intervals(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.concatenate(([False], firing, [False]))))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _rehearsed(
    counting: Counting,
    place: int,
    burn: Burn,
    stretches: Sequence[Stretch],
    parts: Sequence[_DimensionCounts],
    end: int,
) -> Rehearsed:
    threshold = burn.threshold(counting.slos[place].objective)
    closest, at = 0.0, None
    firings: list[Firing] = []
    for stretch in stretches:
        nearness = stretch.nearness(burn, threshold)
        most = int(nearness.argmax())
        if nearness[most] > closest:
            closest, at = float(nearness[most]), time_of(stretch.first + most + 1)
        shares = stretch.shares(burn.long_m)
        for first, after in intervals(stretch.firing(burn, threshold)):
            # What is seen at the end of a minute is told of the next.
            start, stop = stretch.first + first + 1, stretch.first + after + 1
            ongoing = stop > end
            since, until = max(stretch.first, start - burn.long_m), min(stop, end)
            span = slice(since - stretch.first, until - stretch.first + 1)
            events, bad = (int(totals[span][-1] - totals[span][0]) for totals in (stretch.events, stretch.bad))
            firings.append(
                Firing(
                    time_of(start),
                    time_of(until),
                    ongoing,
                    events,
                    bad,
                    float(np.nanmax(shares[first:after])),
                    tuple(_concentrated(parts, since, until)),
                    counting.worst(place, since, until),
                )
            )
    return Rehearsed(burn, threshold, tuple(firings), 1.0 if firings else min(1.0, closest), at)


@dataclass(frozen=True, slots=True)
class _DimensionCounts:
    """A dimension, its values, and the counts by their numbers."""

    name: str
    values: Sequence[str]
    counts: Counts


def _concentrated(parts: Sequence[_DimensionCounts], start: int, end: int) -> list[Concentration]:
    """The values on which the bad events of some minutes concentrate."""
    found: list[Concentration] = []
    for part in parts:
        minutes, values, events, bad = part.counts
        span = slice(*np.searchsorted(minutes, (start, end)))
        size = len(part.values)
        own = np.bincount(values[span], events[span], size)
        own_bad = np.bincount(values[span], bad[span], size)
        others, all_bad = own.sum() - own, own_bad.sum()
        share = np.divide(all_bad - own_bad, others, out=np.ones(size), where=others > 0)
        excess = own_bad - own * share
        overall = all_bad / max(own.sum(), 1.0)
        chance = 2 * np.sqrt(own * overall * (1 - overall))
        named = np.flatnonzero((excess > np.maximum(chance, _CONCENTRATED * all_bad)) & (others > 0)).tolist()
        best = sorted((-float(excess[each]), part.values[each], each) for each in named)[:_SHOWN]
        found += [
            Concentration(part.name, value or NONE, int(own[each]), int(own_bad[each]), -less)
            for less, value, each in best
        ]
    return sorted(found, key=lambda each: -each.excess)


def _timeline(stretches: Sequence[Stretch], span: range) -> Iterator[Point]:
    """Equal parts of a span, as many as there may be."""
    width = -(-len(span) // POINTS)
    count = -(-len(span) // width)
    events, bad = (np.zeros(count, dtype=np.int64) for _ in range(2))
    shares = np.full((len(BURNS), count), np.nan)
    for stretch in stretches:
        parts = (np.arange(len(stretch.events) - 1) + stretch.first - span.start) // width
        np.add.at(events, parts, np.diff(stretch.events))
        np.add.at(bad, parts, np.diff(stretch.bad))
        for row, burn in zip(shares, BURNS, strict=True):
            np.fmax.at(row, parts, stretch.shares(burn.long_m))
    for place in range(count):
        most = tuple(None if np.isnan(share) else float(share) for share in shares[:, place])
        yield Point(time_of(span.start + place * width), int(events[place]), int(bad[place]), most)
