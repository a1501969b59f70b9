"""Odd arguments and odd files: one sentence that says what to do, status 2 for usage and 1 for failure."""

import lzma
import os
import pty
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from commands import COMMAND, ROOT, begun, environment, ragweir, told
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic
from poison import event

from ragweir.schemas.run import ReplayRequest, Run
from ragweir.streams.analysis.replay.runs import store_run
from ragweir.streams.settings import KafkaSettings, Settings, TopicSettings

PACK = """
question = "Q7"
form = "facts"
facts = [{ name = "has_deductible", any = ["deductible of 250"], unless = ["no deductible"] }]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind but the right one, and a good one."""
    made = tmp_path_factory.mktemp("odd")
    lines = b"".join(event(event_id=f"e{number}") + b"\n" for number in range(200))
    (made / "good.jsonl").write_bytes(lines)
    (made / "one.xz").write_bytes(lzma.compress(lines))
    (made / "half.json").write_bytes(b"[\n" + event()[:-20])
    (made / "none.csv").write_text("1,2\n3,4\n")
    (made / "broken.toml").write_text("x =")
    (made / "deep.toml").write_text("x = " + "[" * 5_000)
    (made / "latin.toml").write_bytes(b"x = '\xff'")
    (made / "folder").mkdir()
    return made


USAGE = (
    ("--config broken.toml metrics", "the settings file broken.toml is not TOML: Invalid value"),
    ("--config deep.toml metrics", "the settings file deep.toml is not TOML"),
    ("--config latin.toml metrics", "the settings file latin.toml is not TOML: 'utf-8' codec"),
    ("--config folder metrics", "there is no settings file folder"),
    ("slo rules", "there is no SLO in the settings; one looks like"),
    ("score good.jsonl --map broken.toml", "the map broken.toml is wrong: not TOML: Invalid value"),
    ("score good.jsonl --map deep.toml", "the map deep.toml is wrong: it is nested too deeply"),
    ("score good.jsonl --map latin.toml", "the map latin.toml is not UTF-8"),
    ("score good.jsonl --map folder", "the map folder cannot be read: Is a directory"),
    ("score good.jsonl --out good.jsonl", "good.jsonl is named twice"),
    ("score good.jsonl --windows ./folder/../good.jsonl", "good.jsonl is named twice"),
    ("score good.jsonl --out x --windows x", "x is named twice"),
    ("score good.jsonl --windows folder", "folder cannot be opened: Is a directory"),
    ("score folder", "the folder folder has no data files"),
    ("score half.json --windows x --default-time 99999999999999999999999", "is no time such as"),
    ("publish folder", "is a directory"),
    ("compare good.jsonl nowhere.jsonl", "nowhere.jsonl is neither a file, nor `live`, nor the id of a run"),
    ("explain e1 --file nowhere", "'nowhere' does not exist"),
    ("runs delete x", "--yes is required where standard input is no terminal"),
    ("slo rehearse good.jsonl --slo x", "--slo 'x' is no SLO; one looks like"),
    ("evaluate --slot -1", "--slot"),
    ("simulate-judge --port 99999", "--port"),
)
FAILURE = (
    ("score one.xz", "one.xz is compressed (xz); decompress it first"),
    ("score half.json", "half.json ends within element 1, after 0 whole ones: it was cut off"),
    ("score none.csv", "none.csv has no header: its first row must name the columns, and cell 1 of it is no name"),
    ("explain e1 --file one.xz", "one.xz is compressed (xz)"),
    ("slo rehearse one.xz --slo x:response_words>=1for95%", "one.xz is compressed (xz)"),
    ("score good.jsonl --out /dev/full", "reading good.jsonl or writing /dev/full failed: No space left on device"),
    (f"compare {'x' * 300} good.jsonl", f"{'x' * 300} cannot be used: File name too long"),
    ("score /proc/self/mem", "reading /proc/self/mem or writing standard output failed: Input/output error"),
)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("line", "sentence", "status"),
    [(*row, status) for status, rows in ((2, USAGE), (1, FAILURE)) for row in rows],
    ids=[line[:60] for line, _ in (*USAGE, *FAILURE)],
)
def test_what_is_odd_is_told_in_one_sentence(line: str, sentence: str, status: int, folder: Path) -> None:
    """Nothing of Python, nothing on standard output, one line that says what is wrong."""
    done = ragweir(*(word.replace("for", " for ") if "%" in word else word for word in line.split()), folder=folder)
    assert sentence in told(done)
    assert done.returncode == status
    assert done.stdout == b""


