"""The protocols of decision models, without I/O: questions with given options in, their probabilities out.

A response has an answer to each question, whose probabilities are numbers from 0 to 1 and in sum 1; anything else is no
answer. A question that the model declines to answer, or answers with no option, makes the metrics of its call null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ragweir.metrics.judged.deciding import DecisionQuestion, Probabilities
from ragweir.metrics.judged.driver import DecisionCall, DecisionReply
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.pricing import most_tokens
from ragweir.streams.services.judge.protocol import MAX_RESPONSE_BYTES, EndpointRequest, ResponseFormat
from ragweir.streams.services.judge.usage import StatedUsage, chat_usage, decision_usage
from ragweir.streams.settings import JudgeSettings

_MESSAGE_TOKENS, _QUESTION_TOKENS = 64, 32
"""The most tokens that a template adds to the messages, and to each question."""
_SLACK = 0.01
"""The most by which the sum of probabilities may differ from 1; endpoints round them."""
_LEAST_MASS = 0.5
"""The least probability of all options together, where an endpoint tells it; below it, they were not its answer."""


class _Unanswered(Exception):
    """The model did not answer a question. The message is fixed words."""


def decisions(call: DecisionCall, settings: JudgeSettings) -> EndpointRequest:
    """Return the request for the answers of a decision model, in the dialect of the settings."""
    dialect = _DIALECTS[settings.dialect]

    def read(data: Any) -> DecisionReply | Null:
        try:
            return DecisionReply(tuple(dialect.answers(data, call.questions)))
        except _Unanswered as error:
            return Null(str(error))

    def written(_: ResponseFormat) -> dict[str, Any]:
        return {"model": settings.model, **dialect.body(call)}

    texts = [text for each in call.questions for text in (each.instructions, *_texts(each))]
    reads = len(call.questions) if settings.reads_apart else 1
    most_input = reads * (most_tokens(call.framed.system, call.framed.user) + _MESSAGE_TOKENS)
    most_input += most_tokens(*texts) + _QUESTION_TOKENS * len(call.questions)
    return EndpointRequest(
        settings.model,
        dialect.path,
        written,
        read,
        MAX_RESPONSE_BYTES,
        most_input,
        settings.max_output_tokens,
        usage_of=dialect.usage_of,
    )


def _texts(question: DecisionQuestion) -> Sequence[str]:
    if question.kind == "predicate":
        return ()
    return [text for option in question.options for text in (option.label, option.description)]


def probabilities_of(found: Sequence[Any]) -> Probabilities:
    """Return probabilities whose sum is 1.

    Raises:
        ValueError, TypeError: if they are no probabilities of which one applies.

    >>> probabilities_of([0.5, 0.25, 0.248])[0] > 0.5
    True
    """
    if not all(type(each) in (int, float) and 0 <= each <= 1 for each in found):
        raise ValueError("a probability is no number from 0 to 1")
    total = math.fsum(found)
    if abs(total - 1) > _SLACK:
        raise ValueError("the sum of the probabilities is not 1")
    return tuple(each / total for each in found)


# OpenAI's, in beta, as the types of its Python package have it since 3.54.


def _openai_body(call: DecisionCall) -> dict[str, Any]:
    messages = [
        {"type": "message", "role": "developer", "content": call.framed.system},
        {"type": "message", "role": "user", "content": call.framed.user},
    ]
    return {"input": messages, "questions": [_openai_question(each) for each in call.questions]}


def _openai_question(question: DecisionQuestion) -> dict[str, Any]:
    asked: dict[str, Any] = {"type": question.kind, "name": question.name, "instructions": question.instructions}
    if question.kind == "predicate":
        return asked
    options, label = ("choices", "value") if question.kind == "choice" else ("levels", "label")
    return {**asked, options: [{label: each.label, "description": each.description} for each in question.options]}


def _openai_answers(data: Any, questions: Sequence[DecisionQuestion]) -> list[Probabilities]:
    found = data["answers"]
    if not isinstance(found, list):
        raise TypeError("not a list of answers")
    for answer, question in zip(found, questions, strict=True):
        if answer["type"] not in (question.kind, "refusal") or answer.get("name") != question.name:
            raise ValueError("an answer to another question")
    if any(answer["type"] == "refusal" for answer in found):
        raise _Unanswered("the judge declined to answer")
    return [_openai_probabilities(answer, question) for answer, question in zip(found, questions, strict=True)]


def _openai_probabilities(answer: Mapping[str, Any], question: DecisionQuestion) -> Probabilities:
    if question.kind == "predicate":
        return probabilities_of([answer["probability"], 1 - answer["probability"]])
    label = "value" if question.kind == "choice" else "label"
    given = {each[label]: each["probability"] for each in answer["probabilities"]}
    labels = [option.label for option in question.options]
    if len(answer["probabilities"]) != len(labels) or given.keys() != {*labels}:
        raise ValueError("not one probability of each option")
    return probabilities_of([given[each] for each in labels])


# System One's, as vLLM documents it under "Structured Decisions". Levels have no description but their names.


def _systemone_body(call: DecisionCall) -> dict[str, Any]:
    questions = {each.name: _systemone_question(each) for each in call.questions}
    return {"state": call.framed.user, "instructions": call.framed.system, "questions": questions}


def _systemone_question(question: DecisionQuestion) -> dict[str, Any]:
    kind = _SYSTEMONE_KINDS[question.kind]
    criteria: Any = None
    if kind == "choice":
        criteria = {each.label: each.description for each in question.options}
    elif kind == "score":
        criteria = [f"{each.label}: {each.description}" for each in question.options]
    return {"type": kind, "instructions": question.instructions, "criteria": criteria}


def _systemone_answers(data: Any, questions: Sequence[DecisionQuestion]) -> list[Probabilities]:
    found, diagnostics = data["answers"], data.get("diagnostics") or {}
    if found.keys() != {each.name for each in questions}:
        raise ValueError("not one answer to each question")
    probabilities = [_systemone_probabilities(found[each.name], each) for each in questions]
    _check_masses([each["label_mass"] for each in diagnostics.values()])
    return probabilities


def _check_masses(masses: Sequence[Any]) -> None:
    """Check the probabilities of all options together, one for each question."""
    if any(type(each) not in (int, float) for each in masses):
        raise TypeError("a sum of probabilities is no number")
    if any(each < _LEAST_MASS for each in masses):
        raise _Unanswered("the judge's likeliest answer was none of the options")


def _systemone_probabilities(answer: Mapping[str, Any], question: DecisionQuestion) -> Probabilities:
    if answer["type"] != _SYSTEMONE_KINDS[question.kind]:
        raise ValueError("an answer to another question")
    if question.kind == "predicate":
        return probabilities_of([answer["noul"], 1 - answer["noul"]])
    return _by_name(answer["probabilities"], question)


def _by_name(found: Mapping[str, Any], question: DecisionQuestion) -> Probabilities:
    """Return the probabilities of classes by their labels, of levels by their numbers, or of yes and no."""
    names = {
        "predicate": ["yes", "no"],
        "choice": [option.label for option in question.options],
        "score": [str(number) for number in range(len(question.options))],
    }[question.kind]
    if found.keys() != {*names}:
        raise ValueError("not one probability of each option")
    return probabilities_of([found[each] for each in names])


_SYSTEMONE_KINDS = {"predicate": "noul", "choice": "choice", "score": "score"}


# SGLang's own form of /v1/decisions, which has no messages.


def _sglang_body(call: DecisionCall) -> dict[str, Any]:
    text = f"{call.framed.system}\n\n{call.framed.user}"
    return {"input": text, "questions": [_sglang_question(each) for each in call.questions]}


def _sglang_question(question: DecisionQuestion) -> dict[str, Any]:
    asked = {"id": question.name, "type": _SGLANG_KINDS[question.kind], "question": question.instructions}
    if question.kind == "choice":
        return {
            **asked,
            "options": [{"name": each.label, "description": each.description} for each in question.options],
        }
    levels = [f"{each.label}: {each.description}" for each in question.options]
    return {**asked, "levels": levels} if question.kind == "score" else asked


def _sglang_answers(data: Any, questions: Sequence[DecisionQuestion]) -> list[Probabilities]:
    found = data["answers"]
    if found.keys() != {each.name for each in questions}:
        raise ValueError("not one answer to each question")
    if any(found[each.name]["type"] != _SGLANG_KINDS[each.kind] for each in questions):
        raise ValueError("an answer to another question")
    probabilities = [_by_name(found[each.name]["probabilities"], each) for each in questions]
    _check_masses([each["label_mass"] for each in found.values()])
    return probabilities


_SGLANG_KINDS = {"predicate": "yes_no", "choice": "choice", "score": "score"}


class _Dialect(NamedTuple):
    """One form of the calls to a decision model."""

    path: str
    body: Callable[[DecisionCall], dict[str, Any]]
    """Returns the body but for the model."""
    answers: Callable[[Any, Sequence[DecisionQuestion]], list[Probabilities]]
    """Reads a response."""
    usage_of: Callable[[object], StatedUsage]


_DIALECTS: Mapping[str, _Dialect] = {
    "openai": _Dialect("/decisions", _openai_body, _openai_answers, decision_usage),
    "systemone": _Dialect("/systemone", _systemone_body, _systemone_answers, decision_usage),
    "sglang": _Dialect("/decisions", _sglang_body, _sglang_answers, chat_usage),
}
