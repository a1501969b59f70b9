"""Remarks of a summary: the events of which less is known."""

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.from_settings import catalogue
from ragweir.streams.screens.summary import EvaluationSummary
from ragweir.streams.settings import Settings


def scored(event_id: str, risk: float | None, *, empty: bool = False) -> Evaluation:
    reasons = {"context_support": "the event has no contexts"} if risk is None else {}
    scores = {"unsupported_risk": risk, "empty_response": float(empty)}
    return Evaluation(event_id=event_id, event_time=0, catalogue_version="3", scores=scores, reasons=reasons)


def test_what_is_not_known_is_counted() -> None:
    summary = EvaluationSummary(Aggregator(catalogue(Settings())))
    assert list(summary.remarks()) == []
    for number, risk in enumerate((0.5, 0.1, None, 0.9, 0.2, 0.7)):
        summary.add(scored(f"event {number}", risk, empty=number == 1))
    assert list(summary.remarks()) == [
        "1 of 6 have no contexts: how grounded they are is not known",
        "1 of 6 have an empty response (empty_response)",
    ]
