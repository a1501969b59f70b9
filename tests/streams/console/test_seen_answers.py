"""A label is blind only if its rater has not seen scores of the answer on another page."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson
import pytest
from browsers import TOKEN, logged_in
from commands import ragweir
from scored_answers import RETURNS, pages_of, score
from starlette.testclient import TestClient

from ragweir.errors import PermanentError
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import LabelDraw, LabelledScore, QueuedAnswer
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating_task import RatingTask
from ragweir.streams.analysis.labels.store import LabelFile, read_labels, read_queue
from ragweir.streams.console.application import application
from ragweir.streams.console.from_files import content_of_files
from ragweir.streams.console.pages.review import review_routes
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.console.review_desk import ReviewDesk
from ragweir.streams.console.seen_answers import MOST_ANSWERS, SeenAnswers
from ragweir.streams.settings import Settings

pytestmark = pytest.mark.slow

COUNT = 6
ROWS = [RETURNS | {"event_id": f"e{number}", "response": f"Call us at {number}."} for number in range(COUNT)]


@contextmanager
def reviewing(folder: Path) -> Iterator[Callable[[str], TestClient]]:
    """All pages over six answers that are drawn to be labelled; yields what logs a person in."""
    evaluations = score(folder, ROWS)
    metric = ("--metric", "unsupported_risk", "--threshold", "0.5")
    done = ragweir(*("labels", "draw", evaluations, *metric, "--count", COUNT, "--out", "queue.jsonl"), folder=folder)
    assert done.returncode == 0, done.stderr
    draw, answers = read_queue(folder / "queue.jsonl")
    texts = {each["event_id"]: EventTexts.of(Interaction.model_validate(each)) for each in ROWS}
    settings = Settings.model_validate({"console": {"folder": folder / "console"}})
    with ExitStack() as stack:
        file = stack.enter_context(LabelFile(folder / "labels.jsonl"))
        content = stack.enter_context(content_of_files(settings, [evaluations], folder / "events.jsonl"))
        task = RatingTask(answers, file, "events", lambda: texts, "", partial(file.add_draw, draw))
        desk = ReviewDesk(settings, lambda: task, content.seen.has)
        pages = [*page_routes(content), *review_routes(desk, "", content.state)]
        yield partial(logged_in, application(pages, settings.console, TOKEN))


def label(browser: TestClient, folder: Path) -> tuple[str, bool]:
    """Label the answer that is shown; return its event's id, and whether its label says that the rater was blind."""
    before = len(read_labels(folder / "labels.jsonl").labels)
    mark = re.findall(r'name="mark" value="(\w+)"', browser.get("/review").text)[0]
    browser.post("/review", data={"do": "label", "choice": "y", "mark": mark})
    labels = list(read_labels(folder / "labels.jsonl").labels.values())
    assert len(labels) == before + 1
    return labels[-1].event_id, labels[-1].blind


def shown(browser: TestClient) -> str:
    """The id of the event whose answer is shown."""
    (found,) = re.findall(r"Call us at (\d+)\.", browser.get("/review").text)
    return f"e{found}"


SEEN = "You have seen scores of this answer"


def test_the_evidence_in_another_tab_makes_a_label_one_that_is_not_blind(tmp_path: Path) -> None:
    """Of that answer and that person alone."""
    with reviewing(tmp_path) as person:
        ada, bo = person("Ada"), person("Bo")
        first = shown(ada)
        assert SEEN not in ada.get("/review").text
        assert ada.get(f"/answers/{first}").status_code == 200
        assert SEEN in ada.get("/review").text
        assert SEEN not in bo.get("/review").text
        assert label(ada, tmp_path) == (first, False)
        assert label(ada, tmp_path)[1]
        assert label(bo, tmp_path)[1]


def test_a_label_that_is_given_anew_after_a_look_at_the_evidence_is_not_blind(tmp_path: Path) -> None:
    with reviewing(tmp_path) as person:
        ada = person("Ada")
        first, blind = label(ada, tmp_path)
        assert blind
        ada.get(f"/answers/{first}")
        ada.post("/review", data={"do": "undo"})
        mark = re.findall(r'name="mark" value="(\w+)"', ada.get("/review").text)[0]
        ada.post("/review", data={"do": "label", "choice": "n", "mark": mark})
        (found,) = read_labels(tmp_path / "labels.jsonl").current()
        assert (found.event_id, found.value, found.blind) == (first, False, False)


