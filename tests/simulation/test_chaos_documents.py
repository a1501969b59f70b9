"""Chaos' oracle of the topic `documents`, on rows that the product wrote, and on lost, doubled and wrong ones."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from chaos.document_rows import BOUNDS, JUDGED, ROWS, SCORED, SUITE, DocumentRowChecker
from chaos.events import interaction
from chaos.findings import Findings
from chaos.oracle import Oracle
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, SuiteDecision
from ragweir.streams.runtime.records import Emission, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.shared.row_writer import EventRow, RowConfig, RowWriter, row_criteria
from ragweir.streams.settings import from_groups

EVENTS = 300
FIRST = 300
"""Number of the first event: some latencies are below the bound, and others above it."""
CATALOGUE = Catalogue(everything())
CONFIG = RowConfig(
    row_criteria(from_groups({"blame": {"enabled": ROWS["blame__enabled"]}, "slo": ROWS["slo"]}), CATALOGUE.metrics),
    "a secret",
)
JUDGED_EVENTS = range(0, EVENTS, 30)


@dataclass(frozen=True)
class Read:
    """A record of the topic, as a consumer reads it."""

    emission: Emission

    def key(self) -> bytes | None:
        return self.emission.key

    def value(self) -> bytes | None:
        return self.emission.value

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


def value_of(number: int) -> bytes:
    return interaction(FIRST + number, 1_795_000_000_000 + number, judged=number in JUDGED_EVENTS)


def written() -> tuple[list[Evaluation], list[Emission]]:
    """The evaluations of both stages, and the rows of each: five batches of evaluate, and one of the judge."""
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, documents=CONFIG))
    read = [Record("interactions", 0, number, None, value_of(number), 0) for number in range(EVENTS)]
    made = [each for at in range(0, EVENTS, 60) for each in agent.handle(read[at : at + 60]).emissions]
    scored = [Evaluation.model_validate_json(each.value or b"") for each in made if each.topic == "evaluations"]
    decision = Decision(suites=(SuiteDecision(suite=SUITE, status="judged", probability=1.0),))
    judged = [
        scored[number].model_copy(
            update={"stage": JUDGED, "scores": {"judge_relevance": number % 60 / 60}, "decision": decision}
        )
        for number in JUDGED_EVENTS
    ]
    writer = RowWriter("judge", "judged", CONFIG)
    rows = [each for each in made if each.topic == "documents"]
    return [*scored, *judged], rows + writer.emissions([EventRow(each, b"", b"") for each in judged])


EVALUATIONS, RECORDS = written()


def found(rows: Iterable[Emission], recreated_before: int = -1) -> dict[str, int]:
    """Return the defects of rows; the topic of the interactions is deleted before one of the records."""
    oracle, findings = Oracle(), Findings()
    for number in range(EVENTS):
        oracle.record(0, number, value_of(number), poison=False)
    checker = DocumentRowChecker(findings, oracle, "interactions")
    for each in EVALUATIONS:
        checker.evaluation((0, each.source.offset if each.source else -1), orjson.loads(encode(each)))
    for place, each in enumerate(rows):
        if place == recreated_before:
            oracle.recreated(FIRST + EVENTS)
            oracle.record(0, 0, value_of(EVENTS), poison=True)
        checker.read(Read(each))  # type: ignore[arg-type]
    checker.compare()
    checker.compare_judged(set())
    assert checker.complete(EVENTS, len(JUDGED_EVENTS)) == ("lost" not in " ".join(findings.defects()))
    return dict(findings.defects())


def test_rows_of_the_product_have_no_defect() -> None:
    assert len(RECORDS) == 6
    assert found(RECORDS) == {}


def test_rows_of_events_that_are_judged_after_their_topic_was_deleted_have_no_defect() -> None:
    """Requests of events may wait for the budget of another day."""
    assert found(RECORDS, recreated_before=5) == {}
    again = found([*RECORDS, RECORDS[5]], recreated_before=6)
    assert again == {"judged rows of documents duplicated": len(JUDGED_EVENTS)}


@pytest.mark.parametrize(
    ("stage", "at", "lost"), [("rows of documents", 1, 60), ("judged rows of documents", 5, len(JUDGED_EVENTS))]
)
def test_lost_and_doubled_rows_are_found(stage: str, at: int, lost: int) -> None:
    assert found([*RECORDS[:at], *RECORDS[at + 1 :]]) == {f"{stage} lost": lost}
    assert found([*RECORDS[: at + 1], *RECORDS[at:]]) == {f"{stage} duplicated": lost}


def test_rows_that_come_out_of_order_are_found() -> None:
    assert found([RECORDS[1], RECORDS[0], *RECORDS[2:]]) == {"rows of documents reordered": 60}


def harmed(change: Callable[[dict[str, Any]], None]) -> list[Emission]:
    record = orjson.loads(RECORDS[0].value or b"")
    change(record)
    return [RECORDS[0]._replace(value=orjson.dumps(record)), *RECORDS[1:]]


@pytest.mark.parametrize("column", ["verdict", "time", "index"])
def test_a_row_of_something_else_is_wrong(column: str) -> None:
    """One row has another verdict, time or index than its evaluation."""

    def change(record: dict[str, Any]) -> None:
        numbers = bytearray(b64decode(record["columns"][column]))
        numbers[0] ^= 1
        record["columns"][column] = b64encode(numbers).decode()

    assert found(harmed(change)) == {"rows of documents wrong": 1}


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "other"},
        {"partition": 1},
        {"criteria": [{"metric": "a", "threshold": 1, "higher_is_better": True}]},
        {"rows": 59},
    ],
)
def test_a_record_of_something_else_is_wrong_and_its_rows_are_missing(fields: dict[str, Any]) -> None:
    assert found(harmed(lambda record: record.update(fields))) == {
        "rows of documents wrong": 1,
        "rows of documents lost": 60,
    }


def test_the_bound_is_that_of_the_settings() -> None:
    """Both verdicts occur in both stages, so that neither is right by chance."""
    for stage, own in BOUNDS.items():
        values = [each.scores.get(own.metric) for each in EVALUATIONS if each.stage == stage]
        assert {own.is_bad(value or 0.0) for value in values} == {True, False}
    assert {SCORED, JUDGED} == BOUNDS.keys()
