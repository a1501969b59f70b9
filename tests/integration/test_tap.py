"""`ragweir tap` on a real broker: what it tells of a topic, and that it leaves no trace there."""

import re
import time
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ROOT, ragweir, told
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, coordinated, create_topic, produce, trim

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.streams.analysis.checks import events as checks
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed
from ragweir.streams.analysis.sample import read_newest
from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.settings import load


def own(number: int, **fields: Any) -> bytes:
    """An event in our shape."""
    contexts = [{"chunk_id": "c1", "text": "The bridge in Mostar was rebuilt in 2004."}]
    event = {"event_id": f"e{number}", "query": "When was the bridge rebuilt?", "response": "It was rebuilt in 2004."}
    return orjson.dumps({**event, "contexts": contexts, **fields})


def foreign(number: int, **fields: Any) -> bytes:
    """An event in another shape."""
    documents = [{"page_content": "The bridge in Mostar was rebuilt in 2004."}]
    event = {"requestId": f"r{number}", "input": {"question": "When was it rebuilt?"}, "answer": "In 2004."}
    return orjson.dumps({**event, "documents": documents, **fields})


def tap(kafka: SharedBroker, topic: str, *arguments: str | Path, status: int = 0, **variables: str) -> str:
    """What `ragweir tap` prints on a terminal of 80 columns; nothing but this may go wrong."""
    variables["COLUMNS"] = "80"
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "tap", topic, *arguments, text=b"", folder=ROOT, **variables)
    assert (done.returncode, done.stderr) == (status, b"")
    return done.stdout.decode()


def refused(kafka: SharedBroker, topic: str) -> str:
    """The one line that `ragweir tap` prints where there is nothing to look at."""
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "tap", topic)
    assert done.returncode == 1
    assert not done.stdout
    return told(done)


def filled(kafka: SharedBroker, prefix: str, values: Iterable[bytes | None], partitions: int = 1) -> str:
    """A topic that holds these."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", partitions)
    produce(kafka.bootstrap, topic, values)
    return topic


def newest(kafka: SharedBroker, topic: str, count: int) -> list[tuple[int, int]]:
    """The partitions and offsets that are read when so many records are asked for."""
    settings = load(None, {"kafka": {"bootstrap_servers": kafka.bootstrap}})
    return [(record.partition, record.offset) for record in read_newest(settings, topic, count)]


def transactional(kafka: SharedBroker, prefix: str) -> Producer:
    settings: dict[str, str | int] = {"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{prefix}id"}
    producer = Producer({**settings, "log_level": 0})
    producer.init_transactions(30)
    return producer


def shares(printed: str) -> dict[str, str]:
    """The table of coverage: the share of each metric."""
    return dict(re.findall(r"^  ([\w.]+) +(\d+ %)", printed, re.MULTILINE))


@pytest.mark.heavy
def test_our_own_shape_is_recognised(kafka: SharedBroker, prefix: str) -> None:
    """Of our events it tells each metric's share, why not the others, samples and the next commands; no map."""
    values = [own(number, expected="In 2004." if number % 2 else None) for number in range(40)]
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", 3)
    produce(kafka.bootstrap, topic, values, partition=0)
    produce(kafka.bootstrap, topic, [None, b"{", b"}", b"5", b'{"event_id": "x"}'], partition=2)
    printed = tap(kafka, topic, RAGWEIR_METRICS__PACKS="EF_1")
    assert (
        f"45 records of {topic} were read, the newest ones, from 2 of its partitions.\n4 of them hold no event:"
        in printed
    )
    assert "\n     1  the record has no value\n" in printed
    assert "\n     1  the event is not an object\n" in printed
    assert re.search(r"\n {5}2  not JSON: .*, or the like\n", printed)
    assert "They have ragweir's schema." in printed
    assert "1 of them cannot be evaluated:\n     1  query: missing; response: missing; " in printed
    assert "Of 40 events" in printed
    assert shares(printed).items() >= {"context_support": "100 %", "exact_match": "50 %"}.items()
    assert re.search(r"\n  exact_match +50 % +0.000 +no expected\b", printed)
    assert re.search(r"\nOn none of them\n", printed)
    assert "\n  spans: 9 more need it\n    llm_latency_ms, " in printed
    assert "\n  started_at and ended_at: 1 more needs both\n    total_latency_ms" in printed
    assert "\n  question_id that has a question pack: 3 more need it\n    EF_1.rules_found, " in printed
    command = f"  ragweir --bootstrap-servers {kafka.bootstrap}"
    assert printed.endswith(f"\n{command} topics create\n{command} evaluate --input-topic {topic}\n")
    assert ".toml" not in printed
    tables = printed[printed.index("Of 40 events") : printed.index("\nNext")]
    assert max(map(len, tables.splitlines())) == 80


