"""Output formats of windows, and writing several files in one pass: all are replaced, or none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path

from typing_extensions import override

from ragweir.streams.services.aggregate.merged_window import MergedWindow
from ragweir.streams.settings.permissions import replacing


class OutputFormat(ABC):
    """Format of a file of windows."""

    end = b""
    """Bytes after the last window."""

    @abstractmethod
    def lines(self, window: MergedWindow) -> bytes:
        """Return the lines of one window."""


class JsonLines(OutputFormat):
    """One JSON object per line, as `ragweir score --windows` writes them."""

    @override
    def lines(self, window: MergedWindow) -> bytes:
        """Return the window as a line."""
        return window.encode() + b"\n"


def write(windows: Iterable[MergedWindow], files: Mapping[Path, OutputFormat]) -> int:
    """Write windows to files, which replace earlier ones once all are complete; return the number of windows.

    A file that exists and is not regular, such as a pipe, is written as windows come.

    Raises:
        OSError: if a file cannot be written; none is replaced, nor if iterating over the windows raises.
    """
    count = 0
    with ExitStack() as stack:
        outputs = [(stack.enter_context(replacing(file)), form) for file, form in files.items()]
        for window in windows:
            count += 1
            for output, form in outputs:
                output.write(form.lines(window))
        for output, form in outputs:
            output.write(form.end)
            output.flush()  # A full disk is an error here, before any file is replaced.
    return count
