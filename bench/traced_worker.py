"""A worker of `ragweir` that writes the times at which the phases of its start end: `bench.start` runs it.

Arguments: the file to append to, and then those of `ragweir`. Each line is a phase and the monotonic time of its end,
which is the same clock in all processes of a machine.
"""

import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

_FILE = Path(sys.argv[1])


def _ended(phase: str) -> None:
    with _FILE.open("a", encoding="utf-8") as file:
        file.write(f"{phase}\t{time.monotonic()}\n")


def _after(owner: Any, name: str, phase: str) -> None:
    """Write the phase when a call of a method or function of `owner` ends."""
    _wrap(owner, name, lambda _: _ended(phase))


def _before(owner: Any, name: str, phase: str) -> None:
    """Write the phase when a call begins."""
    own: Callable[..., Any] = getattr(owner, name)

    @wraps(own)
    def called(*arguments: Any, **named: Any) -> Any:
        _ended(phase)
        return own(*arguments, **named)

    setattr(owner, name, called)


def _wrap(owner: Any, name: str, on_end: Callable[[tuple[Any, ...]], None]) -> None:
    own: Callable[..., Any] = getattr(owner, name)

    @wraps(own)
    def called(*arguments: Any, **named: Any) -> Any:
        result = own(*arguments, **named)
        on_end(arguments)
        return result

    setattr(owner, name, called)


def main() -> None:
    """Run the command with its phases traced."""
    _ended("interpreter")
    from ragweir.streams import slot  # noqa: PLC0415
    from ragweir.streams.cli import main as run  # noqa: PLC0415 (the import is measured)
    from ragweir.streams.cli import services  # noqa: PLC0415
    from ragweir.streams.runtimes import kafka, offsets, start_offsets  # noqa: PLC0415
    from ragweir.streams.runtimes.offset_recovery import OffsetRecovery  # noqa: PLC0415
    from ragweir.streams.runtimes.progress_group import ProgressGroup  # noqa: PLC0415
    from ragweir.streams.runtimes.rebalance import RebalanceListener  # noqa: PLC0415
    from ragweir.streams.runtimes.topic_identity import TopicIdentity  # noqa: PLC0415
    from ragweir.streams.runtimes.transactions import Transactions  # noqa: PLC0415

    _ended("imports")
    _after(services, "settings", "settings")
    _before(slot, "wait_for_topics", "check, telemetry, agent")
    _after(slot, "wait_for_topics", "wait for topics")
    _before(Transactions, "take_over", "build clients")
    _after(Transactions, "take_over", "InitProducerId")
    _before(RebalanceListener, "_assigned", "join")
    _before(start_offsets.StartOffsets, "check", "stable offsets")
    _after(TopicIdentity, "learn", "topic identity")
    _after(OffsetRecovery, "_newest_positions", "newest outputs")
    _after(ProgressGroup, "read", "progress group")
    _after(OffsetRecovery, "recovered", "recovered offsets")
    _after(RebalanceListener, "_assigned", "watermarks, restore")
    _before(Transactions, "commit", "first batch")
    _wrap(Transactions, "commit", lambda given: _ended("commit of results" if given[1] else "commit of the attempt"))
    del kafka, offsets
    sys.argv = ["ragweir", *sys.argv[2:]]
    run()


if __name__ == "__main__":
    main()
