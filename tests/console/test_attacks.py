"""Texts that attack, in every field of an event: on all pages that links lead to nothing of them runs or loads."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from chromium_console import Heard, RunningConsole, chromium, console, log_in, looking, press
from playwright.sync_api import Browser, Page

ATTACKS = (
    "<script>pwned('script')</script>",
    "</title></textarea></style></script><script>pwned('after an end')</script>",
    "<img src=x onerror=\"pwned('image')\">",
    "<img src='http://evil.example/image'>",
    "<svg onload=\"pwned('svg')\"><style>@import url(http://evil.example/style)</style></svg>",
    "\"><script>pwned('attribute')</script><a href=\"",
    "' onmouseover='pwned(1)' autofocus onfocus='pwned(2)' x='",
    '" onpointerover="pwned(3)" style="background:url(http://evil.example/css)" x="',
    "javascript:pwned('address')",
    "<a href=\"javascript:pwned('link')\" data-key='y'>click</a>",
    "<iframe src='http://evil.example/frame' srcdoc='<script>parent.pwned(4)</script>'></iframe>",
    "<meta http-equiv=refresh content='0; url=http://evil.example/refresh'><base href='http://evil.example/'>",
    "<link rel=stylesheet href=http://evil.example/sheet><form action=http://evil.example/form><button>go</button>",
    "{{ 7 * 7 }} {% include 'base.html' %} ${7*7} #{7*7}",
    "../../../etc/passwd?a=b&c=d#e%00%0d%0aSet-Cookie:x=y",
    "\u202egnp.exe\u2066 \x1b[2J\x00 \ufeff \u2028 \ud7ff",
)
_MOST_PAGES = 60
_TOUCH = """
for (const fold of document.querySelectorAll("details")) fold.open = true;
for (const each of document.querySelectorAll("*"))
  for (const kind of ["pointerover", "mouseover", "focus", "animationstart"])
    each.dispatchEvent(new Event(kind, {bubbles: true}));
"""


def attacked(number: int, attack: str) -> dict[str, object]:
    """An event with the attack in every field that is text."""
    return {
        "event_id": f"{number}{attack}"[:200],
        "ended_at": f"2026-11-21T10:00:{number:02}Z",
        **dict.fromkeys(("application", "tenant", "environment", "pipeline_version", "model", "session_id"), attack),
        **dict.fromkeys(("question_id", "trace_id", "span_id", "finish_reason", "query", "error"), attack),
        "labels": {attack: attack},
        "response": f"{attack} and 4 kg more. {attack}",
        "expected": attack,
        "history": [{"role": "user", "text": attack}],
        "feedback": {"score": 1.0, "label": attack, "comment": attack},
        "contexts": [
            {"chunk_id": attack, "document_id": attack, "text": attack, "rank": 1, "retrieval_method": attack},
            {"chunk_id": "c2", "document_id": "d2", "text": f"{attack} and 4 kg", "rank": 2},
        ],
        "spans": [{"kind": "tool", "name": attack, "started_at": "2026-11-21T10:00:00Z", "error": attack}],
        attack: attack,
    }


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    events = [attacked(number, attack) for number, attack in enumerate(ATTACKS)]
    with console(tmp_path_factory.mktemp("attacks"), events, draw=len(events)) as running:
        yield running


def kind(address: str) -> tuple[str, ...]:
    """The page of an address without what differs between its answers: its path's first part, and its parameters."""
    parts = urlsplit(address)
    first, _, rest = parts.path.lstrip("/").partition("/")
    return first, "one" if rest else "", *sorted(each.partition("=")[0] for each in parts.query.split("&"))


def walked(page: Page, heard: Heard) -> list[str]:
    """Look at the pages that links lead to, a few of each kind; return their addresses."""
    waiting, seen, kinds = ["/", "/answers", "/review", "/agreement", "/dead-letters", "/compare"], [], {}
    while waiting and len(seen) < _MOST_PAGES:
        address = waiting.pop(0)
        if kinds.setdefault(kind(address), 0) >= len(ATTACKS) or address in seen:
            continue
        kinds[kind(address)] += 1
        seen.append(address)
        answer = page.goto(address)
        assert answer is not None
        assert answer.status < 500, address
        page.evaluate(_TOUCH)
        assert heard.reports == [], address
        links = page.evaluate("[...document.querySelectorAll('a[href]:not([download])')].map(each => each.href)")
        links = [link for link in links if "jsonl" not in link]  # A download is no page.
        for link in links:
            assert link.startswith(f"{heard.address}/"), link
        waiting += [link.removeprefix(heard.address) for link in links]
    return seen


