"""`ragweir compare` of Parquet: the same as of JSON lines, whether scores are read as columns or through JSON."""

import random
import sys
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

import ragweir
from ragweir.errors import RagweirError
from ragweir.metrics.catalogue import everything
from ragweir.streams.analysis.compare import parquet_columns
from ragweir.streams.analysis.compare.compare import compare
from ragweir.streams.analysis.compare.comparison import Comparison

METRICS = {metric.name: metric for metric in everything()}
BY = ("application", "labels.region", "session_id")


def evaluations(seed: int, count: int = 1_500) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {
            "event_id": f"e{number}",
            "catalogue_version": "3",
            "application": chance.choice(["a", "b"]),
            "labels": {"region": ["eu", "us"][number % 2]},
            "session_id": f"s{number // 5}",
            "scores": {
                "context_support": chance.choice([None, chance.random()]),
                "refusal": float(chance.random() < 0.1),
                "cost_usd": None,
                "total_latency_ms": chance.randrange(5_000),
            },
            "categories": {"answer_class": chance.choice(["RIGHT", "WRONG", None])},
        }
        for number in range(count)
    ]


def written(folder: Path, rows: list[dict[str, Any]], name: str, form: str) -> Path:
    lines = folder / f"{name}.jsonl"
    lines.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    if form == "jsonl":
        return lines
    file = folder / f"{name}.parquet"
    # Strings of numbers among the scores are no numbers: they are read through JSON, and rejected as in JSON lines.
    duckdb.sql(f"copy (select * from read_json('{lines}')) to '{file}' (format parquet)")
    return file


def compared(folder: Path, form: str) -> Comparison:
    files = [written(folder, evaluations(seed), name, form) for seed, name in ((1, "a"), (2, "b"))]
    return compare((files[0], files[1]), ("a", "b"), BY, METRICS)


@pytest.mark.slow
def test_parquet_is_compared_as_json_lines_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each score, category, dimension, session and changed event, with values that are null everywhere."""
    lines, columns = compared(tmp_path, "jsonl"), compared(tmp_path, "parquet")
    assert lines.pairs == 1_500
    assert lines.clusters == 300
    assert {metric.metric for metric in lines.metrics} >= {"context_support", "cost_usd", "refusal"}
    assert columns == lines
    file = tmp_path / "a.parquet"
    assert parquet_columns.score_columns(file, "a") == {
        "context_support": True,
        "refusal": True,
        "cost_usd": False,
        "total_latency_ms": True,
    }
    monkeypatch.setattr(parquet_columns, "score_columns", lambda *_: {})
    assert compared(tmp_path, "parquet") == lines


@pytest.mark.slow
def test_scores_that_are_no_numbers_are_rejected(tmp_path: Path) -> None:
    rows = [{**row, "scores": {"context_support": "high"}} for row in evaluations(1, 20)]
    file = written(tmp_path, rows, "c", "parquet")
    assert parquet_columns.score_columns(file, "c") == {}
    with pytest.raises(RagweirError, match="cannot be read as evaluations"):
        compare((file, file), ("c", "c"), (), METRICS)
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(file.read_bytes()[:200])
    with pytest.raises(RagweirError, match="torn cannot be read"):
        compare((torn, file), ("torn", "c"), (), METRICS)


def test_json_lines_are_compared_without_duckdb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only Parquet needs the package, and says so."""
    lines = [written(tmp_path, evaluations(seed, 50), f"{seed}", "jsonl") for seed in (1, 2)]
    parquet = written(tmp_path, evaluations(1, 50), "table", "parquet")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert compare((lines[0], lines[1]), ("a", "b"), BY, METRICS).pairs == 50
    with pytest.raises(RagweirError, match=r"Parquet needs the package duckdb; pip install 'ragweir\[compare\]'"):
        compare((parquet, lines[1]), ("a", "b"), BY, METRICS)
    assert "duckdb" not in (ragweir.compare.__doc__ or "").partition("Raises:")[0]
