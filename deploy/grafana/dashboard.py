"""Generates ragweir.json, the Grafana dashboard of quality and of ragweir's health, from a table of panels.

python deploy/grafana/dashboard.py
"""
# ruff: noqa: INP001 (a script, not a package)

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from string import ascii_uppercase

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as board
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import LegendDisplayMode, LegendPlacement, TooltipDisplayMode
from grafana_foundation_sdk.models.dashboard import (
    Dashboard,
    DashboardCursorSync,
    DataSourceRef,
    VariableHide,
    VariableOption,
    VariableRefresh,
    VariableSort,
)

from ragweir.streams.export.exposition import label_names
from ragweir.streams.settings import WindowSettings

FILE = Path(__file__).with_name("ragweir.json")

_SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
_HEIGHT = 8
_OF_SERVICE = " * on (instance) group_left (service) ragweir_build_info"
_OF_JUDGE = ' * on (instance) group_left () ragweir_build_info{service="judge"}'
"""Selects the judge, since every service exposes every gauge."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. A query is an expression and the legend of its lines."""

    title: str
    description: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    width: int = 12
    newest: bool = False
    """True to show the latest value only, not a graph."""


Row = tuple[str, tuple[Panel, ...]]


def rows(dimensions: tuple[str, ...]) -> tuple[Row, ...]:
    """Return the rows of panels, for windows with these dimensions."""
    labels = label_names(dimensions)
    chosen = ",".join([f'{name}=~"${name}"' for name in labels])
    named = " ".join(f"{{{{{name}}}}}" for name in reversed(labels))

    def gauge(series: str, selector: str, *more: str) -> str:
        # All exporters have the same value; `max` takes one.
        return f"max by ({', '.join([*labels, *more])}) ({series}{{{selector},{chosen}}})"

    size = 'window="$window"'
    metric = f'metric="$metric",{size}'
    judged = f'metric="$judged",{size}'
    tails = f'{size},quantile=~"0.5|0.99"'
    quantile = f"{named} q{{{{quantile}}}}"
    return (
        (
            "Quality, by the last closed window",
            (
                Panel(
                    "Mean of $metric",
                    "One line per label set, since a mean of means would need weights.",
                    ((gauge("ragweir_window_mean", metric), named),),
                ),
                Panel(
                    "Quantiles of $metric",
                    "The median, and the quantiles 0.9 and 0.99.",
                    ((gauge("ragweir_window_quantile", metric, "quantile"), quantile),),
                ),
                Panel(
                    "Shares of $metric",
                    "Share of events with each label; for booleans the share of true.",
                    ((gauge("ragweir_window_share", metric, "label"), f"{named} {{{{label}}}}"),),
                    unit="percentunit",
                ),
                Panel(
                    "Events in a window",
                    "Number of events in the windows above.",
                    ((gauge("ragweir_window_events", size), named),),
                ),
            ),
        ),
        (
            "Judge",
            (
                Panel(
                    "Estimate of $judged, with its 95 % interval",
                    "Mean that all events would have, estimated from the judged ones; no interval if these are too "
                    "few.",
                    tuple(
                        (gauge(f"ragweir_window_estimate{limit}", judged, "label"), f"{named} {{{{label}}}}{shown}")
                        for limit, shown in (("", ""), ("_low", " from"), ("_high", " to"))
                    ),
                ),
                Panel(
                    "Events judged for $judged, and flags of its estimate",
                    "too_few: no interval. incomplete: judgements failed, expired or are pending. partial: some events "
                    "could not be selected.",
                    (
                        (gauge("ragweir_window_judged", judged, "label"), f"{named} {{{{label}}}} judged"),
                        (
                            gauge("ragweir_window_estimate_unanswered", judged, "label"),
                            f"{named} {{{{label}}}} unanswered",
                        ),
                        (
                            gauge("ragweir_window_estimate_flag", judged, "label", "flag"),
                            f"{named} {{{{label}}}} {{{{flag}}}}",
                        ),
                    ),
                ),
                Panel(
                    "Decisions in a window",
                    "Events by routing decision. Empty without a judge.",
                    ((gauge("ragweir_window_decisions", size, "suite", "status"), "{{suite}} {{status}}"),),
                ),
                Panel(
                    "Decisions",
                    "Routing decisions of the evaluate service, per minute.",
                    ((_per_minute("ragweir_routed_total", "suite, status"), "{{suite}} {{status}}"),),
                    unit="opm",
                ),
                Panel(
                    "Requests by outcome",
                    "Per minute. Retried and deferred requests are processed again later.",
                    ((_per_minute("ragweir_judge_requests_total", "outcome"), "{{outcome}}"),),
                    unit="opm",
                    width=8,
                ),
                Panel(
                    "Calls by outcome",
                    "Per minute; cached calls did not reach the endpoint. Repairs are calls after unusable answers.",
                    (
                        (_per_minute("ragweir_judge_calls_total", "outcome"), "{{outcome}}"),
                        ("60 * sum(rate(ragweir_judge_repairs_total[$__rate_interval]))", "repairs"),
                    ),
                    unit="opm",
                    width=8,
                ),
                Panel(
                    "Time of a call, median and 99 %",
                    "Including failed calls.",
                    tuple((_quantile("ragweir_judge_call_seconds", q), f"q{q}") for q in (0.5, 0.99)),
                    unit="s",
                    width=8,
                ),
                Panel(
                    "Tokens",
                    "Per minute, by direction.",
                    ((_per_minute("ragweir_judge_tokens_total", "direction"), "{{direction}}"),),
                    width=8,
                ),
                Panel(
                    "Cost",
                    "Dollars per hour.",
                    (("3600 * sum(rate(ragweir_judge_cost_microdollars_total[$__rate_interval])) / 1e6", "cost"),),
                    unit="currencyUSD",
                    width=8,
                ),
                Panel(
                    "Budget left today",
                    "Dollars that are neither spent nor reserved, over all partitions; 0 without a budget.",
                    (("sum(ragweir_judge_budget_left_dollars)", "left"),),
                    unit="currencyUSD",
                    width=8,
                ),
                Panel(
                    "Share of the floor that the budget affords",
                    "Share of the events selected by routing.floors, by worker; 0 while unknown.",
                    ((f"ragweir_judge_affordable_floor_ratio{_OF_JUDGE}", "{{instance}}"),),
                    unit="percentunit",
                    width=8,
                ),
                Panel(
                    "Circuit breaker",
                    "By worker: 0 closed, 0.5 half-open, 1 open.",
                    ((f"ragweir_judge_breaker{_OF_JUDGE}", "{{instance}}"),),
                    width=8,
                ),
                Panel(
                    "Waiting and in flight",
                    "Requests held by workers. The lag of their topics is below.",
                    (("sum(ragweir_judge_waiting)", "waiting"), ("sum(ragweir_judge_in_flight)", "in flight")),
                    width=8,
                ),
            ),
        ),
        (
            "Latency of the application",
            (
                Panel(
                    "Total latency, median and 99 %",
                    "From the question to the end of the answer.",
                    ((gauge("ragweir_window_quantile", f'metric="total_latency_ms",{tails}', "quantile"), quantile),),
                    unit="ms",
                ),
                Panel(
                    "Time to first token, median and 99 %",
                    "From the question to the first token of the answer.",
                    (
                        (
                            gauge("ragweir_window_quantile", f'metric="time_to_first_token_ms",{tails}', "quantile"),
                            quantile,
                        ),
                    ),
                    unit="ms",
                ),
            ),
        ),
        (
            "Objectives",
            (
                Panel(
                    "Burn rate, at an objective of $objective",
                    "Share of bad events divided by the error budget: above 6 it pages, above 2 it opens a ticket. "
                    "Set the objective above to that of the SLO.",
                    tuple((f"{_bad_share(span)} / (1 - $objective)", f"{{{{slo}}}} {span}") for span in ("5m", "1h")),
                ),
                Panel(
                    "Share of bad events",
                    "Among the events that an SLO counts.",
                    tuple((_bad_share(span), f"{{{{slo}}}} {span}") for span in ("5m", "1h")),
                    unit="percentunit",
                ),
            ),
        ),
        (
            "Flow",
            (
                Panel(
                    "Broker reachable",
                    "Minimum over all workers.",
                    ((f"min by (service) (ragweir_broker_up{_OF_SERVICE})", "{{service}}"),),
                    width=6,
                    newest=True,
                ),
                Panel(
                    "Lag",
                    "Records whose offsets are not committed, by topic.",
                    (("sum by (topic) (ragweir_lag)", "{{topic}}"),),
                    width=9,
                ),
                Panel(
                    "Records and evaluations",
                    "Per second, after their commit.",
                    (
                        ("sum(rate(ragweir_events_in_total[$__rate_interval]))", "records"),
                        ("sum by (stage) (rate(ragweir_evaluations_total[$__rate_interval]))", "evaluations {{stage}}"),
                    ),
                    unit="ops",
                    width=9,
                ),
                Panel(
                    "Dead letters",
                    "Rejected records per minute, by error class.",
                    ((_per_minute("ragweir_dead_letters_total", "error_class"), "{{error_class}}"),),
                    unit="opm",
                ),
                Panel(
                    "Metric errors, and records missed",
                    "Metrics that raised, and records that retention deleted before they were read.",
                    (
                        (_per_minute("ragweir_metric_errors_total", "metric"), "{{metric}}"),
                        (_per_minute("ragweir_events_missed_total", "topic"), "missed {{topic}}"),
                    ),
                    unit="opm",
                ),
            ),
        ),
        (
            "Windows",
            (
                Panel(
                    "Age of the last closed window's end",
                    "Grows while no window closes: without events, or while one partition delays the others.",
                    (("time() - max by (window) (ragweir_window_end_timestamp_seconds)", "{{window}}"),),
                    unit="s",
                ),
                Panel(
                    "Watermark delay",
                    "Delay of event time against the clock, of the slowest and the fastest partition.",
                    (
                        ("time() - min(ragweir_watermark_timestamp_seconds > 0)", "slowest"),
                        ("time() - max(ragweir_watermark_timestamp_seconds > 0)", "fastest"),
                    ),
                    unit="s",
                ),
                Panel(
                    "Late and overflowing events",
                    "Per minute: events after their window had closed, and events counted as __overflow__.",
                    (
                        ("60 * sum(rate(ragweir_late_events_total[$__rate_interval]))", "late"),
                        ("60 * sum(rate(ragweir_window_overflow_total[$__rate_interval]))", "overflow"),
                    ),
                    unit="opm",
                    width=8,
                ),
                Panel(
                    "Windows in memory",
                    "Windows of all partitions, by worker; they take most of the aggregate service's memory.",
                    (("sum by (instance) (ragweir_windows_held)", "{{instance}}"),),
                    width=8,
                ),
                Panel(
                    "Partitions assigned",
                    "By service; the sum is the number of partitions of its inputs.",
                    ((f"sum by (service) (ragweir_assigned_partitions{_OF_SERVICE})", "{{service}}"),),
                    width=8,
                ),
                Panel(
                    "Records read by the exporter",
                    "Per minute, by outcome.",
                    ((_per_minute("ragweir_window_records_total", "outcome"), "{{outcome}}"),),
                    unit="opm",
                ),
                Panel(
                    "Memory of the exporter's open windows",
                    "Size of the records of windows that are not closed.",
                    (("max by (instance) (ragweir_open_window_bytes)", "{{instance}}"),),
                    unit="bytes",
                ),
            ),
        ),
        (
            "Transactions",
            (
                Panel(
                    "Transactions by outcome",
                    "Per second. Occasional aborts are normal, continuous ones are not.",
                    (("sum by (outcome) (rate(ragweir_transactions_total[$__rate_interval]))", "{{outcome}}"),),
                    unit="ops",
                    width=8,
                ),
                Panel(
                    "Time of a batch, 99 %",
                    "Time to compute it, and to write and commit it.",
                    (
                        (_quantile("ragweir_handle_seconds", 0.99), "handle"),
                        (_quantile("ragweir_commit_seconds", 0.99), "commit"),
                    ),
                    unit="s",
                    width=8,
                ),
                Panel(
                    "Since the last commit",
                    "By worker. A worker without traffic commits nothing.",
                    (("time() - max by (instance) (ragweir_last_commit_timestamp_seconds)", "{{instance}}"),),
                    unit="s",
                    width=8,
                ),
            ),
        ),
    )


