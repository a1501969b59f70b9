"""`ragweir console`: pages on which people look at answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragweir.errors import PermanentError
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.labels.event_texts import EventTexts
from ragweir.streams.analysis.labels.rating_task import NAME_SCORED, RatingTask
from ragweir.streams.analysis.labels.store import LabelFile, read_queue
from ragweir.streams.commands.app import app, err, out, settings, shared_flags
from ragweir.streams.commands.inputs import check_distinct
from ragweir.streams.commands.progress import Bars
from ragweir.streams.commands.services import Slot, run_service
from ragweir.streams.commands.stopping import Stop, interrupt_on_signals
from ragweir.streams.commands.wanted_events import kept_of
from ragweir.streams.console.service import check_packages
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.console import NAME
from ragweir.streams.settings import Settings

if TYPE_CHECKING:
    from starlette.routing import BaseRoute

QUEUE, LABELS = Path("queue.jsonl"), Path("labels.jsonl")
"""The files of labelling, unless others are named."""
_CHECK_SECONDS = 1.0


@app.command()
def console(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="FILE...",
            exists=True,
            dir_okay=False,
            help="Files of evaluations, as `ragweir score --out` writes them. Default: the live topics.",
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            help="File or folder of the interactions that were scored. Default: the one that the evaluations name, "
            "beside them or in the current folder.",
        ),
    ] = None,
    queue: Annotated[
        Path,
        typer.Option(dir_okay=False, help="Queue of answers to be labelled, as `ragweir labels draw` writes it."),
    ] = QUEUE,
    labels: Annotated[
        Path, typer.Option(dir_okay=False, help="File of labels, to which those of the queue are added.")
    ] = LABELS,
    port: Annotated[
        int | None, typer.Option(min=0, max=65_535, help="Port of the pages, in place of console.port; 0 chooses one.")
    ] = None,
    slot: Slot = None,
) -> None:
    """Show pages on which people look at answers, until Ctrl-C.

    Prints an address with a token; who opens it logs in with a name. The pages are served on loopback, unless
    `console.host` or `console.socket` says otherwise. `pip install 'ragweir[console]'` installs the packages that they
    need.

    Without files the answers are those of the live topics: a worker process follows them and keeps their numbers in
    `console.folder`, as in `ragweir up` with `console.enabled`. Evaluations and texts are read in Kafka when a page
    shows them. Its telemetry port is telemetry.port + 1100.

    On /review people label the answers of a queue, one after the other, without seeing scores, as `ragweir labels rate`
    asks in a terminal. The queue may be drawn while the console runs.
    """
    effective = settings(console={"port": port})
    if files:
        show_files(effective, files, events, queue, labels)
    else:
        run_service(NAME, effective, 1, slot, [] if port is None else ["--port", str(port)])


def show_files(
    effective: Settings,
    files: Sequence[Path],
    events: Path | None,
    queue: Path = QUEUE,
    labels: Path = LABELS,
) -> None:
    """Show pages over files of evaluations until a signal comes.

    Args:
        effective: all settings.
        files: the evaluations.
        events: the interactions that were scored; None looks for those that the evaluations name.
        queue: the queue of answers to be labelled, which may not be there yet.
        labels: the file of their labels.

    Raises:
        PermanentError: if a file cannot be read, or the port cannot be used.
    """
    check_packages()
    check_distinct(*files, events, queue, labels)
    from ragweir.streams.console.from_files import content_of_files  # noqa: PLC0415 - of an extra
    from ragweir.streams.console.pages.review import review_routes  # noqa: PLC0415
    from ragweir.streams.console.pages.routes import page_routes  # noqa: PLC0415
    from ragweir.streams.console.review_desk import ReviewDesk  # noqa: PLC0415
    from ragweir.streams.console.review_queues import seen_by_raters  # noqa: PLC0415

    draw = shlex.join(["ragweir", *shared_flags(), "labels", "draw", str(files[0]), "--out", str(queue)])
    with ExitStack() as opened:
        with Bars() as bars, bars.shown("Reading", sum(file.stat().st_size for file in files)) as moved:
            content = opened.enter_context(content_of_files(effective, files, events, labels, moved))
        for note in content.notes:
            err.say(note)
        desk = ReviewDesk(
            effective,
            _FileQueue(effective, queue, labels, events, seen_by_raters(content.texts), opened),
            content.seen.has,
        )
        pages = [*page_routes(content), *review_routes(desk, draw, content.state)]
        serve(effective, pages, content.store.state().answers)


@dataclass(slots=True)
class _FileQueue:
    """A queue in a file, and the file of its labels, which is opened once."""

    effective: Settings
    queue: Path
    labels: Path
    events: Path | None
    seen: Callable[[Interaction], EventTexts | None]
    opened: ExitStack
    _file: LabelFile | None = None

    def __call__(self) -> RatingTask | None:
        """Return the answers of the queue; None if there is no queue yet.

        Raises:
            PermanentError: if one of the files cannot be used, or no events are named.
        """
        if not self.queue.exists():
            return None
        if self.events is None:
            raise PermanentError("labelling needs the texts of the answers: start the console with --events")
        draw, answers = read_queue(self.queue)
        self._file = file = self._file or self.opened.enter_context(LabelFile(self.labels))
        ids = {each.event_id for each in answers}
        texts = partial(kept_of, self.effective, self.events, ids, Stop(), self.seen, has_map=False)
        return RatingTask(answers, file, str(self.events), texts, NAME_SCORED, partial(file.add_draw, draw))


def serve(effective: Settings, pages: Sequence[BaseRoute], answers: int) -> None:
    """Serve the pages until a signal comes."""
    from ragweir.streams.console.application import application  # noqa: PLC0415 - of an extra
    from ragweir.streams.console.safety.authentication import login_path, read_token  # noqa: PLC0415
    from ragweir.streams.console.web_server import listen, served  # noqa: PLC0415

    own = effective.console
    token = read_token(own)
    interrupt_on_signals()
    with listen(own) as (listening, address):
        try:
            with served(application(pages, own, token), listening):
                out.say(f"{answers:,} answers are shown at {address}{login_path(own, token)} until Ctrl-C.")
                while True:
                    machine.sleep(_CHECK_SECONDS)
        except KeyboardInterrupt:
            out.say("The console is stopped.")
