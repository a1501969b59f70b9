"""`ragweir labels import`, `export` and `withdraw`: labels from and for other tools, and labels taken back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ragweir.errors import ConfigurationError, MapError, PermanentError
from ragweir.schemas.codec.label_maps import LABEL_MAPS, label_map
from ragweir.schemas.codec.mapping.label_map import LabelMap
from ragweir.schemas.label import WITHDRAWN
from ragweir.streams.analysis.labels.bad_rows import BadRows
from ragweir.streams.analysis.labels.criteria import question_named
from ragweir.streams.analysis.labels.evaluated import MAX_BYTES
from ragweir.streams.analysis.labels.flat import columns, flat
from ragweir.streams.analysis.labels.importing import LabelImport
from ragweir.streams.analysis.labels.label_rows import LabelReader
from ragweir.streams.analysis.labels.on_topics import label_store, labels_now
from ragweir.streams.analysis.labels.targets import Ids, find_targets, shown_ids
from ragweir.streams.commands.app import err, settings
from ragweir.streams.commands.map_advice import EventSample, unmatched_advice
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.reports import write
from ragweir.streams.files.events import Events, read_events
from ragweir.streams.files.parquet import as_parquet
from ragweir.streams.runtime.machine import machine
from ragweir.streams.runtime.text.terminal import printable
from ragweir.streams.services.shared.from_settings import map_text
from ragweir.streams.services.shared.raters import hashed_rater
from ragweir.streams.settings import LabelSettings

_BATCH = 1_000
"""Number of labels that are written together."""
_SAMPLE = 1_000
"""Number of rows with which the paths of a map are compared."""
_SHOWN_NAMES = 8
_NO_MAP = "import"
"""Name of the tool of labels that no map reads."""

LabelsFile = Annotated[
    Path | None,
    typer.Argument(
        exists=True,
        dir_okay=False,
        show_default=False,
        help="File of labels, as `rate` and `import` write it. Default: the topic of labels.",
    ),
]


def import_(
    file: Annotated[
        Path,
        typer.Argument(
            exists=True,
            dir_okay=False,
            help="Labels: JSON lines, a JSON array, CSV, TSV or Parquet, also compressed by gzip or Zstandard.",
        ),
    ],
    to: Annotated[
        Path | None,
        typer.Option(
            "--out", help="File of labels, to which those that it lacks are added. Default: the topic of labels."
        ),
    ] = None,
    map_: Annotated[
        Path | None,
        typer.Option(
            "--map",
            metavar="FILE|NAME",
            help="Map of foreign rows to labels: a TOML file of FIELD = PATH, or a ready map "
            f"({', '.join(LABEL_MAPS)}).",
        ),
    ] = None,
    question: Annotated[
        str | None, typer.Option(help="Question of the rows that name none. Default: the first of labels.questions.")
    ] = None,
    evaluations: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="File of the evaluations, in which the event of a label is found by event_id, span_id or trace_id. "
            "Default: the id in the row is taken as the event's.",
        ),
    ] = None,
) -> None:
    """Import labels that people gave in another tool.

    `--map label-studio`, `langfuse`, `langsmith` and `phoenix` read the exports of these tools. Without `--map` a row
    has an `event_id` (or a `trace_id` or `span_id`) and a `value` (yes, no, a step of the question, cannot_tell), and
    if you like a `question`, `rater`, `time`, `seconds` and `comment`. Other rows need a map of a few lines:

        event_id = "task.id"

        value = "votes[].answer"

        rater = "votes[].user"

        values = { "4" = "yes", "1" = "no" }

    Names of raters are stored as hashes with `labels.key`, comments only if `labels.comments` is on. Importing a file
    again adds nothing. Rows that are no labels are counted, with examples; the status is 1 if there is no other row.
    """
    effective = settings()
    asked = effective.labels.questions[0] if question is None else question_named(effective.labels, question)
    mapping = _mapping(map_)
    tool = _NO_MAP if map_ is None else map_.stem
    reader = LabelReader(effective.labels, mapping, asked.name, tool, machine.now(), BadRows())
    made = LabelImport(reader)
    sample = EventSample(_SAMPLE)
    with Bars() as bars:
        with bars.shown(f"Reading {file.name}", file.stat().st_size) as moved:
            made.read(_sampled(read_events(file, MAX_BYTES, moved), sample))
        if mapping is not None and str(map_) not in LABEL_MAPS:  # A ready one has paths for every form of an export.
            for advice in unmatched_advice(sample.events, mapping):
                err.say(advice)
        if evaluations is not None and made.rows:
            with bars.shown(f"Reading {evaluations.name}", evaluations.stat().st_size) as moved:
                wanted: list[Ids] = [row.ids for row in made.rows]
                targets = find_targets(evaluations, wanted, effective.windows.dimensions, moved)
            made.match(targets)
            if not made.rows:
                named = {name: [row.ids[name] for row in made.unknown if name in row.ids] for name in wanted[0]}
                raise PermanentError(
                    f"{made.failure()}; the labels name {shown_ids(named)}, and {evaluations} has {targets.examples}"
                )
        if not made.rows:
            names = _other_names(made, sample) if mapping is None else ()
            raise PermanentError("; ".join([made.failure(), *names, *_other_questions(made, effective.labels)]))
        with label_store(effective, to, bars.shown) as store:
            for draw in made.draws:
                store.add_draw(draw)
            new = made.new(store.content.labels)
            with bars.shown("Writing the labels", len(new)) as moved:
                for start in range(0, len(new), _BATCH):
                    batch = new[start : start + _BATCH]
                    store.add(*batch)
                    moved(len(batch))
    err.say("; ".join([made.summary(), *_other_questions(made, effective.labels)]))
    reported = " ".join(str(each) for each in (to, "--evaluations", evaluations or "EVALUATIONS") if each)
    err.say(f"next: ragweir labels report {reported}")


def export(
    to: Annotated[Path, typer.Option("--out", help="File for the labels: JSON lines (.jsonl) or Parquet (.parquet).")],
    file: LabelsFile = None,
) -> None:
    """Export the labels that hold: one row for each event, question and rater, without those that were withdrawn.

    The columns are flat: `draw_id` and `draw_probability` are those of the draw, `judged_value` and others those of
    the score at that time. `ragweir labels import` reads the rows as the same labels.
    """
    if to.suffix not in {".jsonl", ".parquet"}:
        raise typer.BadParameter(f"--out {to} needs the suffix .jsonl or .parquet, which says the format")
    if file is not None and to.exists() and to.samefile(file):
        raise typer.BadParameter(f"--out {to} is the file of labels itself, of which the history would be lost")
    with Bars() as bars:
        rows = [flat(label) for label in labels_now(settings(), file, bars.shown).current()]
    is_table = to.suffix == ".parquet"
    write(to, as_parquet(rows, columns()) if is_table else b"".join(orjson.dumps(row) + b"\n" for row in rows))
    err.say(f"{len(rows):,} labels exported")


def withdraw(
    event: Annotated[str, typer.Option(help="Id of the event whose labels are taken back.")],
    file: LabelsFile = None,
    question: Annotated[str | None, typer.Option(help="Name of a question. Default: all.")] = None,
    rater: Annotated[str | None, typer.Option(help="Name of a rater, or its hash. Default: all.")] = None,
) -> None:
    """Take labels of an event back: they count no more, and an import does not bring them back.

    A record that says so is added to the file or the topic. What the file had stays in it; the topic keeps the newest
    record of a label alone.
    """
    effective = settings()
    named = None if rater is None else {rater, hashed_rater(rater, effective.labels.key)}
    with Bars() as bars, label_store(effective, file, bars.shown) as store:
        found = [
            label
            for label in store.content.current()
            if label.event_id == event
            and question in (None, label.question)
            and (named is None or label.rater in named)
        ]
        if not found:
            raise PermanentError(
                f"{file or 'the topic'} has no such label of event {printable(event)}, or it was withdrawn before"
            )
        taken = {"value": WITHDRAWN, "time": machine.now(), "seconds": None, "comment": None, "why": ""}
        store.add(*(label.model_copy(update=taken) for label in found))
    err.say(f"{len(found):,} label{'s' * (len(found) != 1)} withdrawn")


def _other_names(made: LabelImport, sample: EventSample) -> Iterator[str]:
    """Yield what to do about rows that have no id, as those of other tools have other names."""
    first = next((each for each in sample.events if isinstance(each, dict)), {})
    if made.bad.number("id") and first:
        names = printable(", ".join(list(first)[:_SHOWN_NAMES]))
        yield f"a row needs event_id, trace_id or span_id, and the first has {names}: --map reads rows with other names"


def _other_questions(made: LabelImport, labels: LabelSettings) -> Iterator[str]:
    """Yield what to do about rows whose questions the settings do not have."""
    if made.bad.number("question"):
        known = ", ".join(each.name for each in labels.questions[:_SHOWN_NAMES])
        yield f"labels.questions has {known}: name a question there as the rows do, or translate the name by a map"


def _sampled(rows: Events, sample: EventSample) -> Events:
    """Yield rows, of which the first are sampled."""
    for number, row in rows:
        sample.add(row)
        yield number, row


def _mapping(map_: Path | None) -> LabelMap | None:
    """Return the map of labels: a file, or a ready map by its name.

    Raises:
        ConfigurationError: if it cannot be read, or is wrong.
    """
    if map_ is None:
        return None
    try:
        return LabelMap.parse(map_text(map_, LABEL_MAPS, label_map))
    except MapError as error:
        raise ConfigurationError(f"the map {map_} is wrong: {error}") from None
