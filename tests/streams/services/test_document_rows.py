"""Rows of the topic `documents`: one for each evaluation, with what its event carried, in the same transaction."""

from base64 import b64encode
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from poison import event
from row_records import key_hash, rows_of
from scripted_judge import Log, ScriptedPool, Worker, config, request

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.criterion import Criterion, free_verdicts, verdict_of
from ragweir.metrics.judged.suites import suites
from ragweir.schemas import document_rows
from ragweir.schemas.codec.json import encode
from ragweir.schemas.document_rows import COLUMNS, FIELDS, MAX_PARTS
from ragweir.schemas.evaluation import Source
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.judge.agent import JudgeAgent
from ragweir.streams.services.shared.row_hashes import RowHashes
from ragweir.streams.services.shared.row_writer import EventRow, RowConfig, RowWriter, row_criteria
from ragweir.streams.settings import RoutingSettings, from_groups

KEY = "a secret"
CATALOGUE = Catalogue(everything())
RISK = Criterion("unsupported_risk", 0.5, higher_is_better=False, suite=None)
GRADE = Criterion("grade", 0.8, higher_is_better=True, suite="grading")
ROWS = RowConfig((RISK, GRADE), KEY)


def evaluated(values: list[bytes], partition: int = 0, **fields: Any) -> Outcome:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, documents=fields.pop("documents", ROWS), **fields))
    return agent.handle([Record("t", partition, n, None, value, 0) for n, value in enumerate(values)])


def records(outcome: Outcome) -> list[bytes]:
    return [each.value for each in outcome.emissions if each.topic == "documents" and each.value is not None]


def rows(outcome: Outcome) -> list[dict[str, Any]]:
    return [row for value in records(outcome) for row in rows_of(value)]


def hashes(*texts: str) -> list[int]:
    return [key_hash(KEY, each) for each in texts]


def test_a_row_has_what_its_event_carried() -> None:
    contexts = [
        {"text": "Ada.", "document_id": "d2", "chunk_id": "c1", "rank": 2},
        {"text": "Zoe.", "document_id": "d1", "chunk_id": "c2", "rank": 1},
        {"text": "Zoe.", "document_id": "d1", "chunk_id": "c3", "rank": 3},
    ]
    own = {"application": "bot", "tenant": "acme", "pipeline_version": "v2", "labels": {"region": "eu"}}
    [row] = rows(evaluated([event(contexts=contexts, session_id="s", question_id="q", **own)], partition=3))
    assert row["at"] == ("t", 3, 0, 0)
    assert row["time"] == 1_795_255_204_230_000
    assert [row["session"], row["question"]] == hashes("s", "q")
    assert row["fields"] == {"application": "bot", "tenant": "acme", "pipeline_version": "v2"}
    assert row["documents"] == hashes("d1", "d2")
    assert row["chunks"] == hashes("c1", "c2", "c3")
    assert row["labels"] == [("labels.region", key_hash(KEY, "region\0eu"))]
    assert dict(row["facets"])["rank"] == "1"
    assert (row["stage"], row["run_id"], row["verdicts"]) == ("scored", None, {"unsupported_risk": 0})


def test_rows_and_evaluations_of_a_batch_are_the_same_events() -> None:
    """A duplicate, an unreadable event and one that is filtered out have neither."""
    values = [event(event_id=f"e{n % 7}") for n in range(20)] + [b"{", event(event_id="e9", query=[1])]
    outcome = evaluated(values, duplicate_horizon=100)
    evaluations = [orjson.loads(each.value or b"") for each in outcome.emissions if each.topic == "evaluations"]
    sources = [each["source"] for each in evaluations]
    assert len(records(outcome)) == 1
    assert [row["at"][2] for row in rows(outcome)] == [each["offset"] for each in sources]
    assert len(sources) == 7


def test_each_partition_has_a_record_with_its_key() -> None:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, documents=ROWS))
    batch = [Record("t", n % 2, n, None, event(event_id=str(n)), 0) for n in range(6)]
    found = [each for each in agent.handle(batch).emissions if each.topic == "documents"]
    assert [each.key for each in found] == [b'["t",0]', b'["t",1]']
    assert [[row["at"][2] for row in rows_of(each.value or b"")] for each in found] == [[0, 2, 4], [1, 3, 5]]
    assert "documents" in agent.outputs


def test_without_the_setting_there_are_no_rows() -> None:
    assert not records(evaluated([event()], documents=None))
    assert evaluate_config(from_groups({}), "t").documents is None
    on = from_groups({"blame": {"enabled": True}, "labels": {"key": KEY}})
    assert evaluate_config(on, "t").documents == RowConfig(row_criteria(on, CATALOGUE.metrics), KEY)
    assert evaluate_config(on, "answers.jsonl", is_file=True).documents is None


def test_the_criteria_are_those_of_slos_and_questions_once() -> None:
    slo = {"name": "grounded", "metric": "unsupported_risk", "at_most": 0.7, "objective": 0.9}
    found = row_criteria(
        from_groups({"slo": [slo, {**slo, "name": "other", "metric": "total_latency_ms"}]}), CATALOGUE.metrics
    )
    assert [(each.metric, each.threshold) for each in found] == [
        ("unsupported_risk", 0.7),
        ("total_latency_ms", 0.7),
        ("judge_faithfulness", 0.5),
        ("judge_relevance", 0.5),
        ("refusal_correct", 0.5),
    ]


