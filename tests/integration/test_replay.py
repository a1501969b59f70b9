"""`ragweir replay`: history once more, exactly once, the same whatever is killed, and nothing live is touched."""

import gzip
import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from backports import zstd
from commands import ROOT, begun, evaluating, ragweir, settled, told
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, produce, read_to_end, values
from services import QUICK_CLIENT, eventually

from ragweir.schemas.codec.json import encode
from ragweir.schemas.run import Archive, Loaded
from ragweir.streams.analysis.replay.archives import load_archives
from ragweir.streams.analysis.replay.runner import PhaseMonitor
from ragweir.streams.analysis.replay.runs import find_run, prefix_of, run_settings, store_run
from ragweir.streams.commands import progress
from ragweir.streams.commands.progress import Bars
from ragweir.streams.playground.simulated.server import simulated_judge
from ragweir.streams.runtime.loop.replay_limiter import ReplayLimiter
from ragweir.streams.runtime.records import Record, ReplayBounds
from ragweir.streams.settings import Settings

PARTITIONS = 3
BASE = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=30)
WORDS = "the roof wall of tiles and bricks is red old new 7 12 1999 covers not pays for water damage".split()


def interaction(chance: random.Random, number: int, hours: float = 24) -> dict[str, Any]:
    """An event within so many hours."""

    def text(words: int) -> str:
        return " ".join(chance.choices(WORDS, k=words)) + "."

    at = BASE + timedelta(hours=chance.uniform(0, hours))
    return {
        "event_id": f"e{number}",
        "application": chance.choice(("bot", "search")),
        "tenant": chance.choice(("acme", "beta", None)),
        "started_at": at.isoformat(),
        "ended_at": (at + timedelta(milliseconds=chance.randrange(5_000))).isoformat(),
        "query": text(6),
        "response": text(12),
        "contexts": [{"chunk_id": "c", "text": text(20)}],
    }


def history(count: int, seed: int, hours: float) -> list[bytes]:
    """Events, one in a hundred of them unreadable, one in fifty sent again soon after."""
    chance = random.Random(seed)
    values: list[bytes] = []
    for number in range(count):
        fate = chance.random()
        if fate < 0.01:
            values.append(b"not json")
        elif fate < 0.03 and values:
            values.append(values[-1 - chance.randrange(min(20, len(values)))])
        else:
            values.append(orjson.dumps(interaction(chance, number, hours)))
    return values


