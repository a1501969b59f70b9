"""`ragweir explain`: one event's story, from the topics of a real broker and from files."""

import random
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ROOT, evaluating, ragweir, settled, told
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, create_topic, read_to_end
from poison import event

from ragweir.errors import Unreachable
from ragweir.metrics.aggregation.aggregator import Aggregator
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Decision, Evaluation, Judgement, Source, SuiteDecision
from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.analysis.evaluation_lookup import TopicLookup
from ragweir.streams.analysis.explain import partition_of, windows
from ragweir.streams.runtime.kafka.record_fetcher import RecordFetcher
from ragweir.streams.services.aggregate.windowing import Windowing
from ragweir.streams.services.judge.results import waiting
from ragweir.streams.settings import KafkaSettings, Settings, TopicSettings, WindowSettings

NAMES = (
    "interactions",
    "redrive",
    "evaluations",
    "dead-letter",
    "judge.requests",
    "judge.retry",
    "judge.deferred",
    "control",
)
BY_RULES = {"RAGWEIR_ROUTING__FLOORS": '{"rubric": 0.02, "context_recall": 0.02}'}
"""With a floor by hand, the default rules select for rubric."""
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe [red]:smile:[/red] [/] \x9b31m"
PASSAGE = "The bridge in Mostar was rebuilt in 2004."
RISKY = {
    "event_id": "risky-1",
    "application": "bot",
    "query": "When was the bridge rebuilt?",
    "response": "The bridge was rebuilt in 1871 by Anna Keller for 900 crowns.",
    "contexts": [{"document_id": "d1", "text": PASSAGE}],
    "ended_at": "2026-11-21T10:03:04.230Z",
}


def topics(kafka: SharedBroker, prefix: str) -> None:
    for name in NAMES:
        create_topic(kafka.bootstrap, prefix + name, 3)


def put(kafka: SharedBroker, topic: str, records: Iterable[tuple[str, bytes]]) -> None:
    """Append (key, value) as our producers do: where Java's client would."""
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for key, value in records:
        producer.produce(topic, value, key)
    assert producer.flush(30) == 0


