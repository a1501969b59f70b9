"""Poison of every kind: bytes that are no interaction, each with the error class that it has to end as."""

from dataclasses import dataclass
from typing import Any, Final, get_args

import orjson

from ragweir.errors import ErrorClass
from ragweir.schemas.codec.intake import REQUIRED
from ragweir.schemas.interaction import Interaction, RecordPart
from ragweir.schemas.topics import MAX_EVENT_BYTES


def _models(annotation: Any) -> list[type[RecordPart]]:
    """The records that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, RecordPart):
        return [annotation]
    return [model for each in get_args(annotation) for model in _models(each)]


PARTS: Final = {
    name: models[0] for name, field in Interaction.model_fields.items() if (models := _models(field.annotation))
}
"""The parts of an interaction by their fields."""
MARK: Final = "Xq7Secret"
"""Stands for the text of users: planted in values and in keys, it must never be told to anybody."""

GOOD: Final[dict[str, Any]] = {
    "event_id": "event-1",
    "ended_at": "2026-11-21T10:00:04.230Z",
    "query": "Who wrote the first program?",
    "response": "Ada Lovelace.",
}

_HOSTILE: Final[dict[str, Any]] = {MARK: [MARK, {MARK: MARK}]}
_ITEM: Final = [_HOSTILE | {"text": MARK}, MARK]

WRONG: Final[dict[str, tuple[Any, ...]]] = {
    "event_id": (None, "", MARK * 30, [MARK], _HOSTILE, True, 1.5, 1e300),
    "query": ([MARK], _HOSTILE, True),
    "response": ([MARK], _HOSTILE, False),
    "started_at": (MARK, "", [MARK], _HOSTILE, True, 1e300, -1e300, "2026-13-01T00:00:00Z"),
    "ended_at": (MARK, f"2026-11-21T10:00:00{MARK}", [MARK], True, 1e300, -1e300, "2026-02-30T00:00:00Z"),
    "first_token_at": (MARK, [MARK], _HOSTILE, 1e300),
    "application": ([MARK], _HOSTILE, True),
    "tenant": ([MARK], _HOSTILE, True),
    "environment": ([MARK], _HOSTILE, True),
    "pipeline_version": ([MARK], _HOSTILE, True),
    "model": ([MARK], _HOSTILE, True),
    "session_id": ([MARK], _HOSTILE, True),
    "trace_id": ([MARK], _HOSTILE, True),
    "span_id": ([MARK], _HOSTILE, True),
    "labels": (MARK, [MARK], 5, {MARK: [MARK]}, {MARK: _HOSTILE}, {f"{MARK}.a[0]": None}, {"": {"": MARK}}),
    "question_id": ([MARK], _HOSTILE, True),
    "expected": (_HOSTILE, [[MARK]], [_HOSTILE], [None], 5, True),
    "answerable": (MARK, [MARK], _HOSTILE, 5),
    "finish_reason": ([MARK], _HOSTILE, True),
    "history": (MARK, _HOSTILE, [MARK], [_HOSTILE], [{"role": MARK}], [{"text": MARK}], [{"role": [MARK], "text": ""}]),
    "feedback": (MARK, [MARK], {"score": MARK}, {"score": [MARK]}, {"label": _HOSTILE}, {"comment": [MARK]}),
    "contexts": (
        MARK,
        _HOSTILE,
        _ITEM,
        [{"rank": MARK}],
        [{"rank": 1.5}],
        [{"score": MARK}],
        [{"score": _HOSTILE}],
        [{"chunk_id": [MARK]}],
        [{"document_id": _HOSTILE}],
        [{"page": [MARK]}],
        [{"retrieval_method": [MARK]}],
        [{"relevant": MARK}],
        [{"relevant": -1}],
    ),
    "retrieval": (
        MARK,
        [MARK],
        {"bm25_limit": MARK},
        {"knn_limit": -1},
        {"relevant_ids": MARK},
        {"relevant_ids": [[MARK]]},
    ),
    "extractions": (
        MARK,
        _HOSTILE,
        [MARK],
        [{"confidence": MARK * 30}],
        [{"confidence": 1.5}],
        [{"confidence": [MARK]}],
        [{"field": [MARK]}],
        [{"chunk_number": MARK}],
    ),
    "aggregation": (MARK, _HOSTILE, [MARK], [{"field": _HOSTILE}], [{"confidence": -1}]),
    "spans": (
        MARK,
        _HOSTILE,
        [MARK],
        [{}],
        [{"kind": MARK}],
        [{"kind": "llm", "started_at": MARK}],
        [{"kind": MARK}] * 9,
    ),
    "expected_tools": (MARK, _HOSTILE, [[MARK]], [None], 5),
    "assembly": (
        MARK,
        [MARK],
        {"dialect": [MARK]},
        {"spans": MARK},
        {"spans": -1},
        {"flags": MARK},
        {"flags": [MARK]},
        {"flags": [None, _HOSTILE]},
    ),
    "usage": (MARK, [MARK], {"input_tokens": MARK}, {"input_tokens": -1}, {"output_tokens": 1.5}, {"cost_usd": -0.1}),
}
"""Per field of the interaction, values that it cannot have. Those of a required field cost the event."""

ANYTHING: Final = {"error", "extra"}
"""The fields that take any JSON value."""


@dataclass(frozen=True)
class Poison:
    """One record that has to become a dead letter."""

    name: str
    value: bytes | None
    error_class: ErrorClass


def event(**fields: Any) -> bytes:
    """A good event's bytes, with these fields changed."""
    return orjson.dumps(GOOD | fields)


