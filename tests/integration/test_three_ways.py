"""Three ways in, one result: published through a map, read from a foreign topic through it, and scored from a file."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ROOT, evaluating, ragweir, settled
from confluent_kafka.admin import AdminClient
from conftest import SharedBroker, committed, create_topic, produce, read_to_end

MAP = ROOT / "deploy" / "maps" / "mtrag.toml"
DATA = ROOT.parent / "shared" / "data" / "mtrag.jsonl"


def foreign(number: int, **fields: Any) -> dict[str, Any]:
    """One event in the foreign shape."""
    return {
        "task_id": f"task-{number}",
        "model": "example-model",
        "question": "When was the bridge in Mostar rebuilt?",
        "contexts": [
            {"document_id": "d1", "text": "The old bridge was rebuilt on 23 July 2004.", "title": "Bridge"},
            {"document_id": "d2", "text": "It was first finished in 1566."},
        ],
        "response": "It was rebuilt in 2004 [1].",
        "targets": [{"speaker": "agent", "text": "In 2004."}],
        "answerability": ["ANSWERABLE"],
        "collection": "bridges",
        **fields,
    }


SAMPLE = (
    foreign(1),
    foreign(2, contexts=[]),
    foreign(3, contexts=None, targets=None),
    foreign(4, contexts=[{"document_id": 7, "text": {"b": [1, 2.50, None], "a": "x"}}, {"text": "no id"}, {}]),
    foreign(5, question="橋はいつ再建されましたか?", response="2004年です。"),
    foreign(6, question="متى أعيد بناء الجسر؟", response="في عام 2004."),
    foreign(7, response="I'm sorry, I don't know."),
    foreign(8, response=""),
    foreign(9, question="\U0001f309" * 50, response="e\u0301\u0000\u2028" * 50),
    foreign(10, task_id=2**63, model=5, collection=1.5, answerability=[]),
    foreign(11, response="word " * 30_000),
    foreign(12, contexts=[{"document_id": f"d{number}", "text": f"chunk {number}"} for number in range(100)]),
    foreign(13, targets=[{"text": "In 2004."}, {"text": "On 23 July 2004."}]),
    foreign(14, unknown={"deep": [[]]}, human={"faithfulness": 4}),
)
REFUSED = (
    b"not json",
    b"[]",
    orjson.dumps(foreign(20, contexts="no list")),
    orjson.dumps(foreign(21, model=None)),
    orjson.dumps(foreign(22, question=["no text"])),
    orjson.dumps(foreign(23, response="x" * 1_100_000)),
    orjson.dumps(foreign(24)).replace(b"bridges", rb"\ud800"),
)


def without_source(evaluations: list[bytes]) -> list[bytes]:
    """Evaluations as bytes but for `source`, in the order of their ids."""
    read = [orjson.loads(evaluation) for evaluation in evaluations]
    for evaluation in read:
        assert evaluation.pop("source")["topic"]
    return [orjson.dumps(evaluation) for evaluation in sorted(read, key=lambda each: str(each["event_id"]))]


def evaluated(kafka: SharedBroker, prefix: str, topic: str, folder: Path, *flags: str | Path) -> list[bytes]:
    """What the evaluate service makes of a topic."""
    ends: dict[tuple[str, int], int] = {}
    for message in read_to_end(kafka.bootstrap, topic):
        ends[topic, message.partition()] = message.offset() + 1
    with evaluating(kafka.bootstrap, prefix, folder, *flags):
        settled(kafka.bootstrap, f"{prefix}evaluate", ends)
    return [message.value() for message in read_to_end(kafka.bootstrap, f"{prefix}evaluations")]


def groups_with_offsets(kafka: SharedBroker, topic: str) -> set[str]:
    """The consumer groups that have committed anything of a topic."""
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap, "log_level": 0})
    found = set()
    for group in admin.list_consumer_groups().result(30).valid:
        if any(at.topic == topic and at.offset >= 0 for at in committed(admin, group.group_id).values()):
            found.add(group.group_id)
    return found


def must_agree(kafka: SharedBroker, prefix: str, lines: list[bytes], refused: int, folder: Path) -> None:
    """Send the lines all three ways and compare what comes out."""
    file = folder / "foreign.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    shared = ("--bootstrap-servers", kafka.bootstrap)
    status = 1 if refused else 0

    scored = ragweir("score", file, "--map", MAP)
    assert scored.returncode == 0, scored.stderr.decode()
    by_file = without_source(scored.stdout.splitlines())
    assert len(by_file) == len(lines) - refused

    ours = f"{prefix}ours."
    assert ragweir(*shared, "--prefix", ours, "topics", "create", RAGWEIR_TOPICS__PARTITIONS="2").returncode == 0
    published = ragweir(*shared, "--prefix", ours, "publish", file, "--map", MAP)
    assert published.returncode == status, published.stderr.decode()
    assert without_source(evaluated(kafka, ours, f"{ours}interactions", folder)) == by_file

    theirs, topic = f"{prefix}theirs.", f"{prefix}foreign-answers"
    assert ragweir(*shared, "--prefix", theirs, "topics", "create", RAGWEIR_TOPICS__PARTITIONS="2").returncode == 0
    create_topic(kafka.bootstrap, topic, 3, {"max.message.bytes": "2000000"})
    produce(kafka.bootstrap, topic, lines)
    before = [(each.partition(), each.offset(), each.value()) for each in read_to_end(kafka.bootstrap, topic)]
    through_topic = evaluated(kafka, theirs, topic, folder, "--input-topic", topic, "--map", MAP)
    assert without_source(through_topic) == by_file
    assert len(read_to_end(kafka.bootstrap, f"{theirs}dead-letter")) == refused

    after = [(each.partition(), each.offset(), each.value()) for each in read_to_end(kafka.bootstrap, topic)]
    assert after == before, "a foreign topic is only read"
    assert groups_with_offsets(kafka, topic) == {f"{theirs}evaluate", f"{theirs}evaluate.progress"}
    assert read_to_end(kafka.bootstrap, f"{theirs}interactions") == []


@pytest.mark.heavy
def test_a_sample_of_every_kind_goes_three_ways(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Every kind of input, rejected ones among them, gives the same evaluations by each way, byte for byte."""
    lines = [orjson.dumps(event) for event in SAMPLE] + list(REFUSED)
    must_agree(kafka, prefix, lines, len(REFUSED), tmp_path)


