"""Driver of the suites' conversations about one event: frames questions, parses answers, requests one repair each."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from hashlib import blake2b
from typing import Any, Literal

from ragweir.metrics.judged import answer_parsing
from ragweir.metrics.judged.deciding import Deciding, DecisionQuestion, Distribution, Probabilities
from ragweir.metrics.judged.framing import DECISION_RULES, RULES, Framed, frame, frame_decisions
from ragweir.metrics.judged.suite import Answer, Ask, Case, Embed, Suite, SuiteResult
from ragweir.metrics.metric import Flagged, Metric, Null
from ragweir.metrics.unavailable import CONTENT_ABSENT, LIST_CUT

EXPLANATION_CHARACTERS = 500
"""Maximum length of the explanation of one metric for one event."""

# Control characters, line separators, halves of surrogate pairs, and marks of the direction of writing.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class ChatCall:
    """One request to a chat model."""

    framed: Framed
    name: str
    """Name of the schema: letters, digits, underscores."""
    schema: Mapping[str, Any]
    """JSON schema of the answer."""
    identity: bytes
    """Digest of the question without mark and check word; that of a repair is the same."""
    answer: type[Answer]
    """Model of the answer."""
    check: str
    """Check word of the answer."""
    is_repair: bool = False
    """True if the question is asked again because the first answer was unusable."""
    is_after_unbound: bool = False
    """True if the first answer was none that an endpoint gives which binds answers to their schemas."""

    def read(self, completion: Completion) -> Answer | answer_parsing.AnswerFault:
        """Return the answer of a completion, or its fault."""
        return answer_parsing.parse_answer(completion.text, self.answer, self.check, cut=completion.cut)


@dataclass(frozen=True, slots=True)
class Completion:
    """The text that a chat model returned."""

    text: str
    cut: bool = False
    """True if it ended at the limit of tokens."""
    reasoned: bool = False
    """True if the model reasoned before it answered."""


@dataclass(frozen=True, slots=True)
class DecisionCall:
    """One request to a decision model."""

    framed: Framed
    """The instructions that all questions share, and the texts."""
    questions: tuple[DecisionQuestion, ...]
    identity: bytes
    """Digest of the questions and texts without mark."""


@dataclass(frozen=True, slots=True)
class DecisionReply:
    """The probabilities that a decision model returned."""

    probabilities: tuple[Probabilities, ...]
    """Those of the options of each question, in their order."""


JudgeCall = ChatCall | DecisionCall | Embed
"""All that a conversation asks for."""


@dataclass(slots=True)
class Judged:
    """The results of all suites for one event."""

    scores: dict[str, float | None] = field(default_factory=dict)
    categories: dict[str, str | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    undefined: list[str] = field(default_factory=list)
    """The metrics that are null because they are not defined for the event."""
    explanations: dict[str, str] = field(default_factory=dict)
    probabilities: dict[str, Distribution] = field(default_factory=dict)
    """The probabilities of the values of metrics, by metric."""
    flags: list[str] = field(default_factory=list)
    statuses: dict[str, Literal["judged", "failed"]] = field(default_factory=dict)
    """Status by suite: failed if it raised, or if no metric has a value and an answer was missing or unusable."""


def judge(case: Case, suites: Sequence[Suite], draw: Callable[[], str]) -> Generator[JudgeCall, object, Judged]:
    """Judge one event by some suites, one after the other.

    Yields a `ChatCall` and is sent a `Completion`, a `DecisionCall` and is sent a `DecisionReply`, or an `Embed` and is
    sent `Vectors`; or is sent `Null` if there is no result. If a suite raises, it is null, flagged and failed, and the
    others continue.

    Args:
        case: the event.
        suites: the suites to run.
        draw: returns random words for marks and check words.
    """
    judged = Judged()
    for suite in suites:
        missing = next((need for need in suite.needs if getattr(case, need) is None), None)
        unanswered = raised = False
        result = suite.null(Null(f"the event has no {missing}"))
        if case.cut & suite.reads:
            result = suite.null(Null(LIST_CUT, "unanswered"))
        elif missing is None:
            try:
                result, unanswered = yield from _converse(case, suite, draw)
            except Exception as error:  # One suite must not fail the others; status, flag and reason show it.
                result, raised = suite.null(Null(f"the suite raised {type(error).__name__}", "unanswered")), True
                judged.flags.append(f"{suite.name}:raised")
        have_values = [_record(metric, result, case, judged) for metric in suite.metrics]
        judged.statuses[suite.name] = "failed" if raised or (unanswered and not any(have_values)) else "judged"
    return judged


def _converse(
    case: Case, suite: Suite, draw: Callable[[], str]
) -> Generator[JudgeCall, object, tuple[SuiteResult, bool]]:
    """Run one suite's conversation; return its result, and True if a question had no usable answer."""
    conversation = suite.converse(case)
    unanswered = False
    probabilities: dict[str, Distribution] = {}
    reply: object = None
    while True:
        try:
            request = conversation.send(reply)
        except StopIteration as end:
            result: SuiteResult = end.value
            result.probabilities |= probabilities
            return result, unanswered
        if isinstance(request, Ask):
            form = request.deciding
            if form and len(form.questions) <= suite.decides:
                reply, found = yield from _decide(request, form, suite, draw)
                probabilities |= found
            else:
                reply = yield from _ask(request, suite, draw)
            unanswered = unanswered or isinstance(reply, Null)
        else:
            reply = yield request
        if isinstance(reply, Null):  # Whatever the reason, the question had an answer.
            reply = replace(reply, kind="unanswered")


