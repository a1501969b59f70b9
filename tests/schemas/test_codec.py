"""The codec: whatever the bytes are, the answer is an interaction or a plain reason."""

import string
import tracemalloc
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from poison import ANYTHING, GOOD, MARK, POISON, REPAIRED, WRONG, Poison, event, fifty_megabytes, nested

from ragweir.errors import Rejected
from ragweir.schemas.codec.intake import REPAIRS, REQUIRED
from ragweir.schemas.codec.json import decode, encode, encode_json, event_time, parse
from ragweir.schemas.dead_letter import HEAD_BYTES, kept_bytes
from ragweir.schemas.evaluation import MAX_DOCUMENT_IDS, Decision, Evaluation, SuiteDecision, Texts, document_ids
from ragweir.schemas.interaction import Interaction
from ragweir.schemas.judging import JudgeRequest
from ragweir.schemas.topics import MAX_EVENT_BYTES

FRAGMENTS = {MARK[at : at + 5].lower() for at in range(len(MARK) - 4)}


def quotes(message: str) -> bool:
    """Whether a message holds even a part of the planted mark."""
    return any(fragment in message.lower() for fragment in FRAGMENTS)


def rejection(value: bytes | None) -> Rejected:
    with pytest.raises(Rejected) as caught:
        decode(value)
    return caught.value


@pytest.mark.parametrize("poison", POISON, ids=lambda poison: poison.name)
def test_poison_is_rejected_with_its_class_and_a_plain_reason(poison: Poison) -> None:
    """Every kind of poison has one error class and a short sentence, which holds nothing of the poison."""
    rejected = rejection(poison.value)
    assert rejected.error_class == poison.error_class
    assert 10 < len(rejected.message) < 500
    assert set(rejected.message) <= set(string.printable) - set("\r\n\t\x0b\x0c")
    assert not quotes(rejected.message)
    for word in ("Traceback", "pydantic", "instance of", "tuple", "dictionary", "raised"):
        assert word not in rejected.message
    assert rejected.__context__ is None or rejected.__suppress_context__  # a chained error would show the input


def test_every_field_has_wrong_values_in_the_table() -> None:
    """The table of poison knows every field of the interaction, so that a new field cannot be forgotten."""
    assert WRONG.keys() | ANYTHING == Interaction.model_fields.keys()


@pytest.mark.parametrize("name", REPAIRED)
def test_what_is_optional_never_costs_an_event(name: str) -> None:
    """An event in which something optional is wrong is read, flagged, and its flags quote nothing of it."""
    event = decode(REPAIRED[name])
    assert event.event_id == "event-1"
    assert event.flags
    assert set(event.flags) <= REPAIRS


def test_a_reason_names_the_field_and_the_map() -> None:
    """A reason says which of our fields is wrong, and what to write in the map where the event has it elsewhere."""
    assert rejection(event(ended_at=MARK)).message == (
        "ended_at: not a time: write RFC 3339, or a number of s, ms, us or ns since 1970; "
        'if the event has it elsewhere, say where in the map of input.map: ended_at = "PATH"'
    )
    both = rejection(event(query=[MARK], response=True)).message
    assert both.startswith("query: not text; response: not text; ")
    assert both.endswith(': query = "PATH", response = "PATH"')
    assert rejection(b"[]").message == "the event: must be an object"
    assert "contexts" not in rejection(event(query=[MARK], contexts={"a": MARK})).message


def test_a_record_of_the_schema_registry_is_named_as_such() -> None:
    """Avro and Protobuf behind a Schema Registry header are told from broken JSON, with the id of their schema."""
    rejected = rejection(b"\0\0\0\1\7" + MARK.encode())
    assert rejected.error_class == "not_json"
    assert rejected.message == (
        "not JSON: it begins like a record of Confluent's Schema Registry (magic byte 0, schema id 263), "
        "such as Avro or Protobuf; only JSON is read"
    )
    assert rejection(b"\0\0\0").message.startswith("not JSON: unexpected")


def test_fifty_megabytes_cost_no_memory() -> None:
    """An event far over the limit is rejected before anything is made of it; what is kept is its head."""
    value = fifty_megabytes()
    tracemalloc.start()
    rejected = rejection(value)
    head, length, digest = kept_bytes(value, MAX_EVENT_BYTES)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rejected.error_class == "too_large"
    assert head == value[:HEAD_BYTES]
    assert length == len(value)
    assert digest is not None
    assert peak < 1024 * 1024


