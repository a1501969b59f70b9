"""A console as a process, and Chromium that looks at its pages and listens for all that runs, loads or is blocked."""

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from commands import COMMAND, environment, ragweir
from playwright.sync_api import Browser, Page, sync_playwright

from tools.chromium import find

PATIENCE_S = 60
_LISTEN = """
document.addEventListener("securitypolicyviolation", (event) =>
  report(`blocked: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`));
window.pwned = (what) => report(`ran: ${what}`);
"""


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that runs."""

    address: str
    token: str
    folder: Path


@contextmanager
def console(folder: Path, events: Sequence[dict[str, Any]], draw: int = 0) -> Iterator[RunningConsole]:
    """Score events, draw some of their answers to be labelled, and run a console over them."""
    (folder / "events.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in events))
    _done(folder, "score", "events.jsonl", "--out", "evaluations.jsonl")
    if draw:
        metric = ("--metric", "unsupported_risk", "--threshold", "0.1")
        _done(folder, "labels", "draw", "evaluations.jsonl", *metric, "--count", f"{draw}", "--out", "queue.jsonl")
    line = [*COMMAND, "console", "evaluations.jsonl", "--events", "events.jsonl", "--port", "0"]
    with subprocess.Popen(line, cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.search(r"(http://127\.0\.0\.1:\d+)/login#(\w+)", said)
            assert found, said
            yield RunningConsole(found[1], found[2], folder)
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_S)


def _done(folder: Path, *words: str) -> None:
    done = ragweir(*words, folder=folder)
    assert done.returncode == 0, done.stderr


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a Chromium without a window for the length of a block."""
    with sync_playwright() as playwright:
        # Its sandbox needs rights that root in a container has not; the pages that it opens are the tests' own.
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"], timeout=1_000 * PATIENCE_S)
        try:
            yield browser
        finally:
            browser.close()


@dataclass(slots=True)
class Heard:
    """What a browser did that no page of the console asks for."""

    address: str
    reports: list[str] = field(default_factory=list)

    def on_request(self, url: str) -> None:
        """Record a request to another host, or one that is no page."""
        parts = urlsplit(url)
        if f"{parts.scheme}://{parts.netloc}" != self.address:
            self.reports.append(f"loaded: {url}")


@contextmanager
def looking(browser: Browser, place: RunningConsole, **options: Any) -> Iterator[tuple[Page, Heard]]:
    """Open a tab of somebody who is not logged in, with the listener."""
    heard = Heard(place.address)
    context = browser.new_context(base_url=place.address, **options)
    context.set_default_timeout(1_000 * PATIENCE_S)
    context.expose_binding("report", lambda _, what: heard.reports.append(what))
    context.add_init_script(_LISTEN)
    page = context.new_page()
    page.on("request", lambda request: heard.on_request(request.url))
    page.on("dialog", lambda dialog: (heard.reports.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("pageerror", lambda error: heard.reports.append(f"error: {error}"))
    page.on("popup", lambda popup: heard.reports.append(f"window: {popup.url}"))
    try:
        yield page, heard
    finally:
        context.close()


def log_in(page: Page, place: RunningConsole, name: str = "Ada", to: str = "/") -> None:
    """Log in as a person does, by the address that was printed."""
    page.goto(f"/login#{place.token}")
    page.fill("#name", name)
    page.click("text=Log in >> nth=-1")
    page.wait_for_url("**/")
    if to != "/":
        page.goto(to)


def follow(page: Page, heard: Heard, address: str) -> None:
    """Click a link to the console on a page of another site, and forget what that page loaded."""
    link = f"<a href='{escape(address)}'>the alert</a>"
    page.route("http://alerts.example/", lambda route: route.fulfill(body=link, content_type="text/html"))
    page.goto("http://alerts.example/")
    heard.reports.clear()
    page.click("text=the alert")


def press(page: Page, key: str) -> None:
    """Press a key once the page's script listens: its text is there before."""
    page.wait_for_load_state("load")
    page.keyboard.press(key)
