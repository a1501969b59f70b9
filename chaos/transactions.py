"""Where each worker's transaction stands, by what passed between it and the broker; and traps for a moment of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from chaos.kafka_protocol import ADD_OFFSETS, END, Request, failed

Moment = Literal["open", "before offsets", "before commit", "after commit"]
"""The broker has just opened a transaction; the worker asks to send offsets, or to commit, and is not heard yet; it is
committed, and the worker does not know.
"""
Verdict = Literal["pass", "drop", "hold"]


@dataclass(frozen=True, slots=True)
class Trap:
    """What is to be done, once, when a worker comes to a moment. It runs while what passes is held in hand."""

    moment: Moment
    action: Callable[[], Verdict]


@dataclass(slots=True)
class Transactions:
    """Follows the transactions of every worker, by its transactional id up to a tail that begins with `~`.

    A transaction is open from the broker's answer that it is until the worker's request to end it passes.
    """

    opened: set[str] = field(default_factory=set)
    traps: dict[str, Trap] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set)
    """Those with a trap whose commit has been asked for since it was set: an earlier one's answer is none of its."""
    commits: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    on_commit: Callable[[str], None] = lambda _: None

    def asked(self, request: Request) -> Verdict:
        """A worker's request is about to pass."""
        member = _slot(request)
        if request.key != END:
            return self._sprung(member, "before offsets") if request.key == ADD_OFFSETS else "pass"
        verdict = self._sprung(member, "before commit") if request.commits else "pass"
        if member in self.traps:
            self.ending.add(member)
        if verdict == "pass":
            self.opened.discard(member)
        return verdict

    def answered(self, request: Request, answer: bytes) -> Verdict:
        """The broker's answer to it is about to pass."""
        if failed(request, answer):
            return "pass"
        member = _slot(request)
        if request.key != END:
            fresh = member not in self.opened
            self.opened.add(member)
            return self._sprung(member, "open") if fresh else "pass"
        if not request.commits:
            return "pass"
        self.commits[member] += 1
        self.on_commit(member)  # Before a trap kills the worker: it is not the commit of the worker that replaces it.
        verdict = self._sprung(member, "after commit") if member in self.ending else "pass"
        self.ending.discard(member)
        return verdict

    def _sprung(self, member: str, moment: Moment) -> Verdict:
        trap = self.traps.get(member)
        if trap is None or trap.moment != moment:
            return "pass"
        del self.traps[member]
        return trap.action()


def _slot(request: Request) -> str:
    return request.member.partition("~")[0]
