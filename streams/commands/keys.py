"""Keys of a terminal, each as it is pressed; or the characters of standard input where that is no terminal."""

from __future__ import annotations

import os
import re
import signal
import sys
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Any, Self

import typer

_READ_BYTES = 256
_SEQUENCES = {"[B": "down", "[6~": "down", "[A": "up", "[5~": "up"}
"""The names of keys by the codes that a terminal sends after ESC: arrows and pages, down and up."""
_KEY = re.compile(r"\x1b([\[O][\d;]*[ -/]*[@-~])|.", re.DOTALL)
_END_OF_INPUT = "\x04"
"""Ctrl-D, as a terminal sends it where lines are not edited."""


class Keys:
    """The keys, of which some have names: `down` and `up`. Line ends are no keys.

    `with Keys() as keys` sets a terminal so that it sends single keys and does not show them, and restores it at the
    end of the block. Ctrl-C is a signal as ever.
    """

    def __init__(self) -> None:
        if sys.stdin is None:
            raise typer.BadParameter("standard input is closed, from which the keys are read")
        self.of_terminal = sys.stdin.isatty()
        """True if a person presses the keys."""
        self.on_changed: Callable[[], None] = lambda: None
        """Called when a terminal has another size, or the command goes on after it was suspended."""
        self._stack = ExitStack()
        self._pressed: deque[str] = deque()
        self._flush: Callable[[], object] = lambda: None
        self._read: Callable[[], bytes] = self._read_file

    def __enter__(self) -> Self:
        if self.of_terminal:
            self._set_terminal(sys.stdin.fileno())
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[str]:
        """Yield keys until the input ends."""
        decode = getincrementaldecoder("utf-8")("replace").decode
        while data := self._read():
            self._pressed.extend(_keys(decode(data)))
            while self._pressed:
                if (key := self._pressed.popleft()) == _END_OF_INPUT:
                    return
                yield key

    def forget(self) -> None:
        """Forget keys of a terminal that were pressed before now: nobody answers a question before it is shown."""
        if self.of_terminal:
            self._flush()
            self._pressed.clear()

    @staticmethod
    def _read_file() -> bytes:
        return sys.stdin.buffer.read(1)

    def _set_terminal(self, descriptor: int) -> None:
        try:
            import termios  # noqa: PLC0415 - there is none on Windows
            import tty  # noqa: PLC0415
        except ImportError:
            self._read = lambda: typer.getchar().encode()
            return

        def read() -> bytes:
            try:
                return os.read(descriptor, _READ_BYTES)
            except OSError:  # The terminal is gone.
                return b""

        def restore(before: list[Any]) -> None:
            with suppress(termios.error):  # The terminal is gone.
                termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

        def change(*_: object) -> None:
            tty.setcbreak(descriptor)  # A shell may have changed it while the command was suspended.
            self.on_changed()

        self._stack.callback(restore, termios.tcgetattr(descriptor))
        tty.setcbreak(descriptor)
        for number in (signal.SIGCONT, signal.SIGWINCH):
            self._stack.callback(signal.signal, number, signal.signal(number, change))
        self._read, self._flush = read, lambda: termios.tcflush(descriptor, termios.TCIFLUSH)


def _keys(text: str) -> Iterator[str]:
    r"""Yield the keys that a terminal sends as a text.

    >>> list(_keys("y\x1b[B\x1b[H\r\n"))
    ['y', 'down']
    """
    for found in _KEY.finditer(text):
        key = _SEQUENCES.get(found[1], "") if found[1] else found[0]
        if key.strip("\r\n"):
            yield key
