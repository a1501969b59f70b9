"""The command line: help that teaches, errors in one sentence with their exit status, and files of every quality."""

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from commands import COMMAND, ROOT, begun, environment, program, ragweir, told
from conftest import SharedBroker, create_topic, read_to_end
from poison import GOOD, MARK, POISON, event

from ragweir.metrics.catalogue import everything
from ragweir.schemas.topics import MAX_EVENT_BYTES, TOPICS, max_record_bytes
from ragweir.streams import commands as cli
from ragweir.streams.commands import app
from ragweir.streams.commands.command_table import COMMANDS
from ragweir.streams.services.export.service import PROJECTIONS


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.heavy
@pytest.mark.parametrize("words", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_help_teaches(words: tuple[str, ...]) -> None:
    """Every command says what it does and what each of its options and arguments means."""
    command: Any = typer.main.get_command(app)
    for word in words:
        command = command.commands[word]
    assert command.help
    assert len(command.help) > 20
    for parameter in command.params:
        assert parameter.name == "help" or len(parameter.help or "") > 10, f"{parameter.name} is not explained"


def test_every_command_is_listed_as_its_module_has_it() -> None:
    """The table that the help shows has all commands, with the first paragraph of the help of each that is shown."""
    for module in pkgutil.iter_modules(cli.__path__, "ragweir.streams.commands."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    built: Any = typer.main.get_command(app)
    assert built.commands._built.keys() == COMMANDS.keys() >= PROJECTIONS.keys()
    for name, listed in COMMANDS.items():
        command = built.commands[name]
        first = " ".join(inspect.cleandoc(command.help).partition("\n\n")[0].split())
        assert listed.summary == ("" if command.hidden else first)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "import ragweir"),
        ("-m", "ragweir.streams.commands", "--help"),
        ("-m", "ragweir.streams.commands", "--version"),
    ],
    ids=" ".join,
)
def test_nothing_heavy_is_imported_for_the_help(arguments: tuple[str, ...]) -> None:
    """Neither the help nor the version nor the package itself imports a package that takes long."""
    imported = imported_by(*arguments)
    assert "ragweir" in imported
    assert imported.isdisjoint({"numpy", "pydantic", "confluent_kafka", "structlog", "aiohttp", "duckdb"})


def test_a_service_imports_nothing_that_only_the_console_needs() -> None:
    """A worker starts without numpy and without the web server of the console."""
    imported = imported_by("-c", "import ragweir.streams.commands.services")
    assert "pydantic" in imported
    assert imported.isdisjoint({"numpy", "starlette", "uvicorn", "aiohttp", "duckdb"})


def test_a_service_reads_no_source_to_start() -> None:
    """The descriptions of a judge's answers took a tenth of each worker's start, and are read once a judge is asked."""
    code = "import ragweir.streams.commands.services, linecache; print(*linecache.cache, sep='\\n')"
    read = program(sys.executable, "-c", code).stdout.splitlines()
    assert [name for name in read if not name.startswith("<")] == []


def imported_by(*arguments: str) -> set[str]:
    """Return the packages that Python imports with these arguments."""
    line = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(line, capture_output=True, check=True, cwd=ROOT, env=environment())
    return {each.rpartition(b"|")[2].strip().partition(b".")[0].decode() for each in done.stderr.splitlines()}


def test_help_is_shown() -> None:
    """`--help` shows it, for ragweir and for a command, and so does ragweir alone; parts of commands are hidden."""
    shown = ragweir("--help")
    assert shown.returncode == 0
    assert b"Usage: ragweir" in shown.stdout
    for words in commands(typer.main.get_command(app)):
        is_shown = re.search(rf"\W{words[0]}\W", shown.stdout.decode()) is not None
        assert is_shown == (words not in {("key",), ("join",), ("match",), ("tally",), ("planner",)}), words
    assert b"--map" in ragweir("score", "--help").stdout
    assert ragweir().stdout.strip() == shown.stdout.strip()


