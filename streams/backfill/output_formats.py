"""Windows into files, each in its own format and all in one pass: whole files, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from ragweir.schemas.codec.json import encode
from ragweir.schemas.window import Window
from ragweir.streams.permissions import replacing


class Format(Protocol):
    """How a file has windows, one after the other."""

    @property
    def end(self) -> bytes:
        """What stands behind the last one."""

    def of(self, window: Window) -> bytes:
        """What stands there of one."""


class JsonLines:
    """A line per window, as `ragweir score --windows` writes them."""

    end = b""

    def of(self, window: Window) -> bytes:
        """The window as a line."""
        return encode(window) + b"\n"


def write(windows: Iterable[Window], files: Mapping[Path, Format]) -> int:
    """Write windows into files that take the place of earlier ones when all is written; gives how many there were.

    What is there and is no regular file, such as a pipe, is written to as windows come.

    Raises:
        OSError: if a file cannot be written; then none has changed. So it is when the windows end in an error.
    """
    count = 0
    with ExitStack() as stack:
        outputs = [(stack.enter_context(replacing(file)), form) for file, form in files.items()]
        for window in windows:
            count += 1
            for output, form in outputs:
                output.write(form.of(window))
        for output, form in outputs:
            output.write(form.end)
            output.flush()  # Here a full disk is noticed, before any file takes its place.
    return count
