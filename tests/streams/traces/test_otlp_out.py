"""Evaluations as OpenTelemetry log records: their content, bounds and bytes, and the settings that choose them."""

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from scripted_judge import GOOD, Log, ScriptedPool, Worker, config, request

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.judged.driver import Judged
from ragweir.schemas.evaluation import Decision, Evaluation, Judgement, SuiteDecision
from ragweir.schemas.run import ReplayRequest, Run
from ragweir.schemas.topics import TOPICS
from ragweir.streams.analysis.checks.context import CheckContext
from ragweir.streams.analysis.replay.request import topic_names
from ragweir.streams.analysis.replay.runs import fingerprint, result_affecting_settings, run_settings
from ragweir.streams.runtime.records import Emission, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.judge.from_settings import judge_config
from ragweir.streams.settings import Settings, load
from ragweir.streams.settings.events import DEFAULT_OTLP_METRICS
from ragweir.streams.traces.otlp_results import MAX_BYTES, OtlpResults

NOON = datetime(2026, 11, 23, 12, 0, 0, 123456, tzinfo=UTC)
NOON_NS = 1_795_435_200_123_456_000
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
RESULTS = OtlpResults(("context_support", "refusal", "kind"), {"grade": "grading", "mark": "grading"})


def evaluation(**fields: Any) -> Evaluation:
    given = {"event_id": "e1", "event_time": NOON, "catalogue_version": "3", "scores": {"context_support": 0.5}}
    return Evaluation(**{**given, **fields})


def judged(status: str = "judged", **fields: Any) -> Evaluation:
    decision = Decision(suites=(SuiteDecision(suite="grading", status=status, probability=1.0),))
    return evaluation(stage="judged", decision=decision, **fields)


def made(results: OtlpResults, *evaluations: Evaluation) -> list[Emission]:
    return [emission for each in evaluations for emission in results.emissions("evaluate", each)]


def parsed(emission: Emission) -> ExportLogsServiceRequest:
    assert emission.value is not None
    return ExportLogsServiceRequest.FromString(emission.value)


def log_records(emissions: Sequence[Emission]) -> list[LogRecord]:
    return [
        record
        for emission in emissions
        for resource in parsed(emission).resource_logs
        for scope in resource.scope_logs
        for record in scope.log_records
    ]


def attributes(given: Any) -> dict[str, Any]:
    """The attributes of a log record or a resource; each name occurs once."""
    assert len({each.key for each in given.attributes}) == len(given.attributes)
    return {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in given.attributes}


def by_name(emissions: Sequence[Emission]) -> dict[str, dict[str, Any]]:
    found = [attributes(record) for record in log_records(emissions)]
    return {each["gen_ai.evaluation.name"]: each for each in found}


# One request.


def test_each_score_is_an_event_of_the_conventions() -> None:
    """One emission has a log record per selected metric, with value or label, ids, times and ragweir's own names."""
    given = evaluation(
        application="helper",
        environment="prod",
        pipeline_version="7",
        tenant="acme",
        session_id="s1",
        trace_id=TRACE,
        span_id=SPAN,
        scores={"context_support": 0.5, "refusal": 0.0, "other": 1.0},
        categories={"kind": "table"},
    )
    (emission,) = made(RESULTS, given)
    (resource,) = parsed(emission).resource_logs
    assert attributes(resource.resource) == {
        "service.name": "helper",
        "service.version": "7",
        "deployment.environment.name": "prod",
    }
    (scope,) = resource.scope_logs
    assert scope.scope.name == "ragweir"
    for record in scope.log_records:
        assert record.event_name == "gen_ai.evaluation.result"
        assert (record.trace_id.hex(), record.span_id.hex()) == (TRACE, SPAN)
        assert record.time_unix_nano == record.observed_time_unix_nano == NOON_NS
    common = {
        "ragweir.event_id": "e1",
        "ragweir.stage": "scored",
        "ragweir.catalogue_version": "3",
        "ragweir.tenant": "acme",
        "gen_ai.conversation.id": "s1",
    }
    assert [attributes(record) for record in scope.log_records] == [
        {"gen_ai.evaluation.name": name, **result, "log.record.uid": f"e1:scored:{name}", **common}
        for name, result in (
            ("context_support", {"gen_ai.evaluation.score.value": 0.5}),
            ("refusal", {"gen_ai.evaluation.score.value": 0.0}),
            ("kind", {"gen_ai.evaluation.score.label": "table"}),
        )
    ]
    assert (emission.topic, emission.key) == ("otlp.evaluations", TRACE.encode())
    headers = dict(emission.headers)
    assert headers["ce_id"] == b"e1:scored"
    assert headers["ce_type"] == b"ragweir.otlp.scored.v1"
    assert headers["content-type"] == b"application/x-protobuf"


