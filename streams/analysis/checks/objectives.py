"""Finds SLOs that count nothing: their metric is null, or their dimensions have other values, on all evaluations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import orjson
from pydantic import ValidationError

from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.shared.dimensions import label
from ragweir.streams.settings import Slo

_MAX_CHARACTERS = 100


def evaluations(records: Iterable[Record]) -> list[Evaluation]:
    """Return the evaluations in records, without those that cannot be read."""
    found: list[Evaluation] = []
    for record in records:
        try:
            found.append(Evaluation.model_validate(orjson.loads(record.value or b"")))
        except (orjson.JSONDecodeError, ValidationError):
            continue
    return found


def uncounted(slos: Iterable[Slo], sample: Sequence[Evaluation]) -> Iterator[tuple[Slo, str]]:
    """Yield the SLOs that count none of the evaluations, each with the reason.

    >>> slo = Slo(name="exact", metric="exact_match", at_least=1, objective=0.9)
    >>> sample = [Evaluation(event_id="1", event_time=0, catalogue_version="1", scores={"exact_match": None},
    ...                      reasons={"exact_match": "the event has no expected"})]
    >>> [why for _, why in uncounted([slo], sample)]
    ['exact_match is null on all 1 of them, mostly because the event has no expected']
    """
    for slo in slos:
        conditions = " and ".join(f"{name}={value}" for name, value in slo.dimensions.items())
        about = [each for each in sample if all(label(name, each) == own for name, own in slo.dimensions.items())]
        if not about:
            yield slo, f"none of them has {conditions}"
        elif all(each.scores.get(slo.metric) is None for each in about):
            given = Counter(each.reasons[slo.metric] for each in about if slo.metric in each.reasons)
            because = f", mostly because {printable(given.most_common(1)[0][0], _MAX_CHARACTERS)}" if given else ""
            among = f" with {conditions}" if conditions else ""
            yield slo, f"{slo.metric} is null on all {len(about)} of them{among}{because}"
