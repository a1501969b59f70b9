"""Tables of the metrics that a sample of events allows, of the reasons for the others, and of single events' scores."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ragweir.metrics.metric import Metric
from ragweir.metrics.unavailable import CONTENT_ABSENT
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.commands.screens.evaluation_summary import HEADLINES, decimal
from ragweir.streams.runtime.text.terminal import printable

_SHOWN = 3
_ID_WIDTH = 16
_LACKS = "the event has no "
"""The beginning of the reason of a metric whose field is absent."""
_NEEDS = (
    (_LACKS, "it"),
    ("the event has not both ", "both"),
    ("the event has neither ", "one of them"),
)
"""Beginnings of reasons that name absent fields, and the word for the fields in a sentence."""
_NO_PACK = f"{_LACKS}question_id that has a question pack"


def _gathered(evaluations: Sequence[Evaluation]) -> tuple[dict[str, list[float | str]], dict[str, str]]:
    """Return for each metric all values, and the most frequent reason why there is none.

    An absent field that some events have is no reason for a metric without any value, if there is another reason.
    """
    values: defaultdict[str, list[float | str]] = defaultdict(list)
    reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for evaluation in evaluations:
        for name, value in (evaluation.scores | evaluation.categories).items():
            if value is not None:
                values[name].append(value)
        for name, reason in evaluation.reasons.items():
            reasons[name][reason] += 1
    lacking: Counter[str] = Counter()
    for counted in reasons.values():
        lacking |= counted
    sometimes = {reason for reason, number in lacking.items() if number < len(evaluations) and _LACKS in reason}
    why = {}
    for name, counted in reasons.items():
        others = Counter({reason: number for reason, number in counted.items() if reason not in sometimes})
        why[name] = (others if others and name not in values else counted).most_common(1)[0][0]
    return values, why


def coverage(evaluations: Sequence[Evaluation], metrics: Mapping[str, Metric]) -> Table:
    """Return a table of the metrics that can be computed of some events, by group."""
    values, why = _gathered(evaluations)
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column(f"Of {len(evaluations)} events", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("mean or labels", max_width=14, overflow="fold")
    table.add_column("why not the others")
    for group, members in groupby((metrics[name] for name in metrics if name in values), lambda each: each.group):
        table.add_row(Text(group, "bold"))
        for metric in members:
            found = values[metric.name]
            share = f"{100 * len(found) / len(evaluations):.0f} %"
            reason = why.get(metric.name, "").removeprefix("the event has ")
            table.add_row(f"  {metric.name}", share, _mean(found), Text(reason, "dim"))
    return table


def further_fields(evaluations: Sequence[Evaluation], metrics: Mapping[str, Metric]) -> Group:
    """Return the metrics that can be computed of no event, by the field that would make them computable."""
    values, why = _gathered(evaluations)
    never: defaultdict[str, list[str]] = defaultdict(list)
    for name in metrics:
        if name not in values:
            never[why.get(name, _NO_PACK)].append(name)
    if not never:
        return Group()
    parts: list[RenderableType] = [Text("\nOn none of them", "bold")]
    for reason, names in sorted(never.items(), key=lambda each: -len(each[1])):
        parts += [Text(f"  {_needed(reason, len(names))}", "dim"), Padding(Text(", ".join(names)), (0, 0, 0, 4))]
    return Group(*parts)


def _needed(reason: str, metrics: int) -> str:
    """Return what metrics need that are null for a reason.

    >>> _needed("the event has no expected", 8), _needed("the event has not both started_at and ended_at", 1)
    ('expected: 8 more need it', 'started_at and ended_at: 1 more needs both')
    >>> _needed("content_absent", 8)
    'texts: 8 more need those that were not captured (content_absent)'
    """
    if reason == CONTENT_ABSENT:
        return f"texts: {metrics} more need{'s' if metrics == 1 else ''} those that were not captured ({reason})"
    for beginning, them in _NEEDS:
        if reason.startswith(beginning):
            fields = reason.removeprefix(beginning).replace(" nor ", " or ")
            return f"{fields}: {metrics} more need{'s' if metrics == 1 else ''} {them}"
    return f"{reason}: {metrics} more"


def _mean(found: Sequence[float | str]) -> str:
    labels = Counter(value for value in found if isinstance(value, str))
    if labels:
        return ", ".join(f"{label} {number}" for label, number in labels.most_common(3))
    return decimal(fmean(value for value in found if not isinstance(value, str)))


def samples(evaluations: Sequence[Evaluation]) -> Table:
    """Return a table with the scores of a few events, spread over the sample."""
    shown = evaluations[:: -(-len(evaluations) // _SHOWN)]
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("\nSome events")
    for evaluation in shown:
        table.add_column(f"\n{printable(evaluation.event_id, _ID_WIDTH)}", justify="right", no_wrap=True)
    for name in HEADLINES:
        row = [evaluation.scores.get(name) for evaluation in shown]
        if any(value is not None for value in row):
            table.add_row(f"  {name}", *("" if value is None else decimal(value) for value in row))
    return table
