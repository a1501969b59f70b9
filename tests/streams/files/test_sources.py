"""Files: the same events from every format, compression and encoding, and from hostile ones one clear error each."""

import bz2
import csv
import gzip
import io
import itertools
import json
import lzma
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import orjson
import pytest
from backports import zstd
from hypothesis import example, given, settings
from hypothesis import strategies as st
from poison import event

from ragweir.errors import Rejected, UnreadableFile
from ragweir.metrics.catalogue import Catalogue, everything
from ragweir.schemas.codec.json import encode
from ragweir.schemas.topics import MAX_EVENT_BYTES
from ragweir.streams.files.events import EventReader, is_plain, read_events
from ragweir.streams.files.folders import data_files
from ragweir.streams.files.json_values import read_values
from ragweir.streams.runtime.records import Record
from ragweir.streams.services.evaluate.agent import EvaluateAgent, EvaluateConfig

MIB = 1024 * 1024
Rows = list[dict[str, str]]
Write = Callable[[Rows], bytes]


def read(content: bytes, name: str = "file", max_bytes: int = MAX_EVENT_BYTES) -> tuple[list[bytes], EventReader]:
    """The events of a content, and their reader."""
    reader = EventReader(io.BytesIO(content), name, max_bytes)
    return [value for _, value in reader], reader


def parsed(content: bytes, name: str = "file") -> list[Any]:
    return [orjson.loads(value) for value in read(content, name)[0]]


# Formats.


def json_lines(rows: Rows) -> bytes:
    return b"".join(orjson.dumps(row) + b"\r\n" for row in rows)


def pretty(rows: Rows) -> bytes:
    return json.dumps(rows, indent=4).encode()


def pretty_objects(rows: Rows) -> bytes:
    return b"\n".join(orjson.dumps(row, option=orjson.OPT_INDENT_2) for row in rows)


def names_of(rows: Rows) -> list[str]:
    return list(dict.fromkeys(itertools.chain(*rows)))


def table(delimiter: str) -> Write:
    def write(rows: Rows) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, names_of(rows), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()

    return write


def parquet(rows: Rows) -> bytes:
    """Fields that a row lacks are null."""
    names = names_of(rows)
    with duckdb.connect() as db, TemporaryDirectory() as folder:
        db.execute("create table made ({})".format(", ".join(f'"{name}" varchar' for name in names)))
        places = ", ".join("?" * len(names))
        db.executemany(f"insert into made values ({places})", [[row.get(name) for name in names] for row in rows])
        db.execute(f"copy made to '{folder}/made' (format parquet)")
        return Path(folder, "made").read_bytes()


FORMATS: dict[str, tuple[str, Write]] = {
    "a.jsonl": ("JSON lines", json_lines),
    "lines": ("JSON lines", json_lines),
    "lines.csv": ("JSON lines", json_lines),
    "a.json": ("JSON", orjson.dumps),
    "array.jsonl": ("JSON", pretty),
    "objects": ("JSON", pretty_objects),
    "a.csv": ("CSV", table(",")),
    "semicolons.csv": ("CSV", table(";")),
    "a.tsv": ("TSV", table("\t")),
    "unnamed": ("CSV", table("|")),
    "a.parquet": ("Parquet", parquet),
    "parquet.csv": ("Parquet", parquet),
}

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
ROW = st.fixed_dictionaries(
    {"event_id": TEXT, "query": TEXT, "response": TEXT}, optional={"session_id": TEXT, "ended_at": TEXT}
)
CONFIG = EvaluateConfig(Catalogue(everything()), default_time=datetime(2026, 11, 21, tzinfo=UTC))
QUOTED = {"event_id": "1", "query": 'a "quoted", text;\r\n\ttwo | lines', "response": ']}],[{\\"\\ \x85\u2028'}
FULL = {"event_id": "0", "query": "Who?", "response": "Ada.", "session_id": "s", "ended_at": "1764000000250"}


