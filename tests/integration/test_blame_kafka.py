"""`ragweir blame` on a real broker: rows, names from interactions, and sentences where there is nothing to say."""

from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from commands import ragweir, told
from conftest import SharedBroker, create_topic, produce

from ragweir.errors import ConfigurationError
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.streams.analysis.blame.blame_question import BlameQuestion
from ragweir.streams.analysis.blame.from_topic import DocumentsTopic, TopicQuestion
from ragweir.streams.analysis.blame.live_causes import live_causes
from ragweir.streams.analysis.blame.original_events import OriginalEvents
from ragweir.streams.analysis.checks.cause_rows import causes
from ragweir.streams.analysis.checks.context import CheckContext
from ragweir.streams.analysis.evaluation_source import unseen
from ragweir.streams.runtime.kafka.reader import topics
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.shared.row_writer import RowConfig, row_criteria
from ragweir.streams.settings import Settings, from_groups

pytestmark = pytest.mark.heavy

SLO = {"name": "grounded", "metric": "unsupported_risk", "at_most": 0.5, "objective": 0.9}
NOW = datetime.now(UTC)


def event(number: int, *, bad: bool) -> dict[str, Any]:
    document = "bad doc" if number % 11 == 0 else f"d{number % 9}"
    return {
        "event_id": f"e{number}",
        "ended_at": (NOW - timedelta(minutes=5)).isoformat(),
        "query": f"When was number {number} opened?",
        "response": "Zoe never built it in Rome." if bad else f"Number {number} opened in 1889.",
        "application": "bot",
        "contexts": [{"text": f"Number {number} opened in 1889.", "document_id": document, "chunk_id": f"c{number}"}],
    }


@pytest.fixture
def settings(kafka: SharedBroker, prefix: str) -> dict[str, str]:
    return {
        "RAGWEIR_KAFKA__BOOTSTRAP_SERVERS": kafka.bootstrap,
        "RAGWEIR_TOPICS__PREFIX": prefix,
        "RAGWEIR_SLO": orjson.dumps([SLO]).decode(),
    }


def test_a_document_is_named_from_its_interactions(kafka: SharedBroker, prefix: str, settings: dict[str, str]) -> None:
    """Without a file; a range without events, and a metric without verdicts, are one sentence each."""
    for topic in ("interactions", "documents"):
        create_topic(kafka.bootstrap, f"{prefix}{topic}")
    events = [orjson.dumps(event(n, bad=n % 11 == 0 and n % 22 == 0)) for n in range(660)]
    produce(kafka.bootstrap, f"{prefix}interactions", events)
    catalogue = Catalogue(everything())
    own = from_groups({"slo": [SLO]})
    config = EvaluateConfig(catalogue, documents=RowConfig(row_criteria(own, catalogue.metrics), own.labels.key))
    records = [Record(f"{prefix}interactions", 0, n, None, value, 0) for n, value in enumerate(events)]
    outcome = EvaluateAgent(config).handle(records)
    rows = [each.value for each in outcome.emissions if each.topic == "documents" and each.value is not None]
    produce(kafka.bootstrap, f"{prefix}documents", rows)

    done = ragweir("blame", "grounded", "--json", **settings)
    assert done.returncode == 0, done.stderr
    report = orjson.loads(done.stdout)
    assert [each["facets"] for each in report["causes"]] == [{"document": "bad doc"}]
    assert (report["events"], report["causes"][0]["servings"], report["causes"][0]["bad"]) == (660, 60, 30)
    assert set(report["causes"][0]["examples"]["bad"]) < {f"e{n}" for n in range(0, 660, 22)}
    assert ragweir("blame", "--fail-on", "5", **settings).returncode == 1
    shown = ragweir("blame", **settings).stdout.decode()
    assert "Zoe never built it in Rome." in shown
    assert "bad doc" in shown

    must_be_on_the_page(
        from_groups(
            {
                "kafka": {"bootstrap_servers": kafka.bootstrap},
                "topics": {"prefix": prefix},
                "slo": [SLO],
                "blame": {"enabled": True},
            }
        ),
        report,
    )

    before = told(ragweir("blame", "--from", "2026-01-01", "--to", "2026-01-02", **settings))
    assert f"{prefix}documents holds no row from 2026-01-01T00:00:00Z to 2026-01-02T00:00:00Z" in before
    other = told(ragweir("blame", "total_latency_ms", "--threshold", "7", **settings))
    assert "have verdicts on unsupported_risk at 0.5" in other


def must_be_on_the_page(own: Settings, report: dict[str, Any]) -> None:
    """The console's page computes the same causes, of the rows of its dimensions, and of no more than it may hold."""
    question = BlameQuestion("grounded", NOW - timedelta(days=1), NOW)
    found = live_causes(own, question, NOW).data()
    assert (found["causes"], found["events"]) == (report["causes"], report["events"])
    assert live_causes(own, replace(question, where=(("application", "bot"),)), NOW).data()["events"] == 660
    with pytest.raises(ConfigurationError, match="environment production alone"):
        live_causes(_of_production(own), replace(question, where=(("environment", "staging"),)), NOW)
    asked = TopicQuestion("grounded", NOW - timedelta(days=1), NOW, most=100)
    with closing(RecordFetcher(own)) as fetcher:
        part = DocumentsTopic(own, asked).report(unseen, OriginalEvents(own, fetcher), NOW)
    assert any(each.startswith("only 660 answers of the range were read") for each in part.notes), part.notes
    assert "rows have verdicts on refusal_correct, unsupported_risk;" in causes(CheckContext(own, topics(own)))


def _of_production(own: Settings) -> Settings:
    return from_groups(
        {**own.model_dump(exclude_unset=True), "slo": [SLO | {"dimensions": {"environment": "production"}}]}
    )


def test_without_the_topic_the_setting_is_named(settings: dict[str, str]) -> None:
    done = ragweir("blame", **settings)
    assert done.returncode == 1
    assert "with blame.enabled evaluate writes it" in told(done)
