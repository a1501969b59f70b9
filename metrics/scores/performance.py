"""Performance metrics, from the times and counts that the application measured (the LLM rubric)."""

from __future__ import annotations

from datetime import datetime, timedelta

from ragweir.metrics.metric import Better, Metric, Null, Unit, Value, shared
from ragweir.metrics.view import View

_MS = timedelta(milliseconds=1)
_MICROSECOND = timedelta.resolution
_ZERO = timedelta()
_US_PER_MS, _US_PER_SECOND = 1_000, 1_000_000

_NO_TIMES = Null("the event has not both started_at and ended_at")
_ENDS_FIRST = Null("the interaction ends before it starts")
_NO_TIME = Null("the interaction took no time")
_SPAN_WITHOUT_TIMES = Null("a span of this kind has not both times")
_SPAN_ENDS_FIRST = Null("a span of this kind ends before it starts")
_SPAN_OUTSIDE = Null("a span of this kind lies outside the interaction")
_NO_FIRST_TOKEN = Null("the event has not both started_at and first_token_at")
_TOKEN_BEFORE_START = Null("the first token comes before the start")
_NO_OUTPUT_TOKENS = Null("the event's usage has no output_tokens")
_NO_MODEL_TIME = Null("no time was spent in model calls")


def _union(intervals: list[tuple[datetime, datetime]]) -> int:
    """Return the length of the union of intervals in microseconds."""
    if len(intervals) == 1:
        start, end = intervals[0]
        return (end - start) // _MICROSECOND
    covered = _ZERO
    reached: datetime | None = None
    for start, end in sorted(intervals):
        if reached is None or start >= reached:
            covered += end - start
            reached = end
        elif end > reached:
            covered += end - reached
            reached = end
    return covered // _MICROSECOND


@shared
def _total(view: View) -> int | Null:
    """Return the total latency in microseconds."""
    started, ended = view.interaction.started_at, view.interaction.ended_at
    if started is None or ended is None:
        return _NO_TIMES
    return (ended - started) // _MICROSECOND if ended >= started else _ENDS_FIRST


@shared
def _latencies(view: View) -> dict[str, int | Null]:
    """Return the latency of each kind of span in microseconds, or the reason why it is unknown."""
    interaction = view.interaction
    started, ended = interaction.started_at, interaction.ended_at
    # Clocks differ, and in the example of the rubric a tool ends 70 ms after its interaction.
    tolerance = view.limits.span_tolerance_ms * _MS
    intervals: dict[str, list[tuple[datetime, datetime]]] = {}
    broken: dict[str, Null] = {}
    for span in interaction.spans or ():
        kind, start, end = span.kind, span.started_at, span.ended_at
        if start is None or end is None:
            broken[kind] = _SPAN_WITHOUT_TIMES
        elif end < start:
            broken[kind] = _SPAN_ENDS_FIRST
        elif (started is not None and started - start > tolerance) or (ended is not None and end - ended > tolerance):
            broken[kind] = _SPAN_OUTSIDE
        elif kind in intervals:
            intervals[kind].append((start, end))
        else:
            intervals[kind] = [(start, end)]
    return {kind: _union(found) for kind, found in intervals.items()} | broken


def total_latency_ms(view: View) -> Value:
    """Time from the query to the end of the response.

    Formula: ended_at - started_at.
    Undefined: without both times, or if the end is before the start.
    Reference: the LLM rubric, "Total Latency".

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at="2025-12-09T12:00:00.000Z", ended_at="2025-12-09T12:00:04.230Z")
    >>> total_latency_ms(view)
    4230.0
    """
    total = _total(view)
    return total if isinstance(total, Null) else total / _US_PER_MS


def _latency_metric(kind: str, calls: str, source: str) -> Metric:
    """Return the metric of the latency of one kind of span.

    >>> from ragweir.metrics.view import example
    >>> view = example(spans=[{"kind": "retrieval", "started_at": 1.0, "ended_at": 1.3},
    ...                       {"kind": "retrieval", "started_at": 1.1, "ended_at": 1.4}])
    >>> _latency_metric("retrieval", "retrievals", "").compute(view)
    400.0
    """

    def latency_ms(view: View) -> Value:
        latency = _latencies(view).get(kind, 0)
        return latency if isinstance(latency, Null) else latency / _US_PER_MS

    latency_ms.__doc__ = f"""Time in {calls}; parallel ones count once.

    Formula: length of the union of the spans of kind {kind}; 0 if there are spans but none of this kind.
    Undefined: without `spans`; if a span of this kind lacks a time, ends before it starts, or lies further outside the
    interaction than `limits.span_tolerance_ms`. Intervals are not clipped to the interaction.
    """
    return Metric(latency_ms, _GROUP, "ms", "lower", _SPANS, source, name=f"{kind}_latency_ms")


