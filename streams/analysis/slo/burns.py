"""Burn rates at which the alerts of SLOs fire, and the series of their windows."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Burn:
    """An alert on a burn rate.

    Args:
        alert: name of the alert.
        severity: `page` needs action at once, `ticket` within days.
        factor: burn rate above which it fires.
        most: upper limit of its threshold, as a part of the distance from the budget to 1. A budget of 20 % burns at
            most five times too fast, so that a factor of 6 alone would never fire.
        long_m: length of the long window in minutes.
        short_m: length of the short window in minutes.
        bad: number of bad events in the long window that must be exceeded: a few bad answers of a quiet tenant are no
            trend.
        certain: true if an alert on a judged metric needs a certain burn in the long window; otherwise it needs an
            estimate above the threshold.
    """

    alert: str
    severity: str
    factor: float
    most: float
    long_m: int
    short_m: int
    bad: int
    certain: bool

    def threshold(self, objective: float) -> float:
        """Return the share of bad events above which it fires.

        >>> FAST.threshold(0.95), FAST.threshold(0.8), SLOW.threshold(0.95)
        (0.3, 0.8, 0.1)
        """
        budget = 1 - objective
        return round(min(self.factor * budget, budget + self.most * (1 - budget)), 9)

    @property
    def next_command(self) -> str:
        """Command that names the worst events, over twice the long window: the alert may have fired that long ago."""
        return f"ragweir slo rehearse --from {duration(2 * self.long_m * MINUTE_SECONDS)}"


FAST = Burn("RagweirSloBurnsFast", "page", factor=6, most=0.75, long_m=60, short_m=5, bad=10, certain=True)
SLOW = Burn("RagweirSloBurnsSlowly", "ticket", factor=2, most=0.5, long_m=360, short_m=30, bad=30, certain=False)
BURNS = (FAST, SLOW)


def duration(seconds: float) -> str:
    """Return a duration in Prometheus's notation, to the millisecond.

    >>> [duration(each) for each in (21_600, 300, 90, 7.2, 0.0001)]
    ['6h', '5m', '90s', '7200ms', '1ms']
    """
    milliseconds = max(1, round(seconds * 1000))
    size, unit = next(
        (size, unit)
        for size, unit in ((3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms"))
        if milliseconds % size == 0
    )
    return f"{milliseconds // size}{unit}"


def series_over(series: str, minutes: int) -> str:
    """Return the name of a series that is recorded over some minutes; it does not depend on the scale."""
    return series + duration(minutes * MINUTE_SECONDS)


def increase(counter: str, minutes: int, scale: float) -> str:
    """Return an expression for the increase of a counter, with all of those that began within the range.

    Args:
        counter: name of the counter without `_total`.
        minutes: length of the range.
        scale: factor of the length.
    """
    seconds = minutes * MINUTE_SECONDS * scale
    span, total = duration(seconds), f"{counter}_total"
    new = f"max_over_time({total}[{span}]) unless {total} offset {span}"
    old = f"{counter}_created < time() - {seconds:.9g}"
    return f"sum by (slo, outcome) ({new} unless {old} or increase({total}[{span}]))"
