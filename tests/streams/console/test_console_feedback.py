"""Feedback of users on the pages: the part of it that is kept, and where it is shown."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from browsers import TOKEN, logged_in
from scored_answers import GROUNDED, RETURNS, ShownPages, pages_of

from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Source
from ragweir.schemas.feedback import JoinedFeedback
from ragweir.streams.console.application import application
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.store.answer_query import AnswerQuery
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.load import load_evaluations
from ragweir.streams.console.store.topic_projection import FILE, ConsoleProjection
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.shared.from_settings import aggregator
from ragweir.streams.settings import Settings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>"
TOPIC = "rag.feedback.joined"
ROWS = [RETURNS | {"event_id": f"e{number}", "application": "shop"} for number in range(6)]


def feedback(
    event_id: str, value: Any, name: str = "thumbs", giver: str | None = "a", hours: int = 0
) -> JoinedFeedback:
    return JoinedFeedback(
        event_id=event_id,
        name=name,
        value=value,
        giver=giver,
        time=NOW + timedelta(hours=hours),
        received=NOW,
        source=Source(topic="rag.feedback", partition=0, offset=0),
        event_time=datetime(2026, 11, 21, 10, 3, 4, 230_000, UTC),
        dimensions={"application": "shop"},
    )


GIVEN = [
    feedback("e0", True),
    feedback("e0", False, giver="b"),
    feedback("e1", False),
    feedback("e1", 0.123456, name="stars"),
    feedback("e2", True),
    feedback("e2", False, hours=1),  # It replaces the one before.
    feedback("e3", True),
    feedback("e3", None),  # It is taken back.
    feedback("e4", HOSTILE, name=HOSTILE, giver=None),
    feedback("of no answer here", True),
]


@contextmanager
def with_feedback(folder: Path) -> Iterator[ShownPages]:
    """The pages over six answers with feedback."""
    with pages_of(folder, ROWS) as pages:
        file = folder / "given.sqlite"
        with StoreWriter(file) as writer:
            load_evaluations([folder / "evaluations.jsonl"], writer)
            for each in GIVEN:
                writer.take_feedback(each, 1)
            writer.flush()
        with closing(AnswerStore(file, [Objective.of(GROUNDED, aggregator(Settings()))])) as store:
            content = replace(pages.content, store=store)
            yield ShownPages(content, logged_in(application(page_routes(content), content.settings.console, TOKEN)))


@pytest.mark.slow
def test_answers_are_found_by_feedback(tmp_path: Path) -> None:
    found = {
        "": 6,
        "feedback=yes": 4,
        "feedback=no": 2,
        "feedback.thumbs=false": 3,
        "feedback.thumbs=true": 1,
        "feedback.thumbs=true&feedback.thumbs=false": 3,
        "feedback.thumbs=false&feedback.stars=0.123": 1,
        "feedback.thumbs=perhaps": 0,
        "feedback.other=true": 0,
        "feedback.thumbs=false&feedback=no": 0,
    }
    with with_feedback(tmp_path) as pages:
        assert {each: pages.content.store.search(AnswerQuery.parse(each)).total for each in found} == found
        for each in found:
            query = AnswerQuery.parse(each)
            assert AnswerQuery.parse(str(query)) == query
        html = pages.page("/answers?feedback=yes&feedback.thumbs=false")
        assert '<bdi>thumbs false</bdi> <a href="/answers?feedback=yes"' in html
        assert "3 answers</h1>" in html


@pytest.mark.slow
def test_feedback_is_in_the_list_the_download_and_on_the_page_of_the_answer(tmp_path: Path) -> None:
    with with_feedback(tmp_path) as pages:
        html = pages.page("/answers")
        assert "<bdi>thumbs true</bdi>, <bdi>thumbs false</bdi>" in html
        assert '<option value="feedback.thumbs=false">thumbs false</option>' in html
        assert HOSTILE not in html
        lines = {line["event_id"]: line for line in map(orjson.loads, pages.page("/answers.jsonl").splitlines())}
        assert lines["e2"]["feedback"] == [{"name": "thumbs", "value": "false", "time": "2026-11-21T13:00:00Z"}]
        assert [len(lines[f"e{number}"]["feedback"]) for number in range(6)] == [2, 2, 1, 0, 1, 0]
        page = pages.page("/answers/e1")
        assert "; feedback of 2 users" in page
        assert "<bdi>stars</bdi></td><td><bdi>0.123</bdi>" in page
        assert HOSTILE not in pages.page("/answers/e4")
        assert "feedback of" not in pages.page("/answers/e3")


@pytest.mark.slow
def test_the_form_gives_a_value_of_feedback_as_one_field(tmp_path: Path) -> None:
    with with_feedback(tmp_path) as pages:
        answer = pages.browser.get("/answers?form=1&given=feedback.thumbs%3Dfalse&feedback=&application=")
        assert answer.headers["location"] == "/answers?feedback.thumbs=false"
        assert pages.browser.get("/answers?form=1&given=sort%3Devil").headers["location"] == "/answers"


@pytest.mark.slow
def test_an_application_has_the_counts_of_what_its_users_gave(tmp_path: Path) -> None:
    with with_feedback(tmp_path) as pages:
        html = pages.page("/")
        link = "/answers?application=shop&amp;feedback.thumbs=false&amp;from=2026-11-21T10%3A03%3A04.230000Z"
        assert f'<a href="{link}"><bdi>thumbs false</bdi> 3</a>' in html
        assert "<bdi>thumbs true</bdi> 1</a>" in html  # The other one is about an answer that is not here.
        assert "3 answers</h1>" in pages.page(link.replace("&amp;", "&"))
        assert HOSTILE not in html


@pytest.mark.slow
def test_without_feedback_no_page_speaks_of_it(tmp_path: Path) -> None:
    with pages_of(tmp_path) as pages:
        html = pages.page("/") + pages.page("/answers")
        assert ">feedback" not in html


def test_the_projection_keeps_the_newest_until_it_is_old_or_taken_back(tmp_path: Path) -> None:
    """Repeated records, as after a crash, change nothing."""
    own = Settings.model_validate({"console": {"folder": tmp_path, "retention_h": 24}, "feedback": {"enabled": True}})
    now_ms = round(NOW.timestamp() * 1_000)
    records = [Record(TOPIC, 0, offset, b"k", encode(each), now_ms) for offset, each in enumerate(GIVEN)]
    old = Record(TOPIC, 1, 0, b"k", encode(feedback("e5", True)), now_ms - 25 * 3_600_000)
    broken = [Record(TOPIC, 2, 0, b"k", b"no feedback", now_ms), Record(TOPIC, 2, 1, b"k", None, now_ms)]
    for batch in ([old, *records, *broken], records[4:], records[7:8]):
        projection = ConsoleProjection(own)
        assert "feedback.joined" in projection.topics
        projection.open()
        projection.resume(TOPIC, "id")
        projection._resumed.clear()
        for record in batch:
            projection.take(record)
        projection.flush(NOW.timestamp(), caught_up=True)
        counts = projection.drain_metrics().counts
        assert counts["ragweir_console_records_total", "feedback.joined", "unreadable"] == (batch[0] is old)
        projection.close()
        with closing(AnswerStore(tmp_path / FILE)) as store:
            given = store.feedback_of([f"e{number}" for number in range(6)])
            values = {name: [(each.name, each.value, each.giver) for each in found] for name, found in given.items()}
            assert values == {
                "e0": [("thumbs", "true", "a"), ("thumbs", "false", "b")],
                "e1": [("stars", "0.123", "a"), ("thumbs", "false", "a")],
                "e2": [("thumbs", "false", "a")],
                "e4": [(HOSTILE, HOSTILE, "")],
            }
