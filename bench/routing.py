"""What routing costs one event: deciding, the decision's place on the evaluation, and requests to judge."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from time import perf_counter

from rich.table import Table

from bench.interactions import interactions
from bench.timing import microseconds
from ragweir.metrics.catalogue import Catalogue, Scored, everything
from ragweir.metrics.judged.suites import suites
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode, encode
from ragweir.schemas.evaluation import Decision, SuiteDecision
from ragweir.schemas.interaction import Interaction
from ragweir.streams.evaluate.agent import EvaluateAgent, EvaluateConfig
from ragweir.streams.evaluate.routing import Router
from ragweir.streams.records import Record
from ragweir.streams.settings import RoutingSettings, Rule

EVENTS = 200
_COLD_PASSES = 10
_AGENT = "the agent but for scoring, with a router less without"
_FULFILLED: Mapping[str, Callable[..., bool]] = {
    "above": lambda value, bound: value > bound,
    "below": lambda value, bound: value < bound,
    "is": lambda value, wanted: value == wanted,
    "in": lambda value, wanted: value in wanted,
    "present": lambda value, _: value is not None,
}


class PlainRouter(Router):
    """The same decisions in the plain way: settings read, suites hashed and models built for each event."""

    def __init__(self, routing: RoutingSettings, catalogue: Catalogue, suites: Sequence[str]) -> None:
        super().__init__(routing, catalogue, suites)
        self._routing, self._names = routing, suites

    def decide(
        self, event: Interaction, scores: Mapping[str, float | None], categories: Mapping[str, str | None]
    ) -> Decision:
        """Decide about an event."""

        def fires(rule: Rule) -> bool:
            value = scores.get(rule.on, categories.get(rule.on, getattr(event, rule.on, None)))
            asked, bound = rule.condition
            held_back = rule.unless is not None and scores.get(rule.unless) == 1
            return value is not None and not held_back and _FULFILLED[asked](value, bound)

        routing = self._routing
        fired = [rule for rule in routing.rules if fires(rule)]
        decided = []
        for place, suite in enumerate(self._names):
            reasons = {rule.name: rule.probability for rule in fired if suite in rule.suites}
            if floor := routing.floors.get(suite):
                reasons["floor"] = floor
            probability = max(reasons.values(), default=0.0)
            digest = blake2b(event.event_id.encode(), digest_size=64, key=routing.key.encode()).digest()
            selected = int.from_bytes(digest[8 * place : 8 * place + 8], "big") < probability * 2**64
            status = "selected" if selected else "not_selected"
            decided.append(SuiteDecision(suite=suite, status=status, probability=probability, because=tuple(reasons)))
        return Decision(suites=tuple(decided))


class Remembered(Catalogue):
    """Scores known from before: without the scoring, the agent is short enough for a router to show."""

    def __init__(self, catalogue: Catalogue, events: Sequence[Interaction]) -> None:
        self._scored = {event.event_id: catalogue.score(View(event)) for event in events}

    def score(self, view: View) -> Scored:
        """What was found out before."""
        return self._scored[view.interaction.event_id]


def _added(router: Router, catalogue: Catalogue, records: Sequence[Record]) -> dict[str, float]:
    """What a router adds, in microseconds per event of these."""
    events = [decode(record.value) for record in records]
    remembered = Remembered(catalogue, events)
    rows = [
        (event, scored.scores, scored.categories) for event in events for scored in (remembered.score(View(event)),)
    ]
    without, routing = (EvaluateAgent(EvaluateConfig(remembered, router=each)) for each in (None, router))
    plain, decided = (
        [found[0] for record in records for found in agent.evaluate(record)] for agent in (without, routing)
    )

    def cost(work: Callable[[], object]) -> float:
        return microseconds(work, len(records))

    decide = cost(lambda: [router.decide(*row) for row in rows])
    place = cost(lambda: list(map(encode, decided))) - cost(lambda: list(map(encode, plain)))
    return {
        "decide": decide,
        "write the decision as a part of the evaluation": place,
        "both": decide + place,
        _AGENT: cost(lambda: routing.handle(records)) - cost(lambda: without.handle(records)),
        "decide, the caches cold from scoring": _cold(router, catalogue, events),
    }


def _cold(router: Router, catalogue: Catalogue, events: Sequence[Interaction]) -> float:
    """What a decision takes right after its event was scored, by the wall clock; of each event the fastest of some."""
    best = [float("inf")] * len(events)
    for _ in range(_COLD_PASSES):
        for number, event in enumerate(events):
            scored = catalogue.score(View(event))
            began = perf_counter()
            router.decide(event, scored.scores, scored.categories)
            best[number] = min(best[number], perf_counter() - began)
    return sum(best) / len(events) * 1e6


def table() -> Table:
    """What routing adds to an event, in our way and in the plain one; then what the selected ones cost."""
    catalogue, routing = Catalogue(everything()), RoutingSettings()
    router, plain = (kind(routing, catalogue, tuple(suites())) for kind in (Router, PlainRouter))
    records = [Record("t", 0, number, None, value, None) for number, value in enumerate(interactions(EVENTS))]
    agents = [EvaluateAgent(EvaluateConfig(catalogue, router=each)) for each in (router, plain)]
    evaluations, again = ([found[0] for record in records for found in agent.evaluate(record)] for agent in agents)
    if evaluations != again:
        raise AssertionError("the two ways decide differently")
    chosen: dict[bool, list[Record]] = {True: [], False: []}
    for record, each in zip(records, evaluations, strict=True):
        chosen[any(suite.status == "selected" for suite in each.decision.suites)].append(record)
    ours, theirs = (_added(each, catalogue, chosen[False]) for each in (router, plain))
    title = f"Routing by the default rules, {len(evaluations[0].decision.suites)} suites: µs that it adds to an event"
    result = Table("step", "router", "plain way", title=title, title_justify="left")
    for name in ours:
        result.add_row(name, f"{ours[name]:.1f}", f"{theirs[name]:.1f}")
    asked = _added(router, catalogue, chosen[True])
    result.add_row(
        f"an event selected ({len(chosen[True]) / EVENTS:.0%} of these): the agent, its request too",
        f"{asked[_AGENT]:.0f}",
        "",
    )
    return result
