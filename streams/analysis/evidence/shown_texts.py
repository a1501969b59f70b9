"""The texts of events as `console.texts` lets them be seen: as they are, redacted, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from threading import Lock

from ragweir.metrics.metric import Null
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.interaction import AnswerRating
from ragweir.streams.analysis.originals import Original
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.settings import Settings

_OFF = Original(None, "", "the console is set to show no texts (console.texts)")


class ShownTexts:
    """Lets texts through, redacts them by `judge.redact_patterns` and the like, or holds them back; for any threads.

    Args:
        settings: all settings. Texts are redacted if `console.texts` says so, whatever `judge.redaction` is.

    Raises:
        ConfigurationError: if the redaction cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self.mode = settings.console.texts
        judge = settings.judge.model_copy(update={"redaction": "on"})
        self._redactor = Redactor(judge) if self.mode == "redacted" else None
        self._lock = Lock()

    def of(self, original: Original) -> Original:
        """Return an event with the texts that may be seen, or the reason why it may not be."""
        event = original.interaction
        if self.mode == "off":
            return _OFF
        if self._redactor is None or event is None:
            return original
        contexts, history, spans, feedback = event.contexts, event.history, event.spans, event.feedback
        comment = feedback.comment if feedback else None
        own = [event.query, event.response, event.error, comment, *(event.expected or ())]
        own += [*(each.text for each in contexts or ()), *(each.text for each in history or ())]
        own += chain.from_iterable((each.name, each.error) for each in spans or ())
        redacted = self._redacted(own)
        if isinstance(redacted, str):
            return Original(None, original.place, redacted)
        changed = {
            "query": next(redacted),
            "response": next(redacted),
            "error": next(redacted),
            "feedback": _with_comment(feedback, next(redacted)),
            "expected": event.expected and tuple(next(redacted) or "" for _ in event.expected),
            "contexts": contexts and tuple(each.model_copy(update={"text": next(redacted)}) for each in contexts),
            "history": history and tuple(each.model_copy(update={"text": next(redacted)}) for each in history),
            "spans": spans
            and tuple(each.model_copy(update={"name": next(redacted), "error": next(redacted)}) for each in spans),
        }
        return replace(original, interaction=event.with_flags(event.flags, changed))

    def explained(self, evaluation: Evaluation) -> Evaluation:
        """Return an evaluation with the judge's words and the evidence that may be seen, as both quote texts."""
        explanations, evidence = evaluation.explanations, evaluation.evidence
        if self.mode == "on" or not (explanations or evidence):
            return evaluation
        own: list[str | None] = [*explanations.values(), *chain.from_iterable(evidence.values())]
        redacted = "" if self.mode == "off" else self._redacted(own)
        if isinstance(redacted, str):
            return evaluation.model_copy(update={"explanations": {}, "evidence": {}})
        changed = {
            "explanations": {name: next(redacted) for name in explanations},
            "evidence": {name: tuple(next(redacted) for _ in pieces) for name, pieces in evidence.items()},
        }
        return evaluation.model_copy(update=changed)

    def _redacted(self, texts: list[str | None]) -> Iterator[str | None] | str:
        """Return texts as they may be seen, without those that are None, or the reason why they may not."""
        with self._lock:
            found = self._redactor.texts([each or "" for each in texts]) if self._redactor else Null("")
        if isinstance(found, Null):
            return found.reason
        return iter([None if own is None else each for own, each in zip(texts, found, strict=True)])


def _with_comment(feedback: AnswerRating | None, comment: str | None) -> AnswerRating | None:
    return feedback and feedback.model_copy(update={"comment": comment})