def test_every_metric_is_accounted_for(kafka: SharedBroker, prefix: str) -> None:
    """Each metric of the catalogue stands once: with a share, or among those of a reason."""
    topic = filled(kafka, prefix, map(own, range(3)))
    printed = tap(kafka, topic, RAGWEIR_METRICS__OFF='["overlap", "context_tokens"]')
    above, _, below = printed.partition("On none of them")
    unmet = re.findall(r"[\w.]+", " ".join(line for line in below.splitlines() if line.startswith("    ")))
    assert sorted([*shares(above), *unmet]) == sorted(Catalogue(everything(), ["overlap", "context_tokens"]).free)


def test_a_foreign_shape_gets_a_map(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """The proposal that is shown is a map; saved and passed by --map, it gives the same tables and command."""
    topic = filled(kafka, prefix, map(foreign, range(20)))
    printed = tap(kafka, topic)
    toml = re.search(r"This map was inferred from names and types:\n\n(.*?)\n\n", printed, re.DOTALL)
    assert toml
    assert tomllib.loads(toml[1]) == {
        "event_id": "requestId",
        "query": "input.question",
        "response": "answer",
        "contexts[].text": "documents[].page_content",
    }
    assert FieldMap.parse(toml[1])(orjson.loads(foreign(7)))["event_id"] == "r7"
    assert f"save it as {topic}.toml" in printed
    assert shares(printed)["context_support"] == "100 %"
    assert printed.endswith(f" evaluate --input-topic {topic} --map {topic}.toml\n")
    file = tmp_path / "their map.toml"
    file.write_text(toml[1])
    again = tap(kafka, topic, "--map", file)
    assert f"Read through the map {file}." in again
    assert "This map was inferred" not in again
    assert again.endswith(f" evaluate --input-topic {topic} --map '{file}'\n")
    tables = slice("Of 20 events", "\nNext")
    assert (
        again[again.index(tables.start) : again.index(tables.stop)]
        == printed[printed.index(tables.start) : printed.index(tables.stop)]
    )


def test_a_map_that_reads_nothing_fails(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """With a map for other events it says why none can be evaluated, and fails."""
    file = tmp_path / "map.toml"
    file.write_text('event_id = "id"\nquery = "q"\nresponse = "a"\n')
    printed = tap(kafka, filled(kafka, prefix, map(foreign, range(5))), "--map", file, status=1)
    missing = "; ".join(f"{field} (from {path}): missing" for field, path in (("event_id", "id"), ("query", "q")))
    assert f"5 of them cannot be evaluated:\n     5  {missing}; response (from a): missing\n" in printed
    assert "Next" not in printed


@pytest.mark.heavy
def test_the_map_in_the_settings_is_for_the_input_topic(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """The configured map reads the configured topic, and the next command needs no flags; another is not read by it."""
    file = tmp_path / "map.toml"
    file.write_text('event_id = "requestId"\nquery = "answer"\nresponse = "answer"\n')
    topic = filled(kafka, prefix, map(foreign, range(5)))
    printed = tap(kafka, topic, RAGWEIR_INPUT__TOPIC=topic, RAGWEIR_INPUT__MAP=str(file))
    assert f"Read through the map {file}." in printed
    assert printed.endswith(" evaluate\n")
    assert "This map was inferred" in tap(kafka, topic, RAGWEIR_INPUT__TOPIC="another", RAGWEIR_INPUT__MAP=str(file))


def test_half_a_map_is_shown_to_be_completed(kafka: SharedBroker, prefix: str) -> None:
    """Where a required field is not recognised, it names what is missing and what there is, no content, and fails."""
    values = [orjson.dumps({"question": "SECRET?", "turn": {"said": f"SECRET {n}", "a.b": 1}}) for n in range(5)]
    printed = tap(kafka, filled(kafka, prefix, [*values, b"no"]), status=1)
    assert '\n# event_id = ""  # required; ' in printed
    assert '\n# response = ""  # required; ' in printed
    assert '\nquery = "question"\n' in printed
    assert """\n  "question", "turn.said", 'turn."a.b"'""" in printed
    assert "run this command again with --map FILE" in printed
    assert "1 of them hold no event:" in printed
    assert "SECRET" not in printed


@pytest.mark.heavy
def test_garbage_is_counted_by_reason(kafka: SharedBroker, prefix: str) -> None:
    """A topic without any event is told by what it holds, and fails."""
    oversized = b'"' + b"x" * 1_048_577 + b'"'
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", config={"max.message.bytes": "2000000"})
    produce(kafka.bootstrap, topic, [None, None, b"\xff\xfe", b"<xml/>", b"", b"[]", oversized])
    printed = tap(kafka, topic, status=1)
    assert "7 of them hold no event:" in printed
    assert re.findall(r"^ {5}(\d)  (not JSON|the record has no value|the event)", printed, re.MULTILINE) == [
        ("3", "not JSON"),
        ("2", "the record has no value"),
        ("1", "the event"),
        ("1", "the event"),
    ]


def test_nothing_to_look_at_is_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    """An empty topic and a missing one are told in one line each; a missing one with the nearest."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", 3)
    assert refused(kafka, topic) == f"ragweir: the topic {topic} holds no records"
    missing = refused(kafka, f"{prefix}topics")
    assert missing.startswith(
        f"ragweir: there is no topic {prefix}topics, or it may not be seen; the nearest is {topic}"
    )


@pytest.mark.heavy
def test_repeated_ids_are_told(kafka: SharedBroker, prefix: str) -> None:
    """It warns of events that share an id, since of their evaluations readers keep the last."""
    topic = filled(kafka, prefix, [own(number // 2) for number in range(10)])
    assert "5 of them repeat an event_id" in tap(kafka, topic)


@pytest.mark.heavy
def test_what_a_terminal_obeys_does_not_reach_it(kafka: SharedBroker, prefix: str) -> None:
    """Ids come from outside: escape sequences and markup in them are shown, not obeyed."""
    topic = filled(kafka, prefix, [own(0, event_id="\x1b[2J\x9b[bold]x\n")])
    printed = tap(kafka, topic)
    assert "\ufffd[2J\ufffd[bold]x\ufffd" in printed
    assert printed.replace("\n", "").isprintable()


def test_few_records_on_many_partitions_are_all_found(kafka: SharedBroker, prefix: str) -> None:
    """What some partitions lack, others give: all is read that was asked for and is there."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", 40)
    for partition, many in ((3, 1), (17, 2), (39, 200)):
        produce(kafka.bootstrap, topic, map(own, range(many)), partition=partition)
    assert newest(kafka, topic, 300) == [(3, 0), (17, 0), (17, 1), *((39, offset) for offset in range(200))]
    assert newest(kafka, topic, 50) == [(3, 0), (17, 0), (17, 1), *((39, offset) for offset in range(153, 200))]
    assert len(newest(kafka, topic, 2)) == 2


@pytest.mark.heavy
def test_records_bounds_what_is_read(kafka: SharedBroker, prefix: str) -> None:
    """It reads the newest of a long topic, as many as --records says."""
    topic = filled(kafka, prefix, map(own, range(2_000)))
    assert newest(kafka, topic, 50) == [(0, offset) for offset in range(1_950, 2_000)]
    assert f"25 records of {topic} were read" in tap(kafka, topic, "--records", "25")


def test_a_trimmed_topic_is_read_from_what_is_left(kafka: SharedBroker, prefix: str) -> None:
    """Offsets that retention has taken are not waited for."""
    topic = filled(kafka, prefix, map(own, range(20)))
    trim(kafka.bootstrap, topic, [0], 15)
    assert newest(kafka, topic, 300) == [(0, offset) for offset in range(15, 20)]
    trim(kafka.bootstrap, topic, [0], 20)
    assert newest(kafka, topic, 300) == []


def test_transactions_do_not_hang_it(kafka: SharedBroker, prefix: str) -> None:
    """A topic that ends in markers, aborted records or an open transaction gives what is committed before."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic")
    producer = transactional(kafka, prefix)
    for number in range(30):  # Each leaves a marker behind its one record.
        producer.begin_transaction()
        producer.produce(topic, own(number))
        producer.commit_transaction(30)
    assert newest(kafka, topic, 20) == [(0, offset) for offset in range(20, 60, 2)]
    producer.begin_transaction()
    for number in range(50):
        producer.produce(topic, own(number))
    producer.flush(30)
    producer.abort_transaction(30)
    assert newest(kafka, topic, 20) == [(0, offset) for offset in range(20, 60, 2)]
    producer.begin_transaction()
    producer.produce(topic, own(0))
    producer.flush(30)
    assert newest(kafka, topic, 300) == [(0, offset) for offset in range(0, 60, 2)]
    producer.abort_transaction(30)


def test_a_topic_of_aborted_records_is_empty(kafka: SharedBroker, prefix: str) -> None:
    """Where nothing was ever committed there is nothing to look at."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic")
    producer = transactional(kafka, prefix)
    producer.begin_transaction()
    producer.produce(topic, own(0))
    producer.flush(30)
    producer.abort_transaction(30)
    assert newest(kafka, topic, 300) == []


def traces(kafka: SharedBroker) -> tuple[set[str], dict[tuple[str, int], tuple[int, int]]]:
    """All consumer groups, and the ends of all partitions of all topics but where groups commit."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    groups = {group.group_id for group in admin.list_consumer_groups().result(30).valid}
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "never-committed", "log_level": 0})
    try:
        ends = {
            (topic, partition): consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
            for topic, description in admin.list_topics(timeout=30).topics.items()
            for partition in description.partitions
            if "tap" in topic or topic == "__consumer_offsets"
        }
    finally:
        consumer.close()
    return groups, ends


@pytest.mark.heavy
def test_it_leaves_no_trace() -> None:
    """Looking leaves no group, no committed offset, no topic and no record behind, on a broker of its own."""
    with local_kafka() as kafka:
        topic = filled(kafka, "tap", map(foreign, range(10)), 4)
        coordinated(kafka.bootstrap)  # The first client that has a group's name makes the broker create their topic.
        before = traces(kafka)
        tap(kafka, topic)
        assert traces(kafka) == before
        assert "ragweir-reader" not in before[0]
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        asked = ConsumerGroupTopicPartitions("ragweir-reader")
        try:
            partitions = admin.list_consumer_group_offsets([asked])["ragweir-reader"].result(30).topic_partitions
        except KafkaException:  # Nor is there such a group to ask about.
            return
        assert not [each for each in partitions if each.topic == topic and each.offset >= 0]


NOW_S = int(time.time())
TIMED: dict[str, tuple[list[Any], str]] = {
    "seconds": ([NOW_S - 60], ""),
    "nanoseconds as text": ([f"{NOW_S - 60}000000000"], ""),
    "milliseconds divided twice": ([NOW_S / 1_000, NOW_S], "3 events have times before 2000 or after 2099: "),
    "ten days ago": ([NOW_S - 864_000, NOW_S - 864_000, NOW_S], "event times are 10 days before their records: "),
    "an hour ahead": ([NOW_S, NOW_S, NOW_S + 3_600], "2 events happened more than 5 minutes after their records"),
}
"""Times of events, written in turn, and what is wrong with them."""


@pytest.mark.heavy
@pytest.mark.parametrize("name", TIMED)
def test_times_that_cannot_be_true_are_told(kafka: SharedBroker, prefix: str, name: str) -> None:
    """Tap and doctor complain of times in another unit, by a wrong clock or of a backlog, and show the distances."""
    times, complaint = TIMED[name]
    topic = filled(kafka, prefix, [own(number, ended_at=times[number % len(times)]) for number in range(6)])
    shown = r"event times are [0-9,]+ (s|minutes|hours|days) (before|after) their records \("
    printed = tap(kafka, topic)
    assert re.search(shown, printed)
    assert (f"\nCheck this first: {complaint}" in printed) is bool(complaint)
    effective = load(None, {"kafka": {"bootstrap_servers": kafka.bootstrap}, "input": {"topic": topic}})
    findings = CheckContext(effective, {topic: 1})
    if complaint:
        with pytest.raises(CheckFailed, match=f"^{re.escape(complaint)}"):
            checks.times(findings)
    else:
        assert re.search(shown, checks.times(findings))


@pytest.mark.heavy
def test_what_was_repaired_is_told(kafka: SharedBroker, prefix: str) -> None:
    """Events that had to be repaired are counted by what was repaired."""
    values = [
        own(number, spans=[{"kind": "AGENT" if number < 3 else "llm"}], usage={"input_tokens": -1})
        for number in range(5)
    ]
    printed = tap(kafka, filled(kafka, prefix, values))
    expected = (
        "Some were repaired, and their evaluations flagged: unreadable:usage.input_tokens 5, unknown_span_kind 3."
    )
    assert f"\n{expected}\n" in printed


EXPORTS = ROOT / "tests" / "exports"


def tapped(*arguments: str | Path, status: int = 0, folder: Path = ROOT) -> str:
    """Return the output of `ragweir tap` for a file, which needs no broker."""
    done = ragweir("--bootstrap-servers", "127.0.0.1:1", "tap", *arguments, folder=folder)
    assert (done.returncode, done.stderr) == (status, b"")
    return done.stdout.decode()


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "product", "read", "unread"),
    [
        ("ragas-0.4.3/dataset.csv", "ragas", 54, "reference_contexts (60)"),
        ("langfuse-5.0.4/observations.jsonl.gz", "Langfuse", 60, "projectId (180)"),
        ("langsmith-0.15.0/runs.parquet", "LangSmith", 59, "run_type (60)"),
        ("trulens-2.16.0/records.jsonl.gz", "TruLens", 60, "app_id (60)"),
        ("deepeval-4.3.1/dataset.json.gz", "DeepEval", 58, "context[] (60)"),
    ],
)
def test_an_export_is_named_and_read(file: str, product: str, read: int, unread: str) -> None:
    """The report names the option that reads a product's export, and the fields that it leaves unread."""
    printed = tapped(EXPORTS / file, "--records", "1000")
    name = product.lower()
    assert f"This is an export of {product}: --map {name} reads it." in printed
    assert f"Of {read} events" in printed
    assert unread in printed
    assert printed.endswith(f" score {EXPORTS / file} --map {name} --out scores.jsonl\n")


def test_a_file_gets_a_map_that_reads_it(tmp_path: Path) -> None:
    """The map of a table without ids is inferred, written, and then reads the file; nothing needs a broker."""
    table = tmp_path / "answers.csv"
    cells = "\n".join(f"\"Question {n}?\",Ada.,\"['Ada wrote it.', 'Or so.']\",{n}.5,eu" for n in range(20))
    table.write_text(f"question,answer,docs,latency,region\n{cells}\n")
    printed = tapped("answers.csv", "--write-map", "mine.toml", folder=tmp_path)
    assert "20 rows of answers.csv were read, the first ones." in printed
    assert "The map was written to mine.toml." in printed
    assert "\nLeft unread, with the number of the 20 events that have it:\n\n  latency (20), region (20)" in printed
    assert re.search(r"\n  expected: \d+ more need it\n    exact_match, ", printed)
    assert shares(printed)["context_support"] == "100 %"
    assert printed.endswith(" score answers.csv --map mine.toml --out scores.jsonl\n")
    assert (tmp_path / "mine.toml").stat().st_mode & 0o777 == 0o600
    rules = tomllib.loads((tmp_path / "mine.toml").read_text())
    assert rules == {
        "event_id": {"hash": ["question", "answer"]},
        "query": "question",
        "response": "answer",
        "contexts[].text": {"path": "docs", "parse": "python", "then": "[]"},
    }
    again = tapped("answers.csv", "--map", "mine.toml", folder=tmp_path)
    assert again[again.index("Of 20 events") :] == printed[printed.index("Of 20 events") :]
    done = ragweir("score", "answers.csv", "--map", "mine.toml", "--out", "scores.jsonl", folder=tmp_path)
    assert (done.returncode, len((tmp_path / "scores.jsonl").read_bytes().splitlines())) == (0, 20)


def test_a_map_is_not_overwritten_unasked(tmp_path: Path) -> None:
    """Where nobody can be asked, a map that exists is overwritten with --yes alone, and nothing is read before."""
    (tmp_path / "rows.jsonl").write_bytes(foreign(1))
    (tmp_path / "mine.toml").write_text("# by hand\n")
    arguments = ("tap", "rows.jsonl", "--write-map", "mine.toml")
    done = ragweir(*arguments, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert "--yes is required" in done.stderr.decode()
    assert (tmp_path / "mine.toml").read_text() == "# by hand\n"
    assert ragweir(*arguments, "--yes", folder=tmp_path).returncode == 0
    assert 'query = "input.question"' in (tmp_path / "mine.toml").read_text()


def test_half_a_map_of_a_file_is_written_to_be_completed(tmp_path: Path) -> None:
    """A map that lacks required fields is written with comments for them; our own schema needs no map."""
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "question": "Who?", "said": "Ada."}\n')
    printed = tapped("rows.jsonl", "--write-map", "mine.toml", folder=tmp_path, status=1)
    assert "Complete the map in mine.toml, and run this command again with --map mine.toml." in printed
    assert (tmp_path / "mine.toml").read_text().startswith('# response = ""  # required; ')
    (tmp_path / "own.jsonl").write_bytes(own(1))
    printed = tapped("own.jsonl", "--write-map", "none.toml", folder=tmp_path)
    assert "They need no map, so none.toml was not written." in printed
    assert not (tmp_path / "none.toml").exists()


def test_a_ready_map_is_written_to_be_changed(tmp_path: Path) -> None:
    """The ready map that fits can be written to a file, with its comments."""
    file = EXPORTS / "langfuse-3.15.0" / "traces.jsonl"
    printed = tapped(file, "--write-map", "mine.toml", folder=tmp_path)
    assert "The map was written to mine.toml." in printed
    assert "7 of them have JSON as query or response: a path in the map may lead to the text in it." in printed
    assert (tmp_path / "mine.toml").read_text().startswith("# Exports of Langfuse")


def test_score_names_the_ready_map_of_a_rejected_export(tmp_path: Path) -> None:
    """An export without a map is rejected with the option that reads it, which then says nothing of other formats."""
    file = EXPORTS / "langfuse-3.15.0" / "traces.jsonl"
    done = ragweir("score", file, "--out", "scores.jsonl", folder=tmp_path)
    assert done.returncode == 1
    assert done.stderr.decode().endswith("\nThis is an export of Langfuse: add --map langfuse\n0 scored, 60 rejected\n")
    done = ragweir("score", file, "--map", "langfuse", "--out", "scores.jsonl", folder=tmp_path)
    assert done.returncode == 0
    assert done.stderr.decode().splitlines()[-1] == "58 scored, 2 skipped by the map's `where`"
    assert "This is an export" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "ragweir: the file rows.jsonl holds no rows"),
        (b"PK\x03\x04", "ragweir: rows.jsonl"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path, content: bytes, told: str) -> None:
    """An empty file, and one of another format, are told in a sentence."""
    (tmp_path / "rows.jsonl").write_bytes(content)
    done = ragweir("tap", "rows.jsonl", folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().startswith(told)


@pytest.mark.heavy
def test_a_wrong_name_is_told_as_that_of_a_file() -> None:
    """A path that does not exist is no topic; a name with a file's suffix is told to be neither."""
    done = ragweir("tap", "nowhere/rows.jsonl")
    assert (done.returncode, told(done)) == (
        2,
        "ragweir: there is no file nowhere/rows.jsonl (see `ragweir tap --help`)",
    )
    done = ragweir("--bootstrap-servers", "127.0.0.1:1", "tap", "rows.jsonl", RAGWEIR_KAFKA__CLIENT="{}")
    assert done.returncode == 1
    assert told(done).startswith("ragweir: there is no file rows.jsonl here, and of a topic: ")
