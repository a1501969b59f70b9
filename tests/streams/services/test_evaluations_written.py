"""Evaluations are made and written as their model makes and writes them, whatever the event and the metrics."""

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import orjson
import pytest
from poison import GOOD, REPAIRED, event
from pydantic import ValidationError
from typing_extensions import override

from bench.interactions import interactions
from ragweir.errors import Rejected
from ragweir.metrics.catalogue import Catalogue, Scored, everything
from ragweir.metrics.cause.coded_facets import facets
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.metric import Flagged, Metric, Null
from ragweir.metrics.view import View
from ragweir.schemas.codec.decoder import Decoder
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import CARRIED_OVER, Evaluation, Source, Texts, document_ids
from ragweir.schemas.interaction import Context, Interaction
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.evaluation_writer import evaluation_of
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.shared.routing_rows import RoutingRows, RowSource, Selection
from ragweir.streams.settings import RoutingSettings
from ragweir.streams.traces.otlp_results import OtlpResults

CATALOGUE = Catalogue(everything())
ROUTER = Router(RoutingSettings(floors={"rubric": 0.5}), CATALOGUE, tuple(suites()))
BY_ROWS = Router(RoutingSettings(share=0.1, floors={"rubric": 0.5}), CATALOGUE, tuple(suites()))

NOW = datetime(2026, 11, 21, tzinfo=UTC)
_CONTEXTS = [{"text": "Ada.", "document_id": f"d{number % 20}", "rank": 40 - number} for number in range(40)]
ORDINARY = {
    **{f"bench {number}": value for number, value in enumerate(interactions(20))},
    "labels": event(labels={"region": "eu", "": "é"}, tenant="t", session_id="s", trace_id="t", span_id="s"),
    "many documents": event(contexts=_CONTEXTS),
    "without content": event(query=None, response=None, contexts=[{"chunk_id": "a"}]),
    "with a cut list": event(expected=["Ada"] * 40),
    "in other time zones": event(ended_at="2026-11-21T10:00:04.230001+05:30"),
    "of no second": event(ended_at=1_764_000_000_000),
}


def reference(agent: EvaluateAgent, record: Record) -> Evaluation:
    """The evaluation of a record's only event, validated by its model."""
    [found] = agent.read(record)
    assert not isinstance(found, Rejected)
    interaction, time = found
    config = agent._config
    view = View(interaction, config.limits)
    scored = config.catalogue.score(view)
    return Evaluation(
        **{name: getattr(interaction, name) for name in CARRIED_OVER},
        event_time=time,
        scores=scored.scores,
        categories=scored.categories,
        reasons=scored.reasons,
        flags=(*interaction.flags, *scored.flags),
        evidence=config.catalogue.explain(view) if config.explain else {},
        decision=config.router.decide(
            interaction,
            scored.scores,
            scored.categories,
            view.absent,
            config.rows.rows.at(interaction.application, time)[0],
        )
        if config.router
        else Evaluation.model_fields["decision"].default,
        document_ids=document_ids(interaction),
        facets=facets(interaction, view)[0],
        text=Texts(
            query=interaction.query,
            response=interaction.response,
            contexts=tuple(context.text for context in interaction.contexts or ()),
        )
        if config.include_text
        else None,
        catalogue_version=config.catalogue.version,
        source=Source(topic=record.topic, partition=record.partition, offset=record.offset),
        run_id=config.run_id,
    )


ROW = Selection("2026-11-20T00:00:00Z", 30, 0.5, 0.9, "9df88540bc51492e")
ROWS = RoutingRows(
    {name: ([datetime(1970, 1, 1, tzinfo=UTC)], [ROW]) for name in (f"app-{number}" for number in range(4))}
)

CONFIGS = {
    "alone": EvaluateConfig(CATALOGUE),
    "routed": EvaluateConfig(CATALOGUE, router=ROUTER),
    "routed by rows": EvaluateConfig(CATALOGUE, router=BY_ROWS, rows=RowSource(ROWS)),
    "all": EvaluateConfig(CATALOGUE, router=ROUTER, include_text=True, explain=True, run_id="july"),
    "otlp": EvaluateConfig(CATALOGUE, otlp=OtlpResults(tuple(CATALOGUE.free), {})),
}


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_an_evaluation_is_written_as_its_model_is(config: EvaluateConfig) -> None:
    """The bytes of evaluations, requests and results are those of validated models, for each kind of event."""
    agent, requests, by_row = EvaluateAgent(config), 0, 0
    for value in (*ORDINARY.values(), *REPAIRED.values()):
        record = Record("t", 3, 7, None, value, 1_764_000_000_000)
        evaluation = reference(agent, record)
        emissions = {each.topic: each for each in agent.handle([record]).emissions}
        written = emissions["evaluations"]
        assert written.value == encode(evaluation)
        by_row += b'"row_digest":"9df88540bc51492e"' in written.value
        assert Evaluation.model_validate(orjson.loads(written.value)) == evaluation
        assert written.key == evaluation.event_id.encode()
        assert dict(written.headers)["ce_time"] == evaluation.event_time.isoformat().encode()
        [found] = agent.evaluate(record)
        assert not isinstance(found, Rejected)
        assert repr(found[0]) == repr(evaluation)
        assert found[0] == evaluation
        if request := emissions.get("judge.requests"):
            requests += 1
            assert request.value is not None
            assert encode(JudgeRequest.model_validate(orjson.loads(request.value))) == request.value
            assert orjson.loads(request.value)["evaluation"] == orjson.loads(written.value)
        if config.otlp:
            assert [each for each in emissions.values() if each.topic == "otlp.evaluations"] == config.otlp.emissions(
                "evaluate", evaluation
            )
    assert (requests > 0) == bool(config.router)
    assert (by_row > 0) == (config is CONFIGS["routed by rows"])


