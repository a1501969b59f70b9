"""The demo's traces: the topic that a Collector would write them to, and the line that says what became of them."""

from __future__ import annotations

from ragweir.schemas.interaction import Interaction
from ragweir.schemas.topics import Topic
from ragweir.streams.playground.demo.scrape import total
from ragweir.streams.playground.demo.services import ASSEMBLY, targets
from ragweir.streams.runtime.kafka.topics import create_topics
from ragweir.streams.runtime.text.terminal import Terminal
from ragweir.streams.settings import AssembleSettings, Settings


def create_trace_topic(settings: Settings) -> list[str]:
    """Create the topic of traces, which in life is the Collector's; return its name, or nothing without traces.

    Raises:
        RagweirError: as `ragweir.streams.runtime.kafka.topics.create_topics`.
    """
    if not settings.reads_traces:
        return []
    foreign = settings.model_copy(update={"topics": settings.topics.model_copy(update={"prefix": ""})})
    name = settings.trace_topics[0]
    return list(create_topics(foreign, [Topic(name, "none", Interaction, "delete", 24, "all content of the spans")]))


def show_assembly(terminal: Terminal, settings: Settings) -> None:
    """Print the numbers of spans and interactions, from the telemetry of key and join."""
    if not settings.reads_traces:
        return
    key, join = (targets(settings)[f"ragweir-{name}"][0] for name in ASSEMBLY)
    terminal.say(
        f"\nAssembled from traces: {total(key, 'ragweir_assemble_items_total')} spans of {settings.trace_topics[0]},"
        f" {total(join, 'ragweir_assemble_traces_total')} traces closed,"
        f" {total(join, 'ragweir_assemble_interactions_total')} interactions,"
        f" {total(join, 'ragweir_assemble_late_spans_total')} late spans. A trace is closed when it was quiet for"
        f" {settings.assemble.settle_s:g} s here, in life {AssembleSettings().settle_s:g} s: SDKs export every 5 s."
    )
