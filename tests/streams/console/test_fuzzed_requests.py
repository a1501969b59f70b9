"""Requests that no browser sends: no page fails, and no label is written without a session, its token and its origin.

The application is called as uvicorn calls it, with the bytes of a request line and its headers.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

import pytest
from browsers import HOST, TOKEN, logged_in
from commands import ragweir
from confluent_kafka import TopicPartition
from scored_answers import GROUNDED, RETURNS, score
from starlette.types import ASGIApp, Message

from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating_task import RatingTask
from ragweir.streams.analysis.labels.store import LabelFile, read_queue
from ragweir.streams.console.application import application
from ragweir.streams.console.from_files import content_of_files
from ragweir.streams.console.pages.review import review_routes
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.review_desk import ReviewDesk
from ragweir.streams.settings import Settings

COUNT = 40
MAX_BYTES = 2_000_000
"""A page of 50 answers, or one answer, of these events."""
ROWS = [
    RETURNS | {"event_id": f"e{number}", "labels": {"team": "a\u202eb"}, "session_id": f"s{number % 3}"}
    for number in range(COUNT)
]
PATHS = (
    *("/", "/answers", "/answers.jsonl", "/answers.new", "/answers/e1", "/answers/", "/review", "/agreement"),
    *(
        "/cause",
        "/cause",
        "/compare",
        "/compare/x",
        "/dead-letters",
        "/dead-letters/0/0",
        "/login",
        "/logout",
        "/static/console.css",
    ),
    *("/static/../application.py", "/static/%2e%2e/application.py", "//evil.example", "/none", "/answers/..", "/*"),
    *("/dead-letters/99999999999999999999999/0", "/dead-letters/-1/0", "/dead-letters/0/9223372036854775808"),
)
NAMES = (
    *("application", "tenant", "model", "labels.team", "labels.", "categories.x", "min.unsupported_risk", "min."),
    *("max.unsupported_risk", "flag", "slo", "from", "to", "judged", "labelled", "feedback", "feedback.thumbs", "id"),
    *("session", "question", "trace", "document", "sort", "order", "after", "before", "limit", "zone", "row", "form"),
    *("metric", "low", "high", "given", "event", "next", "nonsense", "", "application.", "do", "choice", "mark"),
)
VALUES = (
    *("", "yes", "no", "asc", "time", "unsupported_risk", "grounded", "e1", "s1", "0", "1", "-1", "0.5", "nan", "inf"),
    *("1e999", "9" * 400, "2026-11-21T10:00:00Z", "2026-11-21", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z"),
    *("1.7e+09", "1e+99", "inf~0", "nan~1", "0~99999999999999999999", "0.5~3", "\x00", "\ud800", "\u202e", "%", "%zz"),
    *("<script>", "' or 1=1 --", "\u0661", "\u00b2", "\r\nSet-Cookie: a=b", "/answers", "//evil.example", "x" * 1_200),
    *("label", "skip", "undo", "y", "n", "c", "drop", "feedback.thumbs=yes", "min.x=1", "=", "a=b=c"),
)
METHODS = ("GET",) * 6 + ("POST",) * 8 + ("HEAD", "PUT", "DELETE", "OPTIONS", "get", "TRACE")
FORM = "application/x-www-form-urlencoded"


@dataclass(slots=True)
class Sent:
    """A request, and the answer to it."""

    method: str
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    status: int = 0
    answer: bytearray = field(default_factory=bytearray)
    sent_headers: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.target!r} {self.headers} {self.body[:300]!r} -> {self.status}"


async def send(app: ASGIApp, request: Sent) -> None:
    """Call the application as uvicorn does."""
    raw_path, _, query = request.target.partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": request.headers,
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_600),
        "state": {},
    }
    parts = [request.body[:7], request.body[7:]]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}
        return {"type": "http.disconnect"}

    async def sink(message: Message) -> None:
        if message["type"] == "http.response.start":
            request.status = message["status"]
            request.sent_headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            request.answer += message.get("body", b"")

    await app(scope, receive, sink)


class Requests:
    """Makes requests, of which some could write a label.

    Args:
        chance: the seeded source of all of them.
        cookie: the cookie of a session.
    """

    def __init__(self, chance: random.Random, cookie: str) -> None:
        self._chance, self._cookie = chance, cookie

    def make(self, mark: str) -> tuple[Sent, bool]:
        """Return a request, and whether it may write a label.

        Args:
            mark: the mark of the answer that is shown to the person of the session.
        """
        chance = self._chance
        is_label = chance.random() < 0.2
        method = "POST" if is_label and chance.random() < 0.9 else chance.choice(METHODS)
        path = "/review" if is_label else self._path()
        query = "" if is_label and chance.random() < 0.5 else self._query()
        headers, may = self._headers()
        pairs = self._pairs()
        if is_label:
            pairs += [("do", chance.choice(("label", "undo", "skip"))), ("choice", "y"), ("mark", mark)]
        body = self._body(pairs)
        is_post = method == "POST" and path == "/review"
        return Sent(method, f"{path}?{query}".encode() if query else path.encode(), headers, body), may and is_post

    def _path(self) -> str:
        chance = self._chance
        path = chance.choice(PATHS)
        if chance.random() < 0.3:
            path += quote(chance.choice(VALUES), safe="%", errors="surrogatepass")
        if chance.random() < 0.1:
            path = "/" + "".join(chr(chance.randrange(0x21, 0x7F)) for _ in range(chance.randrange(40))).replace(
                "?", ""
            )
        return path

    def _pairs(self) -> list[tuple[str, str]]:
        chance = self._chance
        return [(chance.choice(NAMES), chance.choice(VALUES)) for _ in range(chance.choice((0, 1, 1, 2, 3, 8)))]

    def _query(self) -> str:
        chance = self._chance
        query = urlencode(self._pairs(), errors="surrogatepass")
        if chance.random() < 0.1:
            query += "&" + "".join(chance.choice("%&=;+AF0z~.") for _ in range(chance.choice((5, 60, 9_000))))
        if chance.random() < 0.02:
            query = "&".join(["flag=a"] * chance.choice((99, 250)))
        return query

    def _body(self, pairs: list[tuple[str, str]]) -> bytes:
        chance = self._chance
        body = urlencode(pairs, errors="surrogatepass").encode()
        if chance.random() < 0.1:
            body = chance.choice((body + b"&" + b"x" * 20_000, b"\xff\xfe" + body, b"&".join([body] * 70), b"{}"))
        return body

    def _headers(self) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Return headers, and whether they are those of a form of the console from a person who is logged in."""
        chance = self._chance
        if chance.random() < 0.4:
            good = {"host": HOST, "content-type": FORM, "sec-fetch-site": "same-origin", "cookie": self._cookie}
            return [(name.encode(), value.encode()) for name, value in good.items()], True
        host = chance.choice((HOST,) * 9 + ("evil.example", "127.0.0.1:8600@evil.example", ""))
        kind = chance.choice((FORM,) * 6 + ("text/plain", "multipart/form-data; boundary=x", "application/json"))
        origin = chance.choice((("sec-fetch-site", "same-origin"),) * 9 + ORIGINS)
        cookie = chance.choice((self._cookie,) * 8 + ("", *self._other_cookies()))
        headers = [("host", host), ("content-type", kind)]
        headers += [origin] if origin[0] else []
        headers += [("cookie", cookie)] if cookie else []
        if chance.random() < 0.1:
            headers += [("x-forwarded-user", "Ada"), ("x-ragweir-token", chance.choice((TOKEN, "x")))]
        chance.shuffle(headers)
        same = origin in {("sec-fetch-site", "same-origin"), ("origin", f"http://{HOST}")}
        may = host == HOST and same and cookie == self._cookie and kind == FORM
        return [(name.encode(), value.encode("latin-1")) for name, value in headers], may

    def _other_cookies(self) -> Iterator[str]:
        name, _, value = self._cookie.partition("=")
        person, expires, mark = value.split(".")
        yield f"{name}={person}.{int(expires) + 1_000}.{mark}"
        yield f"{name}=Qm8=.{expires}.{mark}"
        yield f"{name}={person}.{expires}.{mark[:-1]}"
        yield f"{name}={person}.nan.{mark}"
        yield f"{name}=..."
        yield f"other={value}"


