"""Settings of the events that are read, their limits and their metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ragweir.metrics.view import TextLimits
from ragweir.schemas.codec.intake import MAX_ITEMS, MOST_ITEMS
from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.streams.settings.group import SettingsGroup


class InputSettings(SettingsGroup):
    """Where interactions are read."""

    topic: str | None = None
    """Another topic than our interactions; it is only read."""
    map: Path | None = None
    """The map that reads it, if its shape is foreign."""
    start_from: Literal["earliest", "latest"] = "earliest"
    """Where a group without committed offsets starts, unless evaluations say how far their events were read."""
    duplicate_horizon: Annotated[int, Field(ge=0, le=1_000_000)] = 10_000
    """An event whose id occurred within so many offsets before it, on the same partition, is not evaluated again."""


class BatchSettings(SettingsGroup):
    """How much goes into one transaction. Batches grow to the limits under load and are cut at `max_wait_ms`."""

    max_events: Annotated[int, Field(ge=1, le=100_000)] = 1_000
    """Events in one transaction, at most."""
    max_bytes: Annotated[int, Field(ge=1)] = 8 * 1024 * 1024
    """Bytes of events in one transaction, but for the last event."""
    max_wait_ms: Annotated[int, Field(ge=1, le=5_000)] = 100
    """How long a batch waits for more events."""


def _all_lists(given: dict[str, int]) -> dict[str, int]:
    if unknown := sorted(given.keys() - MAX_ITEMS.keys()):
        raise ValueError(f"{', '.join(unknown)}: a list of an event is one of {', '.join(sorted(MAX_ITEMS))}")
    return {**MAX_ITEMS, **given}


class LimitSettings(SettingsGroup):
    """What bounds the work and memory of one event."""

    max_event_bytes: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = MAX_EVENT_BYTES
    """A larger event becomes a dead letter with its head, length and SHA-256."""
    max_contexts: Annotated[int, Field(ge=1)] = TextLimits().max_contexts
    """Contexts beyond this many are left out, and the evaluation flagged."""
    max_tokens: Annotated[int, Field(ge=1)] = TextLimits().max_tokens
    """Longer texts are cut at this many tokens, or at sixteen times as many characters, and the evaluation flagged."""
    max_event_tokens: Annotated[int, Field(ge=1)] = TextLimits().max_event_tokens
    """Tokens that are read of one event in all: of the query and the response, then of the expected answers, the
    contexts and the extractions. Answers and contexts beyond it are cut and the evaluation is flagged; metrics on
    extractions beyond it are null. It bounds the CPU time of one event; raise it together with `max_tokens`."""
    max_items: Annotated[dict[str, Annotated[int, Field(ge=1, le=MOST_ITEMS)]], AfterValidator(_all_lists)] = Field(
        default_factory=lambda: dict(MAX_ITEMS)
    )
    """The number of elements that are read of each list of an event; lists that are not named keep their defaults. The
    rest of a longer list is left out, the evaluation flagged cut:FIELD, and every metric that reads the list null with
    the reason list_cut."""
    span_tolerance_ms: Annotated[int, Field(ge=0)] = TextLimits().span_tolerance_ms
    """How far a span may lie outside its interaction before its latency is null."""

    @property
    def view(self) -> TextLimits:
        """What of it concerns the metrics."""
        return TextLimits(self.max_tokens, self.max_contexts, self.span_tolerance_ms, self.max_event_tokens)


class MetricSettings(SettingsGroup):
    """Which metrics are computed."""

    off: tuple[str, ...] = ()
    """Names of metrics or of whole groups that are switched off; they cost nothing."""
    packs: Path | None = None
    """A folder of question packs beside those that ship."""


class OutputSettings(SettingsGroup):
    """What evaluations carry."""

    include_text: bool = False
    """Whether the texts of the interaction stand on its evaluation."""
