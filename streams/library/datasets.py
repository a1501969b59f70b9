"""Regression sets of Python values: the answers that people or scores found bad."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragweir.errors import PermanentError, Rejected
from ragweir.schemas.codec.json import encode
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.label import Draw
from ragweir.streams.library.arguments import MapArgument, SettingsArgument, settings_of
from ragweir.streams.library.python_values import as_json
from ragweir.streams.library.scoring import TOPIC, scorer
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.shared.from_settings import known_catalogue

if TYPE_CHECKING:
    from ragweir.streams.analysis.dataset.building import Dataset
    from ragweir.streams.analysis.dataset.choice import Chosen
    from ragweir.streams.analysis.labels.store import PeopleLabels
    from ragweir.streams.settings import Settings

DataPath = str | os.PathLike[str]


def dataset(
    evaluations: DataPath | Iterable[Evaluation | Rejected],
    events: Iterable[Mapping[str, Any]],
    labels: DataPath | Iterable[Mapping[str, Any]] | None = None,
    *,
    where: str | None = None,
    worst: int = 0,
    metric: str | None = None,
    map: MapArgument = None,
    settings: SettingsArgument = None,
) -> Dataset:
    """Return a regression set of the answers that people or scores found bad, as `ragweir dataset` writes it.

    >>> import ragweir
    >>> events = [{"event_id": "1", "query": "Who wrote it?", "response": "Bob.", "contexts": ["Ada wrote it."]},
    ...           {"event_id": "2", "query": "When?", "response": "In 1843.", "contexts": ["It was in 1843."]}]
    >>> found = ragweir.dataset(ragweir.score(events), events, [{"event_id": "1", "value": "no"}])
    >>> [(item.query, item.response, item.because) for item in found.items]
    [('Who wrote it?', 'Bob.', ('people call it bad: supported',))]

    Args:
        evaluations: the path of a file of evaluations, or evaluations, of which those that are `Rejected` are left out.
        events: the events that were scored, with their texts.
        labels: the path of a file of labels, or labels: mappings with an `event_id`, a `value`, and optionally a
            `question` (else the first of the settings), a `rater` and a `time`.
        where: conditions on the answers, such as `supported = no and unsupported_risk > 0.8`. None: people call it bad.
        worst: number of further answers that are taken, those with the worst scores.
        metric: metric of `worst`; None for that of the question.
        map: see `score`.
        settings: see `score`. The texts are redacted by `judge.redaction`.

    Returns:
        The set, with `items`, `notes` on what it leaves out, and `write(folder)` for the files of ragweir, ragas,
        DeepEval, Langfuse and Opik.

    Raises:
        PermanentError: if it would be empty, a file cannot be read, or a label is none.
        ConfigurationError: if a condition, the map or a setting is wrong.
        TypeError: if an argument is something else.
    """
    from ragweir.streams.analysis.dataset.building import build, choice  # noqa: PLC0415 - they import NumPy
    from ragweir.streams.analysis.labels.evaluated import Evaluated, read_evaluated  # noqa: PLC0415
    from ragweir.streams.analysis.labels.store import PeopleLabels  # noqa: PLC0415

    effective = settings_of(settings)
    asked = choice(effective, known_catalogue(effective).metrics, where, worst, metric, has_labels=labels is not None)
    if isinstance(evaluations, str | os.PathLike):
        evaluated = read_evaluated(Path(evaluations), asked.criteria, effective.windows.dimensions, lambda _: None)
    else:
        evaluated = Evaluated(asked.criteria, effective.windows.dimensions)
        for each in evaluations:
            if isinstance(each, Evaluation):
                evaluated.add(encode(each))
    given = PeopleLabels() if labels is None else _labels(labels, effective)

    def read(chosen: Sequence[Chosen]) -> dict[str, Interaction]:
        return _events(events, {each.event_id for each in chosen}, map, effective)

    return build(asked, evaluated, given, effective, read)


def _events(
    events: Iterable[Mapping[str, Any]], ids: set[str], map: MapArgument, settings: Settings
) -> dict[str, Interaction]:
    from ragweir.streams.analysis.labels.event_texts import TextsAgent, with_texts  # noqa: PLC0415

    found: dict[str, Interaction] = {}
    config = replace(scorer(map, settings).config, default_time=machine.now())
    agent = TextsAgent(config, ids, found, with_texts)
    for number, event in enumerate(events, 1):
        if not isinstance(event, Mapping):
            raise TypeError(f"events holds a {type(event).__name__} in place of a mapping")
        agent.handle([Record(TOPIC, 0, number, None, as_json(event), None)])
    return found


def _labels(labels: DataPath | Iterable[Mapping[str, Any]], settings: Settings) -> PeopleLabels:
    from ragweir.streams.analysis.labels.bad_rows import BadRows  # noqa: PLC0415
    from ragweir.streams.analysis.labels.evaluated import MAX_BYTES  # noqa: PLC0415
    from ragweir.streams.analysis.labels.label_rows import LabelReader  # noqa: PLC0415
    from ragweir.streams.analysis.labels.store import PeopleLabels  # noqa: PLC0415
    from ragweir.streams.files.events import read_events  # noqa: PLC0415

    bad, found = BadRows(), PeopleLabels()
    reader = LabelReader(settings.labels, None, settings.labels.questions[0].name, TOPIC, machine.now(), bad)
    if isinstance(labels, str | os.PathLike):
        lines = read_events(Path(labels), MAX_BYTES)
    else:
        lines = ((number, as_json(each)) for number, each in enumerate(labels, 1))
    for number, line in lines:
        for row in reader.read(number, line):
            if not isinstance(row, Draw):
                found.add(row.label)
    if str(bad):
        raise PermanentError(f"the labels hold rows {bad}")
    return found
