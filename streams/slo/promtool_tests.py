"""Tests for promtool made of history: what happened as counters, and the alerts that a rehearsal says fired on it.

Each test is one look at one alert, over what its long window holds at that time and nothing else, so that it stays
small however long the history is. Counters step in the second half of a minute, so that a range that leaves its first
moment out (Prometheus 3) and one that does not (2) hold the same steps, and they begin high enough for Prometheus never
to suppose that they began within the range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from ragweir.streams.settings import Slo
from ragweir.streams.slo.counting import MINUTE_S, Counting, Counts, Ints, minute_of, time_of
from ragweir.streams.slo.rehearsal import Rehearsal, Rehearsed
from ragweir.streams.slo.rules import FAST, Burn, duration, rules

MOST = 10
"""Looks at one alert while it fires, and as many while it is quiet; those within the longest stretches."""

_COUNTER = "ragweir_slo_events_total"
_NEAR = 1e-6
"""Shares as near as this to a threshold, or to the middle between two that are written alike, are not looked at: how
they are rounded is left to Prometheus."""
_SHOWN_DIGITS = 4

_Stretch = tuple[tuple[int, int], bool]
"""From one minute to before another, and whether the alert fires at the start of each."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One look at an alert."""

    minute: int
    """At its start."""
    between: tuple[int, int]
    """The stretch that it is in."""
    fires: bool
    good: Ints
    """Per minute of the long window."""
    bad: Ints

    @property
    def share(self) -> float:
        """Of bad events in the long window; 0 without events."""
        bad, good = int(self.bad.sum()), int(self.good.sum())
        return bad / (bad + good) if bad else 0.0

    def steady(self, burn: Burn, threshold: float) -> bool:
        """Whether nothing hangs on how numbers are rounded."""
        latest = slice(-burn.short_m, None)
        bad, good = int(self.bad[latest].sum()), int(self.good[latest].sum())
        short = bad / (bad + good) if bad else 0.0
        scaled = self.share * 10 ** (_SHOWN_DIGITS - 1 - np.floor(np.log10(self.share or 1.0)))
        tie = abs(scaled % 1 - 0.5) < _NEAR
        over = any(abs(share - threshold) < _NEAR for share in (self.share, short))
        return not (over or tie or int(self.bad.sum()) == burn.bad)


def promtool_tests(counting: Counting, rehearsal: Rehearsal, rule_file: str) -> dict[str, Any]:
    """The content of a file for `promtool test rules`.

    Args:
        counting: what was rehearsed.
        rehearsal: what came of it.
        rule_file: where the rules of the SLOs are, relative to the file of tests.
    """
    tests: list[dict[str, Any]] = []
    for place, own in enumerate(rehearsal.slos):
        counts = counting.whole(place)
        for alert in own.alerts:
            stretches = [*_stretches(alert, rehearsal)]
            for fires in (True, False):
                chosen = sorted((each for each in stretches if each[1] is fires), key=_length)[-MOST:]
                looks = (_look(counts, alert, each) for each in sorted(chosen))
                tests += [_test(own.slo, alert.burn, look) for look in looks if look]
    return {"rule_files": [rule_file], "evaluation_interval": duration(FAST.short_m * MINUTE_S), "tests": tests}


def _stretches(alert: Rehearsed, rehearsal: Rehearsal) -> Iterator[_Stretch]:
    """Those in which it fires, and those in between."""
    spans = [(minute_of(firing.start), minute_of(firing.end)) for firing in alert.firings]
    start, end = minute_of(rehearsal.start) + 1, minute_of(rehearsal.end)
    for span in spans:
        yield span, True
    edges = [(start, start), *spans, (end, end)]
    for (_, after), (before, _) in pairwise(edges):
        if after < before:
            yield (after, before), False


def _length(stretch: _Stretch) -> int:
    (start, end), _ = stretch
    return end - start


def _look(counts: Counts, alert: Rehearsed, stretch: _Stretch) -> _Look | None:
    """A look as near as can be to the middle of a stretch; None if everything in it hangs on rounding."""
    (start, end), fires = stretch
    middle = (start + end) // 2
    for minute in sorted(range(start, end), key=lambda each: abs(each - middle)):
        look = _Look(minute, (start, end), fires, *_window(counts, minute, alert.burn.long_m))
        if look.steady(alert.burn, alert.threshold):
            return look
    return None


def _window(counts: Counts, end: int, length_m: int) -> tuple[Ints, Ints]:
    """Good and bad events in each of so many minutes before one."""
    span = slice(*np.searchsorted(counts.minutes, (end - length_m, end)))
    places = counts.minutes[span] - (end - length_m)
    good, bad = (np.zeros(length_m, dtype=np.int64) for _ in range(2))
    good[places], bad[places] = counts.events[span] - counts.bad[span], counts.bad[span]
    return good, bad


def _test(slo: Slo, burn: Burn, look: _Look) -> dict[str, Any]:
    most = int(look.good.sum() + look.bad.sum())
    return {
        "name": f"{slo.name}, {burn.severity}: {_told(look)}",
        "interval": duration(MINUTE_S / 2),
        "input_series": [
            {
                "series": f'{_COUNTER}{{slo="{slo.name}", outcome="{outcome}"}}',
                "values": _values(most + np.concatenate(([0], np.cumsum(steps)))),
            }
            for outcome, steps in (("bad", look.bad), ("good", look.good))
        ],
        "alert_rule_test": [
            {
                "alertname": burn.alert,
                "eval_time": duration(burn.long_m * MINUTE_S),
                "exp_alerts": [_alert(slo, burn, look)] if look.fires else [],
            }
        ],
    }


def _told(look: _Look) -> str:
    start, end = (f"{time_of(minute):%Y-%m-%d %H:%M}" for minute in look.between)
    state = "firing" if look.fires else "quiet"
    return f"{state} at {time_of(look.minute):%Y-%m-%d %H:%M}, as from {start} to {end} UTC"


def _alert(slo: Slo, burn: Burn, look: _Look) -> dict[str, Any]:
    written: Sequence[dict[str, Any]] = rules([slo])["groups"][0]["rules"]
    annotations = next(rule["annotations"] for rule in written if rule.get("alert") == burn.alert)
    shown = f"{100 * look.share:.{_SHOWN_DIGITS}g}%"
    return {
        "exp_labels": {"severity": burn.severity, "slo": slo.name},
        "exp_annotations": {
            name: text.replace("{{ $value | humanizePercentage }}", shown) for name, text in annotations.items()
        },
    }


def _values(totals: Ints) -> str:
    """A counter's samples, two for each minute but the last.

    >>> _values(np.array([4, 4, 5, 7]))
    '4+0x3 5 5 7'
    """
    samples = np.repeat(totals, 2)[:-1].tolist()
    runs = ((value, len(list(run))) for value, run in groupby(samples))
    return " ".join(f"{value}+0x{count - 1}" if count > 2 else " ".join([str(value)] * count) for value, count in runs)
