"""Stops a command that reads a file: the input ends at a signal, and the lines that were read are finished."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO

from ragweir.streams.sources.lines import LineSource


class Stop:
    """Ends the input at the first SIGINT or SIGTERM, and the command at the second."""

    def __init__(self) -> None:
        self.asked = False
        """True once a signal has come."""
        self.cut = False
        """True if the signal ended an input."""
        self._waiting = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals for the length of a `with` block."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, _: int, __: FrameType | None) -> None:
        again, self.asked = self.asked, True
        # Without an exception Python would continue to wait for input after this handler.
        if again or self._waiting:
            self._waiting = False
            raise KeyboardInterrupt

    def ending(self, file: BinaryIO) -> LineSource:
        """Return a file that ends when a signal comes, also while it waits for input."""
        return _Ending(self, file)

    def _next(self, file: BinaryIO, size: int) -> bytes:
        if not self.asked:
            try:
                self._waiting = True
                line = file.readline(size)
                self._waiting = False
            except KeyboardInterrupt:
                if not self.asked:
                    raise
            else:
                return line
        self.cut = True
        return b""


@dataclass(frozen=True, slots=True)
class _Ending:
    stop: Stop
    file: BinaryIO

    def readline(self, size: int = -1, /) -> bytes:
        """Return the next line; empty at the end."""
        return self.stop._next(self.file, size)
