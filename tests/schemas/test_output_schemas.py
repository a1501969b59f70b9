"""Our own records in the formats of a registry: what a reader of each gets is what the JSON has."""

import math
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest
from google.protobuf import json_format
from pydantic import BaseModel, Field

from ragweir.schemas import export
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.registry.output_protobuf import field_numbers, message_type, with_new_fields
from ragweir.schemas.registry.output_schemas import RECORDS, as_text, avro_schema
from ragweir.schemas.registry.output_writers import writer
from ragweir.schemas.registry.protobuf import protobuf_reader
from ragweir.schemas.times import parse_rfc3339
from ragweir.schemas.window import Window

GOLDEN = Path(__file__).parent.parent / "golden"
FILES = {
    "evaluations": ["evaluation.json", "evaluation_by_row.json"],
    "windows": ["window.json", "window_without_estimates.json", "window_without_selection.json"],
}
CASES = [(name, file) for name, files in FILES.items() for file in files]
TIMES = {"event_time", "start", "end"}
SUMS = set("sum sum_squares weight weighted_sum drawn_sum spread spread_sum spread_squares".split())


def read_avro(model: type[BaseModel], value: bytes) -> Any:
    data = BytesIO(value)
    found = fastavro.schemaless_reader(data, fastavro.parse_schema(avro_schema(model)), None)
    assert not data.read()
    return found


def expected(model: type[BaseModel], value: bytes) -> Any:
    """Return the record that the model reads, with all its defaults."""
    return model.model_validate_json(value).model_dump(mode="python")


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """Return the values of a record that are not those of an absent field, by path; numbers as floats."""
    if isinstance(value, dict):
        parts = [each for name, own in value.items() for each in leaves(own, (*path, name)).items()]
        return dict(parts)
    if isinstance(value, list | tuple):
        return dict(each for number, own in enumerate(value) for each in leaves(own, (*path, number)).items())
    if isinstance(value, datetime):
        value = value.timestamp()
    elif path[-1] in TIMES and isinstance(value, str):
        value = parse_rfc3339(value).timestamp()
    elif isinstance(value, int | float) or path[-1] in SUMS:
        value = float(value or 0)
    return {path: value} if value else {}


@pytest.mark.parametrize(("name", "file"), CASES)
def test_avro_has_what_json_has(name: str, file: str) -> None:
    value = (GOLDEN / file).read_bytes()
    model = RECORDS[name]
    found = read_avro(model, writer(model, "avro").write(value))
    assert leaves(found) == leaves(expected(model, value))
    assert found.keys() == model.model_fields.keys()


@pytest.mark.parametrize(("name", "file"), CASES)
def test_protobuf_has_what_json_has(name: str, file: str) -> None:
    value = (GOLDEN / file).read_bytes()
    made = message_type(avro_schema(RECORDS[name]), field_numbers())
    found = json_format.MessageToDict(made.message(orjson.loads(value)), preserving_proto_field_name=True)
    unboxed = {tuple(part for part in path if part != "value"): each for path, each in leaves(found).items()}
    wanted = leaves(expected(RECORDS[name], value))
    # The digits of 64-bit integers are texts in Protobuf's JSON.
    assert unboxed == {
        path: str(int(each)) if isinstance(unboxed.get(path), str) and isinstance(each, float) else each
        for path, each in wanted.items()
    }


def test_numbers_beyond_a_type_are_the_nearest() -> None:
    """The digits of a sum that no float has are a text in JSON; tokens come from an endpoint."""
    window = orjson.loads((GOLDEN / "window.json").read_bytes())
    name = next(iter(window["metrics"]))
    window["metrics"][name] |= {"sum": "36028797018963969", "sum_squares": "1" + 400 * "0"}
    value = orjson.dumps(window)
    sums = read_avro(Window, writer(Window, "avro").write(value))["metrics"][name]
    assert (sums["sum"], sums["sum_squares"]) == (36028797018963968.0, math.inf)
    message = message_type(avro_schema(Window), field_numbers()).message(window)
    assert (message.metrics[name].sum, message.metrics[name].sum_squares) == (36028797018963968.0, math.inf)  # type: ignore[attr-defined]
    evaluation = orjson.loads((GOLDEN / "evaluation.json").read_bytes())
    evaluation["judge"]["input_tokens"] = 2**64 - 1
    value = orjson.dumps(evaluation)
    assert read_avro(Evaluation, writer(Evaluation, "avro").write(value))["judge"]["input_tokens"] == 2**63 - 1
    proto = message_type(avro_schema(Evaluation), field_numbers()).message(evaluation)
    assert proto.judge.input_tokens == 2**63 - 1  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", RECORDS)
def test_a_reader_of_protobuf_needs_only_the_registered_text(name: str) -> None:
    """Our own reader, of other people's messages, finds the message at its place in the text."""
    model = RECORDS[name]
    own = writer(model, "protobuf")
    made = message_type(avro_schema(model), field_numbers())
    value = (GOLDEN / FILES[name][0]).read_bytes()
    found = protobuf_reader(own.schema.text, made.pool)(own.write(value))
    assert isinstance(found, dict)
    assert found.keys() <= set(model.model_fields)


def test_numbers_of_fields_are_written_down() -> None:
    """`python -m ragweir.schemas.export` adds new fields; a number never changes."""
    assert export.NUMBERS.read_bytes() == export.numbers()
    for own in field_numbers().values():
        assert len({*own.values()}) == len(own)


class More(Evaluation):
    """An evaluation of a later release."""

    new: str | None = None
    counts: dict[str, int] = Field(default_factory=dict)


More.__name__ = "Evaluation"


def test_readers_of_either_release_read_the_other() -> None:
    """A field that is added has a default, so that the registry's FULL_TRANSITIVE holds."""
    value = (GOLDEN / "evaluation.json").read_bytes()
    old, new = fastavro.parse_schema(avro_schema(Evaluation)), fastavro.parse_schema(avro_schema(More))
    later = orjson.dumps(orjson.loads(value) | {"new": "text", "counts": {"a": 1}})
    by_old = fastavro.schemaless_reader(BytesIO(writer(More, "avro").write(later)), new, old)
    assert by_old == read_avro(Evaluation, writer(Evaluation, "avro").write(value))
    by_new = fastavro.schemaless_reader(BytesIO(writer(Evaluation, "avro").write(value)), old, new)
    assert isinstance(by_new, dict)
    assert (by_new["new"], by_new["counts"]) == (None, {})
    numbers = with_new_fields(field_numbers(), avro_schema(More))
    assert numbers["Evaluation"].items() > field_numbers()["Evaluation"].items()


def test_every_field_that_can_be_absent_has_a_default() -> None:
    """Fields without one are those that the model requires."""
    for model in RECORDS.values():
        required = {name for name, field in model.model_fields.items() if field.is_required()}
        own = {field["name"]: field for field in avro_schema(model)["fields"]}
        assert {name for name, field in own.items() if "default" not in field} <= required
        assert as_text(avro_schema(model)) == writer(model, "avro").schema.text
