"""The content of the pages: what the store knows of answers, and how their texts are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragweir.schemas.label import Label
from ragweir.streams.analysis.blame.blame_question import BlameQuestion
from ragweir.streams.analysis.blame.blame_report import BlameReport
from ragweir.streams.analysis.dead_letters.letters import Letter
from ragweir.streams.analysis.evaluation_lookup import EvaluationLookup
from ragweir.streams.analysis.evidence.answer_evidence import EvidenceRules
from ragweir.streams.analysis.evidence.shown_texts import ShownTexts
from ragweir.streams.analysis.labels.report import LabelReport
from ragweir.streams.console.page_state import PageState
from ragweir.streams.console.seen_answers import SeenAnswers
from ragweir.streams.console.store.answer_store import AnswerStore
from ragweir.streams.settings import Settings


@dataclass(frozen=True, slots=True)
class ConsoleContent:
    """The content of the pages."""

    settings: Settings
    store: AnswerStore
    reader: EvaluationLookup
    rules: EvidenceRules
    texts: ShownTexts
    labels: Callable[[str], Sequence[Label]]
    """Reads the labels of an event that hold now."""
    agreement: Callable[[], LabelReport]
    """Computes the agreement of metrics with the labels of people."""
    causes: Callable[[BlameQuestion], BlameReport]
    """Computes the causes of bad answers, which may take long."""
    agreement_command: str
    """The command that prints the same."""
    seen: SeenAnswers
    """Remembers the answers whose scores people have seen."""
    letter: Callable[[tuple[int, int]], Letter | None] | None = None
    """Reads the dead letter at a partition and an offset; None of files, which have none."""
    lag: Callable[[], str | None] = lambda: None
    """Says how far evaluation is behind; None of files, which nothing follows."""
    notes: tuple[str, ...] = ()
    """Sentences on what could not be read."""

    @property
    def is_live(self) -> bool:
        """True if answers arrive while the pages are open."""
        return self.letter is not None

    def state(self) -> PageState:
        """Return the state that every page shows."""
        return PageState(self.store.state(), self.lag())
