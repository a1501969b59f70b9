"""The schemas that records name: asked for on a thread of their own, and kept."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

import structlog

from ragweir.errors import Interrupted, PermanentError, Rejected, TransientError
from ragweir.schemas.registry.schema import Read, Schema, given_up, unknown
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.registry.client import SchemaNotFound
from ragweir.streams.runtime.registry.wait_budget import WaitBudget

log: structlog.stdlib.BoundLogger = structlog.get_logger(__name__)

MAX_SCHEMAS = 1_000
"""Maximum number of schemas that are kept, and of ids that are asked for at once."""
MAX_ASKED = 100
"""Maximum number of ids that are asked for at once for one source, so that the ids of others do not wait long."""
MAX_MISSING = 20_000
"""Maximum number of ids of which it is remembered that the registry does not have them."""
MISSING_SECONDS = 30.0
"""Time for which an id that the registry does not have is asked for, as its writer may be ahead of a replica of it."""
REFRESHED_SECONDS = 60.0
"""Time after which a record that names it has it asked for again, once and without waiting."""
REMEMBERED_SECONDS = 600.0
"""Time after which a record that names it waits for it again."""
INTERVAL_SECONDS = 0.1
"""Minimum time between two look-ups: records can name any id."""
_MAX_PAUSE_SECONDS = 8.0
_LOG_SECONDS = 60.0

T = TypeVar("T")
Fetch = Callable[[int], Schema]
Make = Callable[[int, Schema], Read | Rejected]
_REFRESH = object()
"""The source of ids that are asked for without anything that waits."""


@dataclass(slots=True)
class _Asked:
    """An id that is asked for."""

    next_s: float
    source: Hashable
    """The first source of records that named it."""
    tries: int = 0
    is_unanswered: bool = False
    """True if the last request had no answer."""
    missing_since_s: float | None = None


class RegistrySchemas:
    """The schemas of a registry; a `ragweir.schemas.registry.schema.Schemas`.

    A schema that an id names never changes, so that a known one is never asked for again. An id that the registry does
    not have is asked for again for 30 s, and is then unknown for ten minutes. The time for which a source waits for
    such ids is limited, after which its records are rejected until the registry has answered. If the registry does not
    answer, it is asked until it does, as a broker would be.

    Args:
        fetch: returns a schema, as `ragweir.streams.runtime.registry.client.RegistryClient.schema` does.
        make: makes the reader of a schema.
        clock: monotonic seconds.
    """

    def __init__(self, fetch: Fetch, make: Make, clock: Callable[[], float] = machine.monotonic) -> None:
        self._fetch, self._make, self._clock = fetch, make, clock
        self._changed = threading.Condition()
        self._known: OrderedDict[int, Read | Rejected] = OrderedDict()
        self._missing: OrderedDict[int, tuple[float, Rejected]] = OrderedDict()
        """The ids that the registry does not have, with the time at which it said so, and the rejection of records."""
        self._given_up: OrderedDict[int, None] = OrderedDict()
        """The ids of which some records may not wait any longer."""
        self._asked: dict[int, _Asked] = {}
        self._asking: Counter[Hashable] = Counter()
        """The number of ids that are asked for, by source."""
        self._budget = WaitBudget()
        self._failure: PermanentError | None = None
        self._stopped: Callable[[], bool] = lambda: False
        self._thread: threading.Thread | None = None
        self._unavailable_logged_s: float | None = None

    def ready(self, schema_id: int, source: Hashable = None) -> bool:
        """Return whether `reader` would answer at once. If not, the schema is asked for.

        Args:
            schema_id: the id.
            source: the source of the record, whose time to wait is limited.

        Raises:
            PermanentError: if the registry cannot be read.
        """
        with self._changed:
            return self._found(schema_id) is not None or not self._waits(schema_id, source)

    def reader(self, schema_id: int) -> Read | Rejected:
        """Return the reader of a schema, or the rejection of its records. Wait until one of both is known.

        Raises:
            PermanentError: if the registry cannot be read.
            Interrupted: if the worker is to stop meanwhile.
        """
        with self._changed:
            while (found := self._found(schema_id)) is None:
                if schema_id in self._given_up or not self._waits(schema_id, None):
                    return given_up(schema_id)
                if self._stopped():  # Each call is a heartbeat, without which the supervisor replaces the worker.
                    raise Interrupted
                self._changed.wait(1.0)
            return found

    def start(self, stopped: Callable[[], bool]) -> None:
        """Call `stopped` about once a second where `reader` waits."""
        self._stopped = stopped

    def _found(self, schema_id: int) -> Read | Rejected | None:
        """Return a reader or a rejection, if the registry has answered."""
        if found := self._known.get(schema_id):
            self._known.move_to_end(schema_id)
            return found
        if missing := self._missing.get(schema_id):
            since_s, rejected = missing
            age_s = self._clock() - since_s
            if REFRESHED_SECONDS <= age_s < REMEMBERED_SECONDS:
                self._ask(schema_id, _REFRESH)
            if age_s < REMEMBERED_SECONDS:
                return rejected
        if self._failure is not None:
            raise self._failure
        return None

    def _waits(self, schema_id: int, source: Hashable) -> bool:
        """Ask for a schema; return whether a record of a source waits for it, or is given up."""
        self._ask(schema_id, source)
        asked = self._asked.get(schema_id)
        # Time without an answer is not that of forged ids.
        is_away = self._unavailable_logged_s is not None or (asked is not None and asked.is_unanswered)
        waits = self._budget.may_wait(source, self._clock(), is_counted=not is_away)
        if not waits:
            _keep(self._given_up, schema_id, None, MAX_MISSING)
        return waits

    def _ask(self, schema_id: int, source: Hashable) -> None:
        if schema_id in self._asked or len(self._asked) >= MAX_SCHEMAS or self._asking[source] >= MAX_ASKED:
            return
        self._asked[schema_id] = _Asked(self._clock(), source)
        self._asking[source] += 1
        self._changed.notify_all()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="registry", daemon=True)
            self._thread.start()

    def _settle(self, schema_id: int, asked: _Asked) -> None:
        """Ask for a schema no more, as the answer is known."""
        del self._asked[schema_id]
        self._given_up.pop(schema_id, None)
        self._missing.pop(schema_id, None)
        self._asking[asked.source] -= 1
        self._asking += Counter()  # Removes sources without any.
        self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._asked:
                    self._changed.wait()
                schema_id, asked = min(self._asked.items(), key=lambda each: each[1].next_s)
                wait_s = asked.next_s - self._clock()
                if wait_s > 0:
                    self._changed.wait(wait_s)
                    continue
            self._look_up(schema_id, asked)
            machine.sleep(INTERVAL_SECONDS)

    def _look_up(self, schema_id: int, asked: _Asked) -> None:
        """Ask the registry once, and keep the answer."""
        asked.tries += 1
        pause_s = min(_MAX_PAUSE_SECONDS, 2.0 ** (asked.tries - 2))
        try:
            made = self._make(schema_id, self._fetch(schema_id))
        except TransientError as unavailable:
            asked.next_s, asked.is_unanswered = self._clock() + pause_s, True
            self._log_unavailable(str(unavailable))
            return
        except PermanentError as error:
            with self._changed:
                self._failure = error
                self._asked.clear()
                self._asking.clear()
                self._changed.notify_all()
        except Exception as error:  # Of one id, for which its records may not wait for ever.
            why = str(error) if isinstance(error, SchemaNotFound) else f"cannot be used: {type(error).__name__}"
            now_s = self._clock()
            if asked.missing_since_s is None:
                asked.missing_since_s = now_s
            until_s = asked.missing_since_s + (0.0 if asked.source is _REFRESH else MISSING_SECONDS)
            asked.is_unanswered = False
            if now_s < until_s:
                asked.next_s = min(now_s + pause_s, until_s)
            else:
                with self._changed:
                    self._settle(schema_id, asked)
                    _keep(self._missing, schema_id, (now_s, unknown(schema_id, why)), MAX_MISSING)
        else:
            with self._changed:
                self._settle(schema_id, asked)
                _keep(self._known, schema_id, made, MAX_SCHEMAS)
        if self._unavailable_logged_s is not None:
            self._unavailable_logged_s = None
            log.info("the registry answers again")

    def _log_unavailable(self, reason: str) -> None:
        now_s = self._clock()
        if self._unavailable_logged_s is None or now_s >= self._unavailable_logged_s + _LOG_SECONDS:
            self._unavailable_logged_s = now_s
            log.warning(
                "waiting for the registry: records of schemas that are not known yet are not read", reason=reason
            )


def _keep(into: OrderedDict[int, T], schema_id: int, value: T, most: int) -> None:
    """Add a value, and remove the one that was not used for longest if there are too many."""
    into[schema_id] = value
    into.move_to_end(schema_id)
    if len(into) > most:
        into.popitem(last=False)
