"""Recording rules of SLOs on judged metrics, and the conditions of their alerts.

The rules compute `ragweir.streams.analysis.slo.certainty` from the increases of counters, which sum over workers and
over any time. All assumptions are those of that module.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragweir.streams.analysis.slo.burns import Burn, increase, series_over
from ragweir.streams.analysis.slo.certainty import CERTAIN, EXCLUDED
from ragweir.streams.settings import Slo

WEIGHT = "ragweir_slo_weight_millionths"
SQUARED = "ragweir_slo_squared_weight_millionths"
MILLION = 1_000_000
_PARTS = "weight", "share", "mean_bad_weight", "mean_good_weight"
"""Series that are recorded under an assumption."""

_Rule = dict[str, Any]


def recorded(burns: Sequence[Burn], scale: float) -> Iterator[_Rule]:
    """Yield the rules that cover all SLOs on judged metrics."""
    windows = sorted({minutes for burn in burns for minutes in (burn.long_m, burn.short_m)})
    for minutes in windows:
        for counter, series in ((WEIGHT, _weight(minutes)), (SQUARED, _squared(minutes))):
            yield {"record": series, "expr": f"({increase(counter, minutes, scale)}) / {MILLION}"}
        mean = f"sum by (slo) ({_squared(minutes)}) / sum by (slo) ({_weight(minutes)})"
        yield {"record": _mean(minutes), "expr": mean}
    for burn in burns:
        if burn.certain:
            yield from _assumed(burn.long_m, adverse=False)
        yield from _assumed(burn.short_m, adverse=True)


def _assumed(minutes: int, *, adverse: bool) -> Iterator[_Rule]:
    """Yield the share of bad events and the mean weights under an assumption."""
    good = _sum(minutes, "good" if adverse else "good|missing", one_more=not adverse)
    bad = _sum(minutes, "bad|missing" if adverse else "bad", one_more=adverse)
    total, share, own_bad, own_good = (_part(part, minutes, adverse=adverse) for part in _PARTS)
    yield {"record": total, "expr": f"{bad[0]} + {good[0]}"}
    yield {"record": share, "expr": f"({bad[0]}) / {total}"}
    for own, (weights, squares) in ((own_bad, bad), (own_good, good)):
        yield {"record": own, "expr": f"({squares}) / ({weights})"}


def _sum(minutes: int, outcomes: str, *, one_more: bool) -> tuple[str, str]:
    """Return expressions for the sum of the weights of some outcomes, and for that of their squares."""
    weights, squares = (
        f'sum by (slo) ({series}{{outcome=~"{outcomes}"}})' for series in (_weight(minutes), _squared(minutes))
    )
    mean = _mean(minutes)
    return (f"{weights} + {mean}", f"{squares} + {mean} ^ 2") if one_more else (weights, squares)


def evidences(slo: Slo, burns: Sequence[Burn]) -> Iterator[_Rule]:
    """Yield the rules that record the evidence of an SLO's burns and the evidence against them."""
    for burn in burns:
        threshold = burn.threshold(slo.objective)
        if burn.certain:
            yield _evidence_rule(slo.name, threshold, burn.long_m, adverse=False)
        yield _evidence_rule(slo.name, threshold, burn.short_m, adverse=True)


def _evidence_rule(slo: str, threshold: float, minutes: int, *, adverse: bool) -> _Rule:
    own = f'{{slo="{slo}"}}'
    total, share, bad, good = (_part(part, minutes, adverse=adverse) + own for part in _PARTS)
    t, rest = f"{threshold:.9g}", f"{1 - threshold:.9g}"
    events = f"{total} / ({rest} * {bad} + {t} * {good})"
    divergence = f"{share} * ln({share} / {t}) + (1 - {share}) * ln((1 - {share}) / {rest})"
    signed = f"sgn({t} - {share})" if adverse else f"sgn({share} - {t})"
    found = f"{signed} * ({events}) * ({divergence})"
    # It is not a number if no event is good: then there is no evidence, unless there are no events at all.
    expression = f"{found} >= -Inf or 0 * {_mean(minutes)}{own}" if adverse else found
    return {"record": _evidence(minutes, adverse=adverse), "expr": expression, "labels": {"slo": slo}}


def condition(slo: str, burn: Burn, share: str, threshold: float) -> str:
    """Return the condition on the share of bad events: a page needs a certain burn, a ticket a possible one."""
    own = f'{{slo="{slo}"}}'
    burns = f"{share}{own} > {threshold:.9g}"
    if burn.certain:
        burns = f"{share}{own} and {_evidence(burn.long_m, adverse=False)}{own} > {CERTAIN:g}"
    return f"{burns} and {_evidence(burn.short_m, adverse=True)}{own} < {EXCLUDED:g}"


def estimated_share(minutes: int) -> str:
    """Return an expression for the estimated share of bad events."""
    bad, known = (f'sum by (slo) ({_weight(minutes)}{{outcome=~"{outcomes}"}})' for outcomes in ("bad", "good|bad"))
    return f"{bad} / {known}"


def _weight(minutes: int) -> str:
    return series_over("slo_outcome:ragweir_slo_weight:increase", minutes)


def _squared(minutes: int) -> str:
    return series_over("slo_outcome:ragweir_slo_squared_weight:increase", minutes)


def _mean(minutes: int) -> str:
    return series_over("slo:ragweir_slo_weight:mean", minutes)


def _part(part: str, minutes: int, *, adverse: bool) -> str:
    limit = "most" if adverse else "least"
    return series_over(f"slo:ragweir_slo_{limit}_bad:{part}", minutes)


def _evidence(minutes: int, *, adverse: bool) -> str:
    return series_over(f"slo:ragweir_slo_burn:{'against' if adverse else 'evidence'}", minutes)
