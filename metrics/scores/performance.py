"""Performance, from the timestamps and counts that the application measured (document 000)."""

from __future__ import annotations

from datetime import datetime, timedelta

from ragweir.metrics.metric import Metric, Null, Value, shared
from ragweir.metrics.view import View

_MS = timedelta(milliseconds=1)
_SECOND = timedelta(seconds=1)
_ZERO = timedelta()


def _union(intervals: list[tuple[datetime, datetime]]) -> timedelta:
    """The time that the intervals cover together, overlaps counted once."""
    covered = _ZERO
    reached: datetime | None = None
    for start, end in sorted(intervals):
        if reached is None or start >= reached:
            covered += end - start
            reached = end
        elif end > reached:
            covered += end - reached
            reached = end
    return covered


@shared
def _total(view: View) -> timedelta | Null:
    interaction = view.interaction
    if interaction.started_at is None or interaction.ended_at is None:
        return Null("the event has not both started_at and ended_at")
    total = interaction.ended_at - interaction.started_at
    return Null("the interaction ends before it starts") if total < _ZERO else total


@shared
def _latencies(view: View) -> dict[str, timedelta | Null]:
    """Per kind of span the time it took, or why that cannot be told."""
    interaction = view.interaction
    # Clocks differ a little, and in the document's own example a tool ends 70 ms after its interaction.
    tolerance = view.limits.span_tolerance_ms * _MS
    intervals: dict[str, list[tuple[datetime, datetime]]] = {}
    broken: dict[str, Null] = {}
    for span in interaction.spans or ():
        start, end = span.started_at, span.ended_at
        if start is None or end is None:
            broken[span.kind] = Null("a span of this kind has not both times")
        elif end < start:
            broken[span.kind] = Null("a span of this kind ends before it starts")
        elif (interaction.started_at is not None and interaction.started_at - start > tolerance) or (
            interaction.ended_at is not None and end - interaction.ended_at > tolerance
        ):
            broken[span.kind] = Null("a span of this kind lies outside the interaction")
        else:
            intervals.setdefault(span.kind, []).append((start, end))
    return {kind: _union(found) for kind, found in intervals.items()} | broken


def _latency(view: View, kind: str) -> timedelta | Null:
    return _latencies(view).get(kind, _ZERO)


def _latency_ms(view: View, kind: str) -> Value:
    latency = _latency(view, kind)
    return latency if isinstance(latency, Null) else latency / _MS


def _share(view: View, kind: str) -> Value:
    latency, total = _latency(view, kind), _total(view)
    if isinstance(latency, Null):
        return latency
    if isinstance(total, Null):
        return total
    if not total:
        return Null("the interaction took no time")
    # A tool may end within the tolerance after its interaction; a share stays a share.
    return min(latency / total, 1.0)


def total_latency_ms(view: View) -> Value:
    """Time from the question to the end of the answer.

    Formula: ended_at - started_at.
    Range: 0 and up, ms; lower is better.
    Undefined: without both times, or when the end lies before the start.
    Reference: document 000, "Total Latency".

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at="2025-12-09T12:00:00.000Z", ended_at="2025-12-09T12:00:04.230Z")
    >>> total_latency_ms(view)
    4230.0
    """
    total = _total(view)
    return total if isinstance(total, Null) else total / _MS


def llm_latency_ms(view: View) -> Value:
    """Time in model calls; calls in parallel count once.

    Formula: length of the union of the spans of kind llm.
    Range: 0 and up, ms; lower is better. 0 when there are spans but none of this kind.
    Undefined: without `spans`; when a span lacks a time, ends before it starts, or lies more than a second outside
    the interaction.
    Reference: document 000, "LLM Latency".

    >>> from ragweir.metrics.view import example
    >>> view = example(spans=[{"kind": "llm", "started_at": "2025-12-09T12:00:01Z",
    ...                        "ended_at": "2025-12-09T12:00:02.200Z"}])
    >>> llm_latency_ms(view)
    1200.0
    """
    return _latency_ms(view, "llm")


def tool_latency_ms(view: View) -> Value:
    """Time in tool calls; calls in parallel count once.

    Formula: length of the union of the spans of kind tool.
    Range: as `llm_latency_ms`.
    Undefined: as `llm_latency_ms`.
    Reference: document 000, "Tool Latency" (whose tool ends 70 ms after the interaction: intervals are not clipped).

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at="2025-12-09T12:00:00Z", ended_at="2025-12-09T12:00:04.230Z",
    ...                spans=[{"kind": "tool", "started_at": "2025-12-09T12:00:01.500Z",
    ...                        "ended_at": "2025-12-09T12:00:04.300Z"}])
    >>> tool_latency_ms(view)
    2800.0
    """
    return _latency_ms(view, "tool")