def test_without_names_the_service_is_unknown_and_nothing_is_empty() -> None:
    (emission,) = made(RESULTS, evaluation())
    assert attributes(parsed(emission).resource_logs[0].resource) == {"service.name": "unknown_service"}
    assert by_name([emission])["context_support"].keys() == {
        "gen_ai.evaluation.name",
        "gen_ai.evaluation.score.value",
        "log.record.uid",
        "ragweir.event_id",
        "ragweir.stage",
        "ragweir.catalogue_version",
    }
    assert emission.key == b"e1"


@pytest.mark.parametrize(
    ("trace_id", "span_id", "trace", "span"),
    [
        (TRACE, SPAN, TRACE, SPAN),
        (TRACE.upper(), SPAN.upper(), TRACE, SPAN),
        (TRACE, None, TRACE, ""),
        (TRACE, "0" * 16, TRACE, ""),
        (TRACE, SPAN[:-1], TRACE, ""),
        (TRACE, TRACE, TRACE, ""),
        (None, SPAN, "", ""),
        ("0" * 32, SPAN, "", ""),
        (TRACE + "0", SPAN, "", ""),
        (TRACE + "\n", SPAN, "", ""),
        ("0af76519-16cd-43dd-8448-eb211c80319c", SPAN, "", ""),
        ("z" * 32, SPAN, "", ""),
        ("١" * 32, SPAN, "", ""),
        ("", "", "", ""),
    ],
)
def test_only_ids_of_opentelemetry_are_passed_on(
    trace_id: str | None, span_id: str | None, trace: str, span: str
) -> None:
    """32 and 16 hex digits that are not all 0; a span id needs a trace id. The key is the trace id, or the event's."""
    (emission,) = made(RESULTS, evaluation(trace_id=trace_id, span_id=span_id))
    (record,) = log_records([emission])
    assert (record.trace_id.hex(), record.span_id.hex()) == (trace, span)
    assert emission.key == (trace or "e1").encode()


def test_scored_evaluations_have_free_metrics_and_judged_ones_only_those_of_the_judge() -> None:
    """A judged evaluation repeats the scores, which are not written a second time."""
    scores = {"context_support": 0.5, "grade": 0.75}
    assert by_name(made(RESULTS, evaluation(scores=scores))).keys() == {"context_support"}
    model = Judgement(model="m", prompt_version="1", input_tokens=1, output_tokens=1, cost_usd=0, cached=False)
    found = by_name(made(RESULTS, judged(scores=scores, categories={"mark": "A"}, judge=model)))
    assert found.keys() == {"grade", "mark"}
    assert found["grade"]["log.record.uid"] == "e1:judged:grade"
    assert {each["ragweir.judge.model"] for each in found.values()} == {"m"}


def test_a_null_is_left_out_and_an_evaluation_without_values_writes_nothing() -> None:
    nulls = {"context_support": None, "refusal": 1.0}
    assert by_name(made(RESULTS, evaluation(scores=nulls, categories={"kind": None}))).keys() == {"refusal"}
    assert made(RESULTS, evaluation(scores={"other": 1.0})) == []
    assert made(RESULTS, judged(scores={"context_support": 1.0, "grade": None})) == []


@pytest.mark.parametrize(("status", "error"), [("failed", "judge_failed"), ("expired", "judge_expired")])
def test_a_judge_that_failed_is_an_error_of_each_of_its_metrics(status: str, error: str) -> None:
    found = by_name(made(RESULTS, judged(status, scores={"grade": None}, categories={"mark": None})))
    assert {name: each["error.type"] for name, each in found.items()} == {"grade": error, "mark": error}
    assert not [name for each in found.values() for name in each if "score" in name]


def test_the_evaluator_is_named_only_if_asked_for() -> None:
    """Id, version and type as in open-telemetry/semantic-conventions-genai#359, which is open."""
    start = "gen_ai.evaluation.evaluator."
    given = evaluation(), judged(scores={"context_support": 0.5, "grade": 0.25})
    assert not [name for each in by_name(made(RESULTS, *given)).values() for name in each if name.startswith(start)]
    found = by_name(made(OtlpResults(RESULTS.scored, RESULTS.judged, evaluator=True), *given))
    assert {name: [each[start + part] for part in ("id", "version", "type")] for name, each in found.items()} == {
        "context_support": ["ragweir/context_support", "3", "deterministic"],
        "grade": ["ragweir/grading", "3", "llm_judge"],
    }


