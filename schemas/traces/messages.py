"""Finds questions, answers and messages in the values that frameworks attach to spans as JSON.

The names of keys are tables; each value is searched to a small depth, level by level, so that a question deep inside
an unrelated state is not taken for the question of its span.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ragweir.schemas.interaction import Message
from ragweir.schemas.traces.values import as_text, first, parsed

ROLES: Mapping[str, str] = {"human": "user", "ai": "assistant", "aimessagechunk": "assistant", "model": "assistant"}
"""Names of roles that differ from those of the OpenAI API."""
QUESTION_KEYS = (
    *("question", "query", "user_question", "user_query", "query_str", "user_msg", "user_message", "user_input"),
    *("input", "prompt", "message", "text", "content"),
)
ANSWER_KEYS = (
    *("answer", "response", "output", "result", "reply", "replies", "final_output", "completion", "generation"),
    *("text", "content", "message"),
)
_MESSAGE_LISTS = ("messages", "input_messages", "output_messages")
"""Names of lists that end with the turn in question; a `chat_history` ends before it."""
_ROLE_KEYS = ("role", "type", "_role")
_CONTENT_KEYS = ("content", "parts", "blocks", "_content")
_BLOCK_KEYS = ("text", "content", "output", "output_text")
_MAX_DEPTH = 4
_MAX_VISITED = 2_000
_REPR = re.compile(r"[A-Z]\w*\(\w+=")
_MAX_REPR = 200


def _is_repr(text: str) -> bool:
    """Return whether a text is an object that a framework did not serialize.

    >>> _is_repr("StopEvent(result=AgentOutput(response=..."), _is_repr("<generator object>"), _is_repr("<b>Ada</b>")
    (True, True, False)
    """
    if text.startswith("<"):
        return len(text) <= _MAX_REPR and text.endswith(">") and " object" in text
    return text.endswith((")", "...")) and _REPR.match(text) is not None


def role_of(value: object) -> str:
    """Return the role of a message in the words of the OpenAI API.

    >>> role_of("Human"), role_of("ai"), role_of("tool"), role_of(None)
    ('user', 'assistant', 'tool', '')
    """
    role = (as_text(value) or "").lower()
    return ROLES.get(role, role)


def text_of(value: object) -> str | None:
    r"""Return the text of a message's content: a text, or the texts of its parts, a line each.

    >>> text_of("a"), text_of([{"type": "text", "text": "a"}, {"type": "image"}, "b"]), text_of([{"type": "image"}])
    ('a', 'a\nb', None)
    """
    if isinstance(value, str):
        return as_text(value)
    if isinstance(value, dict):
        return _part(value)
    if isinstance(value, list | tuple):
        texts = [text for part in value if (text := _part(part))]
        return "\n".join(texts) if texts else None
    return None


def _part(part: object) -> str | None:
    if isinstance(part, str):
        return as_text(part)
    found = first(part, _BLOCK_KEYS) if isinstance(part, dict) else None
    return as_text(found) if isinstance(found, str) else None


def message(value: object) -> Message | None:
    """Return a message of any framework; None if it is none. One that only calls tools has an empty text.

    >>> message({"type": "human", "data": {"content": "a"}}), message(["user", "b"])
    (Message(role='user', text='a'), Message(role='user', text='b'))
    """
    if isinstance(value, dict):
        for holder in ("data", "kwargs", "message"):  # LangChain's two forms, and OpenAI's choice.
            if isinstance(inner := value.get(holder), dict):
                role = role_of(first(inner, _ROLE_KEYS) or first(value, _ROLE_KEYS))
                if role == "constructor":
                    role = _constructed(value)
                return Message(role=role, text=_content(inner) or "") if role else None
        role = role_of(first(value, _ROLE_KEYS))
        known = any(key in value for key in (*_CONTENT_KEYS, "tool_calls"))
        return Message(role=role, text=_content(value) or "") if role and known else None
    if isinstance(value, list | tuple) and len(value) == 2:
        role, text = role_of(value[0]), text_of(value[1])
        return Message(role=role, text=text) if role and text is not None and isinstance(value[0], str) else None
    return None


def _content(value: Mapping[str, Any]) -> str | None:
    return text_of(first(value, (*_CONTENT_KEYS, "text")))


def _constructed(value: Mapping[str, Any]) -> str:
    """Return the role of a message that LangChain wrote as a constructor, by the name of its class."""
    path = value.get("id")
    name = path[-1] if isinstance(path, list) and path else ""
    return role_of(name.removesuffix("Chunk").removesuffix("Message")) if isinstance(name, str) else ""


def messages_in(value: object) -> tuple[Message, ...] | None:
    """Return the messages that a value holds, as a list or under `messages`; None if it holds none."""
    value = parsed(value)
    if isinstance(value, dict):
        value = first(value, _MESSAGE_LISTS)
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list) and message(value[0]) is None:
        value = value[0]  # LangChain's batches of one.
    if not isinstance(value, list) or not value:
        return None
    found = [each for item in value if (each := message(item))]
    return tuple(found) if found else None


def last_of(messages: Sequence[Message] | None, role: str) -> str | None:
    """Return the last text of a role that is not empty."""
    return next((each.text for each in reversed(messages or ()) if each.role == role and each.text.strip()), None)


def question_in(value: object) -> str | None:
    """Return the question in the input of a span: its text, or in JSON the last user message or a key of the table.

    >>> question_in("Who?"), question_in('{"query_bundle": {"query_str": "Who?"}}'), question_in('{"k": 3}')
    ('Who?', 'Who?', None)
    >>> question_in('{"messages": [["user", "Who?"]]}')
    'Who?'
    """
    return _search(value, QUESTION_KEYS, "user")


def answer_in(value: object) -> str | None:
    """Return the answer in the output of a span: its text, or in JSON the last assistant message or a key of the table.

    >>> answer_in('{"reasoning": "So.", "answer": "Ada."}'), answer_in('{"llm": {"replies": ["Ada."]}}')
    ('Ada.', 'Ada.')
    >>> answer_in("StopEvent(result=AgentOutput(...)"), answer_in('{"documents": ["a"]}')
    (None, None)
    """
    return _search(value, ANSWER_KEYS, "assistant")


def _search(value: object, keys: Sequence[str], role: str) -> str | None:
    value = parsed(value)
    if isinstance(value, dict):
        return _search_levels(value, keys, role)
    if isinstance(value, list):
        if (said := messages_in(value)) is not None:
            return last_of(said, role)
        if not all(isinstance(each, str) for each in value):
            return _search_levels(value, keys, role)
        value = value[0] if len(value) == 1 else None
    text = as_text(value)
    return None if text is None or _is_repr(text) else text


def _search_levels(value: object, keys: Sequence[str], role: str) -> str | None:
    for level in _levels(value):
        for found in level:
            if text := last_of(messages_in(found), role):
                return text
        for key in keys:
            for found in level:
                if text := _direct(found.get(key), role):
                    return text
    return None


def _direct(value: object, role: str) -> str | None:
    """Return the text that a key holds directly: a text, a message, or a list of one of them."""
    if isinstance(value, list) and value:
        value = value[-1] if role == "assistant" else value[0] if len(value) == 1 else None
    if isinstance(value, dict):
        said = message(value)
        return said.text or None if said and said.role == role else None
    if not isinstance(value, str):
        return None
    text = as_text(value)
    return None if text is None or _is_repr(text) else text


def _levels(value: object) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yield the mappings in a value, level by level."""
    level = [value] if isinstance(value, dict) else [each for each in _items(value) if isinstance(each, dict)]
    visited = 0
    for _ in range(_MAX_DEPTH):
        visited += len(level)
        if not level or visited > _MAX_VISITED:
            return
        yield level
        level = [each for holder in level for each in holder.values() if isinstance(each, dict)]


def _items(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()
