"""Routing of answers to the judge at the same spend: the default rules of release 0.1.0, and routing rows.

Windows are drawn from the answers of a set, and all of them have people's labels, so that the share of bad ones is
known. The judge is taken to say what people said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from bench.coverage import KindEstimates, measure
from bench.simulated_windows import Kind, Stratum
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.routing_share import risk_bin, threshold
from ragweir.schemas.interaction import Interaction
from ragweir.streams.services.evaluate.routing import Router
from ragweir.streams.services.shared.routing_rows import Selection, shipped_selection
from ragweir.streams.settings import RoutingSettings
from tools import labelled_answers

EVENTS, WINDOWS = 1_000, 2_000
FLOOR_SHARE = RoutingSettings().floor_share
_RULES = RoutingSettings(floors={"rubric": 0.02})
"""Settings with a floor by hand: the rules of 0.1.0 hold, which did not select refusals by some of them."""
_SHIELDED = frozenset({"risk"})
_EVENT = Interaction(event_id="1", query="", response="")
"""The rules for `rubric` read scores alone."""


@dataclass(frozen=True)
class LabelledAnswer:
    """One answer, its label, its risk, and with which probability the rules select it."""

    bad: bool
    risk: float | None
    by_rules: float


Policy = Callable[[LabelledAnswer], float]
"""Returns the probability with which an answer is selected."""


def read(name: str, folder: Path) -> list[LabelledAnswer]:
    """Return the answers of a data set."""
    catalogue = Catalogue(everything())
    rules = [
        rule.model_copy(update={"unless": "refusal"}) if rule.name in _SHIELDED else rule
        for rule in _RULES.rules
        if "rubric" in rule.suites
    ]
    router = Router(_RULES.model_copy(update={"rules": tuple(rules)}), catalogue, ["rubric", "context_recall"])
    found = []
    for answer in labelled_answers.read(name, folder):
        scored = catalogue.score(answer.view)
        decision = router.decide(_EVENT, scored.scores, scored.categories)
        by_rules = next(each.probability for each in decision.suites if each.suite == "rubric")
        found.append(LabelledAnswer(answer.bad, scored.scores["unsupported_risk"], by_rules))
    return found


def row_of(answers: Iterable[LabelledAnswer], share: float) -> Selection:
    """Return the row that `ragweir routing plan` makes of windows with these answers."""
    bins = [risk_bin(answer.risk) for answer in answers]
    counts = Counter(number for number in bins if number is not None)
    return Selection("bench", *threshold(counts, len(bins), share, FLOOR_SHARE))


def by_row(row: Selection) -> Policy:
    """Return the policy of a row."""
    return lambda answer: row.choice(answer.risk, 0).probability


def strata(answers: Sequence[LabelledAnswer], policy: Policy) -> tuple[Stratum, ...]:
    """Return the answers by their probabilities."""
    by: dict[float, list[bool]] = {}
    for answer in answers:
        by.setdefault(policy(answer), []).append(answer.bad)
    return tuple(Stratum(len(own) / len(answers), chance, float(np.mean(own))) for chance, own in sorted(by.items()))


def spend(parts: Sequence[Stratum]) -> float:
    """Return the share of the answers that is judged."""
    return sum(part.share * part.probability for part in parts)


def finds(parts: Sequence[Stratum]) -> float:
    """Return the share of the bad answers that is judged."""
    bad = sum(part.share * part.bad for part in parts)
    return sum(part.share * part.bad * part.probability for part in parts) / bad


def compared(
    sets: Mapping[str, Sequence[LabelledAnswer]], windows: int
) -> Iterator[tuple[str, str, tuple[Stratum, ...], KindEstimates]]:
    """Yield set, policy, strata and the intervals of windows."""
    shipped = RoutingSettings()
    for name, answers in sets.items():
        share = spend(strata(answers, lambda answer: answer.by_rules))
        policies: dict[str, Policy] = {
            "rules of 0.1.0, floor 0.02": lambda answer: answer.by_rules,
            "row of its own, as much": by_row(row_of(answers, share)),
            "shipped row, as much": by_row(shipped_selection(shipped.model_copy(update={"share": share}))),
            f"row of its own, share {shipped.share:g}": by_row(row_of(answers, shipped.share)),
        }
        for seed, (policy, chosen) in enumerate(policies.items()):
            parts = strata(answers, chosen)
            yield name, policy, parts, measure(Kind(policy, parts, EVENTS), windows, seed)


def table(labels: Path = labelled_answers.DATA, windows: int = WINDOWS) -> Table:
    """Return one row per set and policy, by people's labels in a folder with mtrag.jsonl and begin.jsonl."""
    result = Table(
        *("answers", "bad", "policy", "judged", "bad ones found", "width", "ratio", "coverage", "no interval"),
        title=f"Routing by people's labels: windows of {EVENTS:,} answers, {windows:,} of each row",
    )
    sets = {name: read(name, labels) for name in labelled_answers.SETS}
    first = 0.0
    for name, policy, parts, outcome in compared(sets, windows):
        own = outcome.intervals
        first = own.width if policy.startswith("rules") else first
        bad = sum(part.share * part.bad for part in parts)
        result.add_row(
            *(name, f"{bad:.3f}", policy, f"{spend(parts):.3f}", f"{finds(parts):.2f}", f"{own.width:.3f}"),
            *(f"{own.width / first:.2f}", f"{own.coverage:.3f}", f"{1 - own.shown / windows:.3f}"),
        )
    return result


def three_applications(labels: Path = labelled_answers.DATA, share: float = 0.1) -> Table:
    """Return one row per way of selecting from three applications, the third of which is simulated.

    Its answers are those of the first set with half their risk, as of an application whose texts repeat their contexts.
    """
    sets = {name: read(name, labels) for name in labelled_answers.SETS}
    first = next(iter(sets))
    halved = [replace(answer, risk=None if answer.risk is None else answer.risk / 2) for answer in sets[first]]
    sets[f"{first}, half the risk (simulated)"] = halved
    # The applications answer as many questions each.
    length = min(map(len, sets.values()))
    chance = np.random.default_rng(7)
    applications = {
        name: [answers[place] for place in chance.choice(len(answers), length, replace=False)]
        for name, answers in sets.items()
    }
    every = [answer for answers in applications.values() for answer in answers]
    result = Table(
        *("selection", "judged", "bad ones found", *(f"judged of {name}" for name in applications)),
        title=f"Three applications, a share of {share:g} of their answers",
    )
    one, own = by_row(row_of(every, share)), {name: by_row(row_of(each, share)) for name, each in applications.items()}
    for title, policies in (("one threshold", dict.fromkeys(applications, one)), ("a row each", own)):
        parts = {name: strata(answers, policies[name]) for name, answers in applications.items()}
        found = sum(finds(part) * sum(each.bad for each in applications[name]) for name, part in parts.items())
        judged = [spend(part) for part in parts.values()]
        bad = sum(answer.bad for answer in every)
        result.add_row(title, f"{np.mean(judged):.3f}", f"{found / bad:.3f}", *(f"{each:.3f}" for each in judged))
    return result
