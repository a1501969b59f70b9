"""The story of one trace for a terminal: its spans as a tree, with their times and uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from ragweir.streams.analysis.dead_letters.letters import shown
from ragweir.streams.analysis.traces.story import LATE, SpanStory, TraceStory
from ragweir.streams.runtime.text.terminal import Terminal, printable
from ragweir.streams.traces.advice import ADVICE

_MAX_SPANS = 200
"""Spans that are shown."""
_MAX_DEPTH = 20
_NAME_CHARACTERS = 80
_NS_PER_MS = 1_000_000
_STYLES = {LATE: "yellow", "ignored": "dim", "duplicate": "dim", "pending": "dim", "root": "bold"}


@dataclass(frozen=True, slots=True)
class TraceScreen:
    """Prints the stories of traces.

    Args:
        terminal: the console to print on.
    """

    terminal: Terminal

    def show(self, story: TraceStory) -> None:
        """Print the story of one trace."""
        say = self.terminal.say
        say("\nTrace", "bold underline")
        for line in _lines(story):
            say(f"  {line}")
        if story.spans:
            self.terminal.print(_table(story))
        if len(story.spans) > _MAX_SPANS:
            say(f"  and {len(story.spans) - _MAX_SPANS:,} more spans, which --json has")
        for gap in story.gaps:
            say(f"  {gap}: {ADVICE[gap]}")


def _lines(story: TraceStory) -> Iterator[str]:
    """Yield what is known of the trace as a whole."""
    if not story.records:
        if not story.whole:
            yield f"{story.trace_id}: its spans are not among the searched records; --newest or --since searches more"
        elif story.deleted:
            yield f"{story.trace_id}: its spans are deleted, as the retention of the topic has passed"
        else:
            yield f"{story.trace_id}: the topic of spans has none of it"
        return
    counts = f"{len(story.spans):,} spans, {story.logs:,} log records, in {story.records:,} records"
    yield f"{story.trace_id}: {counts}, {_plural(len(story.interactions), 'interaction')}"
    if not story.whole or story.deleted:
        missing = "were deleted by retention" if story.whole else "were not searched"
        yield f"older records of its partition {missing}, so that spans may be missing here"
    if not story.closed:
        yield "join has not closed it, as far as its ledger was searched: the uses below are those of the spans so far"
    uses = Counter(each.use for each in story.spans)
    yield ", ".join(f"{use} {number:,}" for use, number in uses.most_common())
    if story.late:
        yield f"{_plural(story.late, 'late span')}: read after the trace was closed, which is final, and without effect"


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _table(story: TraceStory) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("  at", "took"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("span", "kind", "use", "remarks"):
        table.add_column(name, overflow="fold")
    began_ns = story.began_ns
    for each in story.spans[:_MAX_SPANS]:
        style = _STYLES.get(each.use, "")
        name = "  " * min(each.depth, _MAX_DEPTH) + printable(each.name, _NAME_CHARACTERS)
        at, took = each.span.started_ns - began_ns, each.span.ended_ns - each.span.started_ns
        cells = f"  +{_duration(at)}", _duration(took), name, each.kind or "", each.use, "; ".join(_remarks(each))
        table.add_row(*(Text(cell, style) for cell in cells))
    return table


def _duration(nanoseconds: int) -> str:
    """Return a duration in milliseconds, or in seconds from ten of these on.

    >>> _duration(1_234_567), _duration(12_000_000_000), _duration(-5_000_000)
    ('1 ms', '12.0 s', '-5 ms')
    """
    ms = nanoseconds / _NS_PER_MS
    return f"{ms / 1_000:,.1f} s" if abs(ms) >= 10_000 else f"{ms:,.0f} ms"


def _remarks(each: SpanStory) -> Iterator[str]:
    if each.span.error is not None:
        yield f"error: {shown(each.span.error, 200) or 'without a message'}"
    if not each.has_parent:
        yield f"parent {each.span.parent_id} {'is remote' if each.span.remote_parent else 'never came'}"
    if each.copies > 1:
        yield f"came {each.copies} times"
    if each.span.dropped_attributes:
        yield f"{each.span.dropped_attributes:,} attributes cut by the SDK"
