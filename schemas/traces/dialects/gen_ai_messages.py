"""Messages of conversations, in the forms in which instrumentations and frameworks write them.

A message is read from `{"role", "parts"}` of the GenAI conventions, `{"role", "content"}` of model providers,
LangChain's serialised and plain messages, and `["user", "text"]`. Tool results in it become messages of their own with
the role `tool`. Reasoning, tool calls and binary parts are not text: a message of nothing else is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragweir.schemas.interaction import Message
from ragweir.schemas.traces.dialects.gen_ai_values import as_mapping, decoded
from ragweir.schemas.traces.values import REDACTED, as_text

_ROLES = {
    "human": "user", "humanmessage": "user", "humanmessagechunk": "user", "chatmessage": "user",
    "ai": "assistant", "aimessage": "assistant", "aimessagechunk": "assistant", "model": "assistant",
    "systemmessage": "system", "developer": "system",
    "toolmessage": "tool", "function": "tool", "functionmessage": "tool",
}  # fmt: skip
_LONGEST_ROLE = 64
_TEXT_PARTS = frozenset({None, "text", "input_text", "output_text", "refusal"})
_TEXT_KEYS = ("content", "text", "refusal")
_RESULT_PARTS = frozenset({"tool_call_response", "tool_result", "toolResult", "function_response"})
_RESULT_KEYS = ("response", "result", "content")
_PART_KEYS = frozenset({"type", "text", "content", "toolUse", "toolResult", "reasoningContent"})
_CUT = ('[{"', '{"', '[["')
"""The beginnings of JSON, which is broken or cut if it is still a text."""
_CALL_PARTS = frozenset({"tool_call", "tool_use", "function_call"})


class _Read:
    """The messages that were read, and whether the content of any was left out."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_redacted = False

    def add(self, role: str, text: str | None) -> None:
        if text:
            self.messages.append(Message(role=role, text=text))


def role_of(value: Any) -> str:
    """Return a speaker as `user`, `assistant`, `system`, `tool` or the application's own name for it.

    >>> role_of("human"), role_of("AIMessageChunk"), role_of("critic"), role_of(None)
    ('user', 'assistant', 'critic', 'user')
    """
    role = as_text(value) if isinstance(value, str) else None
    return _ROLES.get(role.lower(), role) if role and len(role) <= _LONGEST_ROLE else "user"


def messages_of(value: Any) -> tuple[Message, ...] | None:
    """Return the messages in a value, or None if it holds none or their content was left out.

    Args:
        value: a list of messages, one message, a mapping with a list `messages`, or JSON of one of these. A text is the
            user's.

    >>> messages_of('[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]')
    (Message(role='user', text='hi'),)
    >>> messages_of([["user", "hi"], {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "hello", "type": "ai"}}])
    (Message(role='user', text='hi'), Message(role='assistant', text='hello'))
    >>> messages_of([{"role": "user", "parts": [{"type": "text"}]}]) is None
    True
    """
    return _result(_read(decoded(value)))


def choices_of(value: Any) -> tuple[Message, ...] | None:
    """Return the messages of a model's answer: as `messages_of`, where a message without a role is the assistant's."""
    return _result(_read(decoded(value), "assistant"))


def system_of(value: Any) -> tuple[Message, ...]:
    """Return instructions as messages of the system.

    >>> system_of('[{"type": "text", "content": "Be brief."}]'), system_of("Be kind.")
    ((Message(role='system', text='Be brief.'),), (Message(role='system', text='Be kind.'),))
    """
    read = _Read()
    _add_content(read, "system", decoded(value))
    return tuple(read.messages)


def parts_of(value: Any) -> Any:
    """Return a text that is JSON of a message's parts as these, and anything else unchanged.

    >>> parts_of('[{"text": "hi"}]'), parts_of('[{"a": 1}]'), parts_of('"hi"')
    ([{'text': 'hi'}], '[{"a": 1}]', '"hi"')
    """
    if not isinstance(value, str) or not value.startswith("["):
        return value
    parts = decoded(value)
    is_parts = isinstance(parts, list) and all(
        isinstance(part, Mapping) and not _PART_KEYS.isdisjoint(part) for part in parts
    )
    return parts if is_parts and parts else value


