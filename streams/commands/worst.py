"""The worst answers of a run of `ragweir score`, kept while it runs, and named at its end."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heappush, heapreplace
from pathlib import Path

from ragweir.metrics.view import TextLimits, View
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.evaluation_record import EvaluationRecord
from ragweir.schemas.interaction import Interaction
from ragweir.streams.analysis.evidence.support_evidence import evidence_of, unsupported
from ragweir.streams.analysis.originals import located
from ragweir.streams.commands.app import shared_flags
from ragweir.streams.commands.scored_files import ScoredFiles
from ragweir.streams.runtime.records import Record
from ragweir.streams.runtime.text.terminal import printable

_METRIC = "unsupported_risk"
_CLAIM_NOTHING = ("refusal", "empty_response")
"""Metrics that are 1 for an answer without a statement."""
_MOST = 3
_CHARACTERS = 100
"""Characters of a question or a passage that are shown."""
_ID_CHARACTERS = 40
_WORDS = 8
_INDENT = " " * 9


@dataclass(frozen=True, slots=True, order=True)
class _RankedAnswer:
    risk: float
    order: int
    """Minus the number of the evaluation, so that the first of equal ones is the worst."""
    event: Interaction = field(compare=False)
    row: int = field(compare=False)
    """The number of its line or row; 0 if other events may have the same."""
    place: str = field(compare=False)
    topic: str = field(compare=False)
    source: Path | None = field(compare=False)
    """The file or folder that it was read from; None for a pipe."""


@dataclass(slots=True)
class WorstAnswers:
    """The three answers with the highest unsupported_risk, without refusals and empty answers.

    Args:
        scored: the files.
        hashed_ids: true if the ids are hashes that a map makes, which tell a person less than the row.
    """

    scored: ScoredFiles
    hashed_ids: bool = False
    _heap: list[_RankedAnswer] = field(default_factory=list)
    _seen: int = 0

    def add(self, evaluation: Evaluation | EvaluationRecord, record: Record) -> None:
        """Add a scored evaluation, and the record that its event was read from, the last one of the files."""
        self._seen += 1
        scores = evaluation.scores
        if (risk := scores.get(_METRIC)) is None or any(scores.get(name) == 1 for name in _CLAIM_NOTHING):
            return
        is_full = len(self._heap) >= _MOST
        if is_full and risk <= self._heap[0].risk:
            return
        index = evaluation.source.index if evaluation.source else 0
        if (event := self.scored.read(record, index)) is None:
            return
        place = self.scored.place(record, index, ",")
        row = 0 if index or len(self.scored.inputs) > 1 else record.offset
        answer = _RankedAnswer(risk, -self._seen, event, row, place, record.topic, self.scored.source_of(record))
        (heapreplace if is_full else heappush)(self._heap, answer)

    def lines(self, map_file: Path | None, out: Path | None) -> Iterator[str]:
        """Yield lines that name the answers, worst first, and the command that shows the first of them.

        Args:
            map_file: the map that the command line names.
            out: the file of the evaluations, if there is one.
        """
        answers = sorted(self._heap, reverse=True)
        if answers:
            yield f"highest {_METRIC}, without refusals and empty answers:"
        for each in answers:
            named = each.place if self.hashed_ids else f"{each.place}, {printable(each.event.event_id, _ID_CHARACTERS)}"
            question = each.event.query and _line(each.event.query)
            yield f"  {each.risk:.3f}  {printable(named, None)}{f': {question}' if question else ''}"
            yield from _evidence(each.event, self.scored.config.limits)
        if answers and out is not None:
            yield f"  {printable(self._command(answers[0], map_file, out), None)}"

    def _command(self, answer: _RankedAnswer, map_file: Path | None, out: Path) -> str:
        what = str(answer.row) if self.hashed_ids and answer.row else answer.event.event_id
        options = ["--file", str(out)]
        if (source := answer.source) is not None:
            found = located(answer.topic, None, out)
            if found is None or not source.exists() or not found.samefile(source):
                options += ["--events", str(source)]
        options += ["--map", str(map_file)] if map_file is not None else []
        asked = [*options, "--", what] if what.startswith("-") else [what, *options]
        return shlex.join(["ragweir", *shared_flags(), "explain", *asked])


def _evidence(event: Interaction, limits: TextLimits) -> Iterator[str]:
    """Yield the words of an answer that no passage has, and the passage nearest to its weakest sentence."""
    spans = evidence_of(View(event, limits)).spans
    if spans is None or not (weakest := spans.weakest):
        return
    own, asked = unsupported((word for each in spans.sentences for word in each.unsupported), spans.text)
    words = own or asked
    more = f" and {len(words) - _WORDS} more" if len(words) > _WORDS else ""
    yield f"{_INDENT}in no passage: {printable(', '.join(words[:_WORDS]), None)}{more}"
    if (passage := weakest[0].passage) is None or not event.contexts:
        yield f"{_INDENT}no passage shares a word with its weakest sentence"
    else:
        yield f"{_INDENT}nearest passage, {passage + 1}: {_line(event.contexts[passage].text or '')}"


def _line(text: str) -> str:
    """Return the beginning of a text on one line."""
    return printable(" ".join(text[: 4 * _CHARACTERS].split()), _CHARACTERS)
