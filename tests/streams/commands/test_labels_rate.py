"""`ragweir labels rate`: a person answers by single keys, blind, and no label is lost or doubled."""

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ROOT, environment
from raters import RaterTerminal
from rich.cells import cell_len
from typer.testing import CliRunner

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.schemas.label import Draw, LabelDraw, LabelledScore, QueuedAnswer, VerdictSums
from ragweir.streams.analysis.labels.store import LabelFile, read_labels, written
from ragweir.streams.commands import app
from ragweir.streams.commands.app import out
from ragweir.streams.runtime.machine import Clocks, machine
from ragweir.streams.services.shared.raters import hashed_rater

TIME = datetime(2026, 11, 21, 10, tzinfo=UTC)
ON_TERMINAL = (
    "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); from ragweir.streams.commands import main; main()"
)
HASH = hashed_rater("Ada", "secret")
RATE = ("labels", "rate", "queue.jsonl", "--events", "events.jsonl", "--out", "labels.jsonl", "--rater", "Ada")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs commands in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("RAGWEIR_LABELS__KEY", "secret")
    return tmp_path


def event(number: int, **more: object) -> dict[str, Any]:
    """An event, whose query is its id."""
    own = {"event_id": f"e{number}", "query": f"e{number}", "response": "Thirty days.", "ended_at": TIME.isoformat()}
    return {**own, "contexts": [{"text": "Within thirty days."}], **more}


def write_queue(answers: int, question: str = "supported", raters: int = 1) -> None:
    draw = Draw(
        id="d1",
        question=question,
        metric="unsupported_risk",
        threshold=0.8125,
        start=TIME,
        end=TIME,
        events=answers,
        selected=answers,
        bad=VerdictSums(drawn=answers),
        made_at=TIME,
    )
    lines = [
        QueuedAnswer(
            event_id=f"e{number}",
            question=question,
            draw=LabelDraw(id="d1", probability=0.375),
            judged=LabelledScore(metric="unsupported_risk", value=0.90625, bad=True, probability=1),
            event_time=TIME,
            raters=raters,
        )
        for number in range(answers)
    ]
    Path("queue.jsonl").write_bytes(written([draw, *lines]))


