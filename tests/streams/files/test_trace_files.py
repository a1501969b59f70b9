"""Files of OpenTelemetry traces: every form in which they are written, and what `score` and `tap` make of them."""

import gzip
import io
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from backports import zstd
from commands import ROOT, ragweir, told
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from poison import event

from ragweir.errors import Rejected, UnreadableFile
from ragweir.streams.analysis.traces.collection import TraceCollection
from ragweir.streams.files import otlp
from ragweir.streams.files.events import EventReader
from ragweir.streams.settings import AssembleSettings
from ragweir.streams.traces.wire import read

RECORDED = ROOT / "tests" / "streams" / "traces" / "otlp"
LANGCHAIN = RECORDED / "langchain-openinference"
RAG = LANGCHAIN / "rag.otlp.pb"
HIDDEN = RECORDED / "langchain-openinference-nocontent" / "rag.otlp.pb"
MIB = 1024 * 1024


def varint(number: int) -> bytes:
    digits = []
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def framed(request: bytes) -> bytes:
    return len(request).to_bytes(4, "big") + request


PROTOBUF: dict[str, Callable[[bytes], bytes]] = {
    "OTLP": bytes,
    "OTLP (delimited)": lambda request: varint(len(request)) + request,
    "OTLP (length-prefixed)": framed,
    "OTLP (length-prefixed) of Zstandard": lambda request: framed(zstd.compress(request)),
}
JSON: dict[str, Callable[[bytes], bytes]] = {
    "OTLP JSON lines": lambda request: orjson.dumps(orjson.loads(request)) + b"\n",
    "OTLP JSON": lambda request: orjson.dumps(orjson.loads(request), option=orjson.OPT_INDENT_2) + b"\n",
    "OTLP JSON of arrays": lambda request: orjson.dumps([orjson.loads(request)], option=orjson.OPT_INDENT_2) + b"\n",
    "OTLP (length-prefixed) of JSON": framed,
}


def reader(content: bytes, name: str = "traces", max_bytes: int = 1_000) -> EventReader:
    return EventReader(io.BytesIO(content), name, max_bytes)


def spans(values: Iterable[bytes]) -> list[tuple[str, str]]:
    """The ids of all spans and log records of some requests."""
    found = []
    for value in values:
        of_traces, of_logs = read(value)
        found += [(span.trace_id, span.span_id) for span in of_traces]
        found += [(log.trace_id, log.event_name) for log in of_logs]
    return sorted(found)


@pytest.mark.heavy
@pytest.mark.parametrize("form", [*PROTOBUF, *JSON])
def test_every_recorded_export_is_recognised_in_every_form_and_gives_all_its_spans(form: str) -> None:
    """Also twice in one file, and compressed; an event's size limit does not apply."""
    written = PROTOBUF.get(form) or JSON[form]
    files = sorted(RECORDED.glob("*/*.pb" if form in PROTOBUF else "*/*.json"))
    assert len(files) > 70
    for file in files:
        content = file.read_bytes()
        expected = spans([content])
        for pack in (bytes, gzip.compress, zstd.compress):
            if pack is not bytes and "length-prefixed" in form and file is not files[0]:
                continue
            found = reader(pack(written(content) * 2))
            values = [value for _, value in found]
            assert spans(values) == sorted(expected * 2), file
            assert found.format.name == form.partition(" of ")[0]
            assert found.format.has_traces


@given(st.text(st.characters(max_codepoint=0x3FF, categories=["L", "N", "P", "S", "Z"], include_characters="\n\r\t")))
def test_no_text_is_taken_for_a_request(text: str) -> None:
    """Blank lines at its beginning are the bytes with which protobuf begins."""
    for beginning in (b"", b"\n", b"\n\n\n\n", b"\n\r\n"):
        assert otlp.binary_format(beginning + text.encode()) == ""


