"""`ragweir dataset`: the answers that people or scores found bad, as a regression set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from ragweir.schemas.interaction import Interaction
from ragweir.schemas.window import duration_s
from ragweir.streams.analysis.dataset.building import ReadEvents, build, choice
from ragweir.streams.analysis.dataset.choice import Chosen
from ragweir.streams.analysis.dataset.dataset_files import FORMATS
from ragweir.streams.analysis.labels.evaluated import read_evaluated
from ragweir.streams.analysis.labels.event_texts import with_texts
from ragweir.streams.analysis.labels.kafka_texts import kept_in_kafka
from ragweir.streams.analysis.labels.on_topics import evaluated_since, labels_now
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.commands.app import app, err, settings, shared_flags
from ragweir.streams.commands.inputs import check_distinct
from ragweir.streams.commands.options import MapFile
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.stopping import Stop
from ragweir.streams.commands.wanted_events import kept_of
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.shared.from_settings import known_catalogue
from ragweir.streams.settings import Settings
from ragweir.streams.settings.time_arguments import time_argument


@app.command()
def dataset(
    to: Annotated[Path, typer.Option("--out", file_okay=False, help=f"Folder for the files: {', '.join(FORMATS)}.")],
    file: Annotated[
        Path | None,
        typer.Argument(
            exists=True,
            dir_okay=False,
            show_default=False,
            help="File of evaluations, as `ragweir score --out` writes it. Default: the topic of evaluations.",
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File or folder of the interactions that were scored, with the texts. Required with a file.",
        ),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="File of labels, as `labels rate` and `labels import` write it. Default: the topic of labels; none "
            "with a file of evaluations.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            help="Conditions on the answers, joined by `and`: what people said to a question, such as `supported = "
            "no`, or a value of a metric, such as `unsupported_risk > 0.8`. Default: people call it bad, whatever the "
            "question is."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Start of the events: RFC 3339 time, or age such as 7d. Default: all of a file; of the topic those of "
            "`labels.range`.",
        ),
    ] = None,
    worst: Annotated[
        int,
        typer.Option(min=0, max=10_000, help="Number of further answers that are taken, those with the worst scores."),
    ] = 0,
    metric: Annotated[
        str | None, typer.Option(help="Metric of --worst. Default: that of the question of --where, or of the first.")
    ] = None,
    map_file: MapFile = None,
) -> None:
    """Write answers that people or scores found bad as a regression set, for ragweir and other tools.

    `ragweir dataset --from 7d --where "supported = no" --worst 50 --out regressions`

    An item is a question with the bad answer, its passages, the expected answer if the event has one, what people said,
    and where it comes from. Of answers to one question, after a conversation of the same words, the first is taken:
    those that meet the conditions before the worst, newer ones before older ones. Where people disagree, the answer of
    most of them counts. Worst answers that people call good are left out.

    `dataset.jsonl` holds interactions, which `ragweir score` reads. `ragas.jsonl` is for `EvaluationDataset.from_jsonl`
    of ragas, `deepeval.json` for `add_goldens_from_json_file` of DeepEval, `opik.jsonl` for `read_jsonl_from_file` of
    Opik, and each line of `langfuse.jsonl` for `POST /api/public/dataset-items` of Langfuse. Files of the same names
    are replaced.

    The texts are redacted as the judge's are (`judge.redaction`). On Kafka they are read again where evaluate read
    them, within the retention of the interactions.
    """
    effective, now = settings(input={"map": map_file}), machine.now()
    if (file is None) != (events is None):
        raise typer.BadParameter("a file of evaluations and --events go together; leave out both for Kafka")
    outputs = (to / name for name in FORMATS)
    check_distinct(file, events, labels, *outputs)
    catalogue = known_catalogue(effective).metrics
    chosen_by = choice(effective, catalogue, where, worst, metric, has_labels=file is None or labels is not None)
    start = time_argument(since, "--from", now) if since else None
    criteria, notes = chosen_by.criteria, list[str]()
    with Bars() as bars:
        given = PeopleLabels() if file is not None and labels is None else labels_now(effective, labels, bars.shown)
        if file is None:
            first = start or now - timedelta(seconds=duration_s(effective.labels.range))
            evaluated, notes = evaluated_since(effective, criteria, first, bars.shown)
        else:
            with bars.shown(f"Reading {file.name}", file.stat().st_size) as moved:
                own = (start.timestamp(),) if start else ()
                evaluated = read_evaluated(file, criteria, effective.windows.dimensions, moved, *own)
    found = build(chosen_by, evaluated, given, effective, _read(effective, events, has_map=map_file is not None))
    found.write(to)
    for note in (*notes, *found.notes):
        err.say(note)
    err.say(f"{len(found):,} questions written to {to}")
    scored = shlex.join(["ragweir", *shared_flags(), "score", str(to / "dataset.jsonl")])
    err.say(f"next: answer them with the new version, and compare; the bad answers: {scored}")


def _read(effective: Settings, events: Path | None, *, has_map: bool) -> ReadEvents:
    """Return the function that reads the events of answers: in a file, or in Kafka."""

    def read(chosen: Sequence[Chosen]) -> Mapping[str, Interaction]:
        sources = {each.event_id: each.source for each in chosen}
        if events is not None:
            return kept_of(effective, events, sources.keys(), Stop(), with_texts, has_map=has_map)
        with Bars() as bars:
            return kept_in_kafka(effective, sources, with_texts, bars.shown)

    return read
