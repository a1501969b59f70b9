"""The demo: its samples show the whole contract, and one command runs the whole system and leaves nothing."""

import io
import os
import re
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean
from typing import Any

import orjson
import pytest
from rich.console import Console

from metrics import performance
from metrics.catalogue import Catalogue, everything
from schemas.codec import encode_json, interaction
from schemas.dead_letter import DeadLetter
from schemas.interaction import (
    Aggregate,
    Context,
    Extraction,
    Feedback,
    Interaction,
    Message,
    Part,
    Retrieval,
    Span,
    Usage,
)
from streams.agents.agent import Record
from streams.agents.evaluate import EvaluateAgent, EvaluateConfig
from streams.cli import demo as command
from streams.demo import services as service
from streams.demo.samples import QUESTIONS, UNREADABLE, drill, interactions, samples
from streams.demo.services import DemoError, demo_settings, services
from streams.demo.show import RANKING, Report, screen, summarise
from streams.local.kafka import LocalKafka
from streams.settings import BatchSettings
from streams.supervisor import own_command

PHASES = ["steady", "injected", "FIRES", "recovery", "RESOLVED"]
NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
CATALOGUE = Catalogue(everything())
PARTS: Mapping[str, type[Part]] = {
    "contexts": Context,
    "spans": Span,
    "history": Message,
    "extractions": Extraction,
    "aggregation": Aggregate,
    "retrieval": Retrieval,
    "feedback": Feedback,
    "usage": Usage,
}


def evaluate(values: list[bytes | None], catalogue: Catalogue = CATALOGUE) -> Iterator[dict[str, Any] | DeadLetter]:
    """What the evaluate agent makes of these values."""
    agent = EvaluateAgent(EvaluateConfig(catalogue))
    for offset, value in enumerate(values):
        outcome = agent.handle([Record("samples", 0, offset, None, value, 0)])
        assert not [count for count in outcome.counts if count[0] == "ragweir_metric_errors_total"]
        (emission,) = outcome.emissions
        if emission.topic == "dead-letter":
            yield DeadLetter.from_headers(emission.headers)
        else:
            yield orjson.loads(emission.value or b"")


def evaluations(count: int = len(samples()), catalogue: Catalogue = CATALOGUE) -> list[dict[str, Any]]:
    found = evaluate([encode_json(event) for event in interactions(count, NOW)], catalogue)
    return [each for each in found if not isinstance(each, DeadLetter)]


# The samples.


def test_every_field_of_the_contract_is_in_some_sample() -> None:
    """A reader of the samples meets each field that an interaction may have, and none that it may not."""
    events = [interaction(event) for event in interactions(len(samples()), NOW)]
    assert not any(event.extra for event in events)
    seen = {name for event in events for name in event.model_fields_set}
    assert Interaction.model_fields.keys() - seen == {"extra"}
    for name, part in PARTS.items():
        values = [getattr(event, name) for event in events if getattr(event, name)]
        parts = [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
        assert part.model_fields.keys() == {field for each in parts for field in each.model_fields_set}, name


def test_every_sample_is_evaluated_with_scores() -> None:
    """No sample is refused, makes a metric raise or goes without scores, and event ids do not repeat."""
    count = 2 * len(samples())
    found = evaluations(count)
    assert len({evaluation["event_id"] for evaluation in found}) == count
    for evaluation in found:
        assert evaluation["scores"]["total_latency_ms"] > 0
        if evaluation["scores"]["llm_latency_ms"] is None:
            assert evaluation["reasons"]["llm_latency_ms"] == "the event has no llm spans"


def test_times_follow_from_the_end() -> None:
    """An interaction ends when it is told to; what came before keeps its order."""
    for event in map(interaction, interactions(len(samples()), NOW)):
        assert event.started_at is not None
        assert event.ended_at is not None
        inner = [event.first_token_at or event.started_at]
        for span in event.spans or ():
            assert span.started_at is not None
            assert span.ended_at is not None
            assert span.started_at < span.ended_at
            inner += [span.started_at, span.ended_at]
        assert event.started_at <= min(inner) <= max(inner) <= event.ended_at <= NOW


def test_v2_scores_worse_than_v1() -> None:
    """The difference that the demo is to show is in its samples, by whatever ranks the answers."""
    ranking = Report(CATALOGUE.metrics, 0).ranking
    assert ranking in RANKING
    means = {}
    for version in ("v1", "v2"):
        chosen = [each["scores"][ranking] for each in evaluations() if each["pipeline_version"] == version]
        means[version] = fmean(value for value in chosen if value is not None)
    worse = means["v2"] - means["v1"] if CATALOGUE.metrics[ranking].better == "lower" else means["v1"] - means["v2"]
    assert worse > 0.2


def test_the_drill_is_grounded_until_v2_drops() -> None:
    """Every version gets every question; all answers meet the demo's SLO, but those of v2 while quality is dropped."""
    (slo,) = demo_settings("127.0.0.1:1").slo
    for dropped in (False, True):
        events = [drill(number, NOW, dropped=dropped) for number in range(4 * len(QUESTIONS))]
        found = [each for each in evaluate(list(map(encode_json, events))) if not isinstance(each, DeadLetter)]
        assert len(found) == len(events) == len({event["event_id"] for event in events})
        assert len({(event["pipeline_version"], event["query"]) for event in events}) == 2 * len(QUESTIONS)
        for event in found:
            good = not (dropped and event["pipeline_version"] == "v2")
            assert slo.good(event["scores"][slo.metric]) == good, event["labels"]["sample"]


def test_each_unreadable_record_is_refused_as_it_says() -> None:
    """The records that are to become dead letters do, each with its class."""
    found = list(evaluate([each.value for each in UNREADABLE]))
    assert [letter.error_class for letter in found if isinstance(letter, DeadLetter)] == [
        each.error_class for each in UNREADABLE
    ]


# What is shown.


def show(console: Console, catalogue: Catalogue = CATALOGUE) -> Report:
    report = Report(catalogue.metrics, len(samples()))
    with screen(console, report) as shown:
        for result in [*evaluations(catalogue=catalogue), *evaluate([None], catalogue)]:
            report.add(result)
            shown.shown(result)
    summarise(console, report, len(samples()) + 1)
    return report


def test_a_terminal_shows_the_latest_evaluations_and_colours_bad_ones() -> None:
    """On a terminal of 80 columns every column fits, the table is redrawn, and red stands where an answer is bad."""
    file = io.StringIO()
    console = Console(
        file=file, force_terminal=True, width=80, height=24, color_system="standard", _environ={"TERM": "xterm"}
    )
    report = show(console)
    assert "\x1b[1;31m" in file.getvalue().partition("records published")[0]
    assert "\x1b[?25l" in file.getvalue()  # The cursor is hidden, so the table is redrawn.
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue()).rpartition("Evaluations as they come")[2]
    assert last.startswith(f": {len(samples())} of {len(samples())}, 1 dead letters")
    assert all(column.title in last.splitlines()[1] for column in report.columns)
    assert "order-status-v2-1" in last.partition("records published")[0]


