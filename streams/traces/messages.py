"""Reads the messages of conversations, in the forms in which providers, frameworks and instrumentations write them.

One reader serves all dialects. The roles of messages and the kinds of their parts are tables. The shapes are those of
https://github.com/open-telemetry/semantic-conventions-genai (messages of parts),
https://platform.openai.com/docs/api-reference (chat, responses), https://docs.anthropic.com/en/api/messages,
https://ai.google.dev/api/caching#Content, https://docs.aws.amazon.com/bedrock/latest/APIReference (Converse), and those
of LangChain, LlamaIndex, Haystack and the AI SDK.

Results of tools become messages of the role `tool`, whoever sends them: Anthropic, Gemini and Bedrock send them as the
user. Calls of tools, reasoning, images, sound and files are no text: a message of nothing else is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ragweir.schemas.interaction import Message
from ragweir.streams.traces.attribute_values import REDACTED, as_text, first, is_repr, parsed
from ragweir.streams.traces.message_parts import RESULTS, SILENT, TEXTS, kind_of, parts_of, result_in, text_in

ROLES: Mapping[str, str] = {
    "user": "user", "human": "user", "humanmessage": "user", "humanmessagechunk": "user", "chatmessage": "user",
    "assistant": "assistant", "ai": "assistant", "aimessage": "assistant", "aimessagechunk": "assistant",
    "model": "assistant",
    "system": "system", "systemmessage": "system", "systemmessagechunk": "system", "developer": "system",
    "tool": "tool", "toolmessage": "tool", "toolmessagechunk": "tool", "function": "tool", "functionmessage": "tool",
}  # fmt: skip
"""Roles by the names of roles, types and classes in lower case. Another name is the application's own."""
_LISTS = ("messages", "input_messages", "output_messages", "contents", "choices", "candidates", "generations")
"""Names of lists that end with the turn in question; a `chat_history` ends before it."""
_LISTING = frozenset({*_LISTS, "input", "output"})
_SYSTEM = ("system", "system_instruction", "systemInstruction", "instructions")
"""Names of the instructions that stand beside a list of messages."""
_CONTENT = ("parts", "content", "blocks", "_content", "text", "refusal")
_ROLE = ("role", "_role")
_PARTS = RESULTS.keys() | SILENT
_CUT = ('[{"', '{"', '[["')
"""The beginnings of JSON, which is broken or cut if it is still a text."""
_LONGEST_ROLE = 64