class _Float(float):
    __slots__ = ()


class _Text(str):
    __slots__ = ()


VALUES: tuple[Any, ...] = (
    *(None, True, 0, 1, 10**30, 10**400, -0.0, 0.1234567, 1e300, float("nan"), float("inf"), "1.5", "a", "", "\ud800"),
    *(Decimal("1.5"), Decimal("NaN"), Fraction(1, 3), 1j, b"1", [1.0], {"a": 1}, (), object, Null("because")),
    *(Null(5), Null("\udfff"), Null(None), Flagged(0.5, "odd"), Flagged("a", "odd"), Flagged(0.5, "\ud800")),  # type: ignore[arg-type]
    *(
        np.float64(0.5),
        np.float32(0.1),
        np.int64(3),
        np.bool_(True),
        np.array([1.0]),
        np.str_("a"),
        _Float(0.25),
        _Text("b"),
    ),
)
"""The results of metrics of users."""


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["score", "ms", "boolean", "category"])
@pytest.mark.parametrize(
    "value", VALUES, ids=[f"{number} {type(value).__name__}" for number, value in enumerate(VALUES)]
)
def test_a_metric_of_the_users_may_return_anything(value: Any, unit: Any) -> None:
    """A value is written as the model converts it, and one that it rejects makes the event a dead letter, as before."""

    own = Metric(lambda _: value, "test", unit, "higher", (), "test", name="own")
    check(EvaluateAgent(EvaluateConfig(Catalogue([own]))))


def check(agent: EvaluateAgent) -> None:
    """Compare what becomes of an event with what its validated evaluation would be written as."""
    record = Record("t", 0, 0, None, event(), 0)
    [emission] = agent.handle([record]).emissions
    try:
        expected = encode(reference(agent, record))
    except Exception as error:
        message = f"evaluating raised {type(error).__name__}".encode()
        assert (emission.topic, dict(emission.headers)["ragweir-message"]) == ("dead-letter", message)
    else:
        assert (emission.topic, emission.value) == ("evaluations", expected)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), -float("inf")])
def test_a_score_that_is_not_finite_is_rejected(wrong: float) -> None:
    """The model's check of scores is kept, also if the catalogue did not keep them finite."""
    scored = Scored(scores={"first": 1.0, "second": wrong, "third": None})
    with pytest.raises(ValidationError, match="finite number"):
        evaluation_of(
            Interaction.model_validate(GOOD), NOW, scored, Record("t", 0, 0, None, b"", 0), 0, catalogue_version="3"
        )


def test_ordinary_evaluations_are_not_validated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast way is the one that ordinary events take."""
    monkeypatch.setattr(Evaluation, "__init__", None)
    records = [Record("t", 0, number, None, value, 0) for number, value in enumerate(ORDINARY.values())]
    outcome = EvaluateAgent(CONFIGS["routed"]).handle(records)
    assert outcome.counts["ragweir_evaluations_total", "scored"] == len(ORDINARY)


def test_scores_beyond_the_largest_float_together_are_written() -> None:
    """A sum that is not finite is no proof: finite scores whose sum overflows are written."""
    names = ("first", "second")
    own = [Metric(lambda _: 1.7e308, "test", "score", "higher", (), "test", name=name) for name in names]
    catalogue = Catalogue(own)
    agent = EvaluateAgent(EvaluateConfig(catalogue))
    [emission] = agent.handle([Record("t", 0, 0, None, event(), 0)]).emissions
    assert orjson.loads(emission.value or b"")["scores"] == dict.fromkeys(names, 1.7e308)


@pytest.mark.parametrize(
    "changed",
    [
        {"tenant": 5},
        {"event_id": None},
        {"labels": {"a": 1}},
        {"labels": {1: "a"}},
        {"trace_id": "\ud800"},
        {"contexts": (Context.model_construct(document_id=5, rank=None, text="a"),)},
    ],
    ids=str,
)
def test_an_event_that_was_not_validated_is_written_as_the_model_is(changed: dict[str, Any]) -> None:
    """An own decoder's event with values that validation would not leave is validated as part of the evaluation."""

    class Own(Decoder):
        @override
        def events(self, value: bytes | None) -> list[Interaction]:
            return [Interaction.model_validate(GOOD).model_copy(update=changed)]

    check(EvaluateAgent(EvaluateConfig(Catalogue([]), decoders={"t": Own()})))