def _bad_share(span: str) -> str:
    counted = f'ragweir_slo_events_total{{slo=~"$slo"%s}}[{span}]'
    bad = counted % ',outcome="bad"'
    return f"sum by (slo) (rate({bad})) / sum by (slo) (rate({counted % ''}))"


def _per_minute(counter: str, by: str) -> str:
    return f"60 * sum by ({by}) (rate({counter}[$__rate_interval]))"


def _quantile(histogram: str, share: float) -> str:
    return f"histogram_quantile({share}, sum by (le) (rate({histogram}_bucket[$__rate_interval])))"


def variables(dimensions: tuple[str, ...]) -> list[board.QueryVariable]:
    """Return the variables of the dashboard, with the values of label names in the series."""
    table = [
        ("window", "ragweir_window_events", "window", False),
        ("metric", '{__name__=~"ragweir_window_(mean|share)"}', "metric", False),
        ("judged", "ragweir_window_judged", "metric", False),
    ]
    table += [(name, "ragweir_window_events", name, True) for name in label_names(dimensions)]
    table += [("slo", "ragweir_slo_events_total", "slo", True)]
    made = []
    for name, series, values_of, many in table:
        variable = (
            board.QueryVariable(name)
            .label(name.replace("_", " "))
            .datasource(_SOURCE)
            .query(f"label_values({series}, {values_of})")
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(VariableSort.ALPHABETICAL_ASC)
            .multi(many)
            .include_all(many)
        )
        if many:
            # Matches series without the label as well, whose windows have other dimensions.
            variable = variable.all_value(".*").current(VariableOption(text="All", value="$__all"))
        made.append(variable)
    return made


