"""Unit tests of SLO rules in the format of promtool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ragweir.streams.analysis.slo.alert_rules import SHARE, alert_annotations, alert_labels
from ragweir.streams.analysis.slo.burns import FAST, MINUTE_SECONDS, Burn, duration
from ragweir.streams.settings import Slo

SHOWN_DIGITS = 4
"""Digits of a share in an annotation."""

Series = tuple[str, str, str]
"""Name, outcome and samples of an input series."""


def test_file(rule_file: str, scale: float, tests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the content of a test file.

    Args:
        rule_file: path of the rules, relative to the test file.
        scale: as for the rules.
        tests: the tests.
    """
    interval = duration(FAST.short_m * MINUTE_SECONDS * scale)
    return {"rule_files": [rule_file], "evaluation_interval": interval, "tests": list(tests)}


def alert_test(
    slo: Slo,
    burn: Burn,
    name: str,
    intervals_s: tuple[float, float],
    series: Iterable[Series],
    share: float | None,
    scale: float = 1.0,
    *,
    judged: bool = False,
) -> dict[str, Any]:
    """Return one test; `intervals_s` are those between samples and from the first sample to the evaluation.

    The alert has to fire if `share`, the share of bad events in the long window, is not None.
    """
    alerts = []
    if share is not None:
        shown = f"{100 * share:.{SHOWN_DIGITS}g}%"
        annotations = alert_annotations(slo, burn, scale, judged=judged)
        texts = {key: text.replace(SHARE, shown) for key, text in annotations.items()}
        alerts = [{"exp_labels": alert_labels(slo, burn, judged=judged), "exp_annotations": texts}]
    return {
        "name": f"{slo.name}, {burn.severity}: {name}",
        "interval": duration(intervals_s[0]),
        "input_series": [
            {"series": f'{each}{{slo="{slo.name}", outcome="{outcome}"}}', "values": values}
            for each, outcome, values in series
        ],
        "alert_rule_test": [{"alertname": burn.alert, "eval_time": duration(intervals_s[1]), "exp_alerts": alerts}],
    }
