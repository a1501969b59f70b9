"""Labelling on a page: the same labels as `ragweir labels rate` makes, by buttons, and blind."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
from browsers import FROM_OWN_PAGE, console_of, logged_in, stranger
from commands import ragweir
from starlette.testclient import TestClient

from ragweir.errors import PermanentError
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import QueuedAnswer
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating_task import RatingTask
from ragweir.streams.analysis.labels.store import LabelFile, read_labels, read_queue
from ragweir.streams.console.page_state import PageState
from ragweir.streams.console.pages.review import review_routes
from ragweir.streams.console.review_desk import ReviewDesk
from ragweir.streams.console.review_queues import seen_by_raters
from ragweir.streams.console.store.stored_answers import StoreState
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import Settings, from_groups

pytestmark = pytest.mark.slow

COUNT = 12
RISKS = ("0.123456", "0.876543")


class Opened(NamedTuple):
    """A queue on pages."""

    desk: ReviewDesk
    browser: Callable[..., TestClient]
    labels: Path
    ids: list[str]


def _event(number: int) -> dict[str, object]:
    passage = f"Passage {number} <b>bold</b> & \u202ereversed"
    return {
        "event_id": f"e{number}",
        "ended_at": f"2026-11-21T10:00:{number:02}Z",
        "query": f"Query {number}?",
        "response": f"Response {number}.",
        "contexts": [{"chunk_id": "c", "text": passage}],
    }


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The queue of twelve answers, drawn by the command from evaluations with scores that no text has."""
    folder = tmp_path_factory.mktemp("review")
    lines = [
        {
            "event_id": f"e{number}",
            "event_time": f"2026-11-21T10:00:{number:02}Z",
            "catalogue_version": "3",
            "scores": {"unsupported_risk": float(RISKS[number % 2])},
            "source": {"topic": "events.jsonl", "partition": 0, "offset": number + 1},
        }
        for number in range(COUNT)
    ]
    (folder / "evaluations.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    done = ragweir("labels", "draw", "evaluations.jsonl", "--count", str(COUNT), "--out", "queue.jsonl", folder=folder)
    assert done.returncode == 0, done.stderr
    return folder / "queue.jsonl"


@pytest.fixture
def opened(queue: Path, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    with ExitStack() as stack:

        def open_(without: int | None = None, settings: Settings | None = None, **console: object) -> Opened:
            effective = settings or from_groups({"console": console})
            draw, answers = read_queue(queue)
            texts = {
                f"e{number}": EventTexts(f"Query {number}?", f"Response {number}.", (), ())
                for number in range(COUNT)
                if number != without
            }

            def find() -> RatingTask:
                file = stack.enter_context(LabelFile(tmp_path / "labels.jsonl"))
                return RatingTask(answers, file, "events", lambda: texts, "look again", partial(file.add_draw, draw))

            desk = ReviewDesk(effective, find, unseen)
            app = console_of(review_routes(desk, "the command", no_state), **console)
            ids = [each.event_id for each in answers]
            return Opened(desk, partial(logged_in, app), tmp_path / "labels.jsonl", ids)

        yield open_


def unseen(_: str, __: QueuedAnswer) -> bool:
    """Nobody has looked at another page."""
    return False


def no_state() -> PageState:
    return PageState(StoreState(0, None, None, 1.0, 0), None)


def press(browser: TestClient, key: str) -> str:
    """Press the button of a key, as a browser does; return the page that follows."""
    page = browser.get("/review").text
    forms = re.findall(r'<form method="post" action="/review">(.*?)</form>', page, re.DOTALL)
    (form,) = [each for each in forms if f'data-key="{key}"' in each]
    fields = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form))
    answer = browser.post("/review", data=fields)
    assert (answer.status_code, answer.headers["location"]) == (303, "/review")
    return browser.get("/review").text


def shown(page: str) -> str:
    """The number of the answer on a page."""
    (found,) = re.findall(r"Response (\d+)\.", page)
    return f"e{found}"


