"""The page of causes shows what `ragweir blame` prints, and leads to the answers of each cause."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from browsers import TOKEN, logged_in
from scored_answers import GROUNDED, RETURNS, ShownPages, score
from typer.testing import CliRunner

from ragweir.errors import ConfigurationError, PermanentError, ReadTooLong
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.blame.blame_question import BlameQuestion, BlameReading
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.slo.alert_rules import rules
from ragweir.streams.analysis.slo.linked_rules import link_rules
from ragweir.streams.commands import app
from ragweir.streams.console.application import application
from ragweir.streams.console.cause_desk import CauseDesk
from ragweir.streams.console.from_files import content_of_files
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.runtime.machine import machine
from ragweir.streams.settings import Settings
from ragweir.streams.settings.blame import BlameSettings, Silence

WRONG = "Vouchers wait in Lyon until 2030."
EVIL = "d\u202e7&document=d1"


def rows() -> list[dict[str, Any]]:
    """Answers of two versions, one with more wrong ones, and a document with more than the others."""
    found = []
    for n in range(400):
        bad_document = n % 5 == 0
        wrong = n % 10 == 0 or (n % 4 == 1 and n % 3 == 0)
        found.append(
            RETURNS
            | {
                "event_id": f"e{n}",
                "query": f"How long may I return {n} shoes?",
                "pipeline_version": "v2" if n % 4 == 1 else "v1",
                "response": WRONG if wrong else "Return shoes within 30 days.",
                "contexts": [
                    {"document_id": EVIL if bad_document else f"d{n % 3}", "text": "Return shoes within 30 days."}
                ],
            }
        )
    return found


@pytest.fixture(scope="module")
def evaluations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return score(tmp_path_factory.mktemp("causes"), rows())


@contextmanager
def pages(file: Path, **blame: Any) -> Iterator[ShownPages]:
    settings = Settings(slo=(GROUNDED,), blame=BlameSettings(**blame))
    with content_of_files(settings, [file]) as content:
        yield ShownPages(content, logged_in(application(page_routes(content), settings.console, TOKEN)))


@pytest.mark.slow
def test_the_numbers_and_notes_are_those_of_the_command(evaluations: Path) -> None:
    words = ["blame", "unsupported_risk", str(evaluations), "--threshold", "0.5", "--json"]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    data = orjson.loads(done.stdout)
    assert [each["facets"] for each in data["causes"]] == [{"document": EVIL}, {"pipeline_version": "v2"}]
    with pages(evaluations) as found:
        html = found.page("/cause?slo=grounded")
    assert "2 causes worse than the rest" in html
    for each in data["causes"]:
        points = "{:.0f} ({:.0f} to {:.0f})".format(*(100 * each[name] for name in ("risk_difference", "low", "high")))
        assert (
            f'<td class="figure strong">{each["bad"]}</td><td class="figure">{each["servings"]}</td>'
            f'<td class="figure">{each["excess_bad"]:.0f}</td><td class="figure">{points}</td>'
        ) in html
        for example in (*each["examples"]["bad"], *each["examples"]["good"]):
            assert f'<a href="/answers/{example}"><bdi>{example}</bdi></a>' in html
    for note in data["notes"]:
        assert f"<li>{note}</li>" in html


@pytest.mark.slow
def test_a_cause_leads_to_its_bad_answers(evaluations: Path) -> None:
    """Also one whose name is hostile: the list has exactly the bad answers of the cause."""
    with pages(evaluations) as found:
        html = found.page("/cause?slo=grounded")
        links = [unescape(each) for each in re.findall(r'data-row href="([^"]+)"', html)]
        assert [f"{n} answers</h1>" in found.page(link) for n, link in zip((46, 33), links, strict=True)] == [True] * 2
        assert "\u202e" not in html
        by_name = found.page("/cause?metric=grounded")
        assert [unescape(each) for each in re.findall(r'data-row href="([^"]+)"', by_name)] == links
        by_metric = found.page("/cause?metric=unsupported_risk&application=support-bot")
        assert "min.unsupported_risk=" in by_metric


def test_whoever_saw_the_causes_has_seen_which_answers_are_bad(evaluations: Path) -> None:
    with pages(evaluations) as found:
        found.page("/cause?slo=grounded")
        texts = [found.content.seen.has("Ada", QueuedAnswer.model_construct(event_id=each)) for each in ("e0", "e399")]
    assert texts == [True, False]


def test_a_silenced_cause_is_shown_as_such(evaluations: Path) -> None:
    silence = Silence(facets={"document": EVIL}, reason="is <b>being</b> rewritten", until="2099-01-01T00:00:00Z")
    with pages(evaluations, silenced=(silence,)) as found:
        html = found.page("/cause?slo=grounded")
    assert "2 causes worse than the rest, 1 of them silenced" in html
    until = '<time datetime="2099-01-01T00:00:00Z">2099-01-01 00:00:00 UTC</time>'
    assert f"Silenced until {until}: is &lt;b&gt;being&lt;/b&gt; rewritten" in html


@pytest.mark.slow
def test_the_link_of_an_alert_asks_about_its_range(evaluations: Path) -> None:
    """With seconds as Prometheus writes those of its templates."""
    content = rules((GROUNDED,), judged=())
    link_rules(content, (GROUNDED,), "https://console.example")
    url = next(
        rule["annotations"]["console_url"] for group in content["groups"] for rule in group["rules"] if "alert" in rule
    )
    start, end = "1795255384", "1795255385"  # The second of the answers.
    parts = urlsplit(re.sub(r"(from|to)=\{\{.*?end \}\}", lambda each: f"{each[1]}={start}", url))
    assert parts.path == "/cause"
    query = f"slo=grounded&from={start}&to={end}"
    assert parts.query == f"slo=grounded&from={start}&to={start}"
    with pages(evaluations) as found:
        assert "of 400 answers are bad: unsupported_risk above 0.5" in found.page(f"/cause?{query}")
        none = found.page("/cause?slo=grounded&from=1700000000&to=1700003600")
        assert (
            "holds no answer from 2023-11-14T22:13:20Z to 2023-11-14T23:13:20Z; its answers are from 2026-11-21" in none
        )


@pytest.mark.parametrize(
    "query",
    [
        "slo=a&slo=b",
        "sort=cost_usd",
        "after=1~2",
        "from=x",
        "nothing=1",
        "application=a&application=b",
        "categories.a=b",
    ],
)
def test_another_query_is_refused_with_a_sentence(evaluations: Path, query: str) -> None:
    with pages(evaluations) as found:
        assert "<h1>" in found.page(f"/cause?{query}", 400)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("metric=nothing", "there is no metric nothing"),
        ("slo=other", "there is no metric other"),
        ("slo=grounded&from=2026-11-22&to=2026-11-21", "is empty"),
        ("metric=response_words", "neither direction"),
    ],
)
def test_a_question_without_an_answer_says_why(evaluations: Path, query: str, why: str) -> None:
    with pages(evaluations) as found:
        assert why in found.page(f"/cause?{query}")


def test_an_slo_of_one_application_is_not_asked_about_another() -> None:
    slo = GROUNDED.model_copy(update={"dimensions": {"application": "shop"}})
    with pytest.raises(ConfigurationError, match="grounded counts answers with application shop alone, not hr"):
        BlameReading(Settings(slo=(slo,)), BlameQuestion("grounded", where=(("application", "hr"),)))


def test_a_reading_is_bounded_and_says_so(evaluations: Path) -> None:
    reading = BlameReading(Settings(slo=(GROUNDED,)), BlameQuestion("grounded"), most=100)
    for line in (b"nonsense", *evaluations.read_bytes().splitlines()):
        reading.add(line)
    report = reading.report("file", machine.now())
    assert report.events == 100
    assert "only the first 100 answers of the range were read; a shorter range has them all" in report.notes
    assert "1 records are no evaluations, and are left out" in report.notes


def test_a_page_waits_for_a_short_time_and_asks_again() -> None:
    """Questions are answered one after the other; of more than a few that wait the next is refused."""
    go, asked = Event(), []

    def compute(question: BlameQuestion) -> BlameReport:
        asked.append(question.name)
        assert go.wait(30)
        raise PermanentError(f"no answer to {question.name}")

    desk = CauseDesk(compute, wait_s=0.01)
    assert [desk.ask(BlameQuestion(name)) for name in "abcd"] == [None] * 4
    assert desk.ask(BlameQuestion("a")) is None
    with pytest.raises(ReadTooLong):
        desk.ask(BlameQuestion("e"))
    assert len(asked) == 1
    go.set()
    patient = CauseDesk(compute, wait_s=30)
    for name in "abcd":
        with pytest.raises(PermanentError, match=f"no answer to {name}"):
            patient.ask(BlameQuestion(name))


def test_a_failure_is_shown_once_and_tried_again() -> None:
    answers: list[Any] = [PermanentError("no broker answers"), "a report"]

    def compute(_: BlameQuestion) -> BlameReport:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found  # type: ignore[no-any-return]

    desk = CauseDesk(compute, wait_s=30)
    with pytest.raises(PermanentError):
        desk.ask(BlameQuestion("a"))
    assert [desk.ask(BlameQuestion("a")), desk.ask(BlameQuestion("a"))] == ["a report", "a report"]


@pytest.mark.slow
def test_a_page_that_waits_loads_again(evaluations: Path) -> None:
    settings = Settings(slo=(GROUNDED,))
    go = Event()
    with content_of_files(settings, [evaluations]) as content:
        slow = replace(content, causes=lambda _: go.wait(30))  # type: ignore[arg-type,return-value]
        found = ShownPages(slow, logged_in(application(page_routes(slow), settings.console, TOKEN)))
        html = found.page("/cause?slo=grounded")
        go.set()
    assert '<meta http-equiv="refresh" content="2">' in html
    assert "being computed" in html


@pytest.mark.slow
def test_lists_and_applications_lead_to_the_causes_among_their_answers(evaluations: Path) -> None:
    """A list that causes cannot be asked of has no link."""
    with pages(evaluations) as found:
        first = re.search(r'bad</a>, <a href="([^"]+)">causes</a>', found.page("/"))
        assert first
        assert "2 causes worse than the rest" in found.page(unescape(first[1]))
        bad = "slo=grounded&application=support-bot&min.unsupported_risk=0.5"
        for query in (bad, "application=support-bot&sort=unsupported_risk&limit=7"):
            [link] = re.findall(r'<a href="([^"]+)">Causes</a></p>', found.page(f"/answers?{query}"))
            assert "application support-bot" in plain(html := found.page(unescape(link))), link
            assert "2 causes worse than the rest" in html
        for query in (
            "",
            "sort=total_latency_ms",
            f"{bad}&session=s",
            f"{bad}&categories.kind=a",
            f"{bad}&application=b",
        ):
            assert "Causes</a></p>" not in found.page(f"/answers?{query}")


def plain(html: str) -> str:
    return re.sub(r"<[^>]+>", "", html)
