"""The causes of bad answers for a terminal: a table, and of each cause bad and good answers side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest

from rich.table import Table
from rich.text import Text

from ragweir.streams.analysis.blame.blame_report import BlameReport, NamedCause
from ragweir.streams.analysis.evidence.support_evidence import cut
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.runtime.text.terminal import Terminal, printable

_ROWS, _EXAMPLES_OF = 20, 5
_NAME, _TEXT = 60, 240


@dataclass(frozen=True, slots=True)
class BlameScreen:
    """Prints a report.

    Args:
        terminal: the console to print on.
        report: the causes.
        texts: the texts of examples by id.
    """

    terminal: Terminal
    report: BlameReport
    texts: Mapping[str, EventTexts]

    def show(self) -> None:
        """Print the causes, their examples and the notes."""
        report, say = self.report, self.terminal.say
        say(printable(report.headline, None))
        if report.causes:
            self.terminal.print(self._causes())
        elif report.verdict:
            say(report.verdict)
        for cause in [each for each in report.causes if each.silence is None][:_EXAMPLES_OF]:
            self._examples(cause)
        for note in report.notes:
            say(printable(note, None), "dim")

    def _causes(self) -> Table:
        table = Table(title=self.report.words, title_justify="left", box=None, padding=(0, 2, 0, 0))
        table.add_column("cause", overflow="fold", min_width=20)
        for column in ("bad", "answers", "excess", "difference (points)", "p"):
            table.add_column(column, justify="right", no_wrap=column != "difference (points)")
        for cause in self.report.causes[:_ROWS]:
            own = cause.numbers
            interval = f"{100 * own.difference:+.0f} ({100 * own.low:+.0f} to {100 * own.high:+.0f})"
            table.add_row(
                Text(self._name(cause)),
                f"{own.bad:,}",
                f"{own.servings:,}",
                f"{own.excess_bad:,.0f}",
                interval,
                f"{own.p_adjusted:.1g}",
                style="" if cause.silence is None else "dim",
            )
        if (more := len(self.report.causes) - _ROWS) > 0:
            table.caption = f"and {more:,} more; --json has them all"
        return table

    def _name(self, cause: NamedCause) -> str:
        parts = [f"{printable(facet)} {printable(value, _NAME)}" for facet, value in cause.facets.items()]
        name = ", ".join(parts)
        if cause.also:
            others = ", ".join(f"{printable(facet)} {printable(value, _NAME)}" for facet, value in cause.also[:3])
            name += f" (the same answers: {others}{', ...' if len(cause.also) > 3 else ''})"
        if cause.silence is not None:
            name += f" (silenced until {cause.silence.until:%Y-%m-%d}: {printable(cause.silence.reason, _NAME)})"
        if cause.numbers.within is None:
            return name
        holder = self.report.causes[cause.numbers.within].title
        return f"within {printable(holder, _NAME)}: {name}"

    def _examples(self, cause: NamedCause) -> None:
        table = Table(title=f"\n{self._name(cause)}", title_justify="left", box=None, padding=(0, 2, 0, 0))
        table.add_column("bad", ratio=1, overflow="fold")
        table.add_column("good, without it", ratio=1, overflow="fold")
        for bad, good in zip_longest(cause.bad_examples, cause.good_examples):
            table.add_row(self._answer(bad), self._answer(good))
        self.terminal.print(table)

    def _answer(self, event_id: str | None) -> Text:
        if event_id is None:
            return Text("")
        found = Text(printable(event_id, _NAME), "bold")
        if (own := self.texts.get(event_id)) is not None:
            for text in (own.query, own.response):
                found.append(f"\n{printable(cut(text, _TEXT), None)}", "not bold")
        return found