def as_read(rows: Rows, kind: str) -> list[dict[str, str | None]]:
    """The rows as they are read: fields that a row lacks are null in Parquet, and absent elsewhere."""
    return [{**(dict.fromkeys(names_of(rows)) if kind == "Parquet" else {}), **row} for row in rows]


def evaluations(values: list[bytes]) -> list[bytes | str]:
    """What becomes of events: an evaluation or a reason."""
    agent = EvaluateAgent(CONFIG)
    found = (each for value in values for each in agent.evaluate(Record("t", 0, 1, None, value, None)))
    return [each.message if isinstance(each, Rejected) else encode(each[0]) for each in found]


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "expected"), FORMATS.items(), ids=FORMATS)
@settings(max_examples=10, deadline=None)
@given(rows=st.lists(ROW, max_size=3))
@example(rows=[QUOTED, {"event_id": "2", "query": "\ufeff", "response": ""}])
def test_the_same_rows_of_every_format_come_to_the_same(name: str, expected: tuple[str, Write], rows: Rows) -> None:
    """Evaluations and reasons do not depend on the format. Empty texts are absent, as in CSV."""
    kind, write = expected
    rows = [FULL, *({field: text for field, text in row.items() if text} for row in rows)]
    values, reader = read(write(rows), name)
    assert reader.format.name == kind
    assert evaluations(values) == evaluations([orjson.dumps(row) for row in as_read(rows, kind)])
    assert reader.number >= len(rows)


LAYERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "gzip": gzip.compress,
    "gzip of two members": lambda content: gzip.compress(content[:99]) + gzip.compress(content[99:]),
    "Zstandard": zstd.compress,
    "Zstandard of two frames": lambda content: zstd.compress(content[:99]) + zstd.compress(content[99:]),
}
ENCODINGS = {"": "utf-8", "BOM": "utf-8-sig", "UTF-16": "utf-16", "UTF-32": "utf-32", "UTF-16 BE": "utf-16-be"}


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("name", FORMATS)
def test_compression_and_encoding_are_recognised_and_named(name: str, layer: str) -> None:
    """In any of them the rows are the same, and the format names them."""
    rows = [FULL, QUOTED]
    content = FORMATS[name][1](rows)
    for label, encoding in ENCODINGS.items():
        if FORMATS[name][0] == "Parquet" and label:
            continue
        mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
        encoded = mark + content.decode().encode(encoding) if label else content
        values, reader = read(LAYERS[layer](encoded), name)
        assert [orjson.loads(value) for value in values] == as_read(rows, FORMATS[name][0])
        layers = [label[:6]] * label.startswith("UTF") + [layer.partition(" ")[0]] * bool(layer)
        assert str(reader.format) == FORMATS[name][0] + (f" ({', '.join(layers)})" if layers else "")


def test_the_bytes_of_elements_are_those_of_the_file() -> None:
    """Big integers, numbers' spelling, repeated names and escapes are passed on as they are."""
    elements = [
        b'{"a": 123456789012345678901234567890, "a": 1.0e0}',
        b'{"a":"\\u00e4\\"[{"}',
        b"NaN",
        b'"]"',
        b"[[],{}]",
    ]
    assert read(b" [ " + b" ,\n".join(elements) + b"]\n")[0] == elements
    assert read(b'[]\n[{"a":1}]{"b":\n2} ')[0] == [b'{"a":1}', b'{"b":\n2}']


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(st.sampled_from('a"\\[]{},:\n ä')),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(st.sampled_from('"\\]}')), inner, max_size=3),
    max_leaves=8,
)


class Trickling(io.RawIOBase):
    """A source that gives a few bytes at a time."""

    def __init__(self, content: bytes, size: int) -> None:
        self._content, self._size = io.BytesIO(content), size

    def read1(self, _: int = -1) -> bytes:
        return self._content.read(self._size)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(JSON, max_size=4), st.integers(1, 9), st.sampled_from([None, 2]))