def with_number(number: str) -> bytes:
    """A good event's bytes, with this text where a number belongs."""
    return event(feedback={"score": 0.125}).replace(b"0.125", number.encode())


def nested(depth: int) -> bytes:
    """A good event's bytes, with lists that deep as the text of a context."""
    return event(contexts=[{"text": [0.125]}]).replace(b"[0.125]", b"[" * depth + b"]" * depth)


_WITHOUT = [
    {name: value for name, value in GOOD.items() if name != lacks} for lacks in ("event_id", "query", "response")
]

POISON: Final = (
    Poison("tombstone", None, "tombstone"),
    Poison("empty", b"", "not_json"),
    Poison("blank", b" \t\n", "not_json"),
    Poison("half", event(query=MARK)[:-20], "not_json"),
    Poison("not JSON", f"{MARK}: {MARK}".encode(), "not_json"),
    Poison("single quotes", f"{{'event_id': '{MARK}'}}".encode(), "not_json"),
    Poison("two documents", event(query=MARK) + event(query=MARK), "not_json"),
    Poison("a comma too many", event(query=MARK)[:-1] + b",}", "not_json"),
    Poison("byte order mark", b"\xef\xbb\xbf" + event(query=MARK), "not_json"),
    Poison("UTF-16", event(query=MARK).decode().encode("utf-16"), "not_json"),
    Poison("gzip", b"\x1f\x8b\x08\x00" + MARK.encode(), "not_json"),
    Poison("invalid UTF-8", event(query=MARK).replace(b"Ada", b"\xff\xfe"), "not_json"),
    Poison("truncated UTF-8", event(query=MARK).replace(b"Ada", b"\xe2\x82"), "not_json"),
    Poison("overlong UTF-8", event(query=MARK).replace(b"Ada", b"\xc0\xaf"), "not_json"),
    Poison("a surrogate's bytes", event(query=MARK).replace(b"Ada", b"\xed\xa0\x80"), "not_json"),
    Poison("lone high surrogate", event(query=MARK).replace(b"Ada", rb"\ud800"), "not_json"),
    Poison("lone low surrogate", event(query=MARK).replace(b"Ada", rb"\udfff"), "not_json"),
    Poison("surrogate in a key", event(**{MARK: 1}).replace(MARK.encode(), MARK.encode() + rb"\ud800"), "not_json"),
    Poison("raw control character", event(query=MARK).replace(b"Ada", b"\x00"), "not_json"),
    *(
        Poison(f"number {number}", with_number(number), "not_json")
        for number in (
            "NaN",
            "Infinity",
            "-Infinity",
            "nan",
            "1e999",
            "-1e999",
            "9" * 400,
            "0x10",
            "01",
            "1.",
            "+1",
            "1_0",
        )
    ),
    Poison("1e999 in a field that nobody knows", event(**{MARK: 0.125}).replace(b"0.125", b"1e999"), "not_json"),
    Poison("a query nested 300 deep", event(query=0.125).replace(b"0.125", b"[" * 300 + b"]" * 300), "invalid"),
    Poison("nested 100,000 deep", b"[" * 100_000 + b"]" * 100_000, "not_json"),
    Poison("nested without end", b'{"a":' * 100_000, "not_json"),
    *(
        Poison(f"top level {top}", top.encode(), "invalid")
        for top in ("null", "true", "12", "1.5", f'"{MARK}"', f'["{MARK}"]', "[]", f'[{{"{MARK}":"{MARK}"}}]')
    ),
    Poison("empty object", b"{}", "invalid"),
    *(Poison(f"without {len(lacking)}", orjson.dumps(lacking | {MARK: MARK}), "invalid") for lacking in _WITHOUT),
    Poison("id of 65 bits", event(event_id=0.125).replace(b"0.125", b"36893488147419103232"), "invalid"),
    Poison("the last of two ids counts", event()[:-1] + b',"event_id":["' + MARK.encode() + b'"]}', "invalid"),
    Poison("one byte too large", event(query="x" * MAX_EVENT_BYTES), "too_large"),
    *(
        Poison(f"{field}: {str(value)[:40]}", event(**{field: value}), "invalid")
        for field in REQUIRED
        for value in WRONG[field]
    ),
)

REPAIRED: Final[dict[str, bytes]] = {
    "a context nested 1,000 deep": nested(1_000),
    "a context nested 300 deep": nested(300),
    "tokens beyond 64 bits": event(usage={"input_tokens": 0.125}).replace(b"0.125", b"9" * 30),
    **{
        f"{field}: {number} {str(value)[:40]}": event(**{field: value})
        for field, values in WRONG.items()
        if field not in REQUIRED
        for number, value in enumerate(values)
    },
}
"""Events in which something optional is wrong."""


def fifty_megabytes() -> bytes:
    """An event of 50 MB that is nothing worse than large."""
    return event(query=MARK * (50_000_000 // len(MARK)))