def api_latency_ms(view: View) -> Value:
    """Time in API requests; requests in parallel count once.

    Formula: length of the union of the spans of kind api.
    Range: as `llm_latency_ms`.
    Undefined: as `llm_latency_ms`.
    Reference: document 000, "API Latency".

    >>> from ragweir.metrics.view import example
    >>> view = example(spans=[{"kind": "api", "started_at": "2025-12-09T12:00:02Z",
    ...                        "ended_at": "2025-12-09T12:00:02.230Z"}])
    >>> api_latency_ms(view)
    230.0
    """
    return _latency_ms(view, "api")


def retrieval_latency_ms(view: View) -> Value:
    """Time in retrieval; retrievers in parallel count once.

    Formula: length of the union of the spans of kind retrieval.
    Range: as `llm_latency_ms`.
    Undefined: as `llm_latency_ms`.
    Reference: by analogy with document 000.

    >>> from ragweir.metrics.view import example
    >>> both = [{"kind": "retrieval", "started_at": 1.0, "ended_at": 1.3},
    ...         {"kind": "retrieval", "started_at": 1.1, "ended_at": 1.4}]
    >>> retrieval_latency_ms(example(spans=both))
    400.0
    """
    return _latency_ms(view, "retrieval")


def llm_latency_share(view: View) -> Value:
    """Part of the total latency that went into model calls.

    Formula: llm_latency_ms / total_latency_ms, at most 1.
    Range: 0 to 1; neither direction is better.
    Undefined: when either latency is, or the total is 0.
    Reference: document 000 (28 % of 4,230 ms; 34 % of 3,500 ms).

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at=0, ended_at=4.23, spans=[{"kind": "llm", "started_at": 1.0, "ended_at": 2.2}])
    >>> round(llm_latency_share(view), 4)
    0.2837
    """
    return _share(view, "llm")


def tool_latency_share(view: View) -> Value:
    """Part of the total latency that went into tool calls.

    Formula: tool_latency_ms / total_latency_ms, at most 1.
    Range: as `llm_latency_share`.
    Undefined: as `llm_latency_share`.
    Reference: document 000 (66 % of 4,230 ms; 60 % of 3,500 ms).

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at=0, ended_at=3.5, spans=[{"kind": "tool", "started_at": 0.9, "ended_at": 3.0}])
    >>> tool_latency_share(view)
    0.6
    """
    return _share(view, "tool")


def api_latency_share(view: View) -> Value:
    """Part of the total latency that went into API requests.

    Formula: api_latency_ms / total_latency_ms, at most 1.
    Range: as `llm_latency_share`.
    Undefined: as `llm_latency_share`.
    Reference: document 000 (5 % of 4,230 ms; 6 % of 3,500 ms).

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at=0, ended_at=3.5, spans=[{"kind": "api", "started_at": 0.9, "ended_at": 1.1}])
    >>> round(api_latency_share(view), 2)
    0.06
    """
    return _share(view, "api")


def tool_call_count(view: View) -> Value:
    """How many tool calls the answer took.

    Formula: number of spans of kind tool.
    Range: 0 and up.
    Undefined: without `spans`.
    Reference: document 000, "Tool Call Count".

    >>> from ragweir.metrics.view import example
    >>> tool_call_count(example(spans=[{"kind": "tool", "name": name} for name in ("search", "search", "compare")]))
    3
    """
    return sum(span.kind == "tool" for span in view.interaction.spans or ())


def tool_error_count(view: View) -> Value:
    """How many tool calls failed.

    Formula: number of spans of kind tool whose `error` is neither absent nor empty.
    Range: 0 and up; lower is better.
    Undefined: without `spans`.
    Reference: by analogy with document 000.

    >>> from ragweir.metrics.view import example
    >>> tool_error_count(example(spans=[{"kind": "tool", "error": "timeout"}, {"kind": "tool", "error": None}]))
    1
    """
    return sum(span.kind == "tool" and bool(span.error) for span in view.interaction.spans or ())