def test_the_limit_is_a_limit() -> None:
    """An event of exactly the limit is read, one byte more is not; a record is kept whole up to the same size."""
    value = event(query="")
    full = event(query="x" * (MAX_EVENT_BYTES - len(value)))
    assert len(full) == MAX_EVENT_BYTES
    assert decode(full).event_id == "event-1"
    assert rejection(full + b" ").error_class == "too_large"
    assert kept_bytes(full, MAX_EVENT_BYTES) == (full, None, None)
    assert kept_bytes(full + b" ", MAX_EVENT_BYTES)[1] == MAX_EVENT_BYTES + 1


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from([*Interaction.model_fields, "unknown"])


@given(st.binary(max_size=400))
@example(b"\x00")
def test_any_bytes_are_survived(value: bytes) -> None:
    """Whatever bytes arrive, decoding gives an interaction or `Rejected`, and nothing else."""
    try:
        decode(value)
    except Rejected as rejected:
        assert rejected.error_class in ("not_json", "invalid")  # noqa: PT017 - reading it is as right as rejecting it


_INNER = "text rank page score relevant kind role started_at ended_at error input_tokens relevant_ids confidence field"
parts = st.fixed_dictionaries({}, optional=dict.fromkeys(_INNER.split(), json_values))
near = json_values | parts | st.lists(parts | json_values, max_size=4)


@pytest.mark.slow
@given(st.dictionaries(fields, near, max_size=6))
def test_any_json_is_survived(given_fields: dict[str, Any]) -> None:
    """Whatever values the fields have, only required ones cost an event; what is read is as written, and read again."""
    try:
        value = orjson.dumps(GOOD | given_fields)
    except TypeError:  # orjson does not write integers beyond 64 bits
        return
    try:
        decoded = decode(value)
    except Rejected as rejected:
        assert rejected.error_class == "invalid"  # noqa: PT017 - reading it is as right as rejecting it
        assert given_fields.keys() & REQUIRED
    else:
        assert set(decoded.flags) <= REPAIRS
        again = decode(encode(decoded))
        assert encode(again) == encode(decoded)
        assert set(again.flags) <= {"time_implausible"}, "what was repaired once needs no repair"


@given(
    fields.filter(lambda field: field != "unknown"),
    st.recursive(
        st.just(MARK) | st.integers(-9, 9) | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([MARK, "text", "kind"]), inner),
        max_leaves=6,
    ),
)
def test_no_reason_quotes_the_event(field: str, value: Any) -> None:
    """A mark planted in values and keys of any field never shows in the reason."""
    try:
        decode(event(**{field: value}))
    except Rejected as rejected:
        assert not quotes(rejected.message)  # noqa: PT017 - reading it is as right as rejecting it


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

TIMES = (
    ("2026-11-21T10:00:00Z", "2026-11-21T10:00:00+00:00"),
    ("2026-11-21t10:00:00z", "2026-11-21T10:00:00+00:00"),
    ("2026-11-21 10:00:00Z", "2026-11-21T10:00:00+00:00"),
    ("2026-11-21T10:00:00", "2026-11-21T10:00:00+00:00"),
    ("2026-11-21T10:00:00.1Z", "2026-11-21T10:00:00.100000+00:00"),
    ("2026-11-21T10:00:00.123456789Z", "2026-11-21T10:00:00.123456+00:00"),
    ("2026-11-21T10:00:00+05:30", "2026-11-21T04:30:00+00:00"),
    ("2026-11-21T10:00:00-08:00", "2026-11-21T18:00:00+00:00"),
    ("2026-11-21T10:00:00-00:00", "2026-11-21T10:00:00+00:00"),
    ("2026-11-21T23:59:59.999999+00:00", "2026-11-21T23:59:59.999999+00:00"),
    ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00+00:00"),
    ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00+00:00"),
    ("2016-12-31T15:59:60.25-08:00", "2017-01-01T00:00:00.250000+00:00"),
    ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
    ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
    (0, "1970-01-01T00:00:00+00:00"),
    (-1, "1969-12-31T23:59:59+00:00"),
    (1_764_000_000, "2025-11-24T16:00:00+00:00"),
    (1_764_000_000.25, "2025-11-24T16:00:00.250000+00:00"),
    (1_764_000_000_250, "2025-11-24T16:00:00.250000+00:00"),
    (1_764_000_000_250.5, "2025-11-24T16:00:00.250500+00:00"),
    (1_764_000_000_999.9999, "2025-11-24T16:00:01+00:00"),
    (1_764_000_000_250_001, "2025-11-24T16:00:00.250001+00:00"),
    (1_764_000_000_250_001_999, "2025-11-24T16:00:00.250001+00:00"),
    (999.9999996, "1970-01-01T00:16:40+00:00"),
    (-0.25, "1969-12-31T23:59:59.750000+00:00"),
    (99_999_999_999, "5138-11-16T09:46:39+00:00"),
    (100_000_000_000, "1973-03-03T09:46:40+00:00"),
    (99_999_999_999_999, "5138-11-16T09:46:39.999000+00:00"),
    (100_000_000_000_000, "1973-03-03T09:46:40+00:00"),
    (99_999_999_999_999_999, "5138-11-16T09:46:39.999999+00:00"),
    (100_000_000_000_000_000, "1973-03-03T09:46:40+00:00"),
    (-62_135_596_800, "0001-01-01T00:00:00+00:00"),
    (9_223_372_036_854_775_807, "2262-04-11T23:47:16.854775+00:00"),
    ("1764000000", "2025-11-24T16:00:00+00:00"),
    ("1764000000.25", "2025-11-24T16:00:00.250000+00:00"),
    ("1764000000250", "2025-11-24T16:00:00.250000+00:00"),
    ("1764000000250001999", "2025-11-24T16:00:00.250001+00:00"),
    ("1701123101010", "2023-11-27T22:11:41.010000+00:00"),
    ("20261121", "2026-11-21T00:00:00+00:00"),
    ("-1", "1969-12-31T23:59:59+00:00"),
)