USAGE = (
    (("scoer",), "No such command 'scoer'. Did you mean 'score'?"),
    (("score",), "Missing argument 'file'"),
    (("score", "--bogus", "x"), "No such option: --bogus"),
    (("score", "nowhere.jsonl"), "nowhere.jsonl cannot be opened: No such file or directory"),
    (("score", "."), "the folder . has no data files (.jsonl, .ndjson, .json, .csv, .tsv, .parquet"),
    (("score", "-", "--default-time", "soon"), "--default-time 'soon' is no time such as"),
    (("score", "-", "--out", "no/such/folder"), "no/such/folder cannot be opened: No such file or directory"),
    (("score", "-", "--map", "nowhere.toml"), "there is no map nowhere.toml"),
    (("score", "-", "--map", "wrong.toml"), "the map wrong.toml is wrong: the map must name event_id"),
    (("publish", "nowhere.jsonl"), "nowhere.jsonl"),
    (("metrics", "contxt_support"), "there is no metric 'contxt_support'; the nearest is context_support"),
    (("evaluate", "--workers", "0"), "--workers"),
    (("--config", "nowhere.toml", "topics", "show"), "there is no settings file nowhere.toml"),
    (("--prefix", "a/b", "topics", "show"), "setting topics.prefix"),
)


@pytest.mark.heavy
@pytest.mark.parametrize(("words", "sentence"), USAGE, ids=[" ".join(words) for words, _ in USAGE])
def test_wrong_usage_is_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    """What is wrong on the command line is told in one line, with status 2."""
    (tmp_path / "wrong.toml").write_text('query = "q"')
    done = ragweir(*words, folder=tmp_path)
    assert sentence in told(done)
    assert done.returncode == 2
    assert done.stdout == b""


@pytest.mark.parametrize("words", [("topics", "show"), ("publish", "one.jsonl")], ids=" ".join)
def test_no_broker_is_one_sentence(words: tuple[str, ...], tmp_path: Path) -> None:
    """A broker that does not answer is told in one line that says what to look at, with status 1."""
    (tmp_path / "one.jsonl").write_bytes(event())
    done = ragweir("--bootstrap-servers", "127.0.0.1:1", *words, folder=tmp_path)
    assert told(done).startswith("ragweir: no broker answers")
    assert "kafka.bootstrap_servers" in told(done)
    assert done.returncode == 1


def test_a_traceback_is_for_those_who_ask() -> None:
    """With --debug, and only then, an error comes with its traceback."""
    assert b"Traceback" in ragweir("--debug", "--config", "nowhere.toml", "topics", "show").stderr


def test_score_names_bad_lines_and_scores_the_rest(tmp_path: Path) -> None:
    """The first bad lines of a file are named, all are counted by reason, and every good line is scored."""
    bad = [poison.value for poison in POISON if poison.value and b"\n" not in poison.value and poison.value.strip()]
    lines = [line for at, poison in enumerate(bad) for line in (event(event_id=f"{at}"), poison, b"", b"  ")]
    file = tmp_path / "mixed.jsonl"
    file.write_bytes(b"\r\n".join(lines))
    done = ragweir("score", file)
    assert done.returncode == 0
    scored = [orjson.loads(line) for line in done.stdout.splitlines()]
    assert [each["event_id"] for each in scored] == [f"{at}" for at in range(len(bad))]
    assert [each["source"]["offset"] for each in scored] == [4 * at + 1 for at in range(len(bad))]
    *named, summary = done.stderr.decode().splitlines()
    assert [line.partition(":")[0] for line in named[:3]] == [f"line {4 * at + 2}" for at in range(3)]
    assert named[3] == f"{len(bad)} rejected, by reason:"
    reasons = [line for line in named[4:] if re.match(r" +\d+  ", line)]
    assert sum(int(line.split()[0]) for line in reasons) == len(bad)
    assert len(reasons) == 11
    assert reasons[-1].endswith("for other reasons")
    assert all(re.search(r" \(first: line \d+\)$", line) for line in reasons[:-1])
    assert summary == f"{len(bad)} scored, {len(bad)} rejected"
    assert MARK not in "".join(reasons)


