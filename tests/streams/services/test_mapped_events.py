"""Maps in agents and commands: events that are skipped are counted, and rows are numbered only where there are rows."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from click.testing import Result
from typer.testing import CliRunner
from typing_extensions import override

from ragweir.errors import ConfigurationError, Rejected
from ragweir.metrics.catalogue import Catalogue
from ragweir.schemas.codec.decoder import MAX_EVENTS, Decoder, JsonDecoder, Skipped
from ragweir.schemas.codec.json import interaction
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.interaction import Interaction
from ragweir.streams.commands.app import app
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import load

MAP = """
where = { path = "kind", in = ["chain"] }
event_id = { row = true }
query = "q"
response = "a"
"""
ROWS = [
    {"kind": "chain", "q": "Who?", "a": "Ada."},
    {"kind": "tool"},
    {"kind": "chain", "q": "Who?"},
    {"kind": "chain", "q": "Who?", "a": "Bob."},
]


def test_an_event_that_the_map_does_not_select_is_counted_and_leaves_nothing() -> None:
    agent = EvaluateAgent(EvaluateConfig(Catalogue([]), decoders={"t": JsonDecoder(mapping=FieldMap.parse(MAP))}))
    records = [Record("t", 0, offset, None, orjson.dumps(row), 0) for offset, row in enumerate(ROWS, 1)]
    outcome = agent.handle(records)
    assert [(each.topic, each.key) for each in outcome.emissions] == [
        ("evaluations", b"1"),
        ("dead-letter", None),
        ("evaluations", b"4"),
    ]
    assert outcome.settled == records
    assert outcome.counts["ragweir_filtered_total",] == 1
    assert outcome.counts["ragweir_evaluations_total", "scored"] == 2
    assert list(agent.recovery.identities(records[1])) == []
    assert list(agent.evaluate(records[1])) == []


class Skipping(Decoder):
    """Skips more events than a record may hold, before the only one."""

    @override
    def events(self, value: bytes | None) -> Iterator[Interaction | Rejected | Skipped]:
        yield from [Skipped()] * (MAX_EVENTS + 1)
        yield interaction({"event_id": "1", "query": "", "response": "", "ended_at": 0})


def test_skipped_events_are_no_events_of_a_record() -> None:
    agent = EvaluateAgent(EvaluateConfig(Catalogue([]), decoders={"t": Skipping()}))
    outcome = agent.handle([Record("t", 0, 7, None, b"", 0)])
    (emission,) = outcome.emissions
    assert "index" not in orjson.loads(emission.value or b"")["source"]
    assert outcome.counts["ragweir_filtered_total",] == MAX_EVENTS + 1


def test_only_a_file_has_rows(tmp_path: Path) -> None:
    """A service does not start with such a map, since an offset would make two events of one that is sent twice."""
    file = tmp_path / "map.toml"
    file.write_text(MAP)
    settings = load(None, {"input": {"map": file}})
    assert evaluate_config(settings, "file", is_file=True).decoders
    with pytest.raises(ConfigurationError, match=r"a rule with `row`, which only `score` and `publish` know.*hash"):
        evaluate_config(settings, "topic")


def score(folder: Path) -> Result:
    (folder / "map.toml").write_text(MAP + "ended_at = { constant = 2026-11-21T00:00:00Z }")
    (folder / "rows.jsonl").write_bytes(b"\n".join(map(orjson.dumps, ROWS)))
    return CliRunner().invoke(app, ["score", str(folder / "rows.jsonl"), "--map", str(folder / "map.toml")])


@pytest.mark.slow
def test_score_says_how_many_rows_were_skipped(tmp_path: Path) -> None:
    result = score(tmp_path)
    assert result.exit_code == 0
    assert [orjson.loads(line)["event_id"] for line in result.stdout.splitlines()] == ["1", "4"]
    assert "2 scored, 1 rejected, 1 skipped by the map's `where`" in result.stderr