def _decide(
    ask: Ask, form: Deciding, suite: Suite, draw: Callable[[], str]
) -> Generator[JudgeCall, object, tuple[object, dict[str, Distribution]]]:
    """Ask a decision model; return the answer that its probabilities make, or Null, and those of metrics' values."""
    parts = [[each.name, each.kind, each.instructions, *map(astuple, each.options)] for each in form.questions]
    identity = _digest([DECISION_RULES, suite.name, suite.version, form.task, parts, ask.data])
    reply = yield DecisionCall(frame_decisions(ask, draw, form.task), form.questions, identity)
    if not isinstance(reply, DecisionReply):
        return reply, {}
    return form.read(reply.probabilities), form.distributions(reply.probabilities)


def _ask(ask: Ask, suite: Suite, draw: Callable[[], str]) -> Generator[JudgeCall, object, object]:
    """Ask one question; return its answer or Null. After an unusable answer it is asked again once, with new marks.

    A model whose answer was cut since it had reasoned at length is not asked again: it would reason as long.
    """
    shape = answer_parsing.schema(ask.answer)
    name = f"{suite.name}_{ask.answer.__name__}"
    framed, check = frame(ask, draw)
    call = ChatCall(framed, name, shape, _identity(ask, suite, shape), ask.answer, check)
    while True:
        reply = yield call
        if not isinstance(reply, Completion):
            return reply
        answer = call.read(reply)
        if not isinstance(answer, answer_parsing.AnswerFault):
            return answer
        if call.is_repair or (answer is answer_parsing.CUT and reply.reasoned):
            return Null(answer.reason, "unanswered")
        framed, check = frame(ask, draw, answer.advice)
        call = replace(call, framed=framed, check=check, is_repair=True, is_after_unbound=answer.unbound)


def _identity(ask: Ask, suite: Suite, shape: Mapping[str, Any]) -> bytes:
    return _digest([RULES, suite.name, suite.version, ask.task, ask.data, shape])


def _digest(asked: Sequence[object]) -> bytes:
    return blake2b(json.dumps(asked, ensure_ascii=False).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _record(metric: Metric, result: SuiteResult, case: Case, judged: Judged) -> bool:
    """Add a suite's result for one metric; return True if it is a value."""
    name = metric.name
    found = result.values.get(name, Null("the suite left it out", "unanswered"))
    if isinstance(found, Flagged):
        judged.flags.append(f"{name}:{found.flag}")
        found = found.value
    is_category = metric.unit == "category"
    value = found if isinstance(found, Null) else _label(found, metric) if is_category else _number(found, metric)
    if is_category:
        judged.categories[name] = value if isinstance(value, str) else None
    else:
        judged.scores[name] = value if isinstance(value, float) else None
    if isinstance(value, Null):
        if case.absent.intersection(metric.needs):
            value = Null(CONTENT_ABSENT)
        judged.reasons[name] = value.reason
        if value.kind == "undefined":
            judged.undefined.append(name)
    elif distribution := result.probabilities.get(name):
        judged.probabilities[name] = distribution
    if explanation := result.explanations.get(name):
        judged.explanations[name] = _UNPRINTABLE.sub(" ", explanation[:EXPLANATION_CHARACTERS])
    return not isinstance(value, Null)


def _label(found: object, metric: Metric) -> str | Null:
    if isinstance(found, str) and found in metric.labels:
        return found
    return Null("the result is not one of the metric's labels", "unanswered")


def _number(found: object, metric: Metric) -> float | Null:
    if not isinstance(found, float | int) or not math.isfinite(found):
        return Null("the result is not a finite number", "unanswered")
    number = round(float(found), 6)
    low, high = metric.bounds
    if (low is not None and number < low) or (high is not None and number > high):
        return Null("the result is out of bounds", "unanswered")
    return number
