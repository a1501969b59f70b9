"""The instruments of judge."""

from __future__ import annotations

from ragweir.streams.runtime.serving.instruments import counter, gauge, histogram

_CALL_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_CALLS = (
    *("ok", "cached", "broken_off", "cut", "rate_limited", "refused", "rejected", "server_error", "timeout"),
    *("unreachable", "unusable"),
)

INSTRUMENTS = (
    counter(
        "ragweir_judge_requests_total",
        "Requests to judge, by outcome",
        outcome=("judged", "failed", "expired", "retried", "moved", "deferred"),
    ),
    counter("ragweir_judge_calls_total", "Questions to the judge, by outcome", outcome=_CALLS),
    counter("ragweir_judge_repairs_total", "Questions asked again because of an unusable answer"),
    counter("ragweir_judge_tokens_total", "Tokens of judge calls", direction=("input", "output")),
    counter("ragweir_judge_cached_tokens_total", "Input tokens of judge calls that the endpoint had in its own cache"),
    counter("ragweir_judge_reasoning_tokens_total", "Output tokens of judge calls that were reasoning"),
    counter("ragweir_judge_cost_microdollars_total", "Cost of judge calls, in millionths of a dollar"),
    histogram("ragweir_judge_call_seconds", "Duration of one judge call", buckets=_CALL_SECONDS),
    gauge("ragweir_judge_in_flight", "Events that are being judged"),
    gauge("ragweir_judge_waiting", "Requests to judge that were read and not started"),
    gauge("ragweir_judge_breaker", "Circuit breaker of the judge: 0 closed, 0.5 half-open, 1 open"),
    counter("ragweir_judge_breaker_opened_total", "Times that the circuit breaker of the judge opened"),
    gauge("ragweir_judge_budget_left_dollars", "Dollars left of today's budget (UTC) for the partitions of this slot"),
    gauge(
        "ragweir_judge_spent_dollars",
        "Dollars that judge calls have cost today (UTC) in the partitions of this slot, by application; the empty "
        "application is all applications without a budget of their own",
        labels=("application",),
    ),
    gauge("ragweir_judge_affordable_floor_ratio", "Share of the floor's events that the budget is sufficient for"),
)
