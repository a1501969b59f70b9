"""The simulated exporter: a trace holds what its interaction does, divided as SDKs and Collectors divide traces."""

from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.metrics.view import View
from ragweir.schemas.codec.json import decode, encode, encode_json, interaction
from ragweir.schemas.dead_letter import DeadLetter
from ragweir.schemas.interaction import Interaction
from ragweir.streams.playground.demo.sample_traffic import as_trace
from ragweir.streams.playground.demo.samples import UNREADABLE_TRACES, interactions, samples
from ragweir.streams.playground.traces import assembled_id, merged, otlp_requests, trace_ids
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.key.agent import KeyAgent
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.wire import read, slices

NOW = datetime(2026, 11, 23, 10, tzinfo=UTC)
CATALOGUE = Catalogue(Catalogue(everything()).free.values())
UNTRACED = {
    *("expected", "answerable", "feedback", "retrieval", "extractions", "aggregation", "question_id", "expected_tools"),
    *("tenant", "labels"),
}
"""Fields of a hand-published event that no trace carries."""


def traced(event: dict[str, Any]) -> dict[str, Any]:
    """The part of an event that a trace carries: neither judgements of chunks nor HTTP requests, which are no steps."""
    kept = {name: value for name, value in event.items() if name not in UNTRACED}
    kept["spans"] = [span for span in event["spans"] if span["kind"] != "api"]
    if "contexts" in event:
        kept["contexts"] = [
            {name: value for name, value in context.items() if name != "relevant"} for context in event["contexts"]
        ]
    return kept


EVENTS = [
    traced(event)
    for event in interactions(len(samples()), NOW)
    if any(span["kind"] == "llm" for span in event["spans"])  # No model was called: a trace cannot name one.
]


def parsed(request: bytes) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(request)


def spans(request: bytes) -> list[Span]:
    return [
        span for resource in parsed(request).resource_spans for scope in resource.scope_spans for span in scope.spans
    ]


@pytest.mark.parametrize("two_services", [False, True])
@pytest.mark.parametrize("flushes", [1, 2, 5])
def test_every_span_is_exported_once_and_the_root_is_not_last(flushes: int, two_services: bool) -> None:
    for event in map(interaction, interactions(len(samples()), NOW)):
        requests = otlp_requests(event, flushes=flushes, two_services=two_services)
        trace, root = (bytes.fromhex(each) for each in trace_ids(event))
        found = [span for request in requests for span in spans(request)]
        assert {span.trace_id for span in found} == {trace}
        assert len({span.span_id for span in found}) == len(found)
        assert {span.parent_span_id for span in found} <= {b""} | {span.span_id for span in found}
        assert [span.span_id for span in found if not span.parent_span_id] == [root]
        assert len(requests) == 1 or root not in {span.span_id for span in spans(requests[-1])}
        for request in map(parsed, requests):
            assert [len(resource.scope_spans) for resource in request.resource_spans] == [1]


def test_a_second_service_has_a_remote_parent_and_its_own_resource() -> None:
    event = interaction(interactions(1, NOW)[0])
    requests = otlp_requests(event, two_services=True)
    remote = [span for request in requests for span in spans(request) if span.flags & 0x300 == 0x300]
    assert [(span.kind, span.name) for span in remote] == [(Span.SPAN_KIND_SERVER, "POST /search")]
    services = {
        each.value.string_value
        for request in map(parsed, requests)
        for resource in request.resource_spans
        for each in resource.resource.attributes
        if each.key == "service.name"
    }
    assert services == {"support-bot", "support-bot-search"}


def test_the_trace_is_a_function_of_the_seed() -> None:
    event = interaction(interactions(1, NOW)[0])
    seeds = {tuple(otlp_requests(event, seed=seed)) for seed in (1, 1, 2, 3, 4, 5)}
    assert 1 < len(seeds) <= 5
    assert len({tuple(sorted(span.span_id for each in made for span in spans(each))) for made in seeds}) == 1


def assembled(event: Interaction, requests: list[bytes]) -> Interaction:
    found = [read(part.value) for request in requests for part in slices(request)]
    trace = assemble([span for some, _ in found for span in some])
    (made,) = trace.made
    assert made.gaps in {(), ("no_session",)} or not event.contexts
    return made.interaction


@pytest.mark.parametrize("number", range(len(EVENTS)), ids=[str(event["event_id"]) for event in EVENTS])
def test_a_published_event_and_its_trace_give_the_same_scores(number: int) -> None:
    """Question, answer, contexts and times are the same, and so is every score, and every reason for none."""
    published = interaction(EVENTS[number])
    for two_services in (False, True):
        found = assembled(published, otlp_requests(published, two_services=two_services))
        assert found.event_id == assembled_id(published)
        for name in ("query", "response", "started_at", "ended_at", "first_token_at", "application", "model"):
            assert getattr(found, name) == getattr(published, name), name
        assert [each.text for each in found.contexts or ()] == [each.text for each in published.contexts or ()]
        again = decode(encode(found))
        ours, theirs = CATALOGUE.score(View(published)), CATALOGUE.score(View(again))
        assert theirs.scores == ours.scores
        assert theirs.reasons == ours.reasons
        assert theirs.categories == ours.categories


def test_several_traces_in_one_request_are_told_apart() -> None:
    events = [interaction(event) for event in interactions(5, NOW)]
    batch = merged(request for event in events for request in otlp_requests(event))
    found = {part.trace_id: part for part in slices(batch)}
    assert found.keys() == {trace_ids(event)[0] for event in events}
    for event in events:
        assert assembled(event, [found[trace_ids(event)[0]].value]).query == event.query


def test_the_demos_exporter_sends_no_keys() -> None:
    sent = as_trace(interactions(1, NOW)[0])
    assert {key for key, _ in sent} == {None}
    assert encode_json(EVENTS[0])  # the same event could be published


def test_each_unreadable_record_becomes_a_dead_letter_of_its_class() -> None:
    """By key, or by join if its spans can be read but give no interaction."""
    for each in UNREADABLE_TRACES:
        outcome = KeyAgent(AssembleSettings(), 2**20).handle([Record("otlp", 0, 0, None, each.value, 0)])
        letters = [DeadLetter.from_headers(emission.headers) for emission in outcome.emissions if not emission.key]
        if each.error_class == "no_root":
            trace = assemble([span for emission in outcome.emissions for span in read(emission.value or b"")[0]])
            assert (letters, trace.made, trace.gaps) == ([], (), ("no_root",))
        else:
            assert [letter.error_class for letter in letters] == [each.error_class]