def test_elements_are_found_wherever_chunks_end(elements: list[Any], size: int, indent: int | None) -> None:
    content = json.dumps(elements, indent=indent, ensure_ascii=False).encode()
    found = list(read_values(Trickling(content, size), MAX_EVENT_BYTES))
    assert [number for number, _ in found] == list(range(1, len(elements) + 1))
    assert [json.loads(value) for _, value in found] == elements


def test_only_the_beginning_tells_a_format() -> None:
    """Further down the same bytes are a bad line like any other, and a first line that is cut off is a bad line."""
    lines = [event()[:-9], b"[]", b"{", b"\x1f\x8b", b"PAR1", b"a,b", b"\xff\xfe", b"["]
    values, reader = read(b"\n".join(lines))
    assert values == lines
    assert (reader.format.name, reader.number) == ("JSON lines", len(lines))
    assert read(b"not json, at all\n" + event())[1].format.name == "JSON lines"
    assert read(b"level,message\n" + event())[1].format.name == "JSON lines"


def test_a_table_keeps_what_a_text_cannot_say() -> None:
    """Empty cells are absent, quoted line ends and delimiters belong to cells, columns without a name get one."""
    content = b'\xef\xbb\xbf,query ,n\r\n0,"a\r\n""b"",",\r\n\r\n1,,7\r\n'
    assert parsed(content, "x.csv") == [{"column_1": "0", "query": 'a\r\n"b",'}, {"column_1": "1", "n": "7"}]
    reader = EventReader(io.BytesIO(content), "x.csv", MAX_EVENT_BYTES)
    assert [number for number, _ in reader] == [1, 2]


def test_parquet_has_null_for_a_missing_number_and_a_column_of_any_name(tmp_path: Path) -> None:
    """NaN stands for a missing number in frames; columns may have the names that the query uses."""
    query = """copy (select 'a' as t, 'nan'::double as f, ['nan'::float, 1] as l, 18446744073709551615::ubigint as n,
        'NaN' as s, 1 as "file", timestamptz '2026-01-01 02:00:00+02' as at) to '{}'"""
    with duckdb.connect() as db:
        db.execute(query.format(tmp_path / "rows[1]*.parquet"))
    (row,) = parsed((tmp_path / "rows[1]*.parquet").read_bytes())
    at = {"at": "2026-01-01 00:00:00+00"}
    assert row == {"t": "a", "f": None, "l": [None, 1.0], "n": 2**64 - 1, "s": "NaN", "file": 1} | at
    assert [value for _, value in read_events(tmp_path / "rows[1]*.parquet", 12)] == [b'{"t": "a", "f']


@pytest.mark.parametrize("value", ["[" * 3_000 + "]" * 3_000, "1" * 5_000], ids=["deep", "digits"])
def test_a_row_of_parquet_that_python_cannot_read_is_rejected_and_those_after_it_are_read(
    value: str, tmp_path: Path
) -> None:
    """It has the text NaN, which may stand for a missing number, beside a column of JSON from anywhere."""
    query = """copy (select 'e' || i as event_id, 'NaN' as query, '' as response,
        case i when 1 then ?::json else '1' end as custom from range(3) t(i)) to '{}'"""
    with duckdb.connect() as db:
        db.execute(query.format(tmp_path / "rows.parquet"), [value])
    rows = list(read_events(tmp_path / "rows.parquet", MAX_EVENT_BYTES))
    assert [number for number, _ in rows] == [1, 2, 3]
    records = [Record("t", 0, number, None, row, None) for number, row in rows]
    outcomes = [EvaluateAgent(CONFIG).handle([record]) for record in records]
    topics = [[each.topic for each in outcome.emissions] for outcome in outcomes]
    assert topics == [["evaluations"], ["dead-letter"], ["evaluations"]]


