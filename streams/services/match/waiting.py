"""Feedback that waits for its answer: the state of `match`, as the topic `feedback.waiting` has it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from itertools import islice
from typing import NamedTuple

import orjson
from pydantic import ValidationError

from ragweir.schemas.feedback import WaitingFeedback
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.match.target_store import TargetStore, target_hash

CLOCK_KEY = b'["clock"]'
"""The key of the record by which a worker reads the brokers' time."""
_MS = 1000


class Waiting(NamedTuple):
    """Feedback that waits, as little of it as is needed meanwhile."""

    partition: int
    """The partition of `feedback` and of `feedback.waiting`."""
    key: bytes
    value: bytes
    received_ms: int
    target: int
    """The hash of its target."""

    @classmethod
    def of(cls, partition: int, key: bytes, value: bytes, feedback: WaitingFeedback) -> Waiting:
        """Return feedback as it waits."""
        # Copies, as orjson returns bytes with 4 KB of memory each.
        key, value = bytes(memoryview(key)), bytes(memoryview(value))
        return cls(partition, key, value, round(feedback.received.timestamp() * _MS), target_hash(feedback))

    def feedback(self) -> WaitingFeedback:
        """Return the feedback."""
        return WaitingFeedback.model_validate_json(self.value)


def restored(record: Record) -> Waiting | None:
    """Return the feedback of a record of `feedback.waiting`; None if it is a record of something else."""
    try:
        key = orjson.loads(record.key or b"")
        feedback = WaitingFeedback.model_validate_json(record.value or b"")
    except (ValueError, ValidationError):
        return None
    if not isinstance(key, list) or len(key) != 3:
        return None
    return Waiting.of(record.partition, record.key or b"", record.value or b"", feedback)


class WaitingList:
    """The feedback that waits in the partitions of a worker, the oldest of each partition first.

    What a transaction changes counts from its commit on. Only the targets are watched for at once, so that no answer is
    missed that comes meanwhile.

    Args:
        store: the store whose answers are watched for.
    """

    def __init__(self, store: TargetStore) -> None:
        self._store = store
        self._held: dict[int, dict[bytes, Waiting]] = {}
        self._by_target: dict[int, dict[bytes, Waiting]] = {}
        self._to_check: dict[bytes, Waiting] = {}
        """Feedback whose answer has come, or may have."""
        self._added: dict[bytes, Waiting] = {}
        self._removed: dict[bytes, Waiting] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values())) + len(self._added) - len(self._removed)

    @property
    def partitions(self) -> AbstractSet[int]:
        """The partitions of the worker."""
        return self._held.keys()

    def add(self, waiting: Waiting, inserted: int) -> None:
        """Add feedback, and watch for its answer; it is looked for once more if it may have come by now.

        Args:
            waiting: the feedback.
            inserted: `TargetStore.inserted` before its answer was looked for.
        """
        self._added[waiting.key] = waiting
        self._by_target.setdefault(waiting.target, {})[waiting.key] = waiting
        self._store.watch({waiting.target})
        if self._store.inserted != inserted:
            self._to_check[waiting.key] = waiting

    def remove(self, waiting: Waiting) -> None:
        """Remove feedback that needs to wait no longer."""
        self._removed[waiting.key] = waiting
        self._to_check.pop(waiting.key, None)

    def to_check(self, most: int) -> list[Waiting]:
        """Return feedback whose answer has come, or may have, and forget that it may."""
        for target in self._store.take_seen():
            self._to_check |= self._by_target.get(target, {})
        found = list(islice(self._to_check.values(), most))
        for waiting in found:
            del self._to_check[waiting.key]
        return [waiting for waiting in found if waiting.key not in self._removed]

    @property
    def has_to_check(self) -> bool:
        """True if there is more that `to_check` returns."""
        return bool(self._to_check)

    def check_again(self, waiting: Waiting) -> None:
        """Return feedback in `to_check` once more."""
        self._to_check[waiting.key] = waiting

    def older(self, before_ms: int, most: int) -> list[Waiting]:
        """Return feedback that was received before a time, without what this transaction removes."""
        found: list[Waiting] = []
        for held in self._held.values():
            for waiting in held.values():
                if waiting.received_ms >= before_ms or len(found) >= most:
                    break
                if waiting.key not in self._removed:
                    found.append(waiting)
        return found

    def on_commit(self) -> None:
        """Keep the changes of the transaction."""
        for waiting in self._added.values():
            self._held[waiting.partition][waiting.key] = waiting
        for waiting in self._removed.values():
            self._forget(waiting)
        self._added, self._removed = {}, {}

    def on_abort(self) -> None:
        """Undo the changes of the transaction."""
        self._to_check |= self._removed
        for waiting in self._added.values():
            self._forget(waiting)
        self._added, self._removed = {}, {}

    def _forget(self, waiting: Waiting) -> None:
        self._held.get(waiting.partition, {}).pop(waiting.key, None)
        self._to_check.pop(waiting.key, None)
        others = self._by_target.get(waiting.target, {})
        others.pop(waiting.key, None)
        if not others:
            self._by_target.pop(waiting.target, None)
            self._store.unwatch({waiting.target})

    def assign(self, partition: int, found: dict[bytes, Waiting]) -> None:
        """Take a partition over with the feedback that waits there."""
        self.revoke(partition)
        self._held[partition] = found
        for waiting in found.values():
            self._by_target.setdefault(waiting.target, {})[waiting.key] = waiting
        self._store.watch({waiting.target for waiting in found.values()})
        self._to_check |= found

    def revoke(self, partition: int) -> None:
        """Give a partition up."""
        for waiting in list(self._held.pop(partition, {}).values()):
            self._forget(waiting)
