"""The reasons why an interaction is not full, and the uses of spans."""

from __future__ import annotations

from typing import Literal

Gap = Literal[
    "no_root", "no_genai", "content_off", "redacted", "no_question", "no_answer", "no_contexts", "attributes_cut",
    "no_session", "spans_missing",
]  # fmt: skip
"""The reason why an interaction is not full, or a trace gives none."""
HARMLESS: frozenset[Gap] = frozenset({"no_session"})
"""The gaps that an interaction with question, answer and the texts of all contexts may have."""
Fate = Literal["root", "retrieval", "rerank", "embedding", "llm", "tool", "step", "ignored", "duplicate", "pending"]
"""The use of a span. `duplicate`: it repeats a call that counts for another span. `ignored`: it is in no known
convention, or in no interaction."""
