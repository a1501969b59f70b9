"""The texts that a rater reads are those of the wanted events alone."""

from dataclasses import replace

import pytest

from ragweir.schemas.codec.decoder import JsonDecoder
from ragweir.schemas.codec.mapping import FieldMap
from ragweir.schemas.interaction import Message
from ragweir.streams.analysis.labels.event_texts import EventTexts, TextsAgent
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateConfig
from ragweir.streams.services.evaluate.from_settings import evaluate_config
from ragweir.streams.settings import Settings

TEXTS = b'"query":"?","response":"!","ended_at":"2026-11-21T10:00:00Z"'
CONFIG = evaluate_config(Settings(), "file", is_file=True)


def found(*values: bytes | None, config: EvaluateConfig = CONFIG) -> dict[str, EventTexts]:
    texts: dict[str, EventTexts] = {}
    agent = TextsAgent(config, {"7", "a"}, texts, EventTexts.of)
    records = [Record("file", 0, number, None, value, None) for number, value in enumerate(values, 1)]
    outcome = agent.handle(records)
    assert outcome.settled == records
    assert outcome.emissions == []
    return texts


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        (b'{"event_id":"7",' + TEXTS + b"}", ["7"]),
        (b'{"event_id":7,' + TEXTS + b"}", ["7"]),
        (b'{"event_\\u0069d":"\\u0037",' + TEXTS + b"}", ["7"]),
        (b'{"event_id":"8",' + TEXTS + b',"extra":{"event_id":"7"}}', []),
        (b'{"event_id":7.0,' + TEXTS + b"}", []),
        (b'{"event_id":"7","query":"?","response":null,"ended_at":1}', []),  # Its answer was not captured.
        (b'{"event_id":"7","query":null,"response":"!","ended_at":1}', []),
        (b'{"event_id":"7"', []),
        (None, []),
    ],
)
def test_an_event_is_kept_if_its_id_is_wanted_and_it_has_texts(value: bytes | None, ids: list[str]) -> None:
    assert list(found(value)) == ids


def test_the_first_of_an_id_counts() -> None:
    rows = (b'{"event_id":"a","query":"%b","response":"!","ended_at":1}' % query for query in (b"1", b"2"))
    assert found(*rows)["a"].query == "1"


def test_the_conversation_and_the_passages_are_kept() -> None:
    more = b',"history":[{"role":"user","text":"Hi"}],"contexts":[{"text":null,"score":0.9},{"text":"t"}]}'
    texts = found(b'{"event_id":"a",' + TEXTS + more)["a"]
    assert texts.history == (Message(role="user", text="Hi"),)
    assert [each.text for each in texts.contexts or ()] == [None, "t"]
    assert found(b'{"event_id":"a",' + TEXTS + b"}")["a"].contexts is None


def test_a_map_names_the_id() -> None:
    """The event's own field `event_id` is not its id then."""
    mapping = FieldMap.parse('event_id = "id"\nquery = "query"\nresponse = "response"\nended_at = "ended_at"\n')
    decoder = JsonDecoder(CONFIG.max_event_bytes, CONFIG.max_items, mapping)
    mapped = replace(CONFIG, decoders={"file": decoder})
    rows = b'{"event_id":"7","id":"a",' + TEXTS + b"}", b'{"event_id":"a","id":"7",' + TEXTS + b"}"
    assert list(found(*rows, config=mapped)) == ["a", "7"]
