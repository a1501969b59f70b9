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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragweir.streams.analysis.slo import judged_rules
from ragweir.streams.analysis.slo.burns import BURNS, MINUTE_SECONDS, Burn, duration, increase, series_over
from ragweir.streams.settings import Slo

EVENTS = "ragweir_slo_events"
SHARE = "{{ $value | humanizePercentage }}"
"""Template of the share of bad events in an annotation."""


def rules(slos: Sequence[Slo], scale: float = 1.0, judged: Collection[str] = ()) -> dict[str, Any]:
    """Return the content of a rule file.

    Args:
        slos: SLOs of the alerts; recording rules cover all SLOs that are counted.
        scale: factor of every duration; a small one turns hours into seconds, for demonstrations. The names of
            recorded series do not change, so that dashboards keep working.
        judged: names of the judged metrics; alerts on them allow for the uncertainty of estimates.
    """
    estimated = [slo for slo in slos if slo.metric in judged]
    rows = [
        *_recorded(scale, judged=bool(estimated)),
        *(rule for slo in estimated for rule in judged_rules.evidences(slo, BURNS)),
        *(_alert(slo, burn, scale, judged=slo.metric in judged) for slo in slos for burn in BURNS),
    ]
    return {"groups": [{"name": "ragweir-slo", "interval": duration(30 * scale), "rules": rows}]}


def _recorded(scale: float, *, judged: bool) -> Iterator[dict[str, Any]]:
    windows = sorted({minutes for burn in BURNS for minutes in (burn.long_m, burn.short_m)})
    for minutes in windows:
        yield {"record": _events(minutes), "expr": increase(EVENTS, minutes, scale)}
    if judged:
        yield from judged_rules.recorded(BURNS, scale)
    for minutes in windows:
        counted = f"{_bad(minutes)} / sum by (slo) ({_events(minutes)})"
        expression = f"{judged_rules.estimated_share(minutes)} or {counted}" if judged else counted
        yield {"record": _share(minutes), "expr": expression}
    for burn in BURNS:
        yield {"record": _count(burn.long_m), "expr": _bad(burn.long_m)}


def _bad(minutes: int) -> str:
    return f'sum by (slo) ({_events(minutes)}{{outcome="bad"}})'


def _events(minutes: int) -> str:
    return series_over("slo_outcome:ragweir_slo_events:increase", minutes)


def _share(minutes: int) -> str:
    return series_over("slo:ragweir_slo_bad:ratio_rate", minutes)


def _count(minutes: int) -> str:
    return series_over("slo:ragweir_slo_bad:increase", minutes)


def _alert(slo: Slo, burn: Burn, scale: float, *, judged: bool) -> dict[str, Any]:
    threshold = burn.threshold(slo.objective)
    own = f'{{slo="{slo.name}"}}'
    shares = (f"{_share(minutes)}{own} > {threshold:.9g}" for minutes in (burn.long_m, burn.short_m))
    burns = judged_rules.condition(slo.name, burn, _share(burn.long_m), threshold) if judged else " and ".join(shares)
    return {
        "alert": burn.alert,
        "expr": f"{burns} and {_count(burn.long_m)}{own} > {burn.bad}",
        "labels": alert_labels(slo, burn, judged=judged),
        "annotations": alert_annotations(slo, burn, scale, judged=judged),
    }


def alert_labels(slo: Slo, burn: Burn, *, judged: bool = False) -> dict[str, str]:
    """Return the labels of an alert; one on a judged metric says how certain the burn is."""
    # The series have the label `slo` already, but promtool's lint takes two rules without it for duplicates.
    certainty = {"certainty": "certain" if burn.certain else "possible"} if judged else {}
    return {"severity": burn.severity, "slo": slo.name, **certainty}


def alert_annotations(slo: Slo, burn: Burn, scale: float = 1.0, *, judged: bool = False) -> dict[str, str]:
    """Return the annotations of an alert."""
    bound = f"below {slo.at_least:g}" if slo.at_least is not None else f"above {slo.at_most:g}"
    where = " and ".join(f"{name} {value}" for name, value in sorted(slo.dimensions.items()))
    window = duration(burn.long_m * MINUTE_SECONDS * scale)
    estimated = " by the estimate from judged ones" if judged else ""
    return {
        "summary": f"Too many events have {slo.metric} {bound}" + (f", where {where}" if where else ""),
        "next": burn.next_command,
        "description": f"{SHARE} of the events of the last {window} were bad{estimated}; "
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
