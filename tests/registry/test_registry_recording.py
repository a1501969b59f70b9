"""A real registry takes our schemas and their successors, and says what the recorded exchange of `make test` says."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from registry_exchange import FILE, recorded

from ragweir.errors import RegistryUnusable
from ragweir.schemas.evaluation import Evaluation
from ragweir.schemas.registry.output_protobuf import field_numbers, message_type, with_new_fields
from ragweir.schemas.registry.output_schemas import RECORDS, as_text, avro_schema
from ragweir.schemas.registry.schema import FORMATS, Schema
from ragweir.streams.runtime.registry.client import RegistryClient
from ragweir.streams.runtime.registry.output import register, registered
from ragweir.streams.settings import Settings
from tools.schema_registry import Registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with Registry(tmp_path_factory.mktemp("registry")) as started:
        yield started


def test_the_recorded_exchange_is_true(tmp_path: Path) -> None:
    """RECORD=1 writes it anew."""
    with Registry(tmp_path) as registry:
        said, exchange = recorded(registry.url)
    found = {"said": said, "exchange": exchange}
    if os.environ.get("RECORD"):
        FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    assert found == json.loads(FILE.read_text())


@pytest.mark.parametrize("form", FORMATS)
def test_own_schemas_are_registered_once(form: str, registry: Registry) -> None:
    settings = Settings(output={"format": form}, registry={"url": registry.url})
    assert set(registered(settings).values()) == {None}
    ids = register(settings)
    assert register(settings) == registered(settings) == ids
    assert len({*ids.values()}) == len(RECORDS)


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_a_field_more_is_compatible_and_another_type_is_not(form: str, registry: Registry) -> None:
    """As `topics create` of a later release asks."""
    settings = Settings(output={"format": form}, registry={"url": registry.url}, topics={"prefix": f"{form}."})
    ids = register(settings)
    subject = f"{form}.evaluations.{form}-value"
    schema = avro_schema(Evaluation)
    schema["fields"].append({"name": "new", "type": ["null", "string"], "default": None})
    with RegistryClient(settings.registry) as client:
        assert client.register(subject, _schema(form, schema)) != ids[subject]
        field = next(each for each in schema["fields"] if each["name"] == "catalogue_version")
        field["type"] = "double"
        with pytest.raises(RegistryUnusable, match="does not take the schema"):
            client.register(subject, _schema(form, schema))


def _schema(form: str, schema: dict[str, Any]) -> Schema:
    if form == "avro":
        return Schema("AVRO", as_text(schema))
    return Schema("PROTOBUF", message_type(schema, with_new_fields(field_numbers(), schema)).text)
