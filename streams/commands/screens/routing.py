"""The way from a routing row to an event's probability of being judged, in words."""

from __future__ import annotations

from collections.abc import Iterator

from ragweir.metrics.routing_share import risk_bin
from ragweir.schemas.evaluation import SuiteDecision
from ragweir.schemas.routing_row import RoutingRow
from ragweir.streams.analysis.dead_letters.letters import shown
from ragweir.streams.services.shared.routing_rows import SHIPPED, Selection


def routing_lines(
    decision: SuiteDecision, row: RoutingRow | None, shipped: Selection, risk: float | None
) -> Iterator[str]:
    """Yield lines about the row of a decision, and how the probability follows from it.

    Args:
        decision: the decision of a suite, which names a row.
        row: this row, if it was found.
        shipped: the row of applications without one.
        risk: the event's `unsupported_risk`.
    """
    if row is None and decision.row != SHIPPED:
        yield f"by the row {shown(decision.row or '')}, which was not found"
        return
    if row is None:
        yield "by the shipped row, as the application had none at that time; its numbers are those of the settings now"
    else:
        name = "events without application" if row.application is None else shown(row.application)
        source = f"planned from {row.events:,} events" if row.events else "shipped"
        days = "" if row.window_start is None else f" from {row.window_start:%Y-%m-%d %H:%M}"
        days += "" if row.window_end is None else f" to {row.window_end:%Y-%m-%d %H:%M} UTC"
        yield f"by the row of {name} from {row.effective_at:%Y-%m-%d %H:%M} UTC, {source}{days}"
        yield f"the row selects {row.share:.3g} of the events, {row.floor_share:.3g} of these at random"
    by = shipped if row is None else Selection.of(row)
    own = by.floor if (number := risk_bin(risk)) is None or number < by.bin else 1.0
    if number == by.bin:
        own = by.floor + (1 - by.floor) * by.at_bin
    if number is None:
        why = "unsupported_risk is null, so only the floor selects it"
    elif number < by.bin:
        why = (
            f"unsupported_risk {risk:g} is in bin {number} of 0 to 99, below bin {by.bin}, so only the floor selects it"
        )
    elif number > by.bin:
        why = f"unsupported_risk {risk:g} is in bin {number} of 0 to 99, above bin {by.bin}, so it is always selected"
    else:
        why = (
            f"unsupported_risk {risk:g} is in bin {number} of 0 to 99, of which the part {by.at_bin:.3g} is selected "
            f"besides the floor: {by.floor:.3g} + (1 - {by.floor:.3g}) * {by.at_bin:.3g}"
        )
    yield f"{why}: probability {own:.6g}; floor {by.floor:.3g}"
    if abs(decision.probability - own) > 1e-9:
        yield f"a rule or floor of the settings gives {decision.probability:g}; the largest probability holds"