def test_elsewhere_each_result_is_a_line() -> None:
    """Where nothing can be redrawn, every result is printed once as a line without control characters."""
    file = io.StringIO()
    show(Console(file=file, width=80))
    lines = file.getvalue().splitlines()
    assert "\x1b" not in file.getvalue()
    for sample in samples():
        assert sum(line.startswith(f"{sample['event_id']}-1 ") for line in lines) == 1
    assert "dead letter (tombstone): the record has no value" in lines


def test_columns_without_a_metric_are_left_out() -> None:
    """A catalogue that lacks the headline metrics still gives a table and a summary, of what there is."""
    file = io.StringIO()
    report = show(Console(file=file, width=80), Catalogue(performance.METRICS))
    assert [column.metric for column in report.columns] == ["total_latency_ms"]
    assert "Worst answers" not in file.getvalue()


def test_answers_that_decline_are_not_among_the_worst() -> None:
    """An answer that declines asserts nothing, however little of it stands in the contexts."""
    report = show(Console(file=io.StringIO(), width=80))
    assert "pool-cover-v2" in report.ranked
    assert not {"pool-cover-v1", "lounge-access-v1"} & report.ranked.keys()


# The command.


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the demo where everything that it leaves can be found: its temporary files, and a mark on its processes."""
    (folder / "tmp").mkdir()
    return subprocess.Popen(
        own_command("demo", *arguments),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder / "tmp"), "DEMO_TEST_MARK": str(folder), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def left_behind(folder: Path, output: str) -> list[str]:
    """Files, listening ports and processes of a demo that has ended."""
    left = [path.name for path in (folder / "tmp").iterdir() if not path.name.startswith("hsperfdata_")]
    for port in re.findall(r"127\.0\.0\.1:(\d+)", output):
        with socket.socket() as client:
            left += [] if client.connect_ex(("127.0.0.1", int(port))) else [f"port {port}"]
    mark = f"DEMO_TEST_MARK={folder}".encode()
    for process in Path("/proc").glob("[0-9]*/environ"):  # On systems without it, files and ports must do.
        try:
            if mark in process.read_bytes():
                left.append((process.parent / "cmdline").read_bytes().decode())
        except OSError:
            continue
    return left


def test_one_command_shows_the_whole_system(tmp_path: Path) -> None:
    """Every event evaluated, every dead letter named, a summary, an alert that fires while quality is dropped and is
    resolved once it is back, windows that show both, nothing left, and no outside setting heeded.
    """
    (tmp_path / "ragweir.toml").write_text('[kafka]\nbootstrap_servers = "nowhere.invalid:1"\n[nonsense]\n')
    environment = {
        "RAGWEIR_TOPICS__PREFIX": "other.",
        "RAGWEIR_BATCH__MAX_EVENTS": "none",
        "TERM": "dumb",
        "FORCE_COLOR": "",
    }
    process = start(tmp_path, "--events", "50", "--seconds", "0", **environment)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    assert "Starting Kafka" in output
    assert "2 workers" in output
    assert "54 records published: 50 evaluated, 4 dead letters." in output
    for reason in ("not_json: not JSON", "tombstone: the record has no value", "invalid: response: Field required"):
        assert f"1 {reason}" in output
    assert re.search(r"^v1 .*\n^v2 ", output, re.MULTILINE)
    assert "ragweir --bootstrap-servers HOST:9092 doctor" in output
    assert "\x1b" not in output
    drilled = re.findall(
        r"^ *\d+\.\d s  (steady|injected|FIRES|recovery|RESOLVED) +(RagweirSloBurnsFast)?", output, re.MULTILINE
    )
    assert [what for what, alert in drilled if alert or what.islower()] == PHASES
    steady, dropped, recovered = re.split(" injected | recovery ", output.partition(" steady ")[2])
    assert {mean > 0.5 for mean in v2_means(steady)} == {False}
    assert v2_means(dropped)[-1] > 0.5 > v2_means(recovered)[-1]
    assert left_behind(tmp_path, output) == []


def v2_means(output: str) -> list[float]:
    return [float(mean) for mean in re.findall(r"window until .* v2 (\S+)", output)]


def test_without_prometheus_the_demo_says_how_to_install_it(
    kafka: LocalKafka, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where it is neither installed nor to be fetched the alert is left out, in one line, and that is no failure."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command._run(kafka.bootstrap, events=5, seconds=0, prefix=prefix, alerts=True)
    output = capsys.readouterr().out
    assert re.search(
        r"^Left out: Prometheus and Alertmanager are not .*apt-get install prometheus .*$", output, re.MULTILINE
    )
    assert "steady" not in output
    assert "ragweir --bootstrap-servers HOST:9092 doctor" in output


def test_an_interrupt_stops_everything(tmp_path: Path) -> None:
    """Ctrl-C in the middle of the traffic ends with status 130, and nothing is left."""
    process = start(tmp_path, "--events", "5000", "--seconds", "600", "--no-alerts")
    assert process.stdout is not None
    output = ""
    while "-v1-1 " not in output:
        line = process.stdout.readline()
        assert line, output
        output += line
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130, rest
    assert rest.rstrip().endswith("everything that the demo started is gone.")
    assert left_behind(tmp_path, output + rest) == []


def test_a_service_that_ends_is_told_with_its_last_words(
    kafka: LocalKafka, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When `up` ends by itself the demo stops, and shows what it logged."""
    words = f"no-such-thing-{uuid.uuid4()}"
    failing = [sys.executable, "-c", f"import sys; sys.exit('{words}')"]
    monkeypatch.setattr(service, "own_command", lambda *_: failing)
    with pytest.raises(DemoError, match=rf"ended with status 1[^$]*{words}"):
        command._run(kafka.bootstrap, events=1, seconds=0, prefix=prefix)


