"""`ragweir score --control`: the decisions that evaluate makes with the same rows."""

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from commands import ragweir, told
from hypothesis import given
from hypothesis import strategies as st

from ragweir.errors import ConfigurationError
from ragweir.schemas.codec.json import encode
from ragweir.schemas.routing_row import RoutingRow, encode_row_key
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.services.shared.routing_rows import RowSource, RowTable
from ragweir.streams.services.shared.row_file import read_row_file
from ragweir.streams.settings import Settings

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
WORDS = "the roof of tiles and bricks is red old new covers not pays for water damage".split()
URL = "http://127.0.0.1:9/v1"


def row(hours: int, application: str | None, bin: int, floor: float) -> RoutingRow:
    time = BEGIN + timedelta(hours=hours)
    return RoutingRow(
        application=application, effective_at=time, share=0.3, floor_share=0.25, bin=bin, at_bin=0.5, floor=floor
    )


def record(row: RoutingRow, lead: timedelta) -> Record:
    written_ms = int((row.effective_at - lead).timestamp() * 1_000)
    return Record("control", 0, 0, encode_row_key(row.application, row.effective_at), encode(row), written_ms)


def events(count: int) -> list[bytes]:
    chance = random.Random(5)
    return [
        orjson.dumps(
            {
                "event_id": f"e{number}",
                "application": chance.choice(("docs", "chat", None)),
                "query": "What does the roof cover?",
                "response": " ".join(chance.choices(WORDS, k=8)) + ".",
                "contexts": [{"text": " ".join(chance.choices(WORDS, k=9)) + "."}],
                "ended_at": (BEGIN + timedelta(hours=chance.uniform(0, 12))).isoformat(),
            }
        )
        for number in range(count)
    ]


def decisions(lines: list[bytes]) -> dict[str, Any]:
    return {each["event_id"]: each["decision"] for each in map(orjson.loads, lines)}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_decisions_are_those_of_evaluate(tmp_path: Path, workers: int) -> None:
    """With the rows that have an effect on evaluate, which reads a topic in another order."""
    found, values = RowTable(), events(200)
    hour = timedelta(hours=1)
    rows = [row(2, "docs", 50, 0.1), row(8, "docs", 20, 0.3), row(4, None, -1, 0.2)]
    found.add([record(each, hour) for each in reversed(rows)])
    found.add([record(row(6, "docs", 99, 1.0), hour / 2)])  # Too late.
    config = evaluate_config(Settings(judge={"base_url": URL}), "file.jsonl", is_file=True)  # type: ignore[arg-type]
    live = EvaluateAgent(replace(config, rows=RowSource(found.rows())))
    outcome = live.handle([Record("interactions", 0, number, None, value, 0) for number, value in enumerate(values)])
    expected = decisions([each.value or b"" for each in outcome.emissions if each.topic == "evaluations"])

    file, control = tmp_path / "file.jsonl", tmp_path / "rows.jsonl"
    file.write_bytes(b"\n".join(values))
    control.write_bytes(b"".join(encode(each) + b"\n" for each in found.held))
    command = ("score", file, "--workers", str(workers))
    done = ragweir(*command, "--control", control, RAGWEIR_JUDGE__BASE_URL=URL)
    assert decisions(done.stdout.splitlines()) == expected
    revisions = {each["row"] for decision in expected.values() for each in decision["suites"] if "row" in each}
    assert len(revisions) == len(rows) + 1
    if workers == 1:
        without = ragweir(*command, RAGWEIR_JUDGE__BASE_URL=URL)
        assert decisions(without.stdout.splitlines()) != expected


@pytest.mark.heavy
def test_a_file_that_is_none_is_one_sentence(tmp_path: Path) -> None:
    file, control = tmp_path / "file.jsonl", tmp_path / "rows.jsonl"
    file.write_bytes(events(1)[0])
    control.write_bytes(b"\n" + encode(row(2, "docs", 50, 0.1)) + b"\n{}\n")
    command = ("score", file, "--control", control)
    assert f"{control}, line 3: not a routing row" in told(ragweir(*command, RAGWEIR_JUDGE__BASE_URL=URL))
    assert "--control has no effect" in told(ragweir(*command))
    floor = {"RAGWEIR_JUDGE__BASE_URL": URL, "RAGWEIR_ROUTING__SHARE": "0"}
    assert "--control has no effect" in told(ragweir(*command, **floor))
    missing = ragweir("score", file, "--control", tmp_path / "none", RAGWEIR_JUDGE__BASE_URL=URL)
    assert "none cannot be read: No such file" in told(missing)
    assert "is named twice" in told(ragweir(*command, "--out", control, RAGWEIR_JUDGE__BASE_URL=URL))


@given(st.binary(max_size=200) | st.sampled_from([b"[" * 100_000, b" " * 20_000 + b"{}", b'{"bin": 1e400}', b"\xff"]))
def test_bytes_that_are_no_rows_are_an_error(tmp_path_factory: pytest.TempPathFactory, value: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "hostile.jsonl"
    file.write_bytes(value)
    if value.strip():
        with pytest.raises(ConfigurationError, match="not a routing row"):
            list(read_row_file(file))
    else:
        assert list(read_row_file(file)) == []