def test_score_tells_what_was_repaired(tmp_path: Path) -> None:
    """The line at the end counts the scored events by what was repaired in reading them."""
    odd = [event(event_id=str(number), spans=[{"kind": "AGENT"}] * 2, contexts="text" * number) for number in range(2)]
    (tmp_path / "file.jsonl").write_bytes(b"\n".join([*odd, event()]))
    done = ragweir("score", tmp_path / "file.jsonl")
    assert done.stderr.decode().splitlines()[-1] == "3 scored; repaired: contexts_as_text 2, unknown_span_kind 2"
    assert [orjson.loads(line)["flags"][:2] for line in done.stdout.splitlines()][1:] == [
        ["contexts_as_text", "unknown_span_kind"],
        [],
    ]


def test_score_of_nothing_fails(tmp_path: Path) -> None:
    """A file without a line that can be scored ends with status 1, and still without a traceback."""
    for content, summary in ((b"", "0 scored"), (b"\n \n", "0 scored"), (b"x\n", "0 scored, 1 rejected")):
        (tmp_path / "file.jsonl").write_bytes(content)
        done = ragweir("score", tmp_path / "file.jsonl")
        assert done.returncode == 1
        assert done.stdout == b""
        assert done.stderr.decode().splitlines()[-1] == summary


def test_score_reads_standard_input_and_writes_a_file(tmp_path: Path) -> None:
    """`-` is standard input, --out a file; the bytes are those of the file read and the output printed."""
    lines = b"\n".join(event(event_id=f"e{number}") for number in range(5))
    (tmp_path / "-").write_bytes(lines)
    printed = ragweir("score", tmp_path / "-").stdout
    assert len(printed.splitlines()) == 5
    done = ragweir("score", "-", "--out", tmp_path / "out.jsonl", text=lines)
    assert (tmp_path / "out.jsonl").read_bytes() == printed
    assert done.stdout == b""


@pytest.mark.heavy
def test_score_of_a_line_without_end_keeps_memory_bounded(tmp_path: Path) -> None:
    """A line of 1.5 GB is rejected by its size in a process that may have only 1 GB of memory."""
    file = tmp_path / "huge.jsonl"
    with file.open("wb") as sparse:
        sparse.write(event() + b"\n")
        sparse.truncate(1_500_000_000)
        sparse.seek(0, os.SEEK_END)
        sparse.write(b"\n" + event(event_id="after"))
    limited = ["sh", "-c", 'ulimit -v 1000000; exec "$@"', "sh", *COMMAND, "score", str(file)]
    done = subprocess.run(limited, capture_output=True, check=False, cwd=ROOT, env=environment(), timeout=120)
    assert [orjson.loads(line)["event_id"] for line in done.stdout.splitlines()] == ["event-1", "after"]
    assert done.stderr.decode().splitlines() == [
        f"line 2: the event is over the limit of {MAX_EVENT_BYTES} bytes",
        "2 scored, 1 rejected",
    ]


def test_a_reader_that_has_enough_is_no_error(tmp_path: Path) -> None:
    """`ragweir score FILE | head -1` ends quietly."""
    file = tmp_path / "many.jsonl"
    file.write_bytes(b"\n".join(event(event_id=f"e{number}") for number in range(2_000)))
    scoring = begun("score", file)
    assert scoring.stdout is not None
    assert scoring.stderr is not None
    assert orjson.loads(scoring.stdout.readline())["event_id"] == "e0"
    scoring.stdout.close()
    assert scoring.stderr.read() == b""
    scoring.stderr.close()
    assert scoring.wait(60) in (0, 1)


