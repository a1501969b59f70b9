"""Feedback as applications write it: what is read, and what is rejected with a reason that quotes nothing."""

import orjson
import pytest

from ragweir.errors import Rejected
from ragweir.schemas.feedback import Feedback, KeyedFeedback, feedback_of, received_time

THUMBS = {"event_id": "e1", "name": "thumbs", "value": "down"}


@pytest.mark.parametrize("value", [1, 0.5, -3, True, False, "down", None, "ä" * 200])
def test_values_keep_their_type(value: object) -> None:
    read = feedback_of({**THUMBS, "value": value}).value
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"trace_id": "t1"}, "names an event and a trace"),
        ({"event_id": None}, "names no answer"),
        ({"event_id": None, "span_id": "s1"}, "names no answer"),
        ({"event_id": ""}, "event_id: must be text"),
        ({"event_id": "SECRET" * 40}, "event_id: must be text"),
        ({"event_id": ["SECRET"]}, "event_id: must be text"),
        ({"name": ""}, "name: must be printable"),
        ({"name": "SECRET\x1b[2J"}, "name: must be printable"),
        ({"name": None}, "name: must be printable"),
        ({"value": {"SECRET": 1}}, "value: must be a finite"),
        ({"value": ["SECRET"]}, "value: must be a finite"),
        ({"value": float("nan")}, "value: must be a finite"),
        ({"value": float("inf")}, "value: must be a finite"),
        ({"value": ""}, "value: must be a finite"),
        ({"value": "SECRET\u202e"}, "value: must be a finite"),
        ({"giver": "SECRET" * 1_000}, "giver: must be text"),
        ({"giver": {"SECRET": 1}}, "giver: must be text"),
        ({"time": "SECRET"}, "time: must be RFC 3339"),
        ({"time": 1e300}, "time: must be RFC 3339"),
    ],
)
def test_what_is_no_feedback_is_rejected(changed: dict[str, object], message: str) -> None:
    with pytest.raises(Rejected, match=message) as caught:
        feedback_of({**THUMBS, **changed})
    assert "SECRET" not in caught.value.message
    assert caught.value.error_class == "invalid"


@pytest.mark.parametrize("data", [None, [], "SECRET", 7, {}, {"event_id": "e1", "name": "thumbs"}])
def test_other_json_is_rejected(data: object) -> None:
    with pytest.raises(Rejected):
        feedback_of(data)


def test_what_is_not_kept_is_ignored() -> None:
    """Whatever an application adds, such as a comment of any size, is no part of the record."""
    read = feedback_of({**THUMBS, "comment": "x" * 1_000_000, "application": 7})
    assert read == Feedback(event_id="e1", name="thumbs", value="down")


@pytest.mark.parametrize("timestamp", [None, -1, 0, 2**62, -(2**62)])
def test_any_timestamp_of_a_record_is_a_time(timestamp: int | None) -> None:
    assert received_time(timestamp).year in range(1970, 10_000)


def test_feedback_is_ordered_by_time_then_by_records() -> None:
    record = orjson.loads(
        b'{"event_id":"e1","event_time":1,"name":"n","value":1,"time":5,"received":9,'
        b'"source":{"topic":"t","partition":1,"offset":3}}'
    )
    changes = [{"time": 4, "received": 10}, {}, {"source": {"topic": "t", "partition": 1, "offset": 4}}]
    changes += [{"source": {"topic": "t", "partition": 2, "offset": 0}}, {"received": 10}, {"time": 6}]
    orders = [KeyedFeedback.model_validate(record | change).order for change in changes]
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)
