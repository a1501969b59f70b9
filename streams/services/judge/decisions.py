"""The protocols of decision models, without I/O: questions with given options in, their probabilities out.

A response has an answer to each question, whose probabilities are numbers from 0 to 1 and in sum 1; anything else is no
answer. A question that the model declines to answer makes the metrics of its call null.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ragweir.metrics.judged.deciding import DecisionQuestion, Probabilities
from ragweir.metrics.judged.driver import DecisionCall, DecisionReply
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.pricing import most_tokens
from ragweir.streams.services.judge.protocol import MAX_RESPONSE_BYTES, EndpointRequest, ResponseFormat
from ragweir.streams.services.judge.usage import decision_usage
from ragweir.streams.settings import JudgeSettings

_MESSAGE_TOKENS, _QUESTION_TOKENS = 64, 32
"""The most tokens that a template adds to the messages, and to each question."""
_SLACK = 0.01
"""The most by which the sum of probabilities may differ from 1; endpoints round them."""


class _Declined(Exception):
    """The model declined to answer a question."""


def decisions(call: DecisionCall, settings: JudgeSettings) -> EndpointRequest:
    """Return the request for the answers of a decision model, in the dialect of the settings."""
    path, body, answers = _DIALECTS[settings.dialect]

    def read(data: Any) -> DecisionReply | Null:
        try:
            return DecisionReply(tuple(answers(data["answers"], call.questions)))
        except _Declined:
            return Null("the judge declined to answer")

    def written(_: ResponseFormat) -> dict[str, Any]:
        return {"model": settings.model, **body(call)}

    texts = [text for each in call.questions for text in (each.instructions, *_texts(each))]
    most_input = most_tokens(call.framed.system, call.framed.user, *texts)
    most_input += _MESSAGE_TOKENS + _QUESTION_TOKENS * len(call.questions)
    return EndpointRequest(
        settings.model,
        path,
        written,
        read,
        MAX_RESPONSE_BYTES,
        most_input,
        settings.max_output_tokens,
        usage_of=decision_usage,
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


def _openai_answers(found: Any, questions: Sequence[DecisionQuestion]) -> list[Probabilities]:
    if not isinstance(found, list):
        raise TypeError("not a list of answers")
    for answer, question in zip(found, questions, strict=True):
        if answer["type"] not in (question.kind, "refusal") or answer.get("name") != question.name:
            raise ValueError("an answer to another question")
    if any(answer["type"] == "refusal" for answer in found):
        raise _Declined
    return [_openai_probabilities(answer, question) for answer, question in zip(found, questions, strict=True)]


def _openai_probabilities(answer: Mapping[str, Any], question: DecisionQuestion) -> Probabilities:
    if question.kind == "predicate":
        likely = answer["probability"]
        return probabilities_of([likely, 1 - likely])
    label = "value" if question.kind == "choice" else "label"
    given = {each[label]: each["probability"] for each in answer["probabilities"]}
    labels = [option.label for option in question.options]
    if len(answer["probabilities"]) != len(labels) or given.keys() != {*labels}:
        raise ValueError("not one probability of each option")
    return probabilities_of([given[each] for each in labels])


_DIALECTS: Mapping[
    str,
    tuple[
        str, Callable[[DecisionCall], dict[str, Any]], Callable[[Any, Sequence[DecisionQuestion]], list[Probabilities]]
    ],
] = {"openai": ("/decisions", _openai_body, _openai_answers)}
"""By dialect: the path, the body but for the model, and the reader of the answers."""
