"""The Prometheus rules of the user's SLOs: alerts on how fast an error budget burns, and the tests that prove them.

A budget is the share of events that may be bad. The burn rate is the share that is bad, over the budget: at 1 it is
used up exactly. An alert looks at two windows: the long one says that it matters, the short one that it still goes on,
so that the alert ends soon after its cause. The scheme is that of the multiwindow, multi-burn-rate alerts in
"Alerting on SLOs", The Site Reliability Workbook, Google, 2018.

A worker that starts on a backlog has counted hundreds of events before its first scrape, of which `rate` and `increase`
see nothing: they need a sample from before. A counter that did not exist when the range began has counted all of its
value within the range, so that value is taken instead. When a counter began is told by its `_created` series, which
prometheus-client writes: a counter that Prometheus has merely begun to scrape, or that a scrape has missed, is older.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragweir.streams.settings import Slo

_COUNTER = "ragweir_slo_events_total"
_CREATED = "ragweir_slo_events_created"
_MINUTE_S = 60.0
_STEPS = 5
"""Samples of a test's short window."""
_GRAIN = 1024
"""A test's counters grow by multiples of one over this. Sums of those are exact; others could fall back by a rounding
error, which Prometheus takes for a restart."""
_ANNOTATED = "{{ $value | humanizePercentage }} of the events of the last %s were bad; the objective allows %s."


@dataclass(frozen=True, slots=True)
class Burn:
    """A speed at which a budget must not burn.

    Args:
        alert: the alert's name.
        severity: `page` wakes somebody, `ticket` waits for the morning.
        factor: burn rate above which it fires.
        most: how far from the budget to 1 its share of bad events may lie. A budget of 20 % burns five times as fast as
            allowed at the very most, so that a factor of 6 alone would never fire.
        long_m: minutes of the long window.
        short_m: minutes of the short window.
        bad: bad events in the long window below which it is silent: a few bad answers of a quiet tenant are no trend.
    """

    alert: str
    severity: str
    factor: float
    most: float
    long_m: int
    short_m: int
    bad: int

    def threshold(self, objective: float) -> float:
        """The share of bad events above which it fires.

        >>> FAST.threshold(0.95), FAST.threshold(0.8), SLOW.threshold(0.95)
        (0.3, 0.8, 0.1)
        """
        budget = 1 - objective
        return round(min(self.factor * budget, budget + self.most * (1 - budget)), 9)


FAST = Burn("RagweirSloBurnsFast", "page", factor=6, most=0.75, long_m=60, short_m=5, bad=10)
SLOW = Burn("RagweirSloBurnsSlowly", "ticket", factor=2, most=0.5, long_m=360, short_m=30, bad=30)
BURNS = (FAST, SLOW)


