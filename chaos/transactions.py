"""State of each worker's transaction, from its requests and the brokers' responses; and traps for a moment of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from chaos.kafka_protocol import ADD_OFFSETS, END, RequestHead, failed

Moment = Literal["open", "before offsets", "before commit", "after commit"]
"""A transaction was just opened; a request to add offsets, or to commit, or the response to a commit is in hand."""
Verdict = Literal["pass", "drop", "hold"]


Action = Callable[[], Verdict]
"""Runs when a trap is sprung, and decides about the request or response in hand."""


@dataclass(slots=True)
class OpenTransactions:
    """State of the transactions of all workers, by their transactional ids.

    A transaction is open from the response that opens it until the request that ends it is passed on.
    """

    opened: set[str] = field(default_factory=set)
    traps: dict[str, tuple[Moment, Action]] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)
    """Workers that have requested a commit since their trap was set: responses to earlier ones do not spring it."""
    commits: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    on_commit: Callable[[str], None] = lambda _: None

    def on_request(self, request: RequestHead) -> Verdict:
        """Decide about a worker's request."""
        member = request.member
        if request.key != END:
            return self._spring(member, "before offsets") if request.key == ADD_OFFSETS else "pass"
        verdict = self._spring(member, "before commit") if request.commits else "pass"
        if member in self.traps:
            self.ending.add(member)
        if verdict == "pass":
            self.opened.discard(member)
        return verdict

    def on_response(self, request: RequestHead, response: bytes) -> Verdict:
        """Decide about a broker's response to it."""
        if failed(request, response):
            return "pass"
        member = request.member
        if request.key != END:
            fresh = member not in self.opened
            self.opened.add(member)
            return self._spring(member, "open") if fresh else "pass"
        if not request.commits:
            return "pass"
        self.commits[member] += 1
        self.on_commit(member)  # Before a trap kills the worker, whose successor has not committed.
        verdict = self._spring(member, "after commit") if member in self.ending else "pass"
        self.ending.discard(member)
        return verdict

    def _spring(self, member: str, moment: Moment) -> Verdict:
        trapped_at, action = self.traps.get(member, (None, None))
        if action is None or trapped_at != moment:
            return "pass"
        del self.traps[member]
        return action()
