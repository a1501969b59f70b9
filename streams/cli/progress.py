"""Progress bars of commands: shown on standard error while it is a terminal, and removed at the end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn

from ragweir.streams.cli.app import err
from ragweir.streams.kafka.reader import OnProgress
from ragweir.streams.terminal import printable

_REDRAW_SECONDS = 0.2


class Bars(Progress):
    """Bars with the share that is done, the time that is left, and a text such as a rate or a lag.

    `with Bars() as bars` shows them for the length of the block.
    """

    def __init__(self) -> None:
        detail = TextColumn("{task.fields[detail]}", markup=False)
        text = TextColumn("{task.description}", markup=False)
        columns = text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), detail
        super().__init__(*columns, console=err, transient=True, disable=not err.is_terminal)

    def add(self, doing: str, total: float | None = None) -> TaskID:
        """Add a bar; without a total it is shown as under way."""
        return self.add_task(printable(doing), total=total, detail="")

    def watch(self, doing: str, total: float | None) -> OnProgress:
        """Add a bar, and return the function that advances it."""
        task = self.add(doing, total)
        return lambda steps: self.advance(task, steps)

    @contextmanager
    def shown(self, doing: str, total: float | None) -> Iterator[OnProgress]:
        """Show a bar for the length of a `with` block, which gets the function that advances it."""
        task = self.add(doing, total)
        try:
            yield lambda steps: self.advance(task, steps)
        finally:
            self.remove_task(task)


class FileProgress:
    """The progress of reading files: the share of their bytes, and the rate of their events.

    Args:
        bars: shows the bar.
        doing: the text before it.
        total: the size of the files in bytes; None if it is not known.
    """

    def __init__(self, bars: Bars, doing: str, total: int | None) -> None:
        self._bars, self._task = bars, bars.add(doing, total)
        self._began_s = self._drawn_s = time.monotonic()
        self._drawn_bytes = 0
        self.events = self.bytes = 0

    def on_bytes(self, count: int) -> None:
        """Add bytes that were read."""
        self.bytes += count

    def on_event(self) -> None:
        """Add an event that is done."""
        self.events += 1
        now_s = time.monotonic()
        if now_s - self._drawn_s >= _REDRAW_SECONDS:
            rate = self.events / (now_s - self._began_s)
            detail = f"{self.events:,} events, {rate:,.0f}/s"
            self._bars.update(self._task, advance=self.bytes - self._drawn_bytes, detail=detail)
            self._drawn_s, self._drawn_bytes = now_s, self.bytes
