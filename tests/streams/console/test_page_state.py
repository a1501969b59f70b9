"""The state that every page shows: what is kept, what has arrived since, the lag, dead letters and agreement."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest
from browsers import TOKEN, logged_in
from scored_answers import GROUNDED, RETURNS, ShownPages, pages_of

from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.analysis.checks.lag import evaluation_lag
from ragweir.streams.analysis.dead_letters.letters import Letter
from ragweir.streams.analysis.labels.report import LabelReport
from ragweir.streams.console.agreement_cache import AgreementCache
from ragweir.streams.console.application import application
from ragweir.streams.console.page_state import ASK_SECONDS, LagWatch
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.shared.from_settings import aggregator
from ragweir.streams.settings import Settings

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
LAG = "group rag.evaluate is 12 <b> records behind"


class Live(NamedTuple):
    """Pages over a store that goes on growing."""

    pages: ShownPages
    writer: StoreWriter

    def write(self, *numbers: int, judged: bool = False) -> None:
        for number in numbers:
            own = Evaluation(
                event_id=f"e{number}",
                event_time=NOW,
                application="hr" if number % 2 else "shop",
                catalogue_version="3",
                stage="judged" if judged else "scored",
                scores={"unsupported_risk": number / 100},
            )
            self.writer.take(own, 0, number)
        self.writer.flush()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with ExitStack() as stack:
        pages = stack.enter_context(pages_of(tmp_path, [RETURNS]))
        writer = stack.enter_context(StoreWriter(tmp_path / "live.sqlite"))
        objectives = [Objective.of(GROUNDED, aggregator(Settings()))]
        store = stack.enter_context(closing(AnswerStore(tmp_path / "live.sqlite", objectives)))
        content = replace(pages.content, store=store, letter=lambda _: None, lag=lambda: LAG)
        browser = logged_in(application(page_routes(content), content.settings.console, TOKEN))
        yield Live(ShownPages(content, browser), writer)


@pytest.mark.parametrize(
    ("query", "new"),
    [("", 10), ("application=hr", 5), ("max.unsupported_risk=0.51", 3), ("application=nobody", 0), ("judged=yes", 1)],
)
def test_a_list_knows_how_many_of_its_answers_are_new(query: str, new: int, live: Live) -> None:
    """Also those that were judged since; an answer that another list has is not one of them."""
    live.write(*range(40))
    html = live.pages.page(f"/answers?{query}&sort=unsupported_risk" if query else "/answers")
    address = html.partition('data-new="')[2].partition('"')[0].replace("&amp;", "&")
    assert live.pages.page(address) == "0"
    live.write(*range(50, 59))
    live.write(1, judged=True)
    assert live.pages.page(address) == f"{new}"


@pytest.mark.parametrize(
    "query", ["", "row=", "row=-1", "row=x", f"row={'9' * 19}", "row=1&min.none=1", "row=1&other=1"]
)
def test_a_question_for_new_answers_that_is_none_is_answered_so(query: str, live: Live) -> None:
    live.write(1)
    live.pages.page(f"/answers.new?{query}", 400)


@pytest.mark.slow
def test_files_have_no_new_answers(tmp_path: Path) -> None:
    with pages_of(tmp_path) as pages:
        assert "data-new" not in pages.page("/answers")
        assert "behind" not in pages.page("/")


@pytest.mark.slow
def test_lag_and_retention_stand_on_every_page(live: Live) -> None:
    live.write(*range(4))
    for path in ("/", "/answers", "/answers/e1", "/agreement", "/compare", "/dead-letters", "/cause"):
        html = live.pages.page(path)
        assert "4 answers are kept, from <time" in html, path
        assert "; group rag.evaluate is 12 &lt;b&gt; records behind." in html, path


def test_the_first_page_has_lag_dead_letters_and_agreement(live: Live) -> None:
    live.write(1)
    details = DeadLetter(error_class="invalid", message="m", source_topic="in", source_partition=1, source_offset=7)
    for offset in range(1_003):
        live.writer.take_letter(Letter(Record("rag.dead-letter", 0, offset, None, b"", offset), details, "evaluate"))
    live.writer.flush()
    html = live.pages.page("/")
    assert "<li>group rag.evaluate is 12 &lt;b&gt; records behind</li>" in html
    assert '<li><a href="/dead-letters">1,003 dead letters</a></li>' in html
    assert '<li><a href="/agreement">agreement with people unknown</a></li>' in html
    letters = live.pages.page("/dead-letters")
    assert "1,003 dead letters" in letters
    assert "; of the newest 1,000" in letters


def test_an_address_keeps_its_zone_which_says_nothing_to_the_server(live: Live) -> None:
    """The script shows local time, and the pages without it UTC, from the same element."""
    live.write(1)
    utc = '<time datetime="2026-11-21T12:00:00Z">2026-11-21 12:00:00 UTC</time>'
    for path in ("/answers?zone=local", "/answers/e1?zone=local", "/?zone=local", "/dead-letters?zone=local"):
        assert utc in live.pages.page(path)
    assert live.pages.page("/answers.jsonl?zone=local").count("\n") == 1
    answer = live.pages.browser.get("/answers?form=1&zone=local&application=shop")
    assert answer.headers["location"] == "/answers?zone=local&application=shop"


def test_no_page_waits_for_the_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for in a thread, by one at a time, and again once it is old."""
    now, go, asked = [0.0], threading.Event(), threading.Semaphore(0)
    monkeypatch.setattr(machine, "monotonic", lambda: now[0])
    answers = iter(("12 behind", "7 behind"))

    def ask() -> str:
        asked.release()
        assert go.wait(30)
        return next(answers)

    def thread() -> threading.Thread:
        (found,) = [each for each in threading.enumerate() if each.name == "lag"]
        return found

    watch = LagWatch(ask)
    assert watch.say() == "the lag is not known yet"
    assert asked.acquire(timeout=30)
    now[0] += 10 * ASK_SECONDS
    assert watch.say() == "the lag is not known yet"
    running = thread()
    go.set()
    running.join(30)
    assert watch.say() == "12 behind"
    assert asked.acquire(timeout=30)
    for each in [each for each in threading.enumerate() if each.name == "lag"]:
        each.join(30)
    assert watch.say() == "7 behind"
    assert not asked.acquire(blocking=False)


@pytest.mark.slow
def test_a_lag_that_nobody_knows_is_said_to_be_unknown() -> None:
    """No broker listens there."""
    settings = Settings.model_validate({"kafka": {"bootstrap_servers": "127.0.0.1:1"}})
    assert "127.0.0.1:1" in evaluation_lag(settings)


def test_agreement_is_computed_anew_if_the_labels_have_changed() -> None:
    version, computed = [1], []

    def compute() -> LabelReport:
        computed.append(version[0])
        return LabelReport(notes=[f"{version[0]}"])

    cache = AgreementCache(lambda: version[0], compute)
    assert [cache().notes, cache().notes] == [["1"], ["1"]]
    version[0] = 2
    assert cache().notes == ["2"]
    assert computed == [1, 2]