def test_explanations_are_written_only_if_asked_for() -> None:
    """They quote users and documents."""
    given = judged(scores={"grade": 0.75}, explanations={"grade": "She said so."})
    assert "gen_ai.evaluation.explanation" not in by_name(made(RESULTS, given))["grade"]
    assert b"She said so" not in (made(RESULTS, given)[0].value or b"")
    asked = OtlpResults((), {"grade": "grading"}, explanations=True)
    assert by_name(made(asked, given))["grade"]["gen_ai.evaluation.explanation"] == "She said so."


@pytest.mark.parametrize(
    ("year", "expected"),
    [(1, 0), (1969, 0), (1970, None), (2553, None), (2555, 0), (9999, 0)],
)
def test_a_time_that_nanoseconds_cannot_hold_is_unknown(year: int, expected: int | None) -> None:
    """64 bits of nanoseconds begin in 1970 and end in 2554; 0 means unknown."""
    time = datetime(year, 12, 31, tzinfo=UTC)
    (record,) = log_records(made(RESULTS, evaluation(event_time=time)))
    wanted = round(time.timestamp()) * 10**9 if expected is None else expected
    assert record.time_unix_nano == record.observed_time_unix_nano == wanted


# Bounds.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "explained", "most"), [*product([1, 40, 2_000], [0, 10, 200_000], [1_000, 20_000, MAX_BYTES])]
)
def test_a_request_is_bounded_whatever_the_evaluation_has(names: int, explained: int, most: int) -> None:
    """Names and ids are cut; explanations that do not fit are counted as dropped, and then metrics are left out."""
    metrics = [f"metric_{number}" for number in range(names)]
    long = "ü" * 1_000_000
    given = judged(
        event_id="ü" * 200,
        scores=dict.fromkeys(metrics, 1.0),
        explanations=dict.fromkeys(metrics, "ü" * explained),
        **dict.fromkeys(("application", "tenant", "environment", "pipeline_version", "session_id"), long),
    )
    emissions = made(OtlpResults((), dict.fromkeys(metrics, "grading"), explanations=True, max_bytes=most), given)
    assert sum(len(each.value or b"") for each in emissions) <= most
    assert sum(len(each.key or b"") for each in emissions) <= 400
    assert sum(len(value or b"") for each in emissions for _, value in each.headers) <= 2_000
    for record in log_records(emissions):
        has = "gen_ai.evaluation.explanation" in attributes(record)
        assert has + record.dropped_attributes_count == bool(explained)
    if most == MAX_BYTES and names == 1:
        assert len(log_records(emissions)) == 1, "what fits is there"


def test_metrics_that_fit_are_written_without_the_explanations_that_do_not() -> None:
    given = judged(scores={"grade": 0.75}, categories={"mark": "A"}, explanations={"grade": "x" * 2_000})
    results = OtlpResults((), RESULTS.judged, explanations=True, max_bytes=1_000)
    grade, mark = log_records(made(results, given))
    assert (grade.dropped_attributes_count, mark.dropped_attributes_count) == (1, 0)
    assert attributes(grade)["gen_ai.evaluation.score.value"] == 0.75


# The agents.

CATALOGUE = Catalogue(everything())
EVENTS = [
    orjson.dumps(
        {
            "event_id": f"e{number}",
            "query": "When did the tower open?",
            "response": f"The tower opened in {1889 + number}.",
            "contexts": [{"text": "The tower opened in 1889."}],
            "trace_id": TRACE if number % 2 else None,
        }
    )
    for number in range(6)
]
RECORDS = [Record("t", 0, offset, None, value, 1_795_435_200_000) for offset, value in enumerate([*EVENTS, b"{"])]
DEFAULT = OtlpResults(DEFAULT_OTLP_METRICS[:-1], {})


def written(otlp: OtlpResults | None, batch: int) -> list[Emission]:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, otlp=otlp, duplicate_horizon=10))
    batches = [RECORDS[first : first + batch] for first in range(0, len(RECORDS), batch)]
    return [emission for each in batches for emission in agent.handle(each).emissions]