def test_a_file_that_was_rejected_leaves_its_output_alone(folder: Path) -> None:
    """`--out` on the input itself is rejected before anything is opened: all of the input is still there."""
    before = (folder / "good.jsonl").read_bytes()
    assert ragweir("score", "good.jsonl", "--out", "good.jsonl", folder=folder).returncode == 2
    assert (folder / "good.jsonl").read_bytes() == before


def test_a_replay_of_another_format_is_rejected_before_it_has_topics(
    kafka: SharedBroker, prefix: str, folder: Path
) -> None:
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    done = ragweir(*shared, "replay", "--run-id", "x", "good.jsonl", "one.xz", folder=folder)
    assert told(done) == "ragweir: one.xz is compressed (xz); decompress it first"
    assert done.returncode == 1
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    assert not [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]


@pytest.mark.heavy
@pytest.mark.parametrize(("closing", "name"), [("<&-", "input"), (">&-", "output")])
def test_a_closed_standard_stream_is_told(closing: str, name: str, folder: Path) -> None:
    file = "-" if name == "input" else "good.jsonl"
    shell = ["sh", "-c", f'exec "$@" {closing}', "sh", *COMMAND, "score", file]
    done = subprocess.run(shell, capture_output=True, check=False, cwd=folder, env=environment(), timeout=120)
    assert f"standard {name} is closed" in told(done)
    assert done.returncode == 2


_CAPABILITIES = "-dac_override,-dac_read_search"
SOMEBODY = ("setpriv", f"--inh-caps={_CAPABILITIES}", f"--bounding-set={_CAPABILITIES}") if os.geteuid() == 0 else ()
"""Root may read anything, unless it has no such capabilities. Another user may not even reach the interpreter."""
LOCKED = (
    ("score locked/good.jsonl", "locked/good.jsonl cannot be opened: Permission denied", 2),
    ("--config locked/ragweir.toml metrics", "locked/ragweir.toml cannot be used: Permission denied", 1),
    ("compare locked/good.jsonl closed.jsonl", "locked/good.jsonl cannot be used: Permission denied", 1),
    ("compare closed.jsonl closed.jsonl", "closed.jsonl cannot be read: Permission denied", 1),
    ("metrics", "the folder locked of question packs cannot be read: Permission denied", 2),
)


@pytest.mark.heavy
@pytest.mark.parametrize(("line", "sentence", "status"), LOCKED, ids=[line for line, *_ in LOCKED])
def test_what_may_not_be_read_is_told(line: str, sentence: str, status: int) -> None:
    """A file, and a folder that may not even be looked into."""
    with TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        locked, closed = Path(place, "locked"), Path(place, "closed.jsonl")
        locked.mkdir(mode=0o000)
        closed.touch(mode=0o000)
        packs = {"RAGWEIR_METRICS__PACKS": "locked"} if line == "metrics" else {}
        done = subprocess.run(
            [*SOMEBODY, *COMMAND, *line.split()],
            capture_output=True,
            check=False,
            cwd=place,
            env=environment(**packs),
            timeout=120,
        )
        locked.chmod(0o755)
    assert sentence in told(done)
    assert done.returncode == status


# Question packs.

BROKEN_PACKS = (
    ("x =", "is not TOML: Invalid value (at end of document)"),
    ("x = " + "[" * 5_000, "is nested too deeply"),
    (PACK.replace("has_deductible", "has deductible"), "facts[0].name: is not a name"),
    (PACK.replace("unless", '"a\\nb"'), "facts[0].'a\\nb': is not a field here"),
    (PACK.replace("Q7", "EF_2"), "question: EF_2.fact_score is defined already, by a pack that ships with ragweir"),
)


@pytest.mark.heavy
@pytest.mark.parametrize(("pack", "fault"), BROKEN_PACKS, ids=[fault[:30] for _, fault in BROKEN_PACKS])
def test_a_broken_pack_is_named_with_its_field(pack: str, fault: str, tmp_path: Path) -> None:
    """One sentence names the file and the field, and the status is that of wrong usage."""
    (tmp_path / "mine.toml").write_text(pack)
    done = ragweir("metrics", RAGWEIR_METRICS__PACKS=str(tmp_path))
    assert f"ragweir: question pack {tmp_path / 'mine.toml'}: {fault}" in told(done)
    assert done.returncode == 2