def last_text(messages: Sequence[Message] | None, role: str) -> str | None:
    """Return the text of a speaker's last message.

    >>> last_text(messages_of([["user", "a"], ["ai", "b"], ["user", "c"]]), "user")
    'c'
    """
    return next((message.text for message in reversed(messages or ()) if message.role == role), None)


def divided(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages of a whole thread up to the user's last one, and those after it.

    >>> [len(part) for part in divided(messages_of([["user", "a"], ["ai", "b"], ["user", "c"], ["ai", "d"]]))]
    [3, 1]
    """
    count = next((index for index in range(len(messages), 0, -1) if messages[index - 1].role == "user"), 0)
    return tuple(messages[:count]), tuple(messages[count:])


def _result(read: _Read | None) -> tuple[Message, ...] | None:
    if read is None or (read.is_redacted and not read.messages):
        return None
    return tuple(read.messages)


def _read(value: Any, role: str = "user") -> _Read | None:
    if isinstance(value, Mapping) and "messages" in value:
        value = decoded(value["messages"])
    if isinstance(value, Mapping) or _is_pair(value):
        value = [value]
    read = _Read()
    if isinstance(value, str):
        if value == REDACTED or value.lstrip().startswith(_CUT):
            return None
        read.add(role, value)
        return read
    if not isinstance(value, list | tuple):
        return None
    known = [_add(read, item, role) for item in _flat(value)]
    return read if any(known) or not known else None


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list | tuple) and not _is_pair(item):  # One list of messages for each prompt of a batch.
            yield from item
        else:
            yield item


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(isinstance(part, str) for part in value)


def _add(read: _Read, item: Any, role: str) -> bool:
    """Add a message; return whether the item is one."""
    if isinstance(item, str):
        read.add(role, as_text(item))
        return True
    if _is_pair(item):
        read.add(role_of(item[0]), as_text(item[1]))
        return True
    if not isinstance(item, Mapping):
        return False
    if isinstance(inner := item.get("message"), Mapping):  # A choice.
        item, role = inner, "assistant"
    fields = item
    for name in ("kwargs", "data"):  # LangChain: serialised, and as a dict.
        if isinstance(item.get(name), Mapping):
            fields = item[name]
    speaker = role_of(fields.get("role") or item.get("role") or _type_of(item, fields) or role)
    content = next((fields[name] for name in ("parts", "content", "text") if fields.get(name) is not None), None)
    if content is None:
        has_calls = bool(fields.get("tool_calls") or fields.get("function_call"))
        read.is_redacted |= not has_calls
        return has_calls or "role" in fields or "content" in fields
    _add_content(read, speaker, content)
    return True


def _type_of(item: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    for kind in (fields.get("type"), item.get("type")):
        if isinstance(kind, str) and (kind.lower() in _ROLES or kind in {"system", "tool"}):
            return kind
    path = item.get("id")
    return path[-1] if item.get("lc") and isinstance(path, list) and path else None


def _add_content(read: _Read, role: str, content: Any) -> None:
    if isinstance(content, Mapping):
        content = [content]
    if not isinstance(content, list | tuple):
        text = as_text(content)
        read.is_redacted |= text is None
        read.add(role, text)
        return
    texts: list[str] = []
    for part in content:
        if isinstance(part, str):
            texts.append(as_text(part) or "")
            continue
        fields = as_mapping(part)
        kind = fields.get("type")
        if not isinstance(kind, str | None):
            continue
        if kind in _RESULT_PARTS:
            read.add("tool", _result_text(fields))
        elif kind in _TEXT_PARTS:
            text = next((as_text(fields[name]) for name in _TEXT_KEYS if fields.get(name) is not None), None)
            read.is_redacted |= text is None and (kind is not None or not fields)
            texts.append(text or "")
        elif kind not in _CALL_PARTS:
            texts.append(as_text(fields.get("transcript")) or "")
    read.add(role, ("" if role == "assistant" else "\n").join(text for text in texts if text))


def _result_text(fields: Mapping[str, Any]) -> str | None:
    value = next((fields[name] for name in _RESULT_KEYS if fields.get(name) is not None), None)
    if isinstance(value, list):
        inner = _Read()
        _add_content(inner, "tool", value)
        if inner.messages:
            return "\n".join(message.text for message in inner.messages)
    return as_text(value)
