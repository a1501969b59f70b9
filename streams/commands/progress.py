"""Progress of commands on standard error: bars on a terminal, which are removed at the end, or lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.progress import BarColumn, Progress, TaskID, TaskProgressColumn, TextColumn, TimeRemainingColumn
from typing_extensions import override

from ragweir.streams.commands.app import err
from ragweir.streams.runtime.kafka.reader import OnProgress
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable

_REDRAW_SECONDS = 0.2
_LINE_SECONDS = 10.0
"""Interval of the lines where there is no terminal."""


class Bars(Progress):
    """Bars with the share that is done, the time that is left, and a text such as a rate or a lag.

    `with Bars() as bars` shows them for the length of the block.

    Args:
        lines: True to write a line every ten seconds where standard error is no terminal.
    """

    def __init__(self, *, lines: bool = False) -> None:
        self._next_line_s = machine.monotonic() + _LINE_SECONDS if lines and not err.is_terminal else math.inf
        detail = TextColumn("{task.fields[detail]}", markup=False)
        text = TextColumn("{task.description}", markup=False)
        columns = text, BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), detail
        super().__init__(*columns, console=err, transient=True, disable=not err.is_terminal)

    def add(self, doing: str, total: float | None = None) -> TaskID:
        """Add a bar; without a total it is shown as under way."""
        return self.add_task(printable(doing), total=total, detail="")

    @override
    def update(self, task_id: TaskID, **fields: Any) -> None:
        super().update(task_id, **fields)
        self._write_line(task_id)

    @override
    def advance(self, task_id: TaskID, advance: float = 1) -> None:
        super().advance(task_id, advance)
        self._write_line(task_id)

    def _write_line(self, task_id: TaskID) -> None:
        """Write the progress of a task as a line if it is time for one."""
        if machine.monotonic() < self._next_line_s:
            return
        self._next_line_s = machine.monotonic() + _LINE_SECONDS
        task = self._tasks[task_id]
        left = task.time_remaining
        parts = [
            f"{task.percentage:.0f} %" if task.total else "",
            f"{timedelta(seconds=round(left))} left" if left is not None else "",
            task.fields["detail"],
        ]
        err.say(f"{task.description}: {', '.join(filter(None, parts)) or 'under way'}")

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
        self._began_s = self._drawn_s = machine.monotonic()
        self._drawn_bytes = 0
        self.events = self.bytes = 0

    def on_bytes(self, count: int) -> None:
        """Add bytes that were read."""
        self.bytes += count

    def on_event(self) -> None:
        """Add an event that is done."""
        self.events += 1
        now_s = machine.monotonic()
        if now_s - self._drawn_s >= _REDRAW_SECONDS:
            rate = self.events / (now_s - self._began_s)
            detail = f"{self.events:,} events, {rate:,.0f}/s"
            self._bars.update(self._task, advance=self.bytes - self._drawn_bytes, detail=detail)
            self._drawn_s, self._drawn_bytes = now_s, self.bytes
