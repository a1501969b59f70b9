"""The script and the style of the pages, in Chromium: new answers, local time, and narrow windows."""

import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from browsers import TOKEN
from chromium_console import RunningConsole, chromium, console, log_in, looking
from playwright.sync_api import expect
from scored_answers import pages_of

from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.console.application import application
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.console.web_server import listen, served
from ragweir.streams.settings.console import ConsoleSettings

PASSAGE = "Returns within 30 days are free. " * 40
EVENT = {
    "event_id": "an-id-of-some-length-as-applications-have-them-2026",
    "ended_at": "2026-11-21T10:00:00Z",
    "query": "How long?",
    "response": "Returns within 90 days are free.",
    "contexts": [{"document_id": "policy", "text": PASSAGE}],
}


def written(writer: StoreWriter, *numbers: int) -> None:
    for number in numbers:
        own = Evaluation(event_id=f"e{number}", event_time=datetime.now(UTC), catalogue_version="3", scores={"x": 1.0})
        writer.take(own, 0, number)
    writer.flush()


def test_a_list_says_how_many_answers_are_new_and_shows_them(tmp_path: Path) -> None:
    """Its clock is that of the test, so that nobody waits."""
    settings = ConsoleSettings(port=0)
    with pages_of(tmp_path) as pages, StoreWriter(tmp_path / "live.sqlite") as writer:
        written(writer, 1, 2)
        with closing(AnswerStore(tmp_path / "live.sqlite")) as store, listen(settings) as (listening, address):
            content = replace(pages.content, store=store, letter=lambda _: None)
            with served(application(page_routes(content), settings, TOKEN), listening), chromium() as browser:
                place = RunningConsole(address, TOKEN, tmp_path)
                with looking(browser, place) as (page, heard):
                    page.clock.install()
                    log_in(page, place, to="/answers")
                    expect(page.locator(".new")).to_be_hidden()
                    written(writer, *range(3, 40))
                    page.clock.run_for(20_000)
                    page.click("text=37 new or newly judged: show")
                    page.get_by_role("heading", name="39 answers").wait_for()
                    assert heard.reports == []


def test_times_are_local_where_the_address_says_so(tmp_path: Path) -> None:
    """The links of such a page lead to such pages, and its forms, too."""
    with (
        console(tmp_path, [EVENT]) as place,
        chromium() as browser,
        looking(browser, place, timezone_id="Asia/Tokyo") as (page, heard),
    ):
        log_in(page, place, to="/answers?sort=unsupported_risk")
        assert "2026-11-21 10:00:00 UTC" in page.inner_text("main")
        page.click("text=Show local time")
        page.wait_for_url("**/answers?sort=unsupported_risk&zone=local")
        assert re.search(r"2026-11-21 19:00:00 (GMT\+9|JST)", page.inner_text("main"))
        page.click("[data-row]")
        page.wait_for_url("**&zone=local")
        assert "2026-11-21 19:00:00" in page.inner_text("main")
        page.click("text=Applications")
        page.wait_for_url("**/?zone=local")
        page.click("text=Show UTC")
        page.wait_for_url(lambda url: "zone" not in url)
        assert "2026-11-21 10:00:00 UTC" in page.inner_text("main")
        assert heard.reports == []


def test_a_narrow_window_needs_no_scrolling_sideways(tmp_path: Path) -> None:
    """The list has each number with its name, and a long passage is shown in part until its box is ticked."""
    with (
        console(tmp_path, [EVENT]) as place,
        chromium() as browser,
        looking(browser, place, viewport={"width": 420, "height": 900}) as (page, _),
    ):
        log_in(page, place, to="/answers?sort=unsupported_risk")
        assert page.evaluate("[...document.querySelectorAll('.wide, html')].every(e => e.scrollWidth <= e.clientWidth)")
        name = "getComputedStyle(document.querySelector('tbody .figure'), '::before').content"
        assert "unsupported_risk" in page.evaluate(name)
        page.click("[data-row]")
        text = page.locator(".passage .text")
        before = text.bounding_box()
        page.check(".whole >> nth=0")
        after = text.bounding_box()
        assert before is not None
        assert after is not None
        assert before["height"] < 200 < after["height"]
