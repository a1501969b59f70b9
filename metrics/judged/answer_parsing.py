"""Parsing of a judge's answer, which has to be one JSON object that has the check word and fits the schema.

Prose is never searched: "Step 1 ... score: 0.2" has no score. A JSON object that a judge copied from the text to grade
is not accepted either, since it does not have the request's check word.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, TypeVar

from ragweir.metrics.judged.suite import Answer

MAX_CHARACTERS = 100_000
"""Maximum length of an answer."""

CHECK_CHARACTERS = 64
"""Maximum length of a check word."""

_STARTS_OF_REASONING = ("<think>", "<thinking>", "<reasoning>")
_END_OF_REASONING = re.compile("</(?:think|thinking|reasoning)>")
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class AnswerFault:
    """An error of an answer, in fixed words that quote neither it nor the event."""

    reason: str
    """The reason of the metrics that are null because of it."""
    advice: str
    """The sentence for the judge in the request for a repair."""
    unbound: bool = field(default=False, compare=False)
    """True if an endpoint that binds its answers to their schemas gives no such answer."""


NOT_JSON = AnswerFault(
    "the judge's answer was not JSON", "It was not one JSON object alone, without any text around it.", unbound=True
)
NO_CHECK = AnswerFault("the judge's answer lacks its check word", 'Its field "check" did not hold the check word.')
UNFIT = AnswerFault("the judge's answer did not fit its schema", "It did not fit the schema.")
MISSHAPEN, UNCHECKED = replace(UNFIT, unbound=True), replace(NO_CHECK, unbound=True)
"""The same faults of an answer that is no object, lacks fields or has others."""
CUT = AnswerFault(
    "the judge's answer was cut; raise judge.max_output_tokens", "It was too long and broke off. Be much shorter."
)
TOO_LONG = AnswerFault("the judge's answer was too long", "It was too long. Be much shorter.")


def parse_answer(text: str, answer: type[A], check: str, *, cut: bool = False) -> A | AnswerFault:
    """Parse an answer.

    The text has to be one JSON object, with nothing but white space, one enclosing json fence and the model's reasoning
    before `</think>` around it. Duplicate fields, NaN and infinite numbers are faults. An integer is converted to a
    float; other values are not converted.

    Args:
        text: the judge's text.
        answer: the model of the answer.
        check: the required value of its field "check".
        cut: True if the text ended at the limit of tokens; a complete object is still read.

    >>> class Politeness(Answer):
    ...     score: float
    >>> parse_answer('{"score": 1, "check": "owl"}', Politeness, "owl")
    Politeness(score=1.0)
    >>> parse_answer('My score is 1: {"score": 1, "check": "owl"}', Politeness, "owl").reason
    "the judge's answer was not JSON"
    >>> parse_answer('{"score": 1, "check": "cat"}', Politeness, "owl").reason
    "the judge's answer lacks its check word"
    >>> parse_answer('{"score": "high", "check": "owl"}', Politeness, "owl").reason
    "the judge's answer did not fit its schema"
    """
    if len(text) > MAX_CHARACTERS:
        return TOO_LONG
    try:
        data = _json(without_reasoning(text))
    except (ValueError, RecursionError):
        return CUT if cut else NOT_JSON
    return _checked(data, answer, check) if isinstance(data, dict) else MISSHAPEN


def _checked(data: dict[str, Any], answer: type[A], check: str) -> A | AnswerFault:
    fits = data.keys() == {"check", *answer.model_fields}
    if data.pop("check", None) != check:
        return NO_CHECK if fits else UNCHECKED
    if not fits:
        return MISSHAPEN
    try:
        # As JSON, in which strict mode reads a tuple from a list; half a surrogate pair becomes a question mark.
        return answer.model_validate_json(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return UNFIT


def without_reasoning(text: str) -> str:
    """Return an answer without the reasoning that some servers leave before it, with or without its first mark.

    >>> without_reasoning('<think>Is it "{"?</think>{"score": 1}'), without_reasoning('It is.</think>{"score": 1}')
    ('{"score": 1}', '{"score": 1}')
    >>> without_reasoning('{"reason": "</think>"}'), without_reasoning("<think>It")
    ('{"reason": "</think>"}', '')
    """
    text = text.strip()
    if text.startswith(("{", "```")):
        return text
    if end := _END_OF_REASONING.search(text):
        return text[end.end() :].strip()
    return "" if text.startswith(_STARTS_OF_REASONING) else text


@cache
def schema(answer: type[Answer]) -> dict[str, Any]:
    """Return the JSON schema of an answer with its check word; one object per class, which must not be modified.

    For the strictest endpoints, every object is closed and requires all its fields, and there are no references. So an
    answer's fields must not have defaults, and it must not be recursive.

    >>> class Politeness(Answer):
    ...     score: float
    >>> schema(Politeness)["properties"]["score"], schema(Politeness)["required"]
    ({'type': 'number'}, ['score', 'check'])
    """
    plain = answer.model_json_schema()
    strict: dict[str, Any] = _strict(plain, plain.get("$defs", {}))
    description = "The check word that the instructions name."
    strict["properties"]["check"] = {"type": "string", "maxLength": CHECK_CHARACTERS, "description": description}
    strict["required"].append("check")
    return strict


def _json(text: str) -> object:
    """Decode one JSON value.

    Raises:
        ValueError: if it is invalid, or has a duplicate field or a number that is not finite.
        RecursionError: if it is nested very deeply.
    """
    if text.startswith("```json") and text.endswith("```"):
        text = text.removeprefix("```json").removesuffix("```")
    return json.loads(text, object_pairs_hook=_distinct, parse_int=_whole, parse_float=_finite, parse_constant=_finite)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("duplicate field")
    return named


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is not finite")
    return number


def _whole(digits: str) -> int:
    _finite(digits)
    return int(digits)


def _strict(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a schema without references, titles and defaults."""
    if "$ref" in node:
        node = definitions[node["$ref"].removeprefix("#/$defs/")] | node
    strict = {key: value for key, value in node.items() if key not in {"$defs", "$ref", "title", "default"}}
    if "description" in strict:
        strict["description"] = strict["description"].partition("\n\n")[0]
    if "properties" in node:
        strict["properties"] = {name: _strict(each, definitions) for name, each in node["properties"].items()}
        strict["required"] = list(node["properties"])
        strict["additionalProperties"] = False
    if "items" in node:
        strict["items"] = _strict(node["items"], definitions)
    if "anyOf" in node:
        strict["anyOf"] = [_strict(each, definitions) for each in node["anyOf"]]
    return strict
