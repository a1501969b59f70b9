"""Stopping a command that reads a file: the input ends there, so that what was read is finished as at its end."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO

from ragweir.streams.runtimes.files import LineSource


class Stop:
    """The first SIGINT or SIGTERM ends the input, a second one the command, wherever it is."""

    def __init__(self) -> None:
        self.asked = False
        """Return whether a signal has come."""
        self.cut = False
        """Return whether it ended an input."""
        self._waiting = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals for as long as the block runs."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, _: int, __: FrameType | None) -> None:
        again, self.asked = self.asked, True
        # Python would go on waiting for input after this handler if it did not raise.
        if again or self._waiting:
            self._waiting = False
            raise KeyboardInterrupt

    def ending(self, file: BinaryIO) -> LineSource:
        """A file that ends when a signal has come, also while it waits for more."""
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
        """The next line; empty at the end."""
        return self.stop._next(self.file, size)
