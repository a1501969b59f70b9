"""Events that laws are checked on: ordinary ones, every field with every kind of value, and hostile texts.

The corpus is the same on every machine. An event is the fields of an interaction as JSON has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import decode
from ragweir.schemas.interaction import Interaction

Fields = dict[str, Any]
START = 1_764_000_000_000
"""The time of the events, epoch milliseconds."""
MARKER = "quotedzyx"
"""A word of one event's texts, which no reason may have."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -0.0, 1, -1, 0.5, 5e-324, 1.7e308, -1.7e308, 2**53 + 1, 2**63, -(2**63), 2**64 - 1),
    *("", " ", "a", "0", "NaN", "1e999", "2026-11-21T10:00:00Z", "20261121", "\u0000", "\ufeff", "İ", "\u202e[1]" * 9),
    *(START, START // 1000, START * 10**6, str(START * 10**6), 253_402_300_799_999, 10**17),
    "word " * 2_000,
    "9" * 5_000,
    "\u0301\u0323" * 500,
    *([], [[]], [None], [0] * 1_001, ["a"] * 1_001, [{}] * 40, [1.7e308, 1.7e308], ["a", None, 1, True, {}, []]),
    *({}, {"": ""}, {"a": {"a": {"a": []}}}, {"text": "a", "kind": "llm"}, {str(number): "a" for number in range(100)}),
)
"""Values to replace any field by."""

RICH: Fields = {
    "event_id": "rich",
    "query": "What does the policy of Territory 118 cover?",
    "response": "It covers hail [1] and may cost $604 from Dec 9, 2025 [2]. Rule C-1 applies.",
    "started_at": START,
    "first_token_at": START + 480,
    "ended_at": START + 4_230,
    "application": "app",
    "tenant": "tenant",
    "environment": "test",
    "pipeline_version": "v1",
    "model": "m",
    "session_id": "s",
    "trace_id": "t",
    "span_id": "p",
    "labels": {"region": "eu"},
    "question_id": "EF_1",
    "expected": ["* Rule C-1: hail\n* Rule C-2: wind", "It covers hail and costs $604."],
    "answerable": True,
    "finish_reason": "stop",
    "error": "none",
    "history": [{"role": "user", "text": "Hello."}, {"role": "assistant", "text": "Yes?"}],
    "feedback": {"score": 1.0, "label": "up", "comment": "good"},
    "contexts": [
        {
            "text": f"The policy of Territory {number} covers hail from Dec 9, 2025.",
            "chunk_id": f"c{number}",
            "document_id": f"d{number}",
            "score": 0.5,
            "rank": number - 116,
            "page": number,
            "retrieval_method": "hybrid",
            "relevant": 1,
        }
        for number in (117, 118)
    ],
    "retrieval": {"bm25_limit": 10, "knn_limit": 10, "retrieved_before_filter": 12, "relevant_ids": ["c117", "c9"]},
    "extractions": [
        {"field": "peril", "value": value, "chunk_number": 1, "confidence": 0.5, "evidence": "It covers hail."}
        for value in ("hail", "wind")
    ],
    "aggregation": [{"field": "peril", "value": "hail", "confidence": "HIGH"}] * 2,
    "spans": [
        {"kind": kind, "name": "n", "started_at": START + 100, "ended_at": START + 1_300, "error": ""}
        | {"id": "s2", "parent_id": "s1", "input_digest": "i", "output_digest": "o"}
        for kind in ("llm", "tool")
    ],
    "usage": {"input_tokens": 812, "output_tokens": 96, "cost_usd": 0.0004},
    "expected_tools": ["n"],
    "assembly": {"dialect": "d", "spans": 2, "flags": ["incomplete"]},
    "extra": {"own": 1},
}
"""A valid interaction with a value in every field."""

ORDINARY: tuple[Fields, ...] = (
    RICH,
    {"query": "Is flood covered?", "response": "Yes, up to $5,000.", "contexts": [{"text": "Flood: up to $5,000."}]},
    {"query": "Who wrote it?", "response": "I don't know.", "expected": "Ada Lovelace", "answerable": False},
    {"query": "Wer zahlt?", "response": "Die Versicherung zahlt 300 € pro Jahr.", "contexts": [{"text": "300 €"}]},
    {
        "query": "保険料はいくらですか",
        "response": "保険料は三百円です。",
        "contexts": [{"text": "保険料は三百円です。"}],
    },
    {"query": "Compare both plans.", "response": "* Plan A: $20\n* Plan B: $30", "expected": ["Plan B costs more."]},
    {
        "query": "What does the manual say about the deductible?",
        "response": "The deductible is 250 dollars per claim [1]. It may rise to 500 after the second claim [2]. " * 6,
        "contexts": [{"text": "The deductible is 250 dollars per claim, as section 4 of the manual says. " * 12}] * 5,
        "usage": {"input_tokens": 812, "output_tokens": 96, "cost_usd": 0.0004},
    },
)
"""Events as applications publish them, on which the cost of metrics is measured."""