def duration(seconds: float) -> str:
    """A duration as Prometheus writes it, to the millisecond.

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
    """The content of a file of rules.

    Args:
        slos: whose rules; the recorded shares are of all SLOs that are counted.
        scale: what to multiply every duration with; a small one turns hours into seconds, for demonstrations. The
            names of recorded series stay, so that dashboards do too.
    """
    recorded = [*_recorded(scale)]
    alerts = [_alert(slo, burn, scale) for slo in slos for burn in BURNS]
    return {
        "groups": [{"name": "ragweir-slo", "interval": duration(30 * scale), "rules": [*recorded, *alerts]}],
    }


def _recorded(scale: float) -> Iterator[dict[str, Any]]:
    spans = sorted({minutes for burn in BURNS for minutes in (burn.long_m, burn.short_m)})
    for minutes in spans:
        yield {"record": _events(minutes), "expr": _increase(minutes * _MINUTE_S * scale)}
    for minutes in spans:
        bad = f'sum by (slo) ({_events(minutes)}{{outcome="bad"}})'
        yield {"record": _share(minutes), "expr": f"{bad} / sum by (slo) ({_events(minutes)})"}
    for burn in BURNS:
        yield {
            "record": _count(burn.long_m),
            "expr": f'sum by (slo) ({_events(burn.long_m)}{{outcome="bad"}})',
        }


def _increase(seconds: float) -> str:
    """The events of the last seconds, those of counters that began within them too."""
    span = duration(seconds)
    born = f"max_over_time({_COUNTER}[{span}]) unless {_COUNTER} offset {span}"
    return f"sum by (slo, outcome) ({born} unless {_CREATED} < time() - {seconds:.9g} or increase({_COUNTER}[{span}]))"


def _events(minutes: int) -> str:
    return f"slo_outcome:ragweir_slo_events:increase{duration(minutes * _MINUTE_S)}"


def _share(minutes: int) -> str:
    return f"slo:ragweir_slo_bad:ratio_rate{duration(minutes * _MINUTE_S)}"


def _count(minutes: int) -> str:
    return f"slo:ragweir_slo_bad:increase{duration(minutes * _MINUTE_S)}"


def _alert(slo: Slo, burn: Burn, scale: float) -> dict[str, Any]:
    threshold = f"{burn.threshold(slo.objective):.9g}"
    own = f'{{slo="{slo.name}"}}'
    return {
        "alert": burn.alert,
        "expr": f"{_share(burn.long_m)}{own} > {threshold} and {_share(burn.short_m)}{own} > {threshold}"
        f" and {_count(burn.long_m)}{own} > {burn.bad}",
        # The series have the label already; promtool's lint takes two rules without it for one written twice.
        "labels": {"severity": burn.severity, "slo": slo.name},
        "annotations": {"summary": _summary(slo), "description": _description(slo, burn, scale)},
    }


def _summary(slo: Slo) -> str:
    bound = f"below {slo.at_least:g}" if slo.at_least is not None else f"above {slo.at_most:g}"
    where = " and ".join(f"{name} {value}" for name, value in sorted(slo.dimensions.items()))
    return f"Too many events have {slo.metric} {bound}" + (f", where {where}" if where else "")


def _description(slo: Slo, burn: Burn, scale: float) -> str:
    return _ANNOTATED % (duration(burn.long_m * _MINUTE_S * scale), f"{100 * (1 - slo.objective):.4g} %")


# The tests of these rules, for promtool.


@dataclass(frozen=True, slots=True)
class _TrafficCase:
    """Traffic in two stretches, and whether it makes an alert fire at its end.

    Args:
        what: what it proves, in words.
        before: share of bad events until the short window begins.
        lately: share of bad events in the short window; None without any events.
        bad: bad events in the long window.
        fires: whether the alert must.
        born: whether the counters appear only in the short window, with all that they count.
        old: whether such counters say that they began before the long window.
    """

    what: str
    before: float
    lately: float | None
    bad: float
    fires: bool
    born: bool = False
    old: bool = False


def _cases(threshold: float, burn: Burn) -> tuple[_TrafficCase, ...]:
    """Each comparison of the alert, a little above and a little below."""
    near = min(threshold / 10, (1 - threshold) / 4)
    above, below = threshold + near, threshold - near
    parts = burn.long_m / burn.short_m

    def before(whole: float, lately: float) -> float:
        """The share before the short window that gives this share of the whole long window."""
        return (parts * whole - lately) / (parts - 1)

    many, few, some = 10.0 * burn.bad, 0.8 * burn.bad, 1.2 * burn.bad
    return (
        _TrafficCase("both windows are bad, with just enough bad events", above, above, some, fires=True),
        _TrafficCase("too few bad events", above, above, few, fires=False),
        _TrafficCase("the long window is not bad enough", before(below, above), above, many, fires=False),
        _TrafficCase("the short window is no longer bad", before(above, below), below, many, fires=False),
        _TrafficCase("the events have ended", above, None, many, fires=False),
        _TrafficCase("all were counted before the first scrape", above, above, some, fires=True, born=True),
        _TrafficCase("the first scrape of old counters", above, above, some, fires=False, born=True, old=True),
    )


def promtool_tests(slos: Sequence[Slo], rule_file: str, scale: float = 1.0) -> dict[str, Any]:
    """The content of a file for `promtool test rules`, about the rules of the same SLOs and scale.

    Args:
        slos: whose rules.
        rule_file: where those rules are, relative to the file of tests.
        scale: as for the rules.
    """
    return {
        "rule_files": [rule_file],
        "evaluation_interval": duration(FAST.short_m * _MINUTE_S * scale),
        "tests": [
            _test(slo, burn, case, scale)
            for slo in slos
            for burn in BURNS
            for case in _cases(burn.threshold(slo.objective), burn)
        ],
    }


def _test(slo: Slo, burn: Burn, case: _TrafficCase, scale: float) -> dict[str, Any]:
    earlier = _STEPS * (burn.long_m // burn.short_m - 1)
    lately = case.lately or 0.0
    # As even as the shares allow: as many events in each step, but for the short window of traffic that has ended.
    events = case.bad / (earlier * case.before + _STEPS * lately)
    late_events = 0.0 if case.lately is None else events
    bad = _grained(events * case.before), _grained(late_events * lately)
    good = _grained(events * (1 - case.before)), _grained(late_events * (1 - lately))
    all_bad, all_good = (first * earlier + then * _STEPS for first, then in (bad, good))
    shown = f"{100 * all_bad / (all_bad + all_good):.4g}%"
    fired = {
        "exp_labels": {"severity": burn.severity, "slo": slo.name},
        "exp_annotations": {
            "summary": _summary(slo),
            "description": _description(slo, burn, scale).replace("{{ $value | humanizePercentage }}", shown),
        },
    }
    step_s = burn.short_m * _MINUTE_S * scale / _STEPS

    def values(first: float, then: float) -> str:
        if case.born:
            return f"_x{earlier + 1} {first * earlier + then * _STEPS}x{_STEPS - 1}"
        return f"0+{first}x{earlier} {first * earlier + then}+{then}x{_STEPS - 1}"

    created = [(_CREATED, outcome, f"-1x{earlier + _STEPS}") for outcome in ("bad", "good") if case.old]
    counted = [(_COUNTER, "bad", values(*bad)), (_COUNTER, "good", values(*good))]
    return {
        "name": f"{slo.name}, {burn.severity}: {case.what}",
        "interval": duration(step_s),
        "input_series": [
            {"series": f'{series}{{slo="{slo.name}", outcome="{outcome}"}}', "values": samples}
            for series, outcome, samples in (*counted, *created)
        ],
        "alert_rule_test": [
            {
                "alertname": burn.alert,
                "eval_time": duration(step_s * (earlier + _STEPS)),
                "exp_alerts": [fired] if case.fires else [],
            }
        ],
    }


def _grained(amount: float) -> float:
    return round(amount * _GRAIN) / _GRAIN


def written(content: Mapping[str, Any], head: Iterable[str] = ()) -> str:
    """Plain data as YAML that a person reads with ease, under comments.

    >>> print(written({"groups": [{"name": "a", "rules": []}, {"name": "b"}]}, ["Two groups."]), end="")
    # Two groups.
    groups:
      - name: "a"
        rules: []
      - name: "b"
    """
    return "".join(f"{line}\n" for line in (*(f"# {line}" for line in head), *_lines(content)))


def _lines(value: Any) -> Iterator[str]:
    """Block style for what holds something, JSON for the rest, which is YAML too, but where it would be all escapes."""
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