def prepare(answers: int, *events: dict[str, Any]) -> None:
    """Write a queue, and events; by default those of the queue, and others."""
    write_queue(answers)
    rows = events or tuple(event(number) for number in range(answers + 5))
    Path("events.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))


def rate(keys: str, *words: str) -> tuple[int, str, str]:
    """Run the command in this process with these keys; returns exit status, standard output and error."""
    done = CliRunner().invoke(app, [*RATE, *words], input=keys, catch_exceptions=False, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value or 0, done.stdout, done.stderr


def lines() -> list[tuple[str, bool | str]]:
    """The labels of the file in their order, withdrawn ones too."""
    rows = [json.loads(line) for line in Path("labels.jsonl").read_bytes().splitlines()]
    return [(row["event_id"], row["value"]) for row in rows if "event_id" in row]


@pytest.mark.slow
def test_answers_are_labelled_by_single_keys() -> None:
    prepare(4)
    status, screen, error = rate("yncx?zn")
    assert status == 0
    assert lines() == [("e0", True), ("e1", False), ("e2", "cannot_tell"), ("e3", False)]
    assert [f"{number} of 4" in screen for number in range(6)] == [False, True, True, True, True, False]
    assert "x is no key here" in screen
    assert "cannot tell: the text does not let you" in screen
    assert error == "all 4 answered\nnext: ragweir labels report labels.jsonl --evaluations FILE\n"
    kept = read_labels(Path("labels.jsonl"))
    assert list(kept.draws) == ["d1"]
    label = kept.labels["e0", "supported", HASH]
    assert (label.kind, label.blind, label.draw) == ("expert", True, LabelDraw(id="d1", probability=0.375))
    assert (label.event_time, label.judged is not None, label.time.tzinfo) == (TIME, True, UTC)
    assert "Ada" not in Path("labels.jsonl").read_text()


@pytest.mark.slow
def test_a_label_has_the_seconds_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    class TickingClocks(Clocks):
        seconds = 0.0

        def monotonic(self) -> float:
            self.seconds += 1.5
            return self.seconds

    monkeypatch.setattr(machine, "clocks", TickingClocks())
    prepare(2)
    rate("yun")
    kept = read_labels(Path("labels.jsonl"))
    assert [label.seconds for label in kept.current()] == [1.5]


@pytest.mark.slow
def test_leaving_and_coming_back() -> None:
    """By q, and by the end of the input; an undone answer of an earlier run is asked again."""
    prepare(4)
    assert rate("yq")[::2] == (0, "1 of 4 answered; the same command goes on\n")
    assert rate("n")[::2] == (0, "2 of 4 answered; the same command goes on\n")
    assert rate("unsy")[::2] == (0, "3 of 4 answered; the same command goes on\n")
    assert rate("y")[2].startswith("all 4 answered\n")
    expected = [("e0", True), ("e1", False), ("e1", "withdrawn"), ("e1", False), ("e3", True), ("e2", True)]
    assert lines() == expected
    status, screen, error = rate("n")
    assert (status, screen, error.partition("\n")[0], lines()) == (0, "", "all 4 answered", expected)


def test_steps_of_a_scale_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    question = {"name": "grade", "text": "How good?", "scale": "ordinal", "values": ["poor", "fine"], "bad": ["poor"]}
    monkeypatch.setenv("RAGWEIR_LABELS__QUESTIONS", json.dumps([{**question, "metric": "unsupported_risk"}]))
    prepare(3)
    write_queue(3, "grade")
    _, screen, _ = rate("2y31")
    assert "1 poor   2 fine   c cannot tell" in screen
    assert lines() == [("e0", "fine"), ("e1", "poor")]


@pytest.mark.slow
def test_the_rater_is_blind() -> None:
    """Neither the screens, nor the help, nor what follows have a score, a metric, a threshold or a chance."""
    prepare(3)
    texts = " ".join(rate("?xyu" + "ny" * 3)[1:]) + " ".join(rate("")[1:])
    for shown in ("e0", "e2", "Thirty days.", "Within thirty days.", "all 3 answered"):
        assert shown in texts
    for hidden in ("unsupported_risk", "risk", "0.8", "81", "0.9", "91", "0.375", "37", "bad", "Ada"):
        assert hidden not in texts


@pytest.mark.slow
def test_texts_cannot_control_the_terminal() -> None:
    """Nor can they pass for ragweir's own words: each line of a text is indented."""
    hostile = "A\x1b[2J\x1b]0;owned\x07 \u202egnp [red]:smile:[/red]\r\nTHE ANSWER\x9b31m\u2028B"
    contexts = [{"text": "יום 3", "document_id": "d\x1b[1m"}, {"text": "三十天" * 60}, {}]
    history = [{"role": "user\x1b", "text": "Hello"}]
    prepare(1, event(0, query=hostile, response=hostile, contexts=contexts, history=history))
    screen = rate("y")[1]
    assert not {"\x1b", "\x07", "\u202e", "\x9b", "\u2028", "\r"}.intersection(screen)
    assert (
        screen.count("  A\ufffd[2J\ufffd]0;owned\ufffd \ufffdgnp [red]:smile:[/red]\n  THE ANSWER\ufffd31m\ufffdB\n")
        == 2
    )
    assert "\n1  d\ufffd[1m\n  יום 3\n2\n" in screen
    assert "\n3\n  (not captured)\n" in screen
    assert "\nEARLIER IN THE CONVERSATION\nuser\ufffd\n  Hello\n" in screen
    wide = max(cell_len(line) for line in screen.splitlines() if "三" in line)
    assert out.width - 2 < wide <= out.width  # Each character takes two columns.


@pytest.mark.slow
def test_lost_texts_are_labelled_as_such() -> None:
    """An event that is not there, and one whose content was not captured."""
    prepare(4, event(1), event(2, response=None), event(3))
    status, screen, error = rate("y")
    assert (status, "1 of 2" in screen) == (0, True)
    assert error.startswith("events.jsonl lacks the text of 2 of the answers")
    assert lines() == [("e0", "cannot_tell"), ("e1", True), ("e2", "cannot_tell")]
    assert rate("n")[2].endswith(" FILE\n")
    assert lines()[3:] == [("e3", False)]
    whys = [label.why for label in read_labels(Path("labels.jsonl")).current()]
    assert whys == ["text_gone", "", "text_gone", ""]


@pytest.mark.slow
def test_a_text_that_is_found_again_is_asked() -> None:
    prepare(2, event(1))
    rate("y")
    prepare(2)
    assert rate("n")[2].startswith("all 2 answered")
    assert lines() == [("e0", "cannot_tell"), ("e1", True), ("e0", False)]


@pytest.mark.slow
def test_events_are_read_as_score_reads_them(folder: Path) -> None:
    """Through a map, from the files of a folder, the first of an id; later ones are duplicates."""
    write_queue(3)
    Path("map.toml").write_text('event_id = "id"\nquery = "q"\nresponse = "a"\n')
    events = folder / "events"
    events.mkdir()
    (events / "a.csv").write_text("id,q,a\ne2,two,2\ne0,zero,0\ne0,again,0\n")
    (events / "b.jsonl").write_text('{"id": "e1", "q": "one", "a": "1"}\n')
    command = ["labels", "rate", "queue.jsonl", "--events", "events", "--out", "labels.jsonl", "--map", "map.toml"]
    done = CliRunner().invoke(app, command, input="yyy", catch_exceptions=False)
    assert [word in done.stdout for word in ("zero", "one", "two", "again", "NO PASSAGES")] == [
        *[True] * 3,
        False,
        True,
    ]


@pytest.mark.slow
def test_events_of_traces_are_assembled() -> None:
    trace = ROOT / "tests/streams/traces/otlp/langchain-openinference/rag.otlp.pb"
    scored = CliRunner().invoke(app, ["score", str(trace), "--out", "scored.jsonl"], catch_exceptions=False)
    assert scored.exit_code == 0
    row = json.loads(Path("scored.jsonl").read_bytes().splitlines()[0])
    write_queue(1)
    queue = (
        Path("queue.jsonl").read_bytes().replace(b'"event_id":"e0"', orjson.dumps({"event_id": row["event_id"]})[1:-1])
    )
    Path("queue.jsonl").write_bytes(queue)
    screen = rate("y", "--events", str(trace))[1]
    assert lines() == [(row["event_id"], True)]
    assert "THE PASSAGES\n1" in screen


@pytest.mark.slow
def test_two_people_and_a_third() -> None:
    prepare(3)
    write_queue(3, raters=2)
    rate("yyy")
    assert rate("yny", "--rater", "Bob")[2].startswith("all 3 answered")
    assert rate("", "--rater", "Cy")[2].startswith("there is no answer that is asked of this rater\n")
    screen, error = rate("n", "--rater", "Cy", "--disagreed")[1:]
    assert ("1 of 1" in screen, error.partition("\n")[0]) == (True, "all 1 answered")
    assert lines()[6:] == [("e1", False)]
    assert rate("", "--rater", "Di", "--disagreed")[2].startswith("there is no answer on which two raters disagree\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the name of the rater is empty"),
        ("A\x1b[2J", "the name of the rater has control characters"),
        ("x" * 201, "the name of the rater has 201 characters"),
    ],
)
def test_a_name_that_cannot_be_used(name: str, message: str) -> None:
    prepare(1)
    done = CliRunner().invoke(app, [*RATE, "--rater", name], input="y")
    assert (done.exit_code, Path("labels.jsonl").exists()) == (2, False)
    with pytest.raises(Exception, match=message) as raised:
        rate("y", "--rater", name)
    assert "\x1b" not in str(raised.value)


