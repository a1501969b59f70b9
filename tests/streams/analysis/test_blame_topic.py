"""Blame on rows of the topic `documents`: the same causes as from files, and names from the interactions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.criterion import Criterion
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.blame.answer_scope import BlameScope
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.blame.blaming import blame_rows, new_codes
from ragweir.streams.analysis.blame.facet_rows import FacetRows
from ragweir.streams.analysis.blame.original_events import OriginalEvents, with_names
from ragweir.streams.analysis.blame.topic_rows import TopicRows, with_codes
from ragweir.streams.analysis.checks.cause_rows import summary
from ragweir.streams.analysis.checks.context import CheckWarning
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.records import Outcome, Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.shared.row_hashes import RowHashes
from ragweir.streams.services.shared.row_writer import RowConfig
from ragweir.streams.settings import Settings, from_groups

KEY = "a secret"
CATALOGUE = Catalogue(everything())
RISK = Criterion("unsupported_risk", 0.5, higher_is_better=False, suite=None)
DAY = BlameScope({}, datetime(2026, 11, 21, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC))


def event(number: int, document: str, *, bad: bool, **fields: Any) -> dict[str, Any]:
    contexts = [{"text": f"Number {number} opened in 1889.", "document_id": document, "chunk_id": f"{document}-c"}]
    return {
        "event_id": f"e{number}",
        "ended_at": f"2026-11-21T{number % 3:02}:00:00Z",
        "query": f"When was number {number} opened?",
        "response": "Zoe never built it in Rome." if bad else f"Number {number} opened in 1889.",
        "application": "bot",
        "contexts": contexts,
        **fields,
    }


def traffic() -> list[dict[str, Any]]:
    """Answers of which one in 20 is bad, and 60 of one document, of which half are bad."""
    usual = [event(n, f"d{n % 9}", bad=n % 20 == 0, labels={"n": str(n // 20 % 4)}) for n in range(600)]
    return usual + [event(1_000 + n, "bad\x1b doc", bad=n % 2 == 0) for n in range(60)]


def evaluated(events: list[dict[str, Any]], **config: Any) -> list[Outcome]:
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, documents=RowConfig((RISK,), KEY), **config))
    records = [Record("t", n % 2, n, None, orjson.dumps(each), 0) for n, each in enumerate(events)]
    return [agent.handle(records[start : start + 100]) for start in range(0, len(records), 100)]


def values(outcomes: list[Outcome], topic: str) -> list[bytes]:
    return [each.value or b"" for outcome in outcomes for each in outcome.emissions if each.topic == topic]


def topic_rows(records: list[bytes], codes: Any, scope: BlameScope = DAY, most: int = 1_000) -> TopicRows:
    rows = TopicRows(RISK, codes, scope, RowHashes(KEY), most)
    for each in records:
        rows.add(each)
    return rows


def report(records: list[bytes], before: list[bytes] | None = None, scope: BlameScope = DAY) -> BlameReport:
    codes = new_codes(Settings())
    now = topic_rows(records, codes, scope)
    earlier = None if before is None else topic_rows(before, codes)
    with_codes(codes, now, earlier)
    return blame_rows(RISK, now, codes, earlier, "before" if before else "rest")


@dataclass
class Fetched(RecordFetcher):
    """Records by their places."""

    records: Mapping[tuple[str, int, int], bytes]

    def fetch(self, topic: str, partition: int, offset: int) -> Record | None:
        value = self.records.get((topic, partition, offset))
        return None if value is None else Record(topic, partition, offset, None, value, 0)


def originals(events: list[dict[str, Any]]) -> OriginalEvents:
    records = {("t", n % 2, n): orjson.dumps(each) for n, each in enumerate(events)}
    return OriginalEvents(from_groups({"labels": {"key": KEY}}), Fetched(records))


EVENTS = traffic()
OUTCOMES = evaluated(EVENTS)
ROWS = values(OUTCOMES, "documents")


def test_the_causes_are_those_of_the_file_of_evaluations() -> None:
    """A document of the topic has the counts and limits that it has in the file."""
    codes = new_codes(Settings())
    file = FacetRows(RISK, codes)
    for each in values(OUTCOMES, "evaluations"):
        file.add(each)
    for each in EVENTS:
        file.add_event(Interaction.model_validate(each))
    [expected] = blame_rows(RISK, file, codes).causes
    found = with_names(report(ROWS), originals(EVENTS), RowHashes(KEY))
    [cause] = found.causes
    assert dict(cause.facets) == {"document": "bad\x1b doc", "chunk": "bad\x1b doc-c"} == dict(expected.facets)
    own, other = cause.numbers, expected.numbers
    assert (
        (own.servings, own.bad, own.excess_bad)
        == (other.servings, other.bad, other.excess_bad)
        == (60, 30, own.excess_bad)
    )
    assert own.p_adjusted == pytest.approx(other.p_adjusted)
    assert found.events == 660
    assert all(each.startswith("e10") for each in cause.bad_examples)
    assert len(cause.good_examples) == 3


def test_the_records_of_a_range_may_come_in_any_order() -> None:
    """Workers write at the same time: what counts is decided by places, not by the order of records."""
    ahead, behind = report(ROWS), report(ROWS[::-1])
    assert [each.numbers for each in ahead.causes] == [each.numbers for each in behind.causes]


@pytest.mark.slow
def test_a_replay_gives_the_same_causes() -> None:
    again = values(evaluated(EVENTS, run_id="july"), "documents")
    assert orjson.loads(again[0])["run_id"] == "july"
    assert [each.data() for each in report(again).causes] == [each.data() for each in report(ROWS).causes]


def test_events_outside_the_range_and_of_other_values_do_not_count() -> None:
    hour = replace(DAY, end=datetime(2026, 11, 21, 1, tzinfo=UTC))
    assert report(ROWS, scope=hour).events == sum(each["ended_at"].startswith("2026-11-21T00") for each in EVENTS)
    label = replace(DAY, where={"labels.n": "3", "application": "bot"})
    assert report(ROWS, scope=label).events == 140
    codes = new_codes(Settings())
    assert len(topic_rows(ROWS, codes, replace(DAY, where={"application": "other"}))) == 0


@pytest.mark.slow
def test_with_a_reference_a_value_is_compared_with_itself() -> None:
    good = [event(1_000 + n, "bad\x1b doc", bad=False) for n in range(60)]
    before = values(evaluated([*EVENTS[:600], *good]), "documents")
    [cause] = report(ROWS, before).causes[:1]
    assert cause.numbers.servings == 60
    assert not report(ROWS, ROWS).causes


def test_what_kafka_no_longer_holds_keeps_its_hash_and_its_place() -> None:
    found = with_names(report(ROWS), originals([]), RowHashes(KEY))
    [cause] = found.causes
    assert cause.facets["document"].startswith("#")
    assert cause.bad_examples[0].startswith("t/")
    assert any("Kafka no longer holds" in note for note in found.notes)


def test_names_under_another_key_are_not_guessed() -> None:
    found = with_names(report(ROWS), originals(EVENTS), RowHashes("another"))
    assert found.causes[0].facets["document"].startswith("#")
    assert any("labels.key is not the key" in note for note in found.notes)


@pytest.mark.slow
def test_above_the_limit_whole_levels_of_hashes_are_dropped_and_the_share_is_known() -> None:
    events = [event(n, f"d{n}", bad=n % 9 == 0) for n in range(3_000)]
    records = values(evaluated(events), "documents")
    codes = new_codes(Settings())
    rows = topic_rows(records, codes, most=1_000)
    with_codes(codes, rows, None)
    assert codes.share in {0.25, 0.125}
    assert any("% of the documents" in note for note in blame_rows(RISK, rows, codes).notes)


def test_verdicts_of_other_criteria_are_named() -> None:
    codes = new_codes(Settings())
    rows = TopicRows(replace(RISK, threshold=0.7), codes, DAY, RowHashes(KEY), 1_000)
    for each in ROWS:
        rows.add(each)
    with pytest.raises(
        ConfigurationError, match=r"verdicts on unsupported_risk at 0\.5, not on unsupported_risk at 0\.7"
    ):
        rows.check("rag.documents")


@pytest.mark.parametrize(
    "harm",
    [
        {"columns": {}},
        {"rows": 7},
        {"columns": {"offset": "%"}},
        {"columns": orjson.loads(ROWS[0])["columns"] | {"offset": ""}},
        {"values": [[99, "a"]]},
        {"facets": []},
    ],
)
def test_records_that_hold_no_rows_are_counted_and_leave_the_others(harm: dict[str, Any]) -> None:
    codes = new_codes(Settings())
    wrong = orjson.dumps(orjson.loads(ROWS[0]) | harm)
    rows = topic_rows([wrong, b"{", *ROWS], codes)
    assert rows.unreadable == 2
    with_codes(codes, rows, None)
    assert len(blame_rows(RISK, rows, codes).causes) == 1


WRITTEN = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATENCY = Criterion("total_latency_ms", 900.0, higher_is_better=False, suite=None)


def checked(values: list[bytes], *wanted: Criterion, now: datetime = WRITTEN) -> str:
    written_ms = round(WRITTEN.timestamp() * 1000)
    records = [Record("documents", 0, n, None, value, written_ms - n) for n, value in enumerate(values)]
    return summary(records, wanted, "documents", now)


def test_doctor_names_the_metrics_that_rows_have_verdicts_on() -> None:
    assert checked(ROWS, RISK) == ("rows have verdicts on unsupported_risk; the newest are of 2026-11-21 12:00 UTC")


@pytest.mark.parametrize(
    ("records", "wanted", "days", "said"),
    [
        ([], RISK, 0, "documents holds no rows: evaluate and judge write them if they start with blame.enabled"),
        ([b"{}", *ROWS], RISK, 0, "1 of the newest records of documents hold no rows"),
        (ROWS, RISK, 2, "the newest rows of documents are of 2026-11-21 12:00 UTC; is evaluate running?"),
        (ROWS, LATENCY, 0, "have no verdicts on total_latency_ms at 900: start evaluate and judge again"),
        (ROWS, replace(RISK, threshold=0.4), 0, "have no verdicts on unsupported_risk at 0.4"),
    ],
)
def test_doctor_warns_of_rows_that_blame_cannot_read(
    records: list[bytes], wanted: Criterion, days: int, said: str
) -> None:
    with pytest.raises(CheckWarning, match=re.escape(said)):
        checked(records, wanted, now=WRITTEN + timedelta(days=days))


def test_rows_of_an_earlier_configuration_are_not_the_newest() -> None:
    """The last worker that started counts."""
    agent = EvaluateAgent(EvaluateConfig(CATALOGUE, documents=RowConfig((LATENCY, RISK), KEY)))
    later = values([agent.handle([Record("t", 0, 0, None, orjson.dumps(EVENTS[0]), 0)])], "documents")
    assert "total_latency_ms, unsupported_risk" in checked([*later, *ROWS], LATENCY)
    with pytest.raises(CheckWarning, match="no verdicts on total_latency_ms"):
        checked([*ROWS, *later], LATENCY)


def test_judged_rows_are_missed_only_where_the_judge_wrote_some() -> None:
    """A judge may have had nothing to judge."""
    faithful = Criterion("faithfulness", 0.5, higher_is_better=True, suite="ragas")
    assert "unsupported_risk" in checked(ROWS, RISK, faithful)