META = {"page": 1, "note": 'a "}" {', "totalItems": 2}
ITEMS = [{"id": "1", "text": '], "meta": {}}', "data": [{"id": "x"}]}, {"id": "2", "deep": [[{}]]}]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("separator", ["", "\n"])
@pytest.mark.parametrize("page", [{"data": ITEMS}, {"data": ITEMS, "meta": META}, {"meta": META, "data": ITEMS}])
def test_the_pages_of_an_api_are_unwrapped(page: dict[str, Any], separator: str, indent: int | None) -> None:
    """As they come one after another, with an empty one at the end, in chunks of any size, with numbered elements."""
    content = separator.join(json.dumps(each, indent=indent) for each in (page, page, page | {"data": []})).encode()
    values, reader = read(content)
    assert [orjson.loads(value) for value in values] == ITEMS * 2
    assert (str(reader.format), reader.format.unit, reader.number) == ("JSON pages", "element", 4)
    for size in (1, 2, 7):
        found = list(read_values(Trickling(content, size), MAX_EVENT_BYTES, pages=True))
        assert found == list(enumerate(values, 1))


@pytest.mark.parametrize("indent", [None, 1])
def test_an_event_with_a_list_is_no_page(indent: int | None) -> None:
    """One with other names, one whose list has no objects, and one without a list keep their names."""
    events = [{"data": ITEMS, "question": "Who?"}, {"data": ["x"]}, {"data": 1}, {"meta": META, "x": 1}, {"meta": 1}]
    for each in events:
        assert parsed(json.dumps(each, indent=indent).encode()) == [each]


@pytest.mark.slow
def test_a_large_page_is_read_and_a_large_event_like_one_is_rejected() -> None:
    """Of what is larger than the head of the file only its beginning tells; memory is that of an element."""
    many = [{"id": number, "text": "x" * 1_000} for number in range(2_000)]
    content = json.dumps({"data": many, "meta": META}).encode()
    assert parsed(content) == many
    tracemalloc.start()
    for _ in EventReader(io.BytesIO(content), "x", MAX_EVENT_BYTES):
        pass
    assert tracemalloc.get_traced_memory()[1] < MIB
    tracemalloc.stop()
    for rest in (b', "question": "Who?"}', b"", b"} x", b', "meta": {"a": "' + b"x" * 99_999 + b'"}}'):
        with pytest.raises(UnreadableFile, match="x: after element 2000, where the list `data` of a page ends"):
            read(json.dumps({"data": many}).encode()[:-1] + rest, "x")


@pytest.mark.parametrize(
    "header",
    [
        "Question,Nobody knows it.,2026-11-21",
        "frage,antwort",
        "Timestamp,How good is it?,Why is that so?",
        "sessionId,[x]",
    ],
)
def test_an_unusual_header_is_one(header: str) -> None:
    """A row with one usual name, or with nothing that looks like data, names the columns."""
    cells = header.split(",")
    assert parsed(f"{header}\n{','.join('x' * len(cells))}\n".encode(), "x.csv") == [dict.fromkeys(cells, "x")]


# Hostile files.

