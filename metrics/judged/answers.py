"""Reading a judge's answer: the whole of it is one JSON object that carries its check word and fits, or it is nothing.

Prose is never searched. "Step 1 ... score: 0.2" holds no score, and neither does a JSON object that a judge copied from
the text it was to grade, since the check word of the request does not stand there.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from ragweir.metrics.judged.suite import Answer

MAX_CHARACTERS = 100_000
"""A longer answer is not read."""

CHECK_CHARACTERS = 64
"""The most that a check word may have."""

A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an answer, in fixed words that quote neither it nor the event."""

    reason: str
    """Why the metrics that rest on it are null."""
    advice: str
    """What to tell the judge, once."""


NOT_JSON = Fault("the judge's answer was not JSON", "It was not one JSON object alone, without any text around it.")
NO_CHECK = Fault("the judge's answer lacks its check word", 'Its field "check" did not hold the check word.')
UNFIT = Fault("the judge's answer did not fit its schema", "It did not fit the schema.")
CUT = Fault("the judge's answer was cut", "It was too long and broke off. Be much shorter.")
TOO_LONG = Fault("the judge's answer was too long", "It was too long. Be much shorter.")


def read(text: str, answer: type[A], check: str, *, cut: bool = False) -> A | Fault:
    """Read an answer.

    The text is one JSON object, with nothing but white space or one enclosing json fence around it. An object that
    names a field twice is refused, since it says two things, and so are NaN and infinite numbers. An integer is fine
    where a float is meant; beyond that no value is converted.

    Args:
        text: what the judge said.
        answer: the shape that it has to have.
        check: the word that its field "check" has to hold.
        cut: whether it ended at the limit of tokens; whole objects are read all the same.

    >>> class Politeness(Answer):
    ...     score: float
    >>> read('{"score": 1, "check": "owl"}', Politeness, "owl")
    Politeness(score=1.0)
    >>> read('My score is 1: {"score": 1, "check": "owl"}', Politeness, "owl").reason
    "the judge's answer was not JSON"
    >>> read('{"score": 1, "check": "cat"}', Politeness, "owl").reason
    "the judge's answer lacks its check word"
    >>> read('{"score": "high", "check": "owl"}', Politeness, "owl").reason
    "the judge's answer did not fit its schema"
    """
    if len(text) > MAX_CHARACTERS:
        return TOO_LONG
    try:
        said = _json(text)
    except (ValueError, RecursionError):
        return CUT if cut else NOT_JSON
    if not isinstance(said, dict):
        return UNFIT
    if said.pop("check", None) != check:
        return NO_CHECK
    try:
        # As JSON, where a list is what a strict tuple is read from; half a surrogate pair becomes a question mark.
        return answer.model_validate_json(json.dumps(said, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return UNFIT


@cache
def schema(answer: type[Answer]) -> dict[str, Any]:
    """The JSON schema of an answer with its check word; one object per class, not to be changed.

    As the strictest endpoints want it: every object is closed and requires all its fields, and nothing is a reference.
    So an answer's fields have no defaults, and it does not contain itself.

    >>> class Politeness(Answer):
    ...     score: float
    >>> schema(Politeness)["properties"]["score"], schema(Politeness)["required"]
    ({'type': 'number'}, ['score', 'check'])
    """
    plain = answer.model_json_schema()
    strict: dict[str, Any] = _strict(plain, plain.get("$defs", {}))
    told = "The check word that the instructions name."
    strict["properties"]["check"] = {"type": "string", "maxLength": CHECK_CHARACTERS, "description": told}
    strict["required"].append("check")
    return strict


def _json(text: str) -> object:
    """Decode one JSON value.

    Raises:
        ValueError: if it is none, names a field twice, or holds a number that is not finite.
        RecursionError: if it is nested very deeply.
    """
    text = text.strip()
    if text.startswith("```json") and text.endswith("```"):
        text = text.removeprefix("```json").removesuffix("```")
    return json.loads(text, object_pairs_hook=_distinct, parse_int=_whole, parse_float=_finite, parse_constant=_finite)


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    named = dict(pairs)
    if len(named) < len(pairs):
        raise ValueError("a field stands there twice")
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
    """One schema within a schema, without references, titles and defaults."""
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
