"""Fairness between tenants: turns in round robin, and shares of the requests that a worker holds.

A flood of one tenant fills all that may be held, and then nothing behind it is read. So reading goes on beyond that,
and the newest requests of a tenant above its share are given back, to wait elsewhere. A share is only enforced while
more is held than may be: a tenant alone has all of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator

from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.judge.held_requests import UNREADABLE, HeldRequest

NAMES = 1_000
"""Tenants that are told apart, beside those with a budget of their own; all others count as one. Names come from
outside, and anybody may make them up."""
ABOVE_SHARE = "its tenant has its share of the requests that are held"
"""Why a request waits that was moved."""
_RESUME = 0.75
"""The part of a bound or share at which a tenant's requests are read again: to go on by single ones would be slow."""

Name = str | None
"""A tenant; empty for requests without one, None for all tenants that are not told apart."""


class TenantShares:
    """Counts the requests that are held by tenant, and decides about turns and shares.

    Args:
        own: the tenants with a budget of their own.
        most: the number of requests that may be held before any is moved.
        most_bytes: likewise their bytes as they were read.

    >>> TenantShares([], most=4, most_bytes=400).name(JudgeRequest.model_construct(evaluation=UNREADABLE.evaluation))
    ''
    """

    def __init__(self, own: Collection[str], most: int, most_bytes: int) -> None:
        self._own, self._most = frozenset(own), most
        self._unit_bytes = max(1, most_bytes // most)
        self._turns: dict[Name, int] = {None: 0}
        """The turn in which each was served last, or was first held."""
        self._turn = 0
        self._held: Counter[Name] = Counter()
        self._total = 0
        self.known = False
        """True once a request names a tenant. Where none does there is nothing to share."""

    def name(self, request: JudgeRequest) -> Name:
        """Return the name under which a request's tenant counts."""
        tenant = request.evaluation.tenant or ""
        if tenant not in self._turns:
            if len(self._turns) > NAMES and tenant not in self._own:
                return None
            self._turns[tenant] = self._turn
        return tenant

    # What is held.

    def count(self, requests: Iterable[HeldRequest]) -> None:
        """Count all requests that are held anew; a tenant of which none is held is forgotten."""
        requests = tuple(requests)
        present = {each.request.evaluation.tenant or "" for each in requests}
        self._turns = {name: turn for name, turn in self._turns.items() if name is None or name in present}
        self._held.clear()
        self._total = 0
        for request in requests:
            self.add(request)

    def add(self, request: HeldRequest) -> None:
        """Count one more. Large ones count as several."""
        if request.request is not UNREADABLE and not request.moved:
            self.known = self.known or bool(request.request.evaluation.tenant)
            self._change(request, 1)

    def has_share(self, name: Name, part: float = 1.0) -> bool:
        """Return whether a tenant has this part of its share, while so much is held of what may be."""
        return self._total >= part * self._most and self._held[name] >= part * self._share

    def has_room(self, name: Name) -> bool:
        """Return whether a tenant that had its share is so far below it that more can be read."""
        return not self.has_share(name, _RESUME)

    def surplus(self, waiting: Iterable[HeldRequest]) -> list[HeldRequest]:
        """Return the requests that are to be moved: of the tenants that hold most the newest, until the rest fits.

        No request is moved twice in a row. Those of which older ones of the same tenant were moved are moved too.

        Args:
            waiting: those that wait, in the order of their arrival.
        """
        movable: dict[Name, list[HeldRequest]] = {}
        surplus = []
        for request in waiting:
            if request.request.why == ABOVE_SHARE:
                continue
            if request.behind:
                surplus.append(request)
                self._change(request, -1)
            else:
                movable.setdefault(self.name(request.request), []).append(request)
        while movable and self._total > self._most:
            most = max(movable, key=self._held.__getitem__)
            if self._held[most] <= self._share:
                break
            surplus.append(movable[most].pop())
            self._change(surplus[-1], -1)
            if not movable[most]:
                del movable[most]
        return surplus

    @property
    def _share(self) -> int:
        return max(1, self._most // max(1, len(self._held)))

    def _change(self, request: HeldRequest, sign: int) -> None:
        units = sign * max(1, len(request.record.value or b"") // self._unit_bytes)
        self._held[self.name(request.request)] += units
        self._total += units

    # Turns.

    def in_turn(self, requests: Iterable[HeldRequest]) -> Iterator[HeldRequest]:
        """Give requests in turn: one of each tenant, then again, beginning with the one that waited for a turn longest.

        Those of one tenant come in the order given. A request that was given has had its tenant's turn.
        """
        queues: dict[Name, deque[HeldRequest]] = {}
        for request in requests:
            queues.setdefault(self.name(request.request), deque()).append(request)
        order = deque(sorted(queues, key=self._turns.__getitem__))
        while order:
            name = order.popleft()
            self._turn += 1
            self._turns[name] = self._turn
            yield queues[name].popleft()
            if queues[name]:
                order.append(name)