NO_TIMES = (
    "",
    " ",
    "now",
    "10:00",
    "17640000",
    "1.764e9",
    "1_764_000_000",
    "0x691d",
    "١٧٦٤٠٠٠٠٠٠",
    "9" * 30,
    "9" * 100_000,
    "2026-11-21T25:00:00Z",
    "2026-11-21T10:60:00Z",
    "2026-11-21T10:00:60Z",
    "2026-11-21T10:00:61Z",
    "2026-02-29T00:00:00Z",
    "2026-11-21T10:00:00+25:00",
    " 2026-11-21T10:00:00Z",
    "2026-11-21T10:00:00Z ",
    "٢٠٢٦-11-21T10:00:00Z",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:60Z",
    "0001-01-01T00:00:00+01:00",
    "9999-12-31T23:59:59-01:00",
    -62_135_596_801,
    10**30,
    1e308,
    True,
    [],
    {},
)


@pytest.mark.parametrize(("sent", "read"), TIMES)
def test_a_time_is_read(sent: str | float, read: str) -> None:
    """RFC 3339 text and numbers in any of four units are read as an instant in UTC, whole microseconds kept."""
    time = decode(event(ended_at=sent)).ended_at
    assert time is not None
    assert time.isoformat() == read
    assert time.tzinfo is UTC


@pytest.mark.parametrize("sent", NO_TIMES, ids=str)
def test_no_time_is_rejected(sent: object) -> None:
    """What is no time, or lies outside the years 1 to 9999, is rejected by the field's name."""
    sent = float(sent) if isinstance(sent, int) and not isinstance(sent, bool) else sent
    assert rejection(event(ended_at=sent)).message.startswith("ended_at: ")


@given(st.integers(946_684_800_000_000, 4_102_444_799_999_999), st.booleans())
def test_epoch_numbers_are_exact(microseconds: int, as_text: bool) -> None:
    """No whole microsecond of the plausible years is lost in reading, in whichever unit, as a number or as text."""
    sent = {10**6: microseconds // 10**6, 10**3: microseconds // 10**3, 1: microseconds}
    for scale, number in sent.items():
        time = decode(event(ended_at=str(number) if as_text else number)).ended_at
        assert time == _EPOCH + timedelta(microseconds=number * scale)
    nanoseconds = microseconds * 1_000 + 999
    time = decode(event(ended_at=str(nanoseconds) if as_text else nanoseconds)).ended_at
    assert time == _EPOCH + timedelta(microseconds=microseconds)


def test_the_event_time_is_the_end_else_the_start_else_the_records() -> None:
    """An event's time is `ended_at`, else `started_at`, else its record's timestamp, else it has none."""
    both = decode(event(started_at=1_000))
    assert event_time(both, 5_000) == both.ended_at
    start = decode(event(ended_at=None, started_at=1_000))
    assert event_time(start, 5_000) == datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)
    neither = decode(event(ended_at=None))
    assert event_time(neither, 5_000) == datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC)
    for absurd in (None, -1, 2**62, 2**80):
        with pytest.raises(Rejected) as caught:
            event_time(neither, absurd)
        assert caught.value.error_class == "no_time"


def test_unknown_fields_are_kept() -> None:
    """A field that nobody knows is no error: it stands under `extra`, beside what the event itself has there."""
    assert decode(event(zone="eu", answer={"a": [1]})).extra == {"zone": "eu", "answer": {"a": [1]}}
    assert decode(event(extra={"a": 1}, b=2)).extra == {"a": 1, "b": 2}
    assert decode(event(extra={"a": 1}, a=2)).extra == {"a": 2}
    assert decode(event()).extra == {}