class _Read:
    """The messages that were read, and whether the content of any was left out."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.is_redacted = False

    def add(self, role: str, text: str | None) -> None:
        if text:
            self.messages.append(Message(role=role, text=text))

    def result(self) -> tuple[Message, ...] | None:
        return None if self.is_redacted and not self.messages else tuple(self.messages)


def role_of(value: object) -> str:
    """Return a speaker as `user`, `assistant`, `system`, `tool` or the application's own name for it.

    >>> role_of("Human"), role_of("AIMessageChunk"), role_of("MessageRole.USER"), role_of("critic"), role_of(None)
    ('user', 'assistant', 'user', 'critic', 'user')
    """
    name = as_text(value) if isinstance(value, str) else None
    if not name or len(name) > _LONGEST_ROLE:
        return "user"
    return ROLES.get(name.lower().rpartition(".")[2], name)


def messages_of(value: Any) -> tuple[Message, ...] | None:
    """Return the messages in a value, or None if it holds none or their content was left out.

    Args:
        value: a list of messages, one message, a request or response of a provider, or JSON of one of these. A text is
            the user's.

    >>> messages_of('[{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]')
    (Message(role='user', text='hi'),)
    >>> messages_of([["user", "hi"], {"lc": 1, "id": ["AIMessage"], "kwargs": {"content": "hello", "type": "ai"}}])
    (Message(role='user', text='hi'), Message(role='assistant', text='hello'))
    >>> messages_of([{"role": "user", "parts": [{"type": "text"}]}]) is None
    True
    """
    return _messages(value, "user")


def choices_of(value: Any) -> tuple[Message, ...] | None:
    """Return the messages of a model's answer: as `messages_of`, where a message without a role is the assistant's."""
    return _messages(value, "assistant")


def system_of(value: Any) -> tuple[Message, ...]:
    """Return instructions as messages of the system.

    >>> system_of('[{"type": "text", "content": "Be brief."}]'), system_of("Be kind.")
    ((Message(role='system', text='Be brief.'),), (Message(role='system', text='Be kind.'),))
    """
    read = _Read()
    _add_content(read, "system", parsed(value))
    return tuple(read.messages)


def thread_of(value: Any, role: str = "user") -> tuple[Message, ...] | None:
    """Return the messages in the input or output of a chain or a call; None if it is no conversation.

    Args:
        value: a value of any shape, of which at least one item has the shape of a message.
        role: the speaker of a message without a role.

    >>> thread_of({"messages": [["user", "hi"]]}), thread_of("hi"), thread_of({"question": "hi"})
    ((Message(role='user', text='hi'),), None, None)
    """
    value = parsed(value)
    if isinstance(value, dict):
        if _listed(value) is None and not is_message(value):
            inner = [part for part in value.values() if isinstance(part, dict) and _listed(part) is not None]
            value = inner[0] if len(inner) == 1 else {}
        listed = _listed(value)
        is_thread = is_message(value) if listed is None else any(_is_said(item) for item in _flat(listed))
    else:
        is_thread = isinstance(value, list | tuple) and any(is_message(item) for item in _flat(value))
    return _messages(value, role) if is_thread else None


def text_of(value: Any) -> str | None:
    r"""Return the text of a message's content: a text, or the texts of its parts and results, a line each.

    >>> text_of("a"), text_of([{"type": "text", "text": "a"}, {"type": "image"}, "b"]), text_of([{"type": "image"}])
    ('a', 'a\nb', None)
    """
    if isinstance(value, str):
        return as_text(value)
    read = _Read()
    if isinstance(value, dict | list | tuple):
        _add_content(read, "user", value)
    return "\n".join(message.text for message in read.messages) or None


def last_of(messages: Sequence[Message] | None, role: str) -> str | None:
    """Return the last text of a speaker that is not empty.

    >>> last_of(messages_of([["user", "a"], ["ai", "b"], ["user", "c"]]), "user")
    'c'
    """
    return next((each.text for each in reversed(messages or ()) if each.role == role and each.text.strip()), None)


def divided(messages: Sequence[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages of a whole thread up to the user's last one, and those after it.

    >>> [len(part) for part in divided(messages_of([["user", "a"], ["ai", "b"], ["user", "c"], ["ai", "d"]]))]
    [3, 1]
    """
    count = next((index for index in range(len(messages), 0, -1) if messages[index - 1].role == "user"), 0)
    return tuple(messages[:count]), tuple(messages[count:])


def is_message(value: object) -> bool:
    """Return whether a value has the shape of a message, other than a document's, whose content has no speaker.

    >>> is_message({"role": "user", "content": "a"}), is_message(["ai", "a"]), is_message({"content": "a"})
    (True, True, False)
    """
    if not isinstance(value, dict):
        return _is_pair(value)
    if isinstance(value.get("message"), dict) or _is_candidate(value) or kind_of(value) in RESULTS:
        return True
    fields = _fields(value)
    has_content = "tool_calls" in fields or not fields.keys().isdisjoint(_CONTENT)
    return has_content and ("parts" in fields or _speaker(value, fields) is not None)


# Lists of messages.


def _messages(value: Any, role: str) -> tuple[Message, ...] | None:
    value, read = parsed(value), _Read()
    if isinstance(value, dict) and (listed := _listed(value)) is not None:
        for name in _SYSTEM:
            if value.get(name) is not None:
                _add_content(read, "system", value[name])
        value = listed
    if isinstance(value, dict) or _is_pair(value):
        value = [value]
    if isinstance(value, str):
        if value == REDACTED or value.lstrip().startswith(_CUT):
            return None
        read.add(role, as_text(value))
        return read.result()
    if not isinstance(value, list | tuple):
        return None
    known = [_add(read, item, role) for item in _flat(value)]
    return read.result() if any(known) or not known else None