def test_the_default_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(1)
    monkeypatch.delenv("RAGWEIR_LABELS__KEY")
    assert rate("y")[2].startswith("labels.key is the default")


@pytest.mark.slow
def test_wrong_files_leave_no_labels() -> None:
    prepare(2, event(7))
    with pytest.raises(PermanentError, match=r"events\.jsonl has none of the 2 events of the queue"):
        rate("y")
    assert not Path("labels.jsonl").exists()
    prepare(2)
    Path("events.jsonl").write_bytes(b"\x1f\x8b" + bytes(99))
    with pytest.raises(PermanentError, match="without the rest of its events nothing is done"):
        rate("y")
    assert not Path("labels.jsonl").exists()
    write_queue(2, "unknown")
    with pytest.raises(ConfigurationError, match="there is no question unknown"):
        rate("y")
    write_queue(0)
    assert rate("y")[::2] == (0, "there is no answer that is asked of this rater\n")
    assert not Path("labels.jsonl").exists()


@pytest.mark.slow
def test_the_file_of_labels_is_no_other_file() -> None:
    """Not even the end of a file without a last line end is changed."""
    prepare(2)
    text = Path("events.jsonl").read_bytes().rstrip()
    Path("events.jsonl").write_bytes(text)
    for name in ("events.jsonl", "queue.jsonl"):
        with pytest.raises(Exception, match="is named twice"):
            rate("y", "--out", name)
    assert Path("events.jsonl").read_bytes() == text


# On a terminal.


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal of 24 lines and 80 columns: ours, and that of the command."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (24, 80))
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def begun(theirs: int) -> subprocess.Popen[bytes]:
    """Begin the command on a terminal, which Ctrl-C interrupts."""
    line = [sys.executable, "-c", ON_TERMINAL, *RATE]
    own = {name: text for name, text in environment(TERM="xterm").items() if name != "COLUMNS"}
    return subprocess.Popen(line, stdin=theirs, stdout=theirs, stderr=theirs, env=own, start_new_session=True)