TEXTS: Mapping[str, str] = {
    "spaces": " ",
    "one word": "a",
    "words": "word ",
    "CJK": "保険料は三百円です。",
    "right to left": "الفيضان مغطى حتى 2025. ",
    "emoji": "👩‍🚒🏳️‍🌈",
    "combining marks": "e\u0301\u0301",
    "digits": "9",
    "grouped digits": "1,234,",
    "marks": "* ",
    "brackets": "[][",
    "citations": "[1]",
    "apostrophes": "a'",
    "hyphens": "a-",
    "dots": ".",
    "lines": "\n",
    "capitals": "Aa ",
    "nothing to know": "I don't know. ",
    "sums": "3 x 4 * ",
    "claims": "The insurer covers the roof. ",
    "NUL": "\x00",
    "controls": "\u202e\ufeff\x1b[31m",
    "markup": "<b>**x**</b> ",
    "mixed": "Dec 9, 2025: ₹842.50 naïve 費用は อัตรา الفيضان ½ ﬁ İ ",
}
"""Units of hostile texts, which `text` repeats."""
SIZES = (1, 200, 20_000)
"""Lengths of the texts in characters."""


def text(kind: str, characters: int) -> str:
    """Return a hostile text of about that many characters."""
    unit = TEXTS[kind]
    return unit * max(characters // len(unit), 1)


Path = tuple[str, ...]


def paths(fields: Fields = RICH, above: Path = ()) -> Iterator[Path]:
    """Yield the path of every field of an interaction and of its parts; the items of a list share their paths."""
    for name, value in fields.items():
        yield (*above, name)
        part = value[0] if isinstance(value, list) else value
        if isinstance(part, dict):
            yield from paths(part, (*above, name))


def changed(fields: Any, path: Path, value: Any) -> Any:
    """Return the fields with this value at a path, in every item of the lists on the way."""
    if not path:
        return value
    if isinstance(fields, list):
        return [changed(item, path, value) for item in fields]
    if not isinstance(fields, dict):
        return fields
    return {**fields, path[0]: changed(fields.get(path[0]), path[1:], value)}


def complete(fields: Fields) -> Fields:
    """Return the fields with those that are required and absent."""
    return {"event_id": "law", "ended_at": START, "query": "Who wrote it?", "response": "Ada wrote it."} | fields


def interaction(fields: Fields) -> Interaction | None:
    """Return the interaction that is published with these fields, completed; None if it would be rejected."""
    try:
        return decode(orjson.dumps(complete(fields)))
    except (Rejected, TypeError):
        return None


def events() -> Iterator[Fields]:
    """Yield the events that all laws are checked on."""
    yield from ordinary()
    yield from texts()


def ordinary() -> Iterator[Fields]:
    """Yield ordinary events, an empty one, one without each field, and one whose texts all have the marker."""
    yield from ORDINARY
    yield {"query": "", "response": ""}
    yield {"query": None, "response": None, "contexts": [{"chunk_id": "c1", "score": 0.5}]}
    for name in RICH:
        yield {field: value for field, value in RICH.items() if field != name}
    yield _marked(RICH)


def texts(sizes: Iterable[int] = SIZES) -> Iterator[Fields]:
    """Yield events of hostile texts of some sizes in characters, which are all texts or one of them."""
    for kind in TEXTS:
        for size in sizes:
            long = text(kind, size)
            everywhere = {"query": long, "response": long, "expected": [long]}
            yield everywhere | {"contexts": [{"text": long, "chunk_id": "c"}] * 2}
            yield RICH | {"response": long}
            yield RICH | {"contexts": [{"text": long}, *RICH["contexts"]]}


def with_values(path: Path, fields: Fields = RICH) -> Iterator[Fields]:
    """Yield the event with each of `VALUES` at a path."""
    for value in VALUES:
        yield changed(fields, path, value)


def _marked(value: Any) -> Any:
    """Return the fields with the marker before each text that is free."""
    if isinstance(value, str):
        return f"{MARKER} {value}"
    if isinstance(value, list):
        return [_marked(item) for item in value]
    return {name: _marked(item) for name, item in value.items()} if isinstance(value, dict) else value