def test_answers_are_labelled_in_the_order_of_the_queue_and_stored_before_the_page_says_so(
    opened: Callable[..., Opened],
) -> None:
    place = opened()
    browser = place.browser()
    assert f"0 of {COUNT} answered" in browser.get("/review").text
    for number, key in enumerate("yncy" * 3):
        assert shown(browser.get("/review").text) == place.ids[number]
        page = press(browser, key)
        name = {"y": "yes", "n": "no", "c": "cannot tell"}[key]
        assert f"Saved: {name}." in page
        stored = [*read_labels(place.labels).current()]
        assert [each.event_id for each in stored] == place.ids[: number + 1]
        assert stored[-1].value == {"y": True, "n": False, "c": "cannot_tell"}[key]
    assert f"All {COUNT} are answered" in page
    label = stored[0]
    assert (label.kind, label.blind, label.rater) == ("expert", True, hashed_rater("Ada", "ragweir"))
    assert label.draw is not None
    assert label.judged is not None
    assert label.seconds is not None
    found = read_labels(place.labels)
    assert {*found.draws} == {label.draw.id}


def test_the_labels_are_those_of_the_command(opened: Callable[..., Opened], queue: Path, tmp_path: Path) -> None:
    """`ragweir labels rate` with the same keys makes the same lines, but for times."""
    place = opened()
    browser = place.browser()
    for key in "ynsucnyyuc":
        press(browser, key)
    events = tmp_path / "events.jsonl"
    events.write_bytes(b"\n".join(orjson.dumps(_event(number)) for number in range(COUNT)))
    out = tmp_path / "rated.jsonl"
    done = ragweir(*("labels", "rate", queue, "--events", events, "--out", out, "--rater", "Ada"), text=b"ynsucnyyuc")
    assert done.returncode == 0, done.stderr

    def lines(file: Path) -> list[dict[str, object]]:
        own = [orjson.loads(line) for line in file.read_bytes().splitlines()]
        return [{name: value for name, value in line.items() if name not in ("time", "seconds")} for line in own]

    assert lines(place.labels) == lines(out)
    assert len(lines(out)) == 10  # The draw, seven labels and two that are taken back.


def test_a_rater_sees_texts_and_no_score_judge_or_mark(opened: Callable[..., Opened]) -> None:
    page = opened().browser().get("/review").text
    assert "Is everything in the answer supported by the passages?" in page
    for hidden in (*RISKS, "unsupported_risk", "0.7", "probability", "judge", "<mark", "bad", "good"):
        assert hidden not in page, hidden


def test_a_skipped_answer_comes_last_and_an_undone_one_first(opened: Callable[..., Opened]) -> None:
    place = opened()
    browser = place.browser()
    assert shown(press(browser, "s")) == place.ids[1]
    press(browser, "y")
    page = press(browser, "u")
    assert "Taken back" in page
    assert shown(page) == place.ids[1]
    assert [*read_labels(place.labels).current()] == []
    assert "There is nothing to undo." in press(browser, "u")
    for _ in range(COUNT - 1):
        page = press(browser, "n")
    assert shown(page) == place.ids[0]


def test_two_people_get_other_answers_and_skipped_ones_stay_last(opened: Callable[..., Opened]) -> None:
    place = opened()
    ada, bo = place.browser(), place.browser("Bo")
    press(ada, "s")
    assert shown(bo.get("/review").text) == place.ids[0]
    press(bo, "y")
    press(bo, "y")
    assert shown(ada.get("/review").text) == place.ids[2]
    assert {each.rater for each in read_labels(place.labels).current()} == {hashed_rater("Bo", "ragweir")}


def test_the_form_of_an_answer_that_is_no_longer_shown_stores_nothing(opened: Callable[..., Opened]) -> None:
    """As that of a second tab, or a button that was pressed twice."""
    place = opened()
    browser = place.browser()
    form = {"do": "label", "choice": "y", "mark": place.desk.show("Ada").mark}
    for _ in range(2):
        browser.post("/review", data=form)
    page = browser.get("/review").text
    assert "Nothing is saved" in page
    assert len([*read_labels(place.labels).current()]) == 1


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"other": "field"}, 400),
        ({"do": "drop"}, 400),
        ({"do": "label"}, 303),
        ({"do": "label", "choice": "maybe"}, 303),
        ({"do": "label", "choice": "y", "mark": "none"}, 303),
        ({"do": "skip", "mark": "none"}, 303),
    ],
)
def test_a_form_that_the_page_has_not_stores_nothing(
    form: dict[str, str], status: int, opened: Callable[..., Opened]
) -> None:
    place = opened()
    browser = place.browser()
    first = shown(browser.get("/review").text)
    form = {"mark": place.desk.show("Ada").mark, **form}
    assert browser.post("/review", data=form).status_code == status
    assert shown(browser.get("/review").text) == first
    assert [*read_labels(place.labels).current()] == []