@pytest.mark.slow
def test_a_person_answers_on_a_terminal(terminal: tuple[int, int]) -> None:
    """Pages, undo, Ctrl-C, going on, and undo of the last answer; any end leaves the terminal as before."""
    ours, theirs = terminal
    long = [{"text": "Within thirty days. " * 200}, {"text": "The last passage."}]
    prepare(3, event(0, contexts=long), event(1), event(2))
    before = termios.tcgetattr(theirs)
    person = RaterTerminal(ours)
    command = begun(theirs)
    screen = person.wait()
    assert "1 of 3" in screen
    assert "space more" in screen
    assert max(map(len, screen.splitlines())) <= 80
    assert len(screen.splitlines()) <= 24
    for _ in range(5):
        screen = person.answer(" ")
    assert "The last passage." in screen
    assert "space more" not in screen
    assert "space more" in person.answer("\x1b[A")
    assert "saved: yes" in person.answer("y")
    assert "taken back" in person.answer("u")
    assert "saved: no" in person.answer("n")
    # Keys that were pressed before an answer was shown do not answer it.
    assert "saved: yes" in person.answer("yyyy")
    assert "2 of 3" in person.answer("u")
    assert "saved: cannot tell" in person.answer("c")
    person.press("\x03")
    assert command.wait(60) == 130
    assert termios.tcgetattr(theirs) == before
    answered = [("e0", True), ("e0", "withdrawn"), ("e0", False)]
    answered += [("e1", True), ("e1", "withdrawn"), ("e1", "cannot_tell")]
    assert lines() == answered

    command = begun(theirs)
    assert "3 of 3" in person.wait(len(person.output))
    assert "all 3 answered" in person.answer("y")
    assert "taken back" in person.answer("u")
    person.answer("c")
    before_resize = len(person.output)
    termios.tcsetwinsize(ours, (30, 100))
    assert "saved: cannot tell" in person.wait(before_resize)
    command.send_signal(signal.SIGHUP)
    assert command.wait(60) == 130
    assert termios.tcgetattr(theirs) == before
    assert lines()[6:] == [("e2", True), ("e2", "withdrawn"), ("e2", "cannot_tell")]


@pytest.mark.slow
def test_kills_lose_no_label_and_double_none(folder: Path) -> None:
    """A person answers 50 times; the command is killed at any moment, and goes on with what the screens said."""
    prepare(50)
    program = [sys.executable, str(ROOT / "tests/raters.py"), "12", "7", *RATE]
    own = environment(TERM="xterm", RAGWEIR_LABELS__KEY="secret")
    done = subprocess.run(program, stdout=subprocess.PIPE, check=True, cwd=folder, env=own, timeout=120)
    names = {"yes": True, "no": False, "cannot tell": "cannot_tell"}
    seen = [(event_id, names.get(said, said)) for event_id, said in map(json.loads, done.stdout.splitlines())]
    found = lines()
    # Whatever a screen called saved is in the file, in the order of the screens; a label may be there that no screen
    # showed any more.
    rest = iter(found)
    assert all(each in rest for each in seen)
    assert len(found) - len(seen) <= 12
    by_event: dict[str, list[bool | str]] = {}
    for event_id, value in found:
        by_event.setdefault(event_id, []).append(value)
    assert by_event.keys() == {f"e{number}" for number in range(50)}
    for values in by_event.values():  # One label holds; before it each was taken back.
        assert [value == "withdrawn" for value in values] == [bool(place % 2) for place in range(len(values))]
        assert len(values) % 2
    assert Path("labels.jsonl").read_bytes().count(b'"threshold"') == 1


@pytest.mark.slow
def test_the_end_of_a_label_that_a_kill_cut_off_is_removed() -> None:
    prepare(3)
    rate("yn")
    whole = Path("labels.jsonl").read_bytes()
    Path("labels.jsonl").write_bytes(whole[:-40])
    assert "2 of 3" in rate("")[1]
    assert rate("ny")[2].startswith("all 3 answered")
    assert lines() == [("e0", True), ("e1", False), ("e2", True)]


@pytest.mark.slow
def test_ctrl_c_while_events_are_read(folder: Path) -> None:
    """Nothing is asked or written, and the message says so."""
    prepare(2)
    os.mkfifo("pipe")
    command = [sys.executable, "-m", "ragweir.streams.commands", *RATE, "--events", "pipe"]
    with Path("said").open("wb") as said:
        running = subprocess.Popen(command, stderr=said, env=environment(), cwd=folder)
    with Path("pipe").open("wb") as pipe:  # It opens once the command reads it.
        pipe.write(orjson.dumps(event(0)) + b"\n")
        pipe.flush()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130
    assert Path("said").read_text() == "stopped before pipe was read to its end; nothing is written\n"
    assert not Path("labels.jsonl").exists()


@pytest.mark.slow
def test_one_process_adds_labels_at_a_time() -> None:
    prepare(1)
    rate("")
    with LabelFile(Path("labels.jsonl")), pytest.raises(PermanentError, match="is in use"):
        rate("y")
