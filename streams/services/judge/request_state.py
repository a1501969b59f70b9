"""The states of a judge request that a worker holds, and one table of its transitions.

    WAITING ──reserve──> RESERVED ──commit──> IN_FLIGHT ──end──> ENDED ──commit──> READY ──emit──> READY_EMITTED
       ^  └──resolve─> READY   │                                   │                                   │
       └────────abort──────────┘                                   └──emit──> ENDED_EMITTED            └──commit──> DONE
                                                                                    └──commit──> DONE

An abort takes back a reservation or an emission of its transaction. It does not take back the end of a job: the job is
not started again, and its cost is booked in the next transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class RequestState(StrEnum):
    """The state of a request."""

    WAITING = "waiting"
    """It waits for its turn, for budget or for the endpoint."""
    RESERVED = "reserved"
    """The reservation of its cost is emitted and not committed."""
    IN_FLIGHT = "in flight"
    """Its job is running."""
    ENDED = "ended"
    """It has a result; the cost of its job is not committed."""
    ENDED_EMITTED = "ended and emitted"
    """Its result is emitted with the cost of its job, in a transaction that is not committed."""
    READY = "ready"
    """It has a result; its cost is committed, where it had any."""
    READY_EMITTED = "ready and emitted"
    """Its result is emitted, in a transaction that is not committed."""
    DONE = "done"
    """Its result is committed. It is no longer held."""

    @property
    def has_result(self) -> bool:
        """True if only emitting its result and committing it remain."""
        return self in _WITH_RESULT

    @property
    def is_emitted(self) -> bool:
        """True if the current transaction holds its result."""
        return self in _EMITTED

    @property
    def is_unbooked(self) -> bool:
        """True if the current transaction has to book the cost of its job."""
        return self in _UNBOOKED


class RequestEvent(StrEnum):
    """An event that changes the state of a request."""

    RESERVE = "reserve"
    RESOLVE = "resolve"
    """It gets a result without a job."""
    END = "end"
    """Its job ends, with a result and a cost."""
    EMIT = "emit"
    COMMIT = "commit"
    ABORT = "abort"


_EMITTED = frozenset({RequestState.ENDED_EMITTED, RequestState.READY_EMITTED})
_WITH_RESULT = _EMITTED | {RequestState.ENDED, RequestState.READY}
_UNBOOKED = frozenset({RequestState.ENDED, RequestState.ENDED_EMITTED})

TRANSITIONS: Mapping[tuple[RequestState, RequestEvent], RequestState] = MappingProxyType(
    {
        (RequestState.WAITING, RequestEvent.RESERVE): RequestState.RESERVED,
        (RequestState.WAITING, RequestEvent.RESOLVE): RequestState.READY,
        (RequestState.IN_FLIGHT, RequestEvent.END): RequestState.ENDED,
        (RequestState.ENDED, RequestEvent.EMIT): RequestState.ENDED_EMITTED,
        (RequestState.READY, RequestEvent.EMIT): RequestState.READY_EMITTED,
        # The end of a transaction applies to every request that is held; most states stay as they are.
        **{(state, RequestEvent.COMMIT): state for state in RequestState if state is not RequestState.DONE},
        (RequestState.RESERVED, RequestEvent.COMMIT): RequestState.IN_FLIGHT,
        (RequestState.ENDED, RequestEvent.COMMIT): RequestState.READY,
        (RequestState.ENDED_EMITTED, RequestEvent.COMMIT): RequestState.DONE,
        (RequestState.READY_EMITTED, RequestEvent.COMMIT): RequestState.DONE,
        **{(state, RequestEvent.ABORT): state for state in RequestState if state is not RequestState.DONE},
        (RequestState.RESERVED, RequestEvent.ABORT): RequestState.WAITING,
        (RequestState.ENDED_EMITTED, RequestEvent.ABORT): RequestState.ENDED,
        (RequestState.READY_EMITTED, RequestEvent.ABORT): RequestState.READY,
    }
)
"""The next state by state and event. Any other pair is a defect of the code."""


def next_state(state: RequestState, event: RequestEvent) -> RequestState:
    """Return the next state.

    Raises:
        ValueError: if the event cannot happen in this state.

    >>> next_state(RequestState.RESERVED, RequestEvent.ABORT)
    <RequestState.WAITING: 'waiting'>
    >>> next_state(RequestState.IN_FLIGHT, RequestEvent.EMIT)
    Traceback (most recent call last):
    ValueError: a request that is in flight cannot emit
    """
    if (state, event) not in TRANSITIONS:
        raise ValueError(f"a request that is {state} cannot {event}")
    return TRANSITIONS[state, event]
