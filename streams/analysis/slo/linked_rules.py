"""Links to the console in alerts: the annotation `console_url` of rules, and of the alerts that their tests expect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ragweir.streams.analysis.console_links import cause_path
from ragweir.streams.analysis.slo.burns import BURNS, MINUTE_SECONDS, Burn
from ragweir.streams.settings import Slo

_Annotations = dict[str, str]
_BURNS = {burn.alert: burn for burn in BURNS}
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}
_TIME = '{{{{ with query "time() - {seconds:.0f}" }}}}{{{{ . | first | value | printf "%.0f" }}}}{{{{ end }}}}'


def link_rules(content: dict[str, Any], slos: Sequence[Slo], public_url: str | None, scale: float = 1.0) -> None:
    """Add links to the alerts of rules: to the causes of the bad answers of the long window.

    Args:
        content: the rules, as `alert_rules.rules` makes them.
        slos: their SLOs.
        public_url: `console.public_url`; None adds nothing.
        scale: as for the rules.
    """
    rules = (rule for group in content["groups"] for rule in group["rules"] if "alert" in rule)
    alerts = ((rule["alert"], rule["labels"]["slo"], rule["annotations"], 0.0) for rule in rules)
    _link(alerts, slos, public_url, scale, lambda ago_s, _: _TIME.format(seconds=ago_s))


def link_tests(content: dict[str, Any], slos: Sequence[Slo], public_url: str | None, scale: float = 1.0) -> None:
    """Add the same links to the alerts that tests of rules expect, whose clock begins at 1970.

    Args:
        content: the tests, as `synthetic_tests` and `history_tests` make them.
        slos: their SLOs.
        public_url: `console.public_url`; None adds nothing.
        scale: as for the tests.
    """
    each = (own for test in content["tests"] for own in test["alert_rule_test"])
    alerts = (
        (own["alertname"], alert["exp_labels"]["slo"], alert["exp_annotations"], _seconds(own["eval_time"]))
        for own in each
        for alert in own["exp_alerts"]
    )
    _link(alerts, slos, public_url, scale, lambda ago_s, now_s: f"{now_s - round(ago_s):.0f}")


def _link(
    alerts: Iterator[tuple[str, str, _Annotations, float]],
    slos: Sequence[Slo],
    public_url: str | None,
    scale: float,
    time: Callable[[float, float], str],
) -> None:
    by_name = {slo.name: slo for slo in slos}
    for alert, name, texts, now_s in alerts if public_url else ():
        ago_s = _long_s(_BURNS[alert], scale)
        path = cause_path(by_name[name], time(ago_s, now_s), time(0, now_s))
        texts["console_url"] = f"{public_url}{path}"


def _long_s(burn: Burn, scale: float) -> float:
    return burn.long_m * MINUTE_SECONDS * scale


def _seconds(duration: str) -> float:
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)(ms|[smhd])", duration))