def test_evaluate_adds_one_request_to_each_evaluation_and_changes_nothing_else() -> None:
    """In the same outcome, so in the same transaction; without a value there is none, as for the dead letter."""
    plain, both = written(None, 7), written(DEFAULT, 7)
    assert [each for each in both if each.topic != "otlp.evaluations"] == plain
    requests = [each for each in both if each.topic == "otlp.evaluations"]
    evaluations = [each for each in both if each.topic == "evaluations"]
    assert [dict(each.headers)["ce_id"] for each in requests] == [dict(each.headers)["ce_id"] for each in evaluations]
    for one, other in zip(evaluations, requests, strict=True):
        scores = orjson.loads(one.value or b"")["scores"]
        found = {name: each["gen_ai.evaluation.score.value"] for name, each in by_name([other]).items()}
        assert found == {name: scores[name] for name in DEFAULT_OTLP_METRICS[:-1]}


def test_bytes_are_the_same_whatever_the_batches() -> None:
    assert written(DEFAULT, 1) == written(DEFAULT, 3) == written(DEFAULT, 7)


def test_a_duplicate_writes_no_second_request() -> None:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, otlp=DEFAULT, duplicate_horizon=10))
    again = Record("t", 0, 9, None, EVENTS[0], 0)
    assert [each.topic for each in agent.handle([RECORDS[0]]).emissions] == ["evaluations", "otlp.evaluations"]
    assert agent.handle([again]).emissions == []


def judging(judge_says: Judged | None, otlp: OtlpResults | None = RESULTS, **settings: Any) -> list[Emission]:
    """The emissions of one request, the last of which settle it."""
    pool, log = ScriptedPool(), Log()
    base = config(**settings)
    agent = JudgeAgent(type(base)(base.suites, base.judge, 1, otlp=otlp), pool)
    worker = Worker(log, agent, number=1)
    log.ask(request("e1", trace_id=TRACE, span_id=SPAN))
    emissions = worker.turn()
    pool.land(pool.started[-1], judge_says, why="it is down")
    return [*emissions, *worker.turn()]


def test_judge_adds_one_request_to_each_judged_evaluation() -> None:
    emissions = judging(GOOD)
    topics = [each.topic for each in emissions if each.topic != "judge.ledger"]
    assert topics == ["evaluations", "otlp.evaluations"]
    (result,) = [each for each in emissions if each.topic == "otlp.evaluations"]
    found = by_name([result])
    assert {name: each.get("gen_ai.evaluation.score.value") for name, each in found.items()} == {
        "grade": 0.75,
        "mark": None,
    }
    assert found["mark"]["gen_ai.evaluation.score.label"] == "A"
    assert {each["ragweir.stage"] for each in found.values()} == {"judged"}
    assert (result.key, dict(result.headers)["ce_source"]) == (TRACE.encode(), b"ragweir/judge")
    plain = [each for each in judging(GOOD, None) if each.topic == "evaluations"]
    assert [each for each in emissions if each.topic == "evaluations"] == plain


def test_a_request_that_waits_or_fails_is_no_result_until_it_is_settled() -> None:
    """A failure that is tried again writes nothing; the last one writes the error of each metric."""
    assert not [each for each in judging(None, retries=3) if each.topic == "otlp.evaluations"]
    found = by_name([each for each in judging(None, retries=0) if each.topic == "otlp.evaluations"])
    assert {name: each["error.type"] for name, each in found.items()} == dict.fromkeys(
        ("grade", "mark"), "judge_failed"
    )


@pytest.mark.parametrize("otlp", [None, RESULTS])
def test_agents_name_the_topic_only_if_they_write_it(otlp: OtlpResults | None) -> None:
    base = config()
    judge = JudgeAgent(type(base)(base.suites, base.judge, 1, otlp=otlp), ScriptedPool())
    for agent in (EvaluateAgent(EvaluateConfig(CATALOGUE, otlp=otlp)), judge):
        assert ("otlp.evaluations" in agent.outputs) == (otlp is not None)
        assert set(agent.outputs) <= TOPICS.keys()


# The settings.

WITH_TOPIC = '[output.otlp]\ntopic = "theirs"'


def loaded(tmp_path: Path, text: str) -> Settings:
    file = tmp_path / "ragweir.toml"
    file.write_text(text, encoding="utf-8")
    return load(file)


def chosen(settings: Settings) -> OtlpResults | None:
    return evaluate_config(settings, "t").otlp


def test_nothing_is_written_unless_the_table_is_there(tmp_path: Path) -> None:
    """An empty table writes the default metrics: four of every event, and one of the judge."""
    assert chosen(loaded(tmp_path, "")) is None
    results = chosen(loaded(tmp_path, "[output.otlp]"))
    assert results is not None
    assert set(results.scored) | results.judged.keys() == set(DEFAULT_OTLP_METRICS)
    assert len(results.scored) == 4
    assert dict(results.judged) == {"judge_faithfulness": "rubric"}
    assert not results.explanations
    judge = loaded(tmp_path, '[output.otlp]\n[judge]\nbase_url = "http://127.0.0.1:9/v1"\ndaily_budget_usd = "none"')
    assert judge_config(judge, 1).otlp == results