def _built_panel(panel: Panel, number: int) -> timeseries.Panel | stat.Panel:
    drawn = stat.Panel() if panel.newest else timeseries.Panel()
    drawn = (
        drawn.id(number)
        .title(panel.title)
        .description(panel.description)
        .datasource(_SOURCE)
        .unit(panel.unit)
        .span(panel.width)
        .height(_HEIGHT)
    )
    for ref_id, (expression, legend) in zip(ascii_uppercase, panel.queries, strict=False):
        query = prometheus.Dataquery().datasource(_SOURCE).ref_id(ref_id).expr(expression)
        drawn = drawn.with_target(query.legend_format(legend or "__auto"))
    if isinstance(drawn, timeseries.Panel):
        legend = common.VizLegendOptions().show_legend(show_legend=True).placement(LegendPlacement.BOTTOM)
        drawn = drawn.legend(legend.display_mode(LegendDisplayMode.LIST)).tooltip(
            common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI)
        )
    return drawn


def dashboard(dimensions: tuple[str, ...]) -> Dashboard:
    """Return the dashboard."""
    built = (
        board.Dashboard("ragweir")
        .uid("ragweir")
        .description("Quality of RAG answers by event time, and the health of ragweir. Generated by dashboard.py.")
        .tags(["rag", "ragweir"])
        .readonly()
        .refresh("30s")
        .time("now-6h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .with_variable(board.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
    )
    for variable in variables(dimensions):
        built = built.with_variable(variable)
    objective = board.TextBoxVariable("objective").default_value("0.95").hide(VariableHide.DONT_HIDE)
    built = built.with_variable(objective.current(VariableOption(text="0.95", value="0.95")))
    numbers = count(1)  # The SDK leaves ids empty, and Grafana needs them.
    for title, panels in rows(dimensions):
        built = built.with_row(board.Row(title).id(next(numbers)))
        for panel in panels:
            built = built.with_panel(_built_panel(panel, next(numbers)))
    return built.build()


def text(dimensions: tuple[str, ...] = WindowSettings().dimensions) -> str:
    """Return the dashboard as JSON with sorted keys."""
    return JSONEncoder(sort_keys=True, indent=2).encode(dashboard(dimensions)) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
