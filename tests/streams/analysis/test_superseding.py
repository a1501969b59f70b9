"""One rule says which evaluation of an event counts, for compare, explain, labels and the console."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from ragweir.metrics.criterion import Criterion
from ragweir.streams.analysis.compare.pairing import Pairing
from ragweir.streams.analysis.explain import from_file
from ragweir.streams.analysis.labels.evaluated import read_evaluated
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.load import load_evaluations
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.settings import Settings

COUNTING = {
    "scored again": [("scored", 1), ("scored", 1)],
    "judged later": [("scored", 1), ("judged", 1)],
    "scored late": [("scored", 1), ("judged", 1), ("scored", 1)],
    "sent again": [("scored", 1), ("judged", 1), ("scored", 2)],
    "sent again and judged": [("scored", 1), ("judged", 1), ("scored", 2), ("judged", 2), ("scored", 2)],
    "judged again": [("judged", 1), ("judged", 1)],
}
"""The stages of an event's evaluations and the offsets of their sources, in the order of the file."""
EXPECTED = {"scored again": 1, "judged later": 1, "scored late": 1, "sent again": 2, "sent again and judged": 3}
"""The place of the one that counts."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines: list[dict[str, Any]] = []
    for place in range(max(map(len, COUNTING.values()))):
        for event_id, evaluations in COUNTING.items():
            if place < len(evaluations):
                stage, offset = evaluations[place]
                source = {"topic": "in", "partition": 0, "offset": offset}
                own = {"event_id": event_id, "event_time": "2026-11-20T00:00:00Z", "catalogue_version": "3"}
                lines.append({**own, "stage": stage, "source": source, "scores": {"context_support": float(place)}})
    found = tmp_path / "evaluations.jsonl"
    found.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return found


@pytest.fixture
def expected() -> dict[str, float]:
    return {event_id: float(EXPECTED.get(event_id, 1)) for event_id in COUNTING}


def test_compare(file: Path, expected: dict[str, float], tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    pairing = Pairing([file, file], ["a", "b"], (), tmp_path / "columns")
    before, after = pairing.values("context_support")
    assert np.array_equal(before, after)
    assert dict(zip(pairing.event_ids(range(len(pairing))), before.tolist(), strict=True)) == expected


def test_explain(file: Path, expected: dict[str, float]) -> None:
    for event_id, value in expected.items():
        story = from_file(file, event_id, Settings(), lambda *_: lambda _: None)
        assert story.evaluation is not None
        assert story.evaluation.scores["context_support"] == value, event_id


def test_labels(file: Path, expected: dict[str, float]) -> None:
    support = Criterion("context_support", 0.5, higher_is_better=True, suite=None)
    found = read_evaluated(file, [support], (), lambda _: None)
    assert {event_id: found.values[0][row] for event_id, row in found.rows.items()} == expected


def test_console(file: Path, expected: dict[str, float], tmp_path: Path) -> None:
    with StoreWriter(tmp_path / "store") as writer:
        load_evaluations([file], writer)
    store = AnswerStore(tmp_path / "store")
    answers = [store.found(event_id) for event_id in expected]
    assert {each.event_id: each.scores["context_support"] for each in answers if each} == expected
    store.close()
