"""Remarks of a summary: the events to look at first."""

from pathlib import Path

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.from_settings import catalogue
from ragweir.streams.screens.summary import EvaluationSummary
from ragweir.streams.settings import Settings


def scored(event_id: str, risk: float | None, *, empty: bool = False) -> Evaluation:
    reasons = {"context_support": "the event has no contexts"} if risk is None else {}
    scores = {"unsupported_risk": risk, "empty_response": float(empty)}
    return Evaluation(event_id=event_id, event_time=0, catalogue_version="3", scores=scores, reasons=reasons)


def test_the_riskiest_events_are_named_and_what_is_not_known_is_counted() -> None:
    summary = EvaluationSummary(Aggregator(catalogue(Settings())))
    assert list(summary.remarks(None)) == []
    for number, risk in enumerate((0.5, 0.1, None, 0.9, 0.2, 0.7)):
        summary.add(scored(f"event {number}", risk, empty=number == 1))
    assert list(summary.remarks(Path("my scores.jsonl"))) == [
        "1 of 6 have no contexts: how grounded they are is not known",
        "1 of 6 have an empty response (empty_response)",
        "highest unsupported_risk: event 3 0.900, event 5 0.700, event 0 0.500",
        "  ragweir explain 'event 3' --file 'my scores.jsonl'",
    ]
    assert list(summary.remarks(None))[-1].startswith("highest"), "no file to explain an event of"


def test_an_id_cannot_change_the_terminal() -> None:
    summary = EvaluationSummary(Aggregator(catalogue(Settings())))
    summary.add(scored("\x1b[31mred", 0.9))
    assert all(line.isprintable() for line in summary.remarks(Path("scores.jsonl")))
