"""A summary: its metrics in order of importance, and remarks on the events of which less is known."""

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.commands.screens.evaluation_summary import EvaluationSummary
from ragweir.streams.services.shared.from_settings import catalogue
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


def test_the_metrics_to_look_at_first_come_first() -> None:
    """The others follow in the order of the catalogue, and then those that it does not know."""
    summary = EvaluationSummary(Aggregator(catalogue(Settings())))
    scores = {"own": 1.0, "total_latency_ms": 5.0, "empty_response": 0.0, "token_f1": 0.5, "hedge_count": 1.0}
    more = {"refusal": 0.0, "context_support": 0.4, "input_tokens": 3.0, "unsupported_risk": 0.6}
    summary.add(Evaluation(event_id="1", event_time=0, catalogue_version="3", scores=scores | more))
    first = ["unsupported_risk", "context_support", "token_f1", "refusal", "total_latency_ms"]
    others = [name for name in catalogue(Settings()).metrics if name in scores | more and name not in first]
    assert len(others) == 3
    assert [*summary.table().columns[0].cells] == [*first, *others, "own"]


def test_suites_that_failed_are_counted_beside_the_events_that_were_judged() -> None:
    """An event is judged if one of its suites is; the others are not passed over in silence."""
    summary = EvaluationSummary(Aggregator(catalogue(Settings())), judging=True)
    for event_id, statuses in (("1", ("judged", "failed", "failed")), ("2", ("judged",)), ("3", ("failed", "failed"))):
        suites = [
            {"suite": f"s{at}", "status": status, "probability": 1.0, "because": ["risk"]}
            for at, status in enumerate(statuses)
        ]
        fields = {"event_id": event_id, "event_time": 0, "catalogue_version": "3"}
        selected = [{**suite, "status": "selected"} for suite in suites]
        summary.add(Evaluation.model_validate({**fields, "decision": {"suites": selected}}))
        summary.add(Evaluation.model_validate({**fields, "stage": "judged", "decision": {"suites": suites}}))
    expected = "3 scored; 3 selected: 2 judged (of their 4 suites 2 failed), 1 failed; $0.0000 spent"
    assert summary.line() == expected
