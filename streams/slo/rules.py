"""Prometheus rules of SLOs: alerts on the burn rate of an error budget.

A budget is the share of events that may be bad. The burn rate is the share of bad events divided by the budget: at 1
the budget is used up exactly. An alert has two windows: the long one shows that the burn matters, the short one that it
goes on, so that the alert ends soon after its cause. These are the multiwindow, multi-burn-rate alerts of "Alerting on
SLOs", The Site Reliability Workbook, Google, 2018.

`rate` and `increase` need a sample from before and miss what a worker that starts on a backlog counts before its first
scrape. If a counter began within the range, its value is taken instead. The `_created` series of prometheus-client has
the time at which a counter began; a counter that is merely new to Prometheus, or missed a scrape, is older.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragweir.streams.settings import Slo

COUNTER = "ragweir_slo_events_total"
CREATED = "ragweir_slo_events_created"
_MINUTE_SECONDS = 60.0
SHARE = "{{ $value | humanizePercentage }}"
"""Template of the share of bad events in an annotation."""


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
    """

    alert: str
    severity: str
    factor: float
    most: float
    long_m: int
    short_m: int
    bad: int

    def threshold(self, objective: float) -> float:
        """Return the share of bad events above which it fires.

        >>> FAST.threshold(0.95), FAST.threshold(0.8), SLOW.threshold(0.95)
        (0.3, 0.8, 0.1)
        """
        budget = 1 - objective
        return round(min(self.factor * budget, budget + self.most * (1 - budget)), 9)


FAST = Burn("RagweirSloBurnsFast", "page", factor=6, most=0.75, long_m=60, short_m=5, bad=10)
SLOW = Burn("RagweirSloBurnsSlowly", "ticket", factor=2, most=0.5, long_m=360, short_m=30, bad=30)
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


def rules(slos: Sequence[Slo], scale: float = 1.0) -> dict[str, Any]:
    """Return the content of a rule file.

    Args:
        slos: SLOs of the alerts; recording rules cover all SLOs that are counted.
        scale: factor of every duration; a small one turns hours into seconds, for demonstrations. The names of
            recorded series do not change, so that dashboards keep working.
    """
    alerts = [_alert(slo, burn, scale) for slo in slos for burn in BURNS]
    return {
        "groups": [{"name": "ragweir-slo", "interval": duration(30 * scale), "rules": [*_recorded(scale), *alerts]}],
    }


def _recorded(scale: float) -> Iterator[dict[str, Any]]:
    windows = sorted({minutes for burn in BURNS for minutes in (burn.long_m, burn.short_m)})
    for minutes in windows:
        yield {"record": _events(minutes), "expr": _increase(minutes * _MINUTE_SECONDS * scale)}
    for minutes in windows:
        yield {"record": _share(minutes), "expr": f"{_bad(minutes)} / sum by (slo) ({_events(minutes)})"}
    for burn in BURNS:
        yield {"record": _count(burn.long_m), "expr": _bad(burn.long_m)}


def _increase(seconds: float) -> str:
    """Return an expression for the events of the last seconds, with those of counters that began within them."""
    span = duration(seconds)
    new = f"max_over_time({COUNTER}[{span}]) unless {COUNTER} offset {span}"
    return f"sum by (slo, outcome) ({new} unless {CREATED} < time() - {seconds:.9g} or increase({COUNTER}[{span}]))"


def _bad(minutes: int) -> str:
    return f'sum by (slo) ({_events(minutes)}{{outcome="bad"}})'


def _events(minutes: int) -> str:
    return f"slo_outcome:ragweir_slo_events:increase{duration(minutes * _MINUTE_SECONDS)}"


def _share(minutes: int) -> str:
    return f"slo:ragweir_slo_bad:ratio_rate{duration(minutes * _MINUTE_SECONDS)}"


def _count(minutes: int) -> str:
    return f"slo:ragweir_slo_bad:increase{duration(minutes * _MINUTE_SECONDS)}"


def _alert(slo: Slo, burn: Burn, scale: float) -> dict[str, Any]:
    threshold = f"{burn.threshold(slo.objective):.9g}"
    own = f'{{slo="{slo.name}"}}'
    return {
        "alert": burn.alert,
        "expr": f"{_share(burn.long_m)}{own} > {threshold} and {_share(burn.short_m)}{own} > {threshold}"
        f" and {_count(burn.long_m)}{own} > {burn.bad}",
        # The series have the label already, but promtool's lint takes two rules without it for duplicates.
        "labels": {"severity": burn.severity, "slo": slo.name},
        "annotations": alert_annotations(slo, burn, scale),
    }


def alert_annotations(slo: Slo, burn: Burn, scale: float = 1.0) -> dict[str, str]:
    """Return the annotations of an alert."""
    bound = f"below {slo.at_least:g}" if slo.at_least is not None else f"above {slo.at_most:g}"
    where = " and ".join(f"{name} {value}" for name, value in sorted(slo.dimensions.items()))
    window = duration(burn.long_m * _MINUTE_SECONDS * scale)
    return {
        "summary": f"Too many events have {slo.metric} {bound}" + (f", where {where}" if where else ""),
        "description": f"{SHARE} of the events of the last {window} were bad; "
        f"the objective allows {100 * (1 - slo.objective):.4g} %.",
    }


def written(content: Mapping[str, Any], head: Iterable[str] = ()) -> str:
    """Return plain data as YAML, under comments.

    >>> print(written({"groups": [{"name": "a", "rules": []}, {"name": "b"}]}, ["Two groups."]), end="")
    # Two groups.
    groups:
      - name: "a"
        rules: []
      - name: "b"
    """
    return "".join(f"{line}\n" for line in (*(f"# {line}" for line in head), *_lines(content)))


def _lines(value: Any) -> Iterator[str]:
    """Yield lines in block style; scalars are JSON, or in single quotes if JSON would have to escape quotes."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            nested = list(_lines(inner))
            if isinstance(inner, Mapping | list) and inner:
                yield f"{name}:"
                yield from (f"  {line}" for line in nested)
            else:
                yield f"{name}: {nested[0]}"
    elif isinstance(value, list) and value:
        for inner in value:
            first, *rest = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in rest)
    elif isinstance(value, str) and '"' in value and value.isprintable():
        yield "'" + value.replace("'", "''") + "'"
    else:
        text = json.dumps(value, ensure_ascii=False)
        yield "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in text)
