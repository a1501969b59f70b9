"""Every page in light, dark and narrow: axe-core finds nothing serious, and no page is wider than its window."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium_console import RunningConsole, chromium, console, log_in, looking
from playwright.sync_api import Browser

from ragweir.schemas.label import Label
from ragweir.schemas.times import parse_time
from ragweir.streams.analysis.labels.store import written
from ragweir.streams.playground.demo.samples import interactions, samples

NOW = parse_time("2026-11-21T10:00:00Z")
PAGES = (
    "/",
    "/answers",
    "/answers?application=support-bot&min.unsupported_risk=0.1&sort=unsupported_risk",
    "/answers/returns-window-v2-1?sort=unsupported_risk",
    "/answers/arabic",
    "/answers/none",
    "/cause?metric=unsupported_risk",
    "/cause?metric=nothing",
    "/review",
    "/agreement",
    "/compare",
    "/dead-letters",
    "/login",
)
LOOKS: tuple[dict[str, Any], ...] = (
    {"color_scheme": "light", "viewport": {"width": 1280, "height": 900}},
    {"color_scheme": "dark", "viewport": {"width": 1280, "height": 900}},
    {"color_scheme": "light", "viewport": {"width": 420, "height": 900}},
)
ARABIC = {
    "event_id": "arabic",
    "ended_at": "2026-11-21T10:00:00Z",
    "query": "كم يومًا لدي لإرجاع الحذاء؟",
    "response": "يمكنك إرجاع الحذاء خلال 90 يومًا من التسليم. سنضيف قسيمة إلى حسابك \u202e[1].",
    "contexts": [{"document_id": "سياسة", "text": "يمكن إرجاع السلع خلال 30 يومًا من التسليم."}],
}
_OPEN = "for (const fold of document.querySelectorAll('details')) fold.open = true;"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder: Path = tmp_path_factory.mktemp("accessible")
    label = Label(
        event_id="returns-window-v2-1",
        question="supported",
        value=False,
        rater="a",
        kind="expert",
        blind=True,
        time=NOW,
    )
    (folder / "labels.jsonl").write_bytes(written([label]))
    with console(folder, [*interactions(len(samples()), NOW), ARABIC], draw=10) as found:
        yield found


@pytest.mark.parametrize("look", LOOKS, ids=["light", "dark", "narrow"])
def test_nothing_hinders_anybody(browser: Browser, place: RunningConsole, look: dict[str, Any]) -> None:
    """With all that is folded opened: contrast, names of controls, order of headings, and the width."""
    found, axe = [], Axe()
    with looking(browser, place, **look) as (page, _):
        log_in(page, place)
        for path in PAGES:
            page.goto(path)
            page.evaluate(_OPEN)
            for each in axe.run(page).response["violations"]:
                where = each["nodes"][0]["html"][:120]
                found.append(f"{path} {each['impact']} {each['id']}: {each['help']}: {where}")
            if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append(f"{path} is wider than the window")
    assert found == []