def test_a_log_line_is_written_at_once() -> None:
    """A line goes out with its end in one write: workers share standard error, and lines must not mix."""
    script = """
import sys

class Writes:
    def __init__(self):
        self.texts = []
    def isatty(self):
        return False
    def write(self, text):
        self.texts.append(text)
    def flush(self):
        pass

real, sys.stderr = sys.stderr, Writes()
from ragweir.streams.runtime.processes import logs
import structlog
logs.configure()
structlog.get_logger().info("one", x="y")
structlog.get_logger().warning("two")
print([text.count("\\n") for text in sys.stderr.texts])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, cwd=ROOT, env=environment())
    assert done.stdout.decode().strip() == "[1, 1]"


@pytest.mark.heavy
def test_metrics_shows_them_all_and_each_in_full() -> None:
    """The catalogue's table names every metric; one by its name is shown with its whole text."""
    table = ragweir("metrics", COLUMNS="400").stdout.decode()
    for metric in everything():
        assert metric.name in table
    metric = everything()[0]
    shown = ragweir("metrics", metric.name, COLUMNS="400").stdout.decode()
    for line in metric.text.splitlines():
        assert line.strip() in shown


@pytest.mark.heavy
def test_topics_are_created_once_and_never_shrunk_to(kafka: SharedBroker, prefix: str) -> None:
    """`topics create` makes what is missing, leaves what is there, and rejects partitions that would move keys."""
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "topics")
    missing = ragweir(*shared, "show")
    assert missing.returncode == 0
    assert missing.stdout.count(b"missing") == len(TOPICS)
    first = ragweir(*shared, "create", RAGWEIR_TOPICS__PARTITIONS="3")
    assert first.returncode == 0
    assert first.stdout.count(b": created") == len(TOPICS)
    again = ragweir(*shared, "create", RAGWEIR_TOPICS__PARTITIONS="3")
    assert again.returncode == 0
    assert again.stdout.count(b": is there") == len(TOPICS)
    more = ragweir(*shared, "create", RAGWEIR_TOPICS__PARTITIONS="5")
    assert more.returncode == 1
    assert "has 3 partitions and topics.partitions is 5" in told(more)
    assert "`ragweir topics grow --partitions 5`" in told(more)
    fewer = ragweir(*shared, "create", RAGWEIR_TOPICS__PARTITIONS="2")
    assert fewer.returncode == 0, "more than were asked for is no harm"
    assert b"missing" not in ragweir(*shared, "show").stdout


def test_publish_sends_good_lines_and_names_bad_ones(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Good lines are sent as they stand under their event's id, bad ones are named, and the status says so."""
    topic = create_topic(kafka.bootstrap, f"{prefix}interactions", 3, {"max.message.bytes": str(max_record_bytes())})
    spaced = b'{ "event_id": 7,  "query": "q", "response": "r", "unknown": [1.0] }'
    lines = [
        event(),
        b"not json",
        b"",
        spaced,
        orjson.dumps(GOOD | {"query": [MARK]}),
        event(event_id="last"),
    ]
    file = tmp_path / "file.jsonl"
    file.write_bytes(b"\n".join(lines))
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "publish", file)
    assert done.returncode == 1
    told_lines = done.stderr.decode().splitlines()
    assert [line.partition(":")[0] for line in told_lines if line.startswith("line ")] == ["line 2", "line 5"]
    assert told_lines[-1] == f"3 published to {topic}, 2 rejected"
    assert MARK not in done.stderr.decode()
    sent = {message.key(): message.value() for message in read_to_end(kafka.bootstrap, topic)}
    assert sent == {b"event-1": lines[0], b"7": spaced, b"last": lines[5]}


def test_publish_without_our_topic_says_how_to_make_it(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """A topic that does not exist is told with the command that makes it, and is not made by publishing."""
    (tmp_path / "one.jsonl").write_bytes(event())
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "publish", tmp_path / "one.jsonl")
    assert done.returncode == 1
    assert "`ragweir topics create` makes it" in told(done)
