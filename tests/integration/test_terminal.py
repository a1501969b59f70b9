"""Text from outside, printed: a terminal obeys none of it, it forges no line, and rich takes none of it for markup."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
import structlog
from commands import ragweir
from conftest import SharedBroker, create_topic, produce
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import CATALOGUE_VERSION, Catalogue, everything
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.run import ReplayRequest, Run
from ragweir.streams.analysis.checks import judge as checks
from ragweir.streams.analysis.checks.context import CheckContext
from ragweir.streams.analysis.replay.runs import prefix_of, store_run
from ragweir.streams.commands.screens.evaluation_summary import EvaluationSummary
from ragweir.streams.runtime.processes import logs
from ragweir.streams.runtime.text.terminal import Terminal, printable, printable_json
from ragweir.streams.services.judge.probe import ProbeResult
from ragweir.streams.services.judge.protocol import ResponseFormat
from ragweir.streams.settings import JudgeSettings, Settings

FORGED = "\nragweir: all is well"
LITERAL = "[b]x[/b] [/x] :bomb:"
HOSTILE = {
    "an escape sequence": "\x1b[2J\x1b]0;owned\x07",
    "one of C1": "\x9b2J\x9d0;owned\x9c",
    "a link": "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07",
    "characters that move back": "a\rb\x08\x7f",
    "a forged line": FORGED,
    "other line ends": "\x0b\x0c\x85\u2028\u2029",
    "another direction": "\u202egnp.exe\u2066",
    "markup": LITERAL,
}
ALL = "".join(HOSTILE.values())


def must_be_harmless(printed: str) -> None:
    """Nothing but printable characters and our own line ends; no line that looks like one of ours."""
    assert [character for character in printed if not character.isprintable() and character != "\n"] == []
    assert not [line for line in printed.splitlines() if line.startswith(FORGED.strip())]


# The console.


def drawn(*things: Any, **options: Any) -> str:
    """What a terminal with colours gets, without the colours."""
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=True, width=200, _environ={"TERM": "xterm"}, **options)
    for thing in things:
        console.print(thing)
    return re.sub(r"\x1b\[[\d;]*m", "", file.getvalue())


def table(text: str) -> Table:
    made = Table(text, title=text, caption=text)
    made.add_row(text)
    made.add_row(Text(text, "bold"))
    return made


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "thing", [str, Text, lambda text: Text(text, "bold red"), table], ids=["str", "Text", "b", "t"]
)
def test_the_console_prints_nothing_that_a_terminal_obeys(thing: Callable[[str], Any], text: str) -> None:
    """Wherever it stands; lines may be forged by what is printed as it is, so that callers take `printable`."""
    printed = drawn(thing(text))
    assert [character for character in printed if not character.isprintable() and character != "\n"] == []
    if text == LITERAL:
        assert LITERAL in printed


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_bar_shows_texts_as_they_are(text: str) -> None:
    """With rich's own sequences around them: what is redrawn keeps its cursor movements."""
    file = io.StringIO()
    console = Terminal(file=file, force_terminal=True, width=200, _environ={"TERM": "xterm"})
    with Progress(TextColumn("{task.description}", markup=False), console=console) as bar:
        bar.add_task(text)
    printed = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", file.getvalue())
    assert [character for character in printed if not character.isprintable() and character not in "\r\n"] == []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_json_for_a_terminal_is_the_same_json(text: str) -> None:
    data = orjson.dumps({text: [text, "ü 漢 😀 \U000e0041"]}, option=orjson.OPT_INDENT_2)
    shown = printable_json(data)
    assert orjson.loads(shown) == orjson.loads(data)
    must_be_harmless(shown.decode())
    assert "ü 漢 😀" in shown.decode()


