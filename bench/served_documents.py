"""Simulated traffic whose answers are bad for known causes; it has no code of ragweir."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Plant = Literal["nothing", "version", "document", "apart", "inside", "confined", "innocent"]
HOURS = 6
BASE = 0.05
"""Share of bad answers where nothing is planted."""
WORSE_VERSION = 0.1
"""Bad answers that the planted version adds."""
BAD_DOCUMENT = 0.35
"""Share of bad answers with the planted document."""
TOGETHER = 0.7
"""Share of the planted document's answers that also have the innocent one."""
_SESSION_SPREAD = 0.5
"""Concentration of the sessions' shares of bad answers: most sessions have none, few have many."""
_OF_SESSION = 0.7
"""Chance that a document of an answer is one of its session."""


@dataclass(frozen=True, slots=True)
class TrafficKind:
    """Sizes of simulated traffic."""

    events: int = 20_000
    documents: int = 2_000
    per_answer: int = 4
    session: int = 4
    """Answers of a session."""
    servings: int = 100
    """Answers with the planted document."""


@dataclass(frozen=True, slots=True)
class ServedTraffic:
    """Answers, in the order of their times."""

    bad: NDArray[np.bool_]
    version: Ints
    """0 or 1; 1 is the planted one."""
    hour: Ints
    session: Ints
    documents: Ints
    """The documents of each answer; 0 is the planted one, 1 the innocent one that is served with it."""
    ids: Ints


def served(kind: TrafficKind, plant: Plant, chance: np.random.Generator) -> ServedTraffic:
    """Return simulated traffic: documents of Zipf's popularity, which sessions share, and sessions that go wrong."""
    sessions = kind.events // kind.session
    session = np.repeat(np.arange(sessions), kind.session)
    events = len(session)
    version = chance.integers(0, 2, sessions)[session]
    popular = 1 / np.arange(1, kind.documents + 1) ** 0.6
    popular[:2] = 0 if plant != "nothing" else popular[:2]
    popular /= popular.sum()
    shared = chance.choice(kind.documents, (sessions, kind.per_answer), p=popular)[session]
    own = chance.choice(kind.documents, (events, kind.per_answer), p=popular)
    documents = np.where(chance.random((events, kind.per_answer)) < _OF_SESSION, shared, own)
    spread = (_SESSION_SPREAD * BASE, _SESSION_SPREAD * (1 - BASE))
    risk = chance.beta(*spread, sessions)[session]
    if plant != "nothing":
        with_bad = chance.choice(events, kind.servings, replace=False)
        documents[with_bad, 0] = 0
        if plant == "innocent":
            together = with_bad[chance.random(kind.servings) < TOGETHER]
            documents[together, 1] = 1
            documents[chance.choice(events, kind.servings, replace=False), 2] = 1
    has = (documents == 0).any(axis=1)
    if plant in {"version", "apart", "inside"}:
        risk = np.where(version == 1, risk + WORSE_VERSION, risk)
    if plant in {"document", "innocent"}:
        risk = np.where(has, BAD_DOCUMENT, risk)
    if plant == "apart":
        risk = np.where(has, BAD_DOCUMENT + WORSE_VERSION * version, risk)
    if plant == "inside":
        risk = np.where(has & (version == 1), BAD_DOCUMENT + WORSE_VERSION, risk)
    if plant == "confined":
        risk = np.where(has & (version == 1), BAD_DOCUMENT + WORSE_VERSION, risk)
    hour = np.arange(events) * HOURS // events
    return ServedTraffic(chance.random(events) < risk, version, hour, session, documents, chance.permutation(events))