def test_nothing_of_an_event_runs_or_loads_on_any_page(browser: Browser, place: RunningConsole) -> None:
    with looking(browser, place) as (page, heard):
        log_in(page, place)
        assert sum(each.startswith("/answers/") for each in walked(page, heard)) > 10
        assert urlsplit(page.url).netloc == urlsplit(place.address).netloc


def test_nothing_runs_while_people_label(browser: Browser, place: RunningConsole) -> None:
    """Each answer is shown as it is written, with its characters."""
    with looking(browser, place) as (page, heard):
        log_in(page, place, "Bo", "/review")
        for number in range(len(ATTACKS)):
            page.get_by_text(f"{number} of {len(ATTACKS)} answered").wait_for()
            shown = page.inner_text("main")
            assert any(attack.split("\n")[0] in shown for attack in ATTACKS[:-1]) or "gnp.exe" in shown
            assert heard.reports == []
            press(page, "y")
        page.get_by_text(f"All {len(ATTACKS)} are answered").wait_for()
        assert heard.reports == []


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (ATTACKS[2], "blocked: script-src-attr"),
        (ATTACKS[0], "blocked: script-src-elem"),
        (ATTACKS[3], "blocked: img-src"),
        ("<style>a{}</style>", "blocked: style-src-elem"),
        ("<a id=go href=\"javascript:pwned('link')\">go</a>", "blocked: script-src-elem"),
        ("<form action='http://evil.example/'><button id=go>go</button></form>", "blocked: form-action"),
        ("<base href='http://evil.example/'>", "blocked: base-uri"),
        ("<object data='/static/console.js'></object>", "blocked: object-src"),
    ],
)
def test_what_a_page_would_not_escape_is_blocked_and_heard(
    text: str, reported: str, browser: Browser, place: RunningConsole
) -> None:
    """The page is that of the login with the text in it, as if a template did not escape; its headers are its own."""
    with looking(browser, place) as (page, heard):

        def unescaped(route: object) -> None:
            answer = route.fetch()
            route.fulfill(response=answer, body=answer.text().replace("<main", f"{text}<main", 1))

        page.route("**/login", unescaped)
        page.goto("/login")
        page.evaluate("document.getElementById('go')?.click()")
        for _ in range(100):
            if any(each.startswith(reported) for each in heard.reports):
                break
            page.wait_for_timeout(50)
        assert any(each.startswith(reported) for each in heard.reports), heard.reports
        assert not any(each.startswith("ran") for each in heard.reports)


def test_no_page_of_another_site_may_hold_a_page_in_a_frame(browser: Browser, place: RunningConsole) -> None:
    with ExitStack() as stack:
        page, _ = stack.enter_context(looking(browser, place))
        page.route(
            "http://other.example/",
            lambda route: route.fulfill(
                body=f"<iframe src='{place.address}/login'></iframe>", content_type="text/html"
            ),
        )
        page.goto("http://other.example/")
        frame = page.frames[-1]
        assert "Log in" not in (frame.evaluate("document.documentElement.innerText") or "")


def test_a_page_of_another_site_changes_nothing(browser: Browser, place: RunningConsole, tmp_path: Path) -> None:
    """Its form is sent without the cookie, and is refused with it."""
    with looking(browser, place) as (page, _):
        log_in(page, place)
        form = (
            f"<form id=f method=post action='{place.address}/review'><input name=do value=undo></form>"
            "<script>f.submit()</script>"
        )
        page.route("http://other.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
        with page.expect_response(f"{place.address}/review") as answer:
            page.goto("http://other.example/")
        assert answer.value.status == 403
        assert tmp_path.exists()
