"""The content of the pages from files: evaluations, the events that they were made of, and labels."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock

from ragweir.schemas.label import Label
from ragweir.streams.analysis.blame.blame_question import BlameQuestion, causes_of
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.evaluation_lookup import FileLookup
from ragweir.streams.analysis.evaluation_source import EvaluationSource, unseen
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.criteria import criteria
from ragweir.streams.analysis.labels.evaluated import Evaluated, read_evaluated
from ragweir.streams.analysis.labels.report import LabelReport, report
from ragweir.streams.analysis.labels.store import PeopleLabels, read_labels
from ragweir.streams.console.agreement_cache import AgreementCache
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.seen_answers import SeenAnswers
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.console.store.load import LoadedFiles, load_evaluations, load_labels
from ragweir.streams.console.store.writer import StoreWriter
from ragweir.streams.runtime.machine import machine
from ragweir.streams.services.aggregate.objectives import Objective
from ragweir.streams.services.shared.from_settings import aggregator, known_catalogue
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
        # Sessions end with the process, and so does the knowledge of the answers that they have seen.
        seen = SeenAnswers(Path(folder) / "seen.sqlite", settings.labels.key)
        with closing(seen), closing(AnswerStore(file, objectives)) as store:
            people = _People(settings, files, labels)
            yield ConsoleContent(
                settings,
                store,
                FileLookup(settings, files, events),
                rules,
                texts,
                labels=people.labels_of,
                agreement=AgreementCache(people.version, people.agreement),
                causes=partial(_causes, settings, files),
                agreement_command=people.command,
                seen=seen,
                notes=tuple(_notes(loaded)),
            )


def _causes(settings: Settings, files: Sequence[Path], question: BlameQuestion) -> BlameReport:
    sources = (EvaluationSource(settings, str(file), file, "") for file in files)
    evaluations = chain.from_iterable(each.values(unseen) for each in sources)
    name = str(files[0]) if len(files) == 1 else "the files"
    return causes_of(settings, question, evaluations, name, machine.now())


class _People:
    """The labels of a file, as they are now, and the agreement of the evaluations with them."""

    def __init__(self, settings: Settings, files: Sequence[Path], file: Path | None) -> None:
        self._file, self._dimensions = file, settings.windows.dimensions
        self._evaluations = files[0] if len(files) == 1 else None
        catalogue = known_catalogue(settings).metrics
        self._criteria = [(each, criteria(each, catalogue)) for each in settings.labels.questions]
        self._lock = Lock()
        self._evaluated: Evaluated | None = None
        named = [*([str(file)] if file else []), *(["--evaluations", str(files[0])] if self._evaluations else [])]
        self.command = shlex.join(["ragweir", "labels", "report", *named])

    def labels_of(self, event_id: str) -> Sequence[Label]:
        return [each for each in self._labels().current() if each.event_id == event_id]

    def _labels(self) -> PeopleLabels:
        return read_labels(self._file) if self._file and self._file.exists() else PeopleLabels()

    def version(self) -> tuple[int, ...]:
        """Return numbers that change with the file."""
        if self._file is None or not self._file.exists():
            return ()
        status = self._file.stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def agreement(self) -> LabelReport:
        labels = self._labels()
        return report(labels, self._criteria, self._read() if labels.labels else None)

    def _read(self) -> Evaluated | None:
        """Return the evaluations, which are read when they are first needed; None if they are of several files."""
        with self._lock:
            if self._evaluated is None and self._evaluations is not None:
                every = [found for _, own in self._criteria for found in own]
                self._evaluated = read_evaluated(self._evaluations, every, self._dimensions, lambda _: None)
            return self._evaluated


def _notes(loaded: LoadedFiles) -> Iterator[str]:
    if loaded.not_evaluations:
        yield f"{loaded.not_evaluations:,} lines are no evaluations, and are not shown"
    if loaded.rejected:
        yield f"{loaded.rejected:,} evaluations are over a limit of the store, and are not shown"
