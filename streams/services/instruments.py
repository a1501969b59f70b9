"""The instruments of all services: each keeps its own beside its code, and this is the table of them all."""

from __future__ import annotations

from collections.abc import Mapping

from ragweir.streams.runtime.serving.instruments import AGENT, PROCESS, SUPERVISING, SUPERVISOR, Instrument, KnownLabels
from ragweir.streams.runtime.serving.telemetry import Telemetry
from ragweir.streams.services.aggregate import instruments as aggregate
from ragweir.streams.services.console import instruments as console
from ragweir.streams.services.evaluate import instruments as evaluate
from ragweir.streams.services.export import instruments as export
from ragweir.streams.services.join import instruments as join
from ragweir.streams.services.judge import instruments as judge
from ragweir.streams.services.key import instruments as key
from ragweir.streams.services.match import instruments as match
from ragweir.streams.services.planner import instruments as planner
from ragweir.streams.services.shared.instruments import EVALUATIONS, FORMS
from ragweir.streams.services.tally import instruments as tally

BY_SERVICE: Mapping[str, tuple[Instrument, ...]] = {
    "evaluate": (*AGENT, *EVALUATIONS, *FORMS, *evaluate.INSTRUMENTS),
    "aggregate": (*AGENT, *FORMS, *aggregate.INSTRUMENTS),
    "judge": (*AGENT, *EVALUATIONS, *FORMS, *judge.INSTRUMENTS),
    "key": (*AGENT, *key.INSTRUMENTS),
    "join": (*AGENT, *join.INSTRUMENTS),
    "match": (*AGENT, *match.INSTRUMENTS),
    "tally": (*AGENT, *tally.INSTRUMENTS),
    "export": (*PROCESS, *export.INSTRUMENTS),
    "planner": (*PROCESS, *planner.INSTRUMENTS),
    "console": (*PROCESS, *console.INSTRUMENTS),
    SUPERVISOR: SUPERVISING,
}
"""The instruments of each service, and of the supervisor."""

TABLE: tuple[Instrument, ...] = tuple({line.name: line for lines in BY_SERVICE.values() for line in lines}.values())
"""All instruments."""


def owners(line: Instrument) -> tuple[str, ...]:
    """Return the services that have an instrument, without the supervisor if others have it; empty for all services.

    >>> owners(planner.INSTRUMENTS[0]), owners(SUPERVISING[0]), owners(PROCESS[0])
    (('planner',), ('supervisor',), ())
    """
    found = tuple(name for name, lines in BY_SERVICE.items() if line in lines)
    services = tuple(name for name in found if name != SUPERVISOR)
    return () if len(services) == len(BY_SERVICE) - 1 else services or found


def telemetry_of(service: str, slot: int, known: KnownLabels | None = None) -> Telemetry:
    """Return the telemetry of a slot of a service.

    Args:
        service: its name.
        slot: the number of the slot.
        known: the label values that its counters have from the start.
    """
    return Telemetry(service, slot, BY_SERVICE[service], known)
