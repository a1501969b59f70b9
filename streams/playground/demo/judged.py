"""What the demo shows of its judge at the end: why it was asked, the bill, some judgements, an estimate. Simulated."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.window import EstimateFlag
from ragweir.streams.evaluate.routing import FLOOR
from ragweir.streams.playground.demo.judge_statistics import FAITHFULNESS, OUTCOMES, JudgeStatistics
from ragweir.streams.playground.demo.show import EVENT_WIDTH
from ragweir.streams.settings import Settings

_SHOWN = 3
"""Judgements at either end."""
_REASONS_WIDTH = 19
_FREE = "unsupported_risk"
"""What was scored without a judge, to stand beside what it said."""
_FLAGS: Mapping[EstimateFlag, str] = {
    "too_few": "too few were drawn at random for an interval",
    "incomplete": "not all that were selected are judged yet",
    "partial": "some had no chance of being judged",
}


def summarise_judged(console: Console, docket: JudgeStatistics, settings: Settings, calls: int) -> None:
    """What the judge was asked, and what came of it.

    Args:
        console: where it goes.
        docket: of the traffic.
        settings: of the services.
        calls: how many the simulated judge has answered.
    """
    _head(console, "The judge", " (simulated: its scores are word overlap, no model is asked)")
    console.print(_reasons(docket))
    for line in (_floor(settings), _bill(docket, settings, calls)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    _some(console, docket)
    _estimate(console, docket)


def _head(console: Console, head: str, rest: str) -> None:
    console.print(Text.assemble((f"\n{head}", "bold"), rest), soft_wrap=True)


def _reasons(docket: JudgeStatistics) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("because of")
    for title in ("selected", *OUTCOMES):
        table.add_column(title, justify="right", min_width=8)
    for reason, counts in [*docket.by_reason(), ("all events", docket.statuses)]:
        table.add_row(reason, str(counts.total()), *(str(counts[each]) for each in OUTCOMES))
    return table


def _floor(settings: Settings) -> str:
    shares = ", ".join(f"{share:.0%} for {suite}" for suite, share in settings.routing.floors.items())
    return f"An event may have several reasons; {FLOOR} is no rule but the random draw from all events, {shares}."


def _bill(docket: JudgeStatistics, settings: Settings, calls: int) -> str:
    budget = settings.judge.daily_budget_usd or 0.0
    told = (
        f"Spent {docket.cost_usd:.4f} of {budget:.2f} dollars a day, at prices made up for it: {calls} calls,"
        f" {docket.input_tokens:,} tokens in, {docket.output_tokens:,} out."
    )
    if later := docket.statuses["deferred"]:
        told += (
            f"\n{later} wait for midnight (UTC): {docket.why_later}; what is left of a worker's part would not cover"
            " the longest answer."
        )
    return told


def _some(console: Console, docket: JudgeStatistics) -> None:
    """The worst and the best by the judge, each sample once."""
    found: dict[str, tuple[float, Evaluation]] = {}
    for asked in docket.events.values():
        if asked.judged and asked.faithfulness is not None:
            found.setdefault(asked.judged.labels["sample"], (asked.faithfulness, asked.judged))
    if not found:
        return
    _head(console, "Some judgements", f": {_FREE}, {FAITHFULNESS} (simulated), why asked")
    ordered = sorted(found.values(), key=lambda each: (each[0], each[1].event_id))
    for faithfulness, judged in ordered if len(ordered) <= 2 * _SHOWN else [*ordered[:_SHOWN], *ordered[-_SHOWN:]]:
        risk = judged.scores.get(_FREE)
        free = "   -" if risk is None else f"{risk:.2f}"
        reasons = ", ".join(docket.events[judged.event_id].reasons)
        said = judged.explanations.get(FAITHFULNESS, "")
        line = Text(
            f"{free}  {faithfulness:.2f}  {judged.event_id:<{EVENT_WIDTH}}  {reasons:<{_REASONS_WIDTH}}  {said}"
        )
        line.truncate(max(console.width, 80), overflow="ellipsis")
        console.print(line, soft_wrap=True)


def _estimate(console: Console, docket: JudgeStatistics) -> None:
    found = docket.estimate()
    if found is None:
        return
    result = found.result
    mean = "-" if result.mean is None else f"{result.mean:.2f}"
    between = "" if result.low is None else f", 95 % interval {result.low:.2f} to {result.high:.2f}"
    lines = [
        f"plain mean {found.plain:.2f}: the {found.judged} that have it, which are mostly suspicious ones",
        f"weighted mean {mean}{between}: all answers, each judged one standing for those like it",
        *(f"{flag}: {_FLAGS[flag]}" for flag in result.flags),
    ]
    _head(console, f"{FAITHFULNESS} of all answers", ", estimated from those judged (simulated)")
    console.print("\n".join(f"  {line}" for line in lines), markup=False, highlight=False, soft_wrap=True)
