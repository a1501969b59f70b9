"""One path of a person in a browser; `make test-console` has the others."""

from pathlib import Path

import pytest
from chromium_console import chromium, console, log_in, looking, press

from ragweir.streams.analysis.labels.store import read_labels
from tools.chromium import find

_EVENTS = [
    {
        "event_id": f"e{number}",
        "ended_at": f"2026-11-21T10:00:{number:02}Z",
        "query": f"Query {number}?",
        "response": f"Response {number} weighs {number} kg.",
        "contexts": [{"chunk_id": "c", "text": f"Passage {number}."}],
    }
    for number in range(4)
]


@pytest.mark.slow
@pytest.mark.skipif(find() is None, reason="there is no Chromium (Debian, Ubuntu: apt-get install chromium)")
def test_a_person_logs_in_by_the_printed_address_and_labels_by_keyboard(tmp_path: Path) -> None:
    """The token goes from the address into the form; no key reaches a page of another host."""
    with console(tmp_path, _EVENTS, draw=2) as place, chromium() as browser, looking(browser, place) as (page, heard):
        log_in(page, place, to="/review")
        assert "#" not in page.url
        press(page, "y")
        page.get_by_text("Saved: yes.").wait_for()
        press(page, "n")
        page.get_by_text("All 2 are answered").wait_for()
        assert [each.value for each in read_labels(tmp_path / "labels.jsonl").current()] == [True, False]
        assert heard.reports == []