def explain(kafka: SharedBroker, prefix: str, *words: str | Path) -> str:
    done = ragweir("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "explain", *words)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def story(kafka: SharedBroker, prefix: str, *words: str | Path) -> dict[str, Any]:
    told_: dict[str, Any] = orjson.loads(explain(kafka, prefix, *words, "--json"))
    return told_


def has_text_of_risky(printed: str) -> bool:
    """Whether the answer is shown, with its words in no passage and its passage."""
    parts = (
        "answer\n      {response}",
        "in no passage: 1871, Anna, Keller, 900, crowns",
        "nearest passage, 1: {passage}",
    )
    return all(part.format(response=RISKY["response"], passage=PASSAGE) in printed for part in parts)


def evaluation(**fields: Any) -> Evaluation:
    plain = {"event_id": "e", "event_time": datetime(2026, 11, 21, 10, 3, 4, tzinfo=UTC), "catalogue_version": "1"}
    return Evaluation(**plain | fields)


def test_the_partition_is_the_one_that_kafkas_clients_choose(kafka: SharedBroker, prefix: str) -> None:
    """For keys of every length and byte, librdkafka's murmur2 puts the record where we look for it."""
    topic = create_topic(kafka.bootstrap, f"{prefix}topic", 7)
    chance = random.Random(1)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for number in range(400):
        producer.produce(topic, b"", chance.randbytes(1 + number // 4))
    assert producer.flush(30) == 0
    found = read_to_end(kafka.bootstrap, topic)
    assert len(found) == 400
    assert all(partition_of(message.key(), 7) == message.partition() for message in found)


@pytest.mark.heavy
def test_the_story_on_topics(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """It tells an evaluated event's source, scores, reasons, routing and windows, where its request waits, and then
    what the judge said and cost."""
    topics(kafka, prefix)
    interactions = f"{prefix}interactions"
    others = [(f"o{number}", event(event_id=f"o{number}")) for number in range(200)]
    put(kafka, interactions, [*others[:100], ("risky-1", orjson.dumps(RISKY)), *others[100:], ("torn-1", b"{")])
    with evaluating(kafka.bootstrap, prefix, tmp_path, RAGWEIR_JUDGE__BASE_URL="http://127.0.0.1:1/v1", **BY_RULES):
        ends = {
            (interactions, message.partition()): message.offset() + 1
            for message in read_to_end(kafka.bootstrap, interactions)
        }
        settled(kafka.bootstrap, f"{prefix}evaluate", ends)

    stored = {each.key(): each for each in read_to_end(kafka.bootstrap, f"{prefix}evaluations")}[b"risky-1"]
    found = story(kafka, prefix, "risky-1")
    assert found["evaluation"] == orjson.loads(stored.value())
    assert found["found_at"] == f"{stored.topic()}/{stored.partition()}/{stored.offset()}"
    source = found["evaluation"]["source"]
    assert found["source"]["at"] == f"{interactions}/{source['partition']}/{source['offset']}"
    assert [(each["window"], each["start"]) for each in found["windows"]] == [
        ("1m", "2026-11-21T10:03:00Z"),
        ("5m", "2026-11-21T10:00:00Z"),
        ("1h", "2026-11-21T10:00:00Z"),
    ]
    assert found["windows"][0]["dimensions"] == {"application": "bot", "model": "", "pipeline_version": ""}
    assert [each["topic"] for each in found["waits"]] == ["judge.requests"]
    (meaning,) = (metric.meaning for metric in everything() if metric.name == "context_support")
    assert found["metrics"]["context_support"]["meaning"] == meaning

    printed = explain(kafka, prefix, "risky-1")
    assert f"read at {interactions}/{source['partition']}/{source['offset']}, written 20" in printed
    assert (
        f"  unsupported_risk  {found['evaluation']['scores']['unsupported_risk']:g}  ratio, lower is better\n"
        in printed
    )
    assert "rubric: selected; probability 1, because of risk, floor" in printed
    assert "waits in judge.requests" in printed
    assert "  the event has no expected:\n" in printed
    assert [name for name in found["evaluation"]["scores"] if name not in printed] == []

    assert has_text_of_risky(explain(kafka, prefix, "risky-1", "--text", "--evidence"))

    torn = explain(kafka, prefix, "torn-1")
    assert all(part in torn for part in ("It was not evaluated", "by evaluate as not_json: not JSON"))

    scored = Evaluation.model_validate_json(stored.value())
    now = datetime.now(UTC)
    request = JudgeRequest(evaluation=scored, query="", response="")
    deferred = waiting("judge.deferred", request, 0, now, now + timedelta(hours=1), "the day's budget is spent")
    put(kafka, f"{prefix}judge.deferred", [("risky-1", deferred.value or b"")])
    partition = partition_of(b"risky-1", 3)
    judging = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": f"{prefix}judge", "log_level": 0})
    judging.commit(offsets=[TopicPartition(f"{prefix}judge.requests", partition, 1_000)], asynchronous=False)
    judging.close()
    assert [each["topic"] for each in story(kafka, prefix, "risky-1")["waits"]] == ["judge.deferred"]
    assert "waits in judge.deferred since 20" in explain(kafka, prefix, "risky-1")

    suites = (SuiteDecision(suite="rubric", status="judged", probability=1, because=("risk",)),)
    judged = scored.model_copy(
        update={
            "stage": "judged",
            "scores": scored.scores | {"rubric_correctness": 0.25},
            "explanations": {"rubric_correctness": HOSTILE},
            "decision": Decision(suites=suites),
            "judge": Judgement(
                model="m", prompt_version="rubric:1", input_tokens=812, output_tokens=96, cost_usd=0.0004, cached=False
            ),
        }
    )
    put(kafka, f"{prefix}evaluations", [("risky-1", encode(judged))])
    printed = explain(kafka, prefix, "risky-1")
    assert "rubric: judged; probability 1, because of risk" in printed
    assert "m, 812 input and 96 output tokens, $0.000400; rubric:1" in printed
    assert "rubric_correctness  0.25" in printed
    assert r"the judge: \x1b[2J\x1b]0;owned\x07 \u202egnp.exe [red]:smile:[/red] [/] \x9b31m" in printed
    assert "waits in" not in printed
    assert all(character.isprintable() for character in printed.replace("\n", ""))


def test_one_answer_is_read_at_its_positions(kafka: SharedBroker, prefix: str) -> None:
    """As the console's pages read it: nothing is shown of another event, and what retention deleted is gone."""
    interactions, evaluations = (
        create_topic(kafka.bootstrap, prefix + name) for name in ("interactions", "evaluations")
    )
    put(kafka, interactions, [("other", event(event_id="other")), ("risky-1", orjson.dumps(RISKY))])
    sources = [Source(topic=interactions, partition=0, offset=offset) for offset in (1, 0, 7)]
    put(kafka, evaluations, [("risky-1", encode(evaluation(event_id="risky-1", source=each))) for each in sources])
    effective = Settings(kafka=KafkaSettings(bootstrap_servers=kafka.bootstrap), topics=TopicSettings(prefix=prefix))
    with closing(RecordFetcher(effective)) as fetcher:
        lookup = TopicLookup(effective, fetcher)
        first, second, third = (lookup.evaluation((0, offset), "risky-1") for offset in range(3))
        assert first is not None
        assert second is not None
        assert third is not None
        original = lookup.original(first).interaction
        assert original is not None
        assert original.response == RISKY["response"]
        assert lookup.evaluation((0, 0), "other") is None
        assert lookup.evaluation((0, 9), "risky-1") is None
        assert "holds another event" in lookup.original(second).why
        assert "Kafka no longer holds the record" in lookup.original(third).why
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
        for deleted in admin.delete_records([TopicPartition(interactions, 0, 2)]).values():
            deleted.result(30)
        assert "Kafka no longer holds the record" in lookup.original(first).why
    lost = effective.model_copy(update={"kafka": KafkaSettings(bootstrap_servers="127.0.0.1:1")})
    with closing(RecordFetcher(lost)) as fetcher, pytest.raises(Unreachable, match="Kafka has not answered within 2 s"):
        TopicLookup(lost, fetcher).evaluation((0, 0), "risky-1")


@pytest.mark.heavy
def test_an_unknown_event_is_one_sentence(kafka: SharedBroker, prefix: str) -> None:
    """It says how far was looked, with status 1: the newest records only, or all there are, or none."""
    create_topic(kafka.bootstrap, f"{prefix}evaluations", 2)
    partition = partition_of(b"who", 2)
    keys = [f"k{number}" for number in range(200) if partition_of(f"k{number}".encode(), 2) == partition]
    put(kafka, f"{prefix}evaluations", [(key, encode(evaluation(event_id=key))) for key in keys])
    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix, "explain")
    for words, how in (((), f"all {len(keys)}"), (("--newest", "20"), "only the newest 20")):
        done = ragweir(*shared, "who", *words)
        assert done.returncode == 1
        assert f"nothing of the event who in {prefix}evaluations/{partition} ({how} records)" in told(done)
    assert explain(kafka, prefix, keys[-1], "--newest", "20")
    assert ragweir(*shared, keys[0], "--newest", "20").returncode == 1
    assert explain(kafka, prefix, keys[0], "--since", "1h")
    assert ragweir(*shared, "who", "--since", "soon").returncode == 2
    assert "there is no topic" in told(ragweir(*shared, "who", "--run", "r1"))
    create_topic(kafka.bootstrap, f"{prefix}run.r1.evaluations")
    put(kafka, f"{prefix}run.r1.evaluations", [("who", encode(evaluation(event_id="who", run_id="r1")))])
    assert ", run r1, " in explain(kafka, prefix, "who", "--run", "r1")


@pytest.mark.heavy
def test_of_a_record_with_several_events_the_right_one_is_named(tmp_path: Path) -> None:
    """Its place is shown where it is above 0, and by no evaluation of another event of the record."""
    file = tmp_path / "evaluations.jsonl"
    places = [Source(topic="t", partition=0, offset=7, index=index) for index in range(3)]
    file.write_bytes(b"".join(encode(evaluation(event_id=f"e{p.index}", source=p)) + b"\n" for p in places))
    printed = [ragweir("explain", f"e{p.index}", "--file", file).stdout.decode().splitlines() for p in places]
    assert [next(line for line in lines if line.startswith("read at")) for lines in printed] == [
        "read at t/0/7",
        "read at t/0/7, index 1",
        "read at t/0/7, index 2",
    ]
    found = orjson.loads(ragweir("explain", "e2", "--file", file, "--json").stdout)
    assert (found["times_evaluated"], found["evaluation"]["source"]["index"]) == (1, 2)


def test_the_story_in_a_file(tmp_path: Path) -> None:
    """A file that `score` wrote tells it without a broker, with the evidence; a judged evaluation counts most."""
    source, file = tmp_path / "events.jsonl", tmp_path / "evaluations.jsonl"
    source.write_bytes(b"\n".join([event(), orjson.dumps(RISKY), event(event_id="last")]))
    assert ragweir("score", source, "--explain", "--out", file).returncode == 0
    line = file.read_bytes().splitlines()[1]
    found = orjson.loads(ragweir("explain", "risky-1", "--file", file, "--json").stdout)
    assert found["evaluation"] == orjson.loads(line)
    assert found["found_at"] == f"{file}, line 2"
    assert found["source"] is None
    printed = ragweir("explain", "risky-1", "--file", file).stdout.decode()
    assert "read at events.jsonl/0/2\n" in printed
    for name, pieces in found["evaluation"]["evidence"].items():
        assert name in printed
        assert f"- {pieces[0]}" in printed
    judged = Evaluation.model_validate_json(line).model_copy(update={"stage": "judged"})
    file.write_bytes(b"not json\n" + encode(judged) + b"\n" + line + b"\n")
    found = orjson.loads(ragweir("explain", "risky-1", "--file", file, "--json").stdout)
    assert (found["evaluation"]["stage"], found["times_evaluated"]) == ("judged", 1)
    assert f"nothing of the event no in {file} (all 3 records)" in told(ragweir("explain", "no", "--file", file))


def test_the_texts_are_shown_if_the_evaluation_has_them(tmp_path: Path) -> None:
    file, out = tmp_path / "events.jsonl", tmp_path / "evaluations.jsonl"
    shown = []
    for include in ("false", "true"):
        file.write_bytes(orjson.dumps(RISKY))
        assert ragweir("score", file, "--out", out, RAGWEIR_OUTPUT__INCLUDE_TEXT=include).returncode == 0
        file.unlink()
        shown.append(ragweir("explain", "risky-1", "--file", out).stdout.decode())
    assert RISKY["response"] not in shown[0]
    assert has_text_of_risky(shown[1])


def test_hostile_events_are_shown_safely(tmp_path: Path) -> None:
    """Whatever stands on an evaluation, a terminal gets printable characters."""
    hostile = evaluation(
        event_id=HOSTILE,
        application=HOSTILE,
        labels={HOSTILE: HOSTILE},
        scores={HOSTILE: 1.0, "context_support": None, f"{HOSTILE}2": None},
        categories={"refusal_kind": HOSTILE},
        reasons={"context_support": HOSTILE},
        flags=(HOSTILE,),
        explanations={HOSTILE: HOSTILE},
        evidence={HOSTILE: (HOSTILE,)},
        decision=Decision(suites=(SuiteDecision(suite=HOSTILE, status="failed", probability=0, because=(HOSTILE,)),)),
        document_ids=(HOSTILE,),
        catalogue_version=HOSTILE,
        run_id=HOSTILE,
    )
    file = tmp_path / "file.jsonl"
    file.write_bytes(encode(hostile))
    done = ragweir("explain", HOSTILE, "--file", file, folder=ROOT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(character.isprintable() for character in done.stdout.decode().replace("\n", ""))


def test_windows_are_those_that_the_event_is_counted_in() -> None:
    """Starts, sizes and label sets are those of the windows that a file's evaluations come to."""
    settings = WindowSettings(
        sizes=("30s", "5m", "6h", "7d"), dimensions=("application", "labels.region"), values={"application": ("a",)}
    )
    start = datetime(1969, 12, 30, tzinfo=UTC)
    for number in range(50):
        one = evaluation(
            event_time=start + number * timedelta(hours=7.77),
            application="a" if number % 2 else "b",
            labels={"region": "x" * 10 * number},
        )
        windowing = Windowing(settings, Aggregator(Catalogue([])))
        windowing.add(one)
        counted = [(each.size, each.start, each.end, each.dimensions) for each in windowing.windows()]
        assert [(each.window, each.start, each.end, each.dimensions) for each in windows(one, settings)] == counted
    assert list(windows(evaluation(event_time=datetime.max.replace(tzinfo=UTC)), settings)) == []