HEADER = b"id,query\n"
BROKEN: dict[str, tuple[str, bytes, int, str]] = {
    "xz": ("x", lzma.compress(event()), 0, "x is compressed (xz)"),
    "bzip2": ("x", bz2.compress(event()), 0, "x is compressed (bzip2)"),
    "lz4": ("x", b"\x04\x22\x4d\x18\x64", 0, "x is compressed (lz4)"),
    "zip": ("x.csv", b"PK\x03\x04\x14", 0, "x.csv is a zip archive or a spreadsheet"),
    "Avro": ("x", b"Obj\x01\x02", 0, "x is an Avro file"),
    "gzip twice": ("x", gzip.compress(gzip.compress(event())), 0, "x is compressed twice"),
    "half gzip": (
        "x",
        gzip.compress(b"{}\n" + os.urandom(99_999).hex().encode())[:-20],
        1,
        "data ends early, after",
    ),
    "gzip with a bad sum": (
        "x",
        gzip.compress(b"{}\n" * 9)[:-8] + bytes(8),
        1,
        "compressed data is damaged, after line",
    ),
    "gzip, then noise": ("x", gzip.compress(b"{}\n" * 9) + b"noise", 9, "the compressed data is damaged, after line 9"),
    "no gzip": ("x", b"\x1f\x8b\x08\x00" + b"\xff" * 99, 0, "x: the compressed data is damaged, after line 0"),
    "half Zstandard": ("x", zstd.compress(b"{}\n" * 9)[:-3], 0, "the compressed data ends early, after line 0"),
    "no Zstandard": ("x", b"\x28\xb5\x2f\xfd" + b"\xff" * 99, 0, "x: the compressed data is damaged, after line 0"),
    "UTF-16 unmarked": ("x", event().decode().encode("utf-16-le"), 0, "x looks like UTF-16 without a byte order mark"),
    "half UTF-16": ("x", "{}\n{}\n".encode("utf-16")[:-1], 0, "x is not valid UTF-16-LE, after line"),
    "half a surrogate": ("x", b"\xff\xfe{\0}\0\n\0\x00\xd8\x00\xd8", 0, "x is not valid UTF-16-LE, after line"),
    "half an array": ("x", b'[{"a":1},{"a":', 1, "x ends within element 2, after 1 whole ones"),
    "an open array": ("x", b'[{"a":1}', 0, "x ends within element 1, after 0 whole ones"),
    "an open string": ("x", b'[{"a":1},"\\"]', 1, "x ends within element 2"),
    "an array, then noise": ("x", b'[{"a":1}]x', 1, "x: something that is neither a JSON object nor an array follows"),
    "a bracket too many": ("x", b'[{"a":1}]]', 1, "x: something that is neither a JSON object nor an array follows"),
    "no header": ("x.csv", b"1,2\n3,4\n", 0, "x.csv has no header: its first row must name the columns, and cell 1"),
    "a text for a header": ("x.csv", b'"a\nb",c\n1,2\n', 0, "x.csv has no header"),
    "a name twice": ("x.csv", b"a,b, a\n1,2,3\n", 0, "x.csv: the columns 1 and 3 have the same name"),
    "a name twice, none usual": ("x.csv", b"a,b,a\n1,2,3\n", 0, "rename one of them, or add a first row such as"),
    "a time for a name": (
        "x.csv",
        b"q1,2026-11-21T10:00:00Z,Why\nq2,a,b\n",
        0,
        "x.csv has no header: its first row must",
    ),
    "an answer for a name": (
        "x.csv",
        b"q1,Why?,Nobody knows it.\n",
        0,
        "cell 3 of it is no name; add a first row such as id,",
    ),
    "JSON for a name": ("x.csv", b'q1,Why?,"[""x""]"\n', 0, "x.csv has no header"),
    "an id for a name": ("x.tsv", b"6f1c9f0e-27a5-4f0f-8a6e-0a8c1f3f2b11\tWhy?\n", 0, "x.tsv has no header"),
    "a short row": ("x.csv", HEADER + b"1,q\n2\n3,q\n", 1, "x.csv: row 2 (line 3) has 1 cells and the header 2"),
    "a long row": ("x.csv", HEADER + b'1,"q\nq"\n2,q,x\n', 1, "x.csv: row 2 (line 4) has 3 cells and the header 2"),
    "an open quote": ("x.csv", HEADER + b'1,q\n2,"q\n3,q\n', 1, "x.csv: row 2 (line 4) cannot be read: unexpected end"),
    "a quote within": ("x.csv", HEADER + b'1,q\n2,"q"q\n', 1, "x.csv: row 2 (line 3) cannot be read: ',' expected"),
    "a zero byte": ("x.csv", HEADER + b"1,q\n2,\0\n", 1, "x.csv: row 2 (line 3) holds a zero byte"),
    "Windows-1252": ("x.csv", HEADER + b"1,q\n2,\xe4\n", 1, "x.csv: row 2 (line 3) is not UTF-8; if it comes from"),
    "old line ends": ("x.csv", b"id,query\r1,q\r2,q\r", 0, "x.csv: row 1 (line 1) cannot be read: new-line character"),
    "half Parquet": ("x", parquet([FULL])[:-9], 0, "x cannot be read: "),
    "no Parquet": ("x", b"PAR1", 0, "x cannot be read: "),
}


