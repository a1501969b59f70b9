"""Drives the suites' conversations about one event: frames questions, reads answers, asks for a repair once."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal

from ragweir.metrics.judged import answers
from ragweir.metrics.judged.framing import RULES, Framed, frame
from ragweir.metrics.judged.suite import Answer, Ask, Case, Embed, Suite, SuiteResult
from ragweir.metrics.list_cut import LIST_CUT
from ragweir.metrics.metric import Flagged, Metric, Null

EXPLANATION_CHARACTERS = 500
"""What bounds the explanation of one metric on one event."""

# Control characters, line separators, halves of surrogate pairs, and what turns the direction of writing.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One request to a chat model."""

    framed: Framed
    name: str
    """Of the schema: letters, digits, underscores."""
    schema: Mapping[str, Any]
    """The JSON schema of the answer."""
    identity: bytes
    """A digest of what is asked, without marks and check words: equal questions have equal ones, repairs included."""
    answer: type[Answer]
    """The shape of the answer."""
    check: str
    """The check word that the answer has to hold."""
    repairs: bool = False
    """True for a question that is asked again because the first answer could not be used."""

    def read(self, completion: Completion) -> Answer | answers.Fault:
        """The answer that a completion holds, or what is wrong with it."""
        return answers.read(completion.text, self.answer, self.check, cut=completion.cut)


@dataclass(frozen=True, slots=True)
class Completion:
    """What came back."""

    text: str
    cut: bool = False
    """Whether it ended at the limit of tokens."""


@dataclass(slots=True)
class Judged:
    """What all suites together found."""

    scores: dict[str, float | None] = field(default_factory=dict)
    categories: dict[str, str | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    explanations: dict[str, str] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)
    statuses: dict[str, Literal["judged", "failed"]] = field(default_factory=dict)
    """Per suite; failed when it raised, or when no metric has a value and an answer was missing or unusable."""
    repairs: int = 0
    """Answers that had to be asked for again."""


def judge(case: Case, suites: Sequence[Suite], draw: Callable[[], str]) -> Generator[ChatCall | Embed, object, Judged]:
    """Judge one event by some suites.

    Yields a `ChatCall` and is sent a `Completion`, or an `Embed` and is sent `Vectors`; `Null` is sent in place of a
    result that cannot be had. A suite that raises is null, flagged and failed, and the others go on.

    Args:
        case: the event.
        suites: which to run, one after the other.
        draw: gives random words, as marks and check words.
    """
    judged = Judged()
    for suite in suites:
        missing = next((need for need in suite.needs if getattr(case, need) is None), None)
        unanswered = raised = False
        findings = suite.null(f"the event has no {missing}")
        if case.cut & suite.reads:
            findings = suite.null(LIST_CUT)
        elif missing is None:
            try:
                findings, unanswered = yield from _converse(case, suite, draw, judged)
            except Exception as error:  # One suite must not cost the others; status, flag and reason show it.
                findings, raised = suite.null(f"the suite raised {type(error).__name__}"), True
                judged.flags.append(f"{suite.name}:raised")
        some = [_record(metric, findings, judged) for metric in suite.metrics]
        judged.statuses[suite.name] = "failed" if raised or (unanswered and not any(some)) else "judged"
    return judged


def _converse(
    case: Case, suite: Suite, draw: Callable[[], str], judged: Judged
) -> Generator[ChatCall | Embed, object, tuple[SuiteResult, bool]]:
    """One suite's conversation: its findings, and whether some question found no usable answer."""
    conversation = suite.converse(case)
    unanswered = False
    reply: object = None
    while True:
        try:
            said = conversation.send(reply)
        except StopIteration as end:
            return end.value, unanswered
        if isinstance(said, Ask):
            reply = yield from _ask(said, suite, draw, judged)
            unanswered = unanswered or isinstance(reply, Null)
        else:
            reply = yield said


def _ask(
    ask: Ask, suite: Suite, draw: Callable[[], str], judged: Judged
) -> Generator[ChatCall | Embed, object, object]:
    """One question: its answer, or Null. An answer that cannot be used is asked for again once, under new marks."""
    shape = answers.schema(ask.answer)
    name = f"{suite.name}_{ask.answer.__name__}"
    framed, check = frame(ask, draw)
    call = ChatCall(framed, name, shape, _identity(ask, suite, shape), ask.answer, check)
    while True:
        reply = yield call
        if not isinstance(reply, Completion):
            return reply
        answer = call.read(reply)
        if not isinstance(answer, answers.Fault):
            return answer
        if call.repairs:
            return Null(answer.reason)
        judged.repairs += 1
        framed, check = frame(ask, draw, answer.advice)
        call = replace(call, framed=framed, check=check, repairs=True)


def _identity(ask: Ask, suite: Suite, shape: Mapping[str, Any]) -> bytes:
    asked = [RULES, suite.name, suite.version, ask.task, ask.data, shape]
    return blake2b(json.dumps(asked, ensure_ascii=False).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _record(metric: Metric, findings: SuiteResult, judged: Judged) -> bool:
    """Write down what a suite found for one metric; tells whether that is a value."""
    name = metric.name
    found = findings.values.get(name, Null("the suite left it out"))
    if isinstance(found, Flagged):
        judged.flags.append(f"{name}:{found.flag}")
        found = found.value
    if metric.unit == "category":
        value: float | str | Null = _label(found, metric)
        judged.categories[name] = value if isinstance(value, str) else None
    else:
        value = _number(found, metric)
        judged.scores[name] = value if isinstance(value, float) else None
    if isinstance(value, Null):
        judged.reasons[name] = value.reason
    if explanation := findings.explanations.get(name):
        judged.explanations[name] = _UNPRINTABLE.sub(" ", explanation[:EXPLANATION_CHARACTERS])
    return not isinstance(value, Null)


def _label(found: object, metric: Metric) -> str | Null:
    if isinstance(found, Null):
        return found
    if isinstance(found, str) and found in metric.labels:
        return found
    return Null("the result is not one of the metric's labels")


def _number(found: object, metric: Metric) -> float | Null:
    if isinstance(found, Null):
        return found
    if not isinstance(found, float | int) or not math.isfinite(found):
        return Null("the result is not a finite number")
    number = round(float(found), 6)
    low, high = metric.bounds
    if (low is not None and number < low) or (high is not None and number > high):
        return Null("the result is out of bounds")
    return number
