"""Causes of bad answers from Python values: the values that carry the excess of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragweir.errors import Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.streams.library.arguments import MapArgument, SettingsArgument, settings_of
from ragweir.streams.library.python_values import as_json
from ragweir.streams.library.scoring import TOPIC, scorer
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings.time_arguments import time_argument

if TYPE_CHECKING:
    from ragweir.streams.analysis.blame.answer_scope import BlameScope
    from ragweir.streams.analysis.blame.blame_report import BlameReport
    from ragweir.streams.analysis.blame.facet_rows import FacetRows
    from ragweir.streams.settings import Settings

EvaluationsArgument = str | os.PathLike[str] | Iterable[Evaluation | Rejected]
"""The path of a file of evaluations, or evaluations, of which those that are `Rejected` are left out."""


def blame(
    metric: str,
    evaluations: EvaluationsArgument,
    events: Iterable[Mapping[str, Any]] | None = None,
    *,
    threshold: float | None = None,
    against: EvaluationsArgument | None = None,
    start: str | None = None,
    end: str | None = None,
    map: MapArgument = None,
    settings: SettingsArgument = None,
) -> BlameReport:
    """Return which values carry the excess of bad answers, as `ragweir blame` shows it.

    >>> import ragweir
    >>> events = [{"event_id": str(n), "query": f"When was number {n}?", "response": ("In 1843.", "Zoe.")[n % 40 < 10],
    ...            "contexts": [{"text": "In 1843.", "document_id": ("a", "b")[n % 40 < 10]}]} for n in range(200)]
    >>> found = ragweir.blame("unsupported_risk", ragweir.score(events), events)
    >>> [(dict(cause.facets), cause.numbers.bad, cause.numbers.servings) for cause in found.causes]
    [({'document': 'b'}, 50, 50)]

    Args:
        metric: the metric by which answers are bad, or the name of an SLO.
        evaluations: the path of a file of evaluations, or evaluations.
        events: the events that were scored: their chunks, tools and texts are values too.
        threshold: the threshold between bad and good; None for that of the first SLO or question on the metric, else
            half of its bounds.
        against: earlier evaluations, with which each value is compared; None to compare it with the rest.
        start: time of the first of the evaluations, as RFC 3339, or an age such as "24h"; earlier ones are left out.
        end: time after the last of them.
        map: see `score`.
        settings: see `score`.

    Returns:
        The report, with `causes` by their excess of bad answers, `enough`, `notes` on what was compared, and `data()`
        for JSON.

    Raises:
        PermanentError: if a file cannot be read, or there is no evaluation.
        ConfigurationError: if there is no such metric, no threshold follows from it, or the map or a setting is wrong.
        TypeError: if an argument is something else.
    """
    from ragweir.streams.analysis.blame.answer_scope import blame_scope  # noqa: PLC0415
    from ragweir.streams.analysis.blame.blame_report import REST  # noqa: PLC0415 - they import NumPy
    from ragweir.streams.analysis.blame.blaming import (  # noqa: PLC0415 - they import NumPy
        blame_criterion,
        blame_rows,
        new_codes,
    )
    from ragweir.streams.analysis.blame.facet_rows import FacetRows, read_facet_rows  # noqa: PLC0415
    from ragweir.streams.analysis.blame.silences import Silences  # noqa: PLC0415

    effective = settings_of(settings)
    asked = blame_criterion(metric, threshold, effective, known_catalogue(effective).metrics)
    codes, now_is = new_codes(effective), machine.now()
    span = (
        time_argument(start, "start", now_is) if start else None,
        time_argument(end, "end", now_is) if end else None,
    )

    def read(given: EvaluationsArgument, scope: BlameScope) -> FacetRows:
        if isinstance(given, str | os.PathLike):
            return read_facet_rows(Path(given), asked, codes, lambda _: None, scope)
        found = FacetRows(asked, codes, scope)
        for each in given:
            if isinstance(each, Evaluation):
                found.add(encode(each))
        return found.checked("the evaluations")

    now = read(evaluations, blame_scope(metric, effective, *span))
    before = None if against is None else read(against, blame_scope(metric, effective))
    if events is not None:
        kept = list(events)
        for rows in filter(None, (now, before)):
            _add_events(rows, kept, map, effective)
    name = str(against) if isinstance(against, str | os.PathLike) else "evaluations"
    silences = Silences(effective.blame.silenced, now_is)
    return blame_rows(asked, now, codes, before, REST if before is None else name, silences)


def _add_events(rows: FacetRows, events: Iterable[Mapping[str, Any]], map: MapArgument, settings: Settings) -> None:
    from ragweir.streams.analysis.labels.event_texts import TextsAgent  # noqa: PLC0415 - as above

    config = replace(scorer(map, settings).config, default_time=machine.now())
    nothing: dict[str, None] = {}
    agent = TextsAgent(config, rows.rows, nothing, rows.add_event)
    for number, event in enumerate(events, 1):
        if not isinstance(event, Mapping):
            raise TypeError(f"events holds a {type(event).__name__} in place of a mapping")
        agent.handle([Record(TOPIC, 0, number, None, as_json(event), None)])
