"""The messages of a model call or an agent in the GenAI conventions: in attributes, span events or log records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ragweir.schemas.interaction import Message
from ragweir.streams.traces.attribute_values import as_text
from ragweir.streams.traces.dialects.gen_ai_values import Values, as_mapping, decoded, first
from ragweir.streams.traces.messages import choices_of, divided, messages_of, system_of
from ragweir.streams.traces.questions import Conversation
from ragweir.streams.traces.span import Attributes, TraceLog, TraceSpan

_INPUT: Final = ("gen_ai.input.messages", "gen_ai.request.messages")
OUTPUT: Final = ("gen_ai.output.messages", "gen_ai.response.messages")
_SYSTEM: Final = ("gen_ai.system_instructions",)
_PROMPT: Final = ("gen_ai.prompt",)
_COMPLETION: Final = ("gen_ai.completion",)
THREAD: Final = ("pydantic_ai.all_messages",)
_THREAD_EVENTS: Final = ("events", "all_messages_events")
_DETAILS: Final = "gen_ai.client.inference.operation.details"
_EVENT_ROLES: Final = {
    "gen_ai.system.message": "system", "gen_ai.user.message": "user", "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool", "gen_ai.choice": None, "gen_ai.content.prompt": "user",
    "gen_ai.content.completion": None,
}  # fmt: skip
"""Speaker by the name of an event; None is the model's answer."""


def conversation(values: Values, span: TraceSpan, logs: Sequence[TraceLog]) -> Conversation:
    """Return the messages that went in and came out: of the first place that has them.

    The places are the attributes of the span, the log records with all details, log records and span events for each
    message, and the earlier forms of attributes.
    """
    inputs: tuple[Message, ...] | None = None
    outputs: tuple[Message, ...] | None = None
    for more_inputs, more_outputs in _conversations(values, span, logs):
        inputs = inputs if inputs is not None else more_inputs
        outputs = outputs if outputs is not None else more_outputs
        if inputs is not None and outputs is not None:
            break
    return inputs, outputs


def _conversations(values: Values, span: TraceSpan, logs: Sequence[TraceLog]) -> Iterator[Conversation]:
    yield _of_attributes(values)
    yield _of_details(logs)
    yield _of_events((log.event_name, log.body, log.attributes) for log in logs)
    yield _of_events((event.name, None, event.attributes) for event in span.events)
    yield _of_thread(values)
    yield _of_prompt(values)


def _of_attributes(values: Values) -> Conversation:
    inputs = messages_of(values.json(_INPUT))
    system = system_of(values.json(_SYSTEM)) if values.has(_SYSTEM) else ()
    if inputs is not None and system:
        inputs = system + inputs
    return inputs, choices_of(values.json(OUTPUT))


def _of_details(logs: Sequence[TraceLog]) -> Conversation:
    for log in logs:
        if log.event_name == _DETAILS:
            found = _of_attributes(Values({**as_mapping(log.body), **log.attributes}))
            if found != (None, None):
                return found
    return None, None


def _of_events(events: Iterable[tuple[str, Any, Attributes]]) -> Conversation:
    inputs: list[Message] = []
    outputs: list[Message] = []
    is_output = is_input = False
    for name, body, attributes in events:
        if name not in _EVENT_ROLES:
            continue
        role = _EVENT_ROLES[name]
        found = _event_messages(body if body is not None else _payload(attributes), role)
        if found is None:
            continue
        if role is None:
            is_output = True
            outputs.extend(found)
        else:
            is_input = True
            inputs.extend(found)
    return tuple(inputs) if is_input else None, tuple(outputs) if is_output else None


def _payload(attributes: Attributes) -> Any:
    """Return the content of a span event: an attribute with all of it, or else the attributes themselves."""
    whole = first(attributes.get(name) for name in ("gen_ai.event.content", "gen_ai.prompt", "gen_ai.completion"))
    return decoded(whole) if whole is not None else attributes


def _event_messages(payload: Any, role: str | None) -> tuple[Message, ...] | None:
    speaker = role or "assistant"
    if isinstance(payload, Mapping):
        inner = payload.get("message")
        fields = payload if inner is None else inner if isinstance(inner, Mapping) else {"content": inner}
        return choices_of([{**fields, "role": fields.get("role") or speaker}])
    read = choices_of if role is None else messages_of
    return read(payload)


def _of_thread(values: Values) -> Conversation:
    """Read what PydanticAI writes: all messages of the run, from the beginning of the conversation."""
    thread = messages_of(values.json(THREAD)) if values.has(THREAD) else None
    if thread is None:
        events = values.json(_THREAD_EVENTS)
        if not isinstance(events, list):
            return None, None
        named: list[tuple[str, Any, Attributes]] = [
            (as_text(as_mapping(event).get("event.name")) or "", event, {}) for event in events
        ]
        inputs, outputs = _of_events(named)
        if outputs is not None:
            return inputs, outputs
        thread = inputs
    return divided(thread) if thread is not None else (None, None)


def _of_prompt(values: Values) -> Conversation:
    prompts, completions = (
        values.indexed("gen_ai.prompt.") or values.indexed("llm.prompts."),
        values.indexed("gen_ai.completion.") or values.indexed("llm.completions."),
    )
    inputs = messages_of([_parsed(group) for group in prompts]) if prompts else messages_of(values.json(_PROMPT))
    outputs = (
        choices_of([_parsed(group) for group in completions]) if completions else choices_of(values.json(_COMPLETION))
    )
    return inputs, outputs


def _parsed(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return an indexed message; its calls stand in attributes of their own."""
    calls = any(name.startswith("tool_calls.") for name in group)
    return {"role": group.get("role"), "content": group.get("content"), "tool_calls": calls}