@pytest.mark.parametrize("form", PROTOBUF)
def test_a_file_that_was_cut_off_gives_the_requests_before_and_says_so(form: str) -> None:
    """At whatever byte it ends."""
    whole = PROTOBUF[form](RAG.read_bytes())
    for end in (len(whole) + 5, 2 * len(whole) - 1, len(whole) + len(whole) // 2):
        values: list[bytes] = []
        with pytest.raises(UnreadableFile, match="after 1 whole requests"):
            values += (value for _, value in reader((whole * 2)[:end]))
        found = iter(reader((whole * 2)[:end]))
        assert spans([next(found)[1]]) == spans([RAG.read_bytes()])


@pytest.mark.slow
def test_a_length_beyond_the_limit_is_an_error_before_anything_is_read() -> None:
    """A damaged length takes no memory."""
    good = RAG.read_bytes()
    for content in (
        good + b"\x0a" + varint(1 << 40) + b"\x0a\x02",
        framed(good) + b"\xff\xff\xff\xff",
        good + b"\x0a" + b"\xff" * 12,
    ):
        with pytest.raises(UnreadableFile, match="after 1 whole requests"):
            list(reader(content))
    bomb = framed(good) + framed(zstd.compress(bytes(otlp.MAX_REQUEST_BYTES + 1)))
    with pytest.raises(UnreadableFile, match="over the limit"):
        list(reader(bomb))


def test_what_is_no_data_of_a_resource_between_requests_is_an_error() -> None:
    """A file that goes on as another format is not read as spans."""
    with pytest.raises(UnreadableFile, match="something follows that is no data of a resource"):
        list(reader(RAG.read_bytes() + b"{}"))


# score.


def scored(*arguments: str | Path, status: int = 0, **variables: str) -> tuple[list[Any], list[str]]:
    """The evaluations of `ragweir score`, and the lines that it prints."""
    done = ragweir("score", *arguments, **variables)
    assert done.returncode == status, done.stderr
    return [orjson.loads(line) for line in done.stdout.splitlines()], done.stderr.decode().splitlines()


def divided(request: bytes) -> list[bytes]:
    """The same spans, each in a request of its own."""
    whole = ExportTraceServiceRequest.FromString(request)
    parts = []
    for resource in whole.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                part = ExportTraceServiceRequest()
                added = part.resource_spans.add(resource=resource.resource)
                added.scope_spans.add(scope=scope.scope).spans.append(span)
                parts.append(part.SerializeToString())
    return parts


@pytest.mark.slow
def test_spans_of_one_trace_are_put_together_over_all_files(tmp_path: Path) -> None:
    """Each span in a file of its own, of alternating forms, gives the scores of the one file."""
    (one,), lines = scored(RAG)
    assert one["event_id"].count(":") == 1
    assert one["scores"]["context_support"] is not None
    assert one["source"] == {"topic": "rag.otlp.pb", "partition": 0, "offset": 1}
    parts = divided(RAG.read_bytes())
    assert len(parts) > 3
    for number, part in enumerate(reversed(parts)):
        write = list(PROTOBUF.values())[number % len(PROTOBUF)]
        (tmp_path / f"{number}.pb").write_bytes(write(part))
    (again,), _ = scored(tmp_path)
    assert again["source"]["topic"] == tmp_path.name
    del one["source"], again["source"]
    assert again == one
    assert lines[0] == "read as OTLP"
    assert lines[1].startswith("1 trace gave 1 interaction; 1 trace (100%) gave full ones")


@pytest.mark.slow
def test_events_and_traces_of_one_folder_are_both_scored(tmp_path: Path) -> None:
    """Interactions follow the events, with numbers of their own; what is no request is rejected with its place."""
    (tmp_path / "a.jsonl").write_bytes(event(event_id="own") + b"\n")
    json_request = (LANGCHAIN / "rag.otlp.json").read_bytes()
    (tmp_path / "b.json").write_bytes(JSON["OTLP JSON lines"](json_request) + b'{"resourceSpans": 7}\n')
    evaluations, lines = scored(tmp_path)
    assert [each["source"]["topic"] for each in evaluations] == ["a.jsonl", tmp_path.name]
    assert any(line.startswith("b.json, line 2: ") for line in lines)
    assert "read 2 files: JSON lines 1, OTLP JSON lines 1" in lines
    assert lines[-1].startswith("2 scored, 1 rejected")


@pytest.mark.slow
def test_the_reason_and_the_line_to_change_are_said_where_content_is_hidden() -> None:
    """The interaction is scored all the same, by what it has."""
    (hidden,), lines = scored(HIDDEN)
    assert hidden["scores"]["context_support"] is None
    assert hidden["scores"]["total_latency_ms"] > 0
    assert "1 trace gave 1 interaction; 0 traces (0%) gave full ones" in lines[1]
    assert any("redacted" in line and "OPENINFERENCE_HIDE_INPUTS=false" in line for line in lines)


def test_a_trace_over_the_limit_on_spans_is_flagged_incomplete() -> None:
    """Its first spans are assembled."""
    parts = divided(RAG.read_bytes())
    with TraceCollection(AssembleSettings(max_spans=len(parts) - 1)) as collection:
        for part in reversed(parts):
            collection.add(part)
        (trace,) = collection
    assert trace.cut
    assert len(trace.spans) == len(parts) - 1
    assert all("incomplete" in each.assembly.flags for each in trace.interactions if each.assembly)


@pytest.mark.slow
def test_a_map_is_a_usage_error_for_traces(tmp_path: Path) -> None:
    """Nothing is scored through it."""
    done = ragweir("score", RAG, "--map", "ragas", "--out", tmp_path / "out.jsonl")
    assert done.returncode == 2
    assert "holds OpenTelemetry traces, which are read without a map" in told(done)
    done = ragweir("tap", RAG, "--map", "ragas")
    assert done.returncode == 2
    # A map of the settings is for other events.
    assert scored(RAG, RAGWEIR_INPUT__MAP="ragas")[0][0]["scores"]["context_support"] is not None


@pytest.mark.slow
def test_windows_take_the_times_of_spans(tmp_path: Path) -> None:
    """Traces need no --default-time."""
    scored(RAG, "--windows", tmp_path / "windows.jsonl")
    assert orjson.loads((tmp_path / "windows.jsonl").read_bytes().splitlines()[0])["events"] == 1


@pytest.mark.slow
def test_a_trace_without_a_genai_span_gives_nothing_and_the_status_says_so(tmp_path: Path) -> None:
    """It is no rejected event: any service may send spans to the same topic."""
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name="GET /", span_id=b"s" * 8)
    span.trace_id = b"t" * 16
    (tmp_path / "web.pb").write_bytes(request.SerializeToString())
    evaluations, lines = scored(tmp_path, status=1)
    assert not evaluations
    assert lines[1].startswith("1 trace: it has no span of a GenAI convention")
    assert lines[-1] == "0 scored"


