"""A person at a terminal who runs `ragweir labels rate`: sees screens, and presses keys.

Run as a program it is a rater whose command is killed again and again: see `main`.
"""

import json
import os
import pty
import random
import re
import select
import signal
import sys
import time

CLEARED = b"\x1b[2J\x1b[H"
_PATIENCE_S = 60
_LAST = "any other key leaves"
_ENDS = "? help", _LAST
"""The ends of screens: that of an answer, and the last one."""


class RaterTerminal:
    """A terminal on which a command runs.

    Args:
        descriptor: this end of it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.output = b""
        """All that the command wrote."""

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def wait(self, after: int = 0) -> str:
        """Wait until a screen is drawn whole after these bytes of output; returns it."""
        until = time.monotonic() + _PATIENCE_S
        while not self._is_drawn(after):
            if time.monotonic() > until or not self._read(1):
                raise AssertionError(f"no whole screen, but {self.screen}")
        return self.screen

    def _is_drawn(self, after: int) -> bool:
        screen = self.screen
        return CLEARED in self.output[after:] and screen.endswith("\n") and any(each in screen for each in _ENDS)

    def answer(self, keys: str) -> str:
        """Press keys, and wait for the next screen."""
        before = len(self.output)
        self.press(keys)
        return self.wait(before)

    def end(self) -> str:
        """Read until the command ends; returns the text after its screens."""
        while self._read(_PATIENCE_S):
            pass
        return self.output.rpartition(b"\x1b[?1049l")[2].decode()

    @property
    def screen(self) -> str:
        return re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", self.output.rpartition(CLEARED)[2].decode(errors="replace"))

    def _read(self, seconds: float) -> bool:
        """Read what there is; returns false once the command has ended."""
        if select.select([self._descriptor], [], [], seconds)[0]:
            try:
                data = os.read(self._descriptor, 1 << 16)
            except OSError:
                return False
            self.output += data
            return bool(data)
        return True


def main(rounds: str, seed: str, *arguments: str) -> None:
    """Rate a queue whose events have their ids as queries; each round's command is killed at some moment, but for the
    last one, which ends the queue. Up to five answers of a round are waited for.

    Prints what the screens said, as JSON lines: [event id, what was saved].
    """
    from ragweir.streams.commands import labels as _  # noqa: PLC0415, F401 - so that each fork has it
    from ragweir.streams.commands import main as run  # noqa: PLC0415 - by this program alone

    chance = random.Random(int(seed))
    for number in range(int(rounds) + 1):
        child, descriptor = pty.fork()
        if child == 0:
            sys.argv = ["ragweir", *arguments]
            run()
        finishes = number == int(rounds)
        if _rate(RaterTerminal(descriptor), chance, 10_000 if finishes else chance.randrange(6)):
            os.kill(child, signal.SIGINT)
        else:
            time.sleep(chance.random() * 0.01)
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(descriptor)


def _rate(terminal: RaterTerminal, chance: random.Random, most: int) -> bool:
    """Press keys until so many answers were shown; returns true if all are answered."""
    event_id = ""
    for number in range(most + 1):
        screen = terminal.answer(chance.choice("yyynnncu")) if number else terminal.wait()
        if found := re.search(r"saved: ([a-z ]+)", screen):
            print(json.dumps([event_id, found[1].strip()]), flush=True)
        if _LAST in screen:
            return True
        event_id = re.findall(r"^ +(e\d+)\s*$", screen, re.MULTILINE)[0]
        if "taken back" in screen:
            print(json.dumps([event_id, "withdrawn"]), flush=True)
    terminal.press(chance.choice("ynu"))
    return False


if __name__ == "__main__":
    main(*sys.argv[1:])
