"""Fairness between tenants: turns in round robin, and fair shares of the requests that a worker holds.

A flood of one tenant would fill the worker, so that no request behind it is read. So reading goes on beyond the limit,
and the newest requests of tenants above their shares are moved to `judge.retry`. Shares are enforced only above the
limit: a single tenant has all of it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator

from ragweir.schemas.judging import JudgeRequest
from ragweir.streams.services.judge.held_requests import UNREADABLE, HeldRequest

NAMES = 1_000
"""The most tenants that are distinguished, apart from those with a budget; all others count as one, since events may
hold any names."""
ABOVE_SHARE = "its tenant has its share of the requests that are held"
"""The reason in a request that was moved."""

Name = str | None
"""A tenant; empty for requests without one, None for all tenants that are not distinguished."""


class TenantShares:
    """Counts the requests that are held by tenant, and decides about turns and shares.

    Args:
        own: the tenants with a budget.
        most: the number of requests that may be held before any is moved.
        most_bytes: the bytes of requests that may be held before any is moved.

    >>> TenantShares([], most=4, most_bytes=400).name(JudgeRequest.model_construct(evaluation=UNREADABLE.evaluation))
    ''
    """

    def __init__(self, own: Collection[str], most: int, most_bytes: int) -> None:
        self._own, self._most = frozenset(own), most
        self._unit_bytes = max(1, most_bytes // most)
        self._turns: dict[Name, int] = {None: 0}
        """The last turn of each tenant, or the turn in which it was first held."""
        self._turn = 0
        self._held: Counter[Name] = Counter()
        self._total = 0
        self.known = False
        """True once a request names a tenant; without tenants no shares apply."""

    def name(self, request: JudgeRequest) -> Name:
        """Return the name under which a request's tenant counts."""
        return self._name(request.evaluation.tenant or "")

    def _name(self, tenant: str) -> Name:
        if tenant not in self._turns:
            if len(self._turns) > NAMES and tenant not in self._own:
                return None
            self._turns[tenant] = self._turn
        return tenant

    # What is held.

    def count(self, requests: Iterable[HeldRequest]) -> None:
        """Count all held requests again; tenants without one are forgotten."""
        present: set[str] = set()
        units: Counter[str] = Counter()
        for each in requests:
            tenant = each.request.evaluation.tenant or ""
            present.add(tenant)
            if _is_counted(each):
                units[tenant] += self._units(each)
        if not self._turns.keys() <= {None, *present}:
            self._turns = {name: turn for name, turn in self._turns.items() if name is None or name in present}
        self._held.clear()
        self._total = units.total()
        for tenant, number in units.items():
            self.known = self.known or bool(tenant)
            self._held[self._name(tenant)] += number

    def add(self, request: HeldRequest) -> None:
        """Count a request. A large one counts as several."""
        if _is_counted(request):
            self.known = self.known or bool(request.request.evaluation.tenant)
            self._change(request, 1)

    def has_share(self, name: Name, part: float = 1.0) -> bool:
        """Return whether a tenant has at least this part of its share, and the worker this part of the limit."""
        return self._total >= part * self._most and self._held[name] >= part * self._share

    def surplus(self, waiting: Iterable[HeldRequest]) -> list[HeldRequest]:
        """Return the requests to move: the newest of the tenants that hold most, until the rest is in the limit.

        No request is moved twice in a row. Requests behind moved ones of the same tenant are moved too.
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

    def _units(self, request: HeldRequest) -> int:
        return max(1, request.size // self._unit_bytes)

    def _change(self, request: HeldRequest, sign: int) -> None:
        units = sign * self._units(request)
        self._held[self.name(request.request)] += units
        self._total += units

    # Turns.

    def in_turn(self, requests: Iterable[HeldRequest]) -> Iterator[HeldRequest]:
        """Yield one request of each tenant in turn, beginning with the tenant that has waited longest.

        Requests of one tenant keep their order. Each request that is yielded uses its tenant's turn.
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


def _is_counted(request: HeldRequest) -> bool:
    return request.request is not UNREADABLE and not request.moved
