"""Stops commands at signals. One that reads a file ends its input, and finishes the lines that were read."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


def interrupt_on_signals() -> None:
    """Let SIGINT, SIGTERM and a closed terminal raise KeyboardInterrupt. nohup keeps its meaning."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


class Stop:
    """Ends the input at the first SIGINT or SIGTERM, and the command at the second."""

    def __init__(self) -> None:
        self.asked = False
        """True once a signal has come."""
        self.cut = False
        """True if the signal ended an input."""
        self._waiting = False

    @contextmanager
    def listening(self, *more: signal.Signals) -> Iterator[None]:
        """Handle SIGINT, SIGTERM and more signals for the length of a `with` block."""
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM, *more)}
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

    def ending(self, events: Iterator[T]) -> Iterator[T]:
        """Yield events until a signal comes, also while the next one is waited for; what was read of it is dropped."""
        while not self.asked:
            try:
                self._waiting = True
                event = next(events, None)
                self._waiting = False
            except KeyboardInterrupt:
                if not self.asked:
                    raise
                break
            finally:
                self._waiting = False
            if event is None:
                return
            yield event
        self.cut = True
