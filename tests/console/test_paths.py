"""The paths of a person through the console, in Chromium."""

from pathlib import Path

import orjson
from chromium_console import chromium, console, follow, log_in, looking, press

from ragweir.streams.analysis.labels.store import read_labels

EVENTS = [
    {
        "event_id": f"e{number}",
        "ended_at": f"2026-11-21T10:00:{number:02}Z",
        "query": f"Query {number}?",
        "response": f"Response {number} weighs {number} kg.",
        "contexts": [{"chunk_id": "c", "text": f"Passage {number}."}],
    }
    for number in range(30)
]


def test_twenty_labels_by_keyboard_alone(tmp_path: Path) -> None:
    """With one that is skipped, one that is taken back, and three that cannot be told."""
    keys = "ynycnysynuyyncynnyycyny"
    with console(tmp_path, EVENTS, draw=24) as place, chromium() as browser, looking(browser, place) as (page, heard):
        log_in(page, place, to="/review")
        answered = 0
        for key in keys:
            answered += {"s": 0, "u": -1}.get(key, 1)
            press(page, key)
            page.get_by_text(f"{answered} of 24 answered").wait_for()
            page.get_by_text({"s": "Skipped:", "u": "Taken back:"}.get(key, "Saved:")).wait_for()
        labels = [*read_labels(tmp_path / "labels.jsonl").current()]
        assert len(labels) == answered == 20
        assert sum(each.value == "cannot_tell" for each in labels) == 3
        assert all(each.blind and each.seconds is not None for each in labels)
        assert heard.reports == []


def test_labelling_works_without_the_script(tmp_path: Path) -> None:
    with (
        console(tmp_path, EVENTS, draw=2) as place,
        chromium() as browser,
        looking(browser, place, java_script_enabled=False) as (page, _),
    ):
        page.goto("/login")
        page.fill("#token", place.token)
        page.fill("#name", "Ada")
        page.click("text=Log in >> nth=-1")
        page.goto("/review")
        page.click("button:has-text('yes')")
        page.get_by_text("1 of 2 answered").wait_for()
        assert [each.value for each in read_labels(tmp_path / "labels.jsonl").current()] == [True]


def test_the_link_of_an_alert_leads_to_the_evidence_about_the_worst_answer(tmp_path: Path) -> None:
    """By two clicks, with a session, whose cookie is not sent with a link of another site: a page of ours leads on."""
    worst = {**EVENTS[7], "event_id": "worst", "response": "Nothing of this is anywhere. It costs 99 dollars on Mars."}
    with console(tmp_path, [*EVENTS, worst]) as place, chromium() as browser, looking(browser, place) as (page, heard):
        log_in(page, place)
        follow(page, heard, f"{place.address}/answers?sort=unsupported_risk&order=desc")
        page.click("[data-row] >> nth=0")
        page.get_by_role("heading", name="lack support").or_(page.get_by_text("lack support")).first.wait_for()
        assert "It costs 99 dollars on Mars." in page.inner_text("main")
        assert heard.reports == []


def test_the_link_of_an_alert_leads_over_a_document_to_its_bad_answers(tmp_path: Path) -> None:
    """From the page of causes, of whose documents one has all the bad answers, to the evidence about one of them."""
    wrong = "Nothing of this is anywhere. It costs 99 dollars on Mars."
    right = "The parcel is sent by post. It takes 12 days to Europe."  # As long, in the same language.
    events = [
        {
            **EVENTS[n % 30],
            "event_id": f"e{n}",
            "query": f"Query {n}?",
            "response": wrong if n % 6 == 0 and n % 4 != 2 else right,
            "contexts": [{"document_id": "d7" if n % 6 == 0 else f"d{n % 5}", "text": right}],
        }
        for n in range(240)
    ]
    with console(tmp_path, events) as place, chromium() as browser, looking(browser, place) as (page, heard):
        log_in(page, place)
        times = "from=2026-11-21T10:00:00Z&to=2026-11-21T11:00:00Z"
        follow(page, heard, f"{place.address}/cause?metric=unsupported_risk&{times}")
        page.get_by_role("heading", name="document d7").wait_for()
        assert "1 cause worse than the rest" in page.inner_text("main")
        page.click("text=Its bad answers, worst first")
        page.get_by_role("heading", name="20 answers").wait_for()
        page.click("[data-row] >> nth=0")
        page.get_by_text("lack support").first.wait_for()
        assert "It costs 99 dollars on Mars." in page.inner_text("main")
        assert heard.reports == []


def test_a_list_is_filtered_and_what_it_shows_is_downloaded(tmp_path: Path) -> None:
    with console(tmp_path, EVENTS) as place, chromium() as browser, looking(browser, place) as (page, heard):
        log_in(page, place, to="/answers")
        page.click("details.filters summary")
        page.fill("input[name=id]", "e2")
        page.click("details.filters button")
        page.get_by_role("heading", name="11 answers").wait_for()
        with page.expect_download() as download:
            page.click("text=Download")
        lines = Path(download.value.path()).read_bytes().splitlines()
        assert {orjson.loads(line)["event_id"] for line in lines} == {f"e{each}" for each in (2, *range(20, 30))}
        assert heard.reports == []