@pytest.mark.parametrize("path", ["/answers", "/answers.jsonl", "/answers?sort=unsupported_risk&limit=6"])
def test_a_list_has_scores_too(path: str, tmp_path: Path) -> None:
    with reviewing(tmp_path) as person:
        ada = person("Ada")
        assert ada.get(path).status_code == 200
        assert [label(ada, tmp_path)[1] for _ in range(COUNT)] == [False] * COUNT


def test_a_comparison_shows_scores_of_single_events(tmp_path: Path) -> None:
    """Only those of the events that the page names count as seen."""
    with reviewing(tmp_path) as person:
        other = tmp_path / "other.jsonl"
        lines = [orjson.loads(line) for line in (tmp_path / "evaluations.jsonl").read_bytes().splitlines()]
        for line in lines:
            line["scores"]["unsupported_risk"] = 0.9
        other.write_bytes(b"\n".join(map(orjson.dumps, lines)))
        (tmp_path / "console" / "compare").mkdir(parents=True)
        out = tmp_path / "console" / "compare" / "run.json"
        done = ragweir("compare", tmp_path / "evaluations.jsonl", other, "--json", out)
        assert done.returncode == 0, done.stderr
        ada = person("Ada")
        page = ada.get("/compare/run").text
        named = {each for each in (f"e{number}" for number in range(COUNT)) if f'href="/answers/{each}"' in page}
        assert named
        for _ in range(COUNT):
            event_id, blind = label(ada, tmp_path)
            assert blind == (event_id not in named)


def answer(event_id: str, time: datetime | None = None) -> QueuedAnswer:
    judged = LabelledScore(metric="unsupported_risk", value=0.1, bad=False, probability=1)
    return QueuedAnswer(
        event_id=event_id, question="supported", draw=LabelDraw(id="d", probability=1), judged=judged, event_time=time
    )


def test_it_is_remembered_by_a_new_process_without_names(tmp_path: Path) -> None:
    file = tmp_path / "new" / "seen.sqlite"
    seen = SeenAnswers(file, "key")
    seen.add("Ada Lovelace", ["e1", "e1", "\ud800"])
    seen.close()
    again = SeenAnswers(file, "key")
    assert [again.has(*each) for each in ((" Ada Lovelace", answer("e1")), ("Ada Lovelace", answer("\ud800")))] == [
        True,
        True,
    ]
    assert [again.has(*each) for each in (("Ada Lovelace", answer("e2")), ("Bo", answer("e1")))] == [False, False]
    again.close()
    content = b"".join(each.read_bytes() for each in file.parent.iterdir())
    assert b"Lovelace" not in content
    assert b"e1" not in content


def test_who_has_seen_too_many_has_seen_all_that_were_there(tmp_path: Path) -> None:
    """A download of everything takes bounded room, and no label of an earlier answer claims to be blind."""
    seen, now = SeenAnswers(tmp_path / "seen.sqlite", "key"), datetime.now(UTC)
    seen.add("Ada", (f"e{number}" for number in range(MOST_ANSWERS)))
    assert not seen.has("Ada", answer("other", now - timedelta(days=1)))
    seen.add("Ada", ["one more"])
    assert seen.has("Ada", answer("other", now - timedelta(days=1)))
    assert seen.has("Ada", answer("of no time"))
    assert not seen.has("Ada", answer("other", now + timedelta(days=1)))
    assert not seen.has("Bo", answer("other", now - timedelta(days=1)))
    seen.close()


def test_scores_that_cannot_be_remembered_are_not_shown(tmp_path: Path) -> None:
    with pages_of(tmp_path) as pages:
        pages.content.seen.close()
        for path in ("/answers", "/answers/returns"):
            assert "cannot be used" in pages.page(path, 503)
    file = tmp_path / "seen.sqlite"
    file.write_bytes(b"no database" * 100)
    with pytest.raises(PermanentError, match="cannot be used"):
        SeenAnswers(file, "key")