@pytest.mark.parametrize(("name", "content", "least", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_gives_its_events_and_then_one_error(name: str, content: bytes, least: int, problem: str) -> None:
    """Whatever is before the fault is read; the error is one line that quotes nothing of the file."""
    reader = EventReader(io.BytesIO(content), name, MAX_EVENT_BYTES)
    with pytest.raises(UnreadableFile) as raised:
        list(reader)
    assert problem in str(raised.value)
    assert reader.number >= least
    assert "\n" not in str(raised.value)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["x", "x.csv", "x.tsv", "x.json"]),
    st.sampled_from(
        [b"", b"[", b"{\n", b"a,b\n", b"\xff\xfe", b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"PAR1", b"\0\0\xfe\xff"]
    ),
    st.binary(max_size=60),
)
def test_any_bytes_are_read_or_rejected(name: str, head: bytes, rest: bytes) -> None:
    """Nothing but the one error is raised, and no event is larger than the limit plus one."""
    try:
        values, _ = read(head + rest, name, 10)
    except UnreadableFile as error:
        assert str(error).startswith(name)  # noqa: PT017 - either is right
    else:
        assert all(len(value) <= 11 for value in values)


# Memory.


class Endless(io.RawIOBase):
    """A file of any size that costs no memory: a head, the same bytes again and again, and a tail."""

    def __init__(self, head: bytes, again: bytes, size: int, tail: bytes = b"") -> None:
        part = again * (64 * 1024 // len(again))
        self._parts = itertools.chain([head], itertools.repeat(part, size // len(part)), [tail])
        self._rest = b""

    def read1(self, size: int = -1) -> bytes:
        while not self._rest and (part := next(self._parts, None)) is not None:
            self._rest = part
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


SIZE = 64 * MIB
HUGE: dict[str, tuple[str, Callable[[], Any], list[int]]] = {
    "a line": ("x", lambda: Endless(b"{}\n", b"x", SIZE, b"\n{}"), [2, 1001, 2]),
    "a line of zeros": ("x", lambda: Endless(b"{}\n", b"\0", SIZE, b"\n{}"), [2, 1001, 2]),
    "an element": ("x", lambda: Endless(b'[{},"', b"x", SIZE, b'",{}]'), [2, 1001, 2]),
    "an element that is deep": ("x", lambda: Endless(b"[{},", b"[", SIZE // 256), [2]),
    "an element of strings": ("x", lambda: Endless(b"[{},[", b'"\\"",', SIZE // 256, b"0],{}]"), [2, 1001, 2]),
    "white space": ("x", lambda: Endless(b"[{},", b" ", SIZE, b"{}]"), [2, 2]),
    "white space first": ("x", lambda: Endless(b"", b"\n", SIZE // 256, b"{}"), [2]),
    "a quoted cell": ("x.csv", lambda: Endless(b'a,b\n1,2\n1,"', b"x\n", SIZE), [17]),
    "many quoted cells": ("x.csv", lambda: Endless(b'a,b\n1,2\n1,"', b'x","\n', SIZE), [17]),
    "a header": ("x.csv", lambda: Endless(b"", b"a,", SIZE), []),
    "a bomb": ("x", lambda: io.BytesIO(gzip.compress(b"{}\n" + bytes(SIZE) + b"\n{}")), [2, 1001, 2]),
    "another bomb": ("x", lambda: io.BytesIO(zstd.compress(b"[{}," + b"1" * SIZE + b",{}]")), [2, 1001, 2]),
}


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "make", "sizes"), HUGE.values(), ids=HUGE)
def test_memory_is_bounded_whatever_has_no_end(name: str, make: Callable[[], Any], sizes: list[int]) -> None:
    """64 MiB in one piece are read within 4 MiB; the events around it are there, and it itself is cut."""
    source, found = make(), []
    tracemalloc.start()
    try:
        for _, value in EventReader(source, name, 1_000):
            found.append(len(value))
    except UnreadableFile:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == sizes
    assert peak < 4 * MIB, f"{peak / MIB:.1f} MiB"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "head", "again", "tail", "size"),
    [
        ("x", b"", b'{"a":1}\n', b"", 8),
        ("x", b"[", b'{"a":1},', b"1]", 8),
        ("x.csv", b"a,b\n", b"1,2\n", b"", 4),
    ],
    ids=["lines", "an array", "a table"],
)
def test_memory_does_not_depend_on_the_number_of_events(
    name: str, head: bytes, again: bytes, tail: bytes, size: int
) -> None:
    """Tens of thousands of events are read within half a megabyte."""
    tracemalloc.start()
    events = sum(1 for _ in EventReader(Endless(head, again, MIB // 4, tail), name, MAX_EVENT_BYTES))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert events == MIB // 4 // size + bool(tail)
    assert peak < MIB // 2


# Pipes, folders and progress.


def test_a_pipe_is_read_as_it_is_written() -> None:
    """Each line is an event before the next one is written, plain and in UTF-16; nothing is read ahead."""
    for mark, encoding in ((b"", "utf-8"), (b"\xff\xfe", "utf-16-le")):
        reading, writing = os.pipe()
        with open(reading, "rb") as source, open(writing, "wb", buffering=0) as sink:  # noqa: PTH123 - descriptors
            sink.write(mark)
            events = iter(EventReader(source, "-", MAX_EVENT_BYTES))
            for number in range(1, 4):
                sink.write(f'{{"a": {number}}}\n'.encode(encoding))
                assert next(events) == (number, f'{{"a": {number}}}'.encode())


@pytest.mark.slow
def test_progress_is_that_of_the_compressed_bytes(tmp_path: Path) -> None:
    """The bytes that are told come to the size of the file, whatever is in it."""
    for name, content in {
        "x.jsonl": json_lines([FULL] * 50),
        "x.csv.gz": gzip.compress(table(",")([FULL] * 5_000)),
        "x.json.zst": zstd.compress(pretty([FULL] * 5_000)),
        "x.parquet": parquet([FULL] * 50),
        "x.parquet.gz": gzip.compress(parquet([FULL] * 50)),
    }.items():
        (tmp_path / name).write_bytes(content)
        told: list[int] = []
        assert len(list(read_events(tmp_path / name, MAX_EVENT_BYTES, told.append))) in (50, 5_000)
        assert sum(told) == len(content), name
        assert min(told) >= 0, name


def test_the_data_files_of_a_folder_are_found_by_name(tmp_path: Path) -> None:
    names = ["b.jsonl", "a.csv.gz", "c.PARQUET", "notes.txt", ".hidden", "d.json", "_SUCCESS"]
    for name in names:
        (tmp_path / name).touch()
    (tmp_path / "e.csv").mkdir()
    files, others = data_files(tmp_path)
    assert [file.name for file in files] == ["a.csv.gz", "b.jsonl", "c.PARQUET", "d.json"]
    assert others == [".hidden", "_SUCCESS", "e.csv", "notes.txt"]


def test_a_plain_file_is_one_that_any_program_reads(tmp_path: Path) -> None:
    contents = {b"": True, b"{}\n": True, b"\xef\xbb\xbf{}": False, gzip.compress(b"{}"): False, b"[{}]": False}
    for content, plain in contents.items():
        (tmp_path / "file").write_bytes(content)
        assert is_plain(tmp_path / "file") is plain, content