@dataclass(frozen=True)
class History:
    """Interactions in a topic of which each partition has its own part."""

    bootstrap: str
    prefix: str
    values: list[list[bytes]]

    @property
    def expected(self) -> tuple[set[str], int]:
        """By plain code: the ids that have to be evaluated, and how many records are unreadable."""
        ids, dead = set(), 0
        for value in (value for part in self.values for value in part):
            if value == b"not json":
                dead += 1
            else:
                ids.add(json.loads(value)["event_id"])
        return ids, dead

    def replay(self, *arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[bytes]:
        return ragweir(*self.shared, "replay", *arguments, **{**QUICK, **settings})

    @property
    def shared(self) -> list[str]:
        return ["--bootstrap-servers", self.bootstrap, "--prefix", self.prefix]

    def start(self, *arguments: str | Path, **settings: str) -> subprocess.Popen[bytes]:
        return begun(*self.shared, "replay", *arguments, **{**QUICK, **settings})

    def evaluations(self, run: str | None) -> list[dict[str, Any]]:
        prefix = self.prefix + (f"run.{run}." if run else "")
        return values(self.bootstrap, f"{prefix}evaluations")

    def canonical(self, run: str | None) -> list[bytes]:
        """The evaluations but for what says where they were made, by id."""
        made = self.evaluations(run)
        kept = [{name: value for name, value in each.items() if name not in ("source", "run_id")} for each in made]
        return [orjson.dumps(each) for each in sorted(kept, key=lambda each: str(each["event_id"]))]

    def count(self, run: str, name: str) -> int:
        return len(read_to_end(self.bootstrap, f"{self.prefix}run.{run}.{name}"))


QUICK = {"RAGWEIR_KAFKA__CLIENT": json.dumps(QUICK_CLIENT), "RAGWEIR_TOPICS__PARTITIONS": str(PARTITIONS)}


def made(bootstrap: str, prefix: str, count: int, hours: float = 24) -> History:
    values = [history(count // PARTITIONS, seed, hours) for seed in range(PARTITIONS)]
    # Ids of one partition are not those of another.
    values = [
        [value.replace(b'"event_id":"e', b'"event_id":"p%d-' % p) for value in part] for p, part in enumerate(values)
    ]
    create_topic(bootstrap, f"{prefix}interactions", PARTITIONS)
    for partition, part in enumerate(values):
        produce(bootstrap, f"{prefix}interactions", part, partition=partition)
    return History(bootstrap, prefix, values)


def workers_of(run: str) -> list[int]:
    """The processes that work for a run, but for the one that was started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"replay" in words and run.encode() in words and b"--slot" in words:
                found.append(int(entry.name))
    return found


def windows(file: Path) -> list[bytes]:
    """Windows but for what depends on arrival, in an order of their own."""
    made = [json.loads(line) for line in file.read_text().splitlines()]
    kept = [{name: value for name, value in each.items() if name not in ("late", "revision")} for each in made]
    return sorted(orjson.dumps(each, option=orjson.OPT_SORT_KEYS) for each in kept)


@pytest.mark.heavy
@pytest.mark.parametrize("count", [5_000, pytest.param(1_000_000, marks=pytest.mark.long)], ids=["5k", "1m"])
def test_replays_are_the_same_whatever_the_workers_batches_and_kills(
    kafka: SharedBroker, prefix: str, tmp_path: Path, count: int
) -> None:
    """One undisturbed; one whose workers are killed, and that is interrupted and killed itself, and begun again."""
    past = made(kafka.bootstrap, prefix, count, hours=2)
    ids, dead = past.expected
    chance = random.Random(count)

    done = past.replay("--run-id", "calm", "--windows", tmp_path / "calm")
    assert done.returncode == 0, done.stderr.decode()

    flags = ["--run-id", "hurt", "--workers", "3", "--windows", str(tmp_path / "hurt")]
    kills = interrupts = 0
    for how, batch in ((signal.SIGINT, "300"), (signal.SIGKILL, "77"), (None, "77")):
        process = past.start(*flags, RAGWEIR_BATCH__MAX_EVENTS=batch)
        for _ in range(2):
            # A run that is over sooner has no more workers.
            eventually(lambda run=process: workers_of("hurt") or run.poll() is not None, "workers are there")
            time.sleep(chance.uniform(0.5, 2.0))
            if alive := workers_of("hurt"):
                os.kill(chance.choice(alive), signal.SIGKILL)
                kills += 1
        if how is not None:
            interrupts += process.poll() is None
            process.send_signal(how)
        _, error = process.communicate()
        eventually(lambda: not workers_of("hurt"), "no worker is left")
        if process.returncode == 0:
            break
        assert process.returncode in (130, -signal.SIGKILL), error.decode()
    assert process.returncode == 0, error.decode()

    assert kills
    assert interrupts
    calm = past.canonical("calm")
    assert [json.loads(each)["event_id"] for each in calm] == sorted(ids)
    assert past.canonical("hurt") == calm
    assert {past.count(run, "dead-letter") for run in ("calm", "hurt")} == {dead}
    assert windows(tmp_path / "calm") == windows(tmp_path / "hurt")
    base = [json.loads(each) for each in windows(tmp_path / "calm") if b'"window":"1m"' in each]
    assert sum(each["events"] for each in base) == len(ids)
    assert all(each["closed"] for each in base)


@pytest.fixture(scope="module")
def past(kafka: SharedBroker) -> History:
    """A little history that many tests read and none writes to, and a run of all of it."""
    past = made(kafka.bootstrap, "past.", 300)
    assert past.replay("--run-id", "topic").returncode == 0
    return past


@pytest.mark.heavy
def test_files_come_to_the_same_as_their_topic(past: History, tmp_path: Path) -> None:
    """JSON lines and Parquet, whatever the format of live records. A line without event or time is a dead letter."""
    values = [value for part in past.values for value in part]
    lines, rows = tmp_path / "a b.jsonl", tmp_path / "rows.parquet"
    timeless = b'{"event_id": "t", "query": "q", "response": "r"}'
    lines.write_bytes(b"\n".join([*values, timeless]))
    good = tmp_path / "good.jsonl"
    good.write_bytes(b"\n".join(value for value in values if value != b"not json"))
    duckdb.sql(f"copy (select * from read_json('{good}', format='newline_delimited')) to '{rows}' (format parquet)")
    ids, dead = past.expected
    framed = {"RAGWEIR_INPUT__FORMAT": "avro", "RAGWEIR_REGISTRY__URL": "http://127.0.0.1:9"}
    for run, file, letters, live in (("lines", lines, dead + 1, {}), ("rows", rows, 0, framed)):
        done = past.replay(file, "--run-id", run, **live)
        assert done.returncode == 0
        shown = f"--prefix {past.prefix}run.{run}. dead-letter show"
        assert (f"; {letters} dead letters, and `ragweir {shown}`" in done.stderr.decode()) == bool(letters)
    assert b"not_json" in ragweir(*past.shared, "--prefix", f"{past.prefix}run.lines.", "dead-letter", "show").stdout
    assert [json.loads(each)["event_id"] for each in past.canonical("topic")] == sorted(ids)
    assert past.canonical("lines") == past.canonical("rows") == past.canonical("topic")
    assert [past.count(run, "dead-letter") for run in ("topic", "lines", "rows")] == [dead, dead + 1, 0]
    assert {each["run_id"] for each in past.evaluations("rows")} == {"rows"}


@pytest.mark.heavy
def test_a_folder_of_other_formats_comes_to_the_same_as_its_topic(past: History, tmp_path: Path) -> None:
    """An array, compressed; an event without a time gets that of the option, which is part of the run's identity."""
    values = [value for part in past.values for value in part if value != b"not json"]
    (tmp_path / "a.json.zst").write_bytes(zstd.compress(b"[" + b",\n".join(values) + b"]"))
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"event_id,query,response\nlast,q,r\n"))
    (tmp_path / "notes.txt").touch()
    command = (tmp_path, "--run-id", "folder", "--default-time")
    done = past.replay(*command, "2026-11-01T00:00:00Z")
    assert done.returncode == 0
    assert b"left out, since they are no data files: notes.txt" in done.stderr
    found = {each["event_id"]: each for each in past.evaluations("folder")}
    assert found.keys() == {*past.expected[0], "last"}
    assert found["last"]["event_time"] == "2026-11-01T00:00:00Z"
    assert [each for each in found if "time_defaulted" in found[each]["flags"]] == ["last"]
    other = past.replay(*command, "2026-11-02T00:00:00Z")
    assert "was created with other default_time (2026-11-01T00:00:00Z)" in other.stderr.decode()
    assert other.returncode == 1


@pytest.mark.heavy
def test_loading_goes_on_at_the_line_where_it_was_stopped(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Stopped again and again after some thousand lines, each is loaded once, and no line is lost."""
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    files[0].write_text("\n".join(f'{{"event_id": "a{n}", "query": "q", "response": "r"}}' for n in range(3_500)))
    files[1].write_text("\n\n".join(f'{{"event_id": "b{n}", "query": "q", "response": "r"}}' for n in range(1_500)))
    settings = Settings(kafka={"bootstrap_servers": kafka.bootstrap}, topics={"prefix": prefix, "partitions": 2})
    own = settings.model_copy(update={"topics": settings.topics.model_copy(update={"prefix": f"{prefix}run.r."})})
    create_topic(kafka.bootstrap, f"{prefix}run.r.interactions", 2)
    create_topic(kafka.bootstrap, f"{prefix}run.r.run")
    archives = [Archive(path=str(file), size=file.stat().st_size) for file in files]

    def stored() -> Loaded:
        newest = read_to_end(kafka.bootstrap, f"{prefix}run.r.run")
        return Loaded.model_validate_json(newest[-1].value()) if newest else Loaded()

    loaded, turns = Loaded(), 0
    while loaded.line < 2_999 or loaded.file == 0:
        asked = iter([False, True])
        loaded = load_archives(own, archives, stored, lambda *_: None, partial(next, asked))
        turns += 1
    assert turns > 3
    found = Counter(each["event_id"] for each in values(kafka.bootstrap, f"{prefix}run.r.interactions"))
    assert found == Counter([*(f"a{n}" for n in range(3_500)), *(f"b{n}" for n in range(1_500))])
    assert stored() == loaded


def test_the_windows_of_a_run_are_closed_at_its_end(past: History) -> None:
    """Every partition's progress says that nothing more comes, so that an exporter, too, takes them for closed."""
    last: dict[int, bool] = {}
    for each in read_to_end(past.bootstrap, f"{past.prefix}run.topic.windows"):
        if json.loads(each.key())[0] == "progress":
            last[each.partition()] = json.loads(each.value())["idle"]
    assert last == dict.fromkeys(range(PARTITIONS), True)


def test_windows_are_waited_for_until_every_partition_says_that_it_is_idle(past: History, prefix: str) -> None:
    """The last word of each partition counts; one that has said nothing is waited for too."""
    found = find_run(_settings(past), "topic")
    assert found is not None
    run = found.run.model_copy(update={"run_id": prefix.strip(".").rpartition("-")[2], "phase": "summing"})
    own = run_settings(_settings(past), run)
    topic = create_topic(past.bootstrap, f"{own.topics.prefix}windows", 2)

    def tell(partition: int, *idle: bool) -> None:
        key, told = orjson.dumps(["progress", partition]), {"partition": partition, "next_offset": 1, "watermark": None}
        values = [orjson.dumps({**told, "idle": each}) for each in idle]
        produce(past.bootstrap, topic, values, key=key, partition=partition)

    with closing(PhaseMonitor(own, run)) as monitor:
        tell(0, False, True)
        assert not monitor.windows_are_closed()
        tell(1, True, False)
        assert not monitor.windows_are_closed()
        tell(1, True)
        assert monitor.windows_are_closed()


@pytest.mark.heavy
def test_a_replay_leaves_live_topics_groups_and_series_alone(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """While live traffic is evaluated, a replay of it comes and goes: live has its own evaluations, and only these."""
    live = made(kafka.bootstrap, prefix, 600)
    for name in ("redrive", "evaluations", "dead-letter", "windows"):
        create_topic(kafka.bootstrap, f"{prefix}{name}", PARTITIONS)
    ids, _ = live.expected
    with evaluating(kafka.bootstrap, prefix, tmp_path) as service:
        ends = {(f"{prefix}interactions", p): len(part) for p, part in enumerate(live.values)}
        settled(kafka.bootstrap, f"{prefix}evaluate", ends)
        assert live.replay("--run-id", "beside").returncode == 0
        later = orjson.dumps({**interaction(random.Random(1), 1), "event_id": "later"})
        produce(kafka.bootstrap, f"{prefix}interactions", [later], partition=0)
        ends[f"{prefix}interactions", 0] += 1
        settled(kafka.bootstrap, f"{prefix}evaluate", ends)
        eventually(
            lambda: service.sample('ragweir_evaluations_total{stage="scored"}') == len(ids) + 1, "all is counted"
        )
        shown = service.asked("/metrics")[1]
    assert "beside" not in shown
    assert len(live.evaluations(None)) == len(ids) + 1
    assert {each["run_id"] for each in live.evaluations(None)} == {None}
    assert len(live.evaluations("beside")) == len(ids)
    assert read_to_end(kafka.bootstrap, f"{prefix}windows") == []
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    groups = {
        group.group_id for group in admin.list_consumer_groups().result().valid if group.group_id.startswith(prefix)
    }
    run = f"{prefix}run.beside."
    evaluate = {f"{each}evaluate{which}" for each in (prefix, run) for which in ("", ".progress")}
    assert groups == {*evaluate, f"{run}aggregate"}


@pytest.mark.heavy
def test_filters_say_what_is_evaluated(past: History) -> None:
    """What comes out is what plain code picks from all evaluations."""
    until = BASE + timedelta(hours=12)
    only = ("--only", "application=bot", "--only", "context_support<0.9", "--only", f"time<{until:%Y-%m-%dT%H:%M:%SZ}")
    assert past.replay("--run-id", "some", *only).returncode == 0
    whole = [json.loads(each) for each in past.canonical("topic")]
    wanted = [
        each
        for each in whole
        if each["application"] == "bot"
        and each["scores"]["context_support"] is not None
        and each["scores"]["context_support"] < 0.9
        and datetime.fromisoformat(each["event_time"]) < until
    ]
    assert 0 < len(wanted) < len(whole)
    assert [json.loads(each) for each in past.canonical("some")] == wanted


@pytest.mark.heavy
def test_a_run_keeps_its_judge_within_its_own_budget(past: History) -> None:
    """Everything selected is judged or deferred, and neither a live topic nor a live ledger hears of it."""
    with simulated_judge() as judge:
        chosen = {
            "RAGWEIR_JUDGE__BASE_URL": judge.base_url,
            "RAGWEIR_JUDGE__PRICES": '{"gpt-4o-mini": {"input_usd": 0.15, "output_usd": 0.6}}',
            "RAGWEIR_ROUTING__FLOORS": '{"rubric": 0.3}',
            "RAGWEIR_ROUTING__KEY": "hunter2-Xq7",
        }
        dry = past.replay("--run-id", "judged", "--judge", "budget", "--budget", "0.02", "--dry-run", **chosen)
        assert b"judge, rubric" in dry.stdout
        assert b"$" in dry.stdout
        assert judge.calls()["count"] == 0
        done = past.replay("--run-id", "judged", "--judge", "budget", "--budget", "0.02", **chosen)
        assert done.returncode == 0, done.stderr.decode()
        calls = judge.calls()["count"]
    made = past.evaluations("judged")
    stages = Counter(each["stage"] for each in made)
    requests, deferred = past.count("judged", "judge.requests"), past.count("judged", "judge.deferred")
    assert stages["judged"] + deferred == requests
    assert stages["judged"]
    assert deferred
    assert calls >= stages["judged"]
    cost = sum(each["judge"]["cost_usd"] for each in made if each["judge"])
    assert 0 < cost <= 0.02
    found = find_run(_settings(past), "judged")
    assert found is not None
    assert found.run.phase == "complete"
    # The key that selected them is a secret, and part of what the run was begun with.
    assert b"hunter2" not in encode(found.run) + ragweir(*past.shared, "runs", "show", "judged").stdout
    store_run(_settings(past), found.run.model_copy(update={"phase": "evaluating"}))
    command = ("--run-id", "judged", "--judge", "budget", "--budget", "0.02")
    assert "other settings" in told(past.replay(*command, **{**chosen, "RAGWEIR_ROUTING__KEY": "hunter3"}))
    assert past.replay(*command, "--dry-run", **chosen).returncode == 0


def _settings(past: History) -> Settings:
    return Settings(kafka={"bootstrap_servers": past.bootstrap}, topics={"prefix": past.prefix})


@pytest.mark.heavy
def test_the_life_of_a_run(past: History) -> None:
    """A range is read; gone on with by the same command only; listed, shown, and deleted with all that is its own."""
    command = ("--run-id", "range", "--from", "10", "--to", "20")
    assert past.replay(*command).returncode == 0
    made = past.evaluations("range")
    assert {each["source"]["offset"] for each in made} <= set(range(10, 20))
    assert {each["source"]["partition"] for each in made} == {0, 1, 2}
    assert b"is complete" in past.replay(*command).stderr
    assert past.evaluations("range") == made
    assert "was created with other until (20)" in told(past.replay(*command[:-1], "21"))
    shown = json.loads(ragweir(*past.shared, "runs", "show", "range").stdout)
    assert (shown["phase"], shown["asked"]["until"]) == ("complete", "20")
    assert b"range" in ragweir(*past.shared, "runs", "list").stdout
    settings = _settings(past)
    found = find_run(settings, "range")
    assert found is not None
    # Under way, its settings count too.
    store_run(settings, found.run.model_copy(update={"phase": "evaluating"}))
    assert "other settings" in told(past.replay(*command, RAGWEIR_METRICS__OFF='["overlap"]'))

    other = prefix_of(settings, "range-2")
    create_topic(past.bootstrap, f"{other}run")
    assert ragweir(*past.shared, "runs", "delete", "range").returncode == 2, "nobody can be asked"
    assert ragweir(*past.shared, "runs", "delete", "range", "--yes").returncode == 0
    admin = AdminClient({"bootstrap.servers": past.bootstrap, "log_level": 0})
    own = prefix_of(settings, "range")
    eventually(lambda: not [name for name in admin.list_topics().topics if name.startswith(own)], "its topics are gone")
    assert not [group for group in admin.list_consumer_groups().result().valid if group.group_id.startswith(own)]
    assert f"{other}run" in admin.list_topics().topics
    assert "there is no run range" in told(ragweir(*past.shared, "runs", "show", "range"))


@pytest.mark.heavy
def test_a_run_like_another_reads_the_same_offsets(past: History) -> None:
    """By other settings, also after the other run was deleted; a range that is not there any more is an error."""
    assert past.replay("--run-id", "model", "--from", "10", "--to", "20").returncode == 0
    like = ("--run-id", "like", "--like", "model")
    fewer = {"RAGWEIR_METRICS__OFF": '["token_f1"]'}
    assert past.replay(*like, **fewer).returncode == 0
    model, again = ({each["event_id"]: each for each in past.evaluations(run)} for run in ("model", "like"))
    assert model.keys() == again.keys()
    assert all(each["source"] == again[event_id]["source"] for event_id, each in model.items())
    assert all("token_f1" in each["scores"] for each in model.values())
    assert not any("token_f1" in each["scores"] for each in again.values())
    settings = _settings(past)
    first, second = find_run(settings, "model"), find_run(settings, "like")
    assert first is not None
    assert second is not None
    assert second.run.extents == first.run.extents
    assert "was created with other like (model)" in told(past.replay("--run-id", "like", **fewer))
    beyond = tuple(each.model_copy(update={"end": 10**9}) for each in first.run.extents)
    store_run(settings, first.run.model_copy(update={"extents": beyond}))
    assert "truncated or recreated since" in told(past.replay("--run-id", "other", "--like", "model"))
    assert ragweir(*past.shared, "runs", "delete", "model", "--yes").returncode == 0
    assert b"is complete" in past.replay(*like, **fewer).stderr
    assert "there is no run model" in told(past.replay("--run-id", "other", "--like", "model"))
    assert "--like is instead of" in told(past.replay("--run-id", "other", "--like", "model", "--to", "3"))


def test_progress_is_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """With the share that is done and the time that is left, at intervals; without them where none is known."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(progress, "_LINE_SECONDS", 0.0)
        with Bars(lines=True) as bars:
            moved = bars.watch("merging", 200)
            for _ in range(3):
                time.sleep(0.01)
                moved(25)
            bars.watch("starting", None)(1)
        with Bars() as bars:
            bars.watch("silent", 200)(50)
    *_, merging, starting = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"merging: 3[78] %, 0:00:0\d left", merging)
    assert starting == "starting: under way"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--run-id", "a.b"], "letters, digits"),
        (["--run-id", "live"], "not `live`"),
        (["--run-id", "x", "--topic", "nowhere"], "there is no topic nowhere"),
        (["--run-id", "x", "--from", "yesterday"], "nor a time before now such as 24h"),
        (["--run-id", "x", "--judge", "budget"], "go together"),
        (["--run-id", "x", "--default-time", "2026-11-01"], "--default-time is for files"),
        (["--run-id", "x", "--judge", "sometimes"], "it is never, cached-only or budget"),
        (["--run-id", "x", "--judge", "cached-only"], "there is no judge"),
        (["--run-id", "x", "--only", "tenant"], "is no condition"),
        (["--run-id", "x", "--only", "nothing<1"], "no field, nor a metric"),
        (["--run-id", "x", "--only", "answer_class=NONSENSE"], "answer_class"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(past: History, arguments: list[str], reason: str) -> None:
    assert reason in told(past.replay(*arguments))
    assert find_run(_settings(past), "x") is None


def test_a_dry_run_tells_what_there_is_and_changes_nothing(past: History) -> None:
    done = past.replay("--run-id", "dry", "--dry-run")
    assert done.returncode == 0
    assert b"at most 300 records" in done.stdout
    assert b"dead letters" in done.stdout
    assert find_run(_settings(past), "dry") is None


class _Paused:
    """Notes what is paused and resumed."""

    def __init__(self) -> None:
        self.paused: list[int] = []

    def pause(self, partitions: list[Any]) -> None:
        self.paused += [each.partition for each in partitions]

    def resume(self, partitions: list[Any]) -> None:
        for each in partitions:
            self.paused.remove(each.partition)


def test_a_partition_is_read_to_its_bound_and_then_paused_once() -> None:
    consumer = _Paused()
    limiter = ReplayLimiter(ReplayBounds(ends={("t", 0): 2}), consumer)  # type: ignore[arg-type]
    records = [Record("t", partition, offset, None, b"", None) for partition in (0, 1) for offset in range(4)]
    assert [limiter.admits(each) for each in records] == [True, True, *[False] * 6]
    assert consumer.paused == [0, 1]
    limiter.resume_all()
    assert consumer.paused == []


def test_a_rate_is_never_exceeded() -> None:
    """Over any stretch, no more records than the rate and one slice allow."""
    limiter = ReplayLimiter(ReplayBounds(rate=200.0), _Paused())  # type: ignore[arg-type]
    began, taken = time.monotonic(), 0
    while time.monotonic() - began < 1.5:
        room = limiter.capacity(1_000)
        limiter.count(room)
        taken += room
        assert taken <= 200 * (time.monotonic() - began) + 2 * 100
    assert taken >= 200


@pytest.mark.heavy
def test_the_settings_map_is_for_the_live_input_and_not_for_another_topic(past: History) -> None:
    """A topic in our own shape is read as it is, although live traffic comes from a foreign one, through a map."""
    foreign = {"RAGWEIR_INPUT__TOPIC": "theirs", "RAGWEIR_INPUT__MAP": str(ROOT / "deploy" / "maps" / "mtrag.toml")}
    ours = f"{past.prefix}interactions"
    done = past.replay("--run-id", "ours", "--topic", ours, "--to", "5", **foreign)
    assert done.returncode == 0, done.stderr.decode()
    assert past.evaluations("ours")
    assert past.count("ours", "dead-letter") == sum(part[:5].count(b"not json") for part in past.values)