def _share_metric(kind: str, calls: str) -> Metric:
    """Return the metric of the share of one kind of span in the total latency.

    >>> from ragweir.metrics.view import example
    >>> view = example(started_at=0, ended_at=3.5, spans=[{"kind": "tool", "started_at": 0.9, "ended_at": 3.0}])
    >>> _share_metric("tool", "tool calls").compute(view)
    0.6
    """

    def latency_share(view: View) -> Value:
        latency, total = _latencies(view).get(kind, 0), _total(view)
        if isinstance(latency, Null):
            return latency
        if isinstance(total, Null):
            return total
        if not total:
            return _NO_TIME
        # A span may end within the tolerance after its interaction.
        return min(latency / total, 1.0)

    latency_share.__doc__ = f"""Share of the total latency that was spent in {calls}.

    Formula: {kind}_latency_ms / total_latency_ms, at most 1.
    Undefined: if either latency is, or the total is 0.
    """
    return Metric(latency_share, _GROUP, "ratio", "neither", _SPANS, _DOCUMENT, name=f"{kind}_latency_share")


def tool_call_count(view: View) -> Value:
    """Number of tool calls.

    Formula: number of spans of kind tool.
    Reference: the LLM rubric, "Tool Call Count".

    >>> from ragweir.metrics.view import example
    >>> tool_call_count(example(spans=[{"kind": "tool", "name": name} for name in ("search", "search", "compare")]))
    3
    """
    return [span.kind for span in view.interaction.spans or ()].count("tool")


def tool_error_count(view: View) -> Value:
    """Number of tool calls that failed.

    Formula: number of spans of kind tool whose `error` is neither absent nor empty.

    >>> from ragweir.metrics.view import example
    >>> tool_error_count(example(spans=[{"kind": "tool", "error": "timeout"}, {"kind": "tool", "error": None}]))
    1
    """
    return sum(span.kind == "tool" and bool(span.error) for span in view.interaction.spans or ())


def time_to_first_token_ms(view: View) -> Value:
    """Time from the query to the first token of the response.

    Formula: first_token_at - started_at.
    Undefined: without both times, or if the token comes before the start.

    >>> from ragweir.metrics.view import example
    >>> time_to_first_token_ms(example(started_at=1.0, first_token_at=1.48))
    480.0
    """
    started, first = view.interaction.started_at, view.interaction.first_token_at
    if started is None or first is None:
        return _NO_FIRST_TOKEN
    return (first - started) / _MS if first >= started else _TOKEN_BEFORE_START


def output_tokens_per_second(view: View) -> Value:
    """Generation speed of the model.

    Formula: output tokens / LLM latency in seconds.
    Undefined: without `usage.output_tokens`, or if the LLM latency is undefined or 0.

    >>> from ragweir.metrics.view import example
    >>> view = example(usage={"output_tokens": 96}, spans=[{"kind": "llm", "started_at": 0, "ended_at": 1.2}])
    >>> output_tokens_per_second(view)
    80.0
    """
    usage, latency = view.interaction.usage, _latencies(view).get("llm", 0)
    if usage is None or usage.output_tokens is None:
        return _NO_OUTPUT_TOKENS
    if isinstance(latency, Null):
        return latency
    return usage.output_tokens / (latency / _US_PER_SECOND) if latency else _NO_MODEL_TIME


def _usage_metric(field: str, meaning: str, unit: Unit, better: Better, source: str) -> Metric:
    """Return the metric of a field of the event's usage.

    >>> from ragweir.metrics.view import example
    >>> _usage_metric("input_tokens", "", "count", "neither", "").compute(example(usage={"input_tokens": 812}))
    812
    """
    absent = Null(f"the event's usage has no {field}")

    def usage(view: View) -> Value:
        value: float | None = getattr(view.interaction.usage, field)
        return absent if value is None else value

    usage.__doc__ = f"{meaning}\n\nFormula: usage.{field}.\nUndefined: if the event does not have it."
    return Metric(usage, _GROUP, unit, better, ("usage",), source, name=field)


_GROUP = "performance"
_DOCUMENT = "the LLM rubric"
_OPENTELEMETRY = "OpenTelemetry GenAI"
_SPANS = ("spans",)

METRICS = (
    Metric(total_latency_ms, _GROUP, "ms", "lower", (), _DOCUMENT),
    _latency_metric("llm", "model calls", _DOCUMENT),
    _latency_metric("tool", "tool calls", _DOCUMENT),
    _latency_metric("api", "API requests", _DOCUMENT),
    _latency_metric("retrieval", "retrievals", "after the LLM rubric"),
    _share_metric("llm", "model calls"),
    _share_metric("tool", "tool calls"),
    _share_metric("api", "API requests"),
    Metric(tool_call_count, _GROUP, "count", "neither", _SPANS, _DOCUMENT, aliases=("num_tool_calls",)),
    Metric(tool_error_count, _GROUP, "count", "lower", _SPANS, "after the LLM rubric"),
    Metric(time_to_first_token_ms, _GROUP, "ms", "lower", (), _OPENTELEMETRY),
    Metric(output_tokens_per_second, _GROUP, "tokens_per_second", "higher", ("usage", "spans"), "common practice"),
    _usage_metric("input_tokens", "Number of tokens that the model read.", "count", "neither", _OPENTELEMETRY),
    _usage_metric("output_tokens", "Number of tokens that the model generated.", "count", "neither", _OPENTELEMETRY),
    _usage_metric("cost_usd", "Cost of the response in US dollars.", "usd", "lower", "common practice"),
)