@pytest.mark.parametrize("higher", [True, False])
def test_verdicts_of_many_events_are_those_of_each(*, higher: bool) -> None:
    own = Criterion("m", 0.5, higher_is_better=higher, suite=None)
    values = [None, 0.4, 0.5, 0.6, float("inf")]
    found = free_verdicts(own, np.array(values, dtype=float)).tolist()
    assert found == [verdict_of(own, value, (), ())[0] for value in values]


@pytest.mark.parametrize(
    "fields",
    [
        {"contexts": [{"document_id": f"{n}" + "x" * 1_000_000, "chunk_id": f"{n}"} for n in range(1)]},
        {"contexts": [{"document_id": f"d{n}", "chunk_id": f"c{n}"} for n in range(200)]},
        {"contexts": [{"document_id": "\x00\x1b[31m\n", "chunk_id": "é\u202e"}]},
        {"contexts": []},
        {"contexts": None},
        {"labels": {f"l{n}\x00": "v" * 1_000 for n in range(64)}, "application": "a" * 10_000},
    ],
    ids=["1 MB", "200 ids", "control characters", "no contexts", "no retrieval", "labels"],
)
def test_odd_ids_have_rows_of_bounded_size(fields: dict[str, Any]) -> None:
    [row] = rows(outcome := evaluated([event(**fields)]))
    contexts = (fields.get("contexts") or [])[:MAX_PARTS]
    assert sorted(row["documents"]) == sorted(hashes(*(each["document_id"] for each in contexts)))
    assert row["chunks"] == hashes(*(each["chunk_id"] for each in contexts))
    assert len(records(outcome)[0]) < 64 * 1024


@pytest.mark.slow
def test_long_ids_are_not_kept() -> None:
    """The kept hashes are bounded in bytes: 65,536 ids of 200 characters."""
    own = RowHashes(KEY)
    assert own["x" * 1_000_000] == own["x" * 1_000_000]
    assert not own
    for number in range(70_000):
        assert own[str(number)]
    assert len(own) < 66_000


def test_a_batch_that_is_too_large_for_one_record_has_several() -> None:
    """Each is of the size that Kafka takes from an event, and no row is lost."""
    small = RowConfig((RISK,), KEY, max_event_bytes=4_096)
    values = [event(event_id=str(n), contexts=[{"chunk_id": f"{n}-{k}"} for k in range(9)]) for n in range(100)]
    outcome = evaluated(values, documents=small)
    assert len(records(outcome)) > 2
    assert all(len(value) <= 4_096 for value in records(outcome))
    assert [row["at"][2] for row in rows(outcome)] == list(range(100))


def test_the_request_of_a_selected_event_has_its_hashes() -> None:
    router = Router(RoutingSettings(floors={"rubric": 1.0}), CATALOGUE, tuple(suites()))
    contexts = [{"text": "Ada.", "document_id": "d1", "chunk_id": "c1"}]
    outcome = evaluated([event(contexts=contexts)], router=router)
    [asked] = [orjson.loads(each.value or b"") for each in outcome.emissions if each.topic == "judge.requests"]
    made = RowHashes(KEY)
    assert (asked["documents"], asked["chunks"]) == tuple(b64encode(made[each]).decode() for each in ("d1", "c1"))
    assert rows(outcome)[0]["chances"]["rubric"] == 1.0


# Judge.


def asked(event_id: str, offset: int, **fields: Any) -> Any:
    return request(event_id, source=Source(topic="t", partition=1, offset=offset), application="bot", **fields)


def test_the_rows_of_a_transaction_of_the_judge_are_one_record_also_after_aborts() -> None:
    log, pool = Log(), ScriptedPool()
    documents = RowConfig((RISK, GRADE), KEY)
    worker = Worker(log, JudgeAgent(replace(config(), documents=documents), pool))
    chunks = b64encode(RowHashes(KEY)["c1"]).decode()
    log.ask(asked("a", 7, chunks=chunks), asked("b", 8, document_ids=("d1",)))
    worker.turn()
    pool.land_all()
    worker.turn(abort=True)
    assert not log.read("documents")
    worker.turn()
    [record] = log.read("documents")
    found = rows_of(orjson.dumps(record))
    assert [row["at"] for row in found] == [("t", 1, 7, 0), ("t", 1, 8, 0)]
    assert [row["verdicts"] for row in found] == [{"grade": 0}, {"grade": 0}]
    assert [row["chances"] for row in found] == [{"grading": 1.0}] * 2
    assert [(row["documents"], row["chunks"]) for row in found] == [([], hashes("c1")), (hashes("d1"), [])]
    assert {row["stage"] for row in found} == {"judged"}
    worker.turn()
    assert len(log.read("documents")) == 1


def test_the_table_of_columns_is_that_of_the_description() -> None:
    text = document_rows.__doc__ or ""
    assert all(f"`{name}`" in text for name in COLUMNS)
    assert len(FIELDS) == 5
    writer = RowWriter("evaluate", "scored", ROWS)
    assert writer.emissions([EventRow(request("a").evaluation, b"", b"")]) == []
    assert encode(request("a")).count(b"documents") == 0
