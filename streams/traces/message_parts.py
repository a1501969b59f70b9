"""Reads the parts of a message's content: texts, results of tools, and what is no text.

A part is told by its type, or where the provider writes none (Gemini, Bedrock) by the name that holds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ragweir.streams.traces.attribute_values import as_text, first, parsed

TEXTS: Mapping[str, tuple[str, ...]] = {
    "text": ("content", "text", "refusal"), "input_text": ("text",), "output_text": ("text",), "refusal": ("refusal",),
    "guardContent": ("text",), "citationsContent": ("content",),
}  # fmt: skip
"""Fields that hold the text of a part, by the kind of the part."""
RESULTS: Mapping[str, tuple[str, ...]] = {
    "tool_call_response": ("response", "result", "content"),
    "tool_result": ("content",), "mcp_tool_result": ("content",), "code_execution_tool_result": ("content",),
    "function_call_output": ("output",), "custom_tool_call_output": ("output",), "local_shell_call_output": ("output",),
    "mcp_call": ("output",), "file_search_call": ("results",),
    "functionResponse": ("response",), "function_response": ("response", "result", "content"),
    "codeExecutionResult": ("output",), "code_execution_result": ("output",),
    "toolResult": ("content",),
    "tool_call_result": ("result",), "tool-result": ("output", "result"), "server_tool_call_result": ("output",),
}  # fmt: skip
"""Fields that hold the result of a tool, by the kind of the part."""
SILENT = frozenset(
    {
        *("tool_call", "tool_use", "toolUse", "function_call", "functionCall", "tool-call", "server_tool_use"),
        *("custom_tool_call", "web_search_call", "computer_call", "computer_call_output", "image_generation_call"),
        *("local_shell_call", "code_interpreter_call", "mcp_list_tools", "mcp_approval_request", "item_reference"),
        *("reasoning", "thinking", "redacted_thinking", "reasoningContent", "web_search_tool_result", "executableCode"),
        *("executable_code", "image", "image_url", "input_image", "inlineData", "inline_data", "fileData", "file_data"),
        *("input_file", "input_audio", "audio", "video", "file", "document", "cachePoint"),
    }
)
"""Kinds of parts without a text of the conversation. A kind in no table has none but the transcript of its sound."""
_TYPES = ("type", "block_type")
_MARKS = frozenset(
    {
        *("functionCall", "functionResponse", "function_call", "function_response", "inlineData", "inline_data"),
        *("fileData", "file_data", "executableCode", "executable_code", "codeExecutionResult", "code_execution_result"),
        *(
            "toolUse",
            "toolResult",
            "reasoningContent",
            "guardContent",
            "citationsContent",
            "cachePoint",
            "image",
            "video",
        ),
        *("audio", "document", "tool_call", "tool_call_result", "reasoning"),
    }
)
"""Names by which a part without a type is told: Gemini's, Bedrock's, Haystack's. One with none of them is a text."""
_INNER = frozenset({"output", "result", "content", "text", "json", "value"})
"""Names under which a result is wrapped, alone or beside its type."""
_MAX_DEPTH = 8


def kind_of(part: Mapping[str, Any]) -> str | None:
    """Return the kind of a part: its type, or the name that tells it; None for a text without a type.

    >>> kind_of({"type": "tool_use"}), kind_of({"toolUse": {}}), kind_of({"text": "hi"})
    ('tool_use', 'toolUse', None)
    """
    named = first(part, _TYPES)
    if named is not None:
        return named if isinstance(named, str) else ""
    if part.get("text") is not None or part.get("content") is not None:
        return "thinking" if part.get("thought") is True else None
    if part.keys().isdisjoint(_MARKS):
        return None
    return next((name for name in part if name in _MARKS and part[name] is not None), None)


def parts_of(content: Any) -> Any:
    """Return content as a list of parts, or as a text: one that is JSON of parts is read as these.

    >>> parts_of('[{"text": "hi"}]'), parts_of('[{"a": 1}]'), parts_of('[{"text": "a chunk", "score": 1}]')
    ([{'text': 'hi'}], '[{"a": 1}]', '[{"text": "a chunk", "score": 1}]')
    """
    if isinstance(content, dict):
        return content["parts"] if isinstance(content.get("parts"), list) else [content]
    if not isinstance(content, str) or not content.startswith('[{"'):
        return content
    parts = parsed(content)
    is_parts = isinstance(parts, list) and all(isinstance(part, dict) and _is_part(part) for part in parts)
    return parts if is_parts else content


def _is_part(part: Mapping[str, Any]) -> bool:
    kind = kind_of(part)
    return part.keys() == {"text"} if kind is None else kind in TEXTS or kind in RESULTS or kind in SILENT


def text_in(part: Mapping[str, Any], kind: str | None, depth: int = _MAX_DEPTH) -> str | None:
    """Return the text of a part; None if its kind has none, or it was left out.

    >>> text_in({"type": "text", "text": {"value": "hi"}}, "text"), text_in({"type": "image"}, "image")
    ('hi', None)
    """
    if kind is None or kind in TEXTS:
        return _text(_held(part, kind, TEXTS[kind or "text"]), depth)
    return as_text(part.get("transcript"))


def result_in(part: Mapping[str, Any], kind: str) -> str | None:
    """Return the result of a tool in a part as text: a text, the texts of its parts, or JSON.

    >>> result_in({"type": "tool_result", "content": [{"type": "text", "text": "rainy"}]}, "tool_result")
    'rainy'
    >>> result_in({"toolResult": {"content": [{"json": {"sky": "grey"}}]}}, "toolResult")
    '{"sky":"grey"}'
    """
    return _result(_held(part, kind, RESULTS[kind]), _MAX_DEPTH)


def _held(part: Mapping[str, Any], kind: str | None, names: tuple[str, ...]) -> Any:
    """Return what a part holds: in fields of its own, or of the mapping under the name that tells it."""
    holder = part if kind is None or first(part, _TYPES) is not None else part[kind]
    if not isinstance(holder, dict):
        return holder
    return next((holder[name] for name in names if holder.get(name) is not None), None)


def _text(value: Any, depth: int) -> str | None:
    if depth and isinstance(value, dict) and (inner := first(value, ("text", "value"))) is not None:
        return _text(inner, depth - 1)
    if depth and isinstance(value, list | tuple):
        return "".join(text for part in value if (text := _text_of(part, depth - 1))) or None
    return as_text(value)


def _text_of(part: Any, depth: int) -> str | None:
    if isinstance(part, dict):
        kind = kind_of(part)
        return text_in(part, kind, depth) if kind is None or kind in TEXTS else None
    return as_text(part) if isinstance(part, str) else None


def _result(value: Any, depth: int) -> str | None:
    if depth and isinstance(value, dict):
        names = value.keys() - {"type"}
        if len(names) == 1 and not names.isdisjoint(_INNER):
            return _result(value[names.pop()], depth - 1)
    if depth and isinstance(value, list | tuple):
        texts = [text for part in value if (text := _result_of(part, depth - 1))]
        if texts or all(isinstance(part, dict) and kind_of(part) in SILENT for part in value):
            return "\n".join(texts) or None
    return as_text(value)


def _result_of(part: Any, depth: int) -> str | None:
    if isinstance(part, dict) and part.keys() == {"json"}:
        return as_text(part["json"])
    return _text_of(part, depth)