def test_real_interactions_go_three_ways(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Real questions, contexts and answers give the same evaluations by each way, byte for byte."""
    if not DATA.exists():
        pytest.skip("the MTRAG answers are not here: ../shared/data/mtrag.jsonl")
    must_agree(kafka, prefix, DATA.read_bytes().splitlines(), 0, tmp_path)


@pytest.mark.heavy
def test_events_that_the_map_does_not_select_are_counted_in_all_three_ways(
    kafka: SharedBroker, prefix: str, tmp_path: Path
) -> None:
    """They are neither sent nor dead letters, and their offsets are committed."""
    lines = [orjson.dumps({"id": number, "q": "Who?", "a": "Ada.", "kind": number % 3}) for number in range(9)]
    chosen = tmp_path / "map.toml"
    chosen.write_text(
        'event_id = "id"\nquery = "q"\nresponse = "a"\nended_at = { constant = 2026-11-21T00:00:00Z }\n'
        'where = { path = "kind", in = [0, 1] }\n'
    )
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join(lines) + b"\n")
    scored = ragweir("score", file, "--map", chosen)
    assert (scored.returncode, len(scored.stdout.splitlines())) == (0, 6)
    assert b"6 scored, 3 skipped by the map's `where`" in scored.stderr

    shared = ("--bootstrap-servers", kafka.bootstrap, "--prefix", prefix)
    assert ragweir(*shared, "topics", "create", RAGWEIR_TOPICS__PARTITIONS="2").returncode == 0
    published = ragweir(*shared, "publish", file, "--map", chosen)
    assert published.returncode == 0
    assert b"6 published" in published.stderr
    assert b", 3 skipped by the map's `where`" in published.stderr
    assert len(read_to_end(kafka.bootstrap, f"{prefix}interactions")) == 6

    topic = f"{prefix}foreign-answers"
    create_topic(kafka.bootstrap, topic, 1, {})
    produce(kafka.bootstrap, topic, lines)
    assert len(evaluated(kafka, prefix, topic, tmp_path, "--input-topic", topic, "--map", chosen)) == 6
    assert read_to_end(kafka.bootstrap, f"{prefix}dead-letter") == []
