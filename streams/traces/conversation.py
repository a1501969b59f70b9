"""Question, answer and earlier turns of an interaction, read from its steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragweir.schemas.codec.intake import DEFAULT_MAX_ITEMS
from ragweir.schemas.interaction import Message
from ragweir.streams.traces.attribute_values import as_text
from ragweir.streams.traces.messages import last_of
from ragweir.streams.traces.questions import QUESTION_KEYS
from ragweir.streams.traces.step import Step

_MAX_TURNS = DEFAULT_MAX_ITEMS["history"]
_TOOLS = frozenset({"tool", "function"})
_SPOKEN = frozenset({"user", "assistant"})


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of an interaction, by their part in the conversation; each list in the order of their beginnings."""

    root: Step | None
    """Step of the root; None if the root is in no GenAI convention."""
    tops: Sequence[Step]
    """The topmost steps: the root alone, or the calls and chains below it."""
    calls: Sequence[Step]
    """The model calls that answer, without those of tools and retrievers."""
    answering: Step | None
    """The call that ended last among them, of those with an answer if there are any."""
    retrievals: Sequence[Step]
    """Retrievals, reranks and embeddings."""
    every: Sequence[Step]


def question(steps: Steps) -> str | None:
    """Return the question of the user.

    The sources in this order: the root; chains and agents below a root of another kind; variables of the prompt; the
    last user message of the first model call, or the retrieval's query if the message holds it among other text; the
    query of the first retrieval.
    """
    for step in [steps.root] if steps.root else [step for step in steps.tops if step.kind in ("chain", "agent")]:
        if (found := _asked(step)) is not None:
            return found
    # Instrumentations that hide content forget the variables of prompts.
    for step in () if any(step.is_redacted for step in steps.every) else steps.every:
        if (found := _variable(step)) is not None:
            return found
    said = next((text for step in steps.calls if (text := _asked(step)) is not None), None)
    queries = [step.input for step in steps.retrievals if step.input and step.input.strip()]
    if said is None:
        return queries[0] if queries else None
    return next((query for query in queries if query in said), said)


def _asked(step: Step) -> str | None:
    return last_of(step.input_messages, "user") or (step.input if step.input and step.input.strip() else None)


def _variable(step: Step) -> str | None:
    for name in QUESTION_KEYS:
        value = step.prompt_variables.get(name)
        if isinstance(value, str) and value.strip():
            return as_text(value)
    return None


def answer(steps: Steps) -> str | None:
    """Return the answer that the user got: the root's, or else that of the last chain or call that has one."""
    if steps.root and (found := _said(steps.root)) is not None:
        return found
    whole = [] if steps.root else [step for step in steps.tops if step.kind in ("chain", "agent")]
    models = [step for step in whole if _said(step) is not None]
    if models and steps.answering is None:
        return _said(models[-1])
    return _said(steps.answering) if steps.answering else None


def _said(step: Step) -> str | None:
    return last_of(step.output_messages, "assistant") or (step.output if step.output and step.output.strip() else None)


def has_answer(step: Step) -> bool:
    """Return whether a step says something to the user."""
    return _said(step) is not None


def tool_results(step: Step) -> list[str]:
    """Return the results of tools that a model call was given in answer to the last question."""
    found: list[str] = []
    for message in step.input_messages or ():
        if message.role == "user":
            found.clear()
        elif message.role in _TOOLS and message.text.strip():
            found.append(message.text)
    return found


def history(steps: Steps, query: str | None) -> tuple[Message, ...] | None:
    """Return the turns before the question; None if there are none.

    They are read from the first model call whose last user message holds the question, or else from the root.
    """
    if query is None:
        return None
    for messages in _threads(steps):
        turns = [message for message in messages if message.role in _SPOKEN and message.text.strip()]
        last = next((place for place in reversed(range(len(turns))) if turns[place].role == "user"), -1)
        if last >= 0 and query in turns[last].text:
            return tuple(turns[max(0, last - _MAX_TURNS) : last]) or None
    return None


def _threads(steps: Steps) -> Iterable[tuple[Message, ...]]:
    found = [step.input_messages for step in steps.calls if step.input_messages]
    return [*found, steps.root.input_messages] if steps.root and steps.root.input_messages else found
