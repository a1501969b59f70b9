"""`python -m chaos.shifted_clock AHEAD judge --slot 0`: one slot of a service whose clock is ahead, or behind.

AHEAD is a number of seconds, below 0 for a clock that is behind, or the name of a file that holds one, which may change
while the slot runs. Only Python's clocks are shifted. Timestamps of records are set by the broker, or by the client
library, which reads the machine's clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from importlib import import_module
from pathlib import Path
from typing import Any

from typing_extensions import override

_AGENTS = (
    *("aggregate.agent", "join.join_agent", "key.agent", "evaluate.agent", "judge.agent", "judge.day_shares"),
    *("judge.pool", "shared.from_settings", "table"),
)


class _Datetime(type):
    """A class of this type replaces datetime: attributes, instances and results of calls are those of datetime."""

    def __getattr__(cls, name: str) -> Any:
        return getattr(datetime, name)

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)

    @override
    def __call__(cls, *given: Any, **named: Any) -> datetime:
        return datetime(*given, **named)  # noqa: DTZ001 (the caller chooses the zone)


def shift(ahead_s: Callable[[], float]) -> None:
    """Set the clock of ragweir's modules ahead by what a function returns, in seconds.

    Models are defined with the class datetime, which is therefore replaced after them, and only in modules that ask it
    for the time.
    """
    real = time.time
    time.time = lambda: real() + ahead_s()
    # After time.time is replaced, since some modules keep the function, and with all modules that read the time: a
    # service imports its agent when it makes it.
    for agent in _AGENTS:
        import_module(f"ragweir.streams.services.{agent}")

    class Shifted(metaclass=_Datetime):
        @staticmethod
        def now(tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(seconds=ahead_s())

    for name, module in list(sys.modules.items()):
        if name.startswith("ragweir.") and getattr(module, "datetime", None) is datetime:
            setattr(module, "datetime", Shifted)  # noqa: B010 (a type checker takes it for an assignment to a type)


if __name__ == "__main__":
    given = sys.argv.pop(1)
    shift(
        (lambda: float(given)) if given.removeprefix("-").isdecimal() else lambda: float(Path(given).read_text() or "0")
    )
    from ragweir.streams.commands import main

    main()
