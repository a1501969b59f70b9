"""Spans and log records that are written by hand, from the documentation that the tests name."""

from collections.abc import Collection, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import strategies as st

from ragweir.streams.traces.dialects import gen_ai_values
from ragweir.streams.traces.span import SpanEvent, TraceLog, TraceSpan

TRACE = "0af7651916cd43dd8448eb211c80319c"
STARTED = 1_795_376_000_000_000_000


def span(
    attributes: Mapping[str, Any],
    *,
    name: str = "",
    id: str = "b7ad6b7169203331",
    parent: str | None = None,
    scope: str = "",
    error: str | None = None,
    events: tuple[tuple[str, Mapping[str, Any]], ...] = (),
    at: int = 0,
    dropped: int = 0,
) -> TraceSpan:
    """Return a span of two seconds that begins `at` milliseconds after the first; its events come a second later."""
    started = STARTED + at * 1_000_000
    return TraceSpan(
        trace_id=TRACE,
        span_id=id,
        parent_id=parent,
        remote_parent=False,
        name=name,
        kind=1,
        started_ns=started,
        ended_ns=started + 2_000_000_000,
        attributes=attributes,
        resource={},
        scope=scope,
        scope_version="",
        events=tuple(SpanEvent(event, started + 1_000_000_000, values) for event, values in events),
        error=error,
        dropped_attributes=dropped,
    )


def log(event_name: str, body: Any = None, attributes: Mapping[str, Any] | None = None) -> TraceLog:
    """Return a log record of the span."""
    return TraceLog(
        trace_id=TRACE,
        span_id="b7ad6b7169203331",
        time_ns=STARTED,
        event_name=event_name,
        body=body,
        attributes=attributes or {},
        resource={},
        scope="",
    )


def hostile(
    paths: Collection[str], keys: Collection[str], words: Collection[str]
) -> tuple[st.SearchStrategy[dict[str, Any]], st.SearchStrategy[Any]]:
    """Attributes with these names, whose values are of any type, or JSON of it, with these keys and words in it.

    And the values alone.
    """
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4)
    values = st.recursive(
        leaves | st.sampled_from(sorted(words)),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(sorted(keys)), inner, max_size=4),
        max_leaves=12,
    )
    return st.dictionaries(st.sampled_from(sorted(paths)), values | values.map(_as_json), max_size=8), values


def _as_json(value: Any) -> Any:
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return value


def parses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all texts that are parsed as JSON from now on."""
    parsed: list[int] = []
    loads = orjson.loads

    def counting(value: str) -> Any:
        parsed.append(len(value))
        return loads(value)

    monkeypatch.setattr(gen_ai_values.orjson, "loads", counting)
    return parsed
