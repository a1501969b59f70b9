"""Finds the question and the answer in the input and output that frameworks attach to chains as JSON.

The names of keys are tables; a value is searched to a small depth, level by level, so that a question deep inside an
unrelated state is not taken for the question of its span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ragweir.schemas.interaction import Message
from ragweir.streams.traces.attribute_values import as_text, is_repr, parsed
from ragweir.streams.traces.messages import divided, is_message, last_of, thread_of

QUESTION_KEYS = (
    *("question", "query", "user_question", "user_query", "query_str", "user_msg", "user_message", "user_input"),
    *("input", "prompt", "message", "text", "content"),
)
ANSWER_KEYS = (
    *("answer", "final_answer", "response", "output", "outputs", "result", "final_result", "reply", "replies"),
    *("final_output", "completion", "generation", "text", "content", "message"),
)
Conversation = tuple[tuple[Message, ...] | None, tuple[Message, ...] | None]
"""The messages that went in and came out; None for a side without any."""
_RETRIEVED = ("context", "doc", "source", "chunk", "history")
"""Beginnings of the names of values that no one asked or said."""
_MAX_DEPTH = 4
_MAX_VISITED = 2_000


class _Side(NamedTuple):
    """The side of a conversation that is looked for."""

    role: str
    keys: Sequence[str]
    others: Sequence[str]
    """Keys of the other side."""

    def last(self, messages: Sequence[Message]) -> str | None:
        """Return the last text of the role: of an assistant, in answer to the last question."""
        return last_of(divided(messages)[1] if self.role == "assistant" else messages, self.role)


_ASKED = _Side("user", QUESTION_KEYS, ANSWER_KEYS)
_SAID = _Side("assistant", ANSWER_KEYS, QUESTION_KEYS)


def question_in(value: object) -> str | None:
    """Return the question in the input of a span.

    It is the input itself if that is a text, or in JSON the user's last message, the value of a known key, or the only
    value.

    >>> question_in("Who?"), question_in('{"query_bundle": {"query_str": "Who?"}}'), question_in('{"k": 3}')
    ('Who?', 'Who?', None)
    >>> question_in({"messages": [["user", "Who?"]]}), question_in({"topic": "Ada"}), question_in({"a": "x", "b": "y"})
    ('Who?', 'Ada', None)
    """
    return _search(value, _ASKED, _MAX_DEPTH)


def answer_in(value: object) -> str | None:
    """Return the answer in the output of a span, as `question_in`; of messages, the assistant's last one.

    >>> answer_in('{"reasoning": "So.", "answer": "Ada."}'), answer_in('{"llm": {"replies": ["Ada."]}}')
    ('Ada.', 'Ada.')
    >>> answer_in("StopEvent(result=AgentOutput(...)"), answer_in('{"documents": ["a"]}')
    (None, None)
    """
    return _search(value, _SAID, _MAX_DEPTH)


def conversation_in(given: object, result: object, role: str = "user") -> Conversation:
    """Return the messages of an input and an output: of an output that is the whole thread, those after the question.

    Those before are the input's, if it has no messages of its own nor another question.

    Args:
        given: the input.
        result: the output.
        role: the speaker of messages without a role in the output.

    >>> [len(side) for side in conversation_in(None, {"messages": [["user", "a"], ["ai", "b"]]})]
    [1, 1]
    """
    inputs, outputs = thread_of(given), thread_of(result, role)
    if outputs is None:
        return inputs, None
    before, after = divided(outputs)
    if inputs is None and before and question_in(given) in (None, last_of(before, "user")):
        inputs = before
    return inputs, after


def _search(value: object, side: _Side, depth: int) -> str | None:
    value = parsed(value)
    while isinstance(value, list) and len(value) == 1 and not is_message(value[0]):
        value = parsed(value[0])
    if not isinstance(value, dict | list):
        text = as_text(value)
        return None if not text or is_repr(text) else text
    if (isinstance(value, list) or is_message(value)) and (said := thread_of(value, side.role)) is not None:
        return side.last(said)
    is_only = isinstance(value, dict)
    for level in _levels(value) if depth else ():
        is_only = is_only and len(level) == 1 and len(level[0]) == 1
        if text := _in_level(level, side, depth) or (_only(level[0], side) if is_only else None):
            return text
    return None


def _in_level(level: Sequence[Mapping[str, Any]], side: _Side, depth: int) -> str | None:
    """Return the last text of a conversation in one of the mappings, or else that of the first key of the table."""
    said = (side.last(thread_of(found, side.role) or ()) for found in level)
    others = [found for found in level if not is_message(found)]
    held = (_direct(found[key], side, depth - 1) for key in side.keys for found in others if key in found)
    return next((text for text in chain(said, held) if text), None)


def _direct(value: object, side: _Side, depth: int) -> str | None:
    """Return the text that a key holds directly: a text, a message, or a list of one of them."""
    if isinstance(value, list) and value:
        value = value[-1] if side.role == "assistant" else value[0] if len(value) == 1 else None
    if isinstance(value, str):
        return _search(value, side, depth) if depth >= 0 else None
    if not is_message(value):
        return None
    return side.last(thread_of([value]) or ())


def _only(value: Mapping[str, Any], side: _Side) -> str | None:
    """Return the value of a mapping with one entry, unless it is a retrieved text or the other side's."""
    (name, inner), *_ = value.items()
    if not isinstance(inner, str) or str(name).lower().startswith(_RETRIEVED) or name in side.others:
        return None
    return _search(inner, side, 0)


def _levels(value: Mapping[str, Any] | list[Any]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the mappings in a value, level by level."""
    level = [value] if isinstance(value, dict) else [each for each in value if isinstance(each, dict)]
    visited = 0
    for _ in range(_MAX_DEPTH):
        visited += len(level)
        if not level or visited > _MAX_VISITED:
            return
        yield level
        level = [
            each for holder in level if not is_message(holder) for each in holder.values() if isinstance(each, dict)
        ]