ORIGINS = (
    ("sec-fetch-site", "cross-site"),
    ("sec-fetch-site", "none"),
    ("origin", "https://evil.example"),
    ("origin", "null"),
    ("origin", f"http://{HOST}"),
    ("", ""),
)


def no_letter(at: tuple[int, int]) -> None:
    """Ask for a position as the client of Kafka takes it; nothing is there."""
    TopicPartition("rag.dead-letter", *at)


@contextmanager
def console(folder: Path) -> Iterator[tuple[ASGIApp, ReviewDesk]]:
    """All pages over forty answers, which are drawn to be labelled."""
    evaluations = score(folder, ROWS)
    metric = ("--metric", "unsupported_risk", "--threshold", "0.5")
    drawn = ragweir(*("labels", "draw", evaluations, *metric, "--count", COUNT, "--out", "queue.jsonl"), folder=folder)
    assert drawn.returncode == 0, drawn.stderr
    draw, answers = read_queue(folder / "queue.jsonl")
    texts = {each["event_id"]: EventTexts.of(Interaction.model_validate(each)) for each in ROWS}
    settings = Settings.model_validate({"slo": [GROUNDED.model_dump()], "console": {"folder": folder / "console"}})
    with (
        LabelFile(folder / "labels.jsonl") as file,
        content_of_files(settings, [evaluations], folder / "events.jsonl", folder / "labels.jsonl") as content,
    ):
        task = RatingTask(answers, file, "events", lambda: texts, "", partial(file.add_draw, draw))
        desk = ReviewDesk(settings, lambda: task, content.seen.has)
        live = replace(content, letter=no_letter)
        pages = [*page_routes(live), *review_routes(desk, "ragweir labels draw", live.state)]
        yield application(pages, settings.console, TOKEN), desk


@pytest.mark.slow
@pytest.mark.parametrize("number", [150, pytest.param(10_000, marks=pytest.mark.heavy)])
def test_no_page_fails_and_no_label_is_written_without_its_rights(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragweir.streams.console.safety.rates.Rate.admits", lambda *_: True)  # All have to be answered.
    lines: list[bytes] = []
    with console(tmp_path) as (app, desk):
        (cookie,) = logged_in(app).cookies.jar
        requests = Requests(random.Random(number), f"{cookie.name}={cookie.value}")
        statuses: Counter[int] = Counter()
        written = 0

        async def all_of_them() -> None:
            nonlocal lines, written
            for _ in range(number):
                shown = desk.show("Ada")
                assert shown is not None
                request, may = requests.make(shown.mark)
                await send(app, request)
                statuses[request.status] += 1
                assert 200 <= request.status < 500, request
                assert len(request.answer) <= MAX_BYTES, request
                assert "\n" not in "".join(request.sent_headers.values()), request
                now = (tmp_path / "labels.jsonl").read_bytes().splitlines()
                if now != lines and lines:
                    assert may, request
                    assert b"do=label" in request.body or b"do=undo" in request.body, request
                    written += 1
                lines = now

        asyncio.run(all_of_them())
    assert written >= number / 100
    assert {200, 303, 400, 403, 404, 405, 415, 421} <= set(statuses)