def test_a_setting_names_the_evaluator(tmp_path: Path) -> None:
    for text, expected in (("", False), ("evaluator = true", True)):
        results = chosen(loaded(tmp_path, f"[output.otlp]\n{text}"))
        assert results is not None
        assert results.evaluator is expected


def test_the_environment_sets_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEIR_OUTPUT__OTLP__METRICS", '["refusal"]')
    results = chosen(loaded(tmp_path, ""))
    assert results is not None
    assert results.scored == ("refusal",)


def test_metrics_are_named_one_by_one_or_by_groups(tmp_path: Path) -> None:
    results = chosen(loaded(tmp_path, '[output.otlp]\nmetrics = ["rubric", "refusal", "performance"]'))
    assert results is not None
    groups = {CATALOGUE.metrics[name].group for name in (*results.scored, *results.judged)}
    assert groups == {"rubric", "performance", CATALOGUE.metrics["refusal"].group}
    assert results.scored[-1] == "refusal"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[output.otlp]\nmetrics = ["refusals"]', "'refusals', which is no metric or group that is switched on"),
        ('[metrics]\noff = ["refusal"]\n[output.otlp]\nmetrics = ["refusal"]', "'refusal', which is no metric"),
        ('[output.otlp]\nmetrics = ["EF_1.rules_found"]', "EF_1"),
        ("[output.otlp]\nmetrics = []", "at least 1"),
        ('[output.otlp]\ntopic = "a b"', "pattern"),
        ('[output.otlp]\ntopics = "a"', "there is no such setting"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        chosen(loaded(tmp_path, text))


def test_a_default_metric_that_is_switched_off_is_left_out(tmp_path: Path) -> None:
    results = chosen(loaded(tmp_path, '[metrics]\noff = ["refusal"]\n[output.otlp]'))
    assert results is not None
    assert "refusal" not in results.scored
    assert len(results.scored) == 3


def test_every_request_fits_into_a_record_of_the_smallest_topics(tmp_path: Path) -> None:
    results = chosen(loaded(tmp_path, "[limits]\nmax_event_bytes = 1024\n[output.otlp]"))
    assert results is not None
    assert results.max_bytes < 2 * 1024 + 64 * 1024


RUN = Run(
    run_id="r",
    began_at=NOON,
    phase="evaluating",
    asked=ReplayRequest(),
    topic="t",
    partitions=1,
    catalogue_version="3",
    fingerprint="",
    settings={},
)


@pytest.mark.parametrize("replays", [False, True])
def test_replays_write_none_unless_asked_and_never_to_the_live_topic(tmp_path: Path, *, replays: bool) -> None:
    live = loaded(tmp_path, f'[output.otlp]\ntopic = "theirs"\nreplays = {str(replays).lower()}')
    own = run_settings(live, RUN)
    assert (chosen(own) is not None) == replays
    assert ("otlp.evaluations" in topic_names(own, RUN)) == replays
    assert live.output_topic("otlp.evaluations") == "theirs"
    assert own.output_topic("otlp.evaluations") == "rag.run.r.otlp.evaluations"


def test_records_of_a_replay_have_ids_of_their_own() -> None:
    (live,), (again,) = made(RESULTS, evaluation()), made(RESULTS, evaluation(run_id="july"))
    assert by_name([again])["context_support"]["ragweir.run_id"] == "july"
    assert by_name([again])["context_support"]["log.record.uid"] == "july:e1:scored:context_support"
    assert dict(again.headers)["ce_id"] != dict(live.headers)["ce_id"]


def test_a_run_can_be_resumed_with_or_without_the_table(tmp_path: Path) -> None:
    """It changes no evaluation, so the settings of a run are the same."""
    prints = {
        fingerprint(result_affecting_settings(loaded(tmp_path, text), ReplayRequest()), "r")
        for text in ("", "[output.otlp]", WITH_TOPIC)
    }
    assert len(prints) == 1


def test_doctor_looks_for_the_topic_that_is_written(tmp_path: Path) -> None:
    own, theirs = (set(CheckContext(loaded(tmp_path, text)).own_topics()) for text in ("", WITH_TOPIC))
    assert own - theirs == {"rag.otlp.evaluations"}
    assert theirs - own == {"theirs"}