@pytest.mark.slow
def test_memory_does_not_grow_with_the_spans_of_a_file() -> None:
    """100 MiB of spans take less than 60 MiB: beyond 32 MiB they are in a temporary file."""
    requests = []
    for number in range(4):
        request = ExportTraceServiceRequest()
        scope = request.resource_spans.add().scope_spans.add()
        span = scope.spans.add(trace_id=bytes([1 + number]) * 16, span_id=b"s" * 8, name="n" * MIB)
        span.end_time_unix_nano = 1
        requests.append(request.SerializeToString())
    tracemalloc.start()
    try:
        with TraceCollection(AssembleSettings(max_trace_bytes=3 * MIB)) as collection:
            for number in range(100):
                collection.add(requests[number % 4])
            traces = [(trace.cut, len(trace.spans)) for trace in collection]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert traces == [(True, 2)] * 4
    assert peak < 60 * MIB


def test_what_is_no_request_is_rejected_and_nothing_of_it_is_kept() -> None:
    """The collection stays usable."""
    with TraceCollection(AssembleSettings()) as collection:
        with pytest.raises(Rejected):
            collection.add(b"\x0a\x05hello")
        collection.add(RAG.read_bytes())
        assert [len(trace.spans) > 3 for trace in collection] == [True]


def test_a_collection_takes_more_after_it_was_read() -> None:
    """Requests of several traces by turns, and one after the traces were assembled, are all there."""
    shown, hidden = RAG.read_bytes(), HIDDEN.read_bytes()
    with TraceCollection(AssembleSettings()) as collection:
        for request in (shown, hidden, shown):
            collection.add(request)
        first = [len(trace.spans) for trace in collection]
        collection.add(hidden)
        again = [len(trace.spans) for trace in collection]
    assert again == [first[0], 2 * first[1]]
    assert first == [2 * len(divided(shown)), len(divided(hidden))]


# tap.


@pytest.mark.heavy
def test_tap_on_a_file_shows_shares_instrumentations_and_metrics() -> None:
    """It ends with the command that scores the file."""
    done = ragweir("tap", RAG, COLUMNS="200")
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert "1 trace gave 1 interaction; 1 trace (100%) gave full ones" in text
    assert "openinference.instrumentation.langchain 0.1.80 (1)" in text
    assert "context_support" in text
    assert text.rstrip().endswith(f"ragweir score {RAG} --out scores.jsonl")
    assert "no key" not in text  # A file says nothing of an exporter's keys.