def time_to_first_token_ms(view: View) -> Value:
    """Time from the question to the first token of the answer.

    Formula: first_token_at - started_at.
    Range: 0 and up, ms; lower is better.
    Undefined: without both times, or when the token comes before the start.
    Reference: OpenTelemetry's generative AI conventions, "time to first token".

    >>> from ragweir.metrics.view import example
    >>> time_to_first_token_ms(example(started_at=1.0, first_token_at=1.48))
    480.0
    """
    started, first = view.interaction.started_at, view.interaction.first_token_at
    if started is None or first is None:
        return Null("the event has not both started_at and first_token_at")
    return (first - started) / _MS if first >= started else Null("the first token comes before the start")


def output_tokens_per_second(view: View) -> Value:
    """How fast the model wrote.

    Formula: output tokens / LLM latency in seconds.
    Range: 0 and up; higher is better.
    Undefined: without `usage.output_tokens`, or when the LLM latency is undefined or 0.
    Reference: common practice.

    >>> from ragweir.metrics.view import example
    >>> view = example(usage={"output_tokens": 96}, spans=[{"kind": "llm", "started_at": 0, "ended_at": 1.2}])
    >>> output_tokens_per_second(view)
    80.0
    """
    usage, latency = view.interaction.usage, _latency(view, "llm")
    if usage is None or usage.output_tokens is None:
        return Null("the event's usage has no output_tokens")
    if isinstance(latency, Null):
        return latency
    return usage.output_tokens / (latency / _SECOND) if latency else Null("no time was spent in model calls")


def _usage(view: View, field: str) -> Value:
    value: float | None = getattr(view.interaction.usage, field)
    return Null(f"the event's usage has no {field}") if value is None else value


def input_tokens(view: View) -> Value:
    """Tokens that the model read, as the application counted them.

    Formula: usage.input_tokens.
    Range: 0 and up.
    Undefined: when the event does not carry it.
    Reference: OpenTelemetry's gen_ai.usage.input_tokens.

    >>> from ragweir.metrics.view import example
    >>> input_tokens(example(usage={"input_tokens": 812}))
    812
    """
    return _usage(view, "input_tokens")


def output_tokens(view: View) -> Value:
    """Tokens that the model wrote, as the application counted them.

    Formula: usage.output_tokens.
    Range: 0 and up.
    Undefined: when the event does not carry it.
    Reference: OpenTelemetry's gen_ai.usage.output_tokens.

    >>> from ragweir.metrics.view import example
    >>> output_tokens(example(usage={"output_tokens": 96}))
    96
    """
    return _usage(view, "output_tokens")


def cost_usd(view: View) -> Value:
    """What the answer cost, as the application reckoned it.

    Formula: usage.cost_usd.
    Range: 0 and up, US dollars; lower is better.
    Undefined: when the event does not carry it.
    Reference: common practice.

    >>> from ragweir.metrics.view import example
    >>> cost_usd(example(usage={"cost_usd": 0.0004}))
    0.0004
    """
    return _usage(view, "cost_usd")


_DOCUMENT = "document 000"
_SPANS = ("spans",)
_USAGE = ("usage",)
_TIMED_USAGE = ("usage", "spans")

METRICS = (
    Metric(total_latency_ms, "performance", "ms", "lower", (), _DOCUMENT),
    Metric(llm_latency_ms, "performance", "ms", "lower", _SPANS, _DOCUMENT),
    Metric(tool_latency_ms, "performance", "ms", "lower", _SPANS, _DOCUMENT),
    Metric(api_latency_ms, "performance", "ms", "lower", _SPANS, _DOCUMENT),
    Metric(retrieval_latency_ms, "performance", "ms", "lower", _SPANS, "after document 000"),
    Metric(llm_latency_share, "performance", "ratio", "neither", _SPANS, _DOCUMENT),
    Metric(tool_latency_share, "performance", "ratio", "neither", _SPANS, _DOCUMENT),
    Metric(api_latency_share, "performance", "ratio", "neither", _SPANS, _DOCUMENT),
    Metric(tool_call_count, "performance", "count", "neither", _SPANS, _DOCUMENT, aliases=("num_tool_calls",)),
    Metric(tool_error_count, "performance", "count", "lower", _SPANS, "after document 000"),
    Metric(time_to_first_token_ms, "performance", "ms", "lower", (), "OpenTelemetry GenAI"),
    Metric(output_tokens_per_second, "performance", "tokens_per_second", "higher", _TIMED_USAGE, "common practice"),
    Metric(input_tokens, "performance", "count", "neither", _USAGE, "OpenTelemetry GenAI"),
    Metric(output_tokens, "performance", "count", "neither", _USAGE, "OpenTelemetry GenAI"),
    Metric(cost_usd, "performance", "usd", "lower", _USAGE, "common practice"),
)
