"""`python -m chaos.shifted_clock SECONDS judge --slot 0`: one slot of a service whose clock goes ahead.

Only Python's clocks are shifted. Timestamps of records are given by the broker, or by the client's library, which reads
the machine's clock.
"""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta, tzinfo
from typing import Any

from typing_extensions import override


class _Datetime(type):
    """Lets a class stand for datetime: its attributes, its instances and what a call of it makes are datetime's own."""

    def __getattr__(cls, name: str) -> Any:
        return getattr(datetime, name)

    @override
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)

    @override
    def __call__(cls, *given: Any, **named: Any) -> datetime:
        return datetime(*given, **named)  # noqa: DTZ001 (the caller says in which zone)


def shift(seconds: float) -> None:
    """Let the clock that ragweir's modules read go ahead by so many seconds.

    Models are built by then, so the class that they were built with is replaced only where it is asked for the time.
    """
    ahead, real = timedelta(seconds=seconds), time.time

    class Shifted(metaclass=_Datetime):
        @staticmethod
        def now(tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + ahead

    time.time = lambda: real() + seconds
    for name, module in list(sys.modules.items()):
        if name.startswith("ragweir.") and getattr(module, "datetime", None) is datetime:
            setattr(module, "datetime", Shifted)  # noqa: B010 (a type checker takes it for an assignment to a type)


if __name__ == "__main__":
    from ragweir.streams.cli import main
    from ragweir.streams.service import SERVICES  # noqa: F401 all that reads the time is to be there

    shift(float(sys.argv.pop(1)))
    main()
