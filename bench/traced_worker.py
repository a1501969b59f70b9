"""A worker of `ragweir` that writes the times at which the phases of its start end: `bench.start` runs it.

Arguments: the file to append to, and then those of `ragweir`. Each line is a phase, the monotonic time of its end, by
the clock that all processes of a machine share, and the CPU seconds of the process until then.
"""

import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any


class PhaseLog:
    """Appends to a file when phases end."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def ended(self, phase: str) -> None:
        """Write that a phase has ended now."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{phase}\t{time.monotonic()}\t{time.process_time()}\n")

    def calls(self, owner: Any, name: str, *, before: str = "", after: Callable[[tuple[Any, ...], Any], str]) -> None:
        """Write the phases that end when a function or method of `owner` is called, and when it returns.

        `after` returns the phase from the arguments and the result; an empty one is not written.
        """
        own: Callable[..., Any] = getattr(owner, name)

        @wraps(own)
        def called(*arguments: Any, **named: Any) -> Any:
            if before:
                self.ended(before)
            result = own(*arguments, **named)
            if phase := after(arguments, result):
                self.ended(phase)
            return result

        setattr(owner, name, called)


def main() -> None:
    """Run the command with its phases traced."""
    trace = PhaseLog(Path(sys.argv[1]))
    trace.ended("interpreter")
    # The imports are measured.
    from ragweir.streams.commands import main as run  # noqa: PLC0415
    from ragweir.streams.commands import services  # noqa: PLC0415
    from ragweir.streams.runtime.loop.batches import BatchReader  # noqa: PLC0415
    from ragweir.streams.runtime.loop.rebalance import RebalanceListener  # noqa: PLC0415
    from ragweir.streams.runtime.loop.transactions import Transactions  # noqa: PLC0415
    from ragweir.streams.runtime.recovery.offset_recovery import OffsetRecovery  # noqa: PLC0415
    from ragweir.streams.runtime.recovery.progress_group import ProgressGroup  # noqa: PLC0415
    from ragweir.streams.runtime.recovery.start_offsets import StartOffsets  # noqa: PLC0415
    from ragweir.streams.runtime.recovery.topic_identity import TopicIdentity  # noqa: PLC0415
    from ragweir.streams.services import slot  # noqa: PLC0415

    trace.ended("imports")
    trace.calls(services, "settings", after=lambda *_: "settings")
    trace.calls(slot, "wait_for_topics", before="check, telemetry, agent", after=lambda *_: "wait for topics")
    trace.calls(Transactions, "take_over", before="build clients", after=lambda *_: "InitProducerId")
    trace.calls(RebalanceListener, "_assigned", before="join", after=lambda *_: "watermarks, restore")
    trace.calls(StartOffsets, "check", before="stable offsets", after=lambda *_: "recovered offsets")
    trace.calls(TopicIdentity, "learn", after=lambda *_: "topic identity")
    trace.calls(OffsetRecovery, "_newest_positions", after=lambda *_: "newest outputs")
    trace.calls(ProgressGroup, "read", after=lambda *_: "progress group")
    trace.calls(BatchReader, "read", after=lambda _, records: "first records" if records else "")
    written: list[str] = []

    def wrote(given: tuple[Any, ...], _: None) -> str:
        written.extend(["write"] if given[1] else [])
        return "write" if given[1] else ""

    trace.calls(Transactions, "write", before="evaluation", after=wrote)
    trace.calls(Transactions, "commit", after=lambda *_: "commit of results" if written else "commit of the attempt")
    sys.argv = ["ragweir", *sys.argv[2:]]
    run()


if __name__ == "__main__":
    main()