def test_an_answer_whose_text_is_gone_is_labelled_so_at_its_turn(opened: Callable[..., Opened], queue: Path) -> None:
    first = read_queue(queue)[1][0].event_id
    place = opened(without=int(first[1:]))
    assert shown(place.browser().get("/review").text) == place.ids[1]
    (label,) = read_labels(place.labels).current()
    assert (label.event_id, label.value, label.why) == (first, "cannot_tell", "text_gone")


def test_texts_of_another_file_are_no_reason_to_label_all_as_gone(queue: Path, tmp_path: Path) -> None:
    draw, answers = read_queue(queue)
    with LabelFile(tmp_path / "labels.jsonl") as file:
        task = RatingTask(answers, file, "other.jsonl", dict, "name another one", partial(file.add_draw, draw))
        app = console_of(review_routes(ReviewDesk(from_groups({}), lambda: task, unseen), "", no_state))
        answer = logged_in(app).get("/review")
        assert answer.status_code == 503
        assert "other.jsonl has none of the 12 events of the queue: name another one" in answer.text
        assert file.content.labels == {}


def test_raters_see_the_texts_that_the_settings_let_be_seen() -> None:
    """Redacted, or not at all: then nothing is labelled, and no answer counts as one whose text is gone."""
    event = Interaction(event_id="1", query="Mail jo@example.org?", response="Yes.", ended_at=datetime.now(UTC))

    def seen(texts: str) -> EventTexts | None:
        return seen_by_raters(ShownTexts(from_groups({"console": {"texts": texts}})))(event)

    assert [found and found.query for found in map(seen, ("on", "redacted"))] == [event.query, "Mail [email]?"]
    with pytest.raises(PermanentError, match=r"labelling needs the texts of answers, and .*console\.texts"):
        seen("off")


def test_labels_are_limited_by_rate(opened: Callable[..., Opened]) -> None:
    place = opened()
    browser = place.browser()
    answers = [browser.post("/review", data={"do": "undo"}) for _ in range(60)]
    assert [each.status_code for each in answers[:30]] == [303] * 30
    assert 429 in [each.status_code for each in answers]
    assert place.browser("Bo").post("/review", data={"do": "undo"}).status_code == 303


def test_only_those_label_whom_the_settings_name(opened: Callable[..., Opened]) -> None:
    place = opened(label_users=["Bo"])
    for answer in (place.browser().get("/review"), place.browser().post("/review", data={"do": "undo"})):
        assert answer.status_code == 403
        assert "console.label_users does not name you" in answer.text
    assert place.browser("Bo").get("/review").status_code == 200


def test_a_page_of_another_site_labels_nothing(opened: Callable[..., Opened]) -> None:
    place = opened()
    browser = place.browser()
    form = {"do": "label", "choice": "y", "mark": place.desk.show("Ada").mark}
    assert browser.post("/review", data=form, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert [*read_labels(place.labels).current()] == []


def test_without_a_queue_the_page_has_the_command_that_draws_one() -> None:
    desk = ReviewDesk(from_groups({}), lambda: None, unseen)
    page = logged_in(console_of(review_routes(desk, "ragweir labels draw <file>", no_state))).get("/review")
    assert "<code>ragweir labels draw &lt;file&gt;</code>" in page.text
    assert (
        stranger(console_of(review_routes(desk, "", no_state))).get("/review", headers=FROM_OWN_PAGE).status_code == 303
    )


def test_a_label_that_cannot_be_stored_is_not_said_to_be(
    opened: Callable[..., Opened], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = opened()
    browser = place.browser()
    first = shown(browser.get("/review").text)
    form = {"do": "label", "choice": "y", "mark": place.desk.show("Ada").mark}

    def full(*_: object) -> None:
        raise PermanentError("labels.jsonl cannot be written: No space left on device")

    monkeypatch.setattr(LabelFile, "add", full)
    answer = browser.post("/review", data=form)
    assert (answer.status_code, "No space left on device" in answer.text) == (503, True)
    assert shown(browser.get("/review").text) == first
