"""The content of the pages from files: evaluations, the events that they were made of, and labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ragweir.streams.analysis.answer_reader import FileAnswerReader
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.store import PeopleLabels, read_labels
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.load import LoadedFiles, load_evaluations, load_labels
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.shared.from_settings import aggregator
from ragweir.streams.settings import Settings


@contextmanager
def content_of_files(
    settings: Settings,
    files: Sequence[Path],
    events: Path | None = None,
    labels: Path | None = None,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Iterator[ConsoleContent]:
    """Load files into a store of their own, which exists for the length of a `with` block.

    Args:
        settings: all settings.
        files: files of evaluations, as `ragweir score --out` writes them.
        events: the file or folder that they were scored from; None looks for the one that they name.
        labels: file of labels, as `ragweir labels rate` writes it; it may not exist yet, and may grow.
        on_bytes: called with the number of bytes of each read of the evaluations.

    Raises:
        PermanentError: if a file cannot be read, or holds something else.
        ConfigurationError: if the settings are wrong.
    """
    objectives = [Objective.of(slo, aggregator(settings)) for slo in settings.slo]
    rules, texts = EvidenceRules.of(settings), ShownTexts(settings)
    with TemporaryDirectory(prefix="ragweir-console-") as folder:
        file = Path(folder) / "store.sqlite"
        with StoreWriter(file) as writer:
            loaded = load_evaluations(files, writer, on_bytes)
            load_labels([labels] if labels and labels.exists() else [], writer)
        with closing(AnswerStore(file, objectives)) as store:
            reader = FileAnswerReader(settings, files, events)
            read = partial(_labels, labels)
            yield ConsoleContent(settings, store, reader, rules, texts, read, tuple(_notes(loaded)))


def _notes(loaded: LoadedFiles) -> Iterator[str]:
    if loaded.not_evaluations:
        yield f"{loaded.not_evaluations:,} lines are no evaluations, and are not shown"
    if loaded.rejected:
        yield f"{loaded.rejected:,} evaluations are over a limit of the store, and are not shown"


def _labels(file: Path | None) -> PeopleLabels:
    return read_labels(file) if file and file.exists() else PeopleLabels()