def _listed(value: Mapping[str, Any]) -> Any:
    """Return the messages of a request or a response, by the name of their list."""
    if _LISTING.isdisjoint(value):
        return None
    for name in _LISTS:
        if isinstance(inner := parsed(value.get(name)), list | tuple | dict):
            return inner
    output = value.get("output")
    if isinstance(output, dict) and isinstance(output.get("message"), dict):  # Bedrock's response.
        return [output["message"]]
    for name in ("input", "output"):  # OpenAI's responses.
        inner = parsed(value.get(name))
        if isinstance(inner, list | tuple) and any(isinstance(each, dict) and is_message(each) for each in inner):
            return inner
    return None


def _flat(items: Iterable[Any]) -> Iterator[Any]:
    for item in items:
        if isinstance(item, list | tuple) and not _is_pair(item):  # One list of messages for each prompt of a batch.
            yield from item
        else:
            yield item


def _is_said(item: object) -> bool:
    return not is_repr(item) if isinstance(item, str) else isinstance(item, dict) or is_message(item)


def _is_pair(value: object) -> bool:
    """Return whether a value is LangChain's short form of a message, such as `["user", "hi"]`."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[0], str):
        return False
    return value[0].lower() in ROLES and isinstance(value[1], str | list | tuple)


def _is_candidate(item: Mapping[str, Any]) -> bool:
    return isinstance(content := item.get("content"), dict) and "parts" in content


# One message.


def _add(read: _Read, item: Any, role: str) -> bool:
    """Add a message; return whether the item is one."""
    if isinstance(item, str):
        _add_content(read, role, item)
        return True
    if _is_pair(item):
        _add_content(read, role_of(item[0]), item[1])
        return True
    if not isinstance(item, dict):
        return False
    if isinstance(inner := item.get("message"), dict):  # A choice.
        item, role = inner, "assistant"
    elif _is_candidate(item):
        item = item["content"]
    fields = _fields(item)
    own = _speaker(item, fields)
    if own is None and kind_of(item) in _PARTS:
        _add_content(read, role, [item])
        return True
    content = next((fields[name] for name in _CONTENT if fields.get(name) is not None), None)
    if content is None and isinstance(sound := fields.get("audio"), dict):
        content = sound.get("transcript")
    if content is None:
        has_calls = bool(fields.get("tool_calls") or fields.get("function_call"))
        read.is_redacted |= not has_calls
        return has_calls or "role" in fields or "content" in fields
    _add_content(read, "tool" if fields.get("tool_call_id") else role_of(own or role), content)
    return True


def _fields(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of a message: LangChain's are one level down, serialised and as a dictionary."""
    return next((item[name] for name in ("kwargs", "data") if isinstance(item.get(name), dict)), item)


def _speaker(item: Mapping[str, Any], fields: Mapping[str, Any]) -> Any:
    """Return a message's own name of its speaker; None if it has none."""
    if (own := first(fields, _ROLE) or first(item, _ROLE)) is not None:
        return own
    for kind in (fields.get("type"), item.get("type")):
        if isinstance(kind, str) and kind.lower() in ROLES:
            return kind
    path = item.get("id")
    return path[-1] if item.get("lc") and isinstance(path, list) and path and str(path[-1]).lower() in ROLES else None


def _add_content(read: _Read, role: str, content: Any) -> None:
    content = parts_of(content)
    if not isinstance(content, list | tuple):
        text = as_text(content)
        read.is_redacted |= text is None
        read.add(role, text)
        return
    texts: list[str] = []
    for part in content:
        if not isinstance(part, dict):
            texts.append((as_text(part) if isinstance(part, str) else None) or "")
            continue
        kind = kind_of(part)
        if kind is not None and kind in RESULTS:
            read.add("tool", result_in(part, kind))
            continue
        text = text_in(part, kind)
        read.is_redacted |= text is None and (kind in TEXTS or not part)
        texts.append(text or "")
    read.add(role, ("" if role == "assistant" else "\n").join(text for text in texts if text))
