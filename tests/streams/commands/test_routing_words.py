"""`ragweir explain` says how a probability follows from a routing row."""

from datetime import UTC, datetime, timedelta

import pytest

from ragweir.schemas.evaluation import SuiteDecision
from ragweir.schemas.routing_row import RoutingRow
from ragweir.streams.commands.screens.routing import routing_lines
from ragweir.streams.services.shared.routing_rows import DRAW_RANGE, Selection

TIME = datetime(2026, 11, 22, tzinfo=UTC)
ROW = RoutingRow(
    application="docs",
    effective_at=TIME,
    share=0.1,
    floor_share=0.25,
    bin=80,
    at_bin=0.5,
    floor=0.02,
    events=12_345,
    window_start=TIME - timedelta(days=8),
    window_end=TIME - timedelta(days=1),
)
SHIPPED = Selection("shipped", 73, 0.5, 0.025)


def words(risk: float | None, probability: float, row: RoutingRow | None = ROW, revision: str = "2026") -> str:
    decision = SuiteDecision(
        suite="rubric", status="selected", probability=probability, because=("share",), row=revision
    )
    return "\n".join(routing_lines(decision, row, SHIPPED, risk))


@pytest.mark.parametrize(
    ("risk", "said"),
    [
        (None, "unsupported_risk is null, so only the floor selects it"),
        (0.3, "0.3 is in bin 30 of 0 to 99, below bin 80, so only the floor"),
        (0.8, "0.8 is in bin 80 of 0 to 99, of which the part 0.5"),
        (0.9, "0.9 is in bin 90 of 0 to 99, above bin 80, so it is always selected"),
    ],
)
def test_the_probability_is_that_of_the_row(risk: float | None, said: str) -> None:
    probability = Selection.of(ROW).choice(risk, DRAW_RANGE - 1).probability
    found = words(risk, probability)
    assert said in found
    assert f": probability {probability:.6g};" in found
    assert "a rule or floor" not in found
    assert (
        "row of docs from 2026-11-22 00:00 UTC, planned from 12,345 events from 2026-11-14 00:00 to 2026-11-21" in found
    )
    assert "a rule or floor of the settings gives 0.7" in words(0.3, 0.7)


def test_the_shipped_row_and_one_that_is_not_found_are_named() -> None:
    assert "by the shipped row" in words(0.9, 1.0, None, "shipped")
    assert "above bin 73" in words(0.9, 1.0, None, "shipped")
    assert words(0.9, 1.0, None) == "by the row 2026, which was not found"