def test_the_service_runs_on_the_demos_settings_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RAGWEIR_ variables reach neither the demo's own settings nor, in whatever case, its service."""
    monkeypatch.setenv("RAGWEIR_TOPICS__PARTITIONS", "99")
    monkeypatch.setenv("RAGWEIR_BATCH__MAX_EVENTS", "7")
    monkeypatch.setenv("ragweir_topics__prefix", "other.")
    settings = demo_settings("127.0.0.1:1")
    assert (settings.topics.partitions, settings.topics.prefix) == (4, "rag.")
    assert settings.batch == BatchSettings()
    script = "import os; open('names', 'w').write(' '.join(os.environ)); os.rename('names', 'names.done')"
    monkeypatch.setattr(service, "own_command", lambda *_: [sys.executable, "-c", script])
    done = tmp_path / "names.done"
    with services(settings, tmp_path):
        while not done.exists():
            time.sleep(0.01)
    assert "PATH" in done.read_text()
    assert "RAGWEIR" not in done.read_text().upper()


def test_written_samples_can_be_scored(tmp_path: Path) -> None:
    """`--write-samples` writes a file that `score` takes whole."""
    file, scored = tmp_path / "samples.jsonl", tmp_path / "scored.jsonl"
    subprocess.run(own_command("demo", "--write-samples", str(file)), check=True, capture_output=True, cwd=tmp_path)
    command_line = own_command("score", str(file), "--out", str(scored))
    subprocess.run(command_line, check=True, capture_output=True, cwd=tmp_path)
    assert len(file.read_bytes().splitlines()) == len(scored.read_bytes().splitlines()) == len(samples())