def test_a_log_on_a_terminal_obeys_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The renderer for people writes texts as they are."""
    file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True)
    monkeypatch.setattr("sys.stderr", file)
    logs.configure()
    structlog.get_logger().warning(ALL, topic=ALL, others=[ALL], why=ALL)
    printed = re.sub(r"\x1b\[[\d;]*m", "", file.getvalue())
    assert [character for character in printed if not character.isprintable() and character != "\n"] == []


# The commands.


def evaluation(number: int, risk: float) -> dict[str, Any]:
    return {
        "event_id": f"{number}{ALL}",
        "event_time": f"2026-11-21T10:{number % 60:02}:00Z",
        "application": ALL,
        "labels": {"region": ALL},
        "model": ALL,
        "stage": "scored",
        "scores": {"unsupported_risk": risk, ALL: risk},
        "reasons": {"rouge_l": ALL},
        "catalogue_version": ALL,
        "explanations": {"unsupported_risk": ALL},
        "evidence": {"unsupported_risk": [ALL]},
        "flags": [ALL],
        "document_ids": [ALL],
    }


def lines(file: Path, *records: Any) -> Path:
    file.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
    return file


def printed_by(*words: str | Path, status: int = 0, **variables: str) -> str:
    """All that a command printed, and that it ended as it should."""
    done = ragweir(*words, **variables)
    printed = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == status, printed
    return printed


def test_score_and_its_refusals(tmp_path: Path) -> None:
    event = {"event_id": ALL, "query": ALL, "response": ALL, "application": ALL, "labels": {ALL: ALL}}
    wrong = [
        {**event, "started_at": ALL},
        {**event, "feedback": {ALL: ALL, "score": ALL}},
        {**event, "query": {ALL: 1}},
    ]
    file = lines(tmp_path / "events", {**event, "started_at": 1_795_255_200_000}, *wrong)
    must_be_harmless(printed_by("score", file, "--out", tmp_path / "out"))


def test_explain(tmp_path: Path) -> None:
    file = lines(tmp_path / "evaluations", evaluation(1, 0.5))
    printed = printed_by("explain", f"1{ALL}", "--file", file)
    must_be_harmless(printed)
    assert LITERAL in printed
    told = printed_by("explain", f"1{ALL}", "--file", file, "--json")
    must_be_harmless(told)
    assert orjson.loads(told)["evaluation"]["application"] == ALL


def test_compare(tmp_path: Path) -> None:
    a, b = (
        lines(tmp_path / name, *(evaluation(number, level + number / 1_000) for number in range(60)))
        for name, level in (("a", 0.2), ("b", 0.7))
    )
    printed = printed_by(
        "compare", a, b, "--by", "application", "--by", "labels.region", "--fail-on", f"{LITERAL} 1", status=2
    )
    must_be_harmless(printed)
    printed = printed_by("compare", a, b, "--by", "application", "--by", "labels.region")
    must_be_harmless(printed)
    assert "Most changed events" in printed


def test_rehearse(tmp_path: Path) -> None:
    file = lines(tmp_path / "evaluations", *(evaluation(number, number % 2) for number in range(300)))
    slo = "grounded: unsupported_risk <= 0.3 for 99%"
    printed = printed_by("slo", "rehearse", file, "--slo", slo, "--by", "application")
    must_be_harmless(printed)
    assert "Such as" in printed


def test_the_judges_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint gives itself any name."""
    monkeypatch.setattr(checks, "probe", lambda _: ProbeResult(ResponseFormat(), 0, ALL))
    judge = JudgeSettings(base_url="http://127.0.0.1:9/v1", daily_budget_usd=None)
    must_be_harmless(checks.judge(CheckContext(Settings(judge=judge))))
    summary = EvaluationSummary(Aggregator(Catalogue(everything())), judging=True)
    usage = {"model": ALL, "prompt_version": "1", "input_tokens": 1, "output_tokens": 1, "cost_usd": 0, "cached": False}
    summary.add(Evaluation.model_validate({**evaluation(1, 0.5), "stage": "judged", "judge": usage}))
    must_be_harmless(summary.line())
    must_be_harmless(drawn(summary.table()))


@pytest.mark.heavy
def test_publish_and_tap(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    create_topic(kafka.bootstrap, f"{prefix}interactions")
    event = {"event_id": ALL, "query": ALL, "response": ALL, "application": ALL, "started_at": 1_795_255_200_000}
    file = lines(tmp_path / "events", event, {**event, "query": {ALL: 1}}, {**event, "started_at": ALL}, {ALL: ALL})
    must_be_harmless(printed_by(*shared, "publish", file, status=1))
    topic = create_topic(kafka.bootstrap, f"{prefix}foreign")
    foreign = {"id": ALL, ALL: {"question": ALL, "when": 1}, "answer": ALL}
    produce(kafka.bootstrap, topic, [orjson.dumps(foreign)] * 3)
    must_be_harmless(printed_by(*shared, "tap", topic))
    strange = create_topic(kafka.bootstrap, f"{prefix}strange")
    produce(kafka.bootstrap, strange, [orjson.dumps({ALL: {ALL: 1, "x": [{ALL: ALL}]}})] * 3)
    printed = printed_by(*shared, "tap", strange, status=1)
    must_be_harmless(printed)
    assert "that a map can use" in printed
    produce(kafka.bootstrap, f"{prefix}interactions", [orjson.dumps({**event, "query": {ALL: 1}})])
    must_be_harmless(printed_by(*shared, "tap", f"{prefix}interactions"))


def test_runs(kafka: SharedBroker, prefix: str) -> None:
    """A record of a run lies in a topic that others may write to. What secrets it kept are masked."""
    settings = Settings(kafka={"bootstrap_servers": kafka.bootstrap}, topics={"prefix": prefix})
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    create_topic(kafka.bootstrap, prefix_of(settings, "r") + "run")
    kept = {"routing": {"key": "hunter2"}, "judge": {"base_url": "https://me:hunter2@proxy.example/v1", "model": ALL}}
    run = Run(
        run_id="r",
        began_at=datetime(2026, 11, 21, tzinfo=UTC),
        phase="complete",
        asked=ReplayRequest(topic=ALL, since=ALL, only=(ALL,)),
        topic=ALL,
        partitions=1,
        catalogue_version=CATALOGUE_VERSION,
        fingerprint=ALL,
        settings=kept,
    )
    store_run(settings, run)
    printed = printed_by(*shared, "runs", "list")
    must_be_harmless(printed)
    shown = printed_by(*shared, "runs", "show", "r")
    must_be_harmless(shown)
    assert "hunter2" not in shown
    assert orjson.loads(shown)["settings"]["judge"]["base_url"] == "https://********@proxy.example/v1"
    # With another model; what was asked for before is told, too.
    must_be_harmless(printed_by(*shared, "replay", "--run-id", "r", "--only", "tenant=a", status=1))


def test_errors() -> None:
    """What a command line has got wrong is told as it stands there."""
    for words in (("score", ALL), ("metrics", ALL), ("compare", ALL, ALL), ("score", "-", "--map", ALL)):
        done = ragweir(*words)
        assert done.returncode
        must_be_harmless(re.sub("^ragweir: ", "", done.stderr.decode()))


@dataclass
class Cut:
    text: str
    most: int | None
    shown: str


@pytest.mark.parametrize(
    "cut", [Cut("\x1b" * 3, 2, "\ufffd…"), Cut("ab", 2, "ab"), Cut("a\nb", None, "a\ufffdb"), Cut("", 1, "")], ids=repr
)
def test_what_is_printable_is_one_line_and_no_longer_than_it_may_be(cut: Cut) -> None:
    assert printable(cut.text, cut.most) == cut.shown