@pytest.mark.parametrize("value", [None, MARK, 5, [1, 2], True])
def test_an_extra_of_the_applications_own_is_kept(value: object) -> None:
    """An `extra` that is no object is a field of the application's own, and kept like any other."""
    assert decode(event(extra=value)).extra == {"extra": value}
    assert decode(event(extra=value, b=2)).extra == {"extra": value, "b": 2}


READ = (
    ({"event_id": 7}, "event_id", "7"),
    ({"event_id": 2**64 - 1}, "event_id", "18446744073709551615"),
    ({"event_id": "x" * 200}, "event_id", "x" * 200),
    ({"labels": {"a": 1, "b": 2.5}}, "labels", {"a": "1", "b": "2.5"}),
    ({"expected": "Ada"}, "expected", ("Ada",)),
    ({"expected": []}, "expected", ()),
    ({"error": {"code": [1]}}, "error", '{"code":[1]}'),
    ({"contexts": None}, "contexts", None),
    ({"contexts": []}, "contexts", ()),
    ({"query": ""}, "query", ""),
    ({"query": "\x00\u2028\U0001f600"}, "query", "\x00\u2028\U0001f600"),
)


@pytest.mark.parametrize(("sent", "field", "read"), READ)
def test_what_is_not_wrong_is_read(sent: dict[str, Any], field: str, read: object) -> None:
    """Ids and labels may be numbers, an answer may be one or many, absent is None and empty is empty."""
    assert getattr(decode(event(**sent)), field) == read


def test_a_context_may_be_any_json() -> None:
    """What is not text is read as its compact JSON, up to the depth that can be written."""
    texts = [{"text": value} for value in ({"b": 1, "a": [1.5, None]}, ["x"], 5, True, "plain")]
    contexts = decode(event(contexts=texts)).contexts
    assert contexts is not None
    assert [each.text for each in contexts] == ['{"b":1,"a":[1.5,null]}', '["x"]', "5", "true", "plain"]
    assert [each.text for each in decode(event(contexts=[{"text": None}, {}])).contexts or ()] == [None, None]
    assert decode(nested(250)).contexts is not None


def test_the_last_of_equal_keys_counts() -> None:
    """A key that stands twice is read as most parsers read it: the last one counts."""
    assert decode(event()[:-1] + b',"query":"second"}').query == "second"


@pytest.mark.slow
@given(st.lists(st.floats(0, 1), max_size=3), st.text(), st.datetimes(timezones=st.timezones()), st.booleans())
def test_a_record_is_written_as_its_dump(numbers: list[float], text: str, time: datetime, within: bool) -> None:
    """The bytes of a record are those of its plain dump: parts within parts, tuples, times and nulls alike."""
    because = tuple(text[:place] for place in range(len(numbers)))
    suites = tuple(SuiteDecision(suite=text, status="selected", probability=p, because=because) for p in numbers)
    evaluation = Evaluation(
        event_id=text,
        event_time=time,
        labels={text: text},
        scores={text: None, "n": sum(numbers)},
        decision=Decision(suites=suites),
        text=Texts(query=text, response="", contexts=because) if within else None,
        catalogue_version="1",
    )
    request = JudgeRequest(evaluation=evaluation, query=text, response=text, expected=because or None)
    dumped, requested = evaluation.model_dump(), request.model_dump()
    del requested["anchor"], requested["documents"], requested["chunks"]
    for each in (dumped, requested["evaluation"]):
        del (
            each["undefined"],
            each["facets"],
            each["probabilities"],
        )  # Empty, and left out then, as `row` and `row_digest` are where null.
        for suite in each["decision"]["suites"]:
            del suite["row"], suite["row_digest"]
    for record, plain in ((evaluation, dumped), (request, requested)):
        assert encode(record) == orjson.dumps(plain, option=orjson.OPT_UTC_Z)


def test_plain_data_too_deep_to_be_written_is_rejected() -> None:
    """What parses can be too deep to be written; that too is a reason and no other error."""
    deep = parse(nested(1_000))
    with pytest.raises(Rejected, match="nested too deeply"):
        encode_json(deep)
    assert encode_json(parse(nested(200))) == nested(200)


def test_documents_are_by_rank_and_sixteen() -> None:
    """An evaluation names at most 16 documents, the best rank first, the list's order where no rank says otherwise."""
    ranked = [{"document_id": f"d{number}", "rank": 40 - number} for number in range(40)]
    named = document_ids(decode(event(contexts=ranked)))
    assert named == tuple(f"d{number}" for number in range(39, 39 - MAX_DOCUMENT_IDS, -1))
    unranked = [{"document_id": "b"}, {"document_id": None}, {"document_id": "a"}, {"document_id": "b"}]
    assert document_ids(decode(event(contexts=unranked))) == ("b", "a")