@pytest.mark.heavy
@pytest.mark.parametrize(
    "line", ["score good.jsonl", "metrics", "aggregate", "slo rules", "explain e1 --file good.jsonl"]
)
def test_every_command_tells_of_a_broken_pack(line: str, folder: Path, tmp_path: Path) -> None:
    """Whatever loads the packs, the sentence is the same."""
    (tmp_path / "mine.toml").write_text("x =")
    slo = '[{"name": "x", "metric": "response_words", "at_least": 1, "objective": 0.9}]'
    if line.startswith("explain"):
        scored = ragweir("score", "good.jsonl", "--out", tmp_path / "out.jsonl", folder=folder)
        assert scored.returncode == 0
        line = f"explain e1 --file {tmp_path / 'out.jsonl'}"
    done = ragweir(*line.split(), folder=folder, RAGWEIR_METRICS__PACKS=str(tmp_path), RAGWEIR_SLO=slo)
    assert (
        told(done)
        == f"ragweir: question pack {tmp_path / 'mine.toml'}: is not TOML: Invalid value (at end of document)"
    )
    assert done.returncode == 2


def test_a_folder_of_packs_that_is_none_is_told(folder: Path) -> None:
    done = ragweir("metrics", folder=folder, RAGWEIR_METRICS__PACKS="good.jsonl")
    assert told(done) == "ragweir: the folder good.jsonl of question packs cannot be read: Not a directory"
    assert done.returncode == 2


# The version and completion.


def test_the_version_is_shown() -> None:
    """`--version` needs no command, and reads no settings."""
    done = ragweir("--version", RAGWEIR_NONE__SUCH="1")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"ragweir {version('ragweir')}\n".encode(), b"")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ragweir sc", {"score"}),
        ("ragweir dead-letter re", {"redrive"}),
        ("ragweir score --wi", {"--windows"}),
        ("ragweir evaluate --runtime ", {"kafka", "faust"}),
    ],
)
def test_a_shell_completes(words: str, found: set[str]) -> None:
    """Commands, those of groups, options and choices are found, though a command's module is imported late."""
    place = str(len(words.split(" ")) - 1)
    done = ragweir(_RAGWEIR_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=place)
    assert set(done.stdout.decode().split()) == found
    assert done.stderr == b""


def test_completion_is_shown_for_bash() -> None:
    """The function that bash gets, run by bash with our command in the place of `ragweir`, completes."""
    script = ragweir(_RAGWEIR_COMPLETE="source_bash").stdout.decode()
    called = script.replace(
        "_RAGWEIR_COMPLETE=complete_bash $1", f"_RAGWEIR_COMPLETE=complete_bash {' '.join(COMMAND)}"
    )
    assert called != script
    check = f"{called}\nCOMP_WORDS=(ragweir expo); COMP_CWORD=1; _ragweir_completion ragweir; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(
        ["bash", "-c", check], capture_output=True, check=False, cwd=ROOT, env=environment(), timeout=120
    )
    assert done.stdout.decode().strip() == "export"
    assert b"--show-completion" in ragweir("--help").stdout


# What asks.


def _answer(command: list[str], text: bytes) -> tuple[int, bytes]:
    """Run a command on a terminal of its own, and answer it; gives its status, and what it said."""
    ours, theirs = pty.openpty()
    with begun(*command, stdin=theirs) as asking:
        os.close(theirs)
        os.write(ours, text)
        _, error = asking.communicate(timeout=120)
    os.close(ours)
    return asking.returncode, error


@pytest.mark.heavy
def test_on_a_terminal_a_run_is_deleted_when_the_answer_is_yes(kafka: SharedBroker, prefix: str) -> None:
    """No leaves everything and is status 1, the end of input is 130, and neither is an error with a name."""
    settings = Settings(kafka=KafkaSettings(bootstrap_servers=kafka.bootstrap), topics=TopicSettings(prefix=prefix))
    topic = create_topic(kafka.bootstrap, f"{prefix}run.mine.run")
    told_of = {"phase": "complete", "topic": "t", "partitions": 1, "catalogue_version": "1", "fingerprint": "f"}
    store_run(settings, Run(run_id="mine", began_at=datetime.now(UTC), asked=ReplayRequest(), settings={}, **told_of))
    command = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "runs", "delete", "mine"]
    for answer, status in ((b"n\n", 1), (b"\x04", 130), (b"y\n", 0)):
        code, said = _answer(command, answer)
        assert code == status, said
        assert f"Delete all topics {prefix}run.mine.*?".encode() in said
        assert b"unexpected" not in said
    assert f"deleted {topic}".encode() in said
