"""The states of a judge request that a worker holds, and one table of its transitions. Without I/O.

    WAITING ──reserve──> RESERVED ──commit──> IN_FLIGHT ──end──> ENDED ──commit──> READY ──emit──> READY_EMITTED
       ^  └──settle──> READY   │                                   │                                   │
       └────────abort──────────┘                                   └──emit──> ENDED_EMITTED            └──commit──> DONE
                                                                                    └──commit──> DONE

An abort takes back what the transaction wrote: a reservation, or an emission. It takes back nothing that has happened:
a job that has ended is not started again, and its cost is booked with the next transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class RequestState(StrEnum):
    """The state of a request."""

    WAITING = "waiting"
    """No calls are made for it: it waits for its turn, for money or for the endpoint."""
    RESERVED = "reserved"
    """The reservation of its cost is emitted and not committed."""
    IN_FLIGHT = "in flight"
    """Its job is under way."""
    ENDED = "ended"
    """It has a result; the cost of its job is not committed."""
    ENDED_EMITTED = "ended and emitted"
    """As ENDED; its result is emitted with its cost, in a transaction that is not committed."""
    READY = "ready"
    """It has a result; its cost is committed, where it had any."""
    READY_EMITTED = "ready and emitted"
    """As READY; its result is emitted in a transaction that is not committed."""
    DONE = "done"
    """Its result is committed. It is no longer held."""

    @property
    def has_result(self) -> bool:
        """True where nothing remains to be done but to emit its result and to commit it."""
        return self in _WITH_RESULT

    @property
    def is_emitted(self) -> bool:
        """True where the transaction in hand holds its result."""
        return self in _EMITTED

    @property
    def is_unbooked(self) -> bool:
        """True where the transaction in hand has to book the cost of its job."""
        return self in _UNBOOKED


class RequestEvent(StrEnum):
    """An event in the life of a request."""

    RESERVE = "reserve"
    """A reservation for its calls is emitted."""
    SETTLE = "settle"
    """It gets a result without a job."""
    END = "end"
    """Its job ends, with a result and a cost."""
    EMIT = "emit"
    """Its result is emitted."""
    COMMIT = "commit"
    """The transaction in hand is committed."""
    ABORT = "abort"
    """The transaction in hand is aborted."""


_EMITTED = frozenset({RequestState.ENDED_EMITTED, RequestState.READY_EMITTED})
_WITH_RESULT = _EMITTED | {RequestState.ENDED, RequestState.READY}
_UNBOOKED = frozenset({RequestState.ENDED, RequestState.ENDED_EMITTED})

TRANSITIONS: Mapping[tuple[RequestState, RequestEvent], RequestState] = MappingProxyType(
    {
        (RequestState.WAITING, RequestEvent.RESERVE): RequestState.RESERVED,
        (RequestState.WAITING, RequestEvent.SETTLE): RequestState.READY,
        (RequestState.IN_FLIGHT, RequestEvent.END): RequestState.ENDED,
        (RequestState.ENDED, RequestEvent.EMIT): RequestState.ENDED_EMITTED,
        (RequestState.READY, RequestEvent.EMIT): RequestState.READY_EMITTED,
        # Every request that is held takes part in the end of every transaction.
        (RequestState.WAITING, RequestEvent.COMMIT): RequestState.WAITING,
        (RequestState.RESERVED, RequestEvent.COMMIT): RequestState.IN_FLIGHT,
        (RequestState.IN_FLIGHT, RequestEvent.COMMIT): RequestState.IN_FLIGHT,
        (RequestState.ENDED, RequestEvent.COMMIT): RequestState.READY,
        (RequestState.ENDED_EMITTED, RequestEvent.COMMIT): RequestState.DONE,
        (RequestState.READY, RequestEvent.COMMIT): RequestState.READY,
        (RequestState.READY_EMITTED, RequestEvent.COMMIT): RequestState.DONE,
        (RequestState.WAITING, RequestEvent.ABORT): RequestState.WAITING,
        (RequestState.RESERVED, RequestEvent.ABORT): RequestState.WAITING,
        (RequestState.IN_FLIGHT, RequestEvent.ABORT): RequestState.IN_FLIGHT,
        (RequestState.ENDED, RequestEvent.ABORT): RequestState.ENDED,
        (RequestState.ENDED_EMITTED, RequestEvent.ABORT): RequestState.ENDED,
        (RequestState.READY, RequestEvent.ABORT): RequestState.READY,
        (RequestState.READY_EMITTED, RequestEvent.ABORT): RequestState.READY,
    }
)
"""The state that follows a state after an event. Any other pair is a defect of the code."""


def next_state(state: RequestState, event: RequestEvent) -> RequestState:
    """Return the state that follows.

    Raises:
        ValueError: if the event cannot happen in this state.

    >>> next_state(RequestState.RESERVED, RequestEvent.ABORT)
    <RequestState.WAITING: 'waiting'>
    >>> next_state(RequestState.IN_FLIGHT, RequestEvent.EMIT)
    Traceback (most recent call last):
    ValueError: a request that is in flight cannot emit
    """
    found = TRANSITIONS.get((state, event))
    if found is None:
        raise ValueError(f"a request that is {state} cannot {event}")
    return found
