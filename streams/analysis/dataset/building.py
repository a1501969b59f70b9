"""Datasets of answers that people or scores found bad, with sentences on what they leave out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragweir.errors import ConfigurationError, PermanentError
from ragweir.metrics.metric import Metric
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.dataset.choice import AnswerChoice, Chosen, PeopleAnswers, choose, worst_by
from ragweir.streams.analysis.dataset.condition import conditions
from ragweir.streams.analysis.dataset.dataset_files import FORMATS
from ragweir.streams.analysis.dataset.items import DatasetItem, items
from ragweir.streams.analysis.labels.evaluated import Evaluated
from ragweir.streams.analysis.labels.store import PeopleLabels
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.settings import Settings
from ragweir.streams.settings.permissions import create

MOST = 10_000
"""Largest number of answers of a dataset; their texts are in memory."""
ReadEvents = Callable[[Sequence[Chosen]], Mapping[str, Interaction]]
"""Returns the events of answers by id, without those that have no texts."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A regression set."""

    items: tuple[DatasetItem, ...]
    notes: tuple[str, ...]
    """Sentences on what it leaves out."""

    def __len__(self) -> int:
        """Return the number of its items."""
        return len(self.items)

    def files(self, name: str) -> dict[str, bytes]:
        """Return its files by name.

        Args:
            name: name of the dataset, for formats that carry one.
        """
        return {file: written(self.items, name) for file, written in FORMATS.items()}

    def write(self, folder: str | Path) -> None:
        """Write its files into a folder, whose name is that of the dataset; new ones are readable by their owner alone.

        Raises:
            PermanentError: if one cannot be written.
        """
        path = Path(folder)
        file = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            for name, content in self.files(path.resolve().name).items():
                file = path / name
                with create(file) as output:
                    output.write(content)
        except OSError as error:
            raise PermanentError(f"{file} cannot be written: {error.strerror}") from None


def choice(
    settings: Settings,
    catalogue: Mapping[str, Metric],
    where: str | None,
    worst: int,
    metric: str | None,
    *,
    has_labels: bool,
) -> AnswerChoice:
    """Return which answers are taken.

    Args:
        settings: all settings.
        catalogue: all metrics.
        where: the conditions as text; None if people have to call an answer bad.
        worst: number of the worst answers that are taken as well.
        metric: metric of the worst answers; None for that of the question.
        has_labels: true if there may be labels.

    Raises:
        ConfigurationError: if a condition is wrong, or nothing could be taken.
    """
    questions = settings.labels.questions
    asked = tuple(conditions(where, questions, catalogue)) if where is not None else ()
    if metric is not None and not worst:
        raise ConfigurationError("--metric is for --worst: it says by which metric answers are the worst")
    found = AnswerChoice(asked, worst, worst_by(metric, asked, questions, catalogue) if worst else ())
    if found.needs_labels and not has_labels and (asked or not worst):
        raise ConfigurationError(
            "no labels are given: name them by --labels, or take answers by a metric with --where or --worst"
        )
    return found


def build(
    chosen_by: AnswerChoice, evaluated: Evaluated, labels: PeopleLabels, settings: Settings, read: ReadEvents
) -> Dataset:
    """Return the dataset of a choice.

    Args:
        chosen_by: the choice.
        evaluated: the evaluations, with its criteria.
        labels: what people said.
        settings: all settings.
        read: reads the events of the answers.

    Raises:
        PermanentError: if it would be empty.
        ConfigurationError: if the redaction cannot be used.
    """
    redactor = Redactor(settings.judge)
    people = PeopleAnswers(labels.current(), settings.labels.questions)
    chosen = choose(chosen_by, evaluated, people)
    if not chosen:
        unknown = sum(each not in evaluated.rows for each in people.labels)
        more = f"; {unknown:,} labelled events are not among them" if unknown else ""
        raise PermanentError(f"none of the {len(evaluated):,} evaluations is taken{more}")
    taken = chosen[:MOST]
    found, left = items(taken, read(taken), redactor, redacts=settings.judge.redaction != "off")
    numbers = {
        f"beyond the newest {MOST:,}": len(chosen) - len(taken),
        "with texts that are gone": left.gone,
        "with texts that must not leave (judge.redaction)": left.withheld,
        "to a question that an item has": left.duplicates,
    }
    said = [f"left out: {n:,} answer{'s' * (n != 1)} {words}" for words, n in numbers.items() if n]
    if not found:
        raise PermanentError(f"none of the {len(taken):,} answers can be written; {'; '.join(said)}")
    if settings.judge.redaction == "off":
        said.append("judge.redaction is off, so that the texts are written as they are")
    return Dataset(tuple(found), tuple(said))
